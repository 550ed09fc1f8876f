"""Which partners a pairing operator takes, in each context (language page, section 7)."""

from __future__ import annotations

from typing import Any

import pytest

CONTEXTS = ("unrestricted", "recent", "chronicle", "continuous", "cumulative")
KEYED = {name: f"?{name} ex:k ?k" for name in "abc"}


def in_contexts(story: Any, when: str, events: str, **options: Any) -> dict[str, list[str]]:
    return {name: story.detect(when, events, context=f"{name} UNBOUNDED", **options) for name in CONTEXTS}


def test_before_in_every_context(story: Any) -> None:
    """The table of contexts, for a relation in which the right side always completes the pair."""
    assert in_contexts(story, "a BEFORE b", "a1@1; a2@2; b1@3; b2@4") == {
        "unrestricted": ["a1 b1", "a1 b2", "a2 b1", "a2 b2"],
        "recent": ["a2 b1", "a2 b2"],
        "chronicle": ["a1 b1", "a2 b2"],
        "continuous": ["a1 b1", "a2 b1"],
        "cumulative": ["a1 a2 b1"],
    }


def test_and_in_every_context(story: Any) -> None:
    """The table of contexts, for an operator that either side may complete."""
    assert in_contexts(story, "a AND b", "a1@1; b1@2; b2@3; a2@4; b3@5") == {
        "unrestricted": ["a1 b1", "a1 b2", "a1 b3", "a2 b1", "a2 b2", "a2 b3"],
        "recent": ["a1 b1", "a1 b2", "a2 b2", "a2 b3"],
        "chronicle": ["a1 b1", "a2 b2"],
        "continuous": ["a1 b1", "a2 b2"],
        "cumulative": ["a1 b1", "a2 b2"],
    }


def test_alongside_in_every_context(story: Any) -> None:
    """The table of contexts, for concurrency."""
    assert in_contexts(story, "a ALONGSIDE b", "a1@1-4; a2@2-5; b1@3-6; b2@5-7; b3@9") == {
        "unrestricted": ["a1 b1", "a2 b1", "a2 b2"],
        "recent": ["a2 b1", "a2 b2"],
        "chronicle": ["a1 b1", "a2 b2"],
        "continuous": ["a1 b1", "a2 b1"],
        "cumulative": ["a1 a2 b1"],
    }


def test_after_in_every_context(story: Any) -> None:
    """The relation holds in its written direction, and here the left side completes the pair."""
    assert in_contexts(story, "a AFTER b", "b1@1; b2@2; a1@3; a2@4") == {
        "unrestricted": ["a1 b1", "a1 b2", "a2 b1", "a2 b2"],
        "recent": ["a1 b2", "a2 b2"],
        "chronicle": ["a1 b1", "a2 b2"],
        "continuous": ["a1 b1", "a1 b2"],
        "cumulative": ["a1 b1 b2"],
    }


def test_shared_variables_in_every_context(story: Any) -> None:
    """Candidates agree on shared variables; recent keeps the latest occurrence per value of them."""
    assert in_contexts(story, "a BEFORE b", "a1@1 k=1; a2@2 k=2; a3@3 k=1; b1@4 k=1; b2@5 k=2; b3@6 k=1", **KEYED) == {
        "unrestricted": ["a1 b1", "a1 b3", "a2 b2", "a3 b1", "a3 b3"],
        "recent": ["a2 b2", "a3 b1", "a3 b3"],
        "chronicle": ["a1 b1", "a2 b2", "a3 b3"],
        "continuous": ["a1 b1", "a2 b2", "a3 b1"],
        "cumulative": ["a1 a3 b1", "a2 b2"],
    }


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_hull_fits_the_bound(story: Any, context: str) -> None:
    """The hull of a candidate and x fits the operator's bound."""
    events = "a1@1-2; b1@7; a2@11; b2@16"
    assert story.detect("a BEFORE b WITHIN 5 us", events, context=context) == ["a2 b2"]


