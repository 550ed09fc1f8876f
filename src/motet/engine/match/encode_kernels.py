"""The machine-code half of the encoder: string buffers in, arrays of numbers out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.compiled import compiled, inner, making
from motet.engine.match.texts import Codes, Ints, Numbers, Table, Texts, code, lookup, same, span
from motet.engine.match.vocabulary import Lists, Vocabulary

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

_TYPE = 0
_PREDICATE, _REF, _KIND = range(3)  # columns of a row
_LESS, _MORE, _QUOTE, _HASH, _PLUS, _MINUS, _DOT, _COLON = 60, 62, 34, 35, 43, 45, 46, 58
_NUMBER, _INSTANT, _INEXACT, _SLOW = np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(255)
_XSD = np.frombuffer(b'"^^<http://www.w3.org/2001/XMLSchema#', np.uint8)
_INTEGER = np.frombuffer(_XSD.tobytes() + b"integer>", np.uint8)
_DECIMAL = np.frombuffer(_XSD.tobytes() + b"decimal>", np.uint8)
_DOUBLE = np.frombuffer(_XSD.tobytes() + b"double>", np.uint8)
_DATETIME = np.frombuffer(_XSD.tobytes() + b"dateTime>", np.uint8)
_TENS = np.array([10.0**power for power in range(23)])
_FIVES = np.array([5**power for power in range(19)], np.int64)
_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@inner
def _is_event(ids: Texts, event: int, terms: Texts, row: int) -> bool:
    """Whether a term is the event's IRI."""
    start, end = span(terms, row)
    begin, stop = span(ids, event)
    if end - start != stop - begin + 2:
        return False
    if terms.data[np.uint64(start)] != _LESS or terms.data[np.uint64(end - 1)] != _MORE:
        return False
    return same(terms.data, start + 1, end - 1, ids.data, begin, stop)


@making
def _grown(row: Numbers, codes: Codes, room: int) -> tuple[Numbers, Codes]:
    rows, more = np.empty((room, 3), np.int32), np.empty(room, np.uint64)
    for at in range(codes.size):
        _move(row, codes, at, rows, more, at)
    return rows, more


@inner
def _move(row: Numbers, codes: Codes, at: int, rows: Numbers, more: Codes, to: int) -> None:
    _put(rows, more, to, row[at, _PREDICATE], codes[at], row[at, _REF])


@inner
def _rise(row: Numbers, begin: int, end: int) -> bool:
    """Whether each of an event's rows has a later predicate than the one before: then they are in order, each once."""
    at = begin + 1
    while at < end and row[np.uint64(at - 1), _PREDICATE] < row[np.uint64(at), _PREDICATE]:
        at += 1
    return at >= end


@inner
def _order(row: Numbers, codes: Codes, begin: int, end: int) -> None:
    """Sort an event's rows by predicate, then code: by insertion, in ever smaller steps (Shell's sort)."""
    step = 1
    while step < (end - begin) // 3:
        step = 3 * step + 1
    while step:
        for place in range(begin + step, end):
            predicate, ref, own = row[place, _PREDICATE], row[place, _REF], codes[place]
            at = place
            while at >= begin + step and (
                row[at - step, _PREDICATE] > predicate
                or (row[at - step, _PREDICATE] == predicate and codes[at - step] > own)
            ):
                _move(row, codes, at - step, row, codes, at)
                at -= step
            row[at, _PREDICATE], row[at, _REF], codes[at] = predicate, ref, own
        step //= 3


@inner
def _equal_terms(objects: Texts, classes: Texts, left: int, right: int) -> bool:
    """Whether two references are to the same term; those behind the objects are to classes."""
    count = objects.offsets.size - 1
    one, other = (objects if left < count else classes), (objects if right < count else classes)
    i, j = (left if left < count else left - count), (right if right < count else right - count)
    return same(one.data, *span(one, i), other.data, *span(other, j))


@inner
def _distinct(row: Numbers, codes: Codes, begin: int, end: int, objects: Texts, classes: Texts) -> int:
    """Keep each sorted row of an event once; where they end now."""
    kept = begin
    for place in range(begin, end):
        at, known = kept, False
        while (
            not known
            and at > begin
            and codes[at - 1] == codes[place]
            and row[at - 1, _PREDICATE] == row[place, _PREDICATE]
        ):
            at -= 1
            known = _equal_terms(objects, classes, row[at, _REF], row[place, _REF])
        if not known:
            _move(row, codes, place, row, codes, kept)
            kept += 1
    return kept


