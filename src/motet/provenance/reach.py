"""How far from an occurrence are the events that can matter to it? The sum of all bounds, windows and gaps."""

from __future__ import annotations

from motet.language.bounds import Bounded, bounds
from motet.language.syntax import No, Pattern, Run, Times, Unless, Xor
from motet.language.walk import PAIRING


def reach(pattern: Pattern) -> int | None:
    """In microseconds; None when an operator is unbounded.

    In contexts that consume, what an occurrence found open may depend on pairs further back still.

    >>> from motet.language.parse import parse
    >>> [one] = parse("SUBSCRIPTION s EVENT a EVENT b EVENT c WHEN (a BEFORE b WITHIN 5 s) UNLESS c WITHIN 2 s")
    >>> reach(one.pattern)
    7000000
    """
    return _reach(bounds(pattern))


def _reach(bounded: Bounded) -> int | None:
    parts = [_own(bounded), *map(_reach, bounded.children)]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _own(bounded: Bounded) -> int | None:
    match bounded.node:
        case Unless(window=length) | Xor(window=length) | No(duration=length):
            return length
        case Times(_, count, gap) if bounded.bound is None and gap is not None:
            return count * gap
        case Times() | Run():
            return bounded.bound
    return bounded.bound if isinstance(bounded.node, PAIRING) else 0
