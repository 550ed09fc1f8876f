"""Zones of a CAN: half-open boxes of coordinates, and where messages go from one zone to the next.

Everything here is geometry on text: comparisons of bounds, no distances and no network. Zones are split in turn on each
dimension; `Space` says where, and which zones may be merged again.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar

from motet.overlay.protocol.coordinates import FREE, Alphabet, CanPoint, Centroid, CoordinateRange, UpperBound

_Bound = TypeVar("_Bound", str, UpperBound)

LOWER, UPPER = 0, 1  # the two directions of a dimension


class Zone(NamedTuple):
    """A half-open box: on each dimension lower ≤ coordinate < upper. `axis` is the dimension of its next split.

    >>> left, right = Zone(("", ""), (None, None), 0).split(0, "m")
    >>> left.contains(("l", "x")), left.contains(("m", "x")), left.side_of(right)
    (True, False, (0, 1))
    """

    lower: CanPoint
    upper: tuple[UpperBound, ...]
    axis: int

    @property
    def dimensions(self) -> int:
        return len(self.lower)

    def contains(self, point: CanPoint) -> bool:
        return all(map(_is_within, self.lower, point, self.upper))

    def contains_on(self, dimension: int, coordinate: str) -> bool:
        return _is_within(self.lower[dimension], coordinate, self.upper[dimension])

    def overlaps(self, zone: Zone) -> bool:
        """Whether the zones have points in common."""
        return all(map(_is_overlap, self.lower, self.upper, zone.lower, zone.upper))

    def covers(self, zone: Zone) -> bool:
        """Whether all points of another zone lie in this one."""
        return all(map(_is_subset, zone.lower, zone.upper, self.lower, self.upper))

    def side_of(self, zone: Zone) -> tuple[int, int] | None:
        """On which dimension and in which direction another zone is a neighbour; None if it is none.

        Neighbours abut on one dimension and overlap on all others.
        """
        side: tuple[int, int] | None = None
        for dimension, (low, high, next_lower, next_upper) in enumerate(
            zip(self.lower, self.upper, zone.lower, zone.upper, strict=True)
        ):
            if (next_upper is None or low < next_upper) and (high is None or next_lower < high):
                continue
            if side is not None:
                return None
            if next_lower == high:
                side = dimension, UPPER
            elif next_upper == low:
                side = dimension, LOWER
            else:
                return None
        return side

    def meets(self, region: Region) -> bool:
        """Whether a point of the region can lie in this zone."""
        return all(
            (upper is None or interval.low < upper) and (interval.high is None or lower <= interval.high)
            for lower, upper, interval in zip(self.lower, self.upper, region, strict=True)
        )

    def split(self, dimension: int, at: str) -> tuple[Zone, Zone]:
        """The parts below and from a bound strictly inside."""
        axis = (dimension + 1) % self.dimensions
        return (
            Zone(self.lower, _replaced(self.upper, dimension, at), axis),
            Zone(_replaced(self.lower, dimension, at), self.upper, axis),
        )

    def union(self, zone: Zone) -> Zone | None:
        """The box that both zones make together, if it is one; its next split is the one that made them."""
        side = self.side_of(zone)
        if side is None or self.axis != zone.axis:
            return None
        dimension, direction = side
        if (dimension + 1) % self.dimensions != self.axis:
            return None
        if any(
            self.lower[i] != zone.lower[i] or self.upper[i] != zone.upper[i]
            for i in range(self.dimensions)
            if i != dimension
        ):
            return None
        first, second = (self, zone) if direction == UPPER else (zone, self)
        return Zone(first.lower, second.upper, dimension)

    def corner_outside(self, dimension: int, direction: int, alphabet: Alphabet) -> str | None:
        """A coordinate just across a face; None at the edge of the space."""
        if direction == UPPER:
            return self.upper[dimension]
        return alphabet.just_below(self.lower[dimension]) if self.lower[dimension] else None


Region: TypeAlias = tuple[CoordinateRange, ...]
"""What a multicast addresses: an interval on each dimension; fixed, bounded or free."""


def region_of(*intervals: CoordinateRange | str | None) -> Region:
    """A region: text is a fixed coordinate, None a free variable.

    >>> region_of("a", None)
    (CoordinateRange(low='a', high='a'), CoordinateRange(low='', high=None))
    """
    return tuple(FREE if i is None else CoordinateRange(i, i) if isinstance(i, str) else i for i in intervals)


def region_contains(region: Region, point: CanPoint) -> bool:
    return all(interval.contains(coordinate) for interval, coordinate in zip(region, point, strict=True))


class SplitRule(enum.Enum):
    """Where a zone is split: in the middle of its bounds, or at the centroid of what it stores."""

    MIDDLE = "middle"
    CENTROID = "centroid"


@dataclass(frozen=True, slots=True)
class Space:
    """The coordinate space that all peers of an overlay agree on."""

    dimensions: int = 4
    alphabet: Alphabet = field(default_factory=Alphabet)
    split_rule: SplitRule = SplitRule.MIDDLE

    @property
    def whole(self) -> Zone:
        return Zone(("",) * self.dimensions, (None,) * self.dimensions, 0)

    def split(self, zone: Zone, stored: Iterable[CanPoint] = ()) -> tuple[Zone, Zone] | None:
        """The halves of a zone on its axis, or on the next dimension that can be split; None if there is none."""
        points = tuple(stored) if self.split_rule is SplitRule.CENTROID else ()
        for step in range(self.dimensions):
            dimension = (zone.axis + step) % self.dimensions
            lower, upper = zone.lower[dimension], zone.upper[dimension]
            if points:
                centroid = Centroid(self.alphabet)
                for point in points:
                    centroid.add(point[dimension])
                at = centroid.between(lower, upper)
            else:
                at = _middle(self.alphabet, lower, upper)
            if at is not None:
                return zone.split(dimension, at)
        return None

    def merge(self, left: Zone, right: Zone) -> Zone | None:
        """The zone that two zones were split from. Where splits are in the middle, cousins do not merge."""
        union = left.union(right)
        if union is None or self.split_rule is SplitRule.CENTROID:
            return union
        return union if self.is_cell(union) else None

    def is_cell(self, zone: Zone) -> bool:
        """Whether splitting the space in the middle, in turn, makes this zone."""
        cell = self.whole
        while cell != zone:
            halves = self.split(cell)
            cover = [half for half in halves or () if half.covers(zone)]
            if not cover:
                return False
            cell = cover[0]
        return True

    def subtract(self, zone: Zone, removed: Zone) -> list[Zone]:
        """A zone without another one, as few zones; split in turn as far as that avoids cutting the other one."""
        pieces: list[Zone] = []
        while zone.overlaps(removed):
            if removed.covers(zone):
                return pieces
            low, high = self._cut(zone, removed)
            if low.overlaps(removed):
                rest = high if not high.overlaps(removed) else None
                zone = low
            else:
                rest, zone = low, high
            if rest is None:  # the removed zone lies on both sides
                return [*pieces, *self.subtract(low, removed), *self.subtract(high, removed)]
            pieces.append(rest)
        return [*pieces, zone]

    def _cut(self, zone: Zone, removed: Zone) -> tuple[Zone, Zone]:
        halves = self.split(zone)
        if halves is not None and not (halves[0].overlaps(removed) and halves[1].overlaps(removed)):
            return halves
        for step in range(self.dimensions):
            dimension = (zone.axis + step) % self.dimensions
            lower, upper = zone.lower[dimension], zone.upper[dimension]
            if lower < removed.lower[dimension]:
                return zone.split(dimension, removed.lower[dimension])
            bound = removed.upper[dimension]
            if bound is not None and (upper is None or bound < upper):
                return zone.split(dimension, bound)
        raise AssertionError("the removed zone covers the zone")

    def uncovered(self, zone: Zone, covers: Iterable[Zone]) -> list[Zone]:
        """The parts of a zone that none of the others covers."""
        parts = [zone]
        for cover in covers:
            parts = [
                piece for part in parts for piece in (self.subtract(part, cover) if part.overlaps(cover) else [part])
            ]
        return parts

    def volume(self, zone: Zone) -> Fraction:
        """The share of the space in a zone."""
        return _volume(self.alphabet, zone.lower, zone.upper)

    def distance(self, zone: Zone, key: CanPoint) -> Fraction:
        """How far a key is from a zone: the sum over the dimensions, 0 inside."""
        distance = Fraction(0)
        for lower, coordinate, upper in zip(zone.lower, key, zone.upper, strict=True):
            if coordinate < lower:
                distance += self.alphabet.value(lower) - self.alphabet.value(coordinate)
            elif upper is not None and coordinate >= upper:
                distance += self.alphabet.value(coordinate) - self.alphabet.value(upper)
        return distance

    def face(self, zone: Zone, dimension: int, direction: int) -> Zone | None:
        """The thin box across a face of a zone, as wide on that dimension as the zone, or up to the edge."""
        return _face(self.alphabet, zone, dimension, direction)


# Where messages go


def next_hop(zone: Zone, neighbours: Iterable[Zone], key: CanPoint) -> list[Zone]:
    """Algorithm 3.1: the neighbours on the first dimension on which a zone does not contain the key, the best first.

    They contain the key on all earlier dimensions. Among them, the one whose bound is closest to the key on this
    dimension comes first, then on the next one, and so on; bounds are compared, distances are not computed.
    """
    dimension = next((i for i in range(zone.dimensions) if not zone.contains_on(i, key[i])), None)
    if dimension is None:
        return []
    side = dimension, LOWER if key[dimension] < zone.lower[dimension] else UPPER
    candidates = [
        neighbour
        for neighbour in neighbours
        if zone.side_of(neighbour) == side and all(neighbour.contains_on(i, key[i]) for i in range(dimension))
    ]
    rest = range(dimension, zone.dimensions)
    return sorted(candidates, key=lambda neighbour: [*(_gap(neighbour, i, key[i]) for i in rest), neighbour.lower])


def nearer_zones(space: Space, zone: Zone, neighbours: Sequence[Zone], key: CanPoint) -> list[Zone]:
    """Greedy routing: the neighbours that are nearer to a key than a zone is, the nearest first.

    Distances are exact; there is always such a neighbour while the zones around tile the space. A key on a bound of a
    zone has no distance from it; Algorithm 3.1 finds the rest of the way.
    """
    own = space.distance(zone, key)
    if not own:
        return next_hop(zone, neighbours, key)
    distances = {neighbour: space.distance(neighbour, key) for neighbour in neighbours}
    nearer = [neighbour for neighbour, distance in distances.items() if distance < own]
    return sorted(nearer, key=lambda neighbour: (distances[neighbour], neighbour.lower))


class _Descending(str):
    """Text in descending order."""

    __slots__ = ()

    def __lt__(self, text: str) -> bool:
        return str.__gt__(self, text)


def _gap(zone: Zone, dimension: int, coordinate: str) -> tuple[int, str]:
    """How far a zone is from a coordinate, as the bound on that side: a key to order zones by.

    >>> [_gap(Zone((low,), (high,), 0), 0, "m")[0] for low, high in (("a", "z"), ("a", "c"))]
    [0, 1]
    """
    if zone.contains_on(dimension, coordinate):
        return 0, ""
    if coordinate < zone.lower[dimension]:
        return 1, zone.lower[dimension]
    upper = zone.upper[dimension]
    assert upper is not None, "the zone ends below the coordinate"
    return 1, _Descending(upper)


def entry_point(zone: Zone, region: Region) -> CanPoint:
    """The point of a region that is the nearest to a zone on each dimension: where a multicast enters the region."""
    return tuple(
        max(lower, interval.low)
        if (interval.high is None or lower <= interval.high) and (upper is None or interval.low < upper)
        else interval.low
        if lower < interval.low or interval.high is None
        else interval.high
        for lower, upper, interval in zip(zone.lower, zone.upper, region, strict=True)
    )


def is_parent(zone: Zone, child: Zone, region: Region, root: CanPoint) -> bool:
    """Whether the optimal broadcast in a region, entered at a root point, sends from a zone to a neighbour.

    Each zone that meets the region has exactly one parent, but for the zone of the root. On the first dimension on
    which the child does not contain the root, the parent abuts it on the root's side; on the dimensions before, it
    contains the root (the spatial constraint), on those behind, it contains the lower corner of the child's part of the
    region (the corner rule).
    """
    for dimension in range(zone.dimensions):
        coordinate = root[dimension]
        if child.contains_on(dimension, coordinate):
            if not zone.contains_on(dimension, coordinate):
                return False
            continue
        if coordinate < child.lower[dimension]:
            abuts = zone.upper[dimension] == child.lower[dimension]
        else:
            abuts = zone.lower[dimension] == child.upper[dimension]
        return abuts and all(
            zone.contains_on(i, max(child.lower[i], region[i].low)) for i in range(dimension + 1, zone.dimensions)
        )
    return False


def broadcast_children(zone: Zone, neighbours: Iterable[Zone], region: Region, root: CanPoint) -> list[Zone]:
    """The neighbours to which a zone forwards the optimal broadcast; all of them meet the region."""
    return [n for n in neighbours if n.meets(region) and is_parent(zone, n, region, root)]


def sides(zone: Zone, neighbours: Mapping[str, Sequence[Zone]]) -> dict[tuple[int, int], list[str]]:
    """The neighbours of a zone by dimension and direction."""
    table: dict[tuple[int, int], list[str]] = {}
    for address, zones in neighbours.items():
        for side in {zone.side_of(neighbour) for neighbour in zones} - {None}:
            assert side is not None
            table.setdefault(side, []).append(address)
    return table


def open_faces(space: Space, zone: Zone, neighbours: Iterable[Zone]) -> Iterator[Zone]:
    """The parts of the boxes across a zone's faces, each at the face, that no neighbour covers."""
    around = [neighbour for neighbour in neighbours if zone.side_of(neighbour) or zone.overlaps(neighbour)]
    for dimension in range(zone.dimensions):
        for direction in (LOWER, UPPER):
            face = space.face(zone, dimension, direction)
            if face is not None:
                for part in space.uncovered(face, around):
                    if zone.side_of(part) == (dimension, direction):
                        yield part


