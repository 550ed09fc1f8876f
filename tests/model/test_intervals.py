"""The thirteen relations between closed intervals and points."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.model.intervals import (
    EVERY,
    SHARING,
    Interval,
    Relation,
    compose,
    contradiction,
    hull,
    hull_relations,
    inverses,
    relation,
    relations_where,
)

SMALL = [Interval(start, end) for start, end in product(range(6), repeat=2) if start <= end]
PAIRS = list(product(SMALL, SMALL))


def test_exactly_one_relation_holds() -> None:
    """The thirteen are exhaustive and pairwise disjoint for intervals and points alike."""
    assert {sum(candidate.holds(a, b) for candidate in Relation) for a, b in PAIRS} == {1}


def test_relation_is_the_one_that_holds() -> None:
    """relation() names the relation whose condition is true."""
    assert all(relation(a, b).holds(a, b) for a, b in PAIRS)


def test_inverse_swaps_the_operands() -> None:
    """a R b exactly when b inverse(R) a."""
    assert all(r.holds(a, b) == r.inverse.holds(b, a) for r in Relation for a, b in PAIRS)


def test_every_relation_occurs() -> None:
    """None of the thirteen is empty."""
    assert {relation(a, b) for a, b in PAIRS} == set(Relation)
    assert len(Relation) == 13


def test_conditions_are_those_of_the_page() -> None:
    """Each row of section 6, written out once more."""
    page: dict[Relation, Callable[[Interval, Interval], bool]] = {
        Relation.BEFORE: lambda a, b: a.end < b.start,
        Relation.MEETS: lambda a, b: a.end == b.start and a.start < b.start and a.end < b.end,
        Relation.OVERLAPS: lambda a, b: a.start < b.start < a.end < b.end,
        Relation.STARTS: lambda a, b: a.start == b.start and a.end < b.end,
        Relation.DURING: lambda a, b: a.start > b.start and a.end < b.end,
        Relation.FINISHES: lambda a, b: a.start > b.start and a.end == b.end,
        Relation.EQUALS: lambda a, b: a.start == b.start and a.end == b.end,
    }
    for r, condition in page.items():
        assert {(a, b) for a, b in PAIRS if r.holds(a, b)} == {(a, b) for a, b in PAIRS if condition(a, b)}


intervals = st.tuples(st.integers(0, 20), st.integers(0, 6)).map(lambda pair: Interval(pair[0], pair[0] + pair[1]))
relation_sets = st.frozensets(st.sampled_from(list(Relation)), max_size=5)


def one(*names: str) -> frozenset[Relation]:
    return frozenset(Relation(name) for name in names)


@given(intervals, intervals, intervals)
def test_composition_holds_between_any_three_intervals(a: Interval, b: Interval, c: Interval) -> None:
    """What holds between a and c is in the composition of what holds between a and b, and b and c."""
    assert relation(a, c) in compose(frozenset({relation(a, b)}), frozenset({relation(b, c)}))


def test_composition_says_exactly_what_intervals_show() -> None:
    """The whole table is found again in a range with room for all ends around and inside the middle interval."""
    placed = [Interval(start, end) for start in range(10) for end in range(start, 10)]
    middle = [one for one in placed if one.start >= 2 and one.end <= 7]
    between = {(a, b): relation(a, b) for a, b in product(placed, placed)}
    shown: dict[tuple[Relation, Relation], set[Relation]] = {pair: set() for pair in product(Relation, Relation)}
    for a, b, c in product(placed, middle, placed):
        shown[between[a, b], between[b, c]].add(between[a, c])
    assert shown == {(x, y): compose(frozenset({x}), frozenset({y})) for x, y in product(Relation, Relation)}


@pytest.mark.parametrize("first", Relation)
def test_equals_is_neutral(first: Relation) -> None:
    """Composing with EQUALS changes nothing."""
    assert compose(frozenset({first}), one("EQUALS")) == {first} == compose(one("EQUALS"), frozenset({first}))


@given(relation_sets, relation_sets)
def test_the_inverse_of_a_composition_is_the_composition_of_inverses_in_the_other_order(
    first: frozenset[Relation], second: frozenset[Relation]
) -> None:
    """As for any algebra of relations."""
    assert inverses(compose(first, second)) == compose(inverses(second), inverses(first))


@given(relation_sets, relation_sets, relation_sets)
def test_composition_is_monotone_and_distributes_over_union(
    first: frozenset[Relation], second: frozenset[Relation], third: frozenset[Relation]
) -> None:
    """Composing with a union is the union of the compositions."""
    assert compose(first, second | third) == compose(first, second) | compose(first, third)


@given(relation_sets)
def test_inverting_twice_changes_nothing(relations: frozenset[Relation]) -> None:
    """Inverse is an involution."""
    assert inverses(inverses(relations)) == relations


def test_known_entries_of_the_table() -> None:
    """Entries of Allen's table that do not depend on points, and one that does."""
    assert compose(one("BEFORE"), one("BEFORE")) == one("BEFORE")
    assert compose(one("DURING"), one("BEFORE")) == one("BEFORE")
    assert compose(one("MEETS"), one("STARTS")) == one("MEETS")
    assert compose(one("BEFORE"), one("AFTER")) == EVERY


@given(intervals, intervals)
def test_the_hull_relates_to_its_parts_as_computed(a: Interval, b: Interval) -> None:
    """The relation of the hull to each part is among those computed from the relation of the parts."""
    to_left, to_right = hull_relations(frozenset({relation(a, b)}))
    assert relation(hull(a, b), a) in to_left
    assert relation(hull(a, b), b) in to_right


def test_sharing_an_instant_is_what_the_page_says() -> None:
    """ALONGSIDE holds for the relations in which the intervals share an instant."""
    assert relations_where(lambda a, b: a.start <= b.end and b.start <= a.end) == SHARING


@settings(max_examples=200)
@given(st.lists(intervals, min_size=2, max_size=5))
def test_a_network_of_real_intervals_is_never_contradictory(placed: list[Interval]) -> None:
    """Path consistency reports only what cannot be."""
    pairs = [(a, b) for a in range(len(placed)) for b in range(a)]
    assert contradiction({(a, b): frozenset({relation(placed[a], placed[b])}) for a, b in pairs}) is None


def test_a_cycle_is_found() -> None:
    """a before b before c before a."""
    assert contradiction({(0, 1): one("BEFORE"), (1, 2): one("BEFORE"), (2, 0): one("BEFORE")}) is not None


def test_two_statements_about_a_pair_are_intersected() -> None:
    """The same pair may be written in both directions."""
    assert contradiction({(0, 1): one("BEFORE", "EQUALS"), (1, 0): one("DURING")}) is not None
    assert contradiction({(0, 1): one("BEFORE", "EQUALS"), (1, 0): one("EQUALS")}) is None
