"""Which partners a pairing operator takes (language page, section 7).

> Both children's occurrences are merged by `(end, start, sorted event ids)`, then left before right, then bindings.
> Each side keeps a list of *open* occurrences. When `x` completes, its candidates are the open occurrences `y` of the
> other side for which `x ⋈ y` is defined, the relation holds (in its written direction), the hull fits the operator's
> bound, if any, and its FILTER, if any, is true.

What makes ``y`` a candidate is handed in as ``admits(left, right)``; here is only what each context does with
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from motet.language.syntax import Context
from motet.reference.occurrences import Bindings, Occurrence, join, merge, project

Admits = Callable[[Occurrence, Occurrence], bool]


@dataclass(frozen=True)
class Produced:
    """What a pattern has produced: an occurrence and, when it is a pair, the two sides of the pair."""

    result: Occurrence
    left: Occurrence | None = None
    right: Occurrence | None = None


@dataclass(frozen=True)
class Completed:
    """An occurrence of one side, at its place in the merged sequence."""

    occurrence: Occurrence
    is_right: bool

    @property
    def place(self) -> tuple[int, int, list[str], bool, Bindings]:
        o = self.occurrence
        return o.end, o.start, sorted(o.events), self.is_right, o.bindings


def pair(
    context: Context,
    left: Iterable[Occurrence],
    right: Iterable[Occurrence],
    shared: frozenset[str],
    admits: Admits,
) -> list[Produced]:
    """The pairs of two sides in a context; ``shared`` are the operator's shared variables."""
    sides = [Completed(o, False) for o in left] + [Completed(o, True) for o in right]
    merged = sorted(sides, key=lambda x: x.place)
    match context:
        case Context.UNRESTRICTED:
            return _unrestricted(merged, admits)
        case Context.RECENT:
            return _recent(merged, shared, admits)
        case Context.CHRONICLE:
            return _chronicle(merged, admits)
        case Context.CONTINUOUS:
            return _continuous(merged, admits)
        case Context.CUMULATIVE:
            return _cumulative(merged, admits)


def _unrestricted(merged: Sequence[Completed], admits: Admits) -> list[Produced]:
    """“pair with every candidate | all stay open, x opens”"""
    opened: list[Completed] = []
    produced = []
    for x in merged:
        produced += [_joined(x, y) for y in _candidates(x, opened, admits)]
        opened.append(x)
    return produced


def _recent(merged: Sequence[Completed], shared: frozenset[str], admits: Admits) -> list[Produced]:
    """“pair with the latest candidate, where each side keeps only its latest occurrence per value of the shared
    variables | x replaces its side's latest; nothing is consumed”

    “occurrences with the same interval and the same non-empty events are all paired before any of them opens.”
    """
    opened: list[Completed] = []
    produced = []
    for together in _together(merged):
        for x in together:
            candidates = _candidates(x, opened, admits)
            if candidates:
                produced.append(_joined(x, max(candidates, key=lambda y: y.place)))
        for x in together:
            opened = [y for y in opened if _slot(y, shared) != _slot(x, shared)] + [x]
    return produced


def _chronicle(merged: Sequence[Completed], admits: Admits) -> list[Produced]:
    """“pair with the oldest candidate | both consumed; without a candidate, x opens”"""
    opened: list[Completed] = []
    produced = []
    for x in merged:
        candidates = _candidates(x, opened, admits)
        if candidates:
            oldest = min(candidates, key=lambda y: y.place)
            produced.append(_joined(x, oldest))
            opened.remove(oldest)
        else:
            opened.append(x)
    return produced


def _continuous(merged: Sequence[Completed], admits: Admits) -> list[Produced]:
    """“pair with every candidate, one occurrence each | candidates consumed; x opens only if there was none”"""
    opened: list[Completed] = []
    produced = []
    for x in merged:
        candidates = _candidates(x, opened, admits)
        produced += [_joined(x, y) for y in candidates]
        opened = [y for y in opened if y not in candidates] + ([] if candidates else [x])
    return produced


def _cumulative(merged: Sequence[Completed], admits: Admits) -> list[Produced]:
    """“one occurrence joining x and all candidates | candidates consumed; x opens only if there was none”"""
    opened: list[Completed] = []
    produced = []
    for x in merged:
        candidates = _candidates(x, opened, admits)
        if candidates:
            produced.append(_gathered(x, candidates))
        opened = [y for y in opened if y not in candidates] + ([] if candidates else [x])
    return produced


def _candidates(x: Completed, opened: Iterable[Completed], admits: Admits) -> list[Completed]:
    return [y for y in opened if y.is_right != x.is_right and admits(*_sides(x, y.occurrence))]


def _sides(x: Completed, other: Occurrence) -> tuple[Occurrence, Occurrence]:
    """x and an occurrence of the other side, left first."""
    return (other, x.occurrence) if x.is_right else (x.occurrence, other)


def _joined(x: Completed, y: Completed) -> Produced:
    return Produced(join(x.occurrence, y.occurrence), *_sides(x, y.occurrence))


def _gathered(x: Completed, candidates: Sequence[Completed]) -> Produced:
    """“Cumulative keeps a variable when the members that bind it agree; members need not be disjoint or agree with each
    other; for WITHOUT a side has its members' hull and agreed bindings.”
    """
    others = [y.occurrence for y in candidates]
    members = frozenset(member for y in others for member in join(x.occurrence, y).members)
    side = merge(others, frozenset(member for y in others for member in y.members))
    return Produced(merge([x.occurrence, *others], members), *_sides(x, side))


def _together(merged: Sequence[Completed]) -> list[list[Completed]]:
    """Neighbours with the same interval and the same non-empty events; everything else on its own."""
    groups: list[list[Completed]] = []
    for (_, _, events), neighbours in groupby(merged, key=lambda x: x.place[:3]):
        same = list(neighbours)
        groups += [same] if events else [[x] for x in same]
    return groups


def _slot(x: Completed, shared: frozenset[str]) -> tuple[bool, Bindings]:
    """Where recent keeps one occurrence: a side and a value of the shared variables; unbound is a value of its own."""
    return x.is_right, project(x.occurrence.bindings, shared)
