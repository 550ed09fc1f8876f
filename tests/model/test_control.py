"""The fold of control records, against the reference engine's, at every offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.model.batches import Triple, record_batch
from motet.model.control import ControlState, registrations
from motet.model.records import (
    BackgroundChange,
    ControlRecord,
    Retraction,
    Subscribe,
    Tick,
    Unsubscribe,
    control_records,
)
from motet.ontology.entailment import Entailment
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
)
from motet.reference.log import Log
from motet.reference.occurrences import NEVER

NAMES = ("one", "two")
TRIPLES: tuple[Triple, ...] = (("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:b>", "<urn:p>", "<urn:c>"))
TEXT = "SUBSCRIPTION {} EVENT e WHEN e SIGNAL"

CHANGES = st.sets(st.sampled_from(TRIPLES), min_size=1).map(frozenset)
STEPS = st.lists(
    st.one_of(
        st.sampled_from(NAMES).map(lambda name: Subscribe(name, TEXT.format(name))),
        st.sampled_from(NAMES).map(Unsubscribe),
        st.builds(BackgroundChange, CHANGES, st.booleans()),
        st.sampled_from(("urn:e:1", "urn:e:2")).map(Retraction),
        st.integers(0, 9).map(Tick),
    ),
    max_size=12,
)


def numbered(steps: list[ControlRecord]) -> list[ControlRecord]:
    """The records at their offsets; a name that is active is not registered again."""
    records: list[ControlRecord] = []
    active: set[str] = set()
    for record in steps:
        if isinstance(record, Subscribe) and record.name in active:
            continue
        if isinstance(record, Subscribe):
            active.add(record.name)
        elif isinstance(record, Unsubscribe):
            active.discard(record.name)
        records.append(type(record).from_row(record.to_row()._replace(offset=len(records))))
    return records


def as_reference(record: ControlRecord) -> Record:
    match record:
        case Subscribe():
            return SubscribeRecord(record.offset, parse(record.text)[0])
        case Unsubscribe():
            return UnsubscribeRecord(record.offset, record.name)
        case BackgroundChange():
            added, removed = ((), record.triples) if record.is_removal else (record.triples, ())
            return BackgroundRecord(record.offset, frozenset(added), frozenset(removed))
        case Retraction():
            return RetractRecord(record.offset, record.event_id)
        case Tick():
            return TickRecord(record.offset, record.instant)
    raise AssertionError(record)


@given(STEPS, st.sampled_from((None, "none", "rdfs")))
def test_the_fold_is_that_of_the_reference_engine(steps: list[ControlRecord], requested: str | None) -> None:
    """After each record: the active subscriptions, the background and its entailment, and what is retracted."""
    records = numbered(steps)
    events = [EventRecord(-1, event, 0, 0, frozenset()) for event in ("urn:e:1", "urn:e:2")]
    log = Log((*events, *map(as_reference, records)), None, frozenset(), Entailment(requested) if requested else None)
    state = ControlState(requested_entailment=requested)
    for record in records:
        state.apply(record)
        stop = record.offset + 1
        knowledge = log.background_at(stop)
        assert (state.background, state.entailment) == (knowledge.triples, knowledge.entailment)
        assert set(state.subscriptions) == {
            life.subscription.name for life in log.registrations if life.offset < stop <= life.end_offset
        }
        assert state.retractions.keys() == {
            one.event for one in log.records if isinstance(one, RetractRecord) and one.offset < stop
        }
    if state.edge_background is not None:
        assert state.edge_background == log.background_at(log.registrations[0].offset).triples


@given(STEPS)
def test_registrations_are_those_of_the_reference_engine(steps: list[ControlRecord]) -> None:
    """Each subscribe record begins a registration; the unsubscribe record of its name ends it."""
    records = numbered(steps)
    log = Log(tuple(map(as_reference, records)), None, frozenset(), None)
    found = [(one.subscribe.name, one.subscribe.offset, one.stop) for one in registrations(records)]
    assert found == [
        (life.subscription.name, life.offset, None if life.end_offset == NEVER else life.end_offset)
        for life in log.registrations
    ]


@given(STEPS)
def test_control_records_are_read_as_they_were_written(steps: list[ControlRecord]) -> None:
    """Through Arrow rows and back, all kinds or some."""
    records = numbered(steps)
    batch = record_batch(record.to_row() for record in records)
    assert list(control_records(batch)) == records
    assert list(control_records(batch, Tick)) == [record for record in records if isinstance(record, Tick)]