def _is_within(lower: str, coordinate: str, upper: UpperBound) -> bool:
    return lower <= coordinate and (upper is None or coordinate < upper)


def _is_overlap(low: str, high: UpperBound, next_lower: str, next_upper: UpperBound) -> bool:
    return (next_upper is None or low < next_upper) and (high is None or next_lower < high)


def _is_subset(low: str, high: UpperBound, outer_low: str, outer_high: UpperBound) -> bool:
    return outer_low <= low and (outer_high is None or (high is not None and high <= outer_high))


def _replaced(bounds: tuple[_Bound, ...], dimension: int, bound: _Bound) -> tuple[_Bound, ...]:
    changed = list(bounds)
    changed[dimension] = bound
    return tuple(changed)


@lru_cache(maxsize=65_536)
def _middle(alphabet: Alphabet, lower: str, upper: UpperBound) -> str | None:
    return alphabet.middle(lower, upper)


@lru_cache(maxsize=65_536)
def _volume(alphabet: Alphabet, lower: CanPoint, upper: tuple[UpperBound, ...]) -> Fraction:
    volume = Fraction(1)
    for low, high in zip(lower, upper, strict=True):
        volume *= alphabet.value(high) - alphabet.value(low)
    return volume


@lru_cache(maxsize=65_536)
def _face(alphabet: Alphabet, zone: Zone, dimension: int, direction: int) -> Zone | None:
    outside = zone.corner_outside(dimension, direction, alphabet)
    if outside is None:
        return None
    low, high = alphabet.value(zone.lower[dimension]), alphabet.value(zone.upper[dimension])
    if direction == UPPER:
        bound = alphabet.clamp_between(2 * high - low, outside, None)
        end = None if 2 * high - low >= 1 else bound
        return zone._replace(
            lower=_replaced(zone.lower, dimension, outside), upper=_replaced(zone.upper, dimension, end)
        )
    bound = alphabet.clamp_between(2 * low - high, "", zone.lower[dimension])
    begin = bound if 2 * low - high > 0 and bound is not None else ""
    return zone._replace(
        lower=_replaced(zone.lower, dimension, begin),
        upper=_replaced(zone.upper, dimension, zone.lower[dimension]),
    )
