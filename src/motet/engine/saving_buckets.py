"""State of several buckets as one, and of one as several: a plan whose occurrences are spread by the values of a key.

Rows go where a stable hash of their key's strings says, so that all processes agree. What has no key stays together:
each such component is in one bucket. Buckets see every control record and the same frontier, but only their own events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from motet.engine.buckets import bucket_of
from motet.engine.detect.columns import EVENT_BIT, Ints
from motet.engine.detect.construct import DERIVED_BIT
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences, map_values
from motet.engine.detect.saving import Saved, table_name
from motet.engine.detect.saving_format import refused
from motet.engine.detect.saving_rows import EventText, Rows, canonical, together
from motet.engine.detect.table_kernels import first_equal
from motet.engine.kernel import Kernel
from motet.plan.nodes import Plan
from motet.plan.partition import components

_EVERYWHERE = -1  # what only keeps others from being told again does no harm in any bucket
_ENTANGLED = "what shares operators with other components, or feeds them"
_DELIVERED = table_name("", "delivered")
_MERGED = frozenset({"last", "has events", "derived", "shown"})  # facts in which buckets may differ


def merge(states: Sequence[Saved]) -> Saved:
    """The states of buckets of one plan as one.

    They have read the same control records, up to the same frontier. A host that wants subscriptions to begin at the
    same place in all buckets shows each of them a tick with the last offset before every control record.
    """
    first = states[0]
    for state in states[1:]:
        _require_same(first, state)
    facts = {
        **first.facts,
        "last": max(state.facts["last"] for state in states),
        "has events": any(state.facts["has events"] for state in states),
        "shown": _united([state.facts.get("shown", {}) for state in states]),
    }
    numbers = _derived_numbers([state.rows for state in states])
    facts["derived"] = max(len(numbers), *(state.facts["derived"] for state in states))
    rows = together([_renumbered(state.rows, numbers) for state in states])
    once = {name: _once(table) if name.startswith(_DELIVERED) else table for name, table in rows.tables.items()}
    return Saved(facts, first.lives, first.retracted, first.graphs, canonical(rows.with_tables(once)))


def _united(shown: Sequence[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The derived events that some bucket has shown to each subscription."""
    found: dict[str, dict[str, int]] = {}
    for one in shown:
        for name, ends in one.items():
            found.setdefault(name, {}).update(ends)
    return {name: dict(sorted(ends.items())) for name, ends in sorted(found.items())}


def _require_same(one: Saved, other: Saved) -> None:
    for name in sorted(set(one.facts) - _MERGED):
        if one.facts[name] != other.facts[name]:
            raise refused(f"has buckets that differ in {name}: {one.facts[name]} and {other.facts[name]}")
    if (one.lives, one.retracted, one.graphs) != (other.lives, other.retracted, other.graphs):
        raise refused("has buckets with different subscriptions, backgrounds or retractions")
    if set(one.rows.tables) != set(other.rows.tables):
        raise refused("has buckets of different plans")


def _derived_numbers(parts: Sequence[Rows]) -> dict[str, int]:
    """By id, numbers for derived events: each bucket has counted its own."""
    ids = {event.id: None for part in parts for number, event in part.events.items() if number >= DERIVED_BIT}
    return {id_: DERIVED_BIT + place for place, id_ in enumerate(ids)}


def _renumbered(rows: Rows, numbers: Mapping[str, int]) -> Rows:
    """The rows with other numbers for derived events."""
    if not numbers:
        return rows
    new = {number: numbers.get(event.id, number) for number, event in rows.events.items()}
    events: dict[int, EventText] = {new[number]: event for number, event in rows.events.items()}
    before = np.fromiter(new, np.int64)
    after = np.fromiter(new.values(), np.int64)
    order = np.argsort(before)

    def event_numbers(some: Ints) -> Ints:
        return after[order][np.searchsorted(before[order], some)] if len(some) else some

    def values(some: Ints) -> Ints:
        own = some >= EVENT_BIT
        found = some.copy()
        found[own] = event_numbers(some[own] ^ EVENT_BIT) | EVENT_BIT
        return found

    tables = {name: _with_events(map_values(table, values), event_numbers) for name, table in rows.tables.items()}
    return Rows(rows.terms, events, tables)


