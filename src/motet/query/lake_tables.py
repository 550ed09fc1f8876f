"""A lake as the tables of compiled queries: zone files, the records that are in no zone yet, and what is computed.

Rows of the log are visible if their event is: below the end, not retracted, in the span, and chosen by FROM. The
default graph is a set: of the zones the rows with ``first`` suffice while every event is visible; otherwise, and for
rows from elsewhere, a triple that those rows have is left out, and each remaining one is taken once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlglot import exp

from motet.lake.inferred_files import background_digest, find_files, write_file
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.zone_rows import EVENT_ROWS, QUAD_ROWS, TERMS, LogRows, log_rows, quad_rows
from motet.lake.zones import event_files, may_hold, quad_zones
from motet.model.intervals import Interval
from motet.model.terms import XSD, iri
from motet.query.history import BACKGROUND, EVENTS, NOTIFICATIONS, RESERVED_GRAPHS, SUBSCRIPTIONS, EventGraph, History
from motet.query.quad_tables import kinds_in_ranges, no_rows, other_rows, scan_rows, table_rows
from motet.sparql.algebra import DatasetClause
from motet.sparql.dataset import INTERVAL_END, INTERVAL_START, Triple
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, column
from motet.sparql.sql.scan import QuadScan
from motet.sparql.term_columns import ALL_KINDS, INSTANT

GRAPH_NUMBERS = {BACKGROUND: -2, NOTIFICATIONS: -3, SUBSCRIPTIONS: -4}
FIRST_EMPTY = -1_000  # numbers of graphs without triples
STORED_EVENTS = 1_000  # for so many events, inferred triples are stored
FIRST_DERIVED = 1 << 61  # numbers of derived events
_DATE_TIME = f'"^^<{XSD}dateTime>'


class TableHost(Protocol):
    """The engine that has the tables."""

    def register(self, table: pa.Table) -> str:
        """The name under which a table in memory can be queried."""

    def view(self, paths: Sequence[str]) -> str:
        """The name of a table with the rows of some Parquet files."""


@dataclass
class ScanReport:
    """The zones that scans have read, for `motet explain`."""

    scans: list[tuple[QuadScan, list[DataFile]]] = field(default_factory=list)
    zones: int = 0  # that there are
    tail_rows: int = 0


class LakeTables:
    """The tables of one history. `selected` gives the dataset of a query."""

    def __init__(self, history: History, host: TableHost) -> None:
        self.history = history
        self.host = host
        snapshot = history.snapshot
        is_complete = self._has_zones = _has_all_zones(snapshot)  # else the log is read
        self.zones = [zone for zone in quad_zones(snapshot) if zone.first < history.stop] if is_complete else []
        self.event_files = event_files(snapshot) if is_complete else []
        self.zones_end = min(snapshot.zones_end, history.stop) if is_complete else 0
        self.tail: LogRows = log_rows(snapshot, self.zones_end, history.stop)
        self.derived = [event._replace(offset=FIRST_DERIVED + n) for n, event in enumerate(history.derived_events())]
        self.inferred_files, self.inferred = self._inferred()
        self.report = ScanReport(zones=len(quad_zones(snapshot)), tail_rows=self.tail.quads.num_rows)
        self.hidden = {row["off"] for row in self._event_rows(map(iri, history.controls.retractions))}

    # The names of tables: a table is registered when a query first needs it.

    @cached_property
    def tail_name(self) -> str:
        return self.host.register(self.tail.quads)

    @cached_property
    def inferred_names(self) -> list[str]:
        """The tables of inferred triples of events of the log."""
        names = [self.host.register(self.inferred)] if self.inferred.num_rows else []
        return [*names, *([self.view(self.inferred_files)] if self.inferred_files else [])]

    @cached_property
    def hidden_name(self) -> str:
        return self.host.register(pa.table({"off": pa.array(sorted(self.hidden), pa.int64())}))

    @cached_property
    def _event_tables(self) -> list[str]:
        has_tail = bool(self.tail.events.num_rows or not self.event_files)
        names = [self.host.register(self.tail.events)] if has_tail else []
        return [*names, *([self.view([file.name for file in self.event_files])] if self.event_files else [])]

    def view(self, names: Sequence[str]) -> str:
        return self.host.view([str(self.history.snapshot.store.path(name)) for name in names])

    # What queries see.

    def is_of(self, history: History) -> bool:
        """Whether these are the tables of a history, and its files are still there."""
        return self.history is history and self._has_zones == _has_all_zones(history.snapshot)

    def selected(self, clause: DatasetClause | None) -> LakeDataset:
        return self._everything if clause is None else LakeDataset(self, clause)

    @cached_property
    def _everything(self) -> LakeDataset:
        return LakeDataset(self, None)

    def scan(self, scan: QuadScan) -> exp.Query:
        return self._everything.scan(scan)

    def kinds(self, scan: QuadScan) -> frozenset[int]:
        return self._everything.kinds(scan)

    def graphs(self) -> exp.Query:
        return self._everything.graphs()

    def intervals(self) -> exp.Query:
        return self._everything.intervals()

    def events(self) -> exp.Query:
        """All events of the log with the columns of EVENT_ROWS."""
        items = [column("e", name) for name in EVENT_ROWS.names]
        return nodes.union_all([nodes.select(items, nodes.table(name, "e")) for name in self._event_tables])

    def events_in_span(self, span: Interval) -> exp.Query:
        """The offsets of the events whose interval shares an instant with a span."""
        bounds: list[Node] = [
            exp.LTE(this=column("t", "start_"), expression=nodes.integer(span.end)),
            exp.GTE(this=column("t", "end_"), expression=nodes.integer(span.start)),
        ]
        return nodes.select([column("t", "off")], nodes.derived(self.events(), "t"), where=nodes.both(bounds))

    def number_of(self, name: str) -> int | None:
        """The number of a visible event; None for other names."""
        for event in self.derived:
            if event.name == name:
                return event.offset
        return next(iter(self.visible_offsets([name])), None)

    def has_event(self, name: str) -> bool:
        """Whether an event is visible."""
        return self.number_of(name) is not None

    def may_have_event(self, name: str) -> bool:
        """Whether there may be an event: the bounds of files and the events in memory do not rule it out."""
        return (
            any(may_hold(file, "g", name, name) for file in self.event_files)
            or any(event.name == name for event in self.derived)
            or pc.any(pc.equal(self.tail.events["g"], name)).as_py() is True
        )

    def visible_offsets(self, names: Iterable[str]) -> list[int]:
        """The offsets of visible events of the log, of those with these names."""
        span = self.history.span
        return sorted(
            row["off"]
            for row in self._event_rows(names)
            if row["off"] not in self.hidden
            and (span is None or (row["start_"] <= span.end and row["end_"] >= span.start))
        )

    def _event_rows(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The rows of events of the log below the end."""
        requested = pa.array(sorted(names), pa.string())
        if not len(requested):
            return []
        store = self.history.snapshot.store
        tables = [
            pq.read_table(store.path(file.name), filters=pc.field("g").isin(requested))
            for file in self.event_files
            if may_hold(file, "g", requested[0].as_py(), requested[-1].as_py())
        ]
        tables.append(self.tail.events.filter(pc.is_in(self.tail.events["g"], requested)))
        return [row for table in tables for row in table.to_pylist() if row["off"] < self.history.stop]

    def _inferred(self) -> tuple[list[str], pa.Table]:
        """What follows from single events, without what they state: in files, and of the newest events in memory."""
        history, store = self.history, self.history.snapshot.store
        if history.entailment == "none":
            return [], QUAD_ROWS.empty_table()
        digest = background_digest(history.controls.background, history.entailment)
        files = find_files(store, digest)
        end = files[-1].stop if files else 0
        events = list(history.logged(end)) if end < history.stop else []
        rows = triple_rows(
            (event.offset, triple)
            for event in events
            for triple in set(history.closed(event)).difference(event.triples)
        )
        if len(events) >= STORED_EVENTS and (written := write_file(store, digest, end, history.stop, rows)):
            files, rows = [*files, written], QUAD_ROWS.empty_table()
        return [file.name for file in files], rows


