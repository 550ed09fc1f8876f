"""The thirteen relations between closed intervals and points."""

from collections.abc import Callable
from itertools import product

from motet.model.intervals import Interval, Relation, relation

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
