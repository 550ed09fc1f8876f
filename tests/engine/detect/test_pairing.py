"""Pairing operators, one at a time: relations, joins, bounds and contexts (language page, sections 4 to 7)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from tests.engine.detect.operator_driver import Driver, Row, operands, point

from motet.engine.detect.pairing import PairingOperator
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.plan.graph import Kind, Operator, PlanNode
from motet.sparql.parse_cache import parse_expression

END = 1000  # a frontier behind everything


def driver(
    context: Context = Context.UNRESTRICTED,
    *,
    operator: Operator = Operator(Kind.TIMED, Relation.BEFORE),  # noqa: B008  (immutable)
    bound: int | None = 50,
    condition: str | None = None,
    nullable: bool = False,
    lags: tuple[int, int] = (0, 0),
) -> Driver:
    """A pairing operator whose operands share one variable, which they bind always unless it is nullable."""
    node = PlanNode(
        0,
        operator,
        operands(),
        ("v0",),
        bound=bound,
        condition=parse_expression(condition) if condition else None,
        context=context,
        key_variables=() if nullable else ("v0",),
    )
    return Driver(PairingOperator(node, [[0], [0]], [1, 1]), lags=lags)


INTERVALS = [(start, end) for start in range(4) for end in range(start, 4)]
RELATIONS: dict[str, tuple[Operator, Callable[[int, int, int, int], bool]]] = {
    "AND": (Operator(Kind.AND), lambda a, z, b, y: True),
    "ALONGSIDE": (Operator(Kind.ALONGSIDE), lambda a, z, b, y: max(a, b) <= min(z, y)),
    "BEFORE": (Operator(Kind.TIMED, Relation.BEFORE), lambda a, z, b, y: z < b),
    "MEETS": (Operator(Kind.TIMED, Relation.MEETS), lambda a, z, b, y: z == b and a < b and z < y),
    "OVERLAPS": (Operator(Kind.TIMED, Relation.OVERLAPS), lambda a, z, b, y: a < b < z < y),
    "STARTS": (Operator(Kind.TIMED, Relation.STARTS), lambda a, z, b, y: a == b and z < y),
    "DURING": (Operator(Kind.TIMED, Relation.DURING), lambda a, z, b, y: a > b and z < y),
    "FINISHES": (Operator(Kind.TIMED, Relation.FINISHES), lambda a, z, b, y: a > b and z == y),
    "EQUALS": (Operator(Kind.TIMED, Relation.EQUALS), lambda a, z, b, y: a == b and z == y),
    "AFTER": (Operator(Kind.TIMED, Relation.AFTER), lambda a, z, b, y: y < a),
    "MET BY": (Operator(Kind.TIMED, Relation.MET_BY), lambda a, z, b, y: y == a and b < a and y < z),
    "OVERLAPPED BY": (Operator(Kind.TIMED, Relation.OVERLAPPED_BY), lambda a, z, b, y: b < a < y < z),
    "STARTED BY": (Operator(Kind.TIMED, Relation.STARTED_BY), lambda a, z, b, y: a == b and y < z),
    "INCLUDES": (Operator(Kind.TIMED, Relation.INCLUDES), lambda a, z, b, y: b > a and y < z),
    "FINISHED BY": (Operator(Kind.TIMED, Relation.FINISHED_BY), lambda a, z, b, y: b > a and z == y),
}


@pytest.mark.parametrize("name", RELATIONS)
def test_pairs_have_the_relation_of_section_6(name: str) -> None:
    """Unrestricted, all pairs of intervals between 0 and 3 with the relation are found, and no others."""
    operator, holds = RELATIONS[name]
    left = [Row(start, end, f"a{start}{end}", ("r",)) for start, end in INTERVALS]
    right = [Row(start, end, f"b{start}{end}", ("r",)) for start, end in INTERVALS]
    expected = [
        Row(min(a.start, b.start), max(a.end, b.end), f"{a.events} {b.events}", ("r",))
        for a, b in product(left, right)
        if holds(a.start, a.end, b.start, b.end)
    ]
    assert driver(operator=operator).advance(left, right, frontier=END) == sorted(expected, key=str)


A1, A2, A3 = point(1, "a1", "r"), point(2, "a2", "r"), point(3, "a3", "r")
B4, B5 = point(4, "b4", "r"), point(5, "b5", "r")


def pair(left: Row, right: Row) -> Row:
    """The join of two points with the same values."""
    return Row(left.start, right.end, f"{left.events} {right.events}", left.values)


def test_unrestricted_pairs_with_every_candidate() -> None:
    """All stay open: each of two b pairs with each of two a."""
    run = driver()
    assert run.advance([A1, A2], [], frontier=3) == []
    assert run.advance([], [B4], frontier=4) == [pair(A1, B4), pair(A2, B4)]
    assert run.advance([], [B5], frontier=5) == [pair(A1, B5), pair(A2, B5)]


def test_recent_pairs_with_the_latest_candidate() -> None:
    """Nothing is consumed: the latest a pairs with each b until another a replaces it."""
    run = driver(Context.RECENT)
    a6, b7 = point(6, "a6", "r"), point(7, "b7", "r")
    assert run.advance([A1, A2, a6], [B4, B5, b7], frontier=END) == [pair(A2, B4), pair(A2, B5), pair(a6, b7)]


def test_recent_keeps_one_occurrence_for_each_value_of_the_shared_variables() -> None:
    """An occurrence of another room does not replace the one of this room."""
    run = driver(Context.RECENT)
    a1, a2, b3 = point(1, "a1", "r"), point(2, "a2", "s"), point(3, "b3", "r")
    assert run.advance([a1, a2], [b3], frontier=END) == [pair(a1, b3)]


def test_recent_pairs_occurrences_of_one_event_before_any_of_them_opens() -> None:
    """An event with two solutions on both sides of AND: neither solution hides the one that was open before."""
    run = driver(Context.RECENT, operator=Operator(Kind.AND), nullable=True)
    a1 = point(1, "a1", None)
    first, second = point(2, "x", "r"), point(2, "x", "s")
    assert run.advance([a1], [first, second], frontier=END) == [Row(1, 2, "a1 x", ("r",)), Row(1, 2, "a1 x", ("s",))]


def test_chronicle_pairs_with_the_oldest_candidate_and_consumes_both() -> None:
    """First a with first b, second a with second b; the third a stays open."""
    run = driver(Context.CHRONICLE)
    assert run.advance([A1, A2, A3], [B4, B5], frontier=END - 960) == [pair(A1, B4), pair(A2, B5)]
    assert run.state() == {"open left": [A3]}


def test_continuous_pairs_with_every_candidate_and_consumes_them() -> None:
    """One occurrence each; the next b finds only what opened since."""
    run = driver(Context.CONTINUOUS)
    a4 = point(4, "a4", "r")
    assert run.advance([A1, A2, a4], [B4, B5], frontier=END) == [pair(A1, B4), pair(A2, B4), pair(a4, B5)]


def test_cumulative_joins_all_candidates_to_one_occurrence() -> None:
    """With the hull and the events of all, which are consumed."""
    run = driver(Context.CUMULATIVE)
    assert run.advance([A1, A2], [B4, B5], frontier=END) == [Row(1, 4, "a1 a2 b4", ("r",))]


def test_cumulative_keeps_a_variable_on_which_its_members_agree() -> None:
    """Members need not agree with each other: a variable with two values is unbound."""
    run = driver(Context.CUMULATIVE, nullable=True)
    a1, a2, b3 = point(1, "a1", "r"), point(2, "a2", "s"), point(3, "b3", None)
    assert run.advance([a1, a2], [b3], frontier=END) == [Row(1, 3, "a1 a2 b3", (None,))]


@pytest.mark.parametrize("context", [Context.CHRONICLE, Context.CONTINUOUS, Context.CUMULATIVE])
def test_an_occurrence_with_a_candidate_does_not_open(context: Context) -> None:
    """With AND either side may open: b2 is consumed with a1, so a3 has no candidate and stays open."""
    run = driver(context, operator=Operator(Kind.AND))
    b2 = point(2, "b2", "r")
    assert run.advance([A1, A3], [b2], frontier=10) == [pair(A1, b2)]
    assert run.state() == {"open left": [A3]}


@pytest.mark.parametrize("context", list(Context))
def test_a_pair_shares_no_event(context: Context) -> None:
    """An event that matches both leaves is no pair with itself."""
    run = driver(context, operator=Operator(Kind.AND))
    assert run.advance([point(1, "x", "r")], [point(1, "x", "r")], frontier=END) == []


@pytest.mark.parametrize("context", list(Context))
def test_a_pair_agrees_in_its_shared_variables(context: Context) -> None:
    """Rooms r and s are no pair; an unbound room agrees with every room and takes its value."""
    run = driver(context, nullable=True)
    a1, a2 = point(1, "a1", "r"), point(10, "a2", None)
    b1, b2 = point(2, "b1", "s"), point(11, "b2", "s")
    assert run.advance([a1, a2], [b1, b2], frontier=END) == [Row(10, 11, "a2 b2", ("s",))]


@pytest.mark.parametrize("context", list(Context))
def test_the_hull_of_a_pair_fits_the_bound(context: Context) -> None:
    """A hull as long as the bound is a pair, a longer one is not."""
    for distance, expected in ((3, [Row(1, 4, "a1 b", ("r",))]), (4, [])):
        run = driver(context, bound=3)
        assert run.advance([A1], [point(1 + distance, "b", "r")], frontier=END) == expected


def test_a_carried_condition_decides_which_candidates_count() -> None:
    """The oldest candidate that meets the condition is taken, not the oldest one."""
    run = driver(Context.CHRONICLE, condition='?v0 != "r"', nullable=True)
    a1, a2, b3 = point(1, "a1", '"r"'), point(2, "a2", '"s"'), point(3, "b3", None)
    assert run.advance([a1, a2], [b3], frontier=END) == [Row(2, 3, "a2 b3", ('"s"',))]


@pytest.mark.parametrize("context", [Context.CHRONICLE, Context.RECENT])
def test_equal_times_complete_by_their_event_iris(context: Context) -> None:
    """Of two a at one instant, chronicle takes the first by IRI and recent the last, in any order of arrival."""
    rows = [point(1, "a2", "r"), point(1, "a1", "r")]
    expected = "a1 b4" if context is Context.CHRONICLE else "a2 b4"
    assert driver(context).advance(rows, [B4], frontier=END) == [Row(1, 4, expected, ("r",))]


@pytest.mark.parametrize("context", [Context.RECENT, Context.CHRONICLE, Context.CONTINUOUS, Context.CUMULATIVE])
def test_a_pair_is_final_when_the_frontier_has_passed_its_end(context: Context) -> None:
    """It is emitted with the record that moves the frontier past its end and the operands' lag; until then it pends."""
    run = driver(context, lags=(2, 0))
    assert run.emit([A1], [B4], frontier=6) == []
    assert run.operator.next_timer(run.env) == 6
    assert run.emit([], [], frontier=7) == [(pair(A1, B4), 1)]


