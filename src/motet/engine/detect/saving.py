"""A kernel's state as data: everything it needs to go on exactly, as a base, and as deltas to an earlier state.

Nodes are known by their digests, since their numbers depend on what a kernel has planned before. How states of
several buckets are put together or spread is in `engine/saving_buckets.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from motet.engine.detect.columns import Ints
from motet.engine.detect.occurrences import Occurrences, concatenate
from motet.engine.detect.saving_format import Reader, Writer, checksum_of, refused
from motet.engine.detect.saving_rows import Rows, canonical, in_one_numbering, read_rows, together, write_rows
from motet.engine.detect.table_kernels import first_equal
from motet.model.tables import Triple

Graphs = Mapping[str, frozenset[Triple]]


@dataclass(frozen=True)
class Saved:
    """The rows are in canonical form, so that equal states are equal bytes."""

    facts: Mapping[str, Any]  # numbers and flags
    lives: Mapping[str, Any]  # the subscriptions in force, by name
    retracted: Mapping[str, int]
    graphs: Graphs  # backgrounds, by what they are for
    rows: Rows

    @classmethod
    def of(cls, data: bytes) -> Saved:
        """Read a base; anything else is refused."""
        reader = Reader(data, "base")
        index = reader.index
        graphs = {name: _read_graph(name, reader) for name in index["graphs"]}
        rows = read_rows(index["tables"], reader)
        return cls(index["facts"], index["lives"], index["retracted"], graphs, rows)

    @cached_property
    def data(self) -> bytes:
        """The state as bytes: a base."""
        writer = Writer()
        for name, graph in sorted(self.graphs.items()):
            _write_graph(name, graph, writer)
        tables = write_rows(self.rows, writer)
        return writer.packed(
            {
                "kind": "base",
                "facts": self.facts,
                "lives": self.lives,
                "retracted": self.retracted,
                "graphs": sorted(self.graphs),
                "tables": tables,
            }
        )


def table_name(digest: str, table: str) -> str:
    """What a node's table is called in saved state."""
    return f"{table} of {digest}"


def delta(before: bytes | Saved, after: Saved) -> bytes:
    """What is new and what is gone: as large as the change, not as the state."""
    base = before if isinstance(before, Saved) else Saved.of(before)
    writer = Writer()
    gone, fresh = _changed_rows(base.rows, after.rows)
    for name, places in gone.items():
        writer.ints(f"gone {name}", places)
    for name, graph in after.graphs.items():
        known = base.graphs.get(name, frozenset())
        _write_graph(f"added {name}", graph - known, writer)
        _write_graph(f"removed {name}", known - graph, writer)
    return writer.packed(
        {
            "kind": "delta",
            "before": checksum_of(base.data),
            "after": checksum_of(after.data),
            "facts": after.facts,
            "lives": _changed_entries(base.lives, after.lives),
            "retracted": _changed_entries(base.retracted, after.retracted),
            "graphs": sorted(after.graphs),
            "gone": sorted(gone),
            "dropped": sorted(set(base.rows.tables) - set(after.rows.tables)),
            "tables": write_rows(fresh, writer),
        }
    )


def apply(base: bytes | Saved, deltas: Iterable[bytes]) -> Saved:
    """The state that some deltas, one after the other, make of a base."""
    state = base if isinstance(base, Saved) else Saved.of(base)
    reached = checksum_of(state.data)
    for data in deltas:
        reader = Reader(data, "delta")
        if reader.index["before"] != reached:
            raise refused("has a delta that does not follow the base and the deltas before it")
        state, reached = _applied(state, reader), reader.index["after"]
    if checksum_of(state.data) != reached:
        raise refused("is not what its deltas should have made of it")
    return state


def _applied(state: Saved, reader: Reader) -> Saved:
    index = reader.index
    graphs = {}
    for name in index["graphs"]:
        known = state.graphs.get(name, frozenset())
        graphs[name] = known - _read_graph(f"removed {name}", reader) | _read_graph(f"added {name}", reader)
    tables = {name: table for name, table in state.rows.tables.items() if name not in index["dropped"]}
    for name in index["gone"]:
        tables[name] = tables[name].take(np.delete(np.arange(len(tables[name])), reader.ints(f"gone {name}")))
    rows = canonical(together([state.rows.with_tables(tables), read_rows(index["tables"], reader)]))
    lives = _with_changes(state.lives, index["lives"])
    return Saved(index["facts"], lives, _with_changes(state.retracted, index["retracted"]), graphs, rows)


def _changed_rows(before: Rows, after: Rows) -> tuple[dict[str, Ints], Rows]:
    """By table, the places before of the rows that went; and those that came, with what strings were not known."""
    one, other = in_one_numbering([before, after])
    gone: dict[str, Ints] = {}
    fresh: dict[str, Occurrences] = {}
    for name, table in other.tables.items():
        known = one.tables.get(name)
        lost, came = (np.empty(0, np.int64), np.arange(len(table))) if known is None else _difference(known, table)
        if len(lost):
            gone[name] = lost
        if len(came) or known is None:
            fresh[name] = table.take(came)
    rows = canonical(other.with_tables(fresh))
    unknown = {number: event for number, event in rows.events.items() if number not in before.events}
    return gone, Rows(rows.terms, unknown, rows.tables)


def _difference(before: Occurrences, after: Occurrences) -> tuple[Ints, Ints]:
    """The places of rows that only the first table has, and of those that only the second one has."""
    table = concatenate([before, after])
    if not len(table):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    columns = table.columns
    if table.members is not None:
        sets: dict[object, int] = {}
        numbers = [sets.setdefault(found, len(sets)) for found in table.members.tolist()]
        columns = np.vstack([columns, np.array(numbers, np.int64)])
    first = first_equal(columns, np.arange(len(columns)), table.starts, table.events)
    own, other = first[: len(before)], first[len(before) :]
    return _without_partner(own, other), _without_partner(other, own)


def _without_partner(some: Ints, others: Ints) -> Ints:
    """The places of what occurs more often among some than among others; the last ones, if it is not all."""
    order = np.argsort(some, kind="stable")
    values = some[order]
    nth = np.arange(len(values)) - np.searchsorted(values, values)
    there = np.sort(others)
    count = np.searchsorted(there, values, side="right") - np.searchsorted(there, values)
    return np.sort(order[nth >= count])


def _changed_entries(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    new = {name: entry for name, entry in after.items() if before.get(name) != entry}
    return {"new": new, "gone": sorted(set(before) - set(after))}


def _with_changes(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: entry for name, entry in before.items() if name not in changes["gone"]}
    return {**kept, **changes["new"]}


def _write_graph(name: str, graph: frozenset[Triple], writer: Writer) -> None:
    writer.strings(name, [term for triple in sorted(graph) for term in triple])


def _read_graph(name: str, reader: Reader) -> frozenset[Triple]:
    terms = reader.strings(name).to_pylist()
    return frozenset(zip(terms[::3], terms[1::3], terms[2::3], strict=True))
