"""The processor computes what the reference engine computes, for any batches, and drops what it no longer needs."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest
from tests.builders import LogProcessor, committed, control_row, event_row, record_batch

from motet import reference
from motet.fuzz.case import Case
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import compare
from motet.fuzz.processor_engines import ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE


@pytest.mark.parametrize("seed", range(6))
def test_the_processor_agrees_with_the_reference_engine(seed: int) -> None:
    """The same notifications, final with the same records, wherever the log is cut and state written and read."""
    cases = list(islice(random_cases(7100 + seed, EngineCapabilities()), 8))
    assert [difference for difference in compare(ProcessorEngine(), cases) if difference is not None] == []


BACKFILLED = """
PREFIX ex: <http://example.org/>
SUBSCRIPTION s1 SINCE "2026-11-15T10:00:03Z" EVENT e WHEN e CONSTRUCT { ?this a ex:D }
SUBSCRIPTION s2 SINCE "2026-11-15T10:00:03Z" EVENT e EVENT f WHEN e BEFORE f SIGNAL
"""


@pytest.mark.xfail(
    strict=True,
    raises=AssertionError,
    reason="a backfill reads the derived events of a producer with SINCE at its record, after the published events",
)
def test_a_backfill_reads_published_and_derived_events_in_completion_order() -> None:
    """In recent, an event is paired with the latest one before it, also a derived one, when both are replayed."""
    events = [_published(offset, 1_794_736_803_000_000 + offset * 1_000_000) for offset in range(3)]  # from 10:00:03 on
    subscribes = [reference.SubscribeRecord(3 + index, each) for index, each in enumerate(parse(BACKFILLED))]
    cases = [Case((*events, *subscribes), lateness=0)]
    assert [difference for difference in compare(ProcessorEngine(), cases) if difference is not None] == []


def _published(offset: int, instant: int) -> reference.EventRecord:
    triples = frozenset({(f"<urn:{offset}>", "<urn:p>", "<urn:o>")})
    return reference.EventRecord(offset, f"urn:{offset}", instant, instant, triples)


def event(offset: int, name: str, instant: int, class_: str) -> dict[str, object]:
    return event_row(offset, f"urn:{name}", instant, [(f"<urn:{name}>", RDF_TYPE, f"<urn:{class_}>")])


PAIR = "SUBSCRIPTION {} EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT {} SELECT ?a ?b"


def test_a_condition_is_evaluated_on_events_of_one_instant() -> None:
    """Which of two events completes later is decided by their IRIs, not by their side."""
    processor = LogProcessor()
    pattern = "a AND b FILTER(?a != ?b) WITHIN 9 s CONTEXT chronicle"
    text = f"SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:B> WHEN {pattern} SELECT ?a"
    subscribe = control_row(0, "subscribe", "s", text)
    found = processor.commit(
        record_batch(subscribe, event(1, "2", 5, "A"), event(2, "1", 5, "B"), event(3, "3", 6, "C"))
    )
    assert found.column("events").to_pylist() == [["urn:1", "urn:2"]]


def test_a_subscription_gets_no_pair_with_an_event_from_before_it() -> None:
    """A shared node computes an unrestricted pair once; later subscriptions do not get it."""
    processor = LogProcessor()
    rows = [
        control_row(0, "subscribe", "one", PAIR.format("one", "unrestricted")),
        event(1, "x", 1, "A"),
        control_row(2, "subscribe", "two", PAIR.format("two", "unrestricted")),
        event(3, "y", 2, "A"),
        event(4, "z", 3, "B"),
    ]
    found = processor.commit(record_batch(*rows))
    notifications = sorted(
        zip(found.column("subscription").to_pylist(), found.column("events").to_pylist(), strict=True)
    )
    assert notifications == [("one", ["urn:x", "urn:z"]), ("one", ["urn:y", "urn:z"]), ("two", ["urn:y", "urn:z"])]


def test_unsubscribing_drops_the_state_of_unused_nodes() -> None:
    """A node is dropped with its last subscription; other nodes are not affected."""
    processor = LogProcessor()
    processor.commit(
        record_batch(
            control_row(0, "subscribe", "one", PAIR.format("one", "chronicle")),
            control_row(1, "subscribe", "two", PAIR.format("two", "recent")),
            event(2, "x", 1, "A"),
        )
    )
    before = processor.statistics()["rows"]
    processor.commit(record_batch(control_row(3, "unsubscribe", "one"), event(4, "y", 2, "X")))
    assert 0 < processor.statistics()["rows"] < before
    processor.commit(record_batch(control_row(5, "unsubscribe", "two"), event(6, "u", 3, "X")))
    assert processor.statistics() == {"subscriptions": 0, "planned": 0, "nodes": 0, "rows": 0, "terms": 0, "events": 0}


TRANSIENT = (
    "EVENT a : <urn:A{}> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT chronicle",
    'SINCE "1970-01-01T00:00:00Z" EVENT a : <urn:A> EVENT b : <urn:B{}> WHEN a AND b WITHIN 9 s SELECT ?a',
    "EVENT a : <urn:A{}> EVENT c : <urn:C> WHEN a OR c SELECT ?a",
    "EVENT d : <urn:D{}> WHEN d",
)


def test_a_removed_subscription_leaves_nothing_behind() -> None:
    """Neither plan nodes nor state, also after a backfill or with derived events of an active subscription."""
    earlier: list[pa.RecordBatch] = []
    processor = LogProcessor(earlier_records=lambda _: map(committed, earlier))
    derives = "SUBSCRIPTION derives EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT chronicle"
    stays = control_row(1000, "subscribe", "derives", f"{derives} CONSTRUCT {{ ?this a <urn:C> }}")
    earlier.append(record_batch(stays, event(1001, "x", 1, "A"), event(1002, "y", 2, "B"), event(1003, "z", 3, "A")))
    processor.commit(earlier[0])
    sizes = []
    for number in range(100):
        text = f"SUBSCRIPTION s {TRANSIENT[number % 4].format(number)}"
        offset = 2000 + 3 * number
        processor.commit(
            record_batch(control_row(offset, "subscribe", "s", text), event(offset + 1, f"e{offset}", 3, "X"))
        )
        processor.commit(record_batch(control_row(offset + 2, "unsubscribe", "s")))
        sizes.append((processor.statistics(), len(processor.dump())))
    assert sizes == [sizes[0]] * 100


def test_a_cycle_is_refused_before_it_is_registered() -> None:
    """Two subscriptions whose derived events would feed each other are refused by name."""
    processor = LogProcessor()
    one = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> }"
    two = "SUBSCRIPTION two EVENT b : <urn:B> WHEN b CONSTRUCT { ?this a <urn:A> }"
    processor.commit(record_batch(control_row(0, "subscribe", "one", one)))
    with pytest.raises(UsageError, match="one, two feed each other in a cycle"):
        processor.refuse_cycles(parse(two))


def test_notifications_are_ordered_by_emission_offset_and_time() -> None:
    """Wherever the log is cut."""
    rows = [
        control_row(0, "subscribe", "s", PAIR.format("s", "unrestricted")),
        *(event(number, f"e{number}", number, "AB"[number % 2]) for number in range(1, 30)),
    ]
    whole = LogProcessor().commit(record_batch(*rows)).column("events").to_pylist()
    processor = LogProcessor()
    apart = [events for row in rows for events in processor.commit(record_batch(row)).column("events").to_pylist()]
    assert apart == whole


def test_subscriptions_of_one_node_get_what_each_would_get_alone() -> None:
    """Subscriptions of one root node are emitted together, each in its own variables."""
    pattern = "EVENT {0} : <urn:A> EVENT {1} : <urn:B> WHEN ({0} BEFORE {1} WITHIN 9 s) OR {1} {2}"
    texts = {
        "all": pattern.format("a", "b", "SELECT *"),
        "late": pattern.format("z", "b", "SELECT ?b ?z"),
        "second": pattern.format("x", "y", "SELECT ?y"),
        "sign": pattern.format("x", "y", "SIGNAL"),
    }
    events = [event(number, f"e{number}", number // 2, "AAB"[number % 3]) for number in range(9, 40)]
    asked = {
        name: control_row(at, "subscribe", name, f"SUBSCRIPTION {name} {t}")
        for at, (name, t) in enumerate(texts.items())
    }
    together = LogProcessor().commit(record_batch(*asked.values(), *events)).to_pylist()
    for name, one in asked.items():
        alone = LogProcessor().commit(record_batch(one, *events)).to_pylist()
        assert len(alone) > 10 and [row for row in together if row["subscription"] == name] == alone
