"""Encodes a batch of events as rows of ids, hashes and values that the index can search.

The encoding tables hold the predicates of all leaves and the hierarchy of classes and properties. A predicate that no
leaf has, and that implies none, has no id; its triples are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.match.encode_kernels import COMPARED, IMPLIES, EncodingTables, encode_rows
from motet.engine.match.leaf import PrefixKey, comparable_value, prefix_key_named
from motet.engine.match.search_kernels import KIND, REF
from motet.engine.match.string_column import StringColumn, frozen, hash_slots, string_column, string_hashes
from motet.jit.compiled import Hashes, Int32s, Ints
from motet.model.batches import RecordRow
from motet.model.terms import RDF_TYPE
from motet.ontology.schema import Ancestors, PropertyTable

SLOW = 255


class EncodedEvents(NamedTuple):
    """The rows of event ``i`` are ``starts[i]`` to ``starts[i + 1]``, sorted by predicate, then code, each once."""

    starts: Ints
    row: Int32s  # predicate, reference to the object among the terms, kind of its value
    code: Hashes
    value: npt.NDArray[np.float64]
    terms: Any  # a column; of events that were rows a tuple
    strings: StringColumn  # the terms


def encode(events: pa.RecordBatch, tables: EncodingTables) -> EncodedEvents:
    """The triples about the events whose predicates have an id, with those that the hierarchy adds.

    >>> from motet.model.batches import EVENTS
    >>> triple = {"subject": "<urn:e>", "predicate": "<urn:p>", "object": '"5"^^<http://www.w3.org/2001/XMLSchema#byte>'}
    >>> event = {"id": "urn:e", "start": 0, "end": 0, "triples": [triple], "line": 1}
    >>> encoded = encode(pa.RecordBatch.from_pylist([event], EVENTS), encoding_tables(["<urn:p>"], {"<urn:p>"}, {}, {}))
    >>> encoded.starts.tolist(), encoded.value.tolist()
    ([0, 1], [5.0])
    """
    offsets, subjects, predicates, objects = _columns(events.column("triples"))
    strings = string_column(objects)
    columns = (*string_column(events.column("id")), *string_column(subjects), *string_column(predicates), *strings)
    starts, row, code, value = encode_rows(offsets, *columns, *tables)
    fill_slow_values(row, value, lambda ref: objects[ref].as_py())
    classes = class_names(tables)
    if not len(classes):
        return EncodedEvents(starts, row, code, value, objects, strings)
    terms = pa.concat_arrays([objects, classes])
    return EncodedEvents(starts, row, code, value, terms, string_column(terms))


def encode_small(records: Sequence[RecordRow], tables: EncodingTables) -> EncodedEvents:
    """As `encode`, for a few events, where columns would cost more than the search.

    Only without classes in the tables, since their terms are not among those of the events.
    """
    triples = [triple for record in records for triple in record.triples]
    count = len(triples)
    subjects, predicates, objects = zip(*triples, strict=True) if triples else ((), (), ())
    strings = [*subjects, *predicates, *objects, *[record.id or "" for record in records]]
    text = "".join(strings)
    sizes = map(len, strings) if text.isascii() else [len(string.encode()) for string in strings]
    offsets = np.fromiter(accumulate(sizes, initial=0), np.int32, len(strings) + 1)
    starts = np.fromiter(accumulate([len(record.triples) for record in records], initial=0), np.int64, len(records) + 1)
    offsets.setflags(write=False)
    starts.setflags(write=False)
    data = np.frombuffer(text.encode(), np.uint8)
    values = StringColumn(offsets[2 * count : 3 * count + 1], data)
    columns = (offsets[3 * count :], data, offsets[: count + 1], data, offsets[count : 2 * count + 1], data, *values)
    begins, row, code, value = encode_rows(starts, *columns, *tables)
    if SLOW in row[:, KIND].tolist():
        fill_slow_values(row, value, objects.__getitem__)
    return EncodedEvents(begins, row, code, value, objects, values)


def fill_slow_values(row: Int32s, value: npt.NDArray[np.float64], term: Callable[[int], str]) -> None:
    """Fill in the values that the kernel does not compute."""
    for at in (row[:, KIND] == SLOW).nonzero()[0]:
        value[at], row[at, KIND] = comparable_value(term(int(row[at, REF])))


def _columns(lists: pa.ListArray) -> tuple[Ints, pa.Array, pa.Array, pa.Array]:
    """The start of each list and the columns of all triples, without a copy for whole batches."""
    offsets = np.asarray(lists.offsets).astype(np.int64)
    triples = lists.values
    if offsets[0] == 0 and offsets[-1] == len(triples) and not lists.null_count:
        return frozen(offsets), triples.field(0), triples.field(1), triples.field(2)
    return (frozen(offsets - offsets[0]), *lists.flatten().flatten())


class IntLists(NamedTuple):
    """List ``i`` is ``values[starts[i]:starts[i + 1]]``."""

    starts: Ints
    values: Ints


def encoding_tables(
    predicates: Iterable[str], compared: set[str], superclasses: Ancestors, properties: PropertyTable
) -> EncodingTables:
    """The encoding tables of leaves with these predicates under a hierarchy."""
    requested = list(dict.fromkeys([RDF_TYPE, *predicates]))
    prefix_keys = {name: prefix_key for name in requested if (prefix_key := prefix_key_named(name)) is not None}
    required = {*requested, *(prefix_key.predicate for prefix_key in prefix_keys.values())}
    above = {p: [q for q in qs if q in required] for p, (qs, _, _) in properties.items()}
    implying = [p for p, (_, d, r) in properties.items() if (above[p] or d or r) and p not in required]
    names = list(dict.fromkeys([*requested, *sorted(required), *implying]))
    classes = list(dict.fromkeys(_classes(superclasses, properties)))
    predicate_ids, class_ids = _ids(names), _ids(classes)
    prefixes = _prefix_lists(prefix_keys, predicate_ids)
    listed = [_id_list(_without_blank_nodes(superclasses.get(name, ())), class_ids) for name in classes]
    flags = []
    for name in names:
        _, subjects, objects = properties.get(name, ((), (), ()))
        implied = [above.get(name, []), _without_blank_nodes(subjects), _without_blank_nodes(objects)]
        follows = any(implied) or (name == RDF_TYPE and len(classes) > 0)
        flags.append(COMPARED * (name in compared) | IMPLIES * follows)
        listed += (
            _id_list(terms, ids) for terms, ids in zip(implied, (predicate_ids, class_ids, class_ids), strict=True)
        )
        listed.append(prefixes.get(name, []))
    return EncodingTables(*_tables(names, classes), frozen(np.array(flags, np.uint8)), *int_lists(listed))


def _tables(names: list[str], classes: list[str]) -> tuple[Int32s, npt.NDArray[np.uint8], Hashes, Int32s, Int32s]:
    strings = string_column(pa.array([*names, *classes], pa.string()))
    keys = string_hashes(strings)
    predicate, class_ = (hash_slots(keys_, 2 * len(keys_)) for keys_ in (keys[: len(names)], keys[len(names) :]))
    class_[class_ >= 0] += len(names)
    return *strings, frozen(keys), frozen(predicate), frozen(class_)


def _prefix_lists(prefix_keys: Mapping[str, PrefixKey], predicate_ids: Mapping[str, int]) -> Mapping[str, list[int]]:
    """By predicate: id, length and flag of each prefix key."""
    lists: dict[str, list[int]] = {}
    for name, (predicate, length, through_str) in prefix_keys.items():
        lists.setdefault(predicate, []).extend((predicate_ids[name], length, int(through_str)))
    return lists


def class_names(tables: EncodingTables) -> pa.Array:
    """The terms of the classes, by id."""
    names = pa.StringArray.from_buffers(len(tables.hashes), pa.py_buffer(tables.offsets), pa.py_buffer(tables.data))
    return names.slice(len(tables.flags))


def _classes(superclasses: Ancestors, properties: PropertyTable) -> Iterable[str]:
    for name, above in superclasses.items():
        yield from _without_blank_nodes((name, *above))
    for _, subjects, objects in properties.values():
        yield from _without_blank_nodes((*subjects, *objects))


def _without_blank_nodes(terms: Iterable[str]) -> list[str]:
    """Without the blank nodes of class expressions."""
    return [term for term in terms if not term.startswith("_")]


def _ids(names: list[str]) -> Mapping[str, int]:
    return {name: index for index, name in enumerate(names)}


def _id_list(names: Iterable[str], ids: Mapping[str, int]) -> list[int]:
    return [ids[name] for name in names]


def int_lists(lists: Sequence[Sequence[int]]) -> IntLists:
    starts = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(list_) for list_ in lists], out=starts[1:])
    values = np.array([value for list_ in lists for value in list_], np.int64)
    return IntLists(frozen(starts), frozen(values))
