"""Which axioms do the triples of an ontology state?

Reads lists and restrictions out of the RDF encoding of OWL. What follows from the axioms is not decided here: see
``schema`` for the hierarchies and ``rules`` for individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from motet.model.errors import UsageError
from motet.model.terms import literal_parts
from motet.ontology import vocabulary as v
from motet.ontology.vocabulary import Triple

Pair = tuple[str, str]
Listed = tuple[str, tuple[str, ...]]
Restriction = tuple[str, str, str]
#: class, property, number, filler
Limited = tuple[str, str, int, str]
Item = TypeVar("Item", Pair, Restriction, Limited)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axioms:
    """Everything the reasoner reads from an ontology. Each tuple is sorted, so that work is done in one order."""

    subclasses: tuple[Pair, ...] = ()
    subproperties: tuple[Pair, ...] = ()
    domains: tuple[Pair, ...] = ()
    ranges: tuple[Pair, ...] = ()
    classes: tuple[str, ...] = ()
    inverses: tuple[Pair, ...] = ()
    symmetric: tuple[str, ...] = ()
    transitive: tuple[str, ...] = ()
    functional: tuple[str, ...] = ()
    inverse_functional: tuple[str, ...] = ()
    chains: tuple[Listed, ...] = ()
    keys: tuple[Listed, ...] = ()
    intersections: tuple[Listed, ...] = ()
    enumerations: tuple[Listed, ...] = ()
    some: tuple[Restriction, ...] = ()
    only: tuple[Restriction, ...] = ()
    value: tuple[Restriction, ...] = ()
    at_most: tuple[Limited, ...] = ()
    asymmetric: tuple[str, ...] = ()
    irreflexive: tuple[str, ...] = ()
    disjoint_classes: tuple[Pair, ...] = ()
    disjoint_properties: tuple[Pair, ...] = ()
    complements: tuple[Pair, ...] = ()
    different: tuple[Pair, ...] = ()
    denied: tuple[Triple, ...] = ()


def rdfs_axioms(triples: Iterable[Triple]) -> Axioms:
    """The four kinds of axiom that RDFS knows."""
    graph = _Graph(triples)
    return Axioms(
        subclasses=graph.pairs(v.SUBCLASS),
        subproperties=graph.pairs(v.SUBPROPERTY),
        domains=graph.pairs(v.DOMAIN),
        ranges=graph.pairs(v.RANGE),
    )


def owl_axioms(triples: Iterable[Triple]) -> Axioms:
    """The axioms that the OWL 2 RL rules read; ``min 1`` and ``exactly 1`` count for what they say in that profile."""
    graph = _Graph(triples)
    unions = graph.lists(v.UNION) + graph.lists(v.DISJOINT_UNION)
    return Axioms(
        subclasses=_sorted(
            [
                *graph.pairs(v.SUBCLASS),
                *_both_ways(graph.pairs(v.EQUIVALENT_CLASS)),
                *((whole, part) for whole, parts in graph.lists(v.INTERSECTION) for part in parts),
                *((part, whole) for whole, parts in unions for part in parts),
            ]
        ),
        subproperties=_sorted([*graph.pairs(v.SUBPROPERTY), *_both_ways(graph.pairs(v.EQUIVALENT_PROPERTY))]),
        domains=graph.pairs(v.DOMAIN),
        ranges=graph.pairs(v.RANGE),
        classes=graph.typed(v.OWL_CLASS),
        inverses=graph.pairs(v.INVERSE),
        symmetric=graph.typed(v.SYMMETRIC),
        transitive=graph.typed(v.TRANSITIVE),
        functional=graph.typed(v.FUNCTIONAL),
        inverse_functional=graph.typed(v.INVERSE_FUNCTIONAL),
        chains=graph.lists(v.CHAIN),
        keys=graph.lists(v.KEY),
        intersections=graph.lists(v.INTERSECTION),
        enumerations=graph.lists(v.ONE_OF),
        some=_sorted([*graph.restrictions(v.SOME), *_at_least_one(graph)]),
        only=graph.restrictions(v.ONLY),
        value=graph.restrictions(v.VALUE),
        at_most=_at_most(graph),
        asymmetric=graph.typed(v.ASYMMETRIC),
        irreflexive=graph.typed(v.IRREFLEXIVE),
        disjoint_classes=_sorted(
            [
                *graph.pairs(v.DISJOINT),
                *_all_pairs(graph.members_of(v.ALL_DISJOINT)),
                *_all_pairs(parts for _, parts in graph.lists(v.DISJOINT_UNION)),
            ]
        ),
        disjoint_properties=_sorted(
            [*graph.pairs(v.PROPERTY_DISJOINT), *_all_pairs(graph.members_of(v.ALL_DISJOINT_PROPERTIES))]
        ),
        complements=graph.pairs(v.COMPLEMENT),
        different=_sorted([*graph.pairs(v.DIFFERENT), *_all_pairs(graph.members_of(v.ALL_DIFFERENT))]),
        denied=_denied(graph),
    )


class _Graph:
    """The triples by predicate, and the readings of OWL's encoding that need no more than that."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._by_predicate: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for s, p, o in triples:
            self._by_predicate[p][s].append(o)

    def _of(self, predicate: str) -> dict[str, list[str]]:
        return self._by_predicate.get(predicate) or {}

    def pairs(self, predicate: str) -> tuple[Pair, ...]:
        found = self._of(predicate)
        return _sorted((s, o) for s, objects in found.items() for o in objects if not v.is_literal(o))

    def typed(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(s for s, kinds in self._of(v.TYPE).items() if kind in kinds))

    def objects(self, subject: str, predicate: str) -> list[str]:
        return self._of(predicate).get(subject, [])

    def lists(self, predicate: str) -> tuple[Listed, ...]:
        found = self._of(predicate)
        return tuple(sorted((s, self._items(head, s)) for s, heads in found.items() for head in heads))

    def members_of(self, kind: str) -> Iterator[tuple[str, ...]]:
        for node in self.typed(kind):
            for predicate in (v.MEMBERS, v.DISTINCT_MEMBERS):
                for head in self.objects(node, predicate):
                    yield self._items(head, node)

    def restrictions(self, kind: str) -> tuple[Restriction, ...]:
        found = self._of(kind)
        return _sorted(
            (c, p, filler) for c, fillers in found.items() for p in self.objects(c, v.ON_PROPERTY) for filler in fillers
        )

    def limited(self, kind: str) -> Iterator[Limited]:
        """Cardinality restrictions; an unqualified one counts owl:Thing."""
        for c, p, number in self.restrictions(kind):
            fillers = self.objects(c, v.ON_CLASS) or self.objects(c, v.ON_DATA_RANGE) or [v.THING]
            for filler in fillers:
                yield c, p, _whole_number(number, c), filler

    def _items(self, head: str, owner: str) -> tuple[str, ...]:
        items: list[str] = []
        seen: set[str] = set()
        while head != v.NIL:
            first, rest = self.objects(head, v.FIRST), self.objects(head, v.REST)
            if len(first) != 1 or len(rest) != 1 or head in seen:
                raise UsageError(
                    f"the list {head} in an axiom about {owner} is broken: it has {len(first)} rdf:first and "
                    f"{len(rest)} rdf:rest" + (" and runs in a circle" if head in seen else ""),
                    advice="write the list with ( … ) in Turtle or give each cell one rdf:first and one rdf:rest",
                )
            seen.add(head)
            items.append(first[0])
            head = rest[0]
        return tuple(items)


