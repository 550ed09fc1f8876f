"""The processor: reads records of a log in batches of any size and returns the notifications they make final.

Single-event subscriptions are matched without state; all others are detected, with state. A control record takes effect
at its offset. The same class serves the embedded host and Spark. It does no I/O: the records that a backfill needs come
from the callback `earlier_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import FIRST_OFFSET
from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.detector import Detector, DetectorRun, add_occurrences
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.frontier import Frontier, ProbeFrontier
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.output import root_output
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription, Backfill, parse_stored
from motet.engine.runtime.backgrounds import Backgrounds
from motet.engine.runtime.derived_events import DerivationEdges
from motet.engine.runtime.emission import (
    NotificationBuilder,
    emit_small_solutions,
    emit_solutions,
    merge_notifications,
)
from motet.engine.runtime.processor_state import (
    ProcessorState,
    SharedPlan,
    capture,
    restore_header,
    restored_subscriptions,
)
from motet.engine.runtime.record_slices import RecordSlice, slice_at_controls
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.language.scope import is_single_event
from motet.language.syntax import Construct, Events, Subscription
from motet.model.batches import RecordRow, Triple
from motet.model.control import ControlState
from motet.model.notifications import Notification
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe
from motet.model.timeline import NO_FRONTIER, FrontierAfter, LogRecords, clamp_frontier
from motet.model.times import END_OF_TIME
from motet.plan.derivation_edges import feeds_itself
from motet.plan.graph import Kind, Plan, Start
from motet.plan.partitioning import BucketLayout

EarlierRecordsReader = Callable[[int], Iterable[LogRecords]]  # all records before an offset


class Processor:
    """
    >>> from motet.model.batches import RECORDS
    >>> processor = Processor()
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b WITHIN 5 s SELECT ?a ?b"
    >>> subscribe = {"offset": 0, "kind": "subscribe", "id": "s", "late": False, "text": text, "triples": []}
    >>> events = [
    ...     {"offset": i, "kind": "event", "id": f"urn:{i}", "start": i, "end": i, "late": False, "triples": []}
    ...     for i in (1, 2, 3)
    ... ]
    >>> notifications = processor.advance(pa.RecordBatch.from_pylist([subscribe, *events], RECORDS), frontier=3)
    >>> notifications.column("events").to_pylist(), notifications.column("offset").to_pylist()
    ([['urn:1', 'urn:2']], [3])
    """

    def __init__(
        self,
        *,
        background: frozenset[Triple] = frozenset(),
        entailment: str | None = None,
        earlier_records: EarlierRecordsReader | None = None,
        layout: BucketLayout | None = None,
        bucket: int | None = None,
        shared_plan: SharedPlan | None = None,
    ) -> None:
        """With a ``layout`` detection is partitioned: a processor with a ``bucket`` detects in that bucket, one without
        matches single-event subscriptions and routes events to buckets.
        """
        self._earlier_records = earlier_records
        self._layout = layout
        self._bucket = bucket
        self._shared = shared_plan or SharedPlan()
        self._state = ProcessorState(Detector(self._shared.dictionary), ControlState(background, entailment))
        self._backgrounds = Backgrounds(self._state.controls)
        self._shared.states.append(self._state)
        # Active CONSTRUCT subscriptions with SINCE: an event they derive can be late for one downstream subscription
        # and on time for another.
        self._backfilled_upstreams: set[str] = set()
        self._backfilled: list[ActiveSubscription] = []  # those whose backfill result is still to be emitted
        self._included: set[int] | None = None  # in a backfill: the offsets of the subscriptions that take part
        self._changed: dict[str, None] = {}  # names of added or removed subscriptions, the latest last
        self._has_changes = False  # changes that the active plan does not have yet
        self._plan = ActivePlan(self._backgrounds, self._shared)
        self._waiting: Ints | None = None  # cached since the last records

    def activate(self, subscriptions: Iterable[Subscription], beginning: int | None = None) -> None:
        """Add subscriptions that are active before the first record.

        ``beginning`` is that of subscriptions without SINCE; None: the least end of the events.
        """
        for subscription in subscriptions:
            self._subscribe(subscription, -1, Start(self._state.last_offset, subscription.since, beginning))

    def seek(self, offset: int) -> None:
        """Continue at an offset; the events before it are not read, but may exist."""
        self._state.last_offset = max(self._state.last_offset, offset - 1)
        self._state.has_events = self._state.has_events or offset > 0

    def advance(self, records: pa.RecordBatch, frontier: FrontierAfter) -> pa.RecordBatch:
        """The notifications that the next records of the log make final, with their emission offsets.

        ``frontier`` is the one after the last record. With a timeline instead, the records are those of its range that
        concern this bucket, all control records among them.
        """
        notifications: list[pa.RecordBatch] = []
        self._waiting = None
        for record_slice in slice_at_controls(records, frontier):
            self._begin_slice(record_slice)
            notifications += self._process_slice(record_slice)
        return merge_notifications(notifications)

    def advance_small(
        self, records: Sequence[RecordRow], frontier: int | None
    ) -> list[tuple[Notification, int]] | None:
        """As `advance`, for a small batch of events in Python values.

        None, and nothing is done, if there is a composite subscription, a change or a backfill result to process.
        """
        only_matches = not (self._plan.root_subscribers.by_node or self._backfilled or self._has_changes)
        if not only_matches or self._bucket is not None or any(record.kind != EVENT for record in records):
            return None
        if frontier is not None:
            self._state.frontier = max(self._state.frontier, clamp_frontier(frontier))
        visible = [record for record in records if not record.late]
        self._state.has_events = self._state.has_events or bool(visible)
        self._state.last_offset = records[-1].offset
        return emit_small_solutions(self._plan.matcher, visible) if visible and self._plan.matcher else []

    def route(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
        """The notifications of single-event subscriptions for the next records; and, for composite ones, rows (bucket,
        offset) of the events that each bucket needs, sorted.
        """
        assert self._layout is not None
        notifications: list[pa.RecordBatch] = []
        routes = [np.empty((0, 2), np.int64)]
        for record_slice in slice_at_controls(records, None):
            self._begin_slice(record_slice)
            if not len(record_slice.events):
                continue
            self._apply_changes()
            if self._plan.matcher:
                notifications.append(emit_solutions(self._plan.matcher, record_slice.events))
            for leaf, table in self._plan.leaf_matcher.occurrences(record_slice.events, self.dictionary).items():
                buckets = self._buckets_of(self._layout, leaf, table)
                routes.append(np.stack([buckets, table.columns[FIRST_OFFSET]], axis=1))
            self.dictionary.compact(())
        return merge_notifications(notifications), np.unique(np.concatenate(routes), axis=0)

    def _begin_slice(self, record_slice: RecordSlice) -> None:
        """Apply the control record of a slice, at the frontier that it stores."""
        self._state.frontier = max(self._state.frontier, record_slice.frontier_before)
        if record_slice.control is not None:
            self._apply_control(record_slice.control)

    def _apply_control(self, record: ControlRecord) -> None:
        self._has_changes = True
        match record:
            case Subscribe(name, text, offset):
                if self._included is not None and (offset not in self._included or self._is_backfilling(name)):
                    return
                (subscription,) = parse_stored(text, f"subscription {name!r} in the log")
                self._subscribe(subscription, offset, self._start(subscription))
                return
            case Unsubscribe(name):
                if not self._is_backfilling(name):
                    self._state.active.pop(name, None)
                    self._mark_changed(name)
                    self._backfilled_upstreams.discard(name)
            case _:
                self._state.controls.apply(record)
        self._state.last_offset = record.offset

    def _is_backfilling(self, name: str) -> bool:
        """Whether this processor runs the backfill of a subscription of that name: earlier ones are ignored."""
        return self._state.backfill is not None and self._state.backfill.active.subscription.name == name

    def _start(self, subscription: Subscription) -> Start:
        """The start of a subscription whose subscribe record is the next one of the log.

        The log of a lake has a settings record before every subscription, unless the lake is older than settings.
        """
        state = self._state
        frontier = None if state.frontier == NO_FRONTIER else min(state.frontier, END_OF_TIME)
        return Start(state.last_offset, subscription.since, frontier, is_old=state.controls.settings is None)

    def _subscribe(self, subscription: Subscription, offset: int, start: Start) -> None:
        reasoner = self._backgrounds.fix_edge_background()
        has_history = self._state.has_events or self._state.frontier > NO_FRONTIER
        needs_backfill = subscription.since is not None and has_history and self._earlier_records is not None
        derives = isinstance(subscription.delivery, Construct)
        if self._is_in_other_bucket(subscription, needs_backfill=needs_backfill):
            if needs_backfill:
                self._state.last_offset = offset  # later subscriptions start at the same offset in all buckets
            return
        feeds_self = derives and feeds_itself(subscription, reasoner)
        may_be_fed = self._layout is None or subscription.name in self._layout.derivation_linked
        is_unshared = needs_backfill or feeds_self or (may_be_fed and bool(self._backfilled_upstreams))
        if needs_backfill:
            start = replace(start, offset=offset)
        active = ActiveSubscription(subscription, offset, start, is_unshared, self._state.frontier)
        if derives:
            self._state.construct_offsets.add(offset)
        self._add(active)
        if isinstance(subscription.delivery, Events) and (needs_backfill or active.root is not None):
            self._shared.dictionary.events.with_triples = True
        if needs_backfill:
            self._backfill(active)
            self._state.last_offset = offset

    def _is_in_other_bucket(self, subscription: Subscription, *, needs_backfill: bool) -> bool:
        """Whether no event of this bucket concerns a subscription.

        Single-event subscriptions are matched before events are routed; buckets have only their backfills and those
        that derived events feed.
        """
        if self._layout is None or self._bucket is None:
            return False
        is_linked = subscription.name in self._layout.derivation_linked
        if is_single_event(subscription) and not needs_backfill and not is_linked:
            return True
        return self._bucket not in self._layout.holders(subscription)

    def _add(self, active: ActiveSubscription) -> None:
        self._put(active)
        if isinstance(active.subscription.delivery, Construct):
            active.templates = ConstructTemplates(active.subscription.delivery.templates)
            if active.subscription.since is not None:
                self._backfilled_upstreams.add(active.subscription.name)
        if not is_single_event(active.subscription):
            self._build_root(active)

    def _put(self, active: ActiveSubscription) -> None:
        """Make a subscription the last of the active ones."""
        name = active.subscription.name
        self._state.active.pop(name, None)
        self._state.active[name] = active
        self._mark_changed(name)

    def _mark_changed(self, name: str) -> None:
        self._changed.pop(name, None)
        self._changed[name] = None
        self._has_changes = True

    def _build_root(self, active: ActiveSubscription) -> None:
        active.root = self._shared.root(active, self._layout)
        active.output = root_output(active.root, self._shared.builder.nodes[active.root.node], active.offset)

    def _backfill(self, active: ActiveSubscription) -> None:
        """Process the earlier records for a subscription in a second processor, and take over its nodes.

        The result is emitted with the subscribe record.
        """
        assert self._earlier_records is not None
        is_rootless = active.root is None
        if is_rootless:
            self._build_root(active)
        processor = Processor(
            background=self._backgrounds.initial,
            entailment=self._backgrounds.requested_entailment,
            earlier_records=self._earlier_records,
            layout=self._layout,
            bucket=self._bucket,
            shared_plan=self._shared,
        )
        processor._backgrounds.take_edges(self._backgrounds)
        processor._included = self._state.construct_offsets
        earlier, retractions = self._earlier_records(active.offset), self._state.controls.retractions
        active.backfill_result = processor._run_backfill(active, earlier, retractions)
        self._backfilled.append(active)
        self._shared.states.remove(processor._state)
        if is_rootless:
            active.root = None
        else:
            self._state.detector.operator_nodes.update(processor._state.detector.operator_nodes)

    def _run_backfill(
        self,
        active: ActiveSubscription,
        earlier_records: Iterable[LogRecords],
        retractions: dict[str, int],
    ) -> Occurrences:
        """The occurrences of a subscription in earlier records; only its nodes are left in this processor."""
        assert active.subscription.since is not None and active.root is not None and active.output is not None
        node_ids = self._shared.builder.reachable([active.root])
        self._state.backfill = Backfill(active, active.subscription.since, retractions, node_ids)
        self._put(active)
        for records, frontier in earlier_records:
            self.advance(records, frontier)
        operator_nodes = self._state.detector.operator_nodes
        self._state.detector.operator_nodes = {
            node_id: operator_node for node_id, operator_node in operator_nodes.items() if node_id in node_ids
        }
        return concatenate([empty_table(len(active.output.projected)), *self._state.backfill.results])

    def _process_slice(self, record_slice: RecordSlice) -> list[pa.RecordBatch]:
        """The notifications of a slice, whose control record has been applied."""
        state, previous = self._state, self._state.frontier
        state.frontier = max(previous, int(record_slice.frontiers.max()))
        backfilled, self._backfilled = self._backfilled, []
        if record_slice.is_subscription and not backfilled and state.frontier == previous:
            return []
        self._apply_changes()
        matches = self._bucket is None and len(record_slice.events) > 0
        notifications = (
            [emit_solutions(self._plan.matcher, record_slice.events)] if matches and self._plan.matcher else []
        )
        if self._plan.root_subscribers.by_node or backfilled:
            state.detector.see_ends(record_slice.visible_ends)
            frontier = Frontier.from_records(record_slice.offsets, record_slice.frontiers, previous)
            state.frontier = frontier.current
            notifications += self._detect(record_slice.events, frontier, backfilled)
        if not record_slice.is_subscription:
            state.last_offset = int(record_slice.offsets[-1])
        state.has_events = state.has_events or len(record_slice.visible_ends) > 0
        if state.construct_offsets and not state.backfill:
            state.prune_consumed_derived()
        return notifications

    def _apply_changes(self) -> None:
        """Update the active plan by the subscriptions that were added and removed, and by the background."""
        if self._has_changes:
            changed, self._changed, self._has_changes = self._changed, {}, False
            self._plan.update(changed, self._state, self._shared, self._backgrounds)

    def _detect(
        self, events: pa.RecordBatch, frontier: Frontier, backfilled: Sequence[ActiveSubscription]
    ) -> list[pa.RecordBatch]:
        if self.dictionary.should_compact:
            self._prune(frontier)
        builder, leaves = NotificationBuilder(self.dictionary), self._leaf_occurrences(events)
        for active in backfilled:
            assert active.backfill_result is not None
            add_occurrences(leaves, self._emit(active, active.backfill_result, builder))
            active.backfill_result = None
        self._emit_run(self._state.detector.advance(leaves, frontier), frontier, builder)
        return builder.notifications()

    def _emit_run(self, run: DetectorRun, frontier: Frontier, builder: NotificationBuilder) -> None:
        """Emit the occurrences of root nodes, and feed the derived events to the leaves that run later."""
        by_node, dictionary = self._plan.root_subscribers.by_node, self.dictionary
        for node_id, table in run:
            if node_id not in by_node:
                continue
            env = OperatorEnv(frontier, dictionary, lag=self._state.detector.lag_of(node_id))
            group = None if self._state.backfill else self._plan.root_subscribers.group(node_id)
            if group and (output := group.shared_output(table, env)):
                builder.add_output(output)
                continue
            for active in by_node[node_id].values():
                assert active.output is not None
                run.add(self._emit(active, active.output.advance(table, env), builder))

    def _emit(
        self, active: ActiveSubscription, table: Occurrences, builder: NotificationBuilder
    ) -> dict[int, Occurrences]:
        """Emit the occurrences of a subscription; returns the occurrences of leaves in its derived events."""
        backfill = self._state.backfill
        if not len(table):
            return {}
        if backfill and backfill.active is active:
            backfill.results.append(table)
            return {}
        derived = builder.add_occurrences(active, table)
        if not derived:
            return {}
        edges = DerivationEdges(self._state, self._shared, self._plan, builder)
        return edges.leaf_occurrences(active, table, derived)

    def _leaf_occurrences(self, events: pa.RecordBatch) -> dict[int, Occurrences]:
        """The occurrences of leaves that are detected here."""
        dictionary, backfill, layout = self.dictionary, self._state.backfill, self._layout
        leaves = self._plan.leaf_matcher.occurrences(events, dictionary)
        if layout:
            leaves = {
                leaf: table.take(self._buckets_of(layout, leaf, table) == self._bucket)
                for leaf, table in leaves.items()
            }
        if backfill:
            leaves = {leaf: backfill.visible(leaf, table, dictionary) for leaf, table in leaves.items()}
        return leaves

    def _buckets_of(self, layout: BucketLayout, leaf: int, table: Occurrences) -> Ints:
        dictionary = self.dictionary
        node, iris = self._shared.builder.nodes[leaf], dictionary.events.iris
        return layout.buckets(node, table.values, dictionary.string, lambda: iris(table.events).to_pylist())

    def _prune(self, frontier: Frontier) -> None:
        """Drop state that can no longer contribute, and compact the dictionary."""
        previous = Frontier(frontier.offsets[:0], frontier.instants[:0], frontier.previous, frontier.first_offset)
        self._state.detector.prune(previous)
        self._shared.compact_dictionary()

    def waiting(self, bound: int | None = None) -> int | None:
        """The greatest least frontier at which something pending becomes final, of those at or before ``bound``; None
        if there is none. At the greatest without a bound everything that is there is final.
        """
        self._apply_changes()
        if bound is not None and min(self._state.detector.earliest_timer, END_OF_TIME - 1) >= bound:
            return None  # the usual case, without computing all instants
        instants = self.pending_instants()
        count = len(instants) if bound is None else int(instants.searchsorted(bound, side="right"))
        return int(instants[count - 1]) if count else None

    def waiting_instants(self) -> Ints:
        """The least frontiers, after the current one, at which pending occurrences become notifications; sorted."""
        return np.unique(self.pending_instants())

    def pending_instants(self) -> Ints:
        """For each notification that comes if no event follows, the least frontier at which it is final; sorted."""
        self._apply_changes()
        if self._waiting is None:
            self._waiting = self._probe() if self.is_stateful else np.empty(0, np.int64)
        return self._waiting[self._waiting > self._state.frontier]

    def _probe(self) -> Ints:
        """The frontiers that the notifications of the present state still need, if no event follows."""
        if self._plan.derivations.has_edges:  # derived events change more than the tables of nodes
            state = self.snapshot()
            copy = Processor.restore(state, layout=self._layout, bucket=self._bucket, prototype=self)
            return copy._run_probe()
        emitted = {name: each.emitted_before for name, each in self._state.deduplicators().items()}
        try:
            return self._run_probe()
        finally:
            for name, deduplicator in self._state.deduplicators().items():
                deduplicator.emitted_before = emitted[name]

    def _run_probe(self) -> Ints:
        frontier = ProbeFrontier.after(self._state.frontier)
        builder = NotificationBuilder(self.dictionary)
        self._emit_run(self._state.detector.probe(frontier), frontier, builder)
        offsets = [np.asarray(batch.column("offset")) for batch in builder.notifications()]
        instants = frontier.final_frontiers(np.concatenate([np.empty(0, np.int64), *offsets]))
        return np.sort(np.minimum(instants, END_OF_TIME))

    def dump(self) -> bytes:
        """The whole state as bytes; a processor that loads it continues exactly from here."""
        return self.snapshot().data

    @classmethod
    def load(cls, data: bytes, *, earlier_records: EarlierRecordsReader | None = None) -> Self:
        """A processor that continues from the bytes of `dump`; bytes that cannot be used are refused."""
        return cls.restore(StateSnapshot.from_bytes(data), earlier_records=earlier_records)

    def snapshot(self) -> StateSnapshot:
        """The whole state."""
        self._apply_changes()
        return capture(self._state, self._shared, self._backgrounds)

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
            shared_plan=prototype._shared.copy_plan() if prototype else None,
        )
        if prototype:
            processor._plan.reuse_compiled(prototype._plan)
        processor._backgrounds.restore(snapshot.graphs)
        restore_header(snapshot, processor._state, processor._shared)
        for active in restored_subscriptions(snapshot):
            processor._add(active)
        processor._has_changes = True
        processor._apply_changes()
        digests = processor._shared.builder.digests
        processor._state.restore_tables(snapshot.rows.tables, digests, processor.dictionary)
        return processor

    def spawn(
        self, subscriptions: Iterable[Subscription], bucket: int | None = None, beginning: int | None = None
    ) -> Processor:
        """A processor of a bucket with these subscriptions and the same background that has read nothing.

        It reuses what is planned and compiled. ``beginning`` is as for `activate`.
        """
        self._apply_changes()
        processor = Processor(
            background=self.background,
            entailment=self._backgrounds.requested_entailment,
            layout=self._layout,
            bucket=bucket,
            shared_plan=self._shared.copy_plan(),
        )
        self._backgrounds.fix_edge_background()
        processor._backgrounds.take_edges(self._backgrounds)
        processor._plan.reuse_compiled(self._plan)
        processor.activate(subscriptions, beginning)
        return processor

    def refuse_cycles(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with the active ones."""
        self._apply_changes()
        self._plan.derivations.refuse_cycles(subscriptions, self._backgrounds.likely_edge_reasoner)

    @property
    def background(self) -> frozenset[Triple]:
        """The current background graph."""
        return self._backgrounds.current

    @property
    def is_stateful(self) -> bool:
        """Whether an active subscription is composite."""
        return any(active.root is not None for active in self._state.active.values())

    @property
    def is_idle(self) -> bool:
        """Whether moving the frontier cannot cause a notification: there is no state, and no NO operator."""
        has_no = any(each.node.kind is Kind.NO for each in self._state.detector.operator_nodes.values())
        return not has_no and not any(map(len, self._tables().values()))

    def statistics(self) -> dict[str, int]:
        """The numbers of active subscriptions, plan nodes, operator nodes, rows of state, terms and events."""
        return {
            "subscriptions": len(self._state.active),
            "planned": len(self._shared.builder.nodes),
            "nodes": len(self._state.detector.operator_nodes),
            "rows": sum(map(len, self._tables().values())),
            "terms": len(self.dictionary.terms),
            "events": len(self.dictionary.events),
        }

    def _tables(self) -> dict[str, Occurrences]:
        return self._state.tables(self._shared.builder.digests)

    @property
    def dictionary(self) -> Dictionary:
        """The strings behind the values of all tables."""
        return self._shared.dictionary

    @property
    def layout(self) -> BucketLayout | None:
        """How detection is partitioned."""
        return self._layout

    def set_layout(self, layout: BucketLayout) -> None:
        """Partition future subscriptions by another layout; it must be the same for the active ones."""
        self._layout = layout

    def plan(self) -> Plan:
        """The plan of the active composite subscriptions."""
        roots = (active.root for active in self._state.active.values() if active.root is not None)
        return self._shared.builder.plan(roots)

    @property
    def digests(self) -> Sequence[str]:
        """The digests of the plan's nodes."""
        return [self._shared.builder.digests[node_id] for node_id in self.plan().builder_ids]

    def variables_by_table(self) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each state table, its node in the plan, and the node's variables in its columns."""
        indexes = {node_id: index for index, node_id in enumerate(self.plan().builder_ids)}
        for table, node_id, variables in self._state.variables_by_table(self._shared.builder.digests):
            yield table, indexes[node_id], variables

    def derivation_linked(self) -> set[str]:
        """The active subscriptions at either end of a derivation edge."""
        return self._plan.derivations.linked_names()
