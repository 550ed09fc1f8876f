"""The relations of time between two events, as conditions on the columns of two relations with their intervals."""

from __future__ import annotations

from sqlglot import exp

from motet.model.intervals import Relation
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, column

# As in `motet.model.intervals`: each pair of ends, with the sign between them.
_CONDITIONS: dict[Relation, tuple[tuple[str, str, str], ...]] = {
    Relation.BEFORE: (("a end", "<", "b start"),),
    Relation.MEETS: (("a end", "=", "b start"), ("a start", "<", "b start"), ("a end", "<", "b end")),
    Relation.OVERLAPS: (("a start", "<", "b start"), ("b start", "<", "a end"), ("a end", "<", "b end")),
    Relation.STARTS: (("a start", "=", "b start"), ("a end", "<", "b end")),
    Relation.DURING: (("b start", "<", "a start"), ("a end", "<", "b end")),
    Relation.FINISHES: (("b start", "<", "a start"), ("a end", "=", "b end")),
    Relation.EQUALS: (("a start", "=", "b start"), ("a end", "=", "b end")),
}


def time_relation(relation: Relation, first: str, second: str) -> Node:
    """Whether a relation holds; NULL if one of the two tables has no interval."""
    if relation not in _CONDITIONS:
        relation, first, second = relation.inverse, second, first
    tables = {"a": first, "b": second}

    def end(place: str) -> Node:
        table, name = place.split()
        return column(tables[table], f"{name}_")

    conditions = [
        (exp.LT if sign == "<" else exp.EQ)(this=end(left), expression=end(right))
        for left, sign, right in _CONDITIONS[relation]
    ]
    known = nodes.both(nodes.is_bound(column(table, "start_")) for table in (first, second))
    return nodes.case((known, nodes.both(conditions)), default=nodes.cast(exp.Null(), "BOOLEAN"))
