"""Zones: boxes that tile the space, their neighbours, and the trees of messages over them."""

from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.overlay.protocol.coordinates import Alphabet, CanPoint, CoordinateRange
from motet.overlay.protocol.zones import (
    LOWER,
    UPPER,
    Region,
    Space,
    SplitRule,
    Zone,
    broadcast_children,
    entry_point,
    nearer_zones,
    next_hop,
    open_faces,
    region_of,
    sides,
)

LETTERS = Alphabet("a", "p")  # a radix of 16
coordinates = st.text("abdhilop", max_size=4)


@st.composite
def tilings(draw: st.DrawFn, max_zones: int = 24) -> tuple[Space, list[Zone]]:
    """A space, and its zones after random splits."""
    rule = draw(st.sampled_from(SplitRule))
    space = Space(draw(st.integers(1, 4)), LETTERS, rule)
    zones = [space.whole]
    for choice in draw(st.lists(st.integers(0, 10_000), max_size=max_zones - 1)):
        zone = zones.pop(choice % len(zones))
        points = draw(st.lists(st.tuples(*[coordinates] * space.dimensions), max_size=3)) if choice % 2 else []
        halves = space.split(zone, [point for point in points if zone.contains(point)])
        zones += [zone] if halves is None else halves
    return space, zones


def points_of(space: Space) -> st.SearchStrategy[CanPoint]:
    return st.tuples(*[coordinates] * space.dimensions)


def regions_of(space: Space) -> st.SearchStrategy[Region]:
    bounded = st.tuples(coordinates, coordinates).map(sorted).map(lambda pair: CoordinateRange(*pair))
    fixed = coordinates.map(lambda coordinate: CoordinateRange(coordinate, coordinate))
    return st.tuples(*[st.one_of(bounded, fixed, st.just(CoordinateRange()))] * space.dimensions)


def around(zone: Zone, zones: list[Zone]) -> list[Zone]:
    return [other for other in zones if zone.side_of(other) is not None]


@given(st.data())
def test_zones_tile_the_space(data: st.DataObject) -> None:
    """After any splits each point lies in exactly one zone, and the volumes add up to 1."""
    space, zones = data.draw(tilings())
    point = data.draw(points_of(space))
    assert sum(zone.contains(point) for zone in zones) == 1
    assert sum((space.volume(zone) for zone in zones), Fraction()) == 1
    assert all(not zone.overlaps(other) for zone in zones for other in zones if zone is not other)


@given(tilings())
def test_neighbours_are_symmetric_and_close_every_face(tiling: tuple[Space, list[Zone]]) -> None:
    """A zone lies on the opposite side of its neighbour, and no face inside the space is open."""
    space, zones = tiling
    for zone in zones:
        for other in around(zone, zones):
            dimension, direction = zone.side_of(other) or (0, 0)
            assert other.side_of(zone) == (dimension, UPPER if direction == LOWER else LOWER)
        assert list(open_faces(space, zone, around(zone, zones))) == []


@given(st.data())
def test_the_face_of_a_removed_zone_is_open(data: st.DataObject) -> None:
    """When a neighbour is gone, a part of its zone is reported across the face."""
    space, zones = data.draw(tilings())
    gone = zones[data.draw(st.integers(0, len(zones) - 1))]
    for zone in around(gone, zones):
        parts = list(open_faces(space, zone, [other for other in around(zone, zones) if other != gone]))
        assert parts and all(gone.overlaps(part) for part in parts)


@given(st.data())
def test_siblings_merge_and_nothing_else(data: st.DataObject) -> None:
    """Two zones of a tiling by middles merge exactly if they are the halves of one cell."""
    space, zones = data.draw(tilings())
    for zone in zones:
        for other in around(zone, zones):
            merged = space.merge(zone, other)
            if space.split_rule is SplitRule.MIDDLE:
                assert merged is None or set(space.split(merged) or ()) == {zone, other}
            elif merged is not None:
                assert space.volume(merged) == space.volume(zone) + space.volume(other)
    halves = space.split(zones[0])
    assert halves is None or space.merge(*halves) == zones[0]


@given(tilings(12), tilings(12))
def test_subtracting_a_zone_leaves_exactly_the_rest(
    left: tuple[Space, list[Zone]], right: tuple[Space, list[Zone]]
) -> None:
    """The pieces of a zone without another one are disjoint, touch nothing of it and have the volume that remains."""
    space, zone = left[0], left[1][-1]
    for removed in (zone for zone in right[1] if zone.dimensions == space.dimensions):
        pieces = space.subtract(zone, removed)
        common = space.volume(zone) - sum((space.volume(piece) for piece in pieces), Fraction())
        assert (common > 0) == zone.overlaps(removed)
        assert all(zone.covers(piece) and not piece.overlaps(removed) for piece in pieces)
        assert all(not piece.overlaps(other) for piece in pieces for other in pieces if piece is not other)


