"""Replays: subscriptions run over the log of a lake as a batch (language page, sections 3 and 11).

A replayed subscription behaves as if it had been registered before the first event. It sees the events that are not
late, from an instant on, without those retracted by now, each with the background at its offset. The subscriptions of
the log itself are ignored. ``until`` gives the log as it was known at that instant: later events are not visible, and
the frontier stops just after it, so that no absence is concluded from events that are left out. With ``late`` it sees
late events, too, as if they had come in time: before each of them the frontier stays where it does not make it late.
While subscriptions do not change, the final notifications depend only on the last frontier, not on the steps to it:
a processor may therefore get some of the events, with the frontiers stored in their records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.closure import closed_background
from motet.engine.runtime.processor import Processor
from motet.jobs.run import write_notifications
from motet.lake import Lake, Snapshot
from motet.language.syntax import Construct, Subscription, with_mappings
from motet.model.batches import TIME, Records, Triple, micros, notification_rows, record_batch, record_rows, tick_record
from motet.model.control import ControlState, entailment_of
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.records import CONTROL_KINDS, BackgroundChange, SettingsChange, control_records
from motet.model.timeline import InstantColumn
from motet.model.times import END_OF_TIME, format_datetime
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges


@dataclass(frozen=True)
class ReplayedChange:
    """A change of the background or of the settings in the log, with the frontier before it."""

    record: BackgroundChange | SettingsChange
    frontier: int | None

    @property
    def offset(self) -> int:
        return self.record.offset

    def records(self) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """The change after a tick, so that events derived from earlier occurrences are read with the old background."""
        if self.frontier is not None:
            yield tick_record(self.frontier, self.offset), self.frontier
        yield record_batch([self.record.to_row()]), self.frontier


@dataclass(frozen=True)
class ReplayControls:
    """What every processor of a replay gets beside the events: changes of how they are read, and the last frontier."""

    changes: tuple[ReplayedChange, ...] = ()
    frontier: int | None = END_OF_TIME
    stop: int = 1 << 60  # the offset of the last tick, after all events

    def interleave(self, events: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, int | None]]:
        """RECORDS of events in log order, with background changes and the last tick at their offsets, and the frontier
        after each batch: the greatest that is known there.
        """
        pending = list(reversed(self.changes))
        for batch in events:
            begin, offsets = 0, batch.column("offset").to_numpy()
            while pending and len(batch) and pending[-1].offset < offsets[-1]:
                end = int(offsets.searchsorted(pending[-1].offset))
                yield batch.slice(begin, end - begin), pending[-1].frontier
                yield from pending.pop().records()
                begin = end
            yield batch.slice(begin), _last_frontier(batch)
        for change in reversed(pending):
            yield from change.records()
        if self.frontier is not None:
            yield tick_record(self.frontier, self.stop), self.frontier


@dataclass(frozen=True)
class FrontierCaps:
    """The greatest frontier before each record that makes no later record late."""

    offsets: InstantColumn  # of the late events
    instants: InstantColumn  # the least end of a late event at or after each of these offsets

    def at(self, offsets: InstantColumn) -> InstantColumn:
        """The caps before the records at some offsets; after the last late event the end of time."""
        return np.append(self.instants, END_OF_TIME)[self.offsets.searchsorted(offsets)]


def frontier_caps(snapshot: Snapshot) -> FrontierCaps:
    """The caps by the late events of a snapshot; reads no segment without one."""
    offsets: list[InstantColumn] = [np.empty(0, np.int64)]
    ends: list[InstantColumn] = [np.empty(0, np.int64)]
    for segment in snapshot.segments:
        for batch in snapshot.records(segment.first, segment.stop, ["offset", "end", "late"]) if segment.late else ():
            late = batch.filter(batch.column("late"))
            offsets.append(late.column("offset").to_numpy())
            ends.append(late.column("end").cast(pa.int64()).to_numpy())
    last = END_OF_TIME - 1  # at the end of time the frontier has passed every event
    from_the_end = np.minimum.accumulate(np.minimum(np.concatenate(ends), last)[::-1])
    return FrontierCaps(np.concatenate(offsets), from_the_end[::-1])


@dataclass(frozen=True)
class ReplayView:
    """Which records of a log a replay sees. Picklable: Spark tasks filter the log with it."""

    since: int | None
    until: int | None
    background: frozenset[Triple]  # before the first event
    entailment: str | None  # set before the first event; None: as the background requires
    controls: ReplayControls
    retractions: Mapping[str, int] = field(default_factory=dict)  # by event: the offset of its last retraction
    late_caps: FrontierCaps | None = None  # late events are visible, and frontiers at most these

    def visible(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The visible events among some records."""
        is_visible = pc.equal(records.column("kind"), "event")
        if self.late_caps is None:
            is_visible = pc.and_(is_visible, pc.invert(records.column("late")))
        if self.since is not None:
            is_visible = pc.and_(is_visible, pc.greater_equal(records.column("start"), _time_scalar(self.since)))
        if self.until is not None:
            is_visible = pc.and_(is_visible, pc.less_equal(records.column("end"), _time_scalar(self.until)))
        events = records.filter(is_visible)
        if self.retractions:
            pairs = zip(events.column("id").to_pylist(), events.column("offset").to_pylist(), strict=True)
            is_retained = [self.retractions.get(id_, -1) < offset for id_, offset in pairs]
            events = events.filter(pa.array(is_retained, pa.bool_()))
        return _cap_frontiers(_in_time(events, self.late_caps), self.until)

    def split_by_background(self, events: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The events between two changes, with the index of their background in `backgrounds`."""
        changes = [change.offset for change in self.controls.changes]
        cuts = events.column("offset").to_numpy().searchsorted(changes)
        bounds = [0, *cuts.tolist(), len(events)]
        for index, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                yield index, events.slice(begin, end - begin)

    @cached_property
    def backgrounds(self) -> Sequence[tuple[frozenset[Triple], str | None]]:
        """The background graph and the entailment that is set, before the first change and after each."""
        state = ControlState(self.background, self.entailment)
        backgrounds = [(state.background, state.requested_entailment)]
        for change in self.controls.changes:
            state.apply(change.record)
            backgrounds.append((state.background, state.requested_entailment))
        return backgrounds


def replay_view(
    snapshot: Snapshot,
    *,
    since: int | None = None,
    until: int | None = None,
    late: bool = False,
    ontology: frozenset[Triple] = frozenset(),
) -> ReplayView:
    """The replay view of a snapshot; reads its control records, not its events."""
    if since is not None and until is not None and since > until:
        raise UsageError(
            f"--since {format_datetime(since)} is later than --until {format_datetime(until)}",
            advice="Give the earlier instant as --since.",
        )
    caps = frontier_caps(snapshot) if late else None
    first_event = _first_event_offset(snapshot)
    state = ControlState().apply_all(snapshot.control_records(stop=first_event))
    background, entailment = state.background | ontology, state.requested_entailment
    changes: list[ReplayedChange] = []
    for batch in snapshot.controls(first_event):
        state.apply_all(control_records(batch))
        is_change = pc.is_in(batch.column("kind"), pa.array([BackgroundChange.kind, SettingsChange.kind]))
        for row in record_rows(batch.filter(is_change)):
            frontier = row.frontier
            if caps is not None and frontier is not None:
                frontier = min(frontier, int(caps.at(np.array([row.offset]))[0]))
            change = CONTROL_KINDS[row.kind].from_row(row)
            assert isinstance(change, BackgroundChange | SettingsChange)
            changes.append(ReplayedChange(change, _capped_frontier(frontier, until)))
    controls = ReplayControls(tuple(changes), _capped_frontier(snapshot.frontier, until), snapshot.next_offset)
    return ReplayView(since, until, background, entailment, controls, state.retractions, caps)


def _first_event_offset(snapshot: Snapshot) -> int:
    """The offset of the first event; the end of the log if there is none."""
    for segment in snapshot.segments:
        if segment.kinds.get("event"):
            for batch in snapshot.records(segment.first, segment.stop, ["offset", "kind"]):
                row = pc.index(batch.column("kind"), "event").as_py()
                if row >= 0:
                    return int(batch.column("offset")[row].as_py())
    return snapshot.next_offset


def _in_time(events: pa.RecordBatch, caps: FrontierCaps | None) -> pa.RecordBatch:
    """Events of which none is late, with frontiers that make none late."""
    if caps is None or not len(events):
        return events
    schema = events.schema
    index, late = schema.get_field_index("frontier"), schema.get_field_index("late")
    instants = pa.array(caps.at(events.column("offset").to_numpy()), pa.int64()).cast(TIME)
    frontiers = pc.if_else(pc.greater(events.column(index), instants), instants, events.column(index))
    not_late = pa.array(np.zeros(len(events), np.bool_))
    return events.set_column(index, schema.field(index), frontiers).set_column(late, schema.field(late), not_late)


def _cap_frontiers(records: pa.RecordBatch, until: int | None) -> pa.RecordBatch:
    """Records whose frontiers are at most just after ``until``."""
    if until is None or until >= END_OF_TIME:
        return records
    index, last = records.schema.get_field_index("frontier"), _time_scalar(until + 1)
    frontiers = records.column(index)
    capped = pc.if_else(pc.greater(frontiers, last), last, frontiers)
    return records.set_column(index, records.schema.field(index), capped)


def _last_frontier(records: pa.RecordBatch) -> int | None:
    """The frontier that the last of some records stores."""
    return micros(records.column("frontier").slice(len(records) - 1))[0] if len(records) else None


def _capped_frontier(frontier: int | None, until: int | None) -> int | None:
    """A frontier, at most just after ``until``: there it says that all events that end by then are known."""
    return frontier if frontier is None or until is None else min(frontier, until + 1)


def _time_scalar(instant: int) -> pa.Scalar:
    return pa.scalar(instant, pa.int64()).cast(TIME)


OnProgress = Callable[[int], None]  # gets the number of records just read


@dataclass(frozen=True)
class ReplayGroup:
    """The subscriptions with one SINCE, and the records they see."""

    view: ReplayView
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Replay:
    """A snapshot and the subscriptions to run over it."""

    snapshot: Snapshot
    groups: tuple[ReplayGroup, ...]

    @property
    def events(self) -> int:
        """The number of events in the log, visible or not."""
        return sum(segment.kinds.get("event", 0) for segment in self.snapshot.segments)

    @property
    def late(self) -> int:
        """The number of late events in the log."""
        return sum(segment.late for segment in self.snapshot.segments)

    def group_of(self, name: str) -> ReplayGroup | None:
        """The group of a subscription; None if it is not replayed."""
        groups = (group for group in self.groups if any(member.name == name for member in group.subscriptions))
        return next(groups, None)


def load_replay(
    lake: str | Snapshot,
    subscriptions: Sequence[Subscription],
    *,
    since: int | None = None,
    until: int | None = None,
    late: bool = False,
    ontology: Iterable[Triple] = (),
) -> Replay:
    """A replay of the lake as it is now, or of a snapshot; ``since`` replaces the SINCE of every subscription.

    With ``late`` the late events are read as if they had come in time. Derived documents are lifted by the mappings in
    force now. The triples of ``ontology`` are in the
    background from the beginning on; the lake is not changed.
    """
    if since is not None:
        subscriptions = [replace(subscription, since=since) for subscription in subscriptions]
    snapshot = lake if isinstance(lake, Snapshot) else Lake.open(lake, create=False).snapshot()
    if any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        mappings = ControlState().apply_all(snapshot.control_records(SettingsChange)).mappings
        subscriptions = [with_mappings(subscription, mappings) for subscription in subscriptions]
    added = frozenset(ontology)
    groups = [
        ReplayGroup(replay_view(snapshot, since=instant, until=until, late=late, ontology=added), tuple(group))
        for instant, group in groupby(sorted(subscriptions, key=_since), key=lambda subscription: subscription.since)
    ]
    _refuse_edges_between_groups(groups)
    return Replay(snapshot, tuple(groups))


OnPending = Callable[[Sequence[int]], None]  # gets, for each notification that is not final, the frontier it waits for


def replay_embedded(
    replay: Replay,
    sink: BinaryIO,
    on_progress: OnProgress = lambda _: None,
    on_pending: OnPending = lambda _: None,
) -> int:
    """Write the notifications as sorted lines and return their number."""
    batches = (
        batch for group in replay.groups for batch in _replay_batches(replay.snapshot, group, on_progress, on_pending)
    )
    return write_notifications(batches, sink)


def pending_of(replay: Replay) -> list[int]:
    """For each notification that is not final at the end of a replay, the frontier it waits for."""
    pending: list[int] = []
    for group in replay.groups:
        for _ in _replay_batches(replay.snapshot, group, lambda _: None, pending.extend):
            pass
    return pending


def replay_notifications(
    snapshot: Snapshot, group: ReplayGroup, on_progress: OnProgress = lambda _: None
) -> Iterator[Notification]:
    """The notifications of a group, in log order."""
    for batch in _replay_batches(snapshot, group, on_progress):
        yield from (notification for notification, _ in notification_rows(batch))


def _replay_batches(
    snapshot: Snapshot, group: ReplayGroup, on_progress: OnProgress, on_pending: OnPending = lambda _: None
) -> Iterator[pa.RecordBatch]:
    view = group.view
    processor = Processor(background=view.background, entailment=view.entailment)
    processor.activate(group.subscriptions)

    def events() -> Iterator[pa.RecordBatch]:
        for records in snapshot.records():
            yield view.visible(records)
            on_progress(len(records))

    for records, frontier in view.controls.interleave(events()):
        yield processor.advance(Records(columns=records), frontier).columns
    on_pending(processor.pending_instants().tolist())


def _since(subscription: Subscription) -> tuple[bool, int]:
    return subscription.since is not None, subscription.since or 0


def _refuse_edges_between_groups(groups: Sequence[ReplayGroup]) -> None:
    """Refuse a downstream subscription that sees events from before the SINCE of its upstream subscription."""
    subscriptions = [subscription for group in groups for subscription in group.subscriptions]
    if len(groups) < 2 or not any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        return
    group_of = {subscription.name: index for index, group in enumerate(groups) for subscription in group.subscriptions}
    view = groups[0].view
    reasoner = closed_background(view.background, entailment_of(view.background, view.entailment)).reasoner
    for edge in derivation_edges(build_plan(subscriptions), reasoner):
        if group_of[edge.producer] != group_of[edge.consumer]:
            raise UsageError(
                f"{edge.producer!r} derives events for {edge.consumer!r}, but their SINCE differ",
                advice="Give --since, which replaces both.",
            )
