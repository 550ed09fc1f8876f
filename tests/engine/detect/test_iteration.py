"""A{n} and A+, one at a time (language page, section 5)."""

from __future__ import annotations

import pytest
from tests.engine.detect.operator_driver import Driver, Row, point

from motet.engine.detect.iteration import RunOperator, TimesOperator
from motet.language.syntax import Context
from motet.plan.graph import Edge, Kind, Operator, PlanNode

END = 1000
SLIDING = (Context.UNRESTRICTED, Context.RECENT)
TUMBLING = (Context.CHRONICLE, Context.CONTINUOUS, Context.CUMULATIVE)


def times(
    count: int, context: Context, *, gap: int | None = None, bound: int | None = None, lags: tuple[int, ...] = (0,)
) -> Driver:
    """A{count} with one visible variable."""
    operator = Operator(Kind.TIMES, count=count, gap=gap)
    node = PlanNode(0, operator, (Edge(1, (("v0", "v0"),)),), ("v0",), bound=bound, context=context)
    return Driver(TimesOperator(node), lags=lags)


def run_of(*, gap: int | None = None, bound: int | None = None, lags: tuple[int, ...] = (0,)) -> Driver:
    """A+ with one visible variable."""
    node = PlanNode(0, Operator(Kind.RUN, gap=gap), (Edge(1, (("v0", "v0"),)),), ("v0",), bound=bound)
    return Driver(RunOperator(node), lags=lags)


A1, A2, A3, A4 = (point(instant, f"a{instant}", "r") for instant in (1, 2, 3, 4))


@pytest.mark.parametrize("context", SLIDING)
def test_windows_slide_in_unrestricted_and_recent(context: Context) -> None:
    """Every two successive members are an occurrence."""
    expected = [Row(1, 2, "a1 a2", ("r",)), Row(2, 3, "a2 a3", ("r",)), Row(3, 4, "a3 a4", ("r",))]
    assert times(2, context).advance([A1, A2, A3, A4], frontier=END) == expected


@pytest.mark.parametrize("context", TUMBLING)
def test_groups_tumble_in_the_other_contexts(context: Context) -> None:
    """A member is counted once."""
    expected = [Row(1, 2, "a1 a2", ("r",)), Row(3, 4, "a3 a4", ("r",))]
    assert times(2, context).advance([A1, A2, A3, A4], frontier=END) == expected


@pytest.mark.parametrize("context", [Context.RECENT, Context.CHRONICLE])
def test_members_are_counted_across_batches(context: Context) -> None:
    """Where the log is cut does not matter."""
    driver = times(3, context)
    assert driver.advance([A1, A2], frontier=3) == []
    assert driver.advance([A3], frontier=4) == [Row(1, 3, "a1 a2 a3", ("r",))]


@pytest.mark.parametrize("context", list(Context))
def test_members_are_counted_for_each_key(context: Context) -> None:
    """As a key, unbound is a value of its own."""
    rows = [point(1, "a1", "r"), point(2, "a2", "s"), point(3, "a3", None), point(4, "a4", "r"), point(5, "a5", None)]
    expected = [Row(1, 4, "a1 a4", ("r",)), Row(3, 5, "a3 a5", (None,))]
    assert times(2, context).advance(rows, frontier=END) == expected


@pytest.mark.parametrize("context", list(Context))
def test_members_are_distinct(context: Context) -> None:
    """An occurrence that is found twice is one member."""
    assert times(2, context).advance([A1, A1], frontier=END) == []


@pytest.mark.parametrize("context", list(Context))
def test_members_need_not_be_disjoint(context: Context) -> None:
    """Two occurrences with a common event are two members; the event occurs once in the result."""
    rows = [Row(1, 2, "x a", ("r",)), Row(1, 3, "x b", ("r",))]
    assert times(2, context).advance(rows, frontier=END) == [Row(1, 3, "a b x", ("r",))]


@pytest.mark.parametrize("context", list(Context))
def test_every_limits_the_gap_between_ends(context: Context) -> None:
    """`next.end - previous.end <= d`: a gap of exactly d is allowed."""
    for gap, expected in ((4, []), (5, [Row(1, 6, "a1 a6", ("r",))])):
        assert times(2, context, gap=gap).advance([A1, point(6, "a6", "r")], frontier=END) == expected


@pytest.mark.parametrize("context", list(Context))
def test_a_member_that_exceeds_the_bound_is_left_out(context: Context) -> None:
    """The members before and after it are successive."""
    rows = [A1, Row(0, 2, "long", ("r",)), point(2, "b", "r")]
    assert times(2, context, bound=1).advance(rows, frontier=END) == [Row(1, 2, "a1 b", ("r",))]


