"""The machine-code half of the encoder: string buffers in, arrays of numbers out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.match.texts import Codes, Ints, Numbers, Table, Texts, code, lookup, same, span
from motet.engine.match.value_kernels import value_of
from motet.jit.compiled import allocating, compiled, inlined

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

COMPARED, IMPLIES = np.uint8(1), np.uint8(2)  # traits of predicates
SUPERPROPERTIES, DOMAINS, RANGES, BEGINNINGS = range(4)  # lists of predicates

_TYPE, _LISTS = 0, 4
_PREDICATE, _REF, _KIND = range(3)  # columns of a row
_LESS, _MORE, _QUOTE = ord("<"), ord(">"), ord('"')


class Vocabulary(NamedTuple):
    """The names a set of leaves can see; predicate 0 is rdf:type. All in few arrays: calls with few are quick."""

    offsets: Numbers  # of the names of predicates, then of classes
    data: Bytes
    codes: Codes  # of the names
    predicates: Numbers  # slots to find names in, as in a `Table`
    classes: Numbers
    traits: Bytes  # by predicate: whether its values are compared as numbers or instants, and whether it implies rows
    starts: Ints  # of lists: by class the classes above it, then by predicate properties above it, classes of its
    values: Ints  # subjects and objects, and in threes the numbers of beginnings, their lengths, whether of all values


class Triples(NamedTuple):
    """Of some events."""

    events: Ints  # where their triples begin
    ids: Texts
    subjects: Texts
    predicates: Texts
    objects: Texts


@inlined
def _is_event(ids: Texts, event: int, terms: Texts, row: int) -> bool:
    """Whether a term is the event's IRI."""
    start, end = span(terms, row)
    begin, stop = span(ids, event)
    if end - start != stop - begin + 2:
        return False
    if terms.data[np.uint64(start)] != _LESS or terms.data[np.uint64(end - 1)] != _MORE:
        return False
    return same(terms.data, start + 1, end - 1, ids.data, begin, stop)


@allocating
def _grown(row: Numbers, codes: Codes, size: int) -> tuple[Numbers, Codes]:
    """The first rows, with room for more."""
    room = 2 * codes.size + 64
    rows, more = np.empty((room, 3), np.int32), np.empty(room, np.uint64)
    for at in range(size):
        _move(row, codes, at, rows, more, at)
    return rows, more


@inlined
def _move(row: Numbers, codes: Codes, at: int, rows: Numbers, more: Codes, to: int) -> None:
    _put(rows, more, to, row[at, _PREDICATE], codes[at], row[at, _REF])


@inlined
def _rise(row: Numbers, begin: int, end: int) -> bool:
    """Whether each of an event's rows has a later predicate than the one before: then they are in order, each once."""
    at = begin + 1
    while at < end and row[np.uint64(at - 1), _PREDICATE] < row[np.uint64(at), _PREDICATE]:
        at += 1
    return at >= end


@inlined
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


@inlined
def _equal_terms(objects: Texts, known: Vocabulary, left: int, right: int) -> bool:
    """Whether two references are to the same term; those behind the objects are to classes."""
    count, names = objects.offsets.size - 1, Texts(known.offsets, known.data)
    shift = known.traits.size - count
    one, other = (objects if left < count else names), (objects if right < count else names)
    i, j = (left if left < count else left + shift), (right if right < count else right + shift)
    return same(one.data, *span(one, i), other.data, *span(other, j))


@inlined
def _distinct(row: Numbers, codes: Codes, begin: int, end: int, objects: Texts, known: Vocabulary) -> int:
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
def _put(row: Numbers, codes: Codes, size: int, predicate: int, code_: np.uint64, ref: int) -> int:
    at = np.uint64(size)
    row[at, _PREDICATE], row[at, _REF], codes[at] = predicate, ref, code_
    return size + 1


@inlined
def _listed(known: Vocabulary, number: int, kind: int) -> tuple[int, int]:
    """Where a list of a predicate begins and ends."""
    at = known.codes.size - known.traits.size + _LISTS * number + kind
    return known.starts[np.uint64(at)], known.starts[np.uint64(at + 1)]


@inlined
def _put_classes(
    row: Numbers, codes: Codes, size: int, first: int, last: int, known: Vocabulary, triples: Triples
) -> int:
    """An event is a member of some classes; references to them follow those to the objects. -1 without room."""
    if size + last - first > codes.size:
        return -1
    for place in range(first, last):
        class_, count = known.values[place], triples.objects.offsets.size - 1
        size = _put(row, codes, size, _TYPE, known.codes[known.traits.size + class_], count + class_)
    return size


