"""A dataflow runs the active subscriptions of a log: it matches events, detects occurrences and emits notifications.

Batches of records are cut into slices at control records, which a reader applies to the state of the dataflow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.detector import Detector, DetectorRun, add_occurrences
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import Frontier, OperatorEnv, ProbeFrontier
from motet.engine.detect.output import root_output
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription, BackfillView
from motet.engine.runtime.derived_events import DerivationEdges
from motet.engine.runtime.emission import NotificationBuilder, emit_solutions, merge_batches
from motet.engine.runtime.processor_state import BackfillResult, Backgrounds, ProcessorState, SharedPlan
from motet.jit.compiled import Ints
from motet.language.parse import parse_stored
from motet.language.scope import is_single_event
from motet.language.syntax import Construct, Events, Subscription, with_mappings
from motet.model.batches import NotificationBatch, RecordRow, Records, Triple
from motet.model.control import ControlState
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe, control_records
from motet.model.timeline import (
    NO_FRONTIER,
    FrontierAfter,
    FrontierTimeline,
    LogRecords,
    clamp_frontier,
    first_frontier,
)
from motet.model.times import END_OF_TIME
from motet.plan.derivation_edges import feeds_itself
from motet.plan.graph import Start

EarlierRecordsReader = Callable[[int], Iterable[LogRecords]]  # all records before an offset


class Dataflow:
    """Owns a state and runs the plan of its active subscriptions.

    A subscription with SINCE is backfilled by a second dataflow, whose ``view`` says what it sees of the earlier
    records; the first one adopts its state.
    """

    def __init__(
        self,
        state: ProcessorState,
        shared: SharedPlan,
        earlier_records: EarlierRecordsReader | None = None,
        view: BackfillView | None = None,
    ) -> None:
        self.state = state
        self.shared = shared
        self.dictionary = shared.dictionary  # the strings behind the values of all tables
        self.plan = ActivePlan(state, shared)
        self._earlier_records = earlier_records
        self._view = view
        backfilled = None if view is None else view.active.subscription.name
        included = () if view is None else view.included
        self.reader = RecordReader(
            state, shared, can_backfill=earlier_records is not None, backfilled=backfilled, included=included
        )

    @classmethod
    def create(
        cls,
        background: frozenset[Triple],
        entailment: str | None,
        shared: SharedPlan,
        earlier_records: EarlierRecordsReader | None = None,
    ) -> Dataflow:
        """A dataflow that has read nothing."""
        state = ProcessorState(Detector(shared.dictionary), Backgrounds(ControlState(background, entailment)))
        shared.states.append(state)
        return cls(state, shared, earlier_records)

    def activate(self, subscriptions: Iterable[Subscription], beginning: int | None = None) -> None:
        """Add subscriptions that are active before the first record.

        ``beginning`` is that of subscriptions without SINCE; None: the least end of the events.
        """
        for subscription in subscriptions:
            if active := self.reader.activate(subscription, beginning):
                self._backfill(active)

    def seek(self, offset: int) -> None:
        """Continue at an offset; the events before it are not read, but may exist."""
        self.state.last_offset = max(self.state.last_offset, offset - 1)
        self.state.has_events = self.state.has_events or offset > 0

    def advance(self, records: Records, frontier: FrontierAfter) -> NotificationBatch:
        """The notifications that the next records make final."""
        notifications: list[NotificationBatch] = []
        for record_slice in slice_at_controls(records, frontier):
            if record_slice.control is not None:
                self.apply_control(record_slice)
            self._process(record_slice, notifications)
        if len(notifications) == 1 and notifications[0].is_small:  # in order
            return notifications[0]
        return merge_batches(notifications)

    def apply_control(self, record_slice: RecordSlice) -> None:
        """Apply the control record of a slice, before its events are processed."""
        assert record_slice.control is not None, "the slice begins with a control record"
        active = self.reader.apply(record_slice.control, record_slice.frontier_before)
        if active is not None:
            self._backfill(active)

    def update_plan(self) -> None:
        """Update the plan by the subscriptions that were added and removed, and by the background."""
        if self.state.has_changes:
            self.plan.update(self.state, self.shared)

    def refuse_cycles(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with the active ones."""
        self.update_plan()
        mappings = self.state.controls.mappings
        registered = [with_mappings(each, mappings) if mappings else each for each in subscriptions]
        self.plan.derivations.refuse_cycles(registered, self.state.backgrounds.likely_edge_reasoner)

    def _process(self, record_slice: RecordSlice, notifications: list[NotificationBatch]) -> None:
        """Match the events of a slice, detect, and emit the notifications."""
        state, plan, previous = self.state, self.plan, self.state.frontier
        state.frontier = max(previous, record_slice.frontier)
        has_results = bool(state.backfill_results)
        if record_slice.is_subscription and not has_results and state.frontier == previous:
            return
        self.update_plan()
        if plan.matcher is not None and self.shared.bucket is None and record_slice.has_events:
            matches = plan.matcher.solve(record_slice.events)
            if matches:
                notifications.append(emit_solutions(matches))
        if plan.root_subscribers.by_node or has_results:
            notifications += self._detect(record_slice, previous)
        if not record_slice.is_subscription:
            state.last_offset = int(record_slice.offsets[-1])
        state.has_events = state.has_events or len(record_slice.visible_ends) > 0
        if state.construct_offsets and not self._view:
            state.prune_consumed_derived()

    def _detect(self, record_slice: RecordSlice, previous: int) -> list[NotificationBatch]:
        """Detect in a slice; ``previous`` is the frontier before it."""
        state, detector = self.state, self.state.detector
        detector.see_ends(record_slice.visible_ends)
        frontier = Frontier.from_records(record_slice.offsets, record_slice.frontiers, previous)
        if self.dictionary.should_compact:
            self._prune(frontier)
        leaves = self._leaf_occurrences(record_slice.events) if record_slice.has_events else {}
        builder = NotificationBuilder(self.dictionary)
        if state.backfill_results:
            for result in state.take_backfill_results():
                add_occurrences(leaves, self._emit(result.active, result.occurrences, builder))
        self._emit_run(detector.advance(leaves, frontier, self.plan.root_subscribers.by_node), frontier, builder)
        return builder.notifications()

    def _emit_run(
        self, run: DetectorRun, frontier: Frontier, builder: NotificationBuilder, *, is_probe: bool = False
    ) -> None:
        """Emit the occurrences of root nodes, and feed the derived events to the leaves that run later."""
        subscribers, dictionary = self.plan.root_subscribers, self.dictionary
        for node_id, table in run:
            env = OperatorEnv(frontier, dictionary, lag=self.state.detector.lag_of(node_id), is_probe=is_probe)
            group = None if self._view else subscribers.group(node_id)
            if group and (output := group.shared_output(table, env)):
                builder.add_output(output)
                continue
            for active in subscribers.by_node[node_id].values():
                assert active.output is not None
                run.add(self._emit(active, active.output.advance(table, env), builder))

    def _emit(
        self, active: ActiveSubscription, table: Occurrences, builder: NotificationBuilder
    ) -> Mapping[int, Occurrences]:
        """Emit the occurrences of a subscription; returns the occurrences of leaves in its derived events."""
        if not len(table):
            return {}
        if self._view and self._view.active is active:
            self.state.detected.append(table)
            return {}
        derived = builder.add_occurrences(active, table)
        if not derived:
            return {}
        edges = DerivationEdges(self.state, self.shared, self.plan, self._view, builder)
        return edges.leaf_occurrences(active, table, derived)

    def _leaf_occurrences(self, events: Records) -> dict[int, Occurrences]:
        """The occurrences of leaves that are detected here."""
        dictionary, shared, view = self.dictionary, self.shared, self._view
        leaves = self.plan.leaf_matcher.occurrences(events, dictionary)
        if shared.layout:
            leaves = {leaf: table.take(self.buckets_of(leaf, table) == shared.bucket) for leaf, table in leaves.items()}
        if view:
            leaves = {leaf: view.visible(leaf, table, dictionary) for leaf, table in leaves.items()}
        return leaves

    def buckets_of(self, leaf: int, table: Occurrences) -> Ints:
        """The bucket of each occurrence of a leaf."""
        dictionary, layout = self.dictionary, self.shared.layout
        assert layout is not None, "detection is partitioned"
        node, iris = self.shared.builder.nodes[leaf], dictionary.events.iris
        return layout.buckets(node, table.values, dictionary.string, lambda: iris(table.events).to_pylist())

    def _prune(self, frontier: Frontier) -> None:
        """Drop state that can no longer contribute, and compact the dictionary."""
        self.state.detector.prune(frontier.before())
        self.shared.compact_dictionary()

    def _backfill(self, active: ActiveSubscription) -> None:
        """Process the earlier records for a subscription in a second dataflow, and adopt its state."""
        assert self._earlier_records is not None and active.subscription.since is not None
        target = active
        if active.root is None:  # a single-event subscription is detected in the earlier records only
            target = replace(active)
            self.reader.build_root(target)
        assert target.root is not None
        node_ids = frozenset(self.shared.builder.reachable([target.root]))
        view = BackfillView(
            target, active.subscription.since, self.state.controls.retractions, node_ids, self.state.construct_offsets
        )
        backgrounds = self.state.backgrounds.restart()
        state = ProcessorState(Detector(self.dictionary), backgrounds)
        with self.shared.used_by(state):
            backfill = Dataflow(state, self.shared, self._earlier_records, view)
            state.put(target)
            for records, frontier in self._earlier_records(active.offset):
                backfill.advance(Records(columns=records), frontier)
            self.adopt(backfill)

    def adopt(self, backfill: Dataflow) -> None:
        """Take over the result of a backfill, which is emitted with the subscribe record, and its operator nodes."""
        view = backfill._view
        assert view is not None and view.active.output is not None
        occurrences = concatenate([empty_table(len(view.active.output.projected)), *backfill.state.detected])
        self.state.backfill_results.append(BackfillResult(view.active, occurrences))
        if self.state.active.get(view.active.subscription.name) is view.active:
            self.state.detector.adopt(backfill.state.detector, view.node_ids)

    def probe(self) -> Ints:
        """The frontiers that the notifications of the present state still need, if no event follows; sorted.

        With derivation edges the state is as after it: call it on a copy then.
        """
        frontier, builder = ProbeFrontier.after(self.state.frontier), NotificationBuilder(self.dictionary)
        run = self.state.detector.probe(frontier, self.plan.root_subscribers.by_node)
        self._emit_run(run, frontier, builder, is_probe=True)
        offsets = [np.asarray(batch.columns.column("offset")) for batch in builder.notifications()]
        instants = frontier.final_frontiers(np.concatenate([np.empty(0, np.int64), *offsets]))
        return np.sort(np.minimum(instants, END_OF_TIME))


# Reading records


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