class LakeDataset:
    """The dataset of a query over a lake, as its FROM and FROM NAMED say."""

    def __init__(self, tables: LakeTables, clause: DatasetClause | None) -> None:
        self._tables = tables
        self._clause = clause
        default = (EVENTS, BACKGROUND) if clause is None else clause.default
        named = (EVENTS,) if clause is None else clause.named
        self._default = _Place(tables, default)
        self._named = _Place(tables, named)
        self._empty = [
            name for name in dict.fromkeys(named) if name not in RESERVED_GRAPHS and tables.number_of(name) is None
        ]

    def selected(self, clause: DatasetClause | None) -> LakeDataset:
        return self if clause is None else LakeDataset(self._tables, clause)

    def scan(self, scan: QuadScan) -> exp.Query:
        if scan.place == "default":
            return self._default_scan(scan)
        if scan.place == "named":
            return self._union(scan, self._rows(scan, self._named))
        return self._graph_scan(scan)

    def kinds(self, scan: QuadScan) -> frozenset[int]:
        """The kinds that the manifest and the tables in memory say; those of inferred triples may be any."""
        place, tables = self._default if scan.place == "default" else self._named, self._tables
        found = set(_kinds_of(place.computed, scan))
        if place.has_log:
            found.update(_kinds_of(tables.tail.quads, scan), _kinds_in(self._zones(scan, place), scan))
            found.update(ALL_KINDS if tables.inferred_names else ())
        if scan.place == "default" and not {INTERVAL_START, INTERVAL_END}.isdisjoint(
            scan.predicates or (INTERVAL_START,)
        ):
            found.add(INSTANT)
        return kinds_in_ranges(frozenset(found), scan)

    def graphs(self) -> exp.Query:
        """The named graphs with their numbers."""
        items = [column("n", "g"), column("n", "off")]
        parts = [nodes.select(items, nodes.table(self._listed_graphs, "n"))] if self._listed_graphs else []
        if self._named.has_log:
            where = nodes.both(self._named.conditions("n"))
            parts.append(nodes.select(items, nodes.derived(self._tables.events(), "n"), where=where))
        return nodes.union_all(parts)

    @cached_property
    def _listed_graphs(self) -> str | None:
        """The table of the named graphs that are no events of the log; None if there are events of the log only."""
        tables, place = self._tables, self._named
        listed = [(event.name, event.offset) for event in tables.derived if place.has_event(event)]
        listed += [(name, number) for name, number in GRAPH_NUMBERS.items() if name in place.names]
        listed += [(name, FIRST_EMPTY - index) for index, name in enumerate(self._empty)]
        if not listed and place.has_log:
            return None
        names, numbers = zip(*listed, strict=True) if listed else ((), ())
        return tables.host.register(pa.table({"g": pa.array(names, pa.string()), "off": pa.array(numbers, pa.int64())}))

    def events(self) -> exp.Query:
        """The events that are named graphs, with the columns of EVENT_ROWS."""
        return self._event_rows(self._named)

    def intervals(self) -> exp.Query:
        """The events of the dataset, each once, with the columns g, start_ and end_."""
        items = [column("i", name) for name in ("g", "start_", "end_")]
        if self._default.has_all:
            return nodes.select(items, nodes.derived(self._event_rows(self._default), "i"))
        both = nodes.union_all([self._event_rows(place) for place in (self._default, self._named)])
        return nodes.select(items, nodes.derived(both, "i"), distinct=True)

    def _event_rows(self, place: _Place) -> exp.Query:
        """The events of the default graph, or of the named ones."""
        items = [column("e", entry) for entry in EVENT_ROWS.names]
        parts = [nodes.select(items, nodes.table(place.derived_name, "e"))] if place.derived_name else []
        if place.has_log:
            where = nodes.both(place.conditions("e"))
            parts.append(nodes.select(items, nodes.derived(self._tables.events(), "e"), where=where))
        return nodes.union_all(parts)

    def _graph_scan(self, scan: QuadScan) -> exp.Query:
        """The rows of one named graph."""
        name, place = scan.place, self._named
        number = GRAPH_NUMBERS.get(name) if name in place.names else None
        if number is None and name not in RESERVED_GRAPHS:
            number = self._tables.number_of(name)
        if number is None:
            return self._union(scan, [])
        return self._union(scan, self._rows(scan, place, number))

    def _default_scan(self, scan: QuadScan) -> exp.Query:
        place, tables = self._default, self._tables
        zones = self._reported_zones(scan, place)
        others: list[exp.Query] = []
        is_distinct = False  # whether no triple is in two of the others
        if place.has_log and place.is_unrestricted:
            if _has_match(tables.tail.quads, scan):
                others.append(table_rows(tables.tail_name, scan, [column("q", "first")]))
                is_distinct = True
        elif place.has_log:
            others += self._zone_rows(scan, zones, place, [nodes.negation(column("q", "first"))])
            if _has_match(tables.tail.quads, scan):
                others.append(table_rows(tables.tail_name, scan, place.conditions("q")))
        if place.has_log and tables.inferred_names:
            others += [table_rows(name, scan, place.conditions("q")) for name in tables.inferred_names]
            is_distinct = False
        if _has_match(place.computed, scan):
            others.append(table_rows(place.computed_name, scan))
            is_distinct = is_distinct and len(others) == 1
        if not others:
            scan = replace(scan, is_set=False)
        main = self._zone_rows(scan, zones, place, [column("q", "first")])
        parts = [*main, *other_rows(scan, main, others, is_distinct=is_distinct)] if scan.is_set else [*main, *others]
        return self._union(scan, [*parts, *self._interval_rows(scan)])

    def _rows(self, scan: QuadScan, place: _Place, number: int | None = None) -> list[exp.Query]:
        """The rows of named graphs: of all, or of the one with a number."""
        is_number = [] if number is None else [nodes.equals(column("q", "off"), nodes.integer(number))]
        parts: list[exp.Query] = []
        if place.has_log and (number is None or 0 <= number < FIRST_DERIVED):
            conditions = [*place.conditions("q"), *is_number]
            parts += self._zone_rows(scan, self._reported_zones(scan, place, number), place, is_number)
            tables = self._tables
            if _has_match(tables.tail.quads, scan):
                parts.append(table_rows(tables.tail_name, scan, conditions))
            parts += [table_rows(name, scan, conditions) for name in tables.inferred_names]
        if _has_match(place.computed, scan):
            parts.append(table_rows(place.computed_name, scan, is_number))
        return parts

    def _union(self, scan: QuadScan, parts: Sequence[exp.Query]) -> exp.Query:
        """The columns of a scan, of all parts."""
        items = [column("q", name) for name in sorted(scan.columns)]
        if not parts:
            return no_rows(scan)
        if len(parts) == 1 and len(parts[0].expressions) == len(items):
            return parts[0]
        return nodes.select(items, nodes.derived(nodes.union_all(list(parts)), "q"))

    def _zone_rows(
        self, scan: QuadScan, zones: Sequence[DataFile], place: _Place, conditions: Sequence[Node]
    ) -> list[exp.Query]:
        if not zones or not place.has_log:
            return []
        view = self._tables.view([zone.name for zone in zones])
        return [table_rows(view, scan, [*conditions, *place.conditions("q")])]

    def _zones(self, scan: QuadScan, place: _Place, number: int | None = None) -> list[DataFile]:
        """The zones that may hold rows of a scan."""
        if not place.has_log:
            return []
        first, last = (number, number) if number is not None else place.offset_range()
        return [
            zone
            for zone in self._tables.zones
            if may_hold(zone, "off", first, last)
            and _may_hold_any(zone, "s", scan.subjects)
            and _may_hold_any(zone, "p", scan.predicates)
            and _may_hold_any(zone, "o", scan.objects)
            and all(may_hold(zone, limits.column, limits.lower, limits.upper) for limits in scan.ranges)
        ]

    def _reported_zones(self, scan: QuadScan, place: _Place, number: int | None = None) -> list[DataFile]:
        zones = self._zones(scan, place, number)
        if place.has_log:
            self._tables.report.scans.append((scan, zones))
        return zones

    def _interval_rows(self, scan: QuadScan) -> list[exp.Query]:
        """motet:start and motet:end of the events of the default graph."""
        place, parts = self._default, []
        if not (place.has_log or any(map(place.has_event, self._tables.derived))):
            return []
        if scan.objects is not None and not any(term.endswith(_DATE_TIME) for term in scan.objects):
            return []
        if scan.subjects is not None and not any(map(self._tables.may_have_event, scan.subjects)):
            return []
        for predicate, instant in ((INTERVAL_START, "start_"), (INTERVAL_END, "end_")):
            if predicate in scan.not_predicates or (scan.predicates is not None and predicate not in scan.predicates):
                continue
            values = {
                "off": column("e", "off"),
                "s": column("e", "g"),
                "p": nodes.text(predicate),
                "o": nodes.InstantTerm(this=column("e", instant)),
                "okind": nodes.cast(nodes.integer(20), "TINYINT"),
                "onum": nodes.cast(exp.Null(), "DOUBLE"),
                "ots": column("e", instant),
            }
            inner = nodes.select(
                [nodes.alias(value, name) for name, value in values.items()],
                nodes.derived(self._event_rows(place), "e"),
            )
            parts.append(scan_rows(nodes.derived(inner, "q"), scan))
        return parts


