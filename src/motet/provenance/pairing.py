"""Which partner each occurrence took, from whom it chose, and who was no longer to be had (language page, section 7).

The reference engine says which pairs there are; here is also said how each came about, so that a pair can be accounted
for and a missing one too. A test holds the two to each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from motet.language.syntax import Context
from motet.reference.contexts import Admits, Completed
from motet.reference.occurrences import Occurrence, project


@dataclass(frozen=True)
class Choice:
    """What happened when ``x`` completed."""

    x: Completed
    candidates: tuple[Completed, ...]
    chosen: tuple[Completed, ...]
    closed: tuple[Completed, ...]  # open before, not afterwards

    def sides(self) -> tuple[tuple[Occurrence, ...], tuple[Occurrence, ...]]:
        """The occurrences of the left and of the right side that were joined."""
        own, others = (self.x.occurrence,), tuple(y.occurrence for y in self.chosen)
        return (others, own) if self.x.is_right else (own, others)


def choices(
    context: Context,
    left: Iterable[Occurrence],
    right: Iterable[Occurrence],
    shared: frozenset[str],
    admits: Admits,
) -> list[Choice]:
    """One choice for each occurrence of either side, in the order of completion."""
    sides = [Completed(o, False) for o in left] + [Completed(o, True) for o in right]
    opened: list[Completed] = []
    made: list[Choice] = []
    for together in _together(context, sorted(sides, key=lambda x: x.place)):
        before = list(opened)
        for x in together:
            candidates = tuple(y for y in before if y.is_right != x.is_right and admits(*in_order(x, y)))
            chosen = _chosen(context, candidates)
            closed = _closed(context, x, opened, candidates, chosen, shared)
            made.append(Choice(x, candidates, chosen, closed))
            opened = [y for y in opened if y not in closed]
            opened += [x] if _opens(context, candidates) else []
    return made


def in_order(x: Completed, y: Completed) -> tuple[Occurrence, Occurrence]:
    """Two occurrences of different sides, left first."""
    return (y.occurrence, x.occurrence) if x.is_right else (x.occurrence, y.occurrence)


def _together(context: Context, merged: Sequence[Completed]) -> list[list[Completed]]:
    """In recent, what has the same interval and the same non-empty events is paired before any of it opens."""
    if context is not Context.RECENT:
        return [[x] for x in merged]
    groups: list[list[Completed]] = []
    for (_, _, events), neighbours in groupby(merged, key=lambda x: x.place[:3]):
        same = list(neighbours)
        groups += [same] if events else [[x] for x in same]
    return groups


def _chosen(context: Context, candidates: tuple[Completed, ...]) -> tuple[Completed, ...]:
    if not candidates:
        return ()
    match context:
        case Context.RECENT:
            return (max(candidates, key=lambda y: y.place),)
        case Context.CHRONICLE:
            return (min(candidates, key=lambda y: y.place),)
        case _:
            return candidates


def _closed(
    context: Context,
    x: Completed,
    opened: Sequence[Completed],
    candidates: tuple[Completed, ...],
    chosen: tuple[Completed, ...],
    shared: frozenset[str],
) -> tuple[Completed, ...]:
    match context:
        case Context.UNRESTRICTED:
            return ()
        case Context.RECENT:
            return tuple(y for y in opened if _slot(y, shared) == _slot(x, shared))
        case Context.CHRONICLE:
            return chosen
        case Context.CONTINUOUS | Context.CUMULATIVE:
            return candidates


def _opens(context: Context, candidates: tuple[Completed, ...]) -> bool:
    return context in (Context.UNRESTRICTED, Context.RECENT) or not candidates


def _slot(x: Completed, shared: frozenset[str]) -> tuple[bool, object]:
    return x.is_right, project(x.occurrence.bindings, shared)
