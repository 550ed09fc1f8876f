"""Explains a query over a lake: its SQL, and for each scan the zones and bytes it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.parquet as pq

from motet.lake import Lake
from motet.lake.snapshot import DataFile
from motet.lake.store import Store
from motet.model.times import format_datetime
from motet.query.bindings import substituted, to_terms
from motet.query.duckdb_engine import lake_connection
from motet.query.lake_query import Complete, QueryOptions, open_history
from motet.sparql.parse import read_query
from motet.sparql.sql.scan import QuadScan


@dataclass(frozen=True)
class ExplainedScan:
    """What one scan reads of the zones; bytes are those of the needed columns of row groups that may have matches."""

    pattern: str
    zones: int
    row_groups: int
    rows: int
    bytes: int
    files: tuple[str, ...]


@dataclass(frozen=True)
class QueryExplanation:
    """The SQL of a query, its scans, and the size of what it could read."""

    sql: str
    scans: tuple[ExplainedScan, ...]
    zones: int  # that there are
    zone_bytes: int
    tail_rows: int  # triples of records in no zone, read from the log
    entailment: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def to_text(self) -> str:
        """The explanation for people."""
        lines = [self.sql, ""]
        for scan in self.scans:
            share = f"{scan.bytes / self.zone_bytes:.1%} of the bytes" if self.zone_bytes else "no zones"
            lines.append(
                f"scan {scan.pattern}: {scan.zones} of {self.zones} zones, {scan.row_groups} row groups, "
                f"{scan.rows} rows, {scan.bytes} bytes ({share})"
            )
        lines.append(f"{self.tail_rows} triples are in no zone yet and are read from the log")
        lines.append(f"entailment: {self.entailment}")
        return "\n".join([*lines, ""])


def explain_query(lake: Lake, text: str, options: QueryOptions, complete: Complete) -> QueryExplanation:
    """Compile a query without running it, and look up what its scans read."""
    query = substituted(read_query(text), to_terms(options.bindings))
    history = open_history(lake, query, options, complete)
    with lake_connection(history, options.limits) as connection:
        sql = connection.sql(query, now=format_datetime(lake.clock()))
        report = connection.tables.report
        scans = [_explained(lake.store, scan, zones) for scan, zones in report.scans]
        zone_bytes = sum(zone.size for zone in connection.tables.zones)
        return QueryExplanation(
            sql, tuple(dict.fromkeys(scans)), len(connection.tables.zones), zone_bytes, report.tail_rows,
            history.entailment.value,
        )  # fmt: skip


def _explained(store: Store, scan: QuadScan, zones: Sequence[DataFile]) -> ExplainedScan:
    read = list(_row_groups(store, scan, zones))
    rows, size = sum(rows for rows, _ in read), sum(size for _, size in read)
    return ExplainedScan(_pattern(scan), len(zones), len(read), rows, size, tuple(zone.name for zone in zones))


def _row_groups(store: Store, scan: QuadScan, zones: Sequence[DataFile]) -> Iterator[tuple[int, int]]:
    """The row groups that a scan reads: their rows, and the bytes of their needed columns."""
    needed = {*scan.columns, "first", *(name for name, terms in _terms(scan) if terms is not None)}
    for zone in zones:
        metadata = pq.read_metadata(store.path(zone.name))
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
            if _may_match(columns, scan):
                yield group.num_rows, sum(columns[name].total_compressed_size for name in needed)


def _may_match(columns: dict[str, Any], scan: QuadScan) -> bool:
    for name, terms in _terms(scan):
        statistics = columns[name].statistics
        if terms is None or statistics is None or not statistics.has_min_max:
            continue
        if not any(statistics.min <= term <= statistics.max for term in terms):
            return False
    for limits in scan.ranges:
        statistics = columns[limits.column].statistics
        if statistics is None or not statistics.has_min_max:
            continue
        if limits.upper is not None and statistics.min > limits.upper:
            return False
        if limits.lower is not None and statistics.max < limits.lower:
            return False
    return True


def _terms(scan: QuadScan) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    return (("s", scan.subjects), ("p", scan.predicates), ("o", scan.objects))


def _pattern(scan: QuadScan) -> str:
    """The triple pattern of a scan, with its place unless that is the default graph."""
    places = [
        f"?{name}" if terms is None else terms[0] if len(terms) == 1 else f"({' | '.join(terms)})"
        for name, terms in _terms(scan)
    ]
    limits = "".join(f" [{limit.column}: {limit.lower} … {limit.upper}]" for limit in scan.ranges)
    graph = "" if scan.place == "default" else "GRAPH ?g " if scan.place == "named" else f"GRAPH {scan.place} "
    return graph + " ".join(places) + limits