@inner
def _put(row: Numbers, codes: Codes, size: int, predicate: int, code_: np.uint64, ref: int) -> int:
    at = np.uint64(size)
    row[at, _PREDICATE], row[at, _REF], codes[at] = predicate, ref, code_
    return size + 1


@inner
def _put_classes(row: Numbers, codes: Codes, size: int, found: Lists, at: int, known: Table, count: int) -> int:
    """An event is a member of some classes; references to them follow those to the objects."""
    for place in range(found.starts[at], found.starts[at + 1]):
        size = _put(row, codes, size, _TYPE, known.codes[found.values[place]], count + found.values[place])
    return size


@making
def _begun(
    row: Numbers, codes: Codes, begin: int, end: int, objects: Texts, known: Vocabulary
) -> tuple[Numbers, Codes, int]:
    """The rows of an event, and rows for the first bytes of values that are tested for prefixes."""
    size, count = end, objects.offsets.size - 1
    for at in range(begin, end):
        ref, predicate = row[at, _REF], row[at, _PREDICATE]
        found, terms = known.beginnings, objects if ref < count else known.classes.strings
        place = ref if ref < count else ref - count
        first, last = span(terms, place)
        if size + _length(found, predicate) > codes.size:
            row, codes = _grown(row, codes, 2 * (size + _length(found, predicate)))
        for spec in range(found.starts[predicate], found.starts[predicate + 1], 3):
            length = found.values[spec + 1]
            is_string = terms.data[first] == _QUOTE and terms.data[last - 1] != _MORE
            if first + 1 + length < last and (is_string or found.values[spec + 2]):
                size = _put(row, codes, size, found.values[spec], code(terms.data, first + 1, first + 1 + length), ref)
    return row, codes, size


@inner
def _predicate(predicates: Texts, triple: int, before: int, numbers: Numbers, known: Table) -> int:
    """The number of a triple's predicate, or -1; most likely it is that of the same place in the event before."""
    start, end = span(predicates, triple)
    if before >= 0 and same(predicates.data, start, end, predicates.data, *span(predicates, before)):
        return numbers[np.uint64(before)]
    return lookup(known, code(predicates.data, start, end), predicates.data, start, end)


@inner
def _length(found: Lists, at: int) -> int:
    return found.starts[np.uint64(at + 1)] - found.starts[np.uint64(at)]


@compiled
def encode_rows(events: Ints, *tables: npt.NDArray[Any]) -> tuple[Ints, Numbers, Codes, Floats]:
    """The triples about each event that somebody may ask for, with what the hierarchy says, sorted, each once.

    Returns where each event's rows start, and by row the predicate with a reference to the object and the kind of its
    value, the object's code, and its value; the kind ``255`` asks for a slower look. The tables are those of ids,
    subjects, predicates and objects, and of the vocabulary, one by one: Numba takes long to look at tuples.
    """
    ids, subjects = Texts(tables[0], tables[1]), Texts(tables[2], tables[3])
    predicates, objects = Texts(tables[4], tables[5]), Texts(tables[6], tables[7])
    known = Vocabulary(
        Table(Texts(tables[8], tables[9]), tables[10], tables[11]),
        tables[12],
        Table(Texts(tables[13], tables[14]), tables[15], tables[16]),
        Lists(tables[17], tables[18]),
        Lists(tables[19], tables[20]),
        Lists(tables[21], tables[22]),
        Lists(tables[23], tables[24]),
        Lists(tables[25], tables[26]),
    )
    starts, row, codes = _sorted_rows(events, ids, subjects, predicates, objects, known)
    row, codes = row[: starts[-1]], codes[: starts[-1]]
    return starts, row, codes, _values(row, objects, known.compared)


