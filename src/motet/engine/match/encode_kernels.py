"""Compiled functions of the encoder: string buffers in, arrays of integers and values out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.string_column import StringColumn, StringTable, byte_range, equal_bytes, lookup, string_hash
from motet.jit.compiled import Bytes, Floats, Hashes, Int32s, Ints, allocating, compiled, inlined

COMPARED, IMPLIES = np.uint8(1), np.uint8(2)  # flags of predicates
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
    """The names of predicates and classes that leaves use, in few arrays: calls are fast. Predicate 0 is rdf:type."""

    offsets: Int32s  # of the names of predicates, then of classes
    data: Bytes
    hashes: Hashes  # of the names
    predicates: Int32s  # slots to find names in, as in a `Table`
    classes: Int32s
    flags: Bytes  # by predicate: whether its values are compared as numbers or instants, and whether it implies rows
    starts: Ints  # of lists: by class its superclasses; then by predicate its superproperties, domains and ranges, and
    values: Ints  # for each prefix key its id, its length, and whether it applies to all terms


class Triples(NamedTuple):
    """The triples of a batch of events."""

    events: Ints  # the start of each event's triples
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
def _enlarge(row: Int32s, hashes: Hashes, size: int) -> tuple[Int32s, Hashes]:
    """The first rows in larger arrays."""
    capacity = 2 * hashes.size + 64
    larger, larger_hashes = np.empty((capacity, 3), np.int32), np.empty(capacity, np.uint64)
    for at in range(size):
        _move(row, hashes, at, larger, larger_hashes, at)
    return larger, larger_hashes


@inlined
def _move(row: Int32s, hashes: Hashes, at: int, target: Int32s, target_hashes: Hashes, target_at: int) -> None:
    _put(target, target_hashes, target_at, row[at, _PREDICATE], hashes[at], row[at, _REF])


@inlined
def _ascends(row: Int32s, begin: int, end: int) -> bool:
    """Whether the predicates of an event's rows ascend: then the rows are sorted, each once."""
    at = begin + 1
    while at < end and row[np.uint64(at - 1), _PREDICATE] < row[np.uint64(at), _PREDICATE]:
        at += 1
    return at >= end


@inlined
def _sort(row: Int32s, hashes: Hashes, begin: int, end: int) -> None:
    """Sort an event's rows by predicate, then hash (Shell sort)."""
    step = 1
    while step < (end - begin) // 3:
        step = 3 * step + 1
    while step:
        for index in range(begin + step, end):
            predicate, ref, hash_ = row[index, _PREDICATE], row[index, _REF], hashes[index]
            at = index
            while at >= begin + step and (
                row[at - step, _PREDICATE] > predicate
                or (row[at - step, _PREDICATE] == predicate and hashes[at - step] > hash_)
            ):
                _move(row, hashes, at - step, row, hashes, at)
                at -= step
            row[at, _PREDICATE], row[at, _REF], hashes[at] = predicate, ref, hash_
        step //= 3


@inlined
def _equal_terms(objects: StringColumn, encoding: EncodingTables, left: int, right: int) -> bool:
    """Whether two references are to the same term; those after the objects are to classes."""
    count, names = objects.offsets.size - 1, StringColumn(encoding.offsets, encoding.data)
    shift = encoding.flags.size - count
    left_terms, right_terms = (objects if left < count else names), (objects if right < count else names)
    left_index, right_index = (left if left < count else left + shift), (right if right < count else right + shift)
    return equal_bytes(
        left_terms.data, *byte_range(left_terms, left_index), right_terms.data, *byte_range(right_terms, right_index)
    )


@inlined
def _distinct(
    row: Int32s, hashes: Hashes, begin: int, end: int, objects: StringColumn, encoding: EncodingTables
) -> int:
    """Remove repeated rows from the sorted rows of an event; returns their new end."""
    size = begin
    for index in range(begin, end):
        at, is_repeated = size, False
        while (
            not is_repeated
            and at > begin
            and hashes[at - 1] == hashes[index]
            and row[at - 1, _PREDICATE] == row[index, _PREDICATE]
        ):
            at -= 1
            is_repeated = _equal_terms(objects, encoding, row[at, _REF], row[index, _REF])
        if not is_repeated:
            _move(row, hashes, index, row, hashes, size)
            size += 1
    return size


@inlined
def _put(row: Int32s, hashes: Hashes, size: int, predicate: int, hash_: np.uint64, ref: int) -> int:
    at = np.uint64(size)
    row[at, _PREDICATE], row[at, _REF], hashes[at] = predicate, ref, hash_
    return size + 1


