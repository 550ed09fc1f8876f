"""Every row of the table of operators (language page, section 5), by hand."""

from __future__ import annotations

from typing import Any

import pytest

from motet.model.times import END_OF_TIME

KEYED = {name: f"?{name} ex:k ?k" for name in "abcd"}


def test_and_joins_every_pair_of_disjoint_events(story: Any) -> None:
    """`A AND B`: every `a ⋈ b`; an event does not pair with itself."""
    assert story.detect("a AND b", "a1@1; a2@2; b1@3; ab1@4") == ["a1 ab1", "a1 b1", "a2 ab1", "a2 b1", "ab1 b1"]


def test_and_agrees_on_shared_variables(story: Any) -> None:
    """Bindings agree on shared variables by RDF term equality."""
    assert story.detect("a AND b", "a1@1 k=1; a2@2 k=2; b1@3 k=1", **KEYED) == ["a1 b1"]


def test_terms_with_equal_values_are_different_terms(story: Any) -> None:
    """RDF term equality: 1 and 01 do not join."""
    assert story.detect("a AND b", "a1@1 k=1; b1@3 k=01; a2@4 k=01", **KEYED) == ["a2 b1"]


def test_a_join_has_the_hull_and_all_bindings(story: Any) -> None:
    """The join has the union of events and bindings, `min` start, `max` end."""
    subscription = story.subscription("a AND b", deliver="SELECT *", a="?a ex:k ?k", b="?b ex:m ?m")
    (found,) = story.run([subscription], "b1@2-9 m=5; a1@1-4 k=3")
    assert (found.start_micros, found.end_micros, story.show(found)) == (1, 9, "a1 b1 a=a1 b=b1 k=3 m=5")


def test_or_gives_either_side_with_the_other_unbound(story: Any) -> None:
    """`A OR B`: every `a` and every `b` (variables of the other side unbound)."""
    bodies = {"a": "?a ex:k ?k", "b": "?b ex:m ?m"}
    found = story.detect("a OR b", "a1@1 k=1; b1@2 m=2", deliver="SELECT ?k ?m", **bodies)
    assert found == ["a1 k=1", "b1 m=2"]


def test_an_unbound_variable_of_or_joins_every_value(story: Any) -> None:
    """An unbound variable agrees with every value."""
    bodies = {"a": "?a ex:k ?k", "c": "?c ex:k ?k"}
    found = story.detect("(a OR b) BEFORE c", "a1@1 k=1; b1@2; c1@3 k=1; c2@3 k=2", **bodies)
    assert found == ["a1 c1", "b1 c1", "b1 c2"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1@1; b1@6", []),  # hull 5: both suppressed
        ("a1@1; b1@7", ["a1", "b1"]),  # hull 6
        ("a1@1-3; b1@5-6", []),
        ("a1@1-3; b1@5-7", ["a1", "b1"]),
        ("ab1@4", []),  # one event on both sides counts as both
        ("a1@1-9; b1@4", ["a1", "b1"]),  # longer than the window by itself: the window is not a filter
        ("a1@1", ["a1"]),
    ],
)
def test_xor_within_a_window(story: Any, events: str, expected: list[str]) -> None:
    """`A XOR B`: every `a` with no compatible `b` such that the hull of both is at most `d`, and every `b` likewise."""
    assert story.detect("a XOR b WITHIN 5 us", events) == expected


def test_xor_looks_only_at_compatible_occurrences(story: Any) -> None:
    """Compatible means that the bindings agree."""
    assert story.detect("a XOR b WITHIN 5 us", "a1@1 k=1; b1@2 k=2; a2@3 k=2", **KEYED) == ["a1"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1@1-3; b1@3-5", ["a1 b1"]),  # they share the instant 3
        ("a1@1-3; b1@4-5", []),
        ("a1@3; b1@3", ["a1 b1"]),
        ("a1@3; b1@1-9", ["a1 b1"]),
        ("b1@1-4; a1@2-9", ["a1 b1"]),
    ],
)
def test_alongside_shares_an_instant(story: Any, events: str, expected: list[str]) -> None:
    """`A ALONGSIDE B`: every `a ⋈ b` whose intervals share an instant."""
    assert story.detect("a ALONGSIDE b", events) == expected


