"""OR, WITHIN and FILTER, one at a time (language page, section 5)."""

from __future__ import annotations

from tests.engine.detect.operator_driver import Driver, Row, point

from motet.engine.detect.stateless import FilterOperator, OrOperator, WithinOperator
from motet.plan.graph import Kind, Operator, PlanNode
from motet.sparql.parse_cache import parse_expression

END = 1000


def test_or_has_every_occurrence_of_either_side() -> None:
    """At once, whatever the frontier."""
    a, b = point(1, "a", "r"), point(1, "b", None)
    assert Driver(OrOperator(PlanNode(0, Operator(Kind.OR)))).advance([a], [b], frontier=0) == [a, b]


def test_within_keeps_occurrences_no_longer_than_the_bound() -> None:
    """`end - start <= d`."""
    operator = WithinOperator(PlanNode(0, Operator(Kind.WITHIN, window=3)))
    rows = [Row(0, 3, "a", ("r",)), Row(0, 4, "b", ("r",))]
    assert Driver(operator).advance(rows, frontier=0) == rows[:1]


def test_filter_keeps_occurrences_for_which_its_condition_is_true() -> None:
    """An error, here an unbound variable, is false."""
    operator = FilterOperator(PlanNode(0, Operator(Kind.FILTER), condition=parse_expression("STRLEN(?v0) > 1")))
    rows = [point(1, "a", '"xy"'), point(2, "b", '"x"'), point(3, "c", None)]
    assert Driver(operator).advance(rows, frontier=0) == rows[:1]
