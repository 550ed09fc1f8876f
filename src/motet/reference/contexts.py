"""The partners a pairing operator chooses in each context (language page, section 7).

> Both children's occurrences are merged by `(end, start, sorted event ids)`, then left before right, then bindings.
> Each side keeps a list of *open* occurrences. When `x` completes, its candidates are the open occurrences `y` of the
> other side for which `x ⋈ y` is defined, the relation holds (in its written direction), the hull fits the operator's
> bound, if any, and its FILTER, if any, is true.

Whether ``y`` is a candidate is decided by the argument ``admits(left, right)``; this module has only what each context
does with candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from motet.language.syntax import Context
from motet.reference.occurrences import Occurrence, SortedBindings, join, merge, project

PairPredicate = Callable[[Occurrence, Occurrence], bool]


@dataclass(frozen=True)
class PatternResult:
    """An occurrence of a pattern and, when it is a pair, the two sides of the pair."""

    occurrence: Occurrence
    left: Occurrence | None = None
    right: Occurrence | None = None


@dataclass(frozen=True)
class CompletedOccurrence:
    """An occurrence of one side, with its position in the merged sequence."""

    occurrence: Occurrence
    is_right: bool

    @property
    def order_key(self) -> tuple[int, int, list[str], bool, SortedBindings]:
        o = self.occurrence
        return o.end, o.start, sorted(o.events), self.is_right, o.bindings


def pair(
    context: Context,
    left: Iterable[Occurrence],
    right: Iterable[Occurrence],
    shared: frozenset[str],
    admits: PairPredicate,
) -> list[PatternResult]:
    """The pairs of two sides in a context; ``shared`` are the operator's shared variables."""
    sides = [CompletedOccurrence(o, False) for o in left] + [CompletedOccurrence(o, True) for o in right]
    merged = sorted(sides, key=lambda x: x.order_key)
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


def _unrestricted(merged: Sequence[CompletedOccurrence], admits: PairPredicate) -> list[PatternResult]:
    """“pair with every candidate | all stay open, x opens”"""
    open_sides: list[CompletedOccurrence] = []
    results = []
    for x in merged:
        results += [_pair_result(x, y) for y in pair_candidates(x, open_sides, admits)]
        open_sides.append(x)
    return results


def _recent(
    merged: Sequence[CompletedOccurrence], shared: frozenset[str], admits: PairPredicate
) -> list[PatternResult]:
    """“pair with the latest candidate, where each side keeps only its latest occurrence per value of the shared
    variables | x replaces its side's latest; nothing is consumed”

    “occurrences with the same interval and the same non-empty events are all paired before any of them opens.”
    """
    open_sides: list[CompletedOccurrence] = []
    results = []
    for ties in tie_groups(merged):
        for x in ties:
            candidates = pair_candidates(x, open_sides, admits)
            if candidates:
                results.append(_pair_result(x, max(candidates, key=lambda y: y.order_key)))
        for x in ties:
            open_sides = [y for y in open_sides if recent_key(y, shared) != recent_key(x, shared)] + [x]
    return results


def _chronicle(merged: Sequence[CompletedOccurrence], admits: PairPredicate) -> list[PatternResult]:
    """“pair with the oldest candidate | both consumed; without a candidate, x opens”"""
    open_sides: list[CompletedOccurrence] = []
    results = []
    for x in merged:
        candidates = pair_candidates(x, open_sides, admits)
        if candidates:
            oldest = min(candidates, key=lambda y: y.order_key)
            results.append(_pair_result(x, oldest))
            open_sides.remove(oldest)
        else:
            open_sides.append(x)
    return results


def _continuous(merged: Sequence[CompletedOccurrence], admits: PairPredicate) -> list[PatternResult]:
    """“pair with every candidate, one occurrence each | candidates consumed; x opens only if there was none”"""
    open_sides: list[CompletedOccurrence] = []
    results = []
    for x in merged:
        candidates = pair_candidates(x, open_sides, admits)
        results += [_pair_result(x, y) for y in candidates]
        open_sides = [y for y in open_sides if y not in candidates] + ([] if candidates else [x])
    return results


def _cumulative(merged: Sequence[CompletedOccurrence], admits: PairPredicate) -> list[PatternResult]:
    """“one occurrence joining x and all candidates | candidates consumed; x opens only if there was none”"""
    open_sides: list[CompletedOccurrence] = []
    results = []
    for x in merged:
        candidates = pair_candidates(x, open_sides, admits)
        if candidates:
            results.append(_cumulative_result(x, candidates))
        open_sides = [y for y in open_sides if y not in candidates] + ([] if candidates else [x])
    return results


def pair_candidates(
    x: CompletedOccurrence, open_sides: Iterable[CompletedOccurrence], admits: PairPredicate
) -> list[CompletedOccurrence]:
    """“its candidates are the open occurrences `y` of the other side for which […]”"""
    return [y for y in open_sides if y.is_right != x.is_right and admits(*_sides(x, y.occurrence))]


def _sides(x: CompletedOccurrence, partner: Occurrence) -> tuple[Occurrence, Occurrence]:
    """x and an occurrence of the other side, left first."""
    return (partner, x.occurrence) if x.is_right else (x.occurrence, partner)


def _pair_result(x: CompletedOccurrence, y: CompletedOccurrence) -> PatternResult:
    return PatternResult(join(x.occurrence, y.occurrence), *_sides(x, y.occurrence))


def _cumulative_result(x: CompletedOccurrence, candidates: Sequence[CompletedOccurrence]) -> PatternResult:
    """“Cumulative keeps a variable when the members that bind it agree; members need not be disjoint or agree with each
    other; for WITHOUT a side has its members' hull and agreed bindings.”
    """
    partners = [y.occurrence for y in candidates]
    members = frozenset(member for y in partners for member in join(x.occurrence, y).members)
    side = merge(partners, frozenset(member for y in partners for member in y.members))
    return PatternResult(merge([x.occurrence, *partners], members), *_sides(x, side))


def tie_groups(merged: Sequence[CompletedOccurrence]) -> list[list[CompletedOccurrence]]:
    """Groups of neighbours with the same interval and the same non-empty events; all others form groups of one."""
    groups: list[list[CompletedOccurrence]] = []
    for (_, _, events), neighbours in groupby(merged, key=lambda x: x.order_key[:3]):
        same = list(neighbours)
        groups += [same] if events else [[x] for x in same]
    return groups


def recent_key(x: CompletedOccurrence, shared: frozenset[str]) -> tuple[bool, SortedBindings]:
    """The key under which recent keeps one occurrence: the side and the shared variables; unbound is a value, too."""
    return x.is_right, project(x.occurrence.bindings, shared)
