"""UNLESS, WITHOUT, XOR and NO, one at a time (language page, section 5)."""

from __future__ import annotations

import pytest
from tests.engine.detect.operator_driver import Driver, Row, operands, point

from motet.engine.detect.absence import NegationOperator, NoOperator, XorOperator
from motet.model.times import END_OF_TIME
from motet.plan.graph import Edge, Kind, Operator, PlanNode, Start

END = 1000
WINDOW = 10


def node(kind: Kind, *, nullable: bool = False, start: Start | None = None) -> PlanNode:
    children = (Edge(1, ()),) if kind is Kind.NO else operands()
    variables = () if kind is Kind.NO else ("v0",)
    keys = () if nullable or kind is Kind.NO else ("v0",)
    window = None if kind is Kind.WITHOUT else WINDOW
    return PlanNode(0, Operator(kind, window=window), children, variables, key_variables=keys, start=start)


def unless(*, nullable: bool = False, lags: tuple[int, int] = (0, 0)) -> Driver:
    return Driver(NegationOperator(node(Kind.UNLESS, nullable=nullable), None), lags=lags)


A = Row(5, 7, "a", ("r",))


@pytest.mark.parametrize(
    ("start", "end", "contradicts"), [(7, 9, False), (8, 9, True), (8, 17, True), (8, 18, False), (5, 17, False)]
)
def test_unless_is_contradicted_between_its_end_and_the_end_of_the_window(
    start: int, end: int, contradicts: bool
) -> None:
    """`a.end < b.start` and `b.end <= a.end + d`, for a = [5, 7] and d = 10."""
    b = Row(start, end, "b", ("r",))
    assert unless().advance([A], [b], frontier=END) == ([] if contradicts else [A])


def test_unless_is_contradicted_by_compatible_occurrences_only() -> None:
    """Another room does not contradict; an unbound room agrees with every room."""
    for value, expected in (("s", [A]), ("r", []), (None, [])):
        assert unless(nullable=True).advance([A], [point(8, "b", value)], frontier=END) == expected


def test_unless_may_be_contradicted_by_its_own_event() -> None:
    """Compatible occurrences need not be disjoint."""
    assert unless().advance([A], [Row(8, 9, "a", ("r",))], frontier=END) == []


def test_unless_is_final_when_the_frontier_has_passed_the_window_and_the_lag_of_the_negated_side() -> None:
    """An a that ends at 7 is pending until the frontier has passed 7 + 10 + 3."""
    run = unless(lags=(0, 3))
    assert run.emit([A], [], frontier=20) == []
    assert run.operator.next_timer(run.env) == 20
    assert run.emit([], [], frontier=21) == [(A, 1)]


def test_negated_occurrences_are_pruned_when_they_can_contradict_nothing() -> None:
    """A b that starts at 8 matters while an a that ends before 8 may still arrive."""
    run, b = unless(), point(8, "b", "r")
    run.advance([], [b], frontier=7)
    assert run.state() == {"others": [b]}
    run.advance([], [], frontier=8)
    assert run.state() == {}


def without() -> Driver:
    return Driver(NegationOperator(node(Kind.WITHOUT), 50))


@pytest.mark.parametrize(
    ("start", "end", "contradicts"), [(2, 5, False), (3, 5, True), (3, 7, True), (3, 8, False), (5, 5, True)]
)
def test_without_is_contradicted_between_the_sides_of_a_pair(start: int, end: int, contradicts: bool) -> None:
    """`a.end < b.start` and `b.end < c.start`, for a = [1, 2] and c = [8, 9]."""
    run = without()
    ac = Row(1, 9, "a c", ("r",))
    b = run.table([Row(start, end, "b", ("r",))])
    run.advance([], [], frontier=0)
    run.operator.advance([run.pairs((ac, 2, 8)), b], run.env)
    assert run.advance([], [], frontier=END) == ([] if contradicts else [ac])


