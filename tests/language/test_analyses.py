"""Bounds and visibility: what an evaluator is told about each node (language page, sections 3 to 7)."""

from __future__ import annotations

import pytest

from motet.language.parse import parse
from motet.language.printer import pattern_text
from motet.language.scope import ITERATION, PAIRING, AnnotatedPattern, annotate
from motet.language.syntax import Filter, Leaf, Within

EVENTS = "".join(f"EVENT {name} {{ ?{name} <urn:v> ?{name}1 ; <urn:k> ?k }} " for name in "abc")


def nodes(when: str, delivery: str = "", events: str = EVENTS) -> list[AnnotatedPattern]:
    """Every node of a pattern, parents first."""
    root = annotate(parse(f"SUBSCRIPTION s {events} WHEN {when} {delivery}")[0])
    found, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        waiting.extend(reversed(node.children))
    return found


@pytest.mark.parametrize(
    ("when", "bounds"),
    [
        ("a BEFORE b BEFORE c WITHIN 5 us", {"a BEFORE b BEFORE c": 5, "a BEFORE b": 5}),
        ("(a BEFORE b WITHIN 2 us) BEFORE c WITHIN 5 us", {"(a BEFORE b WITHIN 2 us) BEFORE c": 5, "a BEFORE b": 2}),
        ("(a BEFORE b WITHIN 5 us) UNLESS c WITHIN 9 us", {"a BEFORE b": 5}),
        ("a UNLESS (b AND c) WITHIN 9 us", {"b AND c": None}),
        ("a UNLESS (b AND c) WITHIN 9 us WITHIN 5 us", {"b AND c": 5}),
        ("a XOR (b AND c) WITHIN 9 us", {"b AND c": None}),
        ("(a OR (NO (b AND c) FOR 9 us)) WITHIN 5 us", {"b AND c": 5}),
        ("((a AND b){2} OR c) WITHIN 5 us", {"(a AND b){2}": 5, "a AND b": 5}),
        (
            "(a AND b){2} EVERY 1 us AND c",
            {"(a AND b){2} EVERY 1 us AND c": None, "(a AND b){2} EVERY 1 us": None, "a AND b": None},
        ),
    ],
)
def test_bounds(when: str, bounds: dict[str, int | None]) -> None:
    """An operator has its own WITHIN or the nearest enclosing one; windows of UNLESS and XOR are no bounds."""
    found = {
        pattern_text(node.node): node.bound for node in nodes(when) if isinstance(node.node, (*PAIRING, *ITERATION))
    }
    assert found == bounds


@pytest.mark.parametrize(
    ("when", "carried"),
    [
        ("a AND b AND c WITHIN 5 us", [True]),
        ("(a{2} WITHIN 5 us) OR b OR c", [True]),
        ("a OR b OR c WITHIN 5 us", [False]),
        ("(a UNLESS b WITHIN 1 us WITHIN 5 us) OR c", [False]),
        ("(a AND b AND c WITHIN 7 us) WITHIN 5 us", [False, True]),
        ("a AND b AND c FILTER(?a1 > 1)", [True]),
        ("a AND b AND c FILTER(?a1 > 1) WITHIN 5 us", [False, True]),
        ("(a AND b AND c WITHIN 5 us) FILTER(?a1 > 1)", [False, True]),
        ("((a AND b){2} FILTER(?a1 > 1)) OR c", [False]),
        ("a OR b OR c FILTER(?a1 > 1)", [False]),
    ],
)
def test_carried(when: str, carried: list[bool]) -> None:
    """A WITHIN over a pair or an iteration is carried, a FILTER over a pair is; the others filter."""
    found = nodes(when)
    assert [node.carried for node in found if isinstance(node.node, Within | Filter)] == carried