@making
def _sorted_rows(
    events: Ints, ids: Texts, subjects: Texts, predicates: Texts, objects: Texts, known: Vocabulary
) -> tuple[Ints, Numbers, Codes]:
    count = objects.offsets.size - 1
    starts = np.zeros(events.size, np.int64)
    row, codes = np.empty((2 * count + 64, 3), np.int32), np.empty(2 * count + 64, np.uint64)
    numbers = np.empty(count, np.int32)  # of the predicates
    size = 0
    for event in range(events.size - 1):
        begin = size
        for triple in range(events[event], events[event + 1]):
            before = triple - events[event] + events[event - 1] if event else triple
            number = _predicate(predicates, triple, before if before < events[event] else -1, numbers, known.predicates)
            numbers[np.uint64(triple)] = number
            if number < 0:
                continue
            about, types = _is_event(ids, event, subjects, triple), _length(known.ranges, number)
            if not about and types == 0:
                continue
            start, end = span(objects, triple)
            own = code(objects.data, start, end)
            class_ = -1
            if about and number == _TYPE and known.classes.codes.size:
                class_ = lookup(known.classes, own, objects.data, start, end)
            most = 1 + _length(known.superproperties, number) + _length(known.domains, number) + types
            most += _length(known.superclasses, class_) if class_ >= 0 else 0
            if size + most > codes.size:
                row, codes = _grown(row, codes, 2 * (size + most))
            if about:
                size = _put(row, codes, size, number, own, triple)
                for place in range(known.superproperties.starts[number], known.superproperties.starts[number + 1]):
                    size = _put(row, codes, size, known.superproperties.values[place], own, triple)
                size = _put_classes(row, codes, size, known.domains, number, known.classes, count)
            if class_ >= 0:
                size = _put_classes(row, codes, size, known.superclasses, class_, known.classes, count)
            if types and _is_event(ids, event, objects, triple):
                size = _put_classes(row, codes, size, known.ranges, number, known.classes, count)
        if known.beginnings.values.size:
            row, codes, size = _begun(row, codes, begin, size, objects, known)
        if not _rise(row, begin, size):
            _order(row, codes, begin, size)
            size = _distinct(row, codes, begin, size, objects, known.classes.strings)
        starts[event + 1] = size
    return starts, row, codes


@inner
def _has_type(data: Bytes, start: int, end: int, ending: Bytes) -> bool:
    """Whether a literal ends so."""
    return end - start > ending.size and same(data, end - ending.size, end, ending, 0, ending.size)


@inner
def _is_schema_typed(data: Bytes, start: int, end: int) -> bool:
    """Whether a literal has an XML Schema datatype."""
    at = end - 2
    while at > start and data[np.uint64(at)] != _HASH and end - at < 24:
        at -= 1
    return _has_type(data, start, at + 1, _XSD)


@inner
def _digits(data: Bytes, at: int, count: int) -> np.int64:
    """A number of so many digits, or -1."""
    value = np.int64(0)
    for place in range(at, at + count):
        digit = np.int64(data[np.uint64(place)]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@inner
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


@inner
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01."""
    year -= month <= 2
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@inner
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


@making
def _values(row: Numbers, objects: Texts, compared: npt.NDArray[np.bool_]) -> Floats:
    """What the objects of compared predicates are worth; their kinds go into the rows."""
    values = np.zeros(row.shape[0], np.float64)
    data, offsets = objects.data, objects.offsets
    for at in range(row.shape[0]):
        ref = row[at, _REF]
        row[at, _KIND] = 0
        if not compared[row[at, _PREDICATE]] or ref >= offsets.size - 1:
            continue
        start, end = span(objects, ref)
        if data[np.uint64(start)] != _QUOTE or data[np.uint64(end - 1)] != _MORE:
            continue
        if _has_type(data, start, end, _INTEGER):
            values[at], row[at, _KIND] = _decimal(data, start + 1, end - _INTEGER.size, False, False)
        elif _has_type(data, start, end, _DECIMAL):
            values[at], row[at, _KIND] = _decimal(data, start + 1, end - _DECIMAL.size, False, True)
        elif _has_type(data, start, end, _DOUBLE):
            values[at], row[at, _KIND] = _decimal(data, start + 1, end - _DOUBLE.size, True, True)
        elif _has_type(data, start, end, _DATETIME):
            values[at], row[at, _KIND] = _instant(data, start + 1, end - _DATETIME.size)
        elif _is_schema_typed(data, start, end):
            row[at, _KIND] = _SLOW
    return values
