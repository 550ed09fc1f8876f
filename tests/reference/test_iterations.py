"""Iterations (language page, section 5)."""

from __future__ import annotations

from typing import Any

import pytest

KEYED = {"a": "?a ex:k ?k", "b": "?b ex:k ?k"}
SLIDING = ("unrestricted UNBOUNDED", "recent UNBOUNDED")
TUMBLING = ("chronicle UNBOUNDED", "continuous UNBOUNDED", "cumulative UNBOUNDED")


@pytest.mark.parametrize("context", SLIDING)
def test_sliding(story: Any, context: str) -> None:
    """`A{n}`: `n` successive `a` in completion order; sliding in unrestricted and recent."""
    assert story.detect("a{2}", "a3@9; a1@1; a2@5", context=context) == ["a1 a2", "a2 a3"]


@pytest.mark.parametrize("context", TUMBLING)
def test_tumbling(story: Any, context: str) -> None:
    """`A{n}`: tumbling in chronicle, continuous and cumulative."""
    assert story.detect("a{2}", "a1@1; a2@2; a3@3; a4@4; a5@5", context=context) == ["a1 a2", "a3 a4"]


@pytest.mark.parametrize(
    ("context", "expected"), [(SLIDING[0], ["a1 a2", "a3 a4", "a4 a5"]), (TUMBLING[0], ["a1 a2", "a3 a4"])]
)
def test_every_limits_the_gap(story: Any, context: str, expected: list[str]) -> None:
    """`A{n} EVERY d`: each `next.end - previous.end <= d`."""
    assert story.detect("a{2} EVERY 3 us", "a1@1; a2@4; a3@8; a4@11; a5@14", context=context) == expected


def test_a_gap_starts_the_count_again(story: Any) -> None:
    """In a tumbling one a gap that is too long starts the count again with the member itself."""
    events = "a1@1; a2@9; a3@10; a4@11"
    assert story.detect("a{3} EVERY 3 us", events, context=TUMBLING[0]) == ["a2 a3 a4"]


def test_gaps_are_between_ends(story: Any) -> None:
    """The gap is from end to end, whatever the starts."""
    assert story.detect("a{2} EVERY 3 us", "a1@1-5; a2@0-8; a3@9-12") == ["a1 a2"]


def test_the_hull_of_a_sliding_iteration_fits_the_bound(story: Any) -> None:
    """A sliding `A{n}` takes only members whose hull fits."""
    assert story.detect("a{2} WITHIN 4 us", "a1@1; a2@6; a3@8-9; a4@10", context=SLIDING[0]) == ["a2 a3", "a3 a4"]


def test_a_member_past_the_bound_starts_a_tumbling_count_again(story: Any) -> None:
    """In a tumbling one a member that would stretch the hull past the bound starts the count again with itself."""
    assert story.detect("a{3} WITHIN 5 us", "a1@1; a2@4; a3@7; a4@8; a5@9", context="chronicle") == ["a3 a4 a5"]


@pytest.mark.parametrize("context", [SLIDING[0], TUMBLING[0]])
def test_members_that_exceed_the_bound_are_left_out(story: Any, context: str) -> None:
    """With a bound, members that exceed it by themselves are left out."""
    assert story.detect("a{2} WITHIN 5 us", "a1@5; a2@0-6; a3@7", context=context) == ["a1 a3"]


def test_an_inherited_bound_counts_too(story: Any) -> None:
    """With a bound (carried or inherited): inheritance passes into iterations and through them."""
    assert story.detect("b OR a{2} WITHIN 4 us", "a1@1; a2@6; a3@8") == ["a2 a3"]
    assert story.detect("(d UNLESS a{2} WITHIN 20 us) WITHIN 4 us", "d1@1; a1@2; a2@8") == ["d1"]
    assert story.detect("(d UNLESS a{2} WITHIN 20 us) WITHIN 4 us", "d1@1; a1@2; a2@8; a3@9") == []
    assert story.detect("(a BEFORE b){2} WITHIN 6 us", "a1@1; b1@3; a2@5; b2@7; a3@20; b3@28", context="chronicle") == [
        "a1 a2 b1 b2"
    ]


