"""The machine-code half of the encoder: string buffers in, arrays of numbers out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.string_column import (
    Hashes,
    Ints,
    Numbers,
    StringColumn,
    Table,
    byte_range,
    equal_bytes,
    lookup,
    string_hash,
)
from motet.jit.compiled import allocating, compiled, inlined

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

COMPARED, IMPLIES = np.uint8(1), np.uint8(2)  # traits of predicates
SUPERPROPERTIES, DOMAINS, RANGES, PREFIXES = range(4)  # lists of predicates

_TYPE, _LISTS = 0, 4
_PREDICATE, _REF, _KIND = range(3)  # columns of a row
_LESS, _MORE, _QUOTE = ord("<"), ord(">"), ord('"')
_HASH, _PLUS, _MINUS, _DOT, _COLON = 35, 43, 45, 46, 58
_NONE, _NUMBER, _INSTANT, _INEXACT, _SLOW = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(4), np.uint8(255)
_XSD = np.frombuffer(b'"^^<http://www.w3.org/2001/XMLSchema#', np.uint8)
_INTEGER = np.frombuffer(_XSD.tobytes() + b"integer>", np.uint8)
_DECIMAL = np.frombuffer(_XSD.tobytes() + b"decimal>", np.uint8)
_DOUBLE = np.frombuffer(_XSD.tobytes() + b"double>", np.uint8)
_DATETIME = np.frombuffer(_XSD.tobytes() + b"dateTime>", np.uint8)
_TENS = np.array([10.0**power for power in range(23)])
_FIVES = np.array([5**power for power in range(19)], np.int64)
_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


class EncodingTables(NamedTuple):
    """The names a set of leaves can see; predicate 0 is rdf:type. All in few arrays: calls with few are quick."""

    offsets: Numbers  # of the names of predicates, then of classes
    data: Bytes
    hashes: Hashes  # of the names
    predicates: Numbers  # slots to find names in, as in a `Table`
    classes: Numbers
    flags: Bytes  # by predicate: whether its values are compared as numbers or instants, and whether it implies rows
    starts: Ints  # of lists: by class the classes above it, then by predicate properties above it, classes of its
    values: Ints  # subjects and objects, and in threes the numbers of beginnings, their lengths, whether of all values


class Triples(NamedTuple):
    """Of some events."""

    events: Ints  # where their triples begin
    ids: StringColumn
    subjects: StringColumn
    predicates: StringColumn
    objects: StringColumn


@inlined
def _is_event(ids: StringColumn, event: int, terms: StringColumn, row: int) -> bool:
    """Whether a term is the event's IRI."""
    start, end = byte_range(terms, row)
    begin, stop = byte_range(ids, event)
    if end - start != stop - begin + 2:
        return False
    if terms.data[np.uint64(start)] != _LESS or terms.data[np.uint64(end - 1)] != _MORE:
        return False
    return equal_bytes(terms.data, start + 1, end - 1, ids.data, begin, stop)


@allocating
def _grown(row: Numbers, codes: Hashes, size: int) -> tuple[Numbers, Hashes]:
    """The first rows, with room for more."""
    room = 2 * codes.size + 64
    rows, more = np.empty((room, 3), np.int32), np.empty(room, np.uint64)
    for at in range(size):
        _move(row, codes, at, rows, more, at)
    return rows, more


@inlined
def _move(row: Numbers, codes: Hashes, at: int, rows: Numbers, more: Hashes, to: int) -> None:
    _put(rows, more, to, row[at, _PREDICATE], codes[at], row[at, _REF])


@inlined
def _rise(row: Numbers, begin: int, end: int) -> bool:
    """Whether each of an event's rows has a later predicate than the one before: then they are in order, each once."""
    at = begin + 1
    while at < end and row[np.uint64(at - 1), _PREDICATE] < row[np.uint64(at), _PREDICATE]:
        at += 1
    return at >= end


@inlined
def _order(row: Numbers, codes: Hashes, begin: int, end: int) -> None:
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


@inlined
def _equal_terms(objects: StringColumn, known: EncodingTables, left: int, right: int) -> bool:
    """Whether two references are to the same term; those behind the objects are to classes."""
    count, names = objects.offsets.size - 1, StringColumn(known.offsets, known.data)
    shift = known.flags.size - count
    one, other = (objects if left < count else names), (objects if right < count else names)
    i, j = (left if left < count else left + shift), (right if right < count else right + shift)
    return equal_bytes(one.data, *byte_range(one, i), other.data, *byte_range(other, j))


