"""A dataflow runs the active subscriptions of a log: it matches events, detects occurrences and emits notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from motet.engine.detect.detector import Detector, DetectorRun, add_occurrences
from motet.engine.detect.frontier import Frontier, ProbeFrontier
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import OperatorEnv
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription, BackfillView
from motet.engine.runtime.derived_events import DerivationEdges
from motet.engine.runtime.emission import NotificationBuilder, emit_solutions, merge_batches
from motet.engine.runtime.processor_state import BackfillResult, Backgrounds, ProcessorState, SharedPlan
from motet.engine.runtime.record_reader import RecordReader, RecordSlice, slice_at_controls
from motet.jit.compiled import Ints
from motet.language.syntax import Subscription, with_mappings
from motet.model.batches import NotificationBatch, Records, Triple
from motet.model.control import ControlState
from motet.model.timeline import FrontierAfter, LogRecords
from motet.model.times import END_OF_TIME

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
