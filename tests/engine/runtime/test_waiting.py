"""What a processor waits for: the least frontiers at which pending occurrences become notifications (section 14)."""

from __future__ import annotations

import re
from functools import partial
from itertools import islice, pairwise

import pytest
from tests.builders import SECOND, event_row, record_batch

from motet.engine.runtime.processor import Processor
from motet.fuzz.cases import random_cases
from motet.fuzz.processor_engines import CaseLog, log_records
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.model.batches import Records, tick_record
from motet.model.terms import RDF_TYPE
from motet.model.timeline import LogRecords
from motet.model.times import END_OF_TIME

# Pattern, context, events as class and second, and the second after which the last notification is final.
FAMILIES = [
    ("a BEFORE b WITHIN 5 s", "recent", "a1 b4", 4),
    ("a AND b WITHIN 5 s", "chronicle", "b1 a4", 4),
    ("a ALONGSIDE b WITHIN 5 s", "continuous", "a4 b4", 4),
    ("a BEFORE b WITHIN 5 s", "cumulative", "a1 a2 b4", 4),
    ("a UNLESS b WITHIN 5 s", "recent", "a1", 6),
    ("a UNLESS b WITHIN 5 s", "recent", "a1 a3", 8),
    ("a XOR b WITHIN 5 s", "recent", "a1", 6),
    ("(a BEFORE c WITHIN 9 s) WITHOUT b", "recent", "a1 c4", 4),
    ("NO a FOR 5 s", "recent", "a1", 6),
    ("NO a FOR 5 s", "recent", "b1", 6),
    ("a{2} EVERY 3 s", "recent", "a1 a2", 2),
    ("a+ EVERY 3 s WITHIN 9 s", "recent", "a1 a2", 5),
    ("(a+ EVERY 3 s WITHIN 9 s) UNLESS b WITHIN 4 s", "recent", "a1 a2", 6),
    ("(a UNLESS b WITHIN 5 s) UNLESS c WITHIN 2 s", "recent", "a1", 6),
    ("(a UNLESS b WITHIN 5 s) BEFORE c WITHIN 9 s", "recent", "a1 c3", 8),
    ("a AND NO b FOR 5 s WITHIN 9 s", "recent", "a1 b2", 7),
]


def after_events(pattern: str, context: str, events: str) -> Processor:
    """A processor after events of a log in which nothing has moved the frontier."""
    leaves = " ".join(f"EVENT {name} : <urn:{name}>" for name in sorted(set(re.findall(r"\b[abc]\b", pattern))))
    processor = Processor()
    processor.activate(parse(f"SUBSCRIPTION s {leaves} WHEN {pattern} CONTEXT {context}"))
    rows = [
        event_row(offset, f"urn:{text}", int(text[1:]) * SECOND, [(f"<urn:{text}>", RDF_TYPE, f"<urn:{text[0]}>")])
        for offset, text in enumerate(events.split())
    ]
    processor.advance(Records(columns=record_batch(*rows)), None)
    return processor


def earlier_records(log: CaseLog, stop: int) -> list[LogRecords]:
    return [(log.records.slice(0, stop), log.frontier_at(stop))]


def told(processor: Processor, *instants: int) -> list[int]:
    """The numbers of notifications at successive ticks, of a copy of the processor."""
    copy = Processor.load(processor.dump())
    ticks = [Records(columns=tick_record(instant, 1000 + n)) for n, instant in enumerate(instants)]
    return [len(copy.advance(tick, instant)) for tick, instant in zip(ticks, instants, strict=True)]


@pytest.mark.parametrize(("pattern", "context", "events", "last"), FAMILIES)
def test_what_waits_is_final_a_microsecond_after_the_last_instant_it_looks_at(
    pattern: str, context: str, events: str, last: int
) -> None:
    """“An occurrence *waits* for the least frontier at which it is final: a microsecond after the last instant its
    definition looks at.”
    """
    processor = after_events(pattern, context, events)
    before = processor.dump()
    waiting = processor.waiting()
    assert waiting == last * SECOND + 1
    assert processor.dump() == before
    early, exactly, ever = told(processor, waiting - 1, waiting, END_OF_TIME)
    assert (exactly > 0, ever) == (True, 0), "one microsecond less leaves something pending"
    assert processor.waiting(waiting) == waiting
    less = processor.waiting(waiting - 1)
    assert (less is None) == (early == 0) and (less is None or less < waiting)


def test_a_contradicted_or_impossible_occurrence_does_not_wait() -> None:
    """A window that an event has contradicted and an open pair without a partner wait for nothing."""
    assert after_events("a UNLESS b WITHIN 5 s", "recent", "a1 b3").waiting() is None
    assert after_events("a BEFORE b WITHIN 5 s", "recent", "a1").waiting() is None


def test_windows_behind_the_end_of_time_wait_for_it() -> None:
    """A tick at the end of time passes every instant."""
    processor = after_events("a UNLESS b WITHIN 5 s", "recent", f"a{END_OF_TIME // SECOND - 2}")
    assert processor.waiting() == processor.waiting(END_OF_TIME) == END_OF_TIME
    assert told(processor, END_OF_TIME) == [1]


def test_derived_events_wait_with_their_notifications() -> None:
    """What waits downstream of a pending notification is told, and the state stays as it is."""
    texts = (
        "SUBSCRIPTION up EVENT a : <urn:a> EVENT b : <urn:b> WHEN a UNLESS b WITHIN 5 s CONSTRUCT { ?this a <urn:d> }"
        " SUBSCRIPTION down EVENT d : <urn:d> EVENT c : <urn:c> WHEN d UNLESS c WITHIN 9 s"
    )
    processor = Processor()
    processor.activate(parse(texts))
    row = event_row(0, "urn:1", SECOND, [("<urn:1>", RDF_TYPE, "<urn:a>")])
    processor.advance(Records(columns=record_batch(row)), None)
    before = processor.dump()
    waiting = processor.waiting()
    assert waiting is not None and processor.dump() == before
    assert processor.waiting_instants().tolist() == [6 * SECOND + 1, waiting]
    assert told(processor, 6 * SECOND + 1, waiting - 1, waiting, END_OF_TIME) == [1, 0, 1, 0]


def test_random_logs_have_nothing_left_at_the_greatest_waited_for_instant() -> None:
    """“`motet tick` without an instant is a tick at the greatest instant that is waited for […]: everything that is
    there is decided.”
    """
    waited = 0
    for case in islice(random_cases(51, EngineCapabilities()), 150):
        log = log_records(case)
        stop = len(log.records) - 1 - case.seed % 5
        processor = Processor(earlier_records=partial(earlier_records, log))
        processor.advance(Records(columns=log.records.slice(0, stop)), log.frontier_at(stop))
        before = processor.dump()
        instants = processor.waiting_instants().tolist()
        assert processor.dump() == before
        assert [count > 0 for count in told(processor, *instants)] == [True] * len(instants)
        assert told(processor, *instants[-1:], END_OF_TIME)[-1] == 0
        for instant in instants[:3]:
            assert told(processor, instant - 1, instant)[1] > 0
        for before_it, instant in pairwise([None, *instants]):
            assert (processor.waiting(instant), processor.waiting(instant - 1)) == (instant, before_it)
        waited += len(instants)
    assert waited > 100
