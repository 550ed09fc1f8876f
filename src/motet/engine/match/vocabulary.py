"""The predicates a set of leaves asks for, and what the ontology's hierarchy says about them and about classes.

Everything is a number here, in arrays that the encoder walks. Only what leaves can see is kept: a predicate nobody asks
for, and that implies nothing, has no number, and its triples are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.match.encode_kernels import COMPARED, IMPLIES, Vocabulary
from motet.engine.match.prefixes import Beginning, named_beginning
from motet.engine.match.texts import Codes, Ints, Numbers, codes, frozen, slots, texts
from motet.model.terms import RDF_TYPE
from motet.ontology.schema import Ancestors, PropertyTable


class Lists(NamedTuple):
    """List ``i`` is ``values[starts[i]:starts[i + 1]]``."""

    starts: Ints
    values: Ints


def vocabulary(
    predicates: Iterable[str], compared: set[str], superclasses: Ancestors, properties: PropertyTable
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
    begun = _begun(beginnings, number)
    listed = [_listed(_plain(superclasses.get(name, ())), class_number) for name in classes]
    traits = []
    for name in names:
        _, subjects, objects = properties.get(name, ((), (), ()))
        implied = [above.get(name, []), _plain(subjects), _plain(objects)]
        follows = any(implied) or (name == RDF_TYPE and len(classes) > 0)
        traits.append(COMPARED * (name in compared) | IMPLIES * follows)
        listed += (_listed(part, of) for part, of in zip(implied, (number, class_number, class_number), strict=True))
        listed.append(begun.get(name, []))
    return Vocabulary(*_tables(names, classes), frozen(np.array(traits, np.uint8)), *lists(listed))


def _tables(names: list[str], classes: list[str]) -> tuple[Numbers, npt.NDArray[np.uint8], Codes, Numbers, Numbers]:
    strings = texts(pa.array([*names, *classes], pa.string()))
    keys = codes(strings)
    predicate, class_ = (slots(part, 2 * len(part)) for part in (keys[: len(names)], keys[len(names) :]))
    class_[class_ >= 0] += len(names)
    return *strings, frozen(keys), frozen(predicate), frozen(class_)


def _begun(beginnings: Mapping[str, Beginning], number: Mapping[str, int]) -> Mapping[str, list[int]]:
    """What is kept of the first bytes of a predicate's values."""
    found: dict[str, list[int]] = {}
    for name, (predicate, length, through_str) in beginnings.items():
        found.setdefault(predicate, []).extend((number[name], length, int(through_str)))
    return found


def class_names(known: Vocabulary) -> pa.Array:
    """The classes' terms, by number."""
    names = pa.StringArray.from_buffers(len(known.codes), pa.py_buffer(known.offsets), pa.py_buffer(known.data))
    return names.slice(len(known.traits))


def _classes(superclasses: Ancestors, properties: PropertyTable) -> Iterable[str]:
    for name, above in superclasses.items():
        yield from _plain((name, *above))
    for _, subjects, objects in properties.values():
        yield from _plain((*subjects, *objects))


def _plain(terms: Iterable[str]) -> list[str]:
    """Without the blank nodes of class expressions."""
    return [term for term in terms if not term.startswith("_")]


def _numbers(names: list[str]) -> Mapping[str, int]:
    return {name: number for number, name in enumerate(names)}


def _listed(names: Iterable[str], number: Mapping[str, int]) -> list[int]:
    return [number[name] for name in names]


def lists(parts: Sequence[Sequence[int]]) -> Lists:
    starts = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    values = np.array([value for part in parts for value in part], np.int64)
    return Lists(frozen(starts), frozen(values))