def test_without_passes_pairs_whose_left_side_does_not_end_before_the_right_one_starts() -> None:
    """They are final at once."""
    run = without()
    ac = Row(1, 9, "a c", ("r",))
    run.advance([], [], frontier=0)
    result = run.operator.advance([run.pairs((ac, 8, 8)), run.table([point(8, "b", "r")])], run.env)
    assert run.rows(result) == [ac]


def xor() -> Driver:
    return Driver(XorOperator(node(Kind.XOR)))


def test_xor_keeps_both_sides_that_are_far_apart() -> None:
    """The hull of [0, 1] and [11, 11] is 11, longer than the window of 10."""
    a, b = Row(0, 1, "a", ("r",)), point(11, "b", "r")
    assert xor().advance([a], [b], frontier=END) == [a, b]


def test_xor_drops_both_sides_whose_hull_fits_the_window() -> None:
    """The hull of [0, 1] and [10, 10] is 10: neither is left. Which side is first does not matter."""
    first, second = Row(0, 1, "x", ("r",)), point(10, "y", "r")
    assert xor().advance([first], [second], frontier=END) == []
    assert xor().advance([second], [first], frontier=END) == []


def test_xor_is_no_filter() -> None:
    """An occurrence longer than the window cannot be contradicted and stays."""
    long, short = Row(0, 11, "a", ("r",)), point(5, "b", "r")
    assert xor().advance([long], [short], frontier=END) == sorted([long, short], key=str)


def test_xor_counts_one_event_on_both_sides_as_both() -> None:
    """An event that matches both leaves contradicts itself."""
    x = point(1, "x", "r")
    assert xor().advance([x], [x], frontier=END) == []


def test_xor_compares_compatible_occurrences_only() -> None:
    """Occurrences of different rooms do not contradict each other."""
    a, b = point(1, "a", "r"), point(2, "b", "s")
    assert xor().advance([a], [b], frontier=END) == [a, b]


def no(start: Start | None = None) -> Driver:
    return Driver(NoOperator(node(Kind.NO, start=start)), width=0, lags=(0,))


def test_no_starts_at_every_end_of_the_negated_pattern() -> None:
    """a at 1 and at 5: from 1 on another a follows within 10, from 5 on none does."""
    assert no().advance([point(1, "a1"), point(5, "a2")], frontier=END) == [Row(5, 15, "")]


def test_no_starts_at_since() -> None:
    """SINCE 0 without any event: the interval [0, 10]."""
    assert no(Start(0, since=0)).advance([], frontier=END) == [Row(0, 10, "")]


@pytest.mark.parametrize(("start", "end", "contradicts"), [(0, 5, False), (1, 10, True), (1, 11, False)])
def test_no_is_contradicted_after_its_start_point_until_the_end_of_the_window(
    start: int, end: int, contradicts: bool
) -> None:
    """`p < a.start` and `a.end <= p + d`, for p = 0 and d = 10."""
    run = no(Start(0, since=0))
    result = run.advance([Row(start, end, "a")], frontier=END)
    assert (Row(0, 10, "") not in result) is contradicts


def test_no_has_one_occurrence_for_each_start_point() -> None:
    """Two a that end at one instant are one start point."""
    assert no().advance([point(1, "a1"), point(1, "a2")], frontier=END) == [Row(1, 11, "")]


def test_no_has_no_occurrence_past_the_end_of_time() -> None:
    """A window that would end after the last instant never closes."""
    assert no().advance([point(END_OF_TIME - 9, "a")], frontier=END_OF_TIME) == []


@pytest.mark.parametrize("make", [unless, xor, no])
def test_restored_state_continues(make: object) -> None:
    """An operator that restores another one's tables emits what that one would emit."""
    assert callable(make)
    first, second = make(), make()
    inputs = [[point(1, "a")]] if make is no else [[point(1, "a", "r")], [point(30, "b", "r")]]
    none: list[list[Row]] = [[] for _ in inputs]
    for run in (first, second):
        run.advance(*inputs, frontier=5)
    second.operator.restore(first.operator.snapshot())
    assert second.advance(*none, frontier=END) == first.advance(*none, frontier=END) != []
