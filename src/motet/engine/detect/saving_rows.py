"""Tables of occurrences with the strings behind their numbers: made canonical, put together, written and read.

Canonical tables know only the terms and events they use, terms are numbered in the order of their strings, and rows are
sorted. So equal states are equal bytes, whatever was known or forgotten on the way to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from motet.engine.detect.columns import EVENT_BIT, VALUES, Ints
from motet.engine.detect.occurrences import Occurrences, all_values, concatenate, empty_table, map_values, member_array
from motet.engine.detect.saving_format import Reader, Writer
from motet.model.tables import Triple

Graph = tuple[Triple, ...]


class EventText(NamedTuple):
    """What is known of an event; its triples only if somebody delivers them."""

    id: str
    triples: Graph | None = None


@dataclass(frozen=True)
class Rows:
    """The terms by number, the events by number, and the tables by name."""

    terms: Sequence[str] = ()
    events: Mapping[int, EventText] = field(default_factory=dict)
    tables: Mapping[str, Occurrences] = field(default_factory=dict)

    def with_tables(self, tables: Mapping[str, Occurrences]) -> Rows:
        return replace(self, tables=tables)


def canonical(rows: Rows) -> Rows:
    """The same occurrences in their canonical form."""
    values = _distinct([all_values(table) for table in rows.tables.values()])
    plain = values[(values >= 0) & (values < EVENT_BIT)]
    terms = [rows.terms[number] for number in plain.tolist()]
    order = sorted(range(len(terms)), key=terms.__getitem__)
    numbers = np.empty(len(terms), np.int64)
    numbers[order] = np.arange(len(terms))
    changed = renumbering(plain, numbers)
    tables = {name: _sorted(map_values(rows.tables[name], changed)) for name in sorted(rows.tables)}
    return Rows([terms[place] for place in order], _used_events(rows, values), tables)


def _used_events(rows: Rows, values: Ints) -> dict[int, EventText]:
    own = values[values >= EVENT_BIT] ^ EVENT_BIT
    used = _distinct([own, *(table.events for table in rows.tables.values())])
    return {number: rows.events[number] for number in used.tolist() if number in rows.events}


def renumbering(before: Ints, after: Ints) -> Callable[[Ints], Ints]:
    """How values change when some terms, in ascending order, get other numbers."""

    def changed(values: Ints) -> Ints:
        if not len(before):
            return values
        places = np.minimum(np.searchsorted(before, values), len(before) - 1)
        return np.where((values >= 0) & (values < EVENT_BIT), after[places], values)

    return changed


def in_one_numbering(parts: Sequence[Rows]) -> list[Rows]:
    """The same tables, all over the same terms and events."""
    numbers: dict[str, int] = {}
    events: dict[int, EventText] = {}
    found = []
    for part in parts:
        own = np.fromiter((numbers.setdefault(term, len(numbers)) for term in part.terms), np.int64)
        changed = renumbering(np.arange(len(own)), own)
        found.append({name: map_values(table, changed) for name, table in part.tables.items()})
        events.update(part.events)
    terms = list(numbers)
    return [Rows(terms, events, tables) for tables in found]


def together(parts: Sequence[Rows]) -> Rows:
    """The tables of several, those of one name behind each other."""
    same = in_one_numbering(parts)
    names = {name: None for part in same for name in part.tables}
    tables = {name: concatenate([part.tables[name] for part in same if name in part.tables]) for name in names}
    return same[0].with_tables(tables)


def _sorted(table: Occurrences) -> Occurrences:
    """By columns, and by events and members where those are equal."""
    if len(table) < 2:
        return table
    order = np.lexsort(table.columns[::-1])
    columns = table.columns[:, order]
    again = (columns[:, 1:] == columns[:, :-1]).all(axis=0)
    if again.any():
        groups = np.cumsum(np.append(True, ~again))
        keys = [(int(group), *_tie_key(table, place)) for group, place in zip(groups, order.tolist(), strict=True)]
        order = order[sorted(range(len(keys)), key=keys.__getitem__)]
    return table if np.array_equal(order, np.arange(len(order))) else table.take(order)


def _tie_key(table: Occurrences, row: int) -> tuple[list[int], list[Any]]:
    events = table.events[table.starts[row] : table.starts[row + 1]].tolist()
    return events, [] if table.members is None else sorted(table.members[row])


def write_rows(rows: Rows, writer: Writer) -> dict[str, Any]:
    """What the index has to say about rows that are written."""
    writer.strings("terms", rows.terms)
    writer.ints("event numbers", np.fromiter(rows.events, np.int64))
    writer.strings("event ids", [event.id for event in rows.events.values()])
    kept = {number: event.triples for number, event in rows.events.items() if event.triples is not None}
    writer.ints("graph numbers", np.fromiter(kept, np.int64))
    writer.ints("graph sizes", np.fromiter(map(len, kept.values()), np.int64))
    writer.strings("graphs", [term for graph in kept.values() for triple in graph for term in triple])
    return {name: _write_table(name, table, writer) for name, table in rows.tables.items()}


def read_rows(tables: Mapping[str, Any], reader: Reader) -> Rows:
    graphs = _read_graphs(reader)
    numbers = reader.ints("event numbers").tolist()
    ids = reader.strings("event ids").to_pylist()
    events = {number: EventText(id_, graphs.get(number)) for number, id_ in zip(numbers, ids, strict=True)}
    found = {name: _read_table(name, facts, reader) for name, facts in tables.items()}
    return Rows(reader.strings("terms").to_pylist(), events, found)


def _read_graphs(reader: Reader) -> dict[int, Graph]:
    terms = reader.strings("graphs").to_pylist()
    triples = list(zip(terms[::3], terms[1::3], terms[2::3], strict=True))
    sizes = reader.ints("graph sizes")
    ends = np.cumsum(sizes)
    bounds = zip(reader.ints("graph numbers").tolist(), (ends - sizes).tolist(), ends.tolist(), strict=True)
    return {number: tuple(triples[begin:end]) for number, begin, end in bounds}


def _write_table(name: str, table: Occurrences, writer: Writer) -> dict[str, Any]:
    facts: dict[str, Any] = {"width": table.width}
    if len(table):
        facts["rows"] = len(table)
        writer.ints(f"{name} rows", table.columns.T)
        writer.ints(f"{name} events", table.events)
        writer.ints(f"{name} event counts", np.diff(table.starts))
    if table.members is not None:
        facts["members"] = _write_members(name, table.members.tolist(), writer) if len(table) else []
    return facts


def _read_table(name: str, facts: Mapping[str, Any], reader: Reader) -> Occurrences:
    width, with_members = facts["width"], "members" in facts
    if "rows" not in facts:
        return empty_table(width, with_members=with_members)
    columns = reader.ints(f"{name} rows").reshape(facts["rows"], VALUES + width).T
    starts = np.concatenate([[0], np.cumsum(reader.ints(f"{name} event counts"))]).astype(np.int64)
    members = member_array(_read_members(name, facts["members"], reader)) if with_members else None
    return Occurrences(columns, starts, reader.ints(f"{name} events"), members)


def _write_members(name: str, sets: Sequence[Any], writer: Writer) -> list[str]:
    """Each set as a number of members, each member as a number of pairs, each pair as two numbers."""
    members = [member for found in sets for member in sorted(found)]
    variables = sorted({variable for member in members for variable, _ in member})
    places = {variable: place for place, variable in enumerate(variables)}
    pairs = [(places[variable], value) for member in members for variable, value in member]
    writer.ints(f"{name} members", np.array(pairs, np.int64))
    writer.ints(f"{name} member sizes", np.fromiter(map(len, members), np.int64))
    writer.ints(f"{name} member counts", np.fromiter(map(len, sets), np.int64))
    return variables


def _read_members(name: str, variables: Sequence[str], reader: Reader) -> list[Any]:
    pairs = iter(reader.ints(f"{name} members").reshape(-1, 2).tolist())
    sizes = iter(reader.ints(f"{name} member sizes").tolist())
    return [
        frozenset(tuple((variables[place], value) for place, value in islice(pairs, next(sizes))) for _ in range(count))
        for count in reader.ints(f"{name} member counts").tolist()
    ]


def _distinct(arrays: Iterable[Ints]) -> Ints:
    return np.unique(np.concatenate([np.empty(0, np.int64), *arrays]))