def test_a_sliding_window_takes_only_members_whose_hull_fits() -> None:
    """Of the windows (1, 2) and (2, 9) only the first one fits a bound of 5."""
    driver = times(2, Context.RECENT, bound=5)
    assert driver.advance([A1, A2, point(9, "a9", "r")], frontier=END) == [Row(1, 2, "a1 a2", ("r",))]


@pytest.mark.parametrize("limits", [{"bound": 3}, {"gap": 2}])
def test_a_tumbling_group_starts_again_with_the_member_that_breaks_it(limits: dict[str, int]) -> None:
    """Members at 1, 2 | 6, 7, 8: the count starts again at 6."""
    rows = [A1, A2, *(point(instant, f"a{instant}", "r") for instant in (6, 7, 8))]
    driver = times(3, Context.CHRONICLE, **limits)  # type: ignore[arg-type]
    assert driver.advance(rows, frontier=END) == [Row(6, 8, "a6 a7 a8", ("r",))]


def test_an_occurrence_is_final_when_the_frontier_has_passed_its_last_member() -> None:
    """With the lag of the operand."""
    driver = times(2, Context.RECENT, lags=(3,))
    assert driver.emit([A1, A2], frontier=5) == []
    assert driver.operator.next_timer(driver.env) == 5
    assert driver.emit([], frontier=6) == [(Row(1, 2, "a1 a2", ("r",)), 1)]


def test_counted_members_are_pruned_when_no_member_can_follow_them() -> None:
    """With a gap of 5, a member at 1 is counted while the frontier is at most 6."""
    driver = times(2, Context.CHRONICLE, gap=5)
    driver.advance([A1], frontier=6)
    assert driver.state() == {"counted": [A1]}
    driver.advance([], frontier=7)
    assert driver.state() == {}


def test_runs_are_maximal() -> None:
    """Members at 1, 2, 3 and at 7: gaps of 1 belong to a run, a gap of 4 does not."""
    rows = [A1, A2, A3, point(7, "a7", "r")]
    expected = [Row(1, 3, "a1 a2 a3", ("r",)), Row(7, 7, "a7", ("r",))]
    assert run_of(gap=2).advance(rows, frontier=END) == expected


def test_a_run_is_cut_where_it_would_exceed_the_bound() -> None:
    """The member that would stretch the hull past the bound begins the next run."""
    expected = [Row(1, 3, "a1 a2 a3", ("r",)), Row(4, 4, "a4", ("r",))]
    assert run_of(gap=5, bound=2).advance([A1, A2, A3, A4], frontier=END) == expected


def test_a_run_is_final_when_no_member_can_extend_it() -> None:
    """With a gap of 5, a run that ends at 2 is open until the frontier has passed 7."""
    driver = run_of(gap=5)
    assert driver.emit([A1, A2], frontier=7) == []
    assert driver.state() == {"open": [Row(1, 2, "a1 a2", ("r",))]}
    assert driver.operator.next_timer(driver.env) == 7
    assert driver.emit([], frontier=8) == [(Row(1, 2, "a1 a2", ("r",)), 1)]


def test_the_bound_makes_a_run_final_before_its_gap() -> None:
    """With a bound of 3 a run that starts at 1 is final when the frontier has passed 4."""
    driver = run_of(gap=50, bound=3)
    driver.advance([A1], frontier=4)
    assert driver.advance([], frontier=5) == [A1]


def test_runs_of_different_keys_are_independent() -> None:
    """A member of another key does not break a run."""
    rows = [point(1, "a1", "r"), point(2, "b2", "s"), point(3, "a3", "r")]
    expected = [Row(1, 3, "a1 a3", ("r",)), Row(2, 2, "b2", ("s",))]
    assert run_of(gap=2).advance(rows, frontier=END) == expected


@pytest.mark.parametrize("make", [lambda: times(2, Context.RECENT), lambda: times(2, Context.CHRONICLE), run_of])
def test_restored_state_continues(make: object) -> None:
    """An operator that restores another one's tables emits what that one would emit."""
    assert callable(make)
    first, second = (make() if make is not run_of else run_of(gap=5) for _ in range(2))
    for driver in (first, second):
        driver.advance([A1], frontier=2)
    second.operator.restore(first.operator.snapshot())
    assert second.advance([A2], frontier=END) == first.advance([A2], frontier=END) == [Row(1, 2, "a1 a2", ("r",))]
