"""`A{n}`, `A{n} EVERY d` and `A+ EVERY d` over the members of one key (language page, section 5).

``members`` are in completion order, already projected and distinct, and of one key. Each function returns the groups
of members that make one occurrence each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from motet.reference.occurrences import Occurrence

Group = list[Occurrence]


def fitting(members: Sequence[Occurrence], bound: int | None) -> Group:
    """“With a bound (carried or inherited), members that exceed it by themselves are left out”"""
    return [member for member in members if fits([member], bound)]


def sliding(members: Sequence[Occurrence], count: int, gap: int | None, bound: int | None) -> list[Group]:
    """“`n` successive `a` in completion order”, “each `next.end - previous.end <= d`” and “a sliding `A{n}` takes only
    members whose hull fits”.
    """
    windows = [list(members[first : first + count]) for first in range(len(members) - count + 1)]
    return [window for window in windows if _gaps_fit(window, gap) and fits(window, bound)]


def tumbling(members: Sequence[Occurrence], count: int, gap: int | None, bound: int | None) -> list[Group]:
    """“in a tumbling one a gap that is too long or a member that would stretch the hull past the bound starts the count
    again with itself”
    """
    groups: list[Group] = []
    counted: Group = []
    for member in members:
        longer = [*counted, member]
        counted = longer if _gaps_fit(longer, gap) and fits(longer, bound) else [member]
        if len(counted) == count:
            groups.append(counted)
            counted = []
    return groups


def runs(members: Sequence[Occurrence], gap: int, bound: int | None) -> list[Group]:
    """“each maximal run of successive `a` […] with `next.end - previous.end <= d`, at least one”; where the hull
    would pass the bound “a run is cut […], and the member begins the next run”.
    """
    groups: list[Group] = []
    for member in members:
        if groups and _gaps_fit([*groups[-1], member], gap) and fits([*groups[-1], member], bound):
            groups[-1].append(member)
        else:
            groups.append([member])
    return groups


def fits(group: Sequence[Occurrence], bound: int | None) -> bool:
    """The hull of the group is within the bound, if there is one."""
    return bound is None or max(o.end for o in group) - min(o.start for o in group) <= bound


def _gaps_fit(group: Sequence[Occurrence], gap: int | None) -> bool:
    return gap is None or all(following.end - previous.end <= gap for previous, following in pairwise(group))