@inlined
def _put_implied(  # noqa: PLR0913, PLR0917  (a kernel has no object to keep its state in)
    row: Numbers, codes: Codes, size: int, event: int, triple: int, number: int, about: bool,
    own: np.uint64, triples: Triples, known: Vocabulary,
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
        names = Table(Texts(known.offsets, known.data), known.codes, known.classes)
        class_ = lookup(names, own, triples.objects.data, *span(triples.objects, triple)) - known.traits.size
        if class_ >= 0:
            size = _put_classes(row, codes, size, known.starts[class_], known.starts[class_ + 1], known, triples)
    first, last = _listed(known, number, RANGES)
    if size >= 0 and first < last and _is_event(triples.ids, event, triples.objects, triple):
        size = _put_classes(row, codes, size, first, last, known, triples)
    return size


@inlined
def _put_beginnings(row: Numbers, codes: Codes, begin: int, end: int, objects: Texts, known: Vocabulary) -> int:
    """The first bytes of an event's values that are tested for prefixes; -1 when there is no room for them."""
    size, count = end, objects.offsets.size - 1
    for at in range(begin, end):
        ref = row[at, _REF]
        terms = objects if ref < count else Texts(known.offsets, known.data)
        first, last = span(terms, ref if ref < count else ref - count + known.traits.size)
        specs, stop = _listed(known, row[at, _PREDICATE], BEGINNINGS)
        if size + stop - specs > codes.size:
            return -1
        for spec in range(specs, stop, 3):
            length = known.values[spec + 1]
            is_string = terms.data[first] == _QUOTE and terms.data[last - 1] != _MORE
            if first + 1 + length < last and (is_string or known.values[spec + 2]):
                size = _put(row, codes, size, known.values[spec], code(terms.data, first + 1, first + 1 + length), ref)
    return size


@inlined
def _predicate(predicates: Texts, triple: int, before: int, numbers: Numbers, known: Vocabulary) -> int:
    """The number of a triple's predicate, or -1; most likely it is that of the same place in the event before."""
    start, end = span(predicates, triple)
    if before >= 0 and same(predicates.data, start, end, predicates.data, *span(predicates, before)):
        return numbers[np.uint64(before)]
    names = Table(Texts(known.offsets, known.data), known.codes, known.predicates)
    return lookup(names, code(predicates.data, start, end), predicates.data, start, end)


@inlined
def _put_event(
    row: Numbers, codes: Codes, begin: int, event: int, triples: Triples, numbers: Numbers, known: Vocabulary
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
        implies = known.traits[np.uint64(number)] & IMPLIES != 0
        if not about and not implies:
            continue
        own = code(triples.objects.data, *span(triples.objects, triple))
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
    row: Numbers, codes: Codes, starts: Ints, event: int, triples: Triples, numbers: Numbers, known: Vocabulary
) -> int:
    """Encode the events from one on while there is room for their rows; the first one without."""
    has_beginnings = _has_beginnings(known)
    while event < starts.size - 1:
        begin = starts[event]
        size = _put_event(row, codes, begin, event, triples, numbers, known)
        if size >= 0 and has_beginnings:
            size = _put_beginnings(row, codes, begin, size, triples.objects, known)
        if size < 0:
            return event
        if not _rise(row, begin, size):
            _order(row, codes, begin, size)
            size = _distinct(row, codes, begin, size, triples.objects, known)
        event += 1
        starts[event] = size
    return event


@inlined
def _has_beginnings(known: Vocabulary) -> bool:
    for number in range(known.traits.size):
        first, last = _listed(known, number, BEGINNINGS)
        if first < last:
            return True
    return False


@compiled
def encode_rows(events: Ints, *tables: npt.NDArray[Any]) -> tuple[Ints, Numbers, Codes, Floats]:
    """The triples about each event that somebody may ask for, with what the hierarchy says, sorted, each once.

    Returns where each event's rows start, and by row the predicate with a reference to the object and the kind of its
    value, the object's code, and its value; the kind ``255`` asks for a slower look. The tables are those of ids,
    subjects, predicates and objects, and of the vocabulary, one by one: Numba takes long to look at tuples.
    """
    ids, subjects = Texts(tables[0], tables[1]), Texts(tables[2], tables[3])
    predicates, objects = Texts(tables[4], tables[5]), Texts(tables[6], tables[7])
    triples = Triples(events, ids, subjects, predicates, objects)
    known = Vocabulary(
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
    return starts, row, codes, _values(row, objects, known.traits)


@allocating
def _values(row: Numbers, objects: Texts, traits: Bytes) -> Floats:
    """What the objects of compared predicates are worth; their kinds go into the rows."""
    values = np.zeros(row.shape[0], np.float64)
    for at in range(row.shape[0]):
        ref = row[at, _REF]
        row[at, _KIND] = 0
        if traits[np.uint64(row[at, _PREDICATE])] & COMPARED and ref < objects.offsets.size - 1:
            values[at], row[at, _KIND] = value_of(objects.data, *span(objects, ref))
    return values
