"""Limits on differences of instants: contradictions are found, and only contradictions."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.lint.time_limits import Limit, Point, comparison_limits, end, find_conflict, relation_limits, start
from motet.model.intervals import Interval, Relation

points = st.builds(Point, st.integers(0, 3), st.booleans())


@given(st.dictionaries(points, st.integers(0, 9), min_size=1), st.data())
def test_limits_that_instants_keep_are_no_conflict(placed: dict[Point, int], data: st.DataObject) -> None:
    """There is no conflict when the instants exist."""
    pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(sorted(placed))] * 2, st.integers(0, 3)), max_size=12))
    limits = [Limit(later, earlier, placed[later] - placed[earlier] + slack, "") for later, earlier, slack in pairs]
    assert find_conflict(limits) == ()


@given(st.lists(st.builds(Limit, points, points, st.integers(-3, 3), st.text(max_size=2)), max_size=8))
def test_a_conflict_is_real_and_nothing_in_it_is_idle(limits: list[Limit]) -> None:
    """The limits of a conflict contradict each other; without any one of them they do not."""
    found = find_conflict(limits)
    if found:
        assert find_conflict(found)
        assert all(not find_conflict([one for one in found if one is not left_out]) for left_out in found)


@pytest.mark.parametrize("relation", Relation)
def test_a_relation_is_the_limits_of_its_definition(relation: Relation) -> None:
    """For all small intervals, the limits hold exactly when the relation does."""
    limits = relation_limits(1, relation, 2, "")
    for left, right in product([Interval(s, e) for s in range(4) for e in range(s, 4)], repeat=2):
        place = {start(1): left.start, end(1): left.end, start(2): right.start, end(2): right.end}
        kept = all(place[limit.later] - place[limit.earlier] <= limit.max_difference for limit in limits)
        assert kept == relation.holds(left, right)


def test_instants_are_whole_microseconds() -> None:
    """Two instants cannot be strictly inside one microsecond."""
    squeezed = [*comparison_limits(start(1), "<", start(2), ""), *comparison_limits(start(2), "<", end(1), "")]
    assert find_conflict([*squeezed, Limit(end(1), start(1), 1, "")])
    assert not find_conflict([*squeezed, Limit(end(1), start(1), 2, "")])
