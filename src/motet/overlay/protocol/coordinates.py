"""Coordinates of a CAN: Unicode text in lexicographic order, with exact arithmetic, and the coordinates of RDF terms.

A coordinate is read as a fraction in radix n: each character is a digit, the first one the most significant. The digits
are the scalar values of an `Alphabet`, so a result never contains a surrogate. Text outside the alphabet is legal; it
lies at the edge of the space. `None` is the bound above all text.
"""

from __future__ import annotations

import enum
import math
import re
import struct
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from motet.model.errors import UsageError
from motet.model.terms import literal_parts
from motet.sparql.temporal import SCALE, TEMPORAL_KINDS
from motet.sparql.values import NUMERIC_RANK, Value, decode

CanPoint: TypeAlias = tuple[str, ...]
UpperBound: TypeAlias = str | None  # an upper bound: None lies above all text

_SURROGATES = range(0xD800, 0xE000)
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_ARITHMETIC = 64  # characters of a coordinate that count in a centroid


def is_text(coordinate: str) -> bool:
    """Whether a coordinate has scalar values only.

    >>> is_text("ok"), is_text("\\ud800")
    (True, False)
    """
    return coordinate.isascii() or _SURROGATE.search(coordinate) is None


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The characters that bounds of zones are made of: one block of Unicode, all of it by default.

    >>> Alphabet().radix
    1112064
    >>> Alphabet("a", "z").middle("", None), Alphabet("a", "z").middle("a", "b")
    ('n', 'an')
    """

    first: str = "\0"
    last: str = "\U0010ffff"

    def __post_init__(self) -> None:
        if len(self.first) != 1 or len(self.last) != 1 or not is_text(self.first + self.last):
            raise UsageError("the bounds of an alphabet are not single characters", advice='Write Alphabet("a", "z").')
        if self.radix < 2:
            raise UsageError(f"the alphabet {self.first!r} to {self.last!r} is too small", advice="It needs two.")

    @property
    def radix(self) -> int:
        return _scalar(self.last) - _scalar(self.first) + 1

    def value(self, coordinate: UpperBound) -> Fraction:
        """The place of a coordinate in the space, from 0 to 1. The order of text is the order of values.

        >>> Alphabet("a", "b").value("bab")
        Fraction(5, 8)
        """
        return Fraction(1) if coordinate is None else _value(self, coordinate)

    def middle(self, lower: str, upper: UpperBound) -> str | None:
        """The text halfway between two bounds, or None if they are too close.

        In an odd radix halves have no end; the result is cut one digit behind the longer bound.
        """
        low, high = self.value(lower), self.value(upper)
        return self._text((low + high) / 2, max(len(lower), len(upper or "")) + 1) if low < high else None

    def clamp_between(self, value: Fraction, lower: str, upper: UpperBound) -> str | None:
        """The text of a value as a bound strictly between two bounds; their middle where the value allows none."""
        text = self._text(max(value, Fraction(0)), MAX_ARITHMETIC) if value < 1 else None
        if text is None or not lower < text or (upper is not None and text >= upper):
            return self.middle(lower, upper)
        return text if self.value(lower) < self.value(text) < self.value(upper) else self.middle(lower, upper)

    def text_at(self, numerator: int, denominator: int) -> str:
        """A short text at about a fraction of the space.

        >>> Alphabet("a", "z").text_at(1, 2)
        'n'
        """
        return self._text(Fraction(numerator, denominator), 4 if self.radix > 1000 else 16)

    def just_below(self, bound: str) -> str:
        """Text below a bound made by this alphabet, and above every other bound that such bounds reach in practice."""
        digits = bound.rstrip(self.first)
        below = _character(_scalar(digits[-1]) - 1) if digits else ""
        return digits[:-1] + below + self.last * (MAX_ARITHMETIC + 8) if digits else ""

    def _text(self, value: Fraction, digits: int) -> str:
        """The first digits of a value below 1, without zeros at the end."""
        scaled = value.numerator * self.radix**digits // value.denominator
        characters = []
        for _ in range(digits):
            scaled, digit = divmod(scaled, self.radix)
            characters.append(_character(_scalar(self.first) + digit))
        return "".join(reversed(characters)).rstrip(self.first)


@lru_cache(maxsize=65_536)
def _value(alphabet: Alphabet, coordinate: str) -> Fraction:
    """Text outside the alphabet has the value of the edge that it lies beyond."""
    first, radix = _scalar(alphabet.first), alphabet.radix
    numerator, length = 0, 0
    for character in coordinate[:MAX_ARITHMETIC]:
        digit = _scalar(character) - first
        if digit < 0:
            break
        length += 1
        numerator = numerator * radix + min(digit, radix)
        if digit >= radix:
            break
    return Fraction(numerator, radix**length)


def _scalar(character: str) -> int:
    """The index of a character among the scalar values, which leave out the surrogates."""
    code = ord(character)
    return code if code < _SURROGATES.start else code - len(_SURROGATES)


def _character(scalar: int) -> str:
    return chr(scalar if scalar < _SURROGATES.start else scalar + len(_SURROGATES))


@dataclass(slots=True)
class Centroid:
    """The mean of a multiset of coordinates, updated as they are added and removed.

    >>> centroid = Centroid(Alphabet("a", "z"))
    >>> for text in ("b", "d"):
    ...     centroid.add(text)
    >>> centroid.between("", None)
    'c'
    """

    alphabet: Alphabet
    count: int = 0
    total: Fraction = field(default_factory=Fraction)

    def add(self, coordinate: str) -> None:
        self.count += 1
        self.total += self.alphabet.value(coordinate)

    def remove(self, coordinate: str) -> None:
        self.count -= 1
        self.total -= self.alphabet.value(coordinate)

    def between(self, lower: str, upper: UpperBound) -> str | None:
        """The mean as a bound strictly between two bounds, or their middle if there is no such mean."""
        if not self.count:
            return self.alphabet.middle(lower, upper)
        return self.alphabet.clamp_between(self.total / self.count, lower, upper)


class CoordinateRange(NamedTuple):
    """Coordinates from `low` to `high`, both included; `high` None has no end. The default is a free variable."""

    low: str = ""
    high: UpperBound = None

    def contains(self, coordinate: str) -> bool:
        return self.low <= coordinate and (self.high is None or coordinate <= self.high)

    @property
    def is_fixed(self) -> bool:
        return self.low == self.high


FREE = CoordinateRange()


# Coordinates of RDF terms

_NUMBER, _BOOLEAN, _TIME = "#", "?", "@"
_END = "~"  # above every digit of a coordinate by value
_WITHOUT_ZONE = int(timedelta(hours=14).total_seconds()) * SCALE  # how far a time without a zone may be from UTC


class Transformation(enum.Enum):
    """What is done to terms before they become coordinates of a dimension. All but NONE break the order of terms."""

    NONE = "none"
    PREFIX_REMOVAL = "prefix removal"  # what follows the last / or # of an IRI
    REVERSAL = "reversal"


def coordinate(term: str, transformation: Transformation = Transformation.NONE) -> str:
    """The coordinate of a term in canonical N-Triples form.

    IRIs and plain text are their own coordinates. Numbers, booleans, dates and times have coordinates by value: the
    order of coordinates is the order of values, whatever the lexical form.

    >>> coordinate("<urn:e:1>"), coordinate('"hot"@en'), coordinate("<http://e.org/a#b>", Transformation.PREFIX_REMOVAL)
    ('urn:e:1', 'hot', 'b')
    >>> XSD = "http://www.w3.org/2001/XMLSchema#"
    >>> coordinate(f'"25"^^<{XSD}integer>') < coordinate(f'"1e2"^^<{XSD}double>')
    True
    """
    value = decode(term)
    text = _coordinate_by_value(value)
    if text is not None:
        return text
    content = value.value if value.kind == "iri" else literal_parts(term)[0]
    if transformation is Transformation.PREFIX_REMOVAL and value.kind == "iri":
        return content[max(content.rfind("/"), content.rfind("#")) + 1 :]
    return content[::-1] if transformation is Transformation.REVERSAL else content


def value_range(
    low: str | None, high: str | None, transformation: Transformation = Transformation.NONE
) -> CoordinateRange | None:
    """The coordinates of all terms that compare as at least `low` and at most `high`; None if they are in no order.

    The interval may hold other terms, too: it decides where to search, not what matches.

    >>> XSD = "http://www.w3.org/2001/XMLSchema#"
    >>> ages = value_range(f'"25"^^<{XSD}integer>', None)
    >>> ages.contains(coordinate(f'"100"^^<{XSD}integer>')), ages.contains(coordinate(f'"9"^^<{XSD}integer>'))
    (True, False)
    """
    values = [decode(term) for term in (low, high) if term is not None]
    kinds = [_kind(value) for value in values]
    kind = kinds[0] if kinds else None
    if kind is None or kinds.count(kind) < len(kinds):
        return None
    if kind == "text":
        if transformation is not Transformation.NONE:
            return None
        return CoordinateRange("" if low is None else coordinate(low), None if high is None else coordinate(high))
    return CoordinateRange(
        kind if low is None else _widened(decode(low), -1),
        f"{kind}{_END}" if high is None else _widened(decode(high), 1),
    )


def _kind(value: Value) -> str | None:
    """What a value is comparable with, as the beginning of coordinates; None without an order."""
    if value.kind in NUMERIC_RANK and not math.isnan(value.value):
        return _NUMBER
    if value.kind in TEMPORAL_KINDS:
        return f"{_TIME}{value.kind} "
    if value.kind == "boolean":
        return _BOOLEAN
    return "text" if value.kind in ("string", "iri") else None


def _coordinate_by_value(value: Value) -> str | None:
    if value.kind in NUMERIC_RANK and not math.isnan(value.value):
        return _NUMBER + _ordered_double(_as_double(value))
    if value.kind == "boolean":
        return f"{_BOOLEAN}{int(value.value)}"
    if value.kind in TEMPORAL_KINDS:
        return f"{_TIME}{value.kind} {_ordered_instant(value.value.instant)}"
    return None


def _widened(value: Value, direction: int) -> str:
    """The coordinate of a bound, moved outwards so far that no equal value of another type is beyond it."""
    if value.kind in NUMERIC_RANK:
        number = _as_double(value)
        margin = max(abs(number) * 2**-22, 2**-140) if math.isfinite(number) else 0.0  # single precision
        return _NUMBER + _ordered_double(number + direction * margin)
    if value.kind == "boolean":
        return f"{_BOOLEAN}{int(value.value)}"
    return f"{_TIME}{value.kind} {_ordered_instant(value.value.instant + direction * _WITHOUT_ZONE)}"


def _as_double(value: Value) -> float:
    return value.value / SCALE if value.kind == "decimal" else float(value.value)


def _ordered_double(number: float) -> str:
    """Sixteen hexadecimal digits whose order is that of the numbers.

    >>> _ordered_double(-1.5) < _ordered_double(-0.0) == _ordered_double(0.0) < _ordered_double(math.inf)
    True
    """
    (bits,) = struct.unpack(">Q", struct.pack(">d", number + 0.0))
    return f"{bits ^ (2**64 - 1) if bits >> 63 else bits | 1 << 63:016x}"


def _ordered_instant(instant: int) -> str:
    return f"{instant + 2**127:032x}"
