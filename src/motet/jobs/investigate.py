"""The log that why, why-not and diff examine: those events of files, of a lake or of a replay that can matter.

In a lake these are the events near enough in time; when there are many, only those that match a leaf are examined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from motet import reference
from motet.codec.events import OnRejected
from motet.codec.identity import DERIVED, MINTED
from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.jobs.replay import Replay
from motet.jobs.run import BatchJob, EventFiles
from motet.lake import DataFile, Snapshot
from motet.language.parse import parse
from motet.language.syntax import Construct, Subscription
from motet.model.batches import TIME, RecordRow, Records, Triple, event_rows, micros, notification_rows, record_rows
from motet.model.control import ControlState, entailment_of
from motet.model.errors import UsageError
from motet.model.intervals import Interval
from motet.model.notifications import Notification
from motet.model.records import (
    CONTROL_KINDS,
    EVENT,
    BackgroundChange,
    Retraction,
    SettingsChange,
    Subscribe,
    Tick,
    Unsubscribe,
)
from motet.model.times import END_OF_TIME, START_OF_TIME
from motet.provenance.obstacles import Late, Obstacle, Retracted, TooEarly
from motet.provenance.text import TextStyle
from motet.provenance.traced_log import TracedLog, time_radius

UNFILTERED_EVENTS = 1_000  # up to so many events are examined whether they match a leaf or not
MAX_EVENTS = 5_000  # that are examined: evaluating the definitions takes quadratic time
MAX_LISTED = 5  # IRIs in an error
MINTED_LENGTH = len(MINTED) + 64
NEAR_MISS_FACTOR = 3  # events this many times as far away as the bounds allow can be near misses


@dataclass(frozen=True)
class WhyInput:
    """A log to explain, and which of the events it was made from."""

    traced_log: TracedLog
    style: TextStyle
    events: int  # in the files or the lake
    examined: int
    which: str  # events were examined
    is_complete: bool = True  # every event that can matter is in the log

    def note(self) -> str:
        """Which events were examined; empty when all were."""
        return "" if self.events == self.examined else f"examined {self.examined} of {self.events} events: {self.which}"


def find_notification(id_prefix: str, notifications: Iterable[Notification]) -> Notification:
    """The one notification whose id begins with a prefix."""
    matching = (notification for notification in notifications if notification.id.startswith(id_prefix.lower()))
    candidates = list(islice(dict.fromkeys(matching), 3))
    if not candidates:
        raise UsageError(f"no notification has an id that begins with {id_prefix!r}", advice="`motet run` prints ids.")
    if len(candidates) > 1:
        ids = ", ".join(notification.id[: len(id_prefix) + 8] for notification in candidates)
        raise UsageError(f"several ids begin with {id_prefix!r}: {ids}", advice="Give more of the id.")
    return candidates[0]


@dataclass(frozen=True)
class LoggedEvent:
    """Where an event is in the log of a lake, and when it took place."""

    id: str
    offset: int
    interval: Interval
    late: bool
    frontier: int | None  # before its commit
    causes: tuple[str, ...] = ()  # of a derived event: the events of its notification

    @property
    def required(self) -> tuple[str, ...]:
        """The events that must be examined to explain it."""
        return (self.id, *self.causes)


def find_event(snapshot: Snapshot, event: str) -> LoggedEvent:
    """An event of a lake by its IRI, or by the beginning of an IRI that Motet has given it, if it is the only one."""
    if event.startswith(DERIVED):
        return _find_derived(snapshot, event)
    is_prefix = event.startswith(MINTED) and len(event) < MINTED_LENGTH
    selects = pc.starts_with if is_prefix else pc.equal
    found: list[LoggedEvent] = []
    for batch in snapshot.records(columns=["offset", "kind", "id", "start", "end", "late", "frontier"]):
        rows = batch.filter(pc.and_(pc.equal(batch.column("kind"), "event"), selects(batch.column("id"), event)))
        times = zip(*(micros(rows.column(name)) for name in ("start", "end", "frontier")), strict=True)
        fields = zip(*(rows.column(name).to_pylist() for name in ("id", "offset", "late")), times, strict=True)
        for id_, offset, late, (start, end, frontier) in fields:
            assert start is not None and end is not None, "events of a log are stamped"
            found.append(LoggedEvent(id_, offset, Interval(start, end), late, frontier))
        if found and not is_prefix:
            return found[0]
    if len(found) == 1:
        return found[0]
    raise _no_event(event, [each.id for each in found], f"in {snapshot.store.root}")


def _find_derived(snapshot: Snapshot, event: str) -> LoggedEvent:
    """A derived event by its IRI, which has the id of the notification that it was derived with."""
    id_, _, _ = event.removeprefix(DERIVED).rpartition(":")
    for batch in snapshot.notifications():
        for notification, offset in notification_rows(batch):
            if notification.id == id_:
                interval = Interval(notification.start_micros, notification.end_micros)
                return LoggedEvent(event, offset, interval, late=False, frontier=None, causes=notification.events)
    raise UsageError(
        f"no stored notification of {snapshot.store.root} derived <{event}>",
        advice="Check the event's IRI; the events of notifications that are not computed yet cannot be explained.",
    )


def _no_event(event: str, matching: Sequence[str], where: str, known: Sequence[str] = ()) -> UsageError:
    if matching:
        return UsageError(
            f"several events {where} have an IRI that begins with <{event}>: {_iris(matching)}",
            advice="Give more of the IRI.",
        )
    advice = f"The events {where} are {_iris(known)}." if known else "Check the event's IRI."
    return UsageError(f"there is no event <{event}> {where}", advice=advice)


def _iris(ids: Sequence[str]) -> str:
    listed = ", ".join(f"<{id_}>" for id_ in ids[:MAX_LISTED])
    return f"{listed} and {len(ids) - MAX_LISTED} more" if len(ids) > MAX_LISTED else listed


def find_file_event(job: BatchJob, event: str) -> str:
    """The IRI of an event of files by its IRI, or by the beginning of one that Motet has given it.

    The IRIs of events without one are those of section 14 of the language page, as `motet run` prints them.
    """
    ids = [id_ for events in EventFiles(job, lambda _: None) for id_ in events.column("id").to_pylist()]
    if event in ids or event.startswith(DERIVED):
        return event
    is_prefix = event.startswith(MINTED) and len(event) < MINTED_LENGTH
    matching = [id_ for id_ in ids if id_.startswith(event)] if is_prefix else []
    if len(matching) == 1:
        return matching[0]
    minted_first = sorted(ids, key=lambda id_: not id_.startswith(MINTED))
    raise _no_event(event, matching, "in the files", minted_first)


def hidden_from_replay(replay: Replay, name: str, event: LoggedEvent) -> Obstacle | None:
    """Why an event of the log is not visible to a subscription that is replayed; None if it is visible."""
    group = replay.group_of(name)
    if group is None:
        raise UsageError(f"there is no subscription {name!r} in the files", advice="Check the name.")
    view = group.view
    if event.late and event.frontier is not None and view.late_caps is None:
        return Late(event.interval.end, event.frontier)
    if view.since is not None and event.interval.start < view.since:
        return TooEarly(event.interval.start, view.since)
    return Retracted() if view.retractions.get(event.id, -1) >= event.offset else None


def from_files(
    job: BatchJob, prefixes: Mapping[str, str], on_rejected: OnRejected, required: Sequence[str] = ()
) -> WhyInput:
    """The log of `motet run`; the events in ``required`` are examined whether they match a leaf or not."""
    subscribes: list[reference.Record] = [
        reference.SubscribeRecord(offset, subscription) for offset, subscription in enumerate(job.subscriptions)
    ]
    batches = list(EventFiles(job, on_rejected))
    count = sum(batch.num_rows for batch in batches)
    ids: set[str] | None = None
    if count > UNFILTERED_EVENTS:
        matching = _leaf_filter(job.subscriptions, job.background, job.entailment)
        ids = set(required).union(*map(matching, batches))
    events = list(_selected_records(batches, len(subscribes), ids))
    end = reference.TickRecord(len(subscribes) + count, END_OF_TIME)
    least_end = min((end for batch in batches for end in micros(batch.column("end")) if end is not None), default=None)
    written = reference.write_log([*subscribes, *events, end], None)
    log = TracedLog.from_written(
        written, ontology=job.background, entailment=job.entailment, least_end=lambda _: least_end
    )
    return WhyInput(log, TextStyle(dict(prefixes)), count, len(events), "those that match a leaf")


def _selected_records(
    batches: Iterable[pa.RecordBatch], first: int, ids: set[str] | None
) -> Iterator[reference.EventRecord]:
    """The events with these ids, or all, as records with the offsets they have among all events."""
    offset = first
    for batch in batches:
        for row in event_rows(batch):
            assert row.start is not None and row.end is not None, "events are stamped"
            if ids is None or row.id in ids:
                yield reference.EventRecord(
                    offset, row.id, row.start, row.end, frozenset(row.triples), payload=row.payload
                )
            offset += 1


def _leaf_filter(
    subscriptions: Iterable[Subscription], background: frozenset[Triple], entailment: str
) -> Callable[[pa.RecordBatch], set[str]]:
    """A function that returns the ids of a batch's events that match a leaf of the subscriptions."""
    leaves = [
        LeafQuery(f"{index} {event.name}", event, ())
        for index, subscription in enumerate(subscriptions)
        for event in subscription.events
    ]
    matcher = Matcher(tuple(leaves), background, entailment)

    def matching(batch: pa.RecordBatch) -> set[str]:
        ids = batch.column("id")
        return {
            ids[event].as_py()
            for matches in matcher.solve(Records(columns=batch))
            for event in matches.events().tolist()
        }

    return matching


