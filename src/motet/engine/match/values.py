"""What number or instant a term is worth in a comparison, as a float64 that says where it cannot decide.

Rounding keeps the order, so two values that differ as float64 compare like the terms. Where they are equal, only
exact values decide. ``WIDE`` values (xsd:float, which makes the other side lose digits; a dateTime without a zone) are
only near: inside an interval or close to it, the terms decide.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from motet.sparql.temporal import SCALE, Moment
from motet.sparql.values import NUMERIC_RANK, Value, decode

NUMBER, INSTANT = 1, 2
KIND, INEXACT, WIDE = 3, 4, 8  # a mask and two flags
STRICT_LOW, STRICT_HIGH, INEXACT_LOW, INEXACT_HIGH = 1, 2, 4, 8  # of an interval's ends

_PICOSECOND = SCALE // 10**6  # of the units of a Moment, in a microsecond
_WHOLE = 2**53


class Comparable(NamedTuple):
    value: float
    kind: int  # NUMBER or INSTANT with flags; 0: neither


class Interval(NamedTuple):
    """What a variable's value must lie in, with the flags of its ends."""

    low: float
    high: float
    flags: int

    def meet(self, other: Interval) -> Interval:
        """What lies in both. Equal ends are as strict and as inexact as either."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        flags = 0
        for one in (self, other):
            flags |= one.flags & (STRICT_LOW | INEXACT_LOW) if one.low == low else 0
            flags |= one.flags & (STRICT_HIGH | INEXACT_HIGH) if one.high == high else 0
        return Interval(low, high, flags)


def comparable(term: str) -> Comparable:
    """
    >>> comparable('"05"^^<http://www.w3.org/2001/XMLSchema#integer>')
    Comparable(value=5.0, kind=1)
    """
    value = decode(term)
    if value.kind in NUMERIC_RANK:
        return _number(value)
    if value.kind == "dateTime":
        return _instant(value.value)
    return Comparable(0.0, 0)


def _number(value: Value) -> Comparable:
    if value.kind == "float":
        return Comparable(value.value, NUMBER | WIDE) if not math.isnan(value.value) else Comparable(0.0, 0)
    if value.kind == "double":
        return Comparable(value.value, NUMBER) if not math.isnan(value.value) else Comparable(0.0, 0)
    exact = Fraction(value.value, SCALE if value.kind == "decimal" else 1)
    near = exact.numerator / exact.denominator
    return Comparable(near, NUMBER | (0 if Fraction(near) == exact else INEXACT))


def _instant(moment: Moment) -> Comparable:
    micros, rest = divmod(moment.instant, _PICOSECOND)
    exact = rest == 0 and abs(micros) <= _WHOLE
    wide = WIDE if moment.zone is None else 0
    return Comparable(float(micros), INSTANT | wide | (0 if exact else INEXACT))


def interval(operator: str, constant: str) -> tuple[int, Interval]:
    """The kind of values a comparison with a constant is about, and where they must lie.

    >>> interval("<", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    (1, Interval(low=-inf, high=5.0, flags=2))
    """
    value, kind = comparable(constant)
    low = value if operator in ("=", ">", ">=") else -math.inf
    high = value if operator in ("=", "<", "<=") else math.inf
    flags = {">": STRICT_LOW, "<": STRICT_HIGH}.get(operator, 0)
    if kind & INEXACT:
        flags |= (INEXACT_LOW if low == value else 0) | (INEXACT_HIGH if high == value else 0)
    return kind & KIND, Interval(low, high, flags)