@inlined
def _list_range(encoding: EncodingTables, predicate_id: int, kind: int) -> tuple[int, int]:
    """The start and the end of a list of a predicate."""
    at = encoding.hashes.size - encoding.flags.size + _LISTS * predicate_id + kind
    return encoding.starts[np.uint64(at)], encoding.starts[np.uint64(at + 1)]


@inlined
def _put_classes(
    row: Int32s, hashes: Hashes, size: int, first: int, last: int, encoding: EncodingTables, triples: Triples
) -> int:
    """Add the rows of an event's classes, to which references follow those to the objects; -1 without room."""
    if size + last - first > hashes.size:
        return -1
    for index in range(first, last):
        class_, count = encoding.values[index], triples.objects.offsets.size - 1
        size = _put(row, hashes, size, _TYPE, encoding.hashes[encoding.flags.size + class_], count + class_)
    return size


@inlined
def _put_implied(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    row: Int32s, hashes: Hashes, size: int, event: int, triple: int, predicate_id: int, is_about: bool,
    hash_: np.uint64, triples: Triples, encoding: EncodingTables,
) -> int:  # fmt: skip
    """Add the rows that the hierarchy infers from a triple; -1 without room."""
    if is_about:
        first, last = _list_range(encoding, predicate_id, SUPERPROPERTIES)
        if size + last - first > hashes.size:
            return -1
        for index in range(first, last):
            size = _put(row, hashes, size, encoding.values[index], hash_, triple)
        size = _put_classes(row, hashes, size, *_list_range(encoding, predicate_id, DOMAINS), encoding, triples)
    if size >= 0 and is_about and predicate_id == _TYPE:
        names = StringTable(StringColumn(encoding.offsets, encoding.data), encoding.hashes, encoding.classes)
        class_ = lookup(names, hash_, triples.objects.data, *byte_range(triples.objects, triple)) - encoding.flags.size
        if class_ >= 0:
            size = _put_classes(
                row, hashes, size, encoding.starts[class_], encoding.starts[class_ + 1], encoding, triples
            )
    first, last = _list_range(encoding, predicate_id, RANGES)
    if size >= 0 and first < last and _is_event(triples.ids, event, triples.objects, triple):
        size = _put_classes(row, hashes, size, first, last, encoding, triples)
    return size


@inlined
def _put_prefixes(
    row: Int32s, hashes: Hashes, begin: int, end: int, objects: StringColumn, encoding: EncodingTables
) -> int:
    """Add rows for the first bytes of values that leaves test for a prefix; -1 without room."""
    size, count = end, objects.offsets.size - 1
    for at in range(begin, end):
        ref = row[at, _REF]
        terms = objects if ref < count else StringColumn(encoding.offsets, encoding.data)
        first, last = byte_range(terms, ref if ref < count else ref - count + encoding.flags.size)
        specs, stop = _list_range(encoding, row[at, _PREDICATE], PREFIXES)
        if size + stop - specs > hashes.size:
            return -1
        for spec in range(specs, stop, 3):
            length = encoding.values[spec + 1]
            is_string = terms.data[first] == _QUOTE and terms.data[last - 1] != _MORE
            if first + 1 + length < last and (is_string or encoding.values[spec + 2]):
                size = _put(
                    row,
                    hashes,
                    size,
                    encoding.values[spec],
                    string_hash(terms.data, first + 1, first + 1 + length),
                    ref,
                )
    return size


@inlined
def _predicate(
    predicates: StringColumn, triple: int, before: int, predicate_ids: Int32s, encoding: EncodingTables
) -> int:
    """The id of a triple's predicate, or -1; most likely it is that of the same triple of the event before."""
    start, end = byte_range(predicates, triple)
    if before >= 0 and equal_bytes(predicates.data, start, end, predicates.data, *byte_range(predicates, before)):
        return predicate_ids[np.uint64(before)]
    names = StringTable(StringColumn(encoding.offsets, encoding.data), encoding.hashes, encoding.predicates)
    return lookup(names, string_hash(predicates.data, start, end), predicates.data, start, end)


