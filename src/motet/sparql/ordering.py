"""The order of ORDER BY, MIN and MAX: over all terms, so that sorting never fails and is the same on every engine.

SPARQL fixes: unbound, blank nodes, IRIs, literals; and ``<`` among literals that it compares. The rest is our choice:
numbers (NaN first), dates and times by kind, booleans, plain strings, strings with a language, then literals without
a known value by their text. Literals of equal value are equal here; a stable sort leaves them as they are.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from motet.sparql.temporal import SCALE, TEMPORAL_KINDS, Duration, Moment, add
from motet.sparql.values import DURATION_KINDS, NUMERIC_RANK, Value, decode

UNBOUND: tuple[Any, ...] = (0,)
_KINDS = {kind: rank for rank, kind in enumerate((*TEMPORAL_KINDS, "duration"))}


def order_key(term: str | None) -> tuple[Any, ...]:
    """A key that sorts terms; None is an unbound variable.

    >>> sorted(['"b"', "<urn:a>", '"10"^^<http://www.w3.org/2001/XMLSchema#integer>'], key=order_key)[0]
    '<urn:a>'
    """
    if term is None:
        return UNBOUND
    value = decode(term)
    if value.kind == "blank":
        return (1, term)
    if value.kind == "iri":
        return (2, value.value)
    return (3, *_literal_key(value))


def _literal_key(value: Value) -> tuple[Any, ...]:  # noqa: PLR0911  (one return for each kind)
    kind, content = value.kind, value.value
    if kind in NUMERIC_RANK:
        return (0, *_number_key(kind, content))
    if kind in TEMPORAL_KINDS:
        return (1, _KINDS[kind], _instant(content))
    if kind in DURATION_KINDS:
        return (1, _KINDS["duration"], _length(content))
    if kind == "boolean":
        return (2, content)
    if kind == "string":
        return (3, content)
    if kind == "lang":
        return (4, *content)
    return (5, value.term)


def _number_key(kind: str, content: float) -> tuple[Any, ...]:
    """NaN, minus infinity, all others by their exact value, infinity."""
    if kind == "decimal":
        return (2, Fraction(int(content), SCALE))
    if not math.isfinite(content):
        return (0,) if math.isnan(content) else (3 if content > 0 else 1,)
    return (2, Fraction(content))


def _instant(moment: Moment) -> tuple[int, bool]:
    """Without a zone as in UTC, and before the same instant with a zone."""
    return (moment.instant, moment.zone is not None)


def _length(duration: Duration) -> int:
    """By the time it takes from the first of four months that decide."""
    return add("dateTime", Moment(1696, 9, 1, 0, 0), duration).local