def from_lake(
    snapshot: Snapshot,
    name: str,
    interval: Interval,
    *,
    prefixes: Mapping[str, str],
    entailment: str | None = None,
    required: Sequence[str] = (),
) -> WhyInput:
    """One subscription of a lake, those that derive events, and the events that can matter near an interval."""
    stored = list(snapshot.control_records())
    rows = [row for batch in snapshot.controls() for row in record_rows(batch)]
    controls = list(_controls(rows, name))
    subscriptions = [record.subscription for record in controls if isinstance(record, reference.SubscribeRecord)]
    examined = _with_upstream(subscriptions, name)
    state = ControlState(requested_entailment=entailment).apply_all(stored)
    changes = [record.offset for record in stored if isinstance(record, BackgroundChange)]
    selection = _select(snapshot, examined, interval, required, (state.background, changes, state.entailment))
    written = _written([*controls, *selection.events], snapshot.frontier)
    least_end = partial(_least_end, snapshot, visible_records)
    log = TracedLog.from_written(written, entailment=entailment, least_end=least_end)
    return selection.why_input(snapshot, log, TextStyle(dict(prefixes)))


def from_replay(replay: Replay, name: str, interval: Interval, style: TextStyle, required: Sequence[str]) -> WhyInput:
    """One subscription of a replay, those that derive events, and the visible events that can matter to it."""
    group = replay.group_of(name)
    assert group is not None, "the subscription is replayed"
    view, controls = group.view, group.view.controls
    subscriptions = _with_upstream(group.subscriptions, name)
    subscribes: list[reference.Record] = [
        reference.SubscribeRecord(offset, subscription)
        for offset, subscription in enumerate(subscriptions, -len(subscriptions))
    ]
    changes = [_change_record(change.record, change.frontier) for change in controls.changes]
    entailment = entailment_of(view.background, view.entailment)
    knowledge = (view.background, [change.offset for change in changes], entailment)
    selection = _select(replay.snapshot, subscriptions, interval, required, knowledge, view.visible)
    settings = reference.SettingsRecord(-len(subscriptions) - 1, None, None, view.entailment)
    written = _written([settings, *subscribes, *changes, *selection.events], controls.frontier)
    least_end = partial(_least_end, replay.snapshot, view.visible)
    log = TracedLog.from_written(written, ontology=view.background, least_end=least_end)
    return selection.why_input(replay.snapshot, log, style)


