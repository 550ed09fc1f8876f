"""Reads the axioms of an ontology from its triples.

It decodes lists and restrictions of the RDF encoding of OWL. What axioms imply is computed by ``schema`` for the
hierarchies and by ``rules`` for individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from motet.model.errors import UsageError
from motet.model.terms import literal_parts
from motet.ontology import owl_names as v
from motet.ontology.owl_names import Triple

Pair = tuple[str, str]
ListAxiom = tuple[str, tuple[str, ...]]
Restriction = tuple[str, str, str]
#: class, property, cardinality, filler
Cardinality = tuple[str, str, int, str]
Item = TypeVar("Item", Pair, Restriction, Cardinality)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axioms:
    """The axioms of an ontology. Each tuple is sorted, so that results do not depend on the order of triples."""

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
    chains: tuple[ListAxiom, ...] = ()
    keys: tuple[ListAxiom, ...] = ()
    intersections: tuple[ListAxiom, ...] = ()
    enumerations: tuple[ListAxiom, ...] = ()
    some: tuple[Restriction, ...] = ()
    only: tuple[Restriction, ...] = ()
    value: tuple[Restriction, ...] = ()
    at_most: tuple[Cardinality, ...] = ()
    asymmetric: tuple[str, ...] = ()
    irreflexive: tuple[str, ...] = ()
    disjoint_classes: tuple[Pair, ...] = ()
    disjoint_properties: tuple[Pair, ...] = ()
    complements: tuple[Pair, ...] = ()
    different: tuple[Pair, ...] = ()
    negative_assertions: tuple[Triple, ...] = ()


def rdfs_axioms(triples: Iterable[Triple]) -> Axioms:
    """The axioms of RDFS: subclasses, subproperties, domains and ranges."""
    graph = _Graph(triples)
    return Axioms(
        subclasses=graph.pairs(v.SUBCLASS),
        subproperties=graph.pairs(v.SUBPROPERTY),
        domains=graph.pairs(v.DOMAIN),
        ranges=graph.pairs(v.RANGE),
    )


def owl_axioms(triples: Iterable[Triple]) -> Axioms:
    """The axioms that the OWL 2 RL rules use; ``min 1`` counts as ``some``, and ``exactly`` as ``max``."""
    graph = _Graph(triples)
    unions = graph.lists(v.UNION) + graph.lists(v.DISJOINT_UNION)
    return Axioms(
        subclasses=_sorted(
            [
                *graph.pairs(v.SUBCLASS),
                *_symmetric_pairs(graph.pairs(v.EQUIVALENT_CLASS)),
                *((c, operand) for c, operands in graph.lists(v.INTERSECTION) for operand in operands),
                *((operand, c) for c, operands in unions for operand in operands),
            ]
        ),
        subproperties=_sorted([*graph.pairs(v.SUBPROPERTY), *_symmetric_pairs(graph.pairs(v.EQUIVALENT_PROPERTY))]),
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
                *_all_pairs(operands for _, operands in graph.lists(v.DISJOINT_UNION)),
            ]
        ),
        disjoint_properties=_sorted(
            [*graph.pairs(v.PROPERTY_DISJOINT), *_all_pairs(graph.members_of(v.ALL_DISJOINT_PROPERTIES))]
        ),
        complements=graph.pairs(v.COMPLEMENT),
        different=_sorted([*graph.pairs(v.DIFFERENT), *_all_pairs(graph.members_of(v.ALL_DIFFERENT))]),
        negative_assertions=_negative_assertions(graph),
    )


class _Graph:
    """Triples by predicate, with decoders of the RDF encoding of OWL."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._by_predicate: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for s, p, o in triples:
            self._by_predicate[p][s].append(o)

    def _of(self, predicate: str) -> dict[str, list[str]]:
        return self._by_predicate.get(predicate) or {}

    def pairs(self, predicate: str) -> tuple[Pair, ...]:
        objects_by_subject = self._of(predicate)
        return _sorted((s, o) for s, objects in objects_by_subject.items() for o in objects if not v.is_literal(o))

    def typed(self, kind: str) -> tuple[str, ...]:
        return tuple(sorted(s for s, kinds in self._of(v.TYPE).items() if kind in kinds))

    def objects(self, subject: str, predicate: str) -> list[str]:
        return self._of(predicate).get(subject, [])

    def lists(self, predicate: str) -> tuple[ListAxiom, ...]:
        heads_by_subject = self._of(predicate)
        return tuple(sorted((s, self._items(head, s)) for s, heads in heads_by_subject.items() for head in heads))

    def members_of(self, kind: str) -> Iterator[tuple[str, ...]]:
        for node in self.typed(kind):
            for predicate in (v.MEMBERS, v.DISTINCT_MEMBERS):
                for head in self.objects(node, predicate):
                    yield self._items(head, node)

    def restrictions(self, kind: str) -> tuple[Restriction, ...]:
        fillers_by_class = self._of(kind)
        return _sorted(
            (c, p, filler)
            for c, fillers in fillers_by_class.items()
            for p in self.objects(c, v.ON_PROPERTY)
            for filler in fillers
        )

    def cardinalities(self, kind: str) -> Iterator[Cardinality]:
        """Cardinality restrictions; an unqualified one counts owl:Thing."""
        for c, p, cardinality in self.restrictions(kind):
            fillers = self.objects(c, v.ON_CLASS) or self.objects(c, v.ON_DATA_RANGE) or [v.THING]
            for filler in fillers:
                yield c, p, _whole_number(cardinality, c), filler

    def _items(self, head: str, subject: str) -> tuple[str, ...]:
        items: list[str] = []
        visited: set[str] = set()
        while head != v.NIL:
            first, rest = self.objects(head, v.FIRST), self.objects(head, v.REST)
            if len(first) != 1 or len(rest) != 1 or head in visited:
                raise UsageError(
                    f"the list {head} in an axiom about {subject} is invalid: it has {len(first)} rdf:first and "
                    f"{len(rest)} rdf:rest" + (" and is cyclic" if head in visited else ""),
                    advice="write the list with ( … ) in Turtle or give each cell one rdf:first and one rdf:rest",
                )
            visited.add(head)
            items.append(first[0])
            head = rest[0]
        return tuple(items)


