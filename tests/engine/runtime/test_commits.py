"""Commits of several records: the frontier moves after the last of them (language page, section 11)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.builders import control_row, event_row, record_batch

from motet.engine.runtime.processor import Processor
from motet.jobs.verify import drop_other_subscriptions
from motet.model.batches import Records
from motet.model.terms import RDF_TYPE

PAIR = "SUBSCRIPTION s EVENT a : <urn:a> EVENT b : <urn:b> WHEN a BEFORE b WITHIN 20 s"
OTHER = "SUBSCRIPTION t EVENT a : <urn:a> EVENT b : <urn:b> WHEN a AND b WITHIN 20 s"


def event(offset: int, class_: str, second: int) -> dict[str, object]:
    return event_row(offset, f"urn:{offset}", second, [(f"<urn:{offset}>", RDF_TYPE, f"<urn:{class_}>")])


# One commit, in which no record stores a frontier; after it the frontier is at 9.
COMMIT = [
    control_row(0, "subscribe", "s", PAIR),
    event(1, "a", 1),
    event(2, "b", 3),
    event(3, "c", 9),
    control_row(4, "subscribe", "t", OTHER),
]


def offsets(notifications: Sequence[tuple[object, int]]) -> list[int]:
    return [offset for _, offset in notifications]


@pytest.mark.parametrize("cut", range(1, len(COMMIT)))
def test_what_a_commit_makes_final_has_the_offset_of_its_last_record(cut: int) -> None:
    """“What it makes final has the offset of the last record before it moved.” A reader that stops inside the commit
    sees the frontier before it.
    """
    processor = Processor()
    assert len(processor.advance(Records(columns=record_batch(*COMMIT[:cut])), None)) == 0
    found = processor.advance(Records(columns=record_batch(*COMMIT[cut:])), 9)
    assert offsets(found.rows) == [4]


def test_the_end_of_a_commit_is_known_without_the_records_of_others() -> None:
    """A verification of some subscriptions leaves out the subscribe record at which the frontier moves."""
    records, frontier = drop_other_subscriptions(record_batch(*COMMIT), 9, {"s"})
    assert len(records) == len(COMMIT) - 1
    assert offsets(Processor().advance(Records(columns=records), frontier).rows) == [4]


def test_an_unsubscribe_record_in_a_commit_drops_what_the_commit_makes_final() -> None:
    """“pending ones are dropped”: the frontier moves after the unsubscribe record."""
    ended = [*COMMIT[:4], control_row(4, "unsubscribe", "s")]
    assert len(Processor().advance(Records(columns=record_batch(*ended)), 9)) == 0


def test_a_subscription_begins_at_the_frontier_before_its_commit() -> None:
    """“otherwise the frontier that its subscribe record stores”, not the one after the commit."""
    silence = control_row(1, "subscribe", "s", "SUBSCRIPTION s EVENT a : <urn:a> WHEN NO a FOR 5 us")
    settings = control_row(0, "settings", "", "{}")
    rows = [settings, {**silence, "frontier": 10}, {**event(2, "b", 30), "frontier": 10}]
    found = Processor().advance(Records(columns=record_batch(*rows)), 30).rows
    assert [(told.start_micros, told.end_micros, offset) for told, offset in found] == [(10, 15, 2)]
