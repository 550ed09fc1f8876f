"""The predicates a set of leaves asks for, and what the ontology's hierarchy says about them and about classes.

Everything is a number here, in arrays that the encoder walks. Only what leaves can see is kept: a predicate nobody asks
for, and that implies nothing, has no number, and its triples are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.match.prefixes import Beginning, named_beginning
from motet.engine.match.texts import Ints, Table, frozen, table, texts
from motet.model.terms import RDF_TYPE
from motet.ontology.schema import Above, Properties

Tables = tuple[npt.NDArray[Any], ...]


class Lists(NamedTuple):
    """List ``i`` is ``values[starts[i]:starts[i + 1]]``."""

    starts: Ints
    values: Ints


class Vocabulary(NamedTuple):
    """Predicate 0 is rdf:type."""

    predicates: Table
    compared: npt.NDArray[np.bool_]  # by predicate: whether its values are compared as numbers or instants
    classes: Table
    superclasses: Lists  # by class
    superproperties: Lists  # by predicate
    domains: Lists  # by predicate: classes of its subjects
    ranges: Lists  # by predicate: classes of its objects
    beginnings: Lists  # by predicate, in threes: the number of a beginning, its length, whether of all values


def vocabulary(
    predicates: Iterable[str], compared: set[str], superclasses: Above, properties: Properties
) -> Vocabulary:
    """The vocabulary of leaves with these predicates under a hierarchy."""
    asked = list(dict.fromkeys([RDF_TYPE, *predicates]))
    beginnings = {name: found for name in asked if (found := named_beginning(name)) is not None}
    wanted = {*asked, *(found.predicate for found in beginnings.values())}
    above = {p: [q for q in qs if q in wanted] for p, (qs, _, _) in properties.items()}
    implying = [p for p, (_, d, r) in properties.items() if (above[p] or d or r) and p not in wanted]
    names = list(dict.fromkeys([*asked, *sorted(wanted), *implying]))
    classes = list(dict.fromkeys(_classes(superclasses, properties)))
    number, class_number = _numbers(names), _numbers(classes)
    return Vocabulary(
        _table(names),
        frozen(np.array([name in compared for name in names], np.bool_)),
        _table(classes),
        _lists([_plain(superclasses.get(name, ())) for name in classes], class_number),
        _lists([above.get(name, []) for name in names], number),
        _lists([_plain(properties[name][1]) if name in properties else [] for name in names], class_number),
        _lists([_plain(properties[name][2]) if name in properties else [] for name in names], class_number),
        _beginnings(names, beginnings, number),
    )


def tables(known: Vocabulary) -> Tables:
    """All arrays of a vocabulary, one after the other."""
    predicates, compared, classes, *lists_ = known
    both = (*predicates.strings, predicates.codes, predicates.slots, compared)
    return (*both, *classes.strings, classes.codes, classes.slots, *chain.from_iterable(lists_))


def _beginnings(names: list[str], beginnings: Mapping[str, Beginning], number: Mapping[str, int]) -> Lists:
    found: dict[str, list[int]] = {}
    for name, (predicate, length, through_str) in beginnings.items():
        found.setdefault(predicate, []).extend((number[name], length, int(through_str)))
    return lists([found.get(name, []) for name in names])


def class_names(known: Vocabulary) -> pa.Array:
    """The classes' terms, by number."""
    offsets, data = known.classes.strings
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def _classes(superclasses: Above, properties: Properties) -> Iterable[str]:
    for name, above in superclasses.items():
        yield from _plain((name, *above))
    for _, subjects, objects in properties.values():
        yield from _plain((*subjects, *objects))


def _plain(terms: Iterable[str]) -> list[str]:
    """Without the blank nodes of class expressions."""
    return [term for term in terms if not term.startswith("_")]


def _numbers(names: list[str]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names)}


def _table(names: list[str]) -> Table:
    return table(texts(pa.array(names, pa.string())))


def _lists(names: list[list[str]], number: Mapping[str, int]) -> Lists:
    return lists([[number[name] for name in part] for part in names])


def lists(parts: Sequence[Sequence[int]]) -> Lists:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    values = np.array([value for part in parts for value in part], np.int64)
    return Lists(frozen(starts), frozen(values))
