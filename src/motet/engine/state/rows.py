"""Tables of occurrences with the strings behind their integers: canonical form, concatenation, writing and reading.

Canonical tables have only the terms and events they use, term ids in the order of the strings, and sorted rows. So
equal states are equal bytes, whatever the dictionary has held before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from motet.engine.detect.occurrences import Occurrences, all_values, concatenate, empty_table, map_values, member_array
from motet.engine.detect.table_kernels import EVENT_BIT, VALUES
from motet.engine.state.format import StateReader, StateWriter
from motet.jit.compiled import Ints
from motet.model.batches import Triple

_Triples = tuple[Triple, ...]


class EventContent(NamedTuple):
    """The IRI of an event, and its triples if a subscription delivers them."""

    id: str
    triples: _Triples | None = None


@dataclass(frozen=True)
class StateRows:
    """The terms by id, the events by offset, and the tables by name."""

    terms: Sequence[str] = ()
    events: Mapping[int, EventContent] = field(default_factory=dict)
    tables: Mapping[str, Occurrences] = field(default_factory=dict)

    def with_tables(self, tables: Mapping[str, Occurrences]) -> StateRows:
        return replace(self, tables=tables)


def canonical_rows(rows: StateRows) -> StateRows:
    """The same occurrences in canonical form."""
    values = _distinct([all_values(table) for table in rows.tables.values()])
    used = values[(values >= 0) & (values < EVENT_BIT)]
    terms = [rows.terms[term_id] for term_id in used.tolist()]
    order = sorted(range(len(terms)), key=terms.__getitem__)
    new_ids = np.empty(len(terms), np.int64)
    new_ids[order] = np.arange(len(terms))
    renumber = renumber_terms(used, new_ids)
    tables = {name: _sort(map_values(rows.tables[name], renumber)) for name in sorted(rows.tables)}
    return StateRows([terms[index] for index in order], _used_events(rows, values), tables)


def _used_events(rows: StateRows, values: Ints) -> dict[int, EventContent]:
    bound = values[values >= EVENT_BIT] ^ EVENT_BIT
    used = _distinct([bound, *(table.events for table in rows.tables.values())])
    return {offset: rows.events[offset] for offset in used.tolist() if offset in rows.events}


def renumber_terms(old_ids: Ints, new_ids: Ints) -> Callable[[Ints], Ints]:
    """The function that gives terms, whose old ids ascend, their new ids."""

    def renumber(values: Ints) -> Ints:
        if not len(old_ids):
            return values
        indexes = np.minimum(np.searchsorted(old_ids, values), len(old_ids) - 1)
        return np.where((values >= 0) & (values < EVENT_BIT), new_ids[indexes], values)

    return renumber


def with_common_terms(several: Sequence[StateRows]) -> list[StateRows]:
    """The same tables, all over the same terms and events."""
    ids: dict[str, int] = {}
    events: dict[int, EventContent] = {}
    tables = []
    for rows in several:
        new_ids = np.fromiter((ids.setdefault(term, len(ids)) for term in rows.terms), np.int64)
        renumber = renumber_terms(np.arange(len(new_ids)), new_ids)
        tables.append({name: map_values(table, renumber) for name, table in rows.tables.items()})
        events.update(rows.events)
    terms = list(ids)
    return [StateRows(terms, events, by_name) for by_name in tables]


def concatenate_rows(several: Sequence[StateRows]) -> StateRows:
    """The rows of several, tables of one name concatenated."""
    common = with_common_terms(several)
    names = {name: None for rows in common for name in rows.tables}
    tables = {name: concatenate([rows.tables[name] for rows in common if name in rows.tables]) for name in names}
    return common[0].with_tables(tables)


def _sort(table: Occurrences) -> Occurrences:
    """Rows by columns, then by events and members."""
    if len(table) < 2:
        return table
    order = np.lexsort(table.columns[::-1])
    columns = table.columns[:, order]
    is_equal = (columns[:, 1:] == columns[:, :-1]).all(axis=0)
    if is_equal.any():
        groups = np.cumsum(np.append(True, ~is_equal))
        keys = [(int(group), *_tie_key(table, row)) for group, row in zip(groups, order.tolist(), strict=True)]
        order = order[sorted(range(len(keys)), key=keys.__getitem__)]
    return table if np.array_equal(order, np.arange(len(order))) else table.take(order)


def _tie_key(table: Occurrences, row: int) -> tuple[list[int], list[Any]]:
    events = table.events[table.starts[row] : table.starts[row + 1]].tolist()
    return events, [] if table.members is None else sorted(table.members[row])


def write_rows(rows: StateRows, writer: StateWriter) -> dict[str, Any]:
    """Write rows; returns the entries of their tables in the index."""
    writer.strings("terms", rows.terms)
    writer.ints("event numbers", np.fromiter(rows.events, np.int64))
    writer.strings("event ids", [event.id for event in rows.events.values()])
    graphs = {offset: event.triples for offset, event in rows.events.items() if event.triples is not None}
    writer.ints("graph numbers", np.fromiter(graphs, np.int64))
    writer.ints("graph sizes", np.fromiter(map(len, graphs.values()), np.int64))
    writer.strings("graphs", [term for graph in graphs.values() for triple in graph for term in triple])
    return {name: _write_table(name, table, writer) for name, table in rows.tables.items()}


def read_rows(tables: Mapping[str, Any], reader: StateReader) -> StateRows:
    graphs = _read_graphs(reader)
    offsets = reader.ints("event numbers").tolist()
    iris = reader.strings("event ids").to_pylist()
    events = {offset: EventContent(iri, graphs.get(offset)) for offset, iri in zip(offsets, iris, strict=True)}
    by_name = {name: _read_table(name, entry, reader) for name, entry in tables.items()}
    return StateRows(reader.strings("terms").to_pylist(), events, by_name)


def _read_graphs(reader: StateReader) -> dict[int, _Triples]:
    terms = reader.strings("graphs").to_pylist()
    triples = list(zip(terms[::3], terms[1::3], terms[2::3], strict=True))
    sizes = reader.ints("graph sizes")
    ends = np.cumsum(sizes)
    bounds = zip(reader.ints("graph numbers").tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    return {offset: tuple(triples[begin:end]) for offset, begin, end in bounds}


def _write_table(name: str, table: Occurrences, writer: StateWriter) -> dict[str, Any]:
    entry: dict[str, Any] = {"width": table.width}
    if len(table):
        entry["rows"] = len(table)
        writer.ints(f"{name} rows", table.columns.T)
        writer.ints(f"{name} events", table.events)
        writer.ints(f"{name} event counts", np.diff(table.starts))
    if table.members is not None:
        entry["members"] = _write_members(name, table.members.tolist(), writer) if len(table) else []
    return entry


def _read_table(name: str, entry: Mapping[str, Any], reader: StateReader) -> Occurrences:
    width, with_members = entry["width"], "members" in entry
    if "rows" not in entry:
        return empty_table(width, with_members=with_members)
    columns = reader.ints(f"{name} rows").reshape(entry["rows"], VALUES + width).T
    starts = np.concatenate([[0], np.cumsum(reader.ints(f"{name} event counts"))]).astype(np.int64)
    members = member_array(_read_members(name, entry["members"], reader)) if with_members else None
    return Occurrences(columns, starts, reader.ints(f"{name} events"), members)


def _write_members(name: str, sets: Sequence[Any], writer: StateWriter) -> list[str]:
    """Write each set as a number of members, each member as a number of pairs, each pair as two integers."""
    members = [member for members in sets for member in sorted(members)]
    variables = sorted({variable for member in members for variable, _ in member})
    indexes = {variable: index for index, variable in enumerate(variables)}
    pairs = [(indexes[variable], value) for member in members for variable, value in member]
    writer.ints(f"{name} members", np.array(pairs, np.int64))
    writer.ints(f"{name} member sizes", np.fromiter(map(len, members), np.int64))
    writer.ints(f"{name} member counts", np.fromiter(map(len, sets), np.int64))
    return variables


def _read_members(name: str, variables: Sequence[str], reader: StateReader) -> list[Any]:
    pairs = iter(reader.ints(f"{name} members").reshape(-1, 2).tolist())
    sizes = iter(reader.ints(f"{name} member sizes").tolist())
    return [
        frozenset(tuple((variables[index], value) for index, value in islice(pairs, next(sizes))) for _ in range(count))
        for count in reader.ints(f"{name} member counts").tolist()
    ]


def _distinct(arrays: Iterable[Ints]) -> Ints:
    return np.unique(np.concatenate([np.empty(0, np.int64), *arrays]))