@inlined
def _distinct(row: Numbers, codes: Hashes, begin: int, end: int, objects: StringColumn, known: EncodingTables) -> int:
    """Keep each sorted row of an event once; where they end now."""
    kept = begin
    for place in range(begin, end):
        at, is_known = kept, False
        while (
            not is_known
            and at > begin
            and codes[at - 1] == codes[place]
            and row[at - 1, _PREDICATE] == row[place, _PREDICATE]
        ):
            at -= 1
            is_known = _equal_terms(objects, known, row[at, _REF], row[place, _REF])
        if not is_known:
            _move(row, codes, place, row, codes, kept)
            kept += 1
    return kept


@inlined
def _put(row: Numbers, codes: Hashes, size: int, predicate: int, code_: np.uint64, ref: int) -> int:
    at = np.uint64(size)
    row[at, _PREDICATE], row[at, _REF], codes[at] = predicate, ref, code_
    return size + 1


@inlined
def _listed(known: EncodingTables, number: int, kind: int) -> tuple[int, int]:
    """Where a list of a predicate begins and ends."""
    at = known.hashes.size - known.flags.size + _LISTS * number + kind
    return known.starts[np.uint64(at)], known.starts[np.uint64(at + 1)]


@inlined
def _put_classes(
    row: Numbers, codes: Hashes, size: int, first: int, last: int, known: EncodingTables, triples: Triples
) -> int:
    """An event is a member of some classes; references to them follow those to the objects. -1 without room."""
    if size + last - first > codes.size:
        return -1
    for place in range(first, last):
        class_, count = known.values[place], triples.objects.offsets.size - 1
        size = _put(row, codes, size, _TYPE, known.hashes[known.flags.size + class_], count + class_)
    return size


@inlined
def _put_implied(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    row: Numbers, codes: Hashes, size: int, event: int, triple: int, number: int, about: bool,
    own: np.uint64, triples: Triples, known: EncodingTables,
) -> int:  # fmt: skip
    """What the hierarchy says because of a triple; -1 when there is no room for it."""
    if about:
        first, last = _listed(known, number, SUPERPROPERTIES)
        if size + last - first > codes.size:
            return -1
        for place in range(first, last):
            size = _put(row, codes, size, known.values[place], own, triple)
        size = _put_classes(row, codes, size, *_listed(known, number, DOMAINS), known, triples)
    if size >= 0 and about and number == _TYPE:
        names = Table(StringColumn(known.offsets, known.data), known.hashes, known.classes)
        class_ = lookup(names, own, triples.objects.data, *byte_range(triples.objects, triple)) - known.flags.size
        if class_ >= 0:
            size = _put_classes(row, codes, size, known.starts[class_], known.starts[class_ + 1], known, triples)
    first, last = _listed(known, number, RANGES)
    if size >= 0 and first < last and _is_event(triples.ids, event, triples.objects, triple):
        size = _put_classes(row, codes, size, first, last, known, triples)
    return size


@inlined
def _put_prefixes(
    row: Numbers, codes: Hashes, begin: int, end: int, objects: StringColumn, known: EncodingTables
) -> int:
    """The first bytes of an event's values that are tested for prefixes; -1 when there is no room for them."""
    size, count = end, objects.offsets.size - 1
    for at in range(begin, end):
        ref = row[at, _REF]
        terms = objects if ref < count else StringColumn(known.offsets, known.data)
        first, last = byte_range(terms, ref if ref < count else ref - count + known.flags.size)
        specs, stop = _listed(known, row[at, _PREDICATE], PREFIXES)
        if size + stop - specs > codes.size:
            return -1
        for spec in range(specs, stop, 3):
            length = known.values[spec + 1]
            is_string = terms.data[first] == _QUOTE and terms.data[last - 1] != _MORE
            if first + 1 + length < last and (is_string or known.values[spec + 2]):
                size = _put(
                    row, codes, size, known.values[spec], string_hash(terms.data, first + 1, first + 1 + length), ref
                )
    return size


@inlined
def _predicate(predicates: StringColumn, triple: int, before: int, numbers: Numbers, known: EncodingTables) -> int:
    """The number of a triple's predicate, or -1; most likely it is that of the same place in the event before."""
    start, end = byte_range(predicates, triple)
    if before >= 0 and equal_bytes(predicates.data, start, end, predicates.data, *byte_range(predicates, before)):
        return numbers[np.uint64(before)]
    names = Table(StringColumn(known.offsets, known.data), known.hashes, known.predicates)
    return lookup(names, string_hash(predicates.data, start, end), predicates.data, start, end)