def _with_events(table: Occurrences, changed: Callable[[Ints], Ints]) -> Occurrences:
    """The table with other numbers for its events, in order in each row."""
    row_of = np.repeat(np.arange(len(table)), np.diff(table.starts))
    events = changed(table.events)
    return Occurrences(table.columns, table.starts, events[np.lexsort([events, row_of])], table.members)


def _once(table: Occurrences) -> Occurrences:
    """Rows that were given to several buckets, once."""
    if not len(table):
        return table
    first = first_equal(table.columns, np.arange(len(table.columns)), table.starts, table.events)
    return table.take(first == np.arange(len(table)))


def split(state: Saved, count: int, bucket: Callable[[Sequence[str], int], int] = bucket_of) -> list[Saved]:
    """The state of one as that of several buckets, each of which goes on with the events of its keys."""
    kernel = Kernel.resumed(state)
    spread = _Spread.of(kernel, count, bucket)
    found: list[dict[str, Occurrences]] = [{} for _ in range(count)]
    for name, table in state.rows.tables.items():
        where = spread.places(name, table)
        for number, tables in enumerate(found):
            tables[name] = table.take((where == number) | (where == _EVERYWHERE))
    return [replace(state, rows=canonical(state.rows.with_tables(tables))) for tables in found]


@dataclass(frozen=True)
class _Spread:
    """Where rows belong: by table the columns of the key, or the one bucket it is in."""

    names: Dictionary
    columns: Mapping[str, Sequence[int]]
    buckets: Mapping[str, int]
    bucket: Callable[[Sequence[str]], int]

    @classmethod
    def of(cls, kernel: Kernel, count: int, bucket: Callable[[Sequence[str], int], int]) -> _Spread:
        plan, digests = kernel.plan(), kernel.digests
        keys, labels = _keys_and_labels(plan, digests, kernel.fed())
        columns: dict[str, Sequence[int]] = {}
        buckets: dict[str, int] = {}
        for name, id_, variables in kernel.variables_by_table():
            if id_ not in keys:
                buckets[name] = bucket([labels[id_]], count)
            elif all(key in variables for key in keys[id_]):
                columns[name] = [variables.index(key) for key in keys[id_]]
            else:
                buckets[name] = _EVERYWHERE
        return cls(kernel.names, columns, buckets, lambda strings: bucket(strings, count))

    def places(self, name: str, table: Occurrences) -> Ints:
        """The bucket of each row."""
        if name in self.buckets or not len(table):
            return np.full(len(table), self.buckets.get(name, 0))
        keys = table.values[:, self.columns[name]]
        distinct, places = np.unique(keys, axis=0, return_inverse=True)
        strings = [[self.names.string(value) for value in key] for key in distinct.tolist()]
        return np.array(list(map(self.bucket, strings)), np.int64)[places.ravel()]


def _keys_and_labels(
    plan: Plan, digests: Sequence[str], fed: Collection[str]
) -> tuple[dict[int, tuple[str, ...]], dict[int, str]]:
    """By node the variables of its key; or, without one, a label that those which have to meet have in common."""
    parts = components(plan)
    uses = Counter(node for part in parts for node in part.nodes)
    keys: dict[int, tuple[str, ...]] = {}
    labels: dict[int, str] = {}
    for part in parts:
        is_apart = all(uses[node] == 1 for node in part.nodes) and not set(part.subscriptions) & set(fed)
        if part.keys and is_apart:
            keys.update(part.keys)
        else:
            label = min(digests[node] for node in part.nodes) if is_apart else _ENTANGLED
            labels.update(dict.fromkeys(part.nodes, label))
    return keys, labels
