"""The processor: reads records of a log in batches of any size and returns the notifications they make final.

Single-event subscriptions are matched without state; all others are detected, with state. A control record takes effect
at its offset. The same class serves the embedded host and Spark. It does no I/O: the records that a backfill needs come
from the callback `earlier_records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.runtime.dataflow import Dataflow, EarlierRecordsReader
from motet.engine.runtime.processor_state import SharedPlan, capture, restore_header, restored_subscriptions
from motet.engine.state.snapshot import StateSnapshot
from motet.jit.compiled import Ints
from motet.language.syntax import Subscription
from motet.model.batches import NotificationBatch, Records, Triple
from motet.model.timeline import FrontierAfter
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
