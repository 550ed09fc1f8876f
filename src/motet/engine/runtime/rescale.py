"""Rescaling: the state snapshots of all buckets of a stopped stream, as those of another number of buckets.

Every bucket has read all control records and is at the same frontier. A subscription has the same route whatever the
number of buckets, so its state only has to be distributed: rows with a key by the hash of the key, all others to the
single bucket of their subscription.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from motet.engine.detect.construct import DERIVED_BIT
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import first_equal
from motet.engine.runtime.active_subscription import subscription_of_entry
from motet.engine.runtime.processor import Processor
from motet.engine.state.format import state_error
from motet.engine.state.rows import EventContent, StateRows, canonical_rows, concatenate_rows
from motet.engine.state.snapshot import StateSnapshot, table_name
from motet.jit.compiled import Ints
from motet.plan.graph import Plan, Route, RouteKind
from motet.plan.partitioning import BucketLayout, bucket_of, key_buckets

_DELIVERED = table_name("", "delivered")
_MERGED = frozenset({"last", "has events", "derived", "deriving", "with triples", "shown"})  # fields that may differ


def rescale(states: Sequence[StateSnapshot], layout: BucketLayout) -> list[StateSnapshot]:
    """The states of all buckets of one log, in order, as the states of all buckets of another layout."""
    merged = _merge(states)
    tables = list(_tables(merged, Processor.restore(merged, layout=layout), layout))
    subscriptions = {name: subscription_of_entry(name, entry) for name, entry in merged.subscriptions.items()}
    holders = {name: set(layout.holders(subscription)) for name, subscription in subscriptions.items()}
    return [
        _bucket_state(merged, tables, {name for name in holders if bucket in holders[name]}, bucket)
        for bucket in range(layout.count)
    ]


def _merge(states: Sequence[StateSnapshot]) -> StateSnapshot:
    """One state with all subscriptions and rows; what a bucket has alone is there once."""
    first = states[0]
    subscriptions: dict[str, Any] = {}
    for state in states:
        _require_same(first, state)
        for name, entry in state.subscriptions.items():
            if subscriptions.setdefault(name, entry) != entry:
                raise state_error(
                    f"has buckets in which {name!r} started differently, as CONSTRUCT with SINCE can cause"
                )
    if sum(any(number >= DERIVED_BIT for number in state.rows.events) for state in states) > 1:
        raise state_error("has derived events in several buckets, which number them separately")
    header = {
        **first.header,
        "last": max(state.header["last"] for state in states),
        "has events": any(state.header["has events"] for state in states),
        "derived": max(state.header["derived"] for state in states),
        "deriving": sorted({offset for state in states for offset in state.header["deriving"]}),
        "with triples": any(state.header["with triples"] for state in states),
        "shown": _merge_consumed_derived([state.header.get("shown", {}) for state in states]),
    }
    rows = concatenate_rows(_with_triples([state.rows for state in states]))
    tables = {
        name: _deduplicate(table) if name.startswith(_DELIVERED) else table for name, table in rows.tables.items()
    }
    rows = canonical_rows(rows.with_tables(tables))
    return StateSnapshot(header, subscriptions, first.retractions, first.graphs, rows)


def _with_triples(several: Sequence[StateRows]) -> list[StateRows]:
    """The rows of several buckets, with the triples of an event in all of them if one has them."""
    events: dict[int, EventContent] = {}
    for rows in several:
        events.update((number, event) for number, event in rows.events.items() if event.triples is not None)
    return [replace(rows, events={**rows.events, **events}) for rows in several]


def _require_same(first: StateSnapshot, state: StateSnapshot) -> None:
    for name in sorted(set(first.header) - _MERGED):
        if first.header[name] != state.header[name]:
            raise state_error(f"has buckets that differ in {name}: {first.header[name]} and {state.header[name]}")
    if (first.retractions, first.graphs) != (state.retractions, state.graphs):
        raise state_error("has buckets with different backgrounds or retractions")


def _merge_consumed_derived(consumed: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """By subscription the derived events that it has had in any bucket."""
    merged: dict[str, dict[str, int]] = {}
    for by_subscription in consumed:
        for name, ends in by_subscription.items():
            merged.setdefault(name, {}).update(ends)
    return {name: dict(sorted(ends.items())) for name, ends in sorted(merged.items())}


def _deduplicate(table: Occurrences) -> Occurrences:
    """Remove the repetitions of rows that are in several buckets."""
    if not len(table):
        return table
    first = first_equal(table.columns, np.arange(len(table.columns)), table.starts, table.events)
    return table.take(first == np.arange(len(table)))


@dataclass(frozen=True)
class _AssignedTable:
    """A table with the bucket of each row; None: every bucket of its subscriptions has all rows."""

    name: str
    table: Occurrences
    users: frozenset[str]  # the subscriptions that need it
    buckets: Ints | None

    def rows_of(self, bucket: int) -> Occurrences:
        return self.table if self.buckets is None else self.table.take(self.buckets == bucket)


def _tables(state: StateSnapshot, processor: Processor, layout: BucketLayout) -> Iterator[_AssignedTable]:
    """The tables of a state, which the processor has restored."""
    plan = processor.plan()
    routes = _node_routes(plan)
    for name, node_id, variables in processor.variables_by_table():
        table, route = state.rows.tables[name], routes[node_id]
        is_delivered = name.startswith(_DELIVERED)
        users = frozenset([name.removeprefix(_DELIVERED)] if is_delivered else plan.users[node_id])
        buckets: Ints | None = None
        if route.kind is RouteKind.SINGLE:
            buckets = np.full(len(table), bucket_of(route.key, layout.count))
        elif route.kind is RouteKind.KEY and len(table):
            columns = [variables.index(variable) for variable in route.key]
            buckets = key_buckets(table.values[:, columns], processor.dictionary.string, layout.count)
        yield _AssignedTable(name, table, users, buckets)


def _node_routes(plan: Plan) -> dict[int, Route]:
    """The route of each node: that of the leaves below it, with the key in the node's variables."""
    routes: dict[int, Route] = {}
    for node in plan.nodes:  # operands first
        if node.route is not None:
            routes[node.id] = node.route
        elif node.children:
            below, names = routes[node.children[0].child], dict(node.children[0].renaming)
            is_key = below.kind is RouteKind.KEY
            routes[node.id] = Route(
                below.kind, tuple(names[variable] for variable in below.key) if is_key else below.key
            )
    return routes


def _bucket_state(
    merged: StateSnapshot, tables: Sequence[_AssignedTable], names: set[str], bucket: int
) -> StateSnapshot:
    """The state of one bucket, which holds the subscriptions of the given names."""
    held = {table.name: table.rows_of(bucket) for table in tables if not names.isdisjoint(table.users)}
    shown = {name: consumed for name, consumed in merged.header["shown"].items() if name in names}
    return replace(
        merged,
        header={**merged.header, "shown": shown},
        subscriptions={name: entry for name, entry in merged.subscriptions.items() if name in names},
        rows=canonical_rows(merged.rows.with_tables(held)),
    )
