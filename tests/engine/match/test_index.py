"""Segments of the index: their tables, their merging and their number."""

from __future__ import annotations

from random import Random

from tests.engine.match.random_leaves import batch_of, leaves_of, random_leaf

from motet.engine.match.encode import encode, encoding_tables
from motet.engine.match.index import LeafIndex, build_arrays


def test_a_segment_returns_its_tables() -> None:
    """The tables of a segment can be read from it, and build the same segment."""
    random = Random(1)
    index = LeafIndex().with_leaves([random_leaf(random, f"s{number}") for number in range(60)])
    (group,) = index.segments
    predicates = {name: number for number, name in enumerate(index.predicates)}
    again = build_arrays(group.arrays.leaf_tables(), predicates)
    for one, other in zip(group.arrays.leaf_tables(), again.leaf_tables(), strict=True):
        assert one.shape == other.shape
        assert [column.to_pylist() for column in one.terms] == [column.to_pylist() for column in other.terms]
        assert one.intervals.tolist() == other.intervals.tolist()
        assert one.leaf.tolist() == other.leaf.tolist()


def test_segments_stay_few() -> None:
    """Adding leaves one by one makes no more segments than their number has binary digits."""
    random = Random(2)
    leaves = [random_leaf(random, f"s{number}") for number in range(50)]
    index = LeafIndex()
    for count, leaf in enumerate(leaves, 1):
        index = index.with_leaves([leaf])
        assert len(index) == count
        assert len(index.segments) <= count.bit_length()


def test_removed_leaves_are_dropped_by_merging() -> None:
    """Removed leaves are left out when their segment is merged, and an empty segment is dropped."""
    random = Random(3)
    leaves = [random_leaf(random, f"s{number}") for number in range(10)]
    index = LeafIndex().with_leaves(leaves[:8]).without({f"s{number}" for number in range(7)}).with_leaves(leaves)
    assert len(index) == 11
    assert [len(group.leaves) for group in index.segments] == [11]
    assert LeafIndex().with_leaves(leaves).without({f"s{number}" for number in range(10)}).segments == ()


def test_hits_are_sorted_however_many() -> None:
    """More hits than the first array holds are sorted by event and leaf."""
    leaves = [
        leaves_of(f"SUBSCRIPTION s{n} EVENT e {{ ?e <urn:{'pq'[n % 2]}> ?x FILTER(?x > {-n}) }} WHEN e")[0]
        for n in range(300)
    ]
    index = LeafIndex().with_leaves(leaves)
    five = '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    events = batch_of([(f"urn:{e}", [(f"<urn:{e}>", f"<urn:{p}>", five) for p in "pq"]) for e in "ab"])
    found = encode(events, encoding_tables(index.predicates, set(index.compared), {}, {}))
    (group,) = index.segments
    hits = group.arrays.search(found)
    assert list(zip(hits.event.tolist(), hits.leaf.tolist(), strict=True)) == [
        (e, n) for e in (0, 1) for n in range(300)
    ]
