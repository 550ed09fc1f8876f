"""Completion order: `(end, start, sorted event ids)`, then bindings (language page, section 4)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.engine.detect.operator_driver import Driver, Row, point

from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.order import Sides, break_ties, completion_order
from motet.engine.detect.stateless import OrOperator
from motet.engine.detect.table_kernels import END, START
from motet.jit.compiled import Ints
from motet.plan.graph import Kind, Operator, PlanNode


def ordered(rows: list[Row], width: int = 1) -> list[Row]:
    """Rows in completion order, the events named in alphabetical order having been seen in reverse."""
    driver = Driver(OrOperator(PlanNode(0, Operator(Kind.OR))), width=width)
    driver.table([point(0, event, *[None] * width) for event in "zyxwcba"])
    table = driver.table(rows)
    return driver.rows(table.take(completion_order(table, driver.dictionary)))


@pytest.mark.parametrize(
    "rows",
    [
        [Row(5, 6, "z", ("r",)), Row(0, 7, "a", ("r",))],  # by end
        [Row(1, 6, "z", ("r",)), Row(2, 6, "a", ("r",))],  # then by start
        [Row(1, 6, "a", ("s",)), Row(1, 6, "b", ("r",))],  # then by event
        [Row(1, 6, "a z", ("r",)), Row(1, 6, "b c", ("r",))],  # by the first of sorted events
        [Row(1, 6, "a", ("s",)), Row(1, 6, "a b", ("r",))],  # a list before a longer one that it begins
        [Row(1, 6, "a", ("r",)), Row(1, 6, "a", ("s",))],  # then by bindings
        [Row(1, 6, "a", (None,)), Row(1, 6, "a", ("r",))],  # no binding before one
    ],
)
def test_rows_complete_by_end_start_events_and_bindings(rows: list[Row]) -> None:
    """Whatever order they are given in."""
    assert ordered(rows) == rows
    assert ordered(rows[::-1]) == rows


def test_bindings_are_compared_as_pairs_of_variable_and_term() -> None:
    """An unbound variable is left out: (w: a) comes after (v: z), since v is the lesser name."""
    rows = [Row(1, 1, "a", ("z", None)), Row(1, 1, "a", (None, "a"))]
    assert ordered(rows, width=2) == ordered(rows[::-1], width=2) == rows


def test_terms_are_compared_by_code_points() -> None:
    """Not by their ids, which follow the order in which they were first seen."""
    rows = [point(1, "a", term) for term in ('"Z"', '"a"', '"ä"', "<urn:a>")]
    assert ordered(rows[::-1]) == rows


def test_left_completes_before_right_with_equal_times_and_events() -> None:
    """Then the named variables of each side are compared first."""
    driver = Driver(OrOperator(PlanNode(0, Operator(Kind.OR))), width=2)
    rows = [point(1, "x", "r", "a"), point(1, "x", "a", "s"), point(1, "x", "s", "b")]
    table = driver.table(rows)
    sides = np.array([True, False, False])

    def take_tied(tied: Ints) -> tuple[Occurrences, Sides]:
        return table.take(tied), sides[tied]

    order = break_ties(
        np.arange(3), table.columns[START], table.columns[END], take_tied, driver.dictionary, ((1,), (0,))
    )
    assert driver.rows(table.take(order.rows)) == [rows[2], rows[1], rows[0]]
    assert order.same_events.tolist() == [False, True, True]