def test_the_condition_is_handed_down() -> None:
    """A pairing operator knows the FILTER it carries, and its operands do not."""
    root, pair, *leaves = nodes("a AND b FILTER(?a1 > ?b1)", events=EVENTS.split("EVENT c")[0])
    assert isinstance(root.node, Filter)
    assert pair.condition == root.node.condition
    assert [leaf.condition for leaf in leaves] == [None, None]
    assert pair.shared == {"k"}


def visible(when: str, delivery: str) -> dict[str, set[str]]:
    return {pattern_text(node.node): set(node.visible) for node in nodes(when, delivery)}


@pytest.mark.parametrize(
    ("when", "delivery", "expected"),
    [
        (
            "a AND b AND c",
            "SIGNAL",
            {
                "a AND b AND c": {"a", "b", "c"},
                "a AND b": {"a", "b", "k"},
                "a": {"a", "k"},
                "b": {"b", "k"},
                "c": {"c", "k"},
            },
        ),
        (
            "a OR b OR c",
            "SELECT ?a1 ?b",
            {
                "a OR b OR c": {"a", "b", "c", "a1"},
                "a OR b": {"a", "b", "a1", "k"},
                "a": {"a", "a1", "k"},
                "b": {"b", "k"},
                "c": {"c", "k"},
            },
        ),
        (
            "a{2} AND b{3} AND c",
            "SELECT *",
            {
                "a{2} AND b{3} AND c": {"c", "c1", "k"},
                "a{2} AND b{3}": {"k"},
                "a{2}": {"k"},
                "a": {"a", "a1", "k"},
                "b{3}": {"k"},
                "b": {"b", "b1", "k"},
                "c": {"c", "c1", "k"},
            },
        ),
        (
            "a{2} AND b AND c",
            "SELECT ?a1",
            {
                "a{2} AND b AND c": {"a1", "b", "c"},
                "a{2} AND b": {"a1", "b", "k"},
                "a{2}": {"a1", "k"},
                "a": {"a1", "k"},
                "b": {"b", "k"},
                "c": {"c", "k"},
            },
        ),
        (
            "(a AND b FILTER(?a1 > ?b1)) UNLESS c WITHIN 1 s",
            "SIGNAL",
            {
                "a AND b FILTER(?a1 > ?b1) UNLESS c WITHIN 1 s": {"a", "b"},
                "a AND b FILTER(?a1 > ?b1)": {"a", "b", "k"},
                "a AND b": {"a", "b", "a1", "b1", "k"},
                "a": {"a", "a1", "k"},
                "b": {"b", "b1", "k"},
                "c": {"c", "k"},
            },
        ),
        (
            "NO a FOR 1 s AND b AND c",
            "CONSTRUCT { ?b <urn:p> ?c1 }",
            {
                "NO a FOR 1 s AND b AND c": {"b", "c", "c1"},
                "NO a FOR 1 s AND b": {"b", "k"},
                "NO a FOR 1 s": set(),
                "a": {"a", "k"},
                "b": {"b", "k"},
                "c": {"c", "c1", "k"},
            },
        ),
    ],
)
def test_visible(when: str, delivery: str, expected: dict[str, set[str]]) -> None:
    """A variable leaves a sub-pattern when something outside wants it; iterations and NO hide."""
    assert visible(when, delivery) == expected


def test_leaves_know_their_event() -> None:
    """A leaf comes with its declaration, other nodes with none."""
    found = nodes("a OR b OR c")
    names = [node.event.name if node.event else None for node in found]
    assert names == [node.node.name if isinstance(node.node, Leaf) else None for node in found]


def test_interval_variables_are_visible() -> None:
    """The variables of an event's interval behave as those of its body."""
    events = "EVENT a DURING ?s ?e EVENT b DURING ?t ?f "
    found = nodes("a AND b FILTER(?s < ?t)", "SELECT ?f", events)
    assert [set(node.visible) for node in found] == [
        {"a", "b", "f"},
        {"a", "b", "s", "t", "f"},
        {"a", "s"},
        {"b", "t", "f"},
    ]
