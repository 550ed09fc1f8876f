"""Closes the class and property hierarchies of an ontology, with the domains and ranges of properties.

It applies RDFS and the OWL 2 RL schema rules (scm-*) once per ontology, so that an event needs one lookup per triple.
Blank nodes of class expressions are names like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms, Pair, Restriction

Ancestors = Mapping[str, tuple[str, ...]]
#: property → superproperties, classes of its subjects, classes of its objects; all closed
PropertyTable = Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Schema:
    """Closed hierarchies. A name is not its own ancestor."""

    superclasses: Ancestors
    superproperties: Ancestors
    properties: PropertyTable


def close_schema(axioms: Axioms) -> Schema:
    """The closed hierarchies of axioms.

    >>> schema = close_schema(Axioms(subclasses=(("<a>", "<b>"), ("<b>", "<c>"))))
    >>> schema.superclasses["<a>"]
    ('<b>', '<c>')
    """
    superproperties = _reachable(axioms.subproperties)
    superclasses = _close_classes(axioms, superproperties)
    domains = _grouped([*axioms.domains, *_existential_domains(axioms)])
    ranges = _grouped(axioms.ranges)
    names = {name for pair in axioms.subproperties for name in pair} | set(domains) | set(ranges)
    properties = {}
    for name in sorted(names):
        above = superproperties.get(name, ())
        subjects = _classes_of((name, *above), domains, superclasses)
        objects = _classes_of((name, *above), ranges, superclasses)
        if above or subjects or objects:
            properties[name] = (above, subjects, objects)
    return Schema(superclasses, superproperties, properties)


def _existential_domains(axioms: Axioms) -> Iterator[Pair]:
    """Rule cls-svf2: any value makes the subject a member of ``p some owl:Thing``, as a domain does."""
    return ((p, c) for c, p, filler in axioms.some if filler == v.THING)


def _close_classes(axioms: Axioms, superproperties: Ancestors) -> Ancestors:
    edges = set(axioms.subclasses) | {(name, v.THING) for name in axioms.classes if name != v.THING}
    while True:
        above = _reachable(edges)
        new = set(_between_restrictions(axioms, above, superproperties)) - edges
        if not new:
            return above
        edges |= new


def _between_restrictions(axioms: Axioms, superclasses: Ancestors, superproperties: Ancestors) -> Iterator[Pair]:
    """Rules scm-svf1, scm-svf2, scm-avf1, scm-avf2 and scm-hv.

    A name counts as its own ancestor here, so that equal expressions are equivalent.
    """
    some, only, value = (_by_property_and_filler(kind) for kind in (axioms.some, axioms.only, axioms.value))
    for c, p, filler in axioms.some:
        yield from ((c, d) for wider in (filler, *superclasses.get(filler, ())) for d in some.get((p, wider), ()))
        yield from ((c, d) for q in superproperties.get(p, ()) for d in some.get((q, filler), ()))
    for c, p, filler in axioms.only:
        yield from ((c, d) for wider in (filler, *superclasses.get(filler, ())) for d in only.get((p, wider), ()))
        yield from ((d, c) for q in superproperties.get(p, ()) for d in only.get((q, filler), ()))
    for c, p, filler in axioms.value:
        yield from ((c, d) for q in (p, *superproperties.get(p, ())) for d in value.get((q, filler), ()))


def _by_property_and_filler(restrictions: Iterable[Restriction]) -> Mapping[Pair, list[str]]:
    classes: defaultdict[Pair, list[str]] = defaultdict(list)
    for c, p, filler in restrictions:
        classes[p, filler].append(c)
    return classes


def _classes_of(properties: Iterable[str], direct: Mapping[str, list[str]], superclasses: Ancestors) -> tuple[str, ...]:
    stated = {c for name in properties for c in direct.get(name, ())}
    return tuple(sorted(stated.union(*(superclasses.get(c, ()) for c in stated))))


def _grouped(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    grouped: defaultdict[str, list[str]] = defaultdict(list)
    for first, second in pairs:
        grouped[first].append(second)
    return dict(grouped)


def _reachable(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """All names reachable from each name, except itself."""
    direct = _grouped(pairs)
    return {name: tuple(sorted(_walk(name, direct) - {name})) for name in sorted(direct)}


def _walk(start: str, direct: Mapping[str, list[str]]) -> set[str]:
    visited: set[str] = set()
    stack = list(direct.get(start, ()))
    while stack:
        name = stack.pop()
        if name not in visited:
            visited.add(name)
            stack.extend(direct.get(name, ()))
    return visited
