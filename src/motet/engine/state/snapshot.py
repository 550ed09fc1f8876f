"""A state snapshot: everything a processor needs to continue exactly, as a base, or as deltas to an earlier state.

Tables are named by the digests of their nodes, since node ids depend on what a processor has planned before. Merging
and splitting the snapshots of several buckets is in `rescale`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from motet.engine.detect.occurrences import Occurrences, concatenate
from motet.engine.detect.table_kernels import first_equal
from motet.engine.state.format import StateReader, StateWriter, checksum, state_error
from motet.engine.state.rows import (
    StateRows,
    canonical_rows,
    concatenate_rows,
    read_rows,
    with_common_terms,
    write_rows,
)
from motet.jit.compiled import Ints
from motet.model.batches import Triple

Graphs = Mapping[str, frozenset[Triple]]


@dataclass(frozen=True)
class StateSnapshot:
    """The rows are in canonical form, so that equal states are equal bytes."""

    header: Mapping[str, Any]  # numbers and flags
    subscriptions: Mapping[str, Any]  # the active ones, by name
    retractions: Mapping[str, int]  # by event: the offset of its retraction
    graphs: Graphs  # background graphs, by their role
    rows: StateRows

    @classmethod
    def from_bytes(cls, data: bytes) -> StateSnapshot:
        """Read a base; anything else is refused."""
        reader = StateReader(data, "base")
        index = reader.index
        graphs = {name: _read_graph(name, reader) for name in index["graphs"]}
        rows = read_rows(index["tables"], reader)
        return cls(index["facts"], index["lives"], index["retracted"], graphs, rows)

    @cached_property
    def data(self) -> bytes:
        """The state as bytes: a base."""
        writer = StateWriter()
        for name, graph in sorted(self.graphs.items()):
            _write_graph(name, graph, writer)
        tables = write_rows(self.rows, writer)
        return writer.pack(
            {
                "kind": "base",
                "facts": self.header,
                "lives": self.subscriptions,
                "retracted": self.retractions,
                "graphs": sorted(self.graphs),
                "tables": tables,
            }
        )


def table_name(digest: str, table: str) -> str:
    """The name of a node's table in a state snapshot."""
    return f"{table} of {digest}"


def make_delta(before: bytes | StateSnapshot, after: StateSnapshot) -> bytes:
    """The added and removed rows, graphs and entries: as large as the change, not as the state."""
    base = before if isinstance(before, StateSnapshot) else StateSnapshot.from_bytes(before)
    writer = StateWriter()
    removed, added = _changed_rows(base.rows, after.rows)
    for name, rows in removed.items():
        writer.ints(f"gone {name}", rows)
    for name, graph in after.graphs.items():
        old_graph = base.graphs.get(name, frozenset())
        _write_graph(f"added {name}", graph - old_graph, writer)
        _write_graph(f"removed {name}", old_graph - graph, writer)
    return writer.pack(
        {
            "kind": "delta",
            "before": checksum(base.data),
            "after": checksum(after.data),
            "facts": after.header,
            "lives": _changed_entries(base.subscriptions, after.subscriptions),
            "retracted": _changed_entries(base.retractions, after.retractions),
            "graphs": sorted(after.graphs),
            "gone": sorted(removed),
            "dropped": sorted(set(base.rows.tables) - set(after.rows.tables)),
            "tables": write_rows(added, writer),
        }
    )


def apply_deltas(base: bytes | StateSnapshot, deltas: Iterable[bytes]) -> StateSnapshot:
    """The state that successive deltas make of a base."""
    state = base if isinstance(base, StateSnapshot) else StateSnapshot.from_bytes(base)
    expected = checksum(state.data)
    for data in deltas:
        reader = StateReader(data, "delta")
        if reader.index["before"] != expected:
            raise state_error("has a delta that does not follow the base and the deltas before it")
        state, expected = _apply_delta(state, reader), reader.index["after"]
    if checksum(state.data) != expected:
        raise state_error("differs from the state for which its deltas were written")
    return state


def _apply_delta(state: StateSnapshot, reader: StateReader) -> StateSnapshot:
    index = reader.index
    graphs = {}
    for name in index["graphs"]:
        old_graph = state.graphs.get(name, frozenset())
        graphs[name] = old_graph - _read_graph(f"removed {name}", reader) | _read_graph(f"added {name}", reader)
    tables = {name: table for name, table in state.rows.tables.items() if name not in index["dropped"]}
    for name in index["gone"]:
        tables[name] = tables[name].take(np.delete(np.arange(len(tables[name])), reader.ints(f"gone {name}")))
    rows = concatenate_rows([state.rows.with_tables(tables), read_rows(index["tables"], reader)])
    subscriptions = _apply_changes(state.subscriptions, index["lives"])
    retractions = _apply_changes(state.retractions, index["retracted"])
    return StateSnapshot(index["facts"], subscriptions, retractions, graphs, canonical_rows(rows))


def _changed_rows(before: StateRows, after: StateRows) -> tuple[dict[str, Ints], StateRows]:
    """By table the indexes of the removed rows; and the added rows, with all new or changed events."""
    old, new = with_common_terms([before, after])
    removed: dict[str, Ints] = {}
    added: dict[str, Occurrences] = {}
    for name, table in new.tables.items():
        old_table = old.tables.get(name)
        all_rows = np.empty(0, np.int64), np.arange(len(table))
        removed_rows, added_rows = all_rows if old_table is None else _diff(old_table, table)
        if len(removed_rows):
            removed[name] = removed_rows
        if len(added_rows) or old_table is None:
            added[name] = table.take(added_rows)
    rows = canonical_rows(new.with_tables(added))
    # A backfill can add the triples of an event that the state had without them.
    changed_events = {offset: event for offset, event in after.events.items() if before.events.get(offset) != event}
    return removed, StateRows(rows.terms, changed_events, rows.tables)


def _diff(before: Occurrences, after: Occurrences) -> tuple[Ints, Ints]:
    """The indexes of rows that only the first table has, and of those that only the second one has."""
    table = concatenate([before, after])
    if not len(table):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    columns = table.columns
    if table.members is not None:
        ids: dict[object, int] = {}
        member_ids = [ids.setdefault(members, len(ids)) for members in table.members.tolist()]
        columns = np.vstack([columns, np.array(member_ids, np.int64)])
    first = first_equal(columns, np.arange(len(columns)), table.starts, table.events)
    old, new = first[: len(before)], first[len(before) :]
    return _surplus(old, new), _surplus(new, old)


def _surplus(values: Ints, subtracted: Ints) -> Ints:
    """The indexes of values that occur more often than among the subtracted ones; the last ones, if not all."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    ordinal = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    subtracted = np.sort(subtracted)
    count = np.searchsorted(subtracted, ordered, side="right") - np.searchsorted(subtracted, ordered)
    return np.sort(order[ordinal >= count])


def _changed_entries(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    new = {name: entry for name, entry in after.items() if before.get(name) != entry}
    return {"new": new, "gone": sorted(set(before) - set(after))}


def _apply_changes(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    retained = {name: entry for name, entry in before.items() if name not in changes["gone"]}
    return {**retained, **changes["new"]}


def _write_graph(name: str, graph: frozenset[Triple], writer: StateWriter) -> None:
    writer.strings(name, [term for triple in sorted(graph) for term in triple])


def _read_graph(name: str, reader: StateReader) -> frozenset[Triple]:
    terms = reader.strings(name).to_pylist()
    return frozenset(zip(terms[::3], terms[1::3], terms[2::3], strict=True))