def test_a_cell_inside_a_cell_leaves_cells() -> None:
    """What remains of a zone split in the middle are zones that can merge again."""
    space = Space(2, LETTERS)
    cell = space.whole
    for _ in range(5):
        cell = (space.split(cell) or (cell, cell))[1]
    pieces = space.subtract(space.whole, cell)
    assert (len(pieces), [space.is_cell(piece) for piece in pieces]) == (5, [True] * 5)


@given(st.data())
def test_algorithm_3_1_and_greedy_routing_reach_the_owner(data: st.DataObject) -> None:
    """From every zone both lead to the only zone that contains a key, without a cycle."""
    space, zones = data.draw(tilings())
    key = data.draw(points_of(space))
    for start in zones:
        for is_greedy in (False, True):
            zone, visited = start, {start}
            while not zone.contains(key):
                candidates = around(zone, zones)
                hops = nearer_zones(space, zone, candidates, key) if is_greedy else next_hop(zone, candidates, key)
                zone = hops[0]
                assert zone not in visited
                visited.add(zone)


def test_the_tie_break_of_algorithm_3_1() -> None:
    """Of two neighbours on dimension 1, the one that contains the key on dimension 2 is taken, else the closer one."""
    zone = Zone(("", ""), ("h", None), 0)
    low, high = Zone(("h", ""), (None, "m"), 0), Zone(("h", "m"), (None, None), 0)
    assert next_hop(zone, [low, high], ("k", "p")) == [high, low]
    assert next_hop(zone, [low, high], ("k", "b")) == [low, high]
    middle = Zone(("h", "e"), (None, "m"), 0)
    assert next_hop(zone, [middle, high], ("k", "b")) == [middle, high]
    assert next_hop(zone, [low, high], ("c", "b")) == []


def broadcast(zones: list[Zone], root: Zone, region: Region, point: CanPoint) -> Iterator[Zone]:
    """The receivers of an optimal broadcast, one for each message."""
    queue = [root]
    for zone in queue:
        children = broadcast_children(zone, around(zone, zones), region, point)
        queue += children
        yield from children


@given(st.data())
def test_the_optimal_broadcast_reaches_each_matching_zone_once(data: st.DataObject) -> None:
    """From wherever it enters a region, every other zone that meets the region gets exactly one message."""
    space, zones = data.draw(tilings())
    region = data.draw(regions_of(space))
    start = zones[data.draw(st.integers(0, len(zones) - 1))]
    point = entry_point(start, region)
    assert all(interval.contains(coordinate) for interval, coordinate in zip(region, point, strict=True))
    (root,) = [zone for zone in zones if zone.contains(point)]
    received = list(broadcast(zones, root, region, point))
    assert sorted([root, *received], key=repr) == sorted((zone for zone in zones if zone.meets(region)), key=repr)


def test_a_root_that_meets_the_region_is_the_entry() -> None:
    """A broadcast that starts inside the region needs no way to it."""
    zone = Zone(("d", "d"), ("h", "h"), 0)
    assert entry_point(zone, region_of("e", None)) == ("e", "d")
    assert entry_point(zone, region_of("a", CoordinateRange("p", None))) == ("a", "p")
    assert entry_point(zone, region_of(CoordinateRange("a", "b"), "z")) == ("b", "z")


def test_neighbours_by_dimension_and_direction() -> None:
    """The table of a zone names its neighbours on each side."""
    zone = Zone(("d",), ("h",), 0)
    assert sides(
        zone, {"l": [Zone(("",), ("d",), 0)], "r": [Zone(("h",), (None,), 0)], "far": [Zone(("p",), (None,), 0)]}
    ) == {
        (0, LOWER): ["l"],
        (0, UPPER): ["r"],
    }


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_dimensions_are_split_in_turn(dimensions: int) -> None:
    """The axis goes round; a dimension that is too narrow is left out."""
    zone, axes = Space(dimensions).whole, []
    for _ in range(2 * dimensions):
        axes.append(zone.axis)
        zone = (Space(dimensions).split(zone) or (zone, zone))[0]
    assert axes == [*range(dimensions)] * 2
    narrow = Zone(("a", ""), ("a\0", None), 0)
    assert Space(2).split(narrow) == narrow.split(1, Space(2).alphabet.middle("", None) or "")