def visible_records(records: pa.RecordBatch) -> pa.RecordBatch:
    """The events among some records that are not late."""
    is_visible = pc.and_(pc.equal(records.column("kind"), EVENT), pc.invert(records.column("late")))
    return records.filter(is_visible)


def _least_end(snapshot: Snapshot, visible: Callable[[pa.RecordBatch], pa.RecordBatch], offset: int) -> int | None:
    """The least end of the visible events of a snapshot after an offset; None without any."""
    ends = (micros(visible(records).column("end")) for records in snapshot.records(max(offset + 1, 0)))
    return min((end for batch in ends for end in batch if end is not None), default=None)


def _with_upstream(subscriptions: Iterable[Subscription], name: str) -> list[Subscription]:
    """A subscription, and those that derive events."""
    return [
        subscription
        for subscription in subscriptions
        if subscription.name == name or isinstance(subscription.delivery, Construct)
    ]


@dataclass(frozen=True)
class _Selection:
    """The events of a lake that are examined."""

    events: list[reference.EventRecord]
    which: str
    is_complete: bool

    def why_input(self, snapshot: Snapshot, log: TracedLog, style: TextStyle) -> WhyInput:
        count = sum(segment.kinds.get("event", 0) for segment in snapshot.segments)
        return WhyInput(log, style, count, len(self.events), self.which, self.is_complete)


def _select(
    snapshot: Snapshot,
    subscriptions: Sequence[Subscription],
    interval: Interval,
    required: Sequence[str],
    knowledge: tuple[frozenset[Triple], Sequence[int], str],  # background, offsets of its changes, entailment
    visible: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda records: records,
) -> _Selection:
    background, changes, entailment = knowledge
    window = _window(subscriptions, interval)
    segments = [segment for segment in snapshot.segments if _overlaps(segment, *window)]
    leaf_filter: Callable[[pa.RecordBatch], set[str]] | None = None
    if sum(segment.rows for segment in segments) > UNFILTERED_EVENTS and all(
        offset < segments[0].first for offset in changes
    ):
        leaf_filter = _leaf_filter(subscriptions, background, entailment)
    batches = (visible(batch) for segment in segments for batch in snapshot.records(segment.first, segment.stop))
    relevant = list(_relevant(batches, window, leaf_filter, required))
    events = _nearest(relevant, interval, required)
    which = f"those near enough in time{' that match a leaf' if leaf_filter else ''}"
    is_complete = len(events) == len(relevant)
    return _Selection(events, which + ("" if is_complete else f", the nearest {len(events)}"), is_complete)


