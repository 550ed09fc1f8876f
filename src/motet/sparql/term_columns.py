"""The columns beside a term in tables of quads: its kind, and its value as a number or as an instant.

Comparisons of a compiled query use them where they are exact: numbers of the kinds in `EXACT_NUMBERS` compare as
doubles, dateTimes with a zone as microseconds. Everything else is compared by the functions of `motet.sparql.operators`
on the term itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from motet.sparql.temporal import SCALE
from motet.sparql.values import Value, decode

IRI = 1
BLANK = 2
STRING = 3
LANGUAGE_STRING = 4
BOOLEAN = 5
INTEGER = 10  # at most 2^53
DECIMAL = 11  # below 10^10, at most 15 digits
DOUBLE = 13  # not NaN
INEXACT_NUMBER = 14  # every other number: xsd:float, NaN, and those with more digits
INSTANT = 20  # a dateTime with a zone, in whole microseconds of 64 bits
DATE_TIME = 21  # every other dateTime: ``ots`` is its instant as in UTC, rounded down, within 64 bits
OTHER = 30

EXACT_NUMBERS = (INTEGER, DECIMAL, DOUBLE)
_MICROSECOND = SCALE // 1_000_000
_MAX_MICROSECONDS = 2**63 - 1


class TermColumns(NamedTuple):
    okind: int
    onum: float | None
    ots: int | None


def term_columns(term: str) -> TermColumns:
    """
    >>> term_columns('"01"^^<http://www.w3.org/2001/XMLSchema#integer>')
    TermColumns(okind=10, onum=1.0, ots=None)
    """
    if term.startswith("<"):
        return _IRI_COLUMNS
    value = decode(term)
    if value.kind in _PLAIN:
        return _PLAIN[value.kind]
    if value.kind in _NUMBERS:
        return _number(value)
    if value.kind == "boolean":
        return TermColumns(BOOLEAN, float(value.value), None)
    if value.kind == "dateTime":
        microseconds, rest = divmod(value.value.instant, _MICROSECOND)
        is_exact = value.value.zone is not None and not rest and abs(microseconds) < _MAX_MICROSECONDS
        bounded = max(-_MAX_MICROSECONDS, min(microseconds, _MAX_MICROSECONDS))
        return TermColumns(INSTANT if is_exact else DATE_TIME, None, bounded)
    return TermColumns(OTHER, None, None)


def _number(value: Value) -> TermColumns:
    number = value.value
    if value.kind == "integer":
        return TermColumns(INTEGER if abs(number) <= 2**53 else INEXACT_NUMBER, float(number), None)
    if value.kind == "decimal":
        is_exact = abs(number) < 10**10 * SCALE and len(str(abs(number)).rstrip("0")) <= 15
        return TermColumns(DECIMAL if is_exact else INEXACT_NUMBER, number / SCALE, None)
    if value.kind == "double" and not math.isnan(number):
        return TermColumns(DOUBLE, number, None)
    return TermColumns(INEXACT_NUMBER, None if math.isnan(number) else number, None)


_NUMBERS = frozenset({"integer", "decimal", "float", "double"})
_IRI_COLUMNS = TermColumns(IRI, None, None)
_PLAIN = {
    "blank": TermColumns(BLANK, None, None),
    "string": TermColumns(STRING, None, None),
    "lang": TermColumns(LANGUAGE_STRING, None, None),
}