def test_a_run_is_maximal(story: Any) -> None:
    """`A+ EVERY d`: each maximal run of successive `a` with `next.end - previous.end <= d`, at least one."""
    events = "a1@1; a2@3; a3@5; a4@9; a5@20"
    assert story.detect("a+ EVERY 3 us", events) == ["a1 a2 a3", "a4", "a5"]
    assert story.detect("a+ EVERY 3 us", events, context="chronicle UNBOUNDED") == ["a1 a2 a3", "a4", "a5"]


def test_a_run_is_cut_at_the_bound(story: Any) -> None:
    """A run is cut where a member would stretch the hull past the bound, and the member begins the next run."""
    assert story.detect("a+ EVERY 3 us WITHIN 5 us", "a1@1; a2@3; a3@5; a4@7; a5@9") == ["a1 a2 a3", "a4 a5"]
    assert story.detect("a+ EVERY 3 us WITHIN 5 us", "a1@3; a2@5; a3@1-6; a4@2-7; a5@8") == ["a1 a2 a3", "a4", "a5"]


def test_iterations_are_per_value_of_the_visible_variables(story: Any) -> None:
    """`A{n}`: per value of the variables visible outside."""
    events = "a1@1 k=1; a2@2 k=2; a3@3 k=1; a4@4 k=2"
    assert story.detect("a{2}", events, **KEYED, deliver="SELECT ?k") == ["a1 a3 k=1", "a2 a4 k=2"]
    assert story.detect("a{2}", events, **KEYED) == ["a1 a2", "a2 a3", "a3 a4"]
    assert story.detect("a{2} BEFORE b", f"{events}; b1@9 k=2", **KEYED) == ["a2 a4 b1"]


def test_select_star_does_not_look_into_an_iteration(story: Any) -> None:
    """`SELECT *` makes every variable visible except outside an iteration."""
    events = "a1@1 k=1; a2@2 k=2; b1@3 m=5"
    found = story.detect("a{2} BEFORE b", events, a="?a ex:k ?k", b="?b ex:m ?m", deliver="SELECT *")
    assert found == ["a1 a2 b1 b=b1 m=5"]


def test_members_are_projected_and_made_distinct(story: Any) -> None:
    """Members are first projected to the variables visible outside and made distinct."""
    bodies = {"a": "?a ex:m ?m"}
    assert story.detect("a{2}", "a1@1 m=1|2; a2@2 m=3", **bodies) == ["a1 a2"]


def test_members_need_not_be_disjoint(story: Any) -> None:
    """Members need not be disjoint: two pairs may share an event."""
    assert story.detect("(a BEFORE b){2}", "a1@1; b1@2; b2@3") == ["a1 b1 b2"]


def test_as_a_key_unbound_is_a_value_of_its_own(story: Any) -> None:
    """As a key, unbound is a value of its own."""
    bodies = {"a": "OPTIONAL { ?a ex:k ?k }"}
    events = "a1@1; a2@2 k=1; a3@3; a4@4 k=1"
    assert story.detect("a{2}", events, **bodies, deliver="SELECT ?k") == ["a1 a3", "a2 a4 k=1"]


def test_iterations_join_on_what_both_use(story: Any) -> None:
    """A variable of an iteration is visible outside it when it occurs in a leaf there, be that leaf iterated too."""
    events = "a1@1 k=1; a2@2 k=2; a3@3 k=1; b1@4 k=1; b2@5 k=1"
    assert story.detect("a{2} BEFORE b{2}", events, **KEYED) == ["a1 a3 b1 b2"]


def test_the_hull_of_an_iteration(story: Any) -> None:
    """An iteration spans all its members."""
    (found,) = story.run([story.subscription("a{2}")], "a1@4-5; a2@2-7")
    assert (found.start_micros, found.end_micros) == (2, 7)


def test_iterations_of_absence(story: Any) -> None:
    """Occurrences with empty events are counted by their intervals."""
    assert story.detect("(NO a FOR 3 us){2}", "a1@1; a2@10; a3@20") == ["[1,13]", "[10,23]"]
