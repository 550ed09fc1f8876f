"""Rescaling: merges the state snapshots of several buckets into one, and splits one into those of several buckets.

Rows are assigned to buckets by a stable hash of their key's strings, so that all processes agree. A component without a
key is in one bucket. Every bucket reads all control records and has the same frontier, but only its own events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from motet.engine.detect.absence import BEGINNING_TABLE
from motet.engine.detect.columns import END, EVENT_BIT
from motet.engine.detect.construct import DERIVED_BIT
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences, map_values
from motet.engine.detect.table_kernels import first_equal
from motet.engine.runtime.processor import Processor
from motet.engine.state.format import state_error
from motet.engine.state.rows import EventContent, StateRows, canonical_rows, concatenate_rows
from motet.engine.state.snapshot import StateSnapshot, table_name
from motet.jit.compiled import Ints
from motet.model.timeline import NO_FRONTIER
from motet.plan.graph import Plan
from motet.plan.partitioning import bucket_of, components

BucketHash = Callable[[Sequence[str], int], int]

_EVERY_BUCKET = -1  # for rows that only prevent repeated notifications, and do no harm in any bucket
_ENTANGLED = "what shares operators with other components, or feeds them"  # hashed to a bucket: not to be changed
_DELIVERED = table_name("", "delivered")
_BEGINNING = table_name("", BEGINNING_TABLE)
_MERGED = frozenset({"last", "has events", "derived", "shown"})  # header fields in which buckets may differ


def merge(states: Sequence[StateSnapshot]) -> StateSnapshot:
    """The states of all buckets of one plan as one state.

    They have read the same control records and have the same frontier. For subscriptions to start at the same offset in
    all buckets, a host passes each bucket a tick with the last offset before every control record.
    """
    first = states[0]
    for state in states[1:]:
        _require_same(first, state)
    header = {
        **first.header,
        "last": max(state.header["last"] for state in states),
        "has events": any(state.header["has events"] for state in states),
        "shown": _merge_consumed_derived([state.header.get("shown", {}) for state in states]),
    }
    derived_numbers = _derived_numbers([state.rows for state in states])
    header["derived"] = max(len(derived_numbers), *(state.header["derived"] for state in states))
    rows = concatenate_rows([_renumber_derived(state.rows, derived_numbers) for state in states])
    tables = {name: _deduplicate(table) if _is_repeated(name) else table for name, table in rows.tables.items()}
    merged_rows = canonical_rows(rows.with_tables(tables))
    return StateSnapshot(header, first.subscriptions, first.retractions, first.graphs, merged_rows)


def _merge_consumed_derived(consumed: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """By subscription the derived events that it has had in any bucket."""
    merged: dict[str, dict[str, int]] = {}
    for by_subscription in consumed:
        for name, ends in by_subscription.items():
            merged.setdefault(name, {}).update(ends)
    return {name: dict(sorted(ends.items())) for name, ends in sorted(merged.items())}


def _require_same(first: StateSnapshot, state: StateSnapshot) -> None:
    for name in sorted(set(first.header) - _MERGED):
        if first.header[name] != state.header[name]:
            raise state_error(f"has buckets that differ in {name}: {first.header[name]} and {state.header[name]}")
    if (first.subscriptions, first.retractions, first.graphs) != (state.subscriptions, state.retractions, state.graphs):
        raise state_error("has buckets with different subscriptions, backgrounds or retractions")
    if set(first.rows.tables) != set(state.rows.tables):
        raise state_error("has buckets of different plans")


def _derived_numbers(buckets: Sequence[StateRows]) -> dict[str, int]:
    """By IRI, common numbers for derived events: each bucket has numbered its own."""
    iris = {event.id: None for rows in buckets for number, event in rows.events.items() if number >= DERIVED_BIT}
    return {iri: DERIVED_BIT + index for index, iri in enumerate(iris)}


def _renumber_derived(rows: StateRows, derived_numbers: Mapping[str, int]) -> StateRows:
    """The rows with other numbers for derived events."""
    if not derived_numbers:
        return rows
    new = {number: derived_numbers.get(event.id, number) for number, event in rows.events.items()}
    events: dict[int, EventContent] = {new[number]: event for number, event in rows.events.items()}
    old_numbers = np.fromiter(new, np.int64)
    new_numbers = np.fromiter(new.values(), np.int64)
    order = np.argsort(old_numbers)

    def renumber_events(numbers: Ints) -> Ints:
        indexes = np.searchsorted(old_numbers[order], numbers)
        return new_numbers[order][indexes] if len(numbers) else numbers

    def renumber_values(values: Ints) -> Ints:
        is_event = values >= EVENT_BIT
        renumbered = values.copy()
        renumbered[is_event] = renumber_events(values[is_event] ^ EVENT_BIT) | EVENT_BIT
        return renumbered

    tables = {
        name: _map_events(map_values(table, renumber_values), renumber_events) for name, table in rows.tables.items()
    }
    return StateRows(rows.terms, events, tables)


def _map_events(table: Occurrences, function: Callable[[Ints], Ints]) -> Occurrences:
    """The table with a function applied to its events, which are sorted again in each row."""
    row_of = np.repeat(np.arange(len(table)), np.diff(table.starts))
    events = function(table.events)
    return Occurrences(table.columns, table.starts, events[np.lexsort([events, row_of])], table.members)


def _deduplicate(table: Occurrences) -> Occurrences:
    """Remove the repetitions of rows that are in several buckets."""
    if not len(table):
        return table
    first = first_equal(table.columns, np.arange(len(table.columns)), table.starts, table.events)
    return table.take(first == np.arange(len(table)))


def _is_repeated(name: str) -> bool:
    """Whether several buckets may hold the same rows of a table."""
    return name.startswith(_DELIVERED) or name.startswith(_BEGINNING)


def split(state: StateSnapshot, count: int, bucket_hash: BucketHash = bucket_of) -> list[StateSnapshot]:
    """One state as those of several buckets, each of which continues with the events of its keys."""
    for name, table in state.rows.tables.items():
        if name.startswith(_BEGINNING) and (table.columns[END] > NO_FRONTIER).any():
            raise state_error("has a NO whose beginning is not decided: split it after the frontier has moved")
    assignment = _BucketAssignment.of(Processor.restore(state), count, bucket_hash)
    buckets: list[dict[str, Occurrences]] = [{} for _ in range(count)]
    for name, table in state.rows.tables.items():
        assigned = assignment.buckets(name, table)
        for bucket, tables in enumerate(buckets):
            tables[name] = table.take((assigned == bucket) | (assigned == _EVERY_BUCKET))
    return [replace(state, rows=canonical_rows(state.rows.with_tables(tables))) for tables in buckets]


@dataclass(frozen=True)
class _BucketAssignment:
    """The buckets of rows: for each table the columns of its key, or its only bucket."""

    dictionary: Dictionary
    key_columns: Mapping[str, Sequence[int]]
    single_buckets: Mapping[str, int]
    bucket_of_key: Callable[[Sequence[str]], int]

    @classmethod
    def of(cls, processor: Processor, count: int, bucket_hash: BucketHash) -> _BucketAssignment:
        plan, digests = processor.plan(), processor.digests
        keys, labels = _keys_and_labels(plan, digests, processor.derivation_linked())
        key_columns: dict[str, Sequence[int]] = {}
        single_buckets: dict[str, int] = {}
        for name, node_id, variables in processor.variables_by_table():
            if name.startswith(_BEGINNING):
                single_buckets[name] = _EVERY_BUCKET
            elif node_id not in keys:
                single_buckets[name] = bucket_hash([labels[node_id]], count)
            elif all(key in variables for key in keys[node_id]):
                key_columns[name] = [variables.index(key) for key in keys[node_id]]
            else:
                single_buckets[name] = _EVERY_BUCKET
        return cls(processor.dictionary, key_columns, single_buckets, lambda strings: bucket_hash(strings, count))

    def buckets(self, name: str, table: Occurrences) -> Ints:
        """The bucket of each row."""
        if name in self.single_buckets or not len(table):
            return np.full(len(table), self.single_buckets.get(name, 0))
        keys = table.values[:, self.key_columns[name]]
        distinct, indexes = np.unique(keys, axis=0, return_inverse=True)
        strings = [[self.dictionary.string(value) for value in key] for key in distinct.tolist()]
        return np.array(list(map(self.bucket_of_key, strings)), np.int64)[indexes.ravel()]


def _keys_and_labels(
    plan: Plan, digests: Sequence[str], derivation_linked: Collection[str]
) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """By node the variables of its key; or, without one, a label that all nodes of its bucket have in common."""
    all_components = components(plan)
    uses = Counter(node for component in all_components for node in component.nodes)
    keys: dict[int, tuple[str, ...]] = {}
    labels: dict[int, str] = {}
    for component in all_components:
        is_independent = all(uses[node] == 1 for node in component.nodes) and not (
            set(component.subscriptions) & set(derivation_linked)
        )
        if component.keys and is_independent:
            keys.update(component.keys)
        else:
            label = min(digests[node] for node in component.nodes) if is_independent else _ENTANGLED
            labels.update(dict.fromkeys(component.nodes, label))
    return keys, labels
