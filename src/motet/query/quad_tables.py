"""A dataset in three SQL tables (quads, named graphs, intervals of events), and SELECTs of their rows.

It is the dataset of plain files. The quads of the default graph have the number `DEFAULT_GRAPH`. Every dataset in SQL
is made of the SELECTs; what they read has the alias ``q``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from motet.lake.zone_rows import QUAD_ROWS, TERMS
from motet.sparql.algebra import DatasetClause
from motet.sparql.dataset import Dataset
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, column
from motet.sparql.sql.scan import QuadScan, SqlDataset
from motet.sparql.term_columns import ALL_KINDS, OF_COLUMN, term_columns

# SELECTs


_SQL_TYPES = {"int64": "BIGINT", "int8": "TINYINT", "double": "DOUBLE", "string": "VARCHAR"}


def scan_conditions(scan: QuadScan) -> list[Node]:
    """The conditions that the rows of a scan fulfil, wherever they are.

    Row groups are skipped by the bounds of ranges; rows without a value are outside these.
    """
    conditions: list[Node] = []
    for name, terms in (("s", scan.subjects), ("p", scan.predicates), ("o", scan.objects)):
        if terms is not None:
            texts = [nodes.text(term) for term in terms]
            conditions.append(nodes.one_of(column("q", name), texts) if texts else exp.false())
    conditions += [exp.NEQ(this=column("q", "p"), expression=nodes.text(term)) for term in scan.not_predicates]
    for limits in scan.ranges:
        for sign, bound in ((exp.GTE, limits.lower), (exp.LTE, limits.upper)):
            if bound is not None:
                literal = exp.Literal.number(repr(bound))
                conditions.append(sign(this=column("q", limits.column), expression=literal))
    return conditions


def kinds_in_ranges(kinds: frozenset[int], scan: QuadScan) -> frozenset[int]:
    """The kinds of rows that have a value in every column for which a scan has a range."""
    return kinds.intersection(*(OF_COLUMN[limits.column] for limits in scan.ranges))


def table_rows(name: str, scan: QuadScan, conditions: Sequence[Node] = ()) -> exp.Query:
    """The rows of a scan in a table that fulfil further conditions, with the columns of `set_columns`."""
    return scan_rows(nodes.table(name, "q"), scan, conditions)


def scan_rows(source: Node, scan: QuadScan, conditions: Sequence[Node] = ()) -> exp.Query:
    """As `table_rows`, of any relation."""
    where = nodes.both([*conditions, *scan_conditions(scan)])
    return nodes.select([column("q", name) for name in set_columns(scan)], source, where=where)


def no_rows(scan: QuadScan) -> exp.Query:
    """An empty relation with the columns of a scan."""
    items = [
        nodes.alias(nodes.cast(exp.Null(), _SQL_TYPES[str(QUAD_ROWS.field(name).type)]), name)
        for name in sorted(scan.columns)
    ]
    return nodes.select(items, where=exp.false())


def set_columns(scan: QuadScan) -> list[str]:
    """The columns of a scan, with those by which its rows become a set if they have to."""
    return sorted({*scan.columns, *TERMS} if scan.place == "default" and scan.is_set else scan.columns)


def other_rows(
    scan: QuadScan, main: Sequence[exp.Query], others: Sequence[exp.Query], *, is_distinct: bool
) -> list[exp.Query]:
    """The other rows, each triple once, without those that the main rows have."""
    if not others:
        return []
    conditions = []
    if main:
        same = [nodes.equals(column("m", name), column("x", name)) for name in TERMS]
        rows = nodes.derived(nodes.union_all([query.copy() for query in main]), "m")
        inner = nodes.select([nodes.integer(1)], rows, where=nodes.both(same))
        conditions.append(nodes.negation(exp.Exists(this=inner)))
    elif is_distinct:
        return list(others)
    items = [column("x", name) for name in set_columns(scan)]
    source = nodes.derived(nodes.union_all(list(others)), "x")
    return [nodes.select(items, source, where=nodes.both(conditions), distinct=not is_distinct)]


# Tables


DEFAULT_GRAPH = -1
QUAD_TYPES = {
    "off": "BIGINT", "s": "VARCHAR", "p": "VARCHAR", "o": "VARCHAR",
    "okind": "TINYINT", "onum": "DOUBLE", "ots": "BIGINT",
}  # fmt: skip
GRAPH_TYPES = {"g": "VARCHAR", "off": "BIGINT"}
INTERVAL_TYPES = {"g": "VARCHAR", "start_": "BIGINT", "end_": "BIGINT"}
TABLES = (QUAD_TYPES, GRAPH_TYPES, INTERVAL_TYPES)
Columns = dict[str, list[object]]


@dataclass(frozen=True, slots=True)
class TableDataset:
    """The first three are names of tables. ``default`` are the graphs after FROM, ``named`` those after FROM NAMED;
    None where the query has no such clause. ``object_kinds`` are the kinds that objects may have.
    """

    quads: str
    graphs_table: str
    intervals_table: str
    default: tuple[str, ...] | None = None
    named: tuple[str, ...] | None = None
    object_kinds: frozenset[int] = ALL_KINDS

    def selected(self, clause: DatasetClause | None) -> SqlDataset:
        return self if clause is None else replace(self, default=clause.default, named=clause.named)

    def scan(self, scan: QuadScan) -> exp.Query:
        where = [*self._place(scan), *scan_conditions(scan)]
        is_union = scan.place == "default" and self.default is not None and len(self.default) > 1
        columns = set(scan.columns)
        items = [column("q", name) for name in sorted(columns)]
        source = nodes.table(self.quads, "q")
        if not (is_union and scan.is_set):
            return nodes.select(items, source, where=nodes.both(where))
        whole = [column("q", name) for name in sorted(columns | {"s", "p", "o"})]
        inner = nodes.select(whole, source, where=nodes.both(where), distinct=True)
        return nodes.select(items, nodes.derived(inner, "q"))

    def kinds(self, scan: QuadScan) -> frozenset[int]:
        return kinds_in_ranges(self.object_kinds, scan)

    def _place(self, scan: QuadScan) -> list[Node]:
        if scan.place == "named":
            is_named = exp.NEQ(this=column("q", "off"), expression=nodes.integer(DEFAULT_GRAPH))
            return [is_named if self.named is None else self._among(self.named)]
        if scan.place == "default":
            if self.default is None:
                return [nodes.equals(column("q", "off"), nodes.integer(DEFAULT_GRAPH))]
            return [self._among(self.default)]
        return [self._among((scan.place,))]

    def _among(self, names: Iterable[str]) -> Node:
        """The condition that a quad is in one of some graphs."""
        terms = [nodes.text(name) for name in names]
        if not terms:
            return exp.false()
        where = nodes.one_of(column("n", "g"), terms)
        inner = nodes.select([column("n", "off")], nodes.table(self.graphs_table, "n"), where=where)
        return exp.In(this=column("q", "off"), query=exp.Subquery(this=inner))

    def graphs(self) -> exp.Query:
        items = [column("n", "g"), column("n", "off")]
        where = None
        if self.named is not None:
            where = (
                nodes.one_of(column("n", "g"), [nodes.text(name) for name in self.named]) if self.named else exp.false()
            )
        return nodes.select(items, nodes.table(self.graphs_table, "n"), where=where)

    def intervals(self) -> exp.Query:
        items = [column("n", name) for name in INTERVAL_TYPES]
        return nodes.select(items, nodes.table(self.intervals_table, "n"))


def table_columns(dataset: Dataset) -> tuple[Columns, Columns, Columns]:
    """The columns of the three tables for a dataset in memory."""
    quads: Columns = {name: [] for name in QUAD_TYPES}
    graphs = [(DEFAULT_GRAPH, dataset.default), *enumerate(dataset.named.values())]
    for number, graph in graphs:
        for subject, predicate, obj in graph:
            row = (number, subject, predicate, obj, *term_columns(obj))
            for column_values, value in zip(quads.values(), row, strict=True):
                column_values.append(value)
    intervals = dataset.intervals.values()
    return (
        quads,
        {"g": list(dataset.named), "off": list(range(len(dataset.named)))},
        {
            "g": list(dataset.intervals),
            "start_": [interval.start for interval in intervals],
            "end_": [interval.end for interval in intervals],
        },
    )


def object_kinds(quads: Columns) -> frozenset[int]:
    """The kinds of the objects of quads."""
    return frozenset(kind for kind in quads["okind"] if isinstance(kind, int))
