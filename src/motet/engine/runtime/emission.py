"""Emits notifications for the occurrences of root nodes, and matches derived events for the leaves they feed.

The subscriptions of one root node whose notifications have only bindings are emitted together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import EMISSION_OFFSET, END, FIRST_OFFSET, START
from motet.engine.detect.construct import ConstructedEvent, derived_records, template_solutions
from motet.engine.detect.frontier import Frontier
from motet.engine.detect.occurrences import Occurrences, concatenate
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.output import (
    OutputBatch,
    add_constructs,
    add_graphs,
    notification_batch,
    single_output,
    sorted_output,
)
from motet.engine.match.single_events import notify
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.engine.runtime.processor_state import ProcessorState, SharedPlan
from motet.jit.compiled import Ints
from motet.language.syntax import Events
from motet.model.batches import notification_rows

LeafOccurrences = dict[int, Occurrences]  # by node
Downstream = Mapping[str, Sequence[int]]  # by subscription: its leaves


@dataclass
class Emitter:
    """Collects the notifications of one record slice, along which the frontier moves."""

    state: ProcessorState
    shared: SharedPlan
    plan: ActivePlan
    frontier: Frontier
    _finished: list[pa.RecordBatch] = field(default_factory=list)
    _outputs: list[OutputBatch] = field(default_factory=list)  # with bindings only, converted together at the end

    def notifications(self) -> list[pa.RecordBatch]:
        """All notifications so far."""
        if not self._outputs:
            return self._finished
        return [*self._finished, notification_batch(sorted_output(self._outputs), self.shared.dictionary)]

    def emit_node(self, node_id: int, table: Occurrences) -> LeafOccurrences:
        """Emit the occurrences of a node to its subscribers; returns the leaf occurrences of their derived events."""
        env = OperatorEnv(self.frontier, self.shared.dictionary, lag=self.state.detector.lag_of(node_id))
        group = None if self.state.backfill else self.plan.root_subscribers.group(node_id)
        if group and (output := group.shared_output(table, env)):
            self._outputs.append(output)
            return {}
        leaves: LeafOccurrences = {}
        for active in self.plan.root_subscribers.by_node.get(node_id, {}).values():
            assert active.output is not None
            add_occurrences(leaves, self.emit(active, active.output.advance(table, env)))
        return leaves

    def emit(self, active: ActiveSubscription, table: Occurrences) -> LeafOccurrences:
        """Emit the occurrences of a subscription; returns the leaf occurrences of its derived events."""
        backfill = self.state.backfill
        if not len(table):
            return {}
        if backfill and backfill.active is active:
            backfill.results.append(table)
            return {}
        assert active.output is not None
        if active.has_only_bindings:
            self._outputs.append(single_output(active.output, table))
            return {}
        dictionary = self.shared.dictionary
        batch = notification_batch([single_output(active.output, table)], dictionary)
        if isinstance(active.subscription.delivery, Events):
            batch = add_graphs(batch, table, dictionary)
        derived = self._derive(active, batch, table)
        if active.templates is not None:
            lines = [sorted({line for event in events for line in event.lines}) for events in derived]
            batch = add_constructs(batch, lines)
        self._finished.append(batch)
        return self._feed(active, table, derived)

    def _derive(
        self, active: ActiveSubscription, batch: pa.RecordBatch, table: Occurrences
    ) -> list[list[ConstructedEvent]]:
        """The derived events of each notification of a subscription."""
        if active.templates is None:
            return []
        assert active.output is not None
        projected, dictionary = active.output.projected, self.shared.dictionary
        return [
            active.templates.derive(notification.id, template_solutions(projected, table, row, dictionary))
            for row, (notification, _) in enumerate(notification_rows(batch))
        ]

    def _feed(
        self, upstream: ActiveSubscription, table: Occurrences, derived: Sequence[Sequence[ConstructedEvent]]
    ) -> LeafOccurrences:
        """Match derived events for the subscriptions they feed: emit single-event ones, return leaf occurrences."""
        leaves: LeafOccurrences = {}
        for clause in sorted({event.clause for events in derived for event in events}):
            rows = [(row, event) for row, events in enumerate(derived) for event in events if event.clause == clause]
            if downstream := self.plan.derivations.downstream(upstream.subscription.name, clause):
                events, offsets = self._records(table, rows)
                add_occurrences(leaves, self._match_leaves(upstream, events, offsets, downstream))
                self._finished += self._match_single_event(upstream, events, offsets, downstream)
        return leaves

    def _records(self, table: Occurrences, rows: Sequence[tuple[int, ConstructedEvent]]) -> tuple[pa.RecordBatch, Ints]:
        """Derived events as records with numbers instead of offsets, and the emission offset of each."""
        indexes = np.array([row for row, _ in rows], np.int64)
        start, end, offsets = (table.columns[column][indexes] for column in (START, END, EMISSION_OFFSET))
        records = derived_records([event for _, event in rows], start, end, self.shared.derived_count)
        self.shared.derived_count += len(rows)
        return records, offsets

    def _match_leaves(
        self, upstream: ActiveSubscription, events: pa.RecordBatch, offsets: Ints, downstream: Downstream
    ) -> LeafOccurrences:
        """The leaf occurrences of derived events, at the emission offsets of their notifications."""
        by_name, backfill, dictionary = self.state.active, self.state.backfill, self.shared.dictionary
        first = int(events.column("offset")[0].as_py())
        owners = {leaf: by_name[name] for name, leaves in downstream.items() if by_name[name].root for leaf in leaves}
        visible, consumed = {}, []
        for leaf, table in self.plan.leaf_matcher.occurrences(events, dictionary, only=owners).items():
            row_offsets, owner = offsets[table.events - first], owners[leaf]
            rows = table.with_column(EMISSION_OFFSET, row_offsets).with_column(FIRST_OFFSET, row_offsets)
            if backfill and backfill.active is owner:
                rows = backfill.visible(leaf, rows, dictionary, always=True)
            elif owner.offset < upstream.offset:
                rows = rows.take(rows.columns[END] >= upstream.frontier)
            iris = dictionary.events.iris(rows.events).to_pylist()
            visible[leaf] = rows.take(~owner.has_consumed(iris))
            consumed.append((owner, dict(zip(iris, rows.columns[END].tolist(), strict=True))))
        for owner, ends in consumed:  # after all leaves of the owner were matched
            owner.consumed_derived.update(ends)
        return visible

    def _match_single_event(
        self, upstream: ActiveSubscription, events: pa.RecordBatch, offsets: Ints, downstream: Downstream
    ) -> list[pa.RecordBatch]:
        """The notifications of single-event subscriptions for derived events."""
        by_name = self.state.active
        subscriptions = [by_name[name] for name in downstream if not by_name[name].root]
        if self.state.backfill or not subscriptions or self.plan.matcher is None:
            return []
        batch = notify(self.plan.matcher, events)
        index = batch.schema.get_field_index("offset")
        row_offsets = offsets[np.asarray(batch.column(index)) - int(events.column("offset")[0].as_py())]
        batch = batch.set_column(index, batch.schema.field(index), pa.array(row_offsets))
        ends = np.asarray(batch.column("end").cast(pa.int64()))
        names = np.asarray(batch.column("subscription").to_pylist(), object)
        iris = batch.column("events").flatten().to_pylist()
        is_emitted = np.zeros(len(batch), np.bool_)
        for active in subscriptions:
            is_early = active.offset < upstream.offset
            is_on_time = (ends >= upstream.frontier) if is_early else (row_offsets > active.offset)
            is_visible = (names == active.subscription.name) & is_on_time
            is_emitted |= is_visible & ~active.has_consumed(iris)
            active.consumed_derived.update((iris[row], int(ends[row])) for row in np.flatnonzero(is_visible))
        return [batch.filter(pa.array(is_emitted))]


def add_occurrences(leaves: LeafOccurrences, added: Mapping[int, Occurrences]) -> None:
    """Append occurrences, by leaf, to those that are there."""
    for leaf, table in added.items():
        leaves[leaf] = concatenate([leaves[leaf], table]) if leaf in leaves else table
