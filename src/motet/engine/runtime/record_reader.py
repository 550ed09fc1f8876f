"""Reads records for a dataflow: applies control records to its state, and cuts the events between them into slices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.output import root_output
from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.engine.runtime.processor_state import ProcessorState, SharedPlan
from motet.jit.compiled import Ints
from motet.language.parse import parse_stored
from motet.language.scope import is_single_event
from motet.language.syntax import Construct, Events, Subscription
from motet.model.batches import RecordRow, Records
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe, control_records
from motet.model.timeline import NO_FRONTIER, FrontierAfter, FrontierTimeline, clamp_frontier, first_frontier
from motet.model.times import END_OF_TIME
from motet.plan.derivation_edges import feeds_itself
from motet.plan.graph import Start


class RecordSlice(NamedTuple):
    """Consecutive records of which at most the first is a control record other than a tick.

    With a timeline its times are those of a range of offsets, of which other records are in other buckets.
    """

    control: ControlRecord | None
    frontier_before: int  # that the control record stores; NO_FRONTIER without one
    is_subscription: bool  # it is one subscribe record
    events: Records  # those that are not late
    has_events: bool
    offsets: Sequence[int] | Ints
    frontiers: Sequence[int] | Ints  # after each record
    frontier: int  # the greatest of these
    visible_ends: Sequence[int | None] | Ints  # the ends of the events that are not late


def slice_at_controls(records: Records, frontier: FrontierAfter) -> Iterable[RecordSlice]:
    """The slices of a batch in log order; a few events are one slice.

    >>> from motet.model.batches import tick_record
    >>> slices = slice_at_controls(Records(columns=tick_record(7, offset=0)), 7)
    >>> [(piece.control, piece.frontiers.tolist()) for piece in slices]
    [(None, [7])]
    """
    if isinstance(frontier, FrontierTimeline):
        return _cut(records.columns, frontier, None)
    if records.is_small:
        rows = records.rows
        if {row.kind for row in rows} == {EVENT}:
            return [_event_slice(records, rows, frontier)]
    columns = records.columns
    return _cut(columns, None, frontier) if len(columns) else ()


def _cut(columns: pa.RecordBatch, timeline: FrontierTimeline | None, after: int | None) -> Iterator[RecordSlice]:
    """The slices of a batch, by a timeline or the frontier after the last record."""
    read = FrontierTimeline.from_records(columns, after)
    whole = timeline or read
    rows = np.flatnonzero(read.is_boundary)
    begins = rows if timeline is None else np.searchsorted(whole.offsets, read.offsets[rows])
    parsed = control_records(columns.take(pa.array(rows))) if len(rows) else ()
    controls = dict(zip(zip(rows.tolist(), begins.tolist(), strict=True), parsed, strict=True))
    for (row, begin), (row_end, end) in pairwise(sorted({(0, 0), *controls, (len(columns), len(whole.offsets))})):
        piece = columns if row_end - row == len(columns) else columns.slice(row, row_end - row)
        control = controls.get((row, begin))
        is_visible = read.is_visible[row:row_end]
        before = None if control is None else first_frontier(piece)
        yield RecordSlice(
            control,
            NO_FRONTIER if before is None else clamp_frontier(before),
            isinstance(control, Subscribe) and end - begin == 1,
            Records(columns=piece if is_visible.all() else piece.filter(pa.array(is_visible))),
            bool(is_visible.any()),
            whole.offsets[begin:end],
            whole.frontiers[begin:end],
            int(whole.frontiers[begin:end].max()),
            whole.ends[begin:end][whole.is_visible[begin:end]],
        )


def _event_slice(records: Records, rows: Sequence[RecordRow], frontier: int | None) -> RecordSlice:
    """The slice of a few events."""
    visible = [row for row in rows if not row.late]
    events = records if len(visible) == len(rows) else Records(rows=visible)
    stored = (*[row.frontier for row in rows[1:]], frontier)
    frontiers = [NO_FRONTIER if after is None else clamp_frontier(after) for after in stored]
    offsets, ends = [row.offset for row in rows], [row.end for row in visible]
    return RecordSlice(None, NO_FRONTIER, False, events, bool(visible), offsets, frontiers, max(frontiers), ends)


class RecordReader:
    """Applies the control records of a log to a state, in the order of the log.

    The reader of a backfill has the name of its subscription, whose earlier registrations it skips, and the offsets of
    the other subscriptions that take part.
    """

    def __init__(
        self,
        state: ProcessorState,
        shared: SharedPlan,
        *,
        can_backfill: bool,
        backfilled: str | None = None,
        included: Collection[int] = (),
    ) -> None:
        self._state = state
        self._shared = shared
        self._can_backfill = can_backfill
        self._backfilled = backfilled
        self._included = included

    def activate(self, subscription: Subscription, beginning: int | None) -> ActiveSubscription | None:
        """Add a subscription that is active before the first record; as in `apply`, it may have to be backfilled."""
        return self._subscribe(subscription, -1, Start(self._state.last_offset, subscription.since, beginning))

    def apply(self, record: ControlRecord, frontier_before: int) -> ActiveSubscription | None:
        """Apply the next control record, which stores the frontier before it.

        Returns the subscription that has to be backfilled before the next record.
        """
        state = self._state
        state.frontier = max(state.frontier, frontier_before)
        state.has_changes = True
        match record:
            case Subscribe(name, text, offset):
                if self._backfilled is not None and (offset not in self._included or name == self._backfilled):
                    return None
                origin = f"subscription {name!r} in the log"
                (subscription,) = parse_stored(text, origin, state.controls.mappings)
                return self._subscribe(subscription, offset, self._start(subscription))
            case Unsubscribe(name):
                if name != self._backfilled:
                    state.remove(name)
            case _:
                state.controls.apply(record)
        state.last_offset = record.offset
        return None

    def _start(self, subscription: Subscription) -> Start:
        """The start of a subscription whose subscribe record is the next one of the log.

        The log of a lake has a settings record before every subscription, unless the lake is older than settings.
        """
        state = self._state
        frontier = None if state.frontier == NO_FRONTIER else min(state.frontier, END_OF_TIME)
        return Start(state.last_offset, subscription.since, frontier, is_old=state.controls.settings is None)

    def _subscribe(self, subscription: Subscription, offset: int, start: Start) -> ActiveSubscription | None:
        state = self._state
        reasoner = state.backgrounds.fix_edge_background()
        has_history = state.has_events or state.frontier > NO_FRONTIER
        needs_backfill = subscription.since is not None and has_history and self._can_backfill
        derives = isinstance(subscription.delivery, Construct)
        if self._is_in_other_bucket(subscription, needs_backfill=needs_backfill):
            if needs_backfill:
                state.last_offset = offset  # later subscriptions start at the same offset in all buckets
            return None
        feeds_self = derives and feeds_itself(subscription, reasoner)
        may_be_fed = self._shared.layout is None or subscription.name in self._shared.layout.derivation_linked
        is_unshared = needs_backfill or feeds_self or (may_be_fed and bool(state.backfilled_upstreams))
        if needs_backfill:
            start = replace(start, offset=offset)
        active = ActiveSubscription(subscription, offset, start, is_unshared, state.frontier)
        if derives:
            state.construct_offsets.add(offset)
        self.add(active)
        if isinstance(subscription.delivery, Events) and (needs_backfill or active.root is not None):
            self._shared.dictionary.events.with_triples = True
        if not needs_backfill:
            return None
        state.last_offset = offset
        return active

    def _is_in_other_bucket(self, subscription: Subscription, *, needs_backfill: bool) -> bool:
        """Whether no event of this bucket concerns a subscription.

        Single-event subscriptions are matched before events are routed; buckets have only their backfills and those
        that derived events feed.
        """
        if self._shared.layout is None or self._shared.bucket is None:
            return False
        is_linked = subscription.name in self._shared.layout.derivation_linked
        if is_single_event(subscription) and not needs_backfill and not is_linked:
            return True
        return self._shared.bucket not in self._shared.layout.holders(subscription)

    def add(self, active: ActiveSubscription) -> None:
        """Make a subscription the last of the active ones."""
        self._state.put(active)
        if isinstance(active.subscription.delivery, Construct):
            active.templates = ConstructTemplates(active.subscription.delivery.templates)
            if active.subscription.since is not None:
                self._state.backfilled_upstreams.add(active.subscription.name)
        if not is_single_event(active.subscription):
            self.build_root(active)

    def build_root(self, active: ActiveSubscription) -> None:
        """Plan a subscription."""
        active.root = self._shared.root(active)
        active.output = root_output(active.root, self._shared.builder.nodes[active.root.node], active.offset)
