"""What nodes remember, and for how long."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from motet.language.syntax import Subscription
from motet.model.intervals import Interval, Relation
from motet.plan.builder import build_plan
from motet.plan.graph import Kind
from motet.plan.state import StateBound, state_bounds

Write = Callable[..., Subscription]
PAIR = "a:A room?r; b:B room?r"
TRIPLE = f"{PAIR}; c:C room?r"


def words(subscription: Subscription) -> str:
    """The state of the pattern's topmost operator."""
    plan = build_plan([subscription])
    root = plan.roots[0]
    return state_bounds(plan)[root.node].text(dict(root.renaming))


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("unrestricted", "every occurrence of both sides per ?r, for 5 min"),
        ("recent", "the latest occurrence of the left side per ?r, for 5 min"),
        ("chronicle", "open occurrences of the left side per ?r, for 5 min"),
        ("continuous", "open occurrences of the left side per ?r, for 5 min"),
        ("cumulative", "open occurrences of the left side per ?r, for 5 min"),
    ],
)
def test_the_context_decides_the_state_of_a_pair(write: Write, context: str, expected: str) -> None:
    """Per value of the joined variables, for the length of the bound."""
    assert words(write(PAIR, "a BEFORE b WITHIN 5 min", context)) == expected


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("unrestricted", "every occurrence of both sides, forever"),
        ("recent", "the latest occurrence of each side, forever"),
        ("chronicle", "open occurrences of both sides, forever"),
    ],
)
def test_without_a_bound_state_is_kept_forever(write: Write, context: str, expected: str) -> None:
    """UNBOUNDED state grows, and the explanation reports it."""
    assert words(write("a:A; b:B", "a AND b", f"{context} UNBOUNDED")) == expected


@pytest.mark.parametrize("relation", list(Relation))
def test_only_the_side_that_completes_first_is_kept(write: Write, relation: Relation) -> None:
    """In completion order, (end, start), the side that always completes later pairs with the open one."""
    intervals = [Interval(start, end) for start in range(4) for end in range(start, 4)]
    pairs = [(a, b) for a in intervals for b in intervals if relation.holds(a, b)]
    first = {(a.end, a.start) < (b.end, b.start) for a, b in pairs if a != b}
    side = {frozenset({True}): "the left side", frozenset({False}): "the right side"}.get(
        frozenset(first), "both sides"
    )
    kept = words(write("a:A; b:B", f"a {relation.value} b WITHIN 5 s"))
    assert kept == f"open occurrences of {side}, for 5 s"


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("a OR b", "nothing"),
        ("(a OR b) WITHIN 5 min", "nothing"),
        ("(a OR b) FILTER(?r > 1)", "nothing"),
        ("a XOR b WITHIN 5 min", "occurrences of both sides per ?r, for 5 min"),
        ("a UNLESS b WITHIN 5 min", "pending occurrences and the occurrences that contradict them per ?r, for 5 min"),
        ("(a AND b WITHIN 5 min) WITHOUT c", "occurrences of the right side per ?r, for 5 min"),
        ("(a AND b) WITHOUT c", "occurrences of the right side per ?r, forever"),
        ("NO a FOR 5 min", "start points and the occurrences of the operand, for 5 min"),
        ("a{3}", "up to 2 counted per ?r, forever"),
        ("a{3} EVERY 5 min", "up to 2 counted per ?r, for 10 min"),
        ("a{3} EVERY 5 min WITHIN 8 min", "up to 2 counted per ?r, for 8 min"),
        ("a{1}", "nothing"),
        ("a+ EVERY 30 s WITHIN 5 min", "the open run per ?r, until a gap of 30 s, at most 5 min"),
        ("a+ EVERY 30 s", "the open run per ?r, until a gap of 30 s, without a limit"),
    ],
)
def test_the_state_of_every_operator(write: Write, when: str, expected: str) -> None:
    """Windows, counts and gaps limit the state."""
    events = "; ".join(event for event in TRIPLE.split("; ") if event[0] in when.replace("FILTER", ""))
    assert words(write(events, when, deliver="SELECT ?r")) == expected


def test_a_leaf_keeps_nothing(write: Write) -> None:
    """Matching has no state."""
    assert words(write("a:A", "a")) == "nothing"


@pytest.mark.parametrize(("context", "expected"), [("recent", "the last 2"), ("chronicle", "up to 2 counted")])
def test_counting_slides_or_tumbles_with_the_context(write: Write, context: str, expected: str) -> None:
    """Sliding keeps the last members, tumbling those counted so far."""
    assert words(write("a:A", "a{3} WITHIN 5 s", context)) == f"{expected}, for 5 s"


def test_a_lag_extends_the_state_of_the_partner(write: Write) -> None:
    """The partner of an operand with a lag is kept that much longer."""
    plan = build_plan([write(TRIPLE, "((a UNLESS b WITHIN 10 min) BEFORE c) WITHIN 5 min")])
    by_kind = {node.kind: state for node, state in zip(plan.nodes, state_bounds(plan), strict=True)}
    minute = 60_000_000
    assert by_kind[Kind.UNLESS].lag == 10 * minute
    assert by_kind[Kind.TIMED] == StateBound("open occurrences of the left side", ("v1",), 15 * minute, 10 * minute)
