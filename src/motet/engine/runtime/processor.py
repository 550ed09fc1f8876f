"""The processor: reads records of a log in batches of any size and returns the notifications they make final.

Its dataflow runs the active subscriptions: it matches events, detects occurrences and emits notifications. Single-event
subscriptions are matched without state; all others are detected, with state. A control record takes effect at its
offset. The same classes serve the embedded host and Spark. They do no I/O: the records that a backfill needs come from
the callback `earlier_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from motet.engine.detect.detector import Detector, DetectorRun, add_occurrences
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import Frontier, OperatorEnv, ProbeFrontier
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription, BackfillView
from motet.engine.runtime.derived_events import DerivationEdges
from motet.engine.runtime.emission import NotificationBuilder, emit_solutions, merge_batches
from motet.engine.runtime.processor_state import (
    BackfillResult,
    Backgrounds,
    ProcessorState,
    SharedPlan,
    capture,
    restore_header,
    restored_subscriptions,
)
from motet.engine.runtime.record_reader import RecordReader, RecordSlice, slice_at_controls
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.language.syntax import Subscription, with_mappings
from motet.model.batches import NotificationBatch, Records, Triple
from motet.model.control import ControlState
from motet.model.timeline import FrontierAfter, LogRecords
from motet.model.times import END_OF_TIME
from motet.plan.graph import Kind, Plan
from motet.plan.partitioning import BucketLayout


class Processor:
    """
    >>> from motet.model.batches import RecordRow
    >>> processor = Processor()
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b WITHIN 5 s SELECT ?a ?b"
    >>> subscribe = RecordRow(0, "subscribe", "s", None, None, None, False, text, ())
    >>> events = [RecordRow(i, "event", f"urn:{i}", i, i, None, False, None, ()) for i in (1, 2, 3)]
    >>> notifications = processor.advance(Records(rows=[subscribe, *events]), frontier=3)
    >>> [(notification.events, offset) for notification, offset in notifications.rows]
    [(('urn:1', 'urn:2'), 3)]
    """

    def __init__(
        self,
        *,
        background: frozenset[Triple] = frozenset(),
        entailment: str | None = None,
        earlier_records: EarlierRecordsReader | None = None,
        layout: BucketLayout | None = None,
        bucket: int | None = None,
        prototype: Dataflow | None = None,
    ) -> None:
        """With a ``layout`` it detects in one ``bucket``. It reuses what is planned and compiled for a prototype."""
        shared = prototype.shared.copy_plan(layout, bucket) if prototype else SharedPlan(layout=layout, bucket=bucket)
        self._dataflow = Dataflow.create(background, entailment, shared, earlier_records)
        if prototype:
            self._dataflow.plan.reuse_compiled(prototype.plan)
        self._waiting: Ints | None = None  # cached since the last records

    def activate(self, subscriptions: Iterable[Subscription], beginning: int | None = None) -> None:
        """Add subscriptions that are active before the first record.

        ``beginning`` is that of subscriptions without SINCE; None: the least end of the events.
        """
        self._dataflow.activate(subscriptions, beginning)

    def seek(self, offset: int) -> None:
        """Continue at an offset; the events before it are not read, but may exist."""
        self._dataflow.seek(offset)

    def advance(self, records: Records, frontier: FrontierAfter) -> NotificationBatch:
        """The notifications that the next records of the log make final, with their emission offsets.

        ``frontier`` is the one after the last record. With a timeline instead, the records are those of its range that
        concern this bucket, all control records among them.
        """
        self._waiting = None
        return self._dataflow.advance(records, frontier)

    def waiting(self, bound: int | None = None) -> int | None:
        """The greatest least frontier at which something pending becomes final, of those at or before ``bound``; None
        if there is none. At the greatest without a bound everything that is there is final.
        """
        self._dataflow.update_plan()
        if bound is not None and min(self._dataflow.state.detector.earliest_timer, END_OF_TIME - 1) >= bound:
            return None  # the usual case, without computing all instants
        instants = self.pending_instants()
        count = len(instants) if bound is None else int(instants.searchsorted(bound, side="right"))
        return int(instants[count - 1]) if count else None

    def waiting_instants(self) -> Ints:
        """The least frontiers, after the current one, at which pending occurrences become notifications; sorted."""
        return np.unique(self.pending_instants())

    def pending_instants(self) -> Ints:
        """For each notification that comes if no event follows, the least frontier at which it is final; sorted."""
        self._dataflow.update_plan()
        if self._waiting is None:
            self._waiting = self._probe() if self.is_stateful else np.empty(0, np.int64)
        return self._waiting[self._waiting > self._dataflow.state.frontier]

    def _probe(self) -> Ints:
        """The frontiers that the notifications of the present state still need, if no event follows."""
        if not self._dataflow.plan.derivations.has_edges:
            return self._dataflow.probe()
        shared = self._dataflow.shared  # derived events change more than the tables of nodes
        copy = Processor.restore(self.snapshot(), layout=shared.layout, bucket=shared.bucket, prototype=self)
        return copy._dataflow.probe()

    def dump(self) -> bytes:
        """The whole state as bytes; a processor that loads it continues exactly from here."""
        return self.snapshot().data

    @classmethod
    def load(cls, data: bytes, *, earlier_records: EarlierRecordsReader | None = None) -> Self:
        """A processor that continues from the bytes of `dump`; bytes that cannot be used are refused."""
        return cls.restore(StateSnapshot.from_bytes(data), earlier_records=earlier_records)

    def snapshot(self) -> StateSnapshot:
        """The whole state."""
        self._dataflow.update_plan()
        return capture(self._dataflow.state, self._dataflow.shared)

    @classmethod
    def restore(
        cls,
        snapshot: StateSnapshot,
        *,
        earlier_records: EarlierRecordsReader | None = None,
        layout: BucketLayout | None = None,
        bucket: int | None = None,
        prototype: Processor | None = None,
    ) -> Self:
        """A processor that continues from a state snapshot; it reuses what is planned and compiled for a prototype."""
        processor = cls(
            background=snapshot.graphs["given"],
            entailment=snapshot.header["entailment"],
            earlier_records=earlier_records,
            layout=layout,
            bucket=bucket,
            prototype=prototype._dataflow if prototype else None,
        )
        dataflow = processor._dataflow
        state, shared = dataflow.state, dataflow.shared
        restore_header(snapshot, state, shared)
        for active in restored_subscriptions(snapshot):
            dataflow.reader.add(active)
        state.has_changes = True
        dataflow.update_plan()
        state.restore_tables(snapshot.rows.tables, shared.builder.digests, shared.dictionary)
        return processor

    @classmethod
    def spawn(
        cls,
        prototype: Dataflow,
        subscriptions: Iterable[Subscription],
        bucket: int | None = None,
        beginning: int | None = None,
    ) -> Self:
        """A processor of a bucket with these subscriptions and a prototype's background that has read nothing.

        It reuses what is planned and compiled. ``beginning`` is as for `activate`.
        """
        prototype.update_plan()
        backgrounds, layout = prototype.state.backgrounds, prototype.shared.layout
        entailment = backgrounds.requested_entailment
        processor = cls(
            background=backgrounds.current, entailment=entailment, layout=layout, bucket=bucket, prototype=prototype
        )
        backgrounds.fix_edge_background()
        processor._dataflow.state.backgrounds.take_edges(backgrounds)
        processor.activate(subscriptions, beginning)
        return processor

    def refuse_cycles(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with the active ones."""
        self._dataflow.refuse_cycles(subscriptions)

    @property
    def background(self) -> frozenset[Triple]:
        """The current background graph."""
        return self._dataflow.state.backgrounds.current

    @property
    def is_stateful(self) -> bool:
        """Whether an active subscription is composite."""
        return any(active.root is not None for active in self._dataflow.state.active.values())

    @property
    def is_idle(self) -> bool:
        """Whether moving the frontier cannot cause a notification: there is no state, and no NO operator."""
        has_no = any(each.node.kind is Kind.NO for each in self._dataflow.state.detector.operator_nodes.values())
        return not has_no and not any(map(len, self._tables().values()))

    def statistics(self) -> dict[str, int]:
        """The numbers of active subscriptions, plan nodes, operator nodes, rows of state, terms and events."""
        return {
            "subscriptions": len(self._dataflow.state.active),
            "planned": len(self._dataflow.shared.builder.nodes),
            "nodes": len(self._dataflow.state.detector.operator_nodes),
            "rows": sum(map(len, self._tables().values())),
            "terms": len(self.dictionary.terms),
            "events": len(self.dictionary.events),
        }

    def _tables(self) -> dict[str, Occurrences]:
        return self._dataflow.state.tables(self._dataflow.shared.builder.digests)

    @property
    def dictionary(self) -> Dictionary:
        """The strings behind the values of all tables."""
        return self._dataflow.shared.dictionary

    @property
    def layout(self) -> BucketLayout | None:
        """How detection is partitioned."""
        return self._dataflow.shared.layout

    def set_layout(self, layout: BucketLayout) -> None:
        """Partition future subscriptions by another layout; it must be the same for the active ones."""
        self._dataflow.shared.layout = layout

    def operators(self) -> list[dict[str, object]]:
        """What each operator node computes and the size of its state, by the digest of its node."""
        self._dataflow.update_plan()
        digests, nodes = self._dataflow.shared.builder.digests, self._dataflow.state.detector.operator_nodes
        return [{"node": digests[node_id], **node.metadata()} for node_id, node in sorted(nodes.items())]

    def plan(self) -> Plan:
        """The plan of the active composite subscriptions."""
        roots = (active.root for active in self._dataflow.state.active.values() if active.root is not None)
        return self._dataflow.shared.builder.plan(roots)

    @property
    def digests(self) -> Sequence[str]:
        """The digests of the plan's nodes."""
        return [self._dataflow.shared.builder.digests[node_id] for node_id in self.plan().builder_ids]

    def variables_by_table(self) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each state table, its node in the plan, and the node's variables in its columns."""
        indexes = {node_id: index for index, node_id in enumerate(self.plan().builder_ids)}
        for table, node_id, variables in self._dataflow.state.variables_by_table(self._dataflow.shared.builder.digests):
            yield table, indexes[node_id], variables

    def derivation_linked(self) -> set[str]:
        """The active subscriptions at either end of a derivation edge."""
        return self._dataflow.plan.derivations.linked_names()


# The dataflow


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