def _overlaps(segment: DataFile, start: int, end: int) -> bool:
    """Whether a segment can hold events that share an instant with a window."""
    return segment.start is not None and segment.end is not None and segment.end >= start and segment.start <= end


def _controls(rows: Iterable[RecordRow], name: str) -> Iterator[reference.Record]:
    """The control records that concern a subscription. Of the other subscriptions those that derive events, and the
    first, since the background at its offset decides derivation edges.
    """
    is_first = True
    for row in rows:
        record, before = CONTROL_KINDS[row.kind].from_row(row), row.frontier
        match record:
            case Tick():
                yield reference.TickRecord(record.offset, record.instant, frontier=before)
            case Subscribe() if is_first or record.name == name or "CONSTRUCT" in record.text.upper():
                is_first = False
                yield reference.SubscribeRecord(record.offset, parse(record.text)[0], frontier=before)
            case Unsubscribe():
                yield reference.UnsubscribeRecord(record.offset, record.name, frontier=before)
            case Retraction():
                yield reference.RetractRecord(record.offset, record.event_id, frontier=before)
            case BackgroundChange() | SettingsChange():
                yield _change_record(record, before)


def _change_record(record: BackgroundChange | SettingsChange, frontier: int | None) -> reference.Record:
    if isinstance(record, SettingsChange):
        settings = record.settings
        values = settings.lateness, settings.ahead, settings.entailment, settings.mappings
        return reference.SettingsRecord(record.offset, *values, frontier=frontier)
    changed = record.triples, frozenset[Triple]()
    added, removed = reversed(changed) if record.is_removal else changed
    return reference.BackgroundRecord(record.offset, added, removed, frontier=frontier)


def _window(subscriptions: Iterable[Subscription], interval: Interval) -> Interval:
    """The time in which events can matter or be near misses."""
    total = 0
    for subscription in subscriptions:
        radius = time_radius(subscription.pattern)
        if radius is None:
            return Interval(START_OF_TIME, END_OF_TIME)
        total += NEAR_MISS_FACTOR * radius
    return Interval(max(interval.start - total, START_OF_TIME), min(interval.end + total, END_OF_TIME))


def _relevant(
    batches: Iterable[pa.RecordBatch],
    window: Interval,
    leaf_filter: Callable[[pa.RecordBatch], set[str]] | None,
    required: Sequence[str],
) -> Iterator[reference.EventRecord]:
    """The events that share an instant with a window and match a leaf, and the required ones in it."""
    low, high = (pa.scalar(instant, pa.int64()).cast(TIME) for instant in window)
    for batch in batches:
        is_near = pc.and_(pc.greater_equal(batch.column("end"), low), pc.less_equal(batch.column("start"), high))
        near = batch.filter(pc.and_(pc.equal(batch.column("kind"), "event"), is_near))
        ids = {*required, *leaf_filter(near)} if leaf_filter is not None else None
        yield from (event for event in _event_records(near) if ids is None or event.id in ids)


def _event_records(batch: pa.RecordBatch) -> Iterator[reference.EventRecord]:
    """The events of a RECORDS batch, with the frontier and late flag of their commit."""
    columns = (batch.column("offset").to_pylist(), micros(batch.column("frontier")), batch.column("late").to_pylist())
    for row, offset, frontier, late in zip(event_rows(batch), *columns, strict=True):
        assert row.start is not None and row.end is not None, "events of a log are stamped"
        yield reference.EventRecord(
            offset, row.id, row.start, row.end, frozenset(row.triples), late, payload=row.payload, frontier=frontier
        )


def _nearest(
    events: list[reference.EventRecord], interval: Interval, required: Sequence[str]
) -> list[reference.EventRecord]:
    """At most `MAX_EVENTS` events: the required ones, then those nearest in time."""
    if len(events) <= MAX_EVENTS:
        return events

    def distance(event: reference.EventRecord) -> tuple[bool, int]:
        return event.id not in required, max(interval.start - event.end, event.start - interval.end, 0)

    return sorted(sorted(events, key=distance)[:MAX_EVENTS], key=lambda event: event.offset)


def _written(records: Iterable[reference.Record], frontier: int | None) -> reference.WrittenLog:
    """Records of a log with their frontiers, in its order, and the frontier after the whole log."""
    return reference.WrittenLog(tuple(sorted(records, key=lambda record: record.offset)), frontier)