def test_order_of_arrival_does_not_matter() -> None:
    """A b that arrives before its a is paired like one that arrives after it."""
    for context in Context:
        run = driver(context)
        assert run.advance([], [B4], frontier=0) == []
        assert run.advance([A1], [], frontier=END) == [pair(A1, B4)]


def test_open_occurrences_are_pruned_when_no_partner_can_fit_the_bound() -> None:
    """An a at 1 with a bound of 50 is open while the frontier is at most 51."""
    run = driver(Context.CHRONICLE)
    run.advance([A1], [], frontier=51)
    assert run.state() == {"open left": [A1]}
    run.advance([], [], frontier=52)
    assert run.state() == {}


def test_only_the_side_that_completes_first_stays_open() -> None:
    """With BEFORE a b cannot pair with a later a, so it is not kept."""
    run = driver(Context.CHRONICLE)
    run.advance([], [B4], frontier=5)
    assert run.state() == {}


@pytest.mark.parametrize("context", list(Context))
def test_restored_state_continues(context: Context) -> None:
    """An operator that restores another one's tables emits what that one would emit."""
    first, second = driver(context), driver(context)
    first.advance([A1, A2], [], frontier=2)
    second.advance([A1, A2], [], frontier=2)
    second.operator.restore(first.operator.snapshot())
    assert second.advance([], [B4], frontier=END) == first.advance([], [B4], frontier=END) != []
