"""The machine-code half of the values: what a term is worth in a comparison, where that is quick to say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from motet.engine.match.texts import same
from motet.jit.compiled import inlined

Bytes = npt.NDArray[np.uint8]

_MORE, _QUOTE, _HASH, _PLUS, _MINUS, _DOT, _COLON = 62, 34, 35, 43, 45, 46, 58
_NONE, _NUMBER, _INSTANT, _INEXACT, _SLOW = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(255)
_XSD = np.frombuffer(b'"^^<http://www.w3.org/2001/XMLSchema#', np.uint8)
_INTEGER = np.frombuffer(_XSD.tobytes() + b"integer>", np.uint8)
_DECIMAL = np.frombuffer(_XSD.tobytes() + b"decimal>", np.uint8)
_DOUBLE = np.frombuffer(_XSD.tobytes() + b"double>", np.uint8)
_DATETIME = np.frombuffer(_XSD.tobytes() + b"dateTime>", np.uint8)
_TENS = np.array([10.0**power for power in range(23)])
_FIVES = np.array([5**power for power in range(19)], np.int64)
_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@inlined
def value_of(data: Bytes, start: int, end: int) -> tuple[float, np.uint8]:
    """The value of a term and its kind; the kind ``255`` asks for a slower look."""
    if data[np.uint64(start)] != _QUOTE or data[np.uint64(end - 1)] != _MORE:
        return 0.0, _NONE
    if _has_type(data, start, end, _INTEGER):
        return _decimal(data, start + 1, end - _INTEGER.size, False, False)
    if _has_type(data, start, end, _DECIMAL):
        return _decimal(data, start + 1, end - _DECIMAL.size, False, True)
    if _has_type(data, start, end, _DOUBLE):
        return _decimal(data, start + 1, end - _DOUBLE.size, True, True)
    if _has_type(data, start, end, _DATETIME):
        return _instant(data, start + 1, end - _DATETIME.size)
    return 0.0, _SLOW if _is_schema_typed(data, start, end) else _NONE


@inlined
def _has_type(data: Bytes, start: int, end: int, ending: Bytes) -> bool:
    """Whether a literal ends so."""
    return end - start > ending.size and same(data, end - ending.size, end, ending, 0, ending.size)


@inlined
def _is_schema_typed(data: Bytes, start: int, end: int) -> bool:
    """Whether a literal has an XML Schema datatype."""
    at = end - 2
    while at > start and data[np.uint64(at)] != _HASH and end - at < 24:
        at -= 1
    return _has_type(data, start, at + 1, _XSD)


@inlined
def _digits(data: Bytes, at: int, count: int) -> np.int64:
    """A number of so many digits, or -1."""
    value = np.int64(0)
    for place in range(at, at + count):
        digit = np.int64(data[np.uint64(place)]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@inlined
def _decimal(data: Bytes, at: int, end: int, exponents: bool, fractions: bool) -> tuple[float, np.uint8]:
    """A number of up to 15 digits; the rest is slow."""
    sign = data[np.uint64(at)] if at < end else 0
    negative = sign == _MINUS
    at += negative or sign == _PLUS
    value, digits, power, fraction = np.int64(0), 0, 0, False
    while at < end:
        digit = np.int64(data[np.uint64(at)]) - 48
        if 0 <= digit <= 9:
            value = value * 10 + digit
            digits += 1
            power -= 1 if fraction else 0
        elif digit == _DOT - 48 and fractions and not fraction:
            fraction = True
        else:
            break
        at += 1
    if digits == 0 or digits > 15:
        return 0.0, _SLOW
    if at < end and exponents and (data[at] == 69 or data[at] == 101):
        at += 1
        down = at < end and data[at] == _MINUS
        if at < end and (data[at] == _MINUS or data[at] == _PLUS):
            at += 1
        shift = _digits(data, at, end - at) if 0 < end - at <= 2 else -1
        if shift < 0:
            return 0.0, _SLOW
        power += -shift if down else shift
        at = end
    if at < end or power < -22 or power > 22:
        return 0.0, _SLOW
    near = value * _TENS[power] if power >= 0 else value / _TENS[-power]
    exact = exponents or power == 0 or (power > -19 and value % _FIVES[-power] == 0)
    return (-near if negative else near), (_NUMBER if exact else _NUMBER | _INEXACT)


@inlined
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@inlined
def _instant(data: Bytes, at: int, end: int) -> tuple[float, np.uint8]:  # noqa: PLR0911  (what is odd is slow)
    """A dateTime with a zone and at most six fraction digits between 1700 and 2249; the rest is slow."""
    if end - at < 20 or data[at + 4] != _MINUS or data[at + 7] != _MINUS or data[at + 10] != 84:
        return 0.0, _SLOW
    if data[at + 13] != _COLON or data[at + 16] != _COLON:
        return 0.0, _SLOW
    year, month, day = _digits(data, at, 4), _digits(data, at + 5, 2), _digits(data, at + 8, 2)
    hour, minute, second = _digits(data, at + 11, 2), _digits(data, at + 14, 2), _digits(data, at + 17, 2)
    if year < 1700 or year > 2249 or not 1 <= month <= 12 or day < 1:
        return 0.0, _SLOW
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _MONTHS[month - 1] + leap or not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 59:
        return 0.0, _SLOW
    micros, at = 0, at + 19
    if data[at] == _DOT:
        at += 1
        length = 0
        while at + length < end and 48 <= data[at + length] <= 57:
            length += 1
        if not 1 <= length <= 6:
            return 0.0, _SLOW
        micros = _digits(data, at, length) * np.int64(_TENS[6 - length])
        at += length
    zone = 0
    if not (end - at == 1 and data[at] == 90):
        if end - at != 6 or (data[at] != _PLUS and data[at] != _MINUS) or data[at + 3] != _COLON:
            return 0.0, _SLOW
        hours, minutes = _digits(data, at + 1, 2), _digits(data, at + 4, 2)
        if not 0 <= hours <= 13 or not 0 <= minutes <= 59:
            return 0.0, _SLOW
        zone = (hours * 60 + minutes) * (1 if data[at] == _PLUS else -1)
    seconds = _days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone * 60
    return float(seconds * 1000000 + micros), _INSTANT
