"""SELECTs of the rows of a scan, of which every dataset in SQL is made. What they read has the alias ``q``."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from motet.lake.zone_rows import QUAD_ROWS, TERMS
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, column
from motet.sparql.sql.scan import QuadScan
from motet.sparql.term_columns import OF_COLUMN

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
