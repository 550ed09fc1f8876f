"""The partitioned runtime: a router spreads the records of a log over buckets, and a worker detects in each of them.

A router matches single-event subscriptions, which need no state, and finds the events that each bucket needs. A worker
reads the events of its bucket, all control records, and the frontier after each record, also of other buckets. What
carries rows from routers to workers is the host's: a shuffle of Spark, or a loop in one process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.table_kernels import FIRST_OFFSET
from motet.engine.match.closure import closed_background
from motet.engine.runtime.dataflow import Dataflow, EarlierRecordsReader, slice_at_controls
from motet.engine.runtime.emission import emit_solutions, merge_notifications
from motet.engine.runtime.processor import Processor
from motet.engine.runtime.processor_state import SharedPlan
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.language.parse import parse_registered
from motet.language.scope import has_no, is_single_event
from motet.language.syntax import Construct, Subscription
from motet.model.batches import RECORDS, Records, Triple
from motet.model.control import ControlState, entailment_of, registrations
from motet.model.records import EVENT, BackgroundChange, SettingsChange, Subscribe, control_records
from motet.model.timeline import FrontierAfter, FrontierTimeline, LogRecords
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges, linked_names
from motet.plan.partitioning import BucketLayout

_ROUTED_KINDS = pa.array([EVENT, BackgroundChange.kind, SettingsChange.kind])  # that a backfill's router reads
_NO_RECORDS = pa.RecordBatch.from_pylist([], schema=RECORDS)
_NO_ROUTES = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class RoutedRecords:
    """Records after the router: notifications of single-event subscriptions, and what each bucket needs."""

    records: pa.RecordBatch
    notifications: pa.RecordBatch = field(default_factory=lambda: merge_notifications(()))
    routes: Ints = field(default_factory=lambda: _NO_ROUTES)  # rows (bucket, offset), sorted

    def by_bucket(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The events of each bucket that needs some."""
        rows = np.searchsorted(self.records.column("offset").to_numpy(), self.routes[:, 1])
        for bucket in np.unique(self.routes[:, 0]).tolist():
            yield bucket, self.records.take(pa.array(rows[self.routes[:, 0] == bucket])).cast(RECORDS)