def _at_least_one(graph: _Graph) -> Iterator[Restriction]:
    """Restrictions ``min 1``, which are equivalent to ``some``."""
    for kind in (v.MIN, v.MIN_QUALIFIED):
        for c, p, cardinality, filler in graph.cardinalities(kind):
            if cardinality == 1:
                yield c, p, filler


def _at_most(graph: _Graph) -> tuple[Cardinality, ...]:
    kinds = (v.MAX, v.MAX_QUALIFIED, v.EXACTLY, v.EXACTLY_QUALIFIED)
    return _sorted(axiom for kind in kinds for axiom in graph.cardinalities(kind) if axiom[2] <= 1)


def _negative_assertions(graph: _Graph) -> tuple[Triple, ...]:
    return _sorted(
        (s, p, o)
        for node in graph.typed(v.NEGATIVE)
        for s in graph.objects(node, v.SOURCE)
        for p in graph.objects(node, v.ASSERTION)
        for o in [*graph.objects(node, v.TARGET), *graph.objects(node, v.TARGET_VALUE)]
    )


def _symmetric_pairs(pairs: Iterable[Pair]) -> Iterator[Pair]:
    for a, b in pairs:
        yield a, b
        yield b, a


def _all_pairs(groups: Iterable[tuple[str, ...]]) -> Iterator[Pair]:
    for group in groups:
        yield from ((a, b) for index, a in enumerate(group) for b in group[index + 1 :])


def _whole_number(term: str, class_name: str) -> int:
    text = literal_parts(term)[0] if v.is_literal(term) else term
    if not text.isascii() or not text.isdigit():
        raise UsageError(
            f"the cardinality {term} of {class_name} is not a whole number", advice='write "1"^^xsd:nonNegativeInteger'
        )
    return int(text)


def _sorted(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(sorted(set(items)))
