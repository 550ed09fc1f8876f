"""Matches derived events for the subscriptions they feed (language page, section 12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from motet.engine.detect.construct import ConstructedEvent, derived_records
from motet.engine.detect.detector import add_occurrences
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import EMISSION_OFFSET, END, FIRST_OFFSET, START
from motet.engine.runtime.active_plan import ActivePlan
from motet.engine.runtime.active_subscription import ActiveSubscription, BackfillView
from motet.engine.runtime.emission import NotificationBuilder, emit_solutions
from motet.engine.runtime.processor_state import ProcessorState, SharedPlan
from motet.jit.compiled import Ints
from motet.model.batches import NotificationBatch, Records

Downstream = Mapping[str, Sequence[int]]  # by subscription: its leaves


class DerivationEdges:
    """Matches the derived events of one record slice."""

    def __init__(
        self,
        state: ProcessorState,
        shared: SharedPlan,
        plan: ActivePlan,
        backfill: BackfillView | None,
        builder: NotificationBuilder,
    ) -> None:
        self._state = state
        self._shared = shared
        self._plan = plan
        self._backfill = backfill
        self._builder = builder

    def leaf_occurrences(
        self, upstream: ActiveSubscription, table: Occurrences, derived: Sequence[Sequence[ConstructedEvent]]
    ) -> dict[int, Occurrences]:
        """The occurrences of leaves in derived events, and emit the single-event subscriptions they feed.

        ``derived`` are the events that each occurrence of the upstream subscription makes.
        """
        leaves: dict[int, Occurrences] = {}
        for clause in sorted({event.clause for events in derived for event in events}):
            rows = [(row, event) for row, events in enumerate(derived) for event in events if event.clause == clause]
            if downstream := self._plan.derivations.downstream(upstream.subscription.name, clause):
                events, offsets = self._records(table, rows)
                add_occurrences(leaves, self._match_leaves(upstream, events, offsets, downstream))
                self._match_single_event(upstream, events, offsets, downstream)
        return leaves

    def _records(self, table: Occurrences, rows: Sequence[tuple[int, ConstructedEvent]]) -> tuple[pa.RecordBatch, Ints]:
        """Derived events as records with numbers instead of offsets, and the emission offset of each."""
        indexes = np.array([row for row, _ in rows], np.int64)
        start, end, offsets = (table.columns[column][indexes] for column in (START, END, EMISSION_OFFSET))
        records = derived_records([event for _, event in rows], start, end, self._shared.derived_count)
        self._shared.derived_count += len(rows)
        return records, offsets

    def _match_leaves(
        self, upstream: ActiveSubscription, events: pa.RecordBatch, offsets: Ints, downstream: Downstream
    ) -> dict[int, Occurrences]:
        """The leaf occurrences of derived events, at the emission offsets of their notifications."""
        by_name, backfill, dictionary = self._state.active, self._backfill, self._shared.dictionary
        first = int(events.column("offset")[0].as_py())
        owners = {leaf: by_name[name] for name, leaves in downstream.items() if by_name[name].root for leaf in leaves}
        visible, consumed = {}, []
        for leaf, table in self._plan.leaf_matcher.occurrences(
            Records(columns=events), dictionary, only=owners
        ).items():
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
    ) -> None:
        """Emit the notifications of single-event subscriptions for derived events."""
        by_name = self._state.active
        subscriptions = [by_name[name] for name in downstream if not by_name[name].root]
        if self._backfill or not subscriptions or self._plan.matcher is None:
            return
        batch = emit_solutions(self._plan.matcher.solve(Records(columns=events))).columns
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
        self._builder.add(NotificationBatch(columns=batch.filter(pa.array(is_emitted))))
