"""Why is an occurrence in no group of its iteration? It is too long, or too few could be counted together with it."""

from __future__ import annotations

from itertools import pairwise

from motet.language.syntax import Context, Run, Times
from motet.provenance.hindrances import GapTooLong, Hindrance, TooFew, TooLong
from motet.provenance.near_misses import Nearness, partner
from motet.provenance.scene import Tracer
from motet.reference.iterations import fits
from motet.reference.occurrences import Occurrence, completion_order
from motet.reference.operators import Place


def uncounted(
    tracer: Tracer, pattern: Times | Run, place: Place, results: list[Occurrence]
) -> tuple[Nearness, Hindrance]:
    """What kept the first of these, occurrences of the operand, from being counted."""
    members = sorted((tracer.member(pattern, place, o) for o in results), key=completion_order)
    fitting = [member for member in members if fits([member], place.bound)]
    if not fitting or isinstance(pattern, Run):
        assert place.bound is not None, "every run has a member, and without a bound every occurrence is one"
        return (0,), TooLong(min(o.end - o.start for o in members), place.bound)
    key = next(key for key in tracer.keys(pattern, place) if fitting[0] in key)
    slides = tracer.context in (Context.UNRESTRICTED, Context.RECENT)
    stretch = _unbroken(key, fitting[0], pattern.gap) if slides else _count(key, fitting[0], pattern, place.bound)
    return (len(stretch),), _broken(key, stretch, pattern, place.bound)


def _unbroken(key: list[Occurrence], member: Occurrence, gap: int | None) -> list[Occurrence]:
    """The members around one, as far as no gap is too long."""
    first = last = key.index(member)
    while first > 0 and (gap is None or key[first].end - key[first - 1].end <= gap):
        first -= 1
    while last + 1 < len(key) and (gap is None or key[last + 1].end - key[last].end <= gap):
        last += 1
    return key[first : last + 1]


def _count(key: list[Occurrence], member: Occurrence, pattern: Times, bound: int | None) -> list[Occurrence]:
    """The count that a member took part in, as far as it got."""
    reached: list[Occurrence] = []
    counted: list[Occurrence] = []
    for one in key:
        close = not counted or pattern.gap is None or one.end - counted[-1].end <= pattern.gap
        counted = [*counted, one] if close and fits([*counted, one], bound) else [one]
        reached = counted if member in counted else reached
        counted = [] if len(counted) == pattern.count else counted
    return reached


def _broken(key: list[Occurrence], stretch: list[Occurrence], pattern: Times, bound: int | None) -> Hindrance:
    """Why a stretch of members is not counted: a long gap beside it, a bound, or there are no more."""
    if len(stretch) >= pattern.count:
        assert bound is not None, "enough members without a long gap are counted"
        windows = [stretch[first : first + pattern.count] for first in range(len(stretch) - pattern.count + 1)]
        return TooLong(min(_length(window) for window in windows), bound)
    gap = pattern.gap
    beside = [pair for pair in pairwise(key) if (pair[0] in stretch) != (pair[1] in stretch)]
    long = [(b.end - a.end, a, b) for a, b in beside if gap is not None and b.end - a.end > gap]
    if long and gap is not None:
        length, a, b = min(long, key=lambda one: one[0])
        return GapTooLong(length, gap, partner(b if a in stretch else a))
    following = key[key.index(stretch[-1]) + 1 :]
    if following and bound is not None and not fits([*stretch, following[0]], bound):
        return TooLong(_length([*stretch, following[0]]), bound)
    return TooFew(len(stretch), pattern.count, stretch[0].bindings)


def _length(members: list[Occurrence]) -> int:
    return max(o.end for o in members) - min(o.start for o in members)