def test_within_filters_by_length(story: Any) -> None:
    """`A WITHIN d`: those with `end - start <= d`."""
    assert story.detect("a WITHIN 5 us", "a1@1-6; a2@1-7; a3@4") == ["a1", "a3"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1@1-3; b1@4-8", []),
        ("a1@1-3; b1@4-9", ["a1"]),  # b ends after a.end + 5
        ("a1@1-3; b1@3-5", ["a1"]),  # b starts at a.end, not after it
        ("a1@1-3; b1@2", ["a1"]),
        ("a1@1-3", ["a1"]),
    ],
)
def test_unless_looks_at_the_window_after(story: Any, events: str, expected: list[str]) -> None:
    """`A UNLESS B WITHIN d`: every `a` with no compatible `b` such that `a.end < b.start` and `b.end <= a.end + d`."""
    assert story.detect("a UNLESS b WITHIN 5 us", events) == expected


def test_unless_per_key(story: Any) -> None:
    """UNLESS looks only at compatible occurrences, so absence can be per key."""
    assert story.detect(
        "a UNLESS a_2 WITHIN 5 us", "a1@1 k=1; a2@2 k=2; a3@3 k=1", **{**KEYED, "a_2": "?a_2 ex:k ?k"}
    ) == ["a2", "a3"]


def test_a_window_may_reach_past_the_end_of_time(story: Any) -> None:
    """After the tick at the end of time everything is final, however long the window."""
    last = END_OF_TIME - 5
    assert story.detect("a UNLESS b WITHIN 9 us", f"a1@{last}; a2@{last + 5}; b1@{last + 3}") == ["a2"]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1@1; b1@3; c1@5", []),
        ("a1@1; b1@2-4; c1@5", []),
        ("a1@1; b1@1-4; c1@5", ["a1 c1"]),  # b does not start after a.end
        ("a1@1; b1@2-5; c1@5", ["a1 c1"]),  # b does not end before c.start
        ("a1@1; c1@5; b1@6", ["a1 c1"]),
    ],
)
def test_without_looks_between(story: Any, events: str, expected: list[str]) -> None:
    """`(A BEFORE C) WITHOUT B`: every pair with no `b` where `a.end < b.start` and `b.end < c.start`."""
    assert story.detect("(a BEFORE c) WITHOUT b", events) == expected


def test_without_needs_b_compatible_with_both(story: Any) -> None:
    """`b` must be compatible with `a` and with `c`."""
    bodies = {"a": "?a ex:k ?k", "b": "?b ex:k ?k ; ex:m ?m", "c": "?c ex:m ?m"}
    events = "a1@1 k=1; c1@9 m=1"
    assert story.detect("(a BEFORE c) WITHOUT b", f"{events}; b1@5 k=1 m=2", **bodies) == ["a1 c1"]
    assert story.detect("(a BEFORE c) WITHOUT b", f"{events}; b1@5 k=1 m=1", **bodies) == []


def test_without_passes_pairs_in_another_order(story: Any) -> None:
    """Pairs whose left part does not end before the right one starts pass."""
    assert story.detect("(a AND c) WITHOUT b", "c1@1; b1@2; a1@3; b2@4; c2@5") == ["a1 c1"]


def test_without_does_not_change_how_its_operand_paired(story: Any) -> None:
    """UNLESS, WITHOUT and uncarried WITHIN or FILTER filter what their operand has produced."""
    events = "a1@1; b1@2; a2@3; c1@5"
    assert story.detect("(a BEFORE c) WITHOUT b", events, context="chronicle UNBOUNDED") == []
    assert story.detect("(a BEFORE c) WITHOUT b", events) == ["a2 c1"]


def test_without_applies_through_unless_and_within(story: Any) -> None:
    """WITHOUT's operand is seen through UNLESS, WITHOUT and WITHIN."""
    when = "((a BEFORE c WITHIN 9 us) UNLESS d WITHIN 2 us) WITHOUT b"
    assert story.detect(when, "a1@1; b1@3; a2@4; c1@8; c2@10; d1@11") == ["a2 c1"]


def test_a_result_stays_if_one_of_its_pairs_survives(story: Any) -> None:
    """A result stays if any of the pairs that produce it survives."""
    when = "((a OR (a BEFORE c{1})) BEFORE (d OR (c_2{1} BEFORE d))) WITHOUT b"
    events = "a1@1; b1@2; c1@3; d1@5"
    assert story.detect(when, events, deliver="SELECT *") == [
        "a1 c1 d1 a=a1 d=d1"
    ]  # (a c) d survives, a (c d) does not