class _Place:
    """The default graph, or the named ones: which events and which other graphs are in it."""

    def __init__(self, tables: LakeTables, names: Sequence[str]) -> None:
        self.names = frozenset(names)
        self._tables = tables
        self.has_all = EVENTS in self.names
        chosen = [name for name in self.names if name not in RESERVED_GRAPHS]
        self._chosen = [] if self.has_all else tables.visible_offsets(chosen)
        self.has_log = self.has_all or bool(self._chosen)
        self.computed = triple_rows(self._computed())

    @cached_property
    def computed_name(self) -> str:
        return self._tables.host.register(self.computed)

    @cached_property
    def derived_name(self) -> str | None:
        """The table of its derived events; None if there are events of the log only."""
        rows = [(event.name, event.offset, *event.interval) for event in self._tables.derived if self.has_event(event)]
        if not rows and self.has_log:
            return None
        columns = list(zip(*rows, strict=True)) if rows else [()] * 4
        arrays = [pa.array(values, entry.type) for values, entry in zip(columns, EVENT_ROWS, strict=True)]
        return self._tables.host.register(pa.table(arrays, schema=EVENT_ROWS))

    @property
    def is_unrestricted(self) -> bool:
        """Whether every event below the end is in it."""
        return self.has_all and not self._tables.hidden and self._tables.history.span is None

    def has_event(self, event: EventGraph) -> bool:
        """Whether a derived event is in it."""
        return self.has_all or event.name in self.names

    def offset_range(self) -> tuple[int, int]:
        """The least and the greatest offset of its events, about."""
        if self.has_all or not self._chosen:
            return 0, self._tables.history.stop - 1
        return self._chosen[0], self._chosen[-1]

    def conditions(self, alias: str) -> list[Node]:
        """The conditions that a row of the log is visible in it."""
        tables, offset = self._tables, column(alias, "off")
        if not self.has_all:
            return [nodes.one_of(offset, [nodes.integer(number) for number in self._chosen])]
        conditions: list[Node] = []
        if tables.history.stop < tables.history.snapshot.next_offset:
            conditions.append(exp.LT(this=offset, expression=nodes.integer(tables.history.stop)))
        if tables.hidden:
            hidden = nodes.select([column("h", "off")], nodes.table(tables.hidden_name, "h"))
            conditions.append(nodes.negation(exp.In(this=column(alias, "off"), query=exp.Subquery(this=hidden))))
        if tables.history.span is not None:
            within = exp.Subquery(this=tables.events_in_span(tables.history.span))
            conditions.append(exp.In(this=column(alias, "off"), query=within))
        return conditions

    def _computed(self) -> Iterator[tuple[int, Triple]]:
        """The triples that are in no record of an event: of derived events and of the reserved graphs."""
        history = self._tables.history
        for event in self._tables.derived:
            if self.has_event(event):
                yield from ((event.offset, triple) for triple in history.closed(event))
        for name, number in GRAPH_NUMBERS.items():
            if name in self.names:
                yield from ((number, triple) for triple in history.reserved_graph(name))


