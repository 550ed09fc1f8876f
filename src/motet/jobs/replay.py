"""What a replay sees of a lake's log, and how that is shown to kernels (language page, sections 3 and 11).

Subscriptions that are replayed stand as if registered before the first event: they see the events that are not late,
from an instant on, without those retracted by now, each with the background of its own place. The log's own
subscriptions play no part. ``until`` is the log as an observer of that instant knows it: events that end later are not
seen, and the frontier moves no further than just past it, so that nothing is told for want of events left out.
Which notifications are final depends on where the frontier ends, not on its way there, as long as subscriptions stay:
so a kernel may be shown some of the events, with the frontiers they carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby, pairwise
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.closing import background_of
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.warm_up import ensure_compiled
from motet.lake import Lake, Snapshot
from motet.language.syntax import Construct, Subscription
from motet.model.batches import TIME, Triple, notification_rows, record_batch, record_rows, tick_record
from motet.model.control import ControlState, entailment_of
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.records import BackgroundChange, control_records
from motet.model.times import END_OF_TIME, format_datetime
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges


@dataclass(frozen=True)
class ReplayedBackgroundChange:
    """A background record of the log, with the frontier before it."""

    record: BackgroundChange
    frontier: int | None

    @property
    def offset(self) -> int:
        return self.record.offset

    def records(self) -> Iterator[pa.RecordBatch]:
        """What was final before the change is told before it: derived events are read with the background of then."""
        if self.frontier is not None:
            yield tick_record(self.frontier, self.offset)
        yield record_batch([self.record.to_row()])


@dataclass(frozen=True)
class ReplayControls:
    """What happens to every kernel beside the events: changes of the background, and where the frontier ends."""

    background_changes: tuple[ReplayedBackgroundChange, ...] = ()
    frontier: int | None = END_OF_TIME
    stop: int = 1 << 60  # the offset of the end, after all events

    def interleave(self, events: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """RECORDS of events in the order of the log, with everything else at its place."""
        waiting = list(reversed(self.background_changes))
        for batch in events:
            begin, offsets = 0, batch.column("offset").to_numpy()
            while waiting and len(batch) and waiting[-1].offset < offsets[-1]:
                end = int(offsets.searchsorted(waiting[-1].offset))
                yield batch.slice(begin, end - begin)
                yield from waiting.pop().records()
                begin = end
            yield batch.slice(begin)
        for change in reversed(waiting):
            yield from change.records()
        if self.frontier is not None:
            yield tick_record(self.frontier, self.stop)


@dataclass(frozen=True)
class ReplayView:
    """A part of a lake's log as a replay sees it. Picklable: tasks that read the log decide by it."""

    since: int | None
    until: int | None
    background: frozenset[Triple]  # before the first event
    controls: ReplayControls
    retractions: Mapping[str, int] = field(default_factory=dict)  # by event: the offset of its last retraction

    def visible(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The events that are seen among some records."""
        wanted = pc.and_(pc.equal(records.column("kind"), "event"), pc.invert(records.column("late")))
        if self.since is not None:
            wanted = pc.and_(wanted, pc.greater_equal(records.column("start"), _time_scalar(self.since)))
        if self.until is not None:
            wanted = pc.and_(wanted, pc.less_equal(records.column("end"), _time_scalar(self.until)))
        events = records.filter(wanted)
        if self.retractions:
            pairs = zip(events.column("id").to_pylist(), events.column("offset").to_pylist(), strict=True)
            shown = [self.retractions.get(id_, -1) < offset for id_, offset in pairs]
            events = events.filter(pa.array(shown, pa.bool_()))
        return _cap_frontiers(events, self.until)

    def split_by_background(self, events: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Events between two changes of the background, with the number of the background in force."""
        cuts = (
            events.column("offset")
            .to_numpy()
            .searchsorted([change.offset for change in self.controls.background_changes])
        )
        bounds = [0, *cuts.tolist(), len(events)]
        for number, (begin, end) in enumerate(pairwise(bounds)):
            if begin < end:
                yield number, events.slice(begin, end - begin)

    @cached_property
    def backgrounds(self) -> Sequence[frozenset[Triple]]:
        """Before the first change, and after each."""
        found = [self.background]
        for change in self.controls.background_changes:
            found.append(change.record.after(found[-1]))
        return found


def replay_view(snapshot: Snapshot, *, since: int | None = None, until: int | None = None) -> ReplayView:
    """What a replay sees of a version of a lake; its control records are read here, its events are not."""
    if since is not None and until is not None and since > until:
        raise UsageError(
            f"--since {format_datetime(since)} is later than --until {format_datetime(until)}",
            advice="Give the earlier instant as --since.",
        )
    begin = _first_event_offset(snapshot)
    state = ControlState().apply_all(snapshot.control_records(stop=begin))
    background = state.background
    changes: list[ReplayedBackgroundChange] = []
    for batch in snapshot.controls(begin):
        state.apply_all(control_records(batch))
        is_change = pc.equal(batch.column("kind"), BackgroundChange.kind)
        for row in record_rows(batch.filter(is_change)):
            changes.append(
                ReplayedBackgroundChange(BackgroundChange.from_row(row), _capped_frontier(row.frontier, until))
            )
    setting = ReplayControls(tuple(changes), _capped_frontier(snapshot.frontier, until), snapshot.next_offset)
    return ReplayView(since, until, background, setting, state.retractions)


def _first_event_offset(snapshot: Snapshot) -> int:
    """The offset of the first event; the log's end when there is none."""
    for segment in snapshot.segments:
        if segment.kinds.get("event"):
            for batch in snapshot.records(segment.first, segment.stop, ["offset", "kind"]):
                places = pc.index(batch.column("kind"), "event").as_py()
                if places >= 0:
                    return int(batch.column("offset")[places].as_py())
    return snapshot.next_offset


def _cap_frontiers(records: pa.RecordBatch, until: int | None) -> pa.RecordBatch:
    """Records with frontiers as an observer at ``until`` knows them."""
    if until is None or until >= END_OF_TIME:
        return records
    index, last = records.schema.get_field_index("frontier"), _time_scalar(until + 1)
    frontiers = records.column(index)
    capped = pc.if_else(pc.greater(frontiers, last), last, frontiers)
    return records.set_column(index, records.schema.field(index), capped)


def _capped_frontier(frontier: int | None, until: int | None) -> int | None:
    """The same of one frontier: just past ``until`` it says that everything that ended by then is there."""
    return frontier if frontier is None or until is None else min(frontier, until + 1)


def _time_scalar(micros_: int) -> pa.Scalar:
    return pa.scalar(micros_, pa.int64()).cast(TIME)


OnProgress = Callable[[int], None]  # told how many more records have been read


@dataclass(frozen=True)
class ReplayGroup:
    """Subscriptions that look back equally far."""

    view: ReplayView
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Replay:
    """What a replay is asked to do."""

    snapshot: Snapshot
    groups: tuple[ReplayGroup, ...]

    @property
    def events(self) -> int:
        """How many the log holds, seen or not."""
        return sum(segment.kinds.get("event", 0) for segment in self.snapshot.segments)


def load_replay(
    lake: str, subscriptions: Sequence[Subscription], *, since: int | None = None, until: int | None = None
) -> Replay:
    """A replay of what the lake holds now. ``since`` takes the place of every SINCE of the subscriptions' own."""
    asked = [one if since is None else replace(one, since=since) for one in subscriptions]
    snapshot = Lake.open(lake, create=False).snapshot()
    parts = [
        ReplayGroup(replay_view(snapshot, since=instant, until=until), tuple(group))
        for instant, group in groupby(sorted(asked, key=_since), key=lambda one: one.since)
    ]
    _refuse_edges_between_groups(parts)
    return Replay(snapshot, tuple(parts))


def replay_embedded(replay: Replay, sink: BinaryIO, on_progress: OnProgress = lambda _: None) -> int:
    """Write the notifications as sorted lines; how many there are."""
    found = [one for part in replay.groups for one in replay_notifications(replay.snapshot, part, on_progress)]
    found.sort(key=lambda notification: notification.sort_key)
    sink.writelines(f"{notification.to_line()}\n".encode() for notification in found)
    return len(found)


def replay_notifications(
    snapshot: Snapshot, group: ReplayGroup, on_progress: OnProgress = lambda _: None
) -> Iterator[Notification]:
    """What some subscriptions would have been told, in the order of the log."""
    ensure_compiled()
    history = group.view
    kernel = Processor(lateness=None, background=history.background)
    kernel.activate(group.subscriptions)

    def events() -> Iterator[pa.RecordBatch]:
        for records in snapshot.records():
            yield history.visible(records)
            on_progress(len(records))

    for records in history.controls.interleave(events()):
        yield from (notification for notification, _ in notification_rows(kernel.advance(records)))


def _since(subscription: Subscription) -> tuple[bool, int]:
    return subscription.since is not None, subscription.since or 0


def _refuse_edges_between_groups(parts: Sequence[ReplayGroup]) -> None:
    """Whoever sees derived events would see some that others, who look back less far, could not have derived."""
    together = [(number, one) for number, part in enumerate(parts) for one in part.subscriptions]
    if len(parts) < 2 or not any(isinstance(one.delivery, Construct) for _, one in together):
        return
    home = {one.name: number for number, one in together}
    background = parts[0].view.background
    reasoner = background_of(background, entailment_of(background)).reasoner
    for feed in derivation_edges(build_plan([one for _, one in together]), reasoner):
        if home[feed.producer] != home[feed.consumer]:
            raise UsageError(
                f"{feed.producer!r} derives events for {feed.consumer!r}, but their SINCE differ",
                advice="Give --since, which holds for both.",
            )