@inlined
def _put_event(
    row: Numbers, codes: Hashes, begin: int, event: int, triples: Triples, numbers: Numbers, known: EncodingTables
) -> int:
    """Where the rows of an event end; -1 when there is no room for them."""
    size, first = begin, triples.events[event]
    shift = first - triples.events[event - 1] if event else 0
    for triple in range(first, triples.events[event + 1]):
        before = triple - shift if triple - shift < first else -1
        number = _predicate(triples.predicates, triple, before, numbers, known)
        numbers[np.uint64(triple)] = number
        if number < 0:
            continue
        about = _is_event(triples.ids, event, triples.subjects, triple)
        implies = known.flags[np.uint64(number)] & IMPLIES != 0
        if not about and not implies:
            continue
        own = string_hash(triples.objects.data, *byte_range(triples.objects, triple))
        if size == codes.size:
            return -1
        if about:
            size = _put(row, codes, size, number, own, triple)
        if implies:
            size = _put_implied(row, codes, size, event, triple, number, about, own, triples, known)
            if size < 0:
                return -1
    return size


@inlined
def _put_events(
    row: Numbers, codes: Hashes, starts: Ints, event: int, triples: Triples, numbers: Numbers, known: EncodingTables
) -> int:
    """Encode the events from one on while there is room for their rows; the first one without."""
    has_beginnings = _has_prefixes(known)
    while event < starts.size - 1:
        begin = starts[event]
        size = _put_event(row, codes, begin, event, triples, numbers, known)
        if size >= 0 and has_beginnings:
            size = _put_prefixes(row, codes, begin, size, triples.objects, known)
        if size < 0:
            return event
        if not _rise(row, begin, size):
            _order(row, codes, begin, size)
            size = _distinct(row, codes, begin, size, triples.objects, known)
        event += 1
        starts[event] = size
    return event


@inlined
def _has_prefixes(known: EncodingTables) -> bool:
    for number in range(known.flags.size):
        first, last = _listed(known, number, PREFIXES)
        if first < last:
            return True
    return False


@compiled
def encode_rows(events: Ints, *tables: npt.NDArray[Any]) -> tuple[Ints, Numbers, Hashes, Floats]:
    """The triples about each event that somebody may ask for, with what the hierarchy says, sorted, each once.

    Returns where each event's rows start, and by row the predicate with a reference to the object and the kind of its
    value, the object's code, and its value; the kind ``255`` asks for a slower look. The tables are those of ids,
    subjects, predicates and objects, and of the vocabulary, one by one: Numba takes long to look at tuples.
    """
    ids, subjects = StringColumn(tables[0], tables[1]), StringColumn(tables[2], tables[3])
    predicates, objects = StringColumn(tables[4], tables[5]), StringColumn(tables[6], tables[7])
    triples = Triples(events, ids, subjects, predicates, objects)
    known = EncodingTables(
        tables[8], tables[9], tables[10], tables[11], tables[12], tables[13], tables[14], tables[15]
    )  # fmt: skip
    count = objects.offsets.size - 1
    starts, numbers = np.zeros(events.size, np.int64), np.empty(count, np.int32)  # numbers of the predicates
    row, codes = np.empty((count + 64, 3), np.int32), np.empty(count + 64, np.uint64)
    done = _put_events(row, codes, starts, 0, triples, numbers, known)
    while done < events.size - 1:
        row, codes = _grown(row, codes, starts[done])
        done = _put_events(row, codes, starts, done, triples, numbers, known)
    row, codes = row[: starts[-1]], codes[: starts[-1]]
    return starts, row, codes, _values(row, objects, known.flags)


@allocating
def _values(row: Numbers, objects: StringColumn, traits: Bytes) -> Floats:
    """What the objects of compared predicates are worth; their kinds go into the rows."""
    values = np.zeros(row.shape[0], np.float64)
    for at in range(row.shape[0]):
        ref = row[at, _REF]
        row[at, _KIND] = 0
        if traits[np.uint64(row[at, _PREDICATE])] & COMPARED and ref < objects.offsets.size - 1:
            values[at], row[at, _KIND] = value_of(objects.data, *byte_range(objects, ref))
    return values


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
    return end - start > ending.size and equal_bytes(data, end - ending.size, end, ending, 0, ending.size)


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
