"""What are all the superclasses and superproperties of a name, and the domains and ranges of a property?

The RDFS hierarchies and the OWL 2 RL schema rules (scm-*), closed once per ontology, so that an event needs one look-up
per triple. Blank nodes that stand for class expressions are names here like any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms, Pair, Restriction

Above = Mapping[str, tuple[str, ...]]
#: property → superproperties, classes of its subjects, classes of its objects; all closed
Properties = Mapping[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Schema:
    """Closed hierarchies. A name is not listed above itself."""

    superclasses: Above
    superproperties: Above
    properties: Properties


def close_schema(axioms: Axioms) -> Schema:
    """
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
    """Rule cls-svf2: a value of any kind makes the subject a member of ``p some owl:Thing``, exactly like a domain."""
    return ((p, c) for c, p, filler in axioms.some if filler == v.THING)


def _close_classes(axioms: Axioms, superproperties: Above) -> Above:
    edges = set(axioms.subclasses) | {(name, v.THING) for name in axioms.classes if name != v.THING}
    while True:
        above = _reachable(edges)
        new = set(_between_restrictions(axioms, above, superproperties)) - edges
        if not new:
            return above
        edges |= new


def _between_restrictions(axioms: Axioms, superclasses: Above, superproperties: Above) -> Iterator[Pair]:
    """Rules scm-svf1, scm-svf2, scm-avf1, scm-avf2 and scm-hv. A name is above itself, so equal expressions are one."""
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
    found: defaultdict[Pair, list[str]] = defaultdict(list)
    for c, p, filler in restrictions:
        found[p, filler].append(c)
    return found


def _classes_of(properties: Iterable[str], direct: Mapping[str, list[str]], superclasses: Above) -> tuple[str, ...]:
    stated = {c for name in properties for c in direct.get(name, ())}
    return tuple(sorted(stated.union(*(superclasses.get(c, ()) for c in stated))))


def _grouped(pairs: Iterable[Pair]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, other in pairs:
        found[name].append(other)
    return dict(found)


def _reachable(pairs: Iterable[Pair]) -> dict[str, tuple[str, ...]]:
    """Everything that can be reached from each name, without itself."""
    direct = _grouped(pairs)
    return {name: tuple(sorted(_walk(name, direct) - {name})) for name in sorted(direct)}


def _walk(start: str, direct: Mapping[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(direct.get(start, ()))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(direct.get(name, ()))
    return seen
