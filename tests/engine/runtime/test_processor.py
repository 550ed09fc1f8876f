"""The kernel says what the reference engine says, whatever the batches; and it forgets nobody and nothing too early."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa
import pytest
from tests.builders import control_row, event_row, record_batch

from motet.engine.runtime.processor import Processor
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import compare
from motet.fuzz.processor_engines import ProcessorEngine
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE


@pytest.mark.parametrize("seed", range(6))
def test_as_the_reference_engine_whatever_the_batches(seed: int) -> None:
    """The same notifications, final with the same records, wherever the log is cut and state written and read."""
    cases = list(islice(random_cases(7100 + seed, EngineCapabilities()), 8))
    assert [difference for difference in compare(ProcessorEngine(), cases) if difference is not None] == []


def event(offset: int, name: str, instant: int, class_: str) -> dict[str, object]:
    return event_row(offset, f"urn:{name}", instant, [(f"<urn:{name}>", RDF_TYPE, f"<urn:{class_}>")])


PAIR = "SUBSCRIPTION {} EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT {} SELECT ?a ?b"


def test_a_condition_is_asked_of_events_of_one_instant() -> None:
    """Who of two completes later is decided by their ids, not by the side they stand on."""
    kernel = Processor(lateness=0)
    pattern = "a AND b FILTER(?a != ?b) WITHIN 9 s CONTEXT chronicle"
    text = f"SUBSCRIPTION s EVENT a : <urn:A> EVENT b : <urn:B> WHEN {pattern} SELECT ?a"
    asked = control_row(0, "subscribe", "s", text)
    found = kernel.advance(record_batch(asked, event(1, "2", 5, "A"), event(2, "1", 5, "B"), event(3, "3", 6, "C")))
    assert found.column("events").to_pylist() == [["urn:1", "urn:2"]]


def test_a_subscription_sees_no_pair_that_began_before_it() -> None:
    """An unrestricted pair is computed once for all, and kept from those who came after one of its events."""
    kernel = Processor(lateness=0)
    rows = [
        control_row(0, "subscribe", "one", PAIR.format("one", "unrestricted")),
        event(1, "x", 1, "A"),
        control_row(2, "subscribe", "two", PAIR.format("two", "unrestricted")),
        event(3, "y", 2, "A"),
        event(4, "z", 3, "B"),
    ]
    found = kernel.advance(record_batch(*rows))
    told = sorted(zip(found.column("subscription").to_pylist(), found.column("events").to_pylist(), strict=True))
    assert told == [
        ("one", ["urn:x", "urn:z"]),
        ("one", ["urn:y", "urn:z"]),
        ("two", ["urn:y", "urn:z"]),
    ]


def test_who_leaves_takes_the_state_along() -> None:
    """With its last user a node and what it remembers are gone; others go on undisturbed."""
    kernel = Processor(lateness=0)
    kernel.advance(
        record_batch(
            control_row(0, "subscribe", "one", PAIR.format("one", "chronicle")),
            control_row(1, "subscribe", "two", PAIR.format("two", "recent")),
            event(2, "x", 1, "A"),
        )
    )
    before = kernel.statistics()["rows"]
    kernel.advance(record_batch(control_row(3, "unsubscribe", "one"), event(4, "y", 2, "X")))
    assert 0 < kernel.statistics()["rows"] < before
    kernel.advance(record_batch(control_row(5, "unsubscribe", "two"), event(6, "u", 3, "X")))
    assert kernel.statistics() == {
        "subscriptions": 0,
        "planned": 0,
        "nodes": 0,
        "rows": 0,
        "terms": 0,
        "events": 0,
    }


COMING_AND_GOING = (
    "EVENT a : <urn:A{}> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT chronicle",
    'SINCE "1970-01-01T00:00:00Z" EVENT a : <urn:A> EVENT b : <urn:B{}> WHEN a AND b WITHIN 9 s SELECT ?a',
    "EVENT a : <urn:A{}> EVENT c : <urn:C> WHEN a OR c SELECT ?a",
    "EVENT d : <urn:D{}> WHEN d",
)


def test_who_came_and_went_leaves_nothing_behind() -> None:
    """Neither nodes of the plan nor state, also of those who were shown the past or fed by those who stay."""
    past: list[pa.RecordBatch] = []
    kernel = Processor(lateness=0, earlier_records=lambda _: past)
    derives = "SUBSCRIPTION derives EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 9 s CONTEXT chronicle"
    stays = control_row(1000, "subscribe", "derives", f"{derives} CONSTRUCT {{ ?this a <urn:C> }}")
    past.append(record_batch(stays, event(1001, "x", 1, "A"), event(1002, "y", 2, "B"), event(1003, "z", 3, "A")))
    kernel.advance(past[0])
    sizes = []
    for number in range(100):
        text = f"SUBSCRIPTION s {COMING_AND_GOING[number % 4].format(number)}"
        offset = 2000 + 3 * number
        kernel.advance(
            record_batch(control_row(offset, "subscribe", "s", text), event(offset + 1, f"e{offset}", 3, "X"))
        )
        kernel.advance(record_batch(control_row(offset + 2, "unsubscribe", "s")))
        sizes.append((kernel.statistics(), len(kernel.dump())))
    assert sizes == [sizes[0]] * 100


def test_a_circle_is_refused_before_it_is_registered() -> None:
    """Two subscriptions whose derived events would feed each other are refused by name."""
    kernel = Processor(lateness=0)
    one = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> }"
    two = "SUBSCRIPTION two EVENT b : <urn:B> WHEN b CONSTRUCT { ?this a <urn:A> }"
    kernel.advance(record_batch(control_row(0, "subscribe", "one", one)))
    with pytest.raises(UsageError, match="one, two feed each other in a cycle"):
        kernel.refuse_cycles(parse(two))


def test_what_comes_together_is_told_in_one_order() -> None:
    """Notifications come by the record that made them final, then by time, however the log was cut."""
    rows = [
        control_row(0, "subscribe", "s", PAIR.format("s", "unrestricted")),
        *(event(number, f"e{number}", number, "AB"[number % 2]) for number in range(1, 30)),
    ]
    whole = Processor(lateness=0).advance(record_batch(*rows)).column("events").to_pylist()
    kernel = Processor(lateness=0)
    apart = [events for row in rows for events in kernel.advance(record_batch(row)).column("events").to_pylist()]
    assert apart == whole


def test_those_told_alike_hear_what_each_would_hear_alone() -> None:
    """Subscriptions that wait for the same node are told together; in its own variables each hears what it would."""
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
    together = Processor(lateness=0).advance(record_batch(*asked.values(), *events)).to_pylist()
    for name, one in asked.items():
        alone = Processor(lateness=0).advance(record_batch(one, *events)).to_pylist()
        assert len(alone) > 10 and [row for row in together if row["subscription"] == name] == alone
