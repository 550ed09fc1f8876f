"""The columns beside a term in tables of quads: its kind, and its value as a number or as an instant.

Comparisons of a compiled query use them where they are exact: numbers of the kinds in `EXACT_NUMBERS` compare as
doubles, dateTimes with a zone as microseconds. Everything else is compared by the functions of `motet.sparql.operators`
on the term itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from motet.model.terms import XSD
from motet.sparql.temporal import SCALE
from motet.sparql.values import Value, decode

if TYPE_CHECKING:
    import pyarrow as pa

IRI = 1
BLANK = 2
STRING = 3
LANGUAGE_STRING = 4
BOOLEAN = 5
INTEGER = 10  # at most 2^53
DECIMAL = 11  # below 10^10, at most 15 digits
MILLIONTHS = 12  # a decimal of whole millionths below 10^9
DOUBLE = 13  # not NaN
INEXACT_NUMBER = 14  # every other number: xsd:float, NaN, and those with more digits
FIXED_DOUBLE = 15  # a double below 2^53 that is a multiple of 2^-96
INSTANT = 20  # a dateTime with a zone, in whole microseconds of 64 bits
DATE_TIME = 21  # every other dateTime: ``ots`` is its instant as in UTC, rounded down, within 64 bits
OTHER = 30

EXACT_NUMBERS = (INTEGER, DECIMAL, MILLIONTHS, DOUBLE, FIXED_DOUBLE)
NUMBERS = (*EXACT_NUMBERS, INEXACT_NUMBER)
ALL_KINDS = frozenset({IRI, BLANK, STRING, LANGUAGE_STRING, BOOLEAN, *NUMBERS, INSTANT, DATE_TIME, OTHER})
OF_COLUMN = {"onum": frozenset({BOOLEAN, *NUMBERS}), "ots": frozenset({INSTANT, DATE_TIME})}  # the kinds with a value
_MILLIONTH = SCALE // 1_000_000
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
    if value.kind in _NUMBER_TYPES:
        return _number(value)
    if value.kind == "boolean":
        return TermColumns(BOOLEAN, float(value.value), None)
    if value.kind == "dateTime":
        microseconds, rest = divmod(value.value.instant, _MILLIONTH)
        is_exact = value.value.zone is not None and not rest and abs(microseconds) < _MAX_MICROSECONDS
        bounded = max(-_MAX_MICROSECONDS, min(microseconds, _MAX_MICROSECONDS))
        return TermColumns(INSTANT if is_exact else DATE_TIME, None, bounded)
    return TermColumns(OTHER, None, None)


def _number(value: Value) -> TermColumns:
    number = value.value
    if value.kind == "integer":
        return TermColumns(INTEGER if abs(number) <= 2**53 else INEXACT_NUMBER, float(number), None)
    if value.kind == "decimal":
        if abs(number) < 10**9 * SCALE and number % _MILLIONTH == 0:
            return TermColumns(MILLIONTHS, number / SCALE, None)
        is_exact = abs(number) < 10**10 * SCALE and len(str(abs(number)).rstrip("0")) <= 15
        return TermColumns(DECIMAL if is_exact else INEXACT_NUMBER, number / SCALE, None)
    if value.kind == "double" and not math.isnan(number):
        is_fixed = abs(number) < 2**53 and (number * 2.0**96).is_integer()
        return TermColumns(FIXED_DOUBLE if is_fixed else DOUBLE, number, None)
    return TermColumns(INEXACT_NUMBER, None if math.isnan(number) else number, None)


_NUMBER_TYPES = frozenset({"integer", "decimal", "float", "double"})
_IRI_COLUMNS = TermColumns(IRI, None, None)
_PLAIN = {
    "blank": TermColumns(BLANK, None, None),
    "string": TermColumns(STRING, None, None),
    "lang": TermColumns(LANGUAGE_STRING, None, None),
}


def typed_columns(terms: pa.Array) -> dict[str, pa.Array]:
    """The columns okind, onum and ots of many terms: of the common forms by columns, of the others one by one.

    >>> import pyarrow as pa
    >>> {name: column.to_pylist() for name, column in typed_columns(pa.array(["<urn:a>", '"x"@en'])).items()}
    {'okind': [1, 4], 'onum': [None, None], 'ots': [None, None]}
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = np.zeros(len(terms), np.int8)
    numbers, instants = np.full(len(terms), np.nan), np.zeros(len(terms), np.int64)

    def rows(condition: pa.Array) -> np.ndarray:
        return np.flatnonzero(condition.to_numpy(zero_copy_only=False))

    is_literal = pc.starts_with(terms, '"')
    kinds[rows(pc.starts_with(terms, "<"))] = IRI
    kinds[rows(pc.and_(is_literal, pc.ends_with(terms, '"')))] = STRING
    kinds[rows(pc.match_substring_regex(terms, '^".*"@[A-Za-z0-9-]+$'))] = LANGUAGE_STRING
    for kind, datatype, pattern in _FORMS:
        suffix = f'"^^<{XSD}{datatype}>'
        typed = rows(pc.ends_with(terms, suffix))
        if not len(typed):
            continue
        texts = pc.utf8_slice_codeunits(terms.take(pa.array(typed)), 1, -len(suffix))
        fits = pc.match_substring_regex(texts, f"^(?:{pattern})$")
        typed, texts = typed[rows(fits)], texts.filter(fits)
        kinds[typed] = kind
        if kind == INSTANT:
            instants[typed] = texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        else:  # adding 0 makes 0 of -0, which only doubles have
            numbers[typed] = texts.cast(pa.float64()).to_numpy() + (-0.0 if kind == DOUBLE else 0.0)
    small = np.flatnonzero((kinds == DOUBLE) & (np.abs(numbers) < 2.0**53))
    kinds[small[numbers[small] * 2.0**96 % 1 == 0]] = FIXED_DOUBLE
    has_instant = kinds == INSTANT
    others = np.flatnonzero(kinds == 0)
    for row, term in zip(others.tolist(), terms.take(pa.array(others)).to_pylist(), strict=True):
        kinds[row], number, instant = term_columns(term)
        numbers[row] = np.nan if number is None else number
        instants[row], has_instant[row] = instant or 0, instant is not None
    return {
        "okind": pa.array(kinds),
        "onum": pa.array(numbers, mask=np.isnan(numbers)),
        "ots": pa.array(instants, mask=~has_instant),
    }


_DAYS = "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
_FORMS = (  # lexical forms whose values Arrow reads exactly
    (INTEGER, "integer", "-?[0-9]{1,15}"),
    (MILLIONTHS, "decimal", r"-?[0-9]{1,9}(?:\.[0-9]{1,6})?"),
    (DOUBLE, "double", r"-?[0-9]{1,17}(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,2})?"),
    (INSTANT, "dateTime", rf"[12][0-9]{{3}}-{_DAYS}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,6}})?Z"),
)