def _has_all_zones(snapshot: Snapshot) -> bool:
    """Whether no file of the zones was deleted."""
    present = set(snapshot.store.names("zones")) if snapshot.zones else set()
    return present.issuperset(file.name for file in snapshot.zones)


def triple_rows(rows: Iterable[tuple[int, Triple]]) -> pa.Table:
    """QUAD_ROWS of triples with their graphs' numbers, each once."""
    distinct = [(number, *triple) for number, triple in dict.fromkeys(rows)]
    columns = list(zip(*distinct, strict=True)) if distinct else [()] * 4
    arrays = [pa.array(columns[0], pa.int64()), *(pa.array(values, pa.string()) for values in columns[1:])]
    return quad_rows(pa.table(arrays, names=["off", *TERMS]))


def _may_hold_any(zone: DataFile, name: str, terms: Sequence[str] | None) -> bool:
    if terms is None:
        return True
    counts = (zone.zone or {}).get("predicates") if name == "p" else None
    if counts is not None:
        return any(term in counts for term in terms)
    return any(may_hold(zone, name, term, term) for term in terms)


def _kinds_in(zones: Sequence[DataFile], scan: QuadScan) -> Iterator[int]:
    """The kinds of objects in zones."""
    for zone in zones:
        kinds = (zone.zone or {}).get("kinds")
        if kinds is None:
            yield from ALL_KINDS
        else:
            for predicate in kinds if scan.predicates is None else scan.predicates:
                yield from kinds.get(predicate, ())


def _kinds_of(table: pa.Table, scan: QuadScan) -> Iterable[int]:
    """The kinds of objects in a table in memory."""
    return table.filter(_matches(table, scan))["okind"].unique().to_pylist() if table.num_rows else ()


def _has_match(table: pa.Table, scan: QuadScan) -> bool:
    """Whether a table in memory may have rows of a scan."""
    return bool(table.num_rows and pc.any(_matches(table, scan)).as_py())


def _matches(table: pa.Table, scan: QuadScan) -> pa.Array:
    """Which rows of a table have the terms of a scan."""
    mask = pa.repeat(True, table.num_rows)
    for name, terms in (("s", scan.subjects), ("p", scan.predicates), ("o", scan.objects)):
        if terms is not None:
            mask = pc.and_(mask, pc.is_in(table[name], pa.array(terms, pa.string())))
    return mask