def test_a_bound_decides_the_candidates_not_the_results(story: Any) -> None:
    """Chronicle takes the oldest of those that fit the bound, and consumes nothing else."""
    events = "a1@1; a2@5; b1@8; b2@9"
    assert story.detect("a BEFORE b WITHIN 5 us", events, context="chronicle") == ["a2 b1"]
    assert story.detect("(a BEFORE b) OR c WITHIN 5 us", events, context="chronicle") == ["a2 b1"]


def test_without_a_candidate_x_opens(story: Any) -> None:
    """In chronicle, continuous and cumulative x opens only without a candidate."""
    events = "b1@1; a1@2; b2@3; b3@4"
    for context in ("chronicle", "continuous", "cumulative"):
        assert story.detect("a AND b", events, context=f"{context} UNBOUNDED") == ["a1 b1"]


def test_ties_are_merged_by_start_then_ids_then_side(story: Any) -> None:
    """Both children's occurrences are merged by `(end, start, sorted event ids)`, then left before right."""
    assert story.detect("a AND b", "a1@5; b1@4-5; a0@5; b0@5", context="chronicle UNBOUNDED") == ["a0 b1", "a1 b0"]


def test_the_left_side_comes_first(story: Any) -> None:
    """With equal interval and events left comes before right: the left absence pairs with the older right one."""
    found = story.detect("(NO a FOR 5 us) AND (NO b FOR 5 us)", "a1@0; b1@1; a2@10; b2@10", context="recent")
    assert found == ["[0,6]", "[1,15]", "[10,15]"]


def test_recent_does_not_fall_back(story: Any) -> None:
    """In recent each side keeps only its latest occurrence, even when that one is no candidate."""
    assert story.detect("a BEFORE b", "a1@1; a2@2-4; b1@4", context="recent") == []
    assert story.detect("a BEFORE b WITHIN 3 us", "a1@2; a2@0-3; b1@4", context="recent") == []


def test_recent_replaces_per_value_of_the_shared_variables_only(story: Any) -> None:
    """x replaces its side's latest per value of the shared variables; private variables make no difference."""
    bodies = {"a": "?a ex:k ?k ; ex:m ?m", "b": "?b ex:k ?k"}
    events = "a1@1 k=1 m=1; a2@2 k=1 m=2; a3@3 k=2 m=1; b1@4 k=1; b2@5 k=2"
    assert story.detect("a BEFORE b", events, context="recent", **bodies) == ["a2 b1", "a3 b2"]


def test_recent_pairs_with_the_latest_of_several_slots(story: Any) -> None:
    """An unbound shared variable agrees with every slot; x pairs with the latest candidate of all."""
    bodies = {"a": "?a ex:k ?k", "c": "OPTIONAL { ?c ex:k ?k }"}
    events = "a1@1 k=1; a2@2 k=2; c1@3; c2@4 k=1"
    assert story.detect("a BEFORE c", events, context="recent", **bodies) == ["a1 c2", "a2 c1"]


def test_as_a_slot_unbound_is_a_value_of_its_own(story: Any) -> None:
    """In recent an occurrence without a value replaces only others without one."""
    bodies = {"a": "OPTIONAL { ?a ex:k ?k }", "c": "?c ex:k ?k"}
    events = "a1@1 k=1; a2@2; a3@3; c1@4 k=1; c2@5 k=2"
    assert story.detect("a BEFORE c", events, context="recent", **bodies) == ["a3 c1", "a3 c2"]


def test_recent_pairs_equals_before_any_of_them_opens(story: Any) -> None:
    """Occurrences with the same interval and the same non-empty events are all paired before any of them opens."""
    assert story.detect("a BEFORE b", "a1@1; ab2@3; b3@5", context="recent") == ["a1 ab2", "ab2 b3"]


