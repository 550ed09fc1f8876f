"""Visible variables and inherited bounds (language page, sections 3 and 4)."""

from __future__ import annotations

from typing import Any

import pytest

PRIVATE = {"a": "?a ex:m ?m", "b": "?b ex:n ?n"}


def test_a_leaf_is_projected_to_its_visible_variables(story: Any) -> None:
    """A leaf yields one occurrence for each distinct solution projected to its visible variables."""
    events = "a1@1 m=1|2; b1@2 n=1"
    chronicle = {"context": "chronicle UNBOUNDED"}
    assert story.detect("a AND b", f"{events}; b2@3 n=1", **PRIVATE, **chronicle) == ["a1 b1"]
    assert story.detect("a AND b", f"{events}; b2@3 n=1", **PRIVATE, **chronicle, deliver="SELECT ?m") == [
        "a1 b1 m=1",
        "a1 b2 m=2",
    ]


def test_select_star_makes_every_variable_visible(story: Any) -> None:
    """`SELECT *`, the default, is every visible variable, event names included."""
    assert story.detect("a AND b", "a1@1 m=1|2; b1@2 n=1", **PRIVATE, deliver="") == [
        "a1 b1 a=a1 b=b1 m=1 n=1",
        "a1 b1 a=a1 b=b1 m=2 n=1",
    ]


def test_a_filter_makes_a_variable_visible(story: Any) -> None:
    """A variable is visible outside a sub-pattern if it occurs in a FILTER outside it."""
    events = "a1@1 m=1|7; b1@2 n=1; b2@3 n=1"
    when = "(a AND b) FILTER(?m > 0)"
    assert story.detect(when, events, **PRIVATE, context="chronicle UNBOUNDED") == ["a1 b1", "a1 b2"]


def test_a_variable_of_an_absent_pattern_is_visible(story: Any) -> None:
    """A leaf outside makes a variable visible, also on the right of UNLESS."""
    bodies = {"a": "?a ex:k ?k", "b": "?b ex:k ?k"}
    assert story.detect("a UNLESS b WITHIN 9 us", "a1@1 k=1|2; b1@2 k=1", **bodies) == ["a1"]
    assert story.detect("a UNLESS b WITHIN 9 us", "a1@1 k=1|2; b1@2 k=1; b2@3 k=2", **bodies) == []


def test_event_names_are_variables(story: Any) -> None:
    """`?name` is bound to the event IRI, so one event may point at another."""
    bodies = {"b": "?b ex:about ?a"}
    subscription = story.subscription("a BEFORE b", deliver="SELECT ?a", **bodies)
    found = story.run([subscription], "a1@1; a2@2; b1@3")
    assert found == []
    pointing = story.event("b1@3", 4)
    about = ("<urn:b1>", f"<{story.ex}about>", "<urn:a2>")
    pointing = type(pointing)(**{**vars(pointing), "triples": pointing.triples | {about}})
    emitted = story.emitted(subscription, "a1@1", "a2@2", pointing, lateness=None)
    assert emitted == [(4, "a2 b1 a=a2")]


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ("a BEFORE b BEFORE c WITHIN 5 us", ["a2 b2 c2"]),
        ("(a BEFORE b WITHIN 9 us) BEFORE c WITHIN 5 us", ["a2 b2 c2"]),
        ("(a BEFORE b WITHIN 1 us) BEFORE c WITHIN 8 us", ["a2 b2 c2"]),
        ("a BEFORE b BEFORE c WITHIN 8 us", ["a1 b1 c1", "a2 b2 c2"]),
    ],
)
def test_bounds_are_own_or_inherited(story: Any, when: str, expected: list[str]) -> None:
    """A pairing operator carries the WITHIN directly over it; without one it inherits the nearest enclosing one."""
    events = "a1@1; b1@5; c1@9; a2@21; b2@22; c2@23"
    assert story.detect(when, events, context="unrestricted UNBOUNDED") == expected


def test_an_own_bound_is_not_narrowed_by_an_outer_one(story: Any) -> None:
    """An inner pair with a longer bound of its own pairs by that one; the outer bound only filters."""
    events = "a1@1; a2@5; b1@8; c1@9"
    chronicle = {"context": "chronicle"}
    assert story.detect("(a BEFORE b WITHIN 9 us) BEFORE c WITHIN 5 us", events, **chronicle) == []
    assert story.detect("a BEFORE b BEFORE c WITHIN 5 us", events, **chronicle) == ["a2 b1 c1"]


def test_bounds_are_inherited_by_absent_patterns(story: Any) -> None:
    """Inheritance passes also into the right side of UNLESS and WITHOUT and into NO."""
    events = "a1@1; b1@3; c1@9"
    assert story.detect("a UNLESS (b BEFORE c) WITHIN 20 us", events) == []
    assert story.detect("(a UNLESS (b BEFORE c) WITHIN 20 us) WITHIN 5 us", events) == ["a1"]
    assert story.detect("NO (b BEFORE c) FOR 20 us", events, since=1) == ["[9,29]"]
    assert story.detect("(NO (b BEFORE c) FOR 20 us) WITHIN 20 us", events, since=1) == ["[9,29]"]
    assert story.detect("(d OR ((NO (b BEFORE c) FOR 5 us) BEFORE d)) WITHIN 5 us", events, since=1) == []


def test_windows_are_not_bounds(story: Any) -> None:
    """The windows of UNLESS and XOR are not bounds."""
    assert story.detect("(a BEFORE b) XOR c WITHIN 2 us", "a1@1; b1@9") == ["a1 b1"]
    assert story.detect("(a BEFORE b) UNLESS c WITHIN 2 us", "a1@1; b1@9") == ["a1 b1"]


def test_a_filter_over_within_over_a_pair_filters(story: Any) -> None:
    """A FILTER is carried only when its immediate operand is a pairing operator."""
    bodies = {"a": "?a ex:t ?x", "b": "?b ex:t ?y"}
    events = "a1@1 t=9; a2@2 t=1; b1@3 t=7"
    chronicle = {"context": "chronicle", **bodies}
    assert story.detect("(a BEFORE b WITHIN 9 us) FILTER(?y > ?x)", events, **chronicle) == []
    assert story.detect("(a BEFORE b) FILTER(?y > ?x) WITHIN 9 us", events, **chronicle) == ["a2 b1"]