def test_no_starts_at_since_and_at_every_end(story: Any) -> None:
    """`NO A FOR d`: start points are `SINCE` if given, and every `a.end`."""
    assert story.detect("NO a FOR 5 us", "a1@3; a2@6-7; a3@20", since=0) == ["[20,25]", "[7,12]"]
    assert story.detect("NO a FOR 5 us", "a1@9", since=0) == ["[0,5]", "[9,14]"]
    assert story.detect("NO a FOR 5 us", "a1@9") == ["[9,14]"]
    assert story.detect("NO a FOR 5 us", "") == []


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("a1@5", ["[5,10]"]),  # ends at p + d: it breaks the absence
        ("a1@6", ["[0,5]", "[6,11]"]),
        ("a1@0-5", ["[0,5]", "[5,10]"]),  # it does not start after p
        ("a1@1-6", ["[0,5]", "[6,11]"]),  # it does not end inside
    ],
)
def test_no_looks_inside_its_window(story: Any, events: str, expected: list[str]) -> None:
    """… with no `a` such that `p < a.start` and `a.end <= p + d`."""
    assert story.detect("NO a FOR 5 us", events, since=0) == expected


def test_no_has_no_bindings_and_joins_everything(story: Any) -> None:
    """NO has no key and no bindings."""
    found = story.detect("b BEFORE (NO a FOR 5 us)", "a1@3 k=1; b1@2 k=2", **KEYED, deliver="SELECT ?k")
    assert found == ["b1 k=2"]


def test_two_absences_pair(story: Any) -> None:
    """Occurrences with empty events are disjoint from everything."""
    assert story.detect("(NO a FOR 5 us) AND (NO b FOR 5 us)", "a1@1; b1@1", context="recent") == ["[1,6]"]


def test_an_absence_does_not_outlast_time(story: Any) -> None:
    """An absence that would end after the end of time never completes."""
    assert story.detect("NO a FOR 5 us", f"a1@{END_OF_TIME - 6}") == [f"[{END_OF_TIME - 6},{END_OF_TIME - 1}]"]
    assert story.detect("NO a FOR 5 us", f"a1@{END_OF_TIME - 4}") == []


def test_filter_over_a_pair_decides_which_candidates_count(story: Any) -> None:
    """A FILTER directly over a pairing operator is carried by it."""
    bodies = {"a": "?a ex:t ?x", "b": "?b ex:t ?y"}
    events = "a1@1 t=1; a2@2 t=9; b1@3 t=7; b2@4 t=20"
    found = story.detect("(a BEFORE b) FILTER(?y > ?x + 5)", events, context="chronicle UNBOUNDED", **bodies)
    assert found == ["a1 b1", "a2 b2"]


def test_filter_elsewhere_filters(story: Any) -> None:
    """Elsewhere a FILTER filters: the pairs are made without it."""
    bodies = {"a": "?a ex:t ?x", "b": "?b ex:t ?y"}
    when = "((a BEFORE b) UNLESS c WITHIN 1 us) FILTER(?y > ?x + 5)"
    events = "a1@1 t=9; a2@2 t=1; b1@3 t=7; b2@4 t=20"
    assert story.detect(when, events, context="chronicle UNBOUNDED", **bodies) == ["a2 b2"]


def test_an_error_in_a_filter_is_false(story: Any) -> None:
    """An error is false; an unbound variable is an error, and BOUND sees it."""
    bodies = {"a": "?a ex:t ?x"}
    assert story.detect("(a OR b) FILTER(?x > 0)", "a1@1 t=1; b1@2; a2@3 t=word", **bodies) == ["a1"]
    assert story.detect("(a OR b) FILTER(!BOUND(?x))", "a1@1 t=1; b1@2; a2@3 t=word", **bodies) == ["b1"]


def test_numbers_in_a_filter_are_compared_by_value(story: Any) -> None:
    """A literal that is not in canonical form keeps its value in conditions."""
    bodies = {"a": "?a ex:t ?x", "b": "?b ex:t ?y"}
    assert story.detect("(a BEFORE b) FILTER(?x = ?y)", "a1@1 t=07; b1@2 t=7; b2@3 t=8", **bodies) == ["a1 b1"]