def test_recent_keeps_the_last_of_several_solutions_of_one_event(story: Any) -> None:
    """The solutions of one event all pair; the last of them in completion order stays open."""
    bodies = {"a": "?a ex:m ?x", "b": "?b ex:m ?y"}
    found = story.detect(
        "a AND b", "b0@1 m=0; a1@2 m=1|2; b3@3 m=3", context="recent", deliver="SELECT ?x ?y", **bodies
    )
    assert found == ["a1 b0 x=1 y=0", "a1 b0 x=2 y=0", "a1 b3 x=2 y=3"]


def test_cumulative_keeps_the_variables_its_members_agree_on(story: Any) -> None:
    """Cumulative keeps a variable when the members that bind it agree."""
    bodies = {"a": "?a ex:k ?k ; ex:m ?m", "b": "?b ex:k ?k"}
    events = "a1@1 k=1 m=5; a2@2 k=1 m=6; b1@3 k=1"
    found = story.detect("a BEFORE b", events, context="cumulative UNBOUNDED", deliver="SELECT *", **bodies)
    assert found == ["a1 a2 b1 b=b1 k=1"]


def test_cumulative_members_need_not_be_disjoint(story: Any) -> None:
    """Members need not be disjoint or agree with each other."""
    bodies = {"a": "?a ex:m ?m"}
    events = "a1@1 m=5|6; b1@3"
    found = story.detect("a BEFORE b", events, context="cumulative UNBOUNDED", deliver="SELECT ?a ?m", **bodies)
    assert found == ["a1 b1 a=a1"]


def test_without_over_cumulative_uses_the_hull_of_a_side(story: Any) -> None:
    """For WITHOUT a side has its members' hull and agreed bindings."""
    when = "(a BEFORE b) WITHOUT c"
    assert story.detect(when, "a1@1; c1@2; a2@3; b1@5", context="cumulative UNBOUNDED") == ["a1 a2 b1"]
    assert story.detect(when, "a1@1; a2@2; c1@3; b1@5", context="cumulative UNBOUNDED") == []


def test_without_over_cumulative_uses_agreed_bindings(story: Any) -> None:
    """A variable the members of a side disagree on is unbound there, so every `b` is compatible with it."""
    bodies = {"a": "?a ex:k ?k", "c": "?c ex:k ?k"}
    events = "a1@1 k=1; a2@2 k=2; c1@3 k=3; b1@5"
    assert story.detect("(a BEFORE b) WITHOUT c", events, context="cumulative UNBOUNDED", **bodies) == []
    assert story.detect("(a BEFORE b) WITHOUT c", events, context="continuous UNBOUNDED", **bodies) == [
        "a1 b1",
        "a2 b1",
    ]


def test_consumption_is_per_operator(story: Any) -> None:
    """A pairing operator consumes occurrences of its own lists; another operator keeps its own."""
    events = "a1@1; b1@2; c1@3"
    assert story.detect("(a BEFORE b) OR (a BEFORE c)", events, context="chronicle UNBOUNDED") == ["a1 b1", "a1 c1"]


def test_nested_pairs_in_chronicle(story: Any) -> None:
    """The operators are left-associative: the second pairs what the first produced."""
    assert story.detect("a BEFORE b BEFORE c", "a1@1; a2@2; b1@3; b2@4; c1@5; c2@6", context="chronicle UNBOUNDED") == [
        "a1 b1 c1",
        "a2 b2 c2",
    ]


def test_the_filter_counts_for_each_candidate_of_cumulative(story: Any) -> None:
    """A carried FILTER decides which candidates count; the others stay open."""
    bodies = {"a": "?a ex:t ?x", "b": "?b ex:t ?y"}
    events = "a1@1 t=1; a2@2 t=9; a3@3 t=2; b1@4 t=5; b2@5 t=10"
    found = story.detect("(a BEFORE b) FILTER(?x < ?y)", events, context="cumulative UNBOUNDED", **bodies)
    assert found == ["a1 a3 b1", "a2 b2"]