class Router:
    """Routes the records of a log; each subscription is active from its subscribe record."""

    def __init__(
        self, layout: BucketLayout, *, background: frozenset[Triple] = frozenset(), entailment: str | None = None
    ) -> None:
        self.layout = layout
        self._dataflow = Dataflow.create(background, entailment, SharedPlan(layout=layout))

    @property
    def background(self) -> frozenset[Triple]:
        """The background graph after the records so far."""
        return self._dataflow.state.backgrounds.current

    def activate(self, subscriptions: Iterable[Subscription]) -> None:
        """Add subscriptions that are active before the first record."""
        self._dataflow.activate(subscriptions)

    def refuse_cycles(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with the active ones."""
        self._dataflow.refuse_cycles(subscriptions)

    def route(self, records: pa.RecordBatch) -> RoutedRecords:
        """Route the next records: match single-event subscriptions, and find the events that each bucket needs."""
        dataflow, dictionary = self._dataflow, self._dataflow.dictionary
        notifications: list[pa.RecordBatch] = []
        routes = [_NO_ROUTES]
        for record_slice in slice_at_controls(Records(columns=records), None):
            if record_slice.control is not None:
                dataflow.apply_control(record_slice)
            if not record_slice.has_events:
                continue
            dataflow.update_plan()
            if dataflow.plan.matcher:
                matches = dataflow.plan.matcher.solve(record_slice.events)
                notifications.append(emit_solutions(matches).columns)
            for leaf, table in dataflow.plan.leaf_matcher.occurrences(record_slice.events, dictionary).items():
                routes.append(np.stack([dataflow.buckets_of(leaf, table), table.columns[FIRST_OFFSET]], axis=1))
            dictionary.compact(())
        return RoutedRecords(records, merge_notifications(notifications), np.unique(np.concatenate(routes), axis=0))

    def spawn_worker(
        self, subscriptions: Iterable[Subscription], bucket: int, beginning: int | None = None
    ) -> PartitionWorker:
        """A worker that has read nothing; it reuses what the router has planned and compiled for the subscriptions."""
        return PartitionWorker(Processor.spawn(self._dataflow, subscriptions, bucket, beginning))


@dataclass
class PartitionWorker:
    """Detects in one bucket."""

    processor: Processor

    @classmethod
    def create(
        cls, layout: BucketLayout, bucket: int, earlier_records: EarlierRecordsReader | None = None
    ) -> PartitionWorker:
        """A worker at the beginning of a log."""
        return cls(Processor(earlier_records=earlier_records, layout=layout, bucket=bucket))

    @classmethod
    def restore(
        cls,
        snapshot: StateSnapshot,
        layout: BucketLayout,
        bucket: int,
        earlier_records: EarlierRecordsReader | None = None,
        prototype: Processor | None = None,
    ) -> PartitionWorker:
        """A worker that continues from a state snapshot; it reuses what is compiled for a prototype."""
        return cls(
            Processor.restore(
                snapshot, earlier_records=earlier_records, layout=layout, bucket=bucket, prototype=prototype
            )
        )

    def advance(self, batches: Sequence[pa.RecordBatch], frontier: FrontierAfter) -> pa.RecordBatch:
        """The notifications that the next records make final: events of the bucket, and all control records.

        ``frontier`` is the timeline of the offset range the records are from, or the frontier after the last one.
        """
        return self.processor.advance(Records(columns=sorted_records(batches)), frontier).columns

    def needs_rebuild(self, layout: BucketLayout, registered: Collection[str]) -> bool:
        """Whether state that another layout moves to this bucket is in others: that of subscriptions which were
        registered before the next records and are newly linked by derivation edges.
        """
        current = self.processor.layout
        linked = current.derivation_linked if current else frozenset()
        return not (layout.derivation_linked - linked).isdisjoint(registered)

    @classmethod
    def rebuild(
        cls,
        layout: BucketLayout,
        bucket: int,
        records: Iterable[LogRecords],
        earlier_records: EarlierRecordsReader | None = None,
    ) -> PartitionWorker:
        """A worker that has read the whole log so far, whose notifications exist already."""
        worker = cls.create(layout, bucket, earlier_records)
        for batch, frontier in records:
            worker.advance([batch], frontier)
        return worker


def sorted_records(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of RECORDS as one, sorted by offset."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches, schema=RECORDS).combine_chunks()
    order = pa.array(table["offset"].to_numpy().argsort(kind="stable"))
    sorted_batches = table.take(order).combine_chunks().to_batches()
    return sorted_batches[0] if sorted_batches else _NO_RECORDS


def backfill_records(
    subscription: Subscription, layout: BucketLayout, records: Iterable[tuple[pa.RecordBatch, int | None]]
) -> Iterator[tuple[FrontierTimeline, Sequence[pa.RecordBatch]]]:
    """For each batch of the records before a subscription with SINCE, its timeline and what each bucket needs of it."""
    router = Router(layout)
    router.activate([replace(subscription, since=None)])
    for batch, frontier in records:
        timeline = FrontierTimeline.from_records(batch, frontier)
        routes = router.route(batch.filter(pc.is_in(batch.column("kind"), _ROUTED_KINDS))).routes
        needed = (
            np.isin(timeline.offsets, routes[routes[:, 0] == bucket, 1]) | timeline.is_boundary
            for bucket in range(layout.count)
        )
        yield timeline, [batch.filter(pa.array(rows)).cast(RECORDS) for rows in needed]


def derivation_linked(controls: pa.RecordBatch) -> frozenset[str]:
    """The names at either end of a derivation edge, if all subscriptions of the given records were active at once.

    The records begin with the log; other records than control records are skipped.
    """
    records = list(control_records(controls, Subscribe, BackgroundChange, SettingsChange))
    subscriptions = [subscription for each in registrations(records) for subscription in parse_registered(each)]
    if not any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        return frozenset()
    state = ControlState().apply_all(records)
    return linked_names(
        build_plan(subscriptions), closed_background(state.fix_edge_background(), state.edge_entailment).reasoner
    )


@dataclass(frozen=True)
class PartitionedRun:
    """A batch run: subscriptions that are active before its first event, in buckets. Picklable."""

    subscriptions: tuple[Subscription, ...]
    background: frozenset[Triple]
    entailment: str | None  # None: the default for the background
    layout: BucketLayout

    @classmethod
    def plan(
        cls, subscriptions: Sequence[Subscription], background: frozenset[Triple], entailment: str | None, count: int
    ) -> PartitionedRun:
        """The run of some subscriptions in ``count`` buckets; cycles of derivation edges are refused.

        >>> from motet.language.parse import parse
        >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
        >>> one = f"SUBSCRIPTION one {leaf('a')} WHEN a "
        >>> two = f"SUBSCRIPTION two {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s "
        >>> run = PartitionedRun.plan(parse(one + two), frozenset(), "none", 64)
        >>> [subscription.name for subscription in run.composite], run.may_repeat
        (['two'], False)
        """
        linked: set[str] = set()
        if any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
            reasoner = closed_background(background, entailment_of(background, entailment)).reasoner
            edges = derivation_edges(build_plan(subscriptions), reasoner)
            linked.update(name for edge in edges for name in (edge.producer, edge.consumer))
        layout = BucketLayout(count, frozenset(linked), may_repeat=True)
        return cls(tuple(subscriptions), background, entailment, layout)

    @property
    def composite(self) -> Sequence[Subscription]:
        """The subscriptions that workers detect."""
        return [subscription for subscription in self.subscriptions if not is_single_event(subscription)]

    @property
    def may_repeat(self) -> bool:
        """Whether several buckets may compute the same notification."""
        routes = (route for subscription in self.composite for route in self.layout.routes(subscription).values())
        return any(route.may_repeat for route in routes)

    @property
    def no_buckets(self) -> Sequence[int]:
        """The buckets with a NO, whose beginning is the least end of all events, also of other buckets."""
        with_no = (subscription for subscription in self.composite if has_no(subscription.pattern))
        return sorted({bucket for subscription in with_no for bucket in self.layout.holders(subscription)})

    def route(self, records: pa.RecordBatch) -> RoutedRecords:
        """Route event records."""
        return self._router.route(records)

    def worker(self, bucket: int, beginning: int | None = None) -> PartitionWorker:
        """The worker of a bucket in its initial state; ``beginning`` is the least end of all events."""
        return self._router.spawn_worker(self.subscriptions, bucket, beginning)

    @cached_property
    def _router(self) -> Router:
        router = Router(self.layout, background=self.background, entailment=self.entailment)
        router.activate(self.subscriptions)
        return router

    def __reduce__(self) -> tuple[type[PartitionedRun], tuple[object, ...]]:
        return PartitionedRun, (self.subscriptions, self.background, self.entailment, self.layout)
