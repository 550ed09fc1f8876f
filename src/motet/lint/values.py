"""Which values a variable could take, as far as comparisons with constants can tell them apart.

The truth of ``?x > 5 && ?x < 3`` depends only on where ``?x`` lies between 3 and 5. So for the constants of some
conditions there are a few *samples*, and every value behaves like one of them: on each constant, between each two, and
of another kind altogether. SPARQL compares numbers of different datatypes after rounding; constants that rounding
could confuse are therefore given up, and nothing is claimed about them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise

from motet.model.terms import XSD, is_iri, literal_parts
from motet.model.times import parse_datetime

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_EXACT = frozenset(XSD + name for name in ("integer", "decimal", "int", "long", "short", "byte"))
_INEXACT = frozenset({XSD + "double"})
_INSTANT = re.compile(r"[0-9]{4}-[0-9T:-]*(?:\.[0-9]{1,6})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


class Kind(Enum):
    """What can be compared with what."""

    NUMBER = "a number"
    INSTANT = "an instant"
    STRING = "a string"
    IRI = "an IRI"
    OTHER = "something else"
    NOT_A_NUMBER = "NaN"
    UNBOUND = "unbound"


@dataclass(frozen=True, slots=True)
class Value:
    """A sample, or the value of a constant; ``place`` orders values of one kind."""

    kind: Kind
    place: Fraction | str = ""
    exact: bool = True  # a number that is compared without rounding


UNBOUND = Value(Kind.UNBOUND)
_STRANGERS = (Value(Kind.OTHER), Value(Kind.NOT_A_NUMBER), Value(Kind.IRI, ""), UNBOUND)


def value_of(term: str) -> Value | None:
    """The value of a constant; None if nothing is known about how it compares.

    >>> value_of('"5"^^<http://www.w3.org/2001/XMLSchema#integer>') == value_of('"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    True
    """
    if is_iri(term):
        return Value(Kind.IRI, term)
    text, datatype, language = literal_parts(term)
    if language is not None:
        return None
    if datatype == XSD + "string":
        return Value(Kind.STRING, text)
    if datatype in _EXACT | _INEXACT and _NUMBER.fullmatch(text) and (datatype in _INEXACT or "e" not in text.lower()):
        return Value(Kind.NUMBER, Fraction(text), datatype in _EXACT)
    if datatype == XSD + "dateTime" and _INSTANT.fullmatch(text):
        return _instant(text)
    return None


def _instant(text: str) -> Value | None:
    try:
        return Value(Kind.INSTANT, Fraction(parse_datetime(text)))
    except ValueError:
        return None


def samples(constants: Iterable[Value]) -> tuple[Value, ...] | None:
    """Values such that every value compares with the constants as one of them does; None: nothing can be said.

    >>> [int(one.place * 2) for one in samples([Value(Kind.NUMBER, Fraction(5))]) if one.kind is Kind.NUMBER]
    [10, 8, 12]
    """
    constants = tuple(dict.fromkeys(constants))
    numbers = [one for one in constants if one.kind is Kind.NUMBER]
    if len({_single(one.place) for one in numbers}) < len(numbers):
        return None
    strings = [str(one.place) for one in constants if one.kind is Kind.STRING]
    following = ["", *(after for text in strings for after in (text + "\0", _following(text)))]
    between = [
        *(Value(kind, place) for kind in (Kind.NUMBER, Kind.INSTANT) for place in _around(_places(constants, kind))),
        *(Value(Kind.STRING, text) for text in following),
    ]
    return tuple(dict.fromkeys((*constants, *between, *_STRANGERS)))


def _places(constants: Iterable[Value], kind: Kind) -> list[Fraction]:
    return sorted({Fraction(one.place) for one in constants if one.kind is kind})


def _around(places: list[Fraction]) -> list[Fraction]:
    """One place below, one above and one between each two."""
    if not places:
        return [Fraction(0)]
    inner = [(low + high) / 2 for low, high in pairwise(places)]
    return [places[0] - 1, *inner, places[-1] + 1]


def _following(text: str) -> str:
    """The first string that does not begin with the text and comes after all that do."""
    stripped = text.rstrip("\U0010ffff")
    return stripped[:-1] + chr(ord(stripped[-1]) + 1) if stripped else text + "\0"


def _single(place: Fraction | str) -> float:
    """A number as xsd:float, the coarsest form in which numbers are compared."""
    try:
        found: float = struct.unpack("f", struct.pack("f", float(place)))[0]
    except OverflowError:
        return float("inf") if Fraction(place) > 0 else float("-inf")
    return found