def _at_least_one(graph: _Graph) -> Iterator[Restriction]:
    """``min 1`` says the same as ``some``."""
    for kind in (v.MIN, v.MIN_QUALIFIED):
        for c, p, number, filler in graph.limited(kind):
            if number == 1:
                yield c, p, filler


def _at_most(graph: _Graph) -> tuple[Limited, ...]:
    kinds = (v.MAX, v.MAX_QUALIFIED, v.EXACTLY, v.EXACTLY_QUALIFIED)
    return _sorted(limit for kind in kinds for limit in graph.limited(kind) if limit[2] <= 1)


def _denied(graph: _Graph) -> tuple[Triple, ...]:
    return _sorted(
        (s, p, o)
        for node in graph.typed(v.NEGATIVE)
        for s in graph.objects(node, v.SOURCE)
        for p in graph.objects(node, v.ASSERTION)
        for o in [*graph.objects(node, v.TARGET), *graph.objects(node, v.TARGET_VALUE)]
    )


def _both_ways(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for a, b in pairs:
        yield a, b
        yield b, a


def _all_pairs(groups: Iterable[tuple[str, ...]]) -> Iterator[Pair]:
    for group in groups:
        yield from ((a, b) for index, a in enumerate(group) for b in group[index + 1 :])


def _whole_number(term: str, owner: str) -> int:
    text = literal_parts(term)[0] if v.is_literal(term) else term
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            f"the cardinality {term} of {owner} is not a whole number", advice='write "1"^^xsd:nonNegativeInteger'
        )
    return int(text)


def _sorted(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(set(items)))