@inlined
def _put_event(
    row: Int32s,
    hashes: Hashes,
    begin: int,
    event: int,
    triples: Triples,
    predicate_ids: Int32s,
    encoding: EncodingTables,
) -> int:
    """Add the rows of an event; returns their end, or -1 without room."""
    size, first = begin, triples.events[event]
    shift = first - triples.events[event - 1] if event else 0
    for triple in range(first, triples.events[event + 1]):
        before = triple - shift if triple - shift < first else -1
        predicate_id = _predicate(triples.predicates, triple, before, predicate_ids, encoding)
        predicate_ids[np.uint64(triple)] = predicate_id
        if predicate_id < 0:
            continue
        is_about = _is_event(triples.ids, event, triples.subjects, triple)
        implies = encoding.flags[np.uint64(predicate_id)] & IMPLIES != 0
        if not is_about and not implies:
            continue
        hash_ = string_hash(triples.objects.data, *byte_range(triples.objects, triple))
        if size == hashes.size:
            return -1
        if is_about:
            size = _put(row, hashes, size, predicate_id, hash_, triple)
        if implies:
            size = _put_implied(row, hashes, size, event, triple, predicate_id, is_about, hash_, triples, encoding)
            if size < 0:
                return -1
    return size


@inlined
def _put_events(
    row: Int32s,
    hashes: Hashes,
    starts: Ints,
    event: int,
    triples: Triples,
    predicate_ids: Int32s,
    encoding: EncodingTables,
) -> int:
    """Encode the events from one on while there is room for their rows; returns the first one without."""
    has_prefixes = _has_prefixes(encoding)
    while event < starts.size - 1:
        begin = starts[event]
        size = _put_event(row, hashes, begin, event, triples, predicate_ids, encoding)
        if size >= 0 and has_prefixes:
            size = _put_prefixes(row, hashes, begin, size, triples.objects, encoding)
        if size < 0:
            return event
        if not _ascends(row, begin, size):
            _sort(row, hashes, begin, size)
            size = _distinct(row, hashes, begin, size, triples.objects, encoding)
        event += 1
        starts[event] = size
    return event


@inlined
def _has_prefixes(encoding: EncodingTables) -> bool:
    for predicate_id in range(encoding.flags.size):
        first, last = _list_range(encoding, predicate_id, PREFIXES)
        if first < last:
            return True
    return False


@compiled
def encode_rows(events: Ints, *tables: npt.NDArray[Any]) -> tuple[Ints, Int32s, Hashes, Floats]:
    """The rows of each event for the predicates of leaves, with those that the hierarchy infers, sorted, each once.

    Returns the start of each event's rows, and by row the predicate, a reference to the object and its value's kind;
    the object's hash; and its value. The kind ``255`` marks a value that Python has to compute. The tables are those of
    ids, subjects, predicates and objects, and the encoding tables, one by one: Numba is slow at unpacking tuples.
    """
    ids, subjects = StringColumn(tables[0], tables[1]), StringColumn(tables[2], tables[3])
    predicates, objects = StringColumn(tables[4], tables[5]), StringColumn(tables[6], tables[7])
    triples = Triples(events, ids, subjects, predicates, objects)
    encoding = EncodingTables(
        tables[8], tables[9], tables[10], tables[11], tables[12], tables[13], tables[14], tables[15]
    )  # fmt: skip
    count = objects.offsets.size - 1
    starts, predicate_ids = np.zeros(events.size, np.int64), np.empty(count, np.int32)  # of the predicates
    row, hashes = np.empty((count + 64, 3), np.int32), np.empty(count + 64, np.uint64)
    done = _put_events(row, hashes, starts, 0, triples, predicate_ids, encoding)
    while done < events.size - 1:
        row, hashes = _enlarge(row, hashes, starts[done])
        done = _put_events(row, hashes, starts, done, triples, predicate_ids, encoding)
    row, hashes = row[: starts[-1]], hashes[: starts[-1]]
    return starts, row, hashes, _values(row, objects, encoding.flags)


@allocating
def _values(row: Int32s, objects: StringColumn, flags: Bytes) -> Floats:
    """The values of the objects of compared predicates; their kinds are written to the rows."""
    values = np.zeros(row.shape[0], np.float64)
    for at in range(row.shape[0]):
        ref = row[at, _REF]
        row[at, _KIND] = 0
        if flags[np.uint64(row[at, _PREDICATE])] & COMPARED and ref < objects.offsets.size - 1:
            values[at], row[at, _KIND] = value_of(objects.data, *byte_range(objects, ref))
    return values


@inlined
def value_of(data: Bytes, start: int, end: int) -> tuple[float, np.uint8]:
    """The value of a term and its kind; the kind ``255`` marks one that Python has to compute."""
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
    """Whether a literal ends with a datatype."""
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
    for index in range(at, at + count):
        digit = np.int64(data[np.uint64(index)]) - 48
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
