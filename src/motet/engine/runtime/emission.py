"""Who is told of what nodes have found: notifications come of it, and derived events for the leaves these feed.

Subscriptions that wait for the same node and want neither graphs nor constructs are told together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import EMISSION_OFFSET, END, FIRST_OFFSET, START, Ints
from motet.engine.detect.construct import DerivedEvent, derived_records, template_solutions
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
from motet.language.syntax import Events
from motet.model.batches import notification_rows

Found = dict[int, Occurrences]  # by node
Fed = Mapping[str, Sequence[int]]  # by name: the leaves


@dataclass
class Emitter:
    """What a stretch of records makes known, along which the frontier moves."""

    state: ProcessorState
    shared: SharedPlan
    plan: ActivePlan
    frontier: Frontier
    _finished: list[pa.RecordBatch] = field(default_factory=list)
    _plain: list[OutputBatch] = field(default_factory=list)  # will be notifications, all at once

    def notifications(self) -> list[pa.RecordBatch]:
        """All that was told."""
        if not self._plain:
            return self._finished
        return [*self._finished, notification_batch(sorted_output(self._plain), self.shared.dictionary)]

    def emit_node(self, id_: int, table: Occurrences) -> Found:
        """Tell those who wait at a node of what it has found; what their derived events mean to leaves is returned."""
        now = OperatorEnv(self.frontier, self.shared.dictionary, lag=self.state.detector.lag_of(id_))
        audience = None if self.state.backfill else self.plan.root_subscribers.group(id_)
        if audience and (told := audience.shared_output(table, now)):
            self._plain.append(told)
            return {}
        fed: Found = {}
        for life in self.plan.root_subscribers.by_node.get(id_, {}).values():
            assert life.output is not None
            add_occurrences(fed, self.emit(life, life.output.advance(table, now)))
        return fed

    def emit(self, life: ActiveSubscription, table: Occurrences) -> Found:
        """Deliver what a subscription has found; what its derived events mean to leaves is returned."""
        past = self.state.backfill
        if not len(table):
            return {}
        if past and past.active is life:
            past.results.append(table)
            return {}
        assert life.output is not None
        if life.has_only_bindings:
            self._plain.append(single_output(life.output, table))
            return {}
        names = self.shared.dictionary
        batch = notification_batch([single_output(life.output, table)], names)
        if isinstance(life.subscription.delivery, Events):
            batch = add_graphs(batch, table, names)
        derived = self._derived(life, batch, table)
        if life.templates is not None:
            lines = [sorted({line for one in events for line in one.lines}) for events in derived]
            batch = add_constructs(batch, lines)
        self._finished.append(batch)
        return self._feed(life, table, derived)

    def _derived(self, life: ActiveSubscription, batch: pa.RecordBatch, table: Occurrences) -> list[list[DerivedEvent]]:
        """The events that a subscription derives, for each of its notifications."""
        if life.templates is None:
            return []
        assert life.output is not None
        return [
            life.templates.derive(
                notification.id, template_solutions(life.output.projected, table, row, self.shared.dictionary)
            )
            for row, (notification, _) in enumerate(notification_rows(batch))
        ]

    def _feed(self, life: ActiveSubscription, table: Occurrences, derived: Sequence[Sequence[DerivedEvent]]) -> Found:
        """Show derived events to those they feed."""
        fed: Found = {}
        for clause in sorted({event.clause for events in derived for event in events}):
            rows = [(row, event) for row, events in enumerate(derived) for event in events if event.clause == clause]
            if others := self.plan.derivations.downstream(life.subscription.name, clause):
                events, emitted = self._records(table, rows)
                add_occurrences(fed, self._seen(life, events, emitted, others))
                self._finished += self._matched(life, events, emitted, others)
        return fed

    def _records(self, table: Occurrences, rows: Sequence[tuple[int, DerivedEvent]]) -> tuple[pa.RecordBatch, Ints]:
        """Derived events as records with numbers of their own, and the offsets they stand at."""
        places = np.array([row for row, _ in rows], np.int64)
        start, end, emitted = (table.columns[column][places] for column in (START, END, EMISSION_OFFSET))
        records = derived_records([event for _, event in rows], start, end, self.shared.derived_count)
        self.shared.derived_count += len(rows)
        return records, emitted

    def _seen(self, producer: ActiveSubscription, events: pa.RecordBatch, emitted: Ints, fed: Fed) -> Found:
        """The leaves' occurrences of derived events, which stand where their notifications do."""
        lives, past, names = self.state.active, self.state.backfill, self.shared.dictionary
        first = int(events.column("offset")[0].as_py())
        consumers = {leaf: lives[name] for name, leaves in fed.items() if lives[name].root for leaf in leaves}
        seen, news = {}, []
        for id_, table in self.plan.leaf_matcher.occurrences(events, names, only=consumers).items():
            places = emitted[table.events - first]
            placed = table.with_column(EMISSION_OFFSET, places).with_column(FIRST_OFFSET, places)
            if past and past.active is consumers[id_]:
                placed = past.visible(id_, placed, names, always=True)
            elif consumers[id_].offset < producer.offset:
                placed = placed.take(placed.columns[END] >= producer.frontier)
            ids = names.events.iris(placed.events).to_pylist()
            seen[id_] = placed.take(~consumers[id_].has_consumed(ids))
            news.append((consumers[id_], dict(zip(ids, placed.columns[END].tolist(), strict=True))))
        for life, ends in news:  # now that all its leaves have seen them
            life.consumed_derived.update(ends)
        return seen

    def _matched(
        self, producer: ActiveSubscription, events: pa.RecordBatch, emitted: Ints, fed: Fed
    ) -> list[pa.RecordBatch]:
        """The notifications of subscriptions of a single EVENT that derived events feed."""
        lives = self.state.active
        consumers = [lives[name] for name in fed if not lives[name].root]
        if self.state.backfill or not consumers or self.plan.matcher is None:
            return []
        found = notify(self.plan.matcher, events)
        index = found.schema.get_field_index("offset")
        places = emitted[np.asarray(found.column(index)) - int(events.column("offset")[0].as_py())]
        found = found.set_column(index, found.schema.field(index), pa.array(places))
        ends = np.asarray(found.column("end").cast(pa.int64()))
        names = np.asarray(found.column("subscription").to_pylist(), object)
        ids = found.column("events").flatten().to_pylist()
        kept = np.zeros(len(found), np.bool_)
        for life in consumers:
            on_time = (ends >= producer.frontier) if life.offset < producer.offset else (places > life.offset)
            own = (names == life.subscription.name) & on_time
            kept |= own & ~life.has_consumed(ids)
            life.consumed_derived.update((ids[row], int(ends[row])) for row in np.flatnonzero(own))
        return [found.filter(pa.array(kept))]


def add_occurrences(found: Found, more: Mapping[int, Occurrences]) -> None:
    """What was found at some nodes, after what was found there before."""
    for id_, table in more.items():
        found[id_] = concatenate([found[id_], table]) if id_ in found else table
