"""Computes the closure of an event under an ontology.

A ``Reasoner`` closes the background (the triples of the ontology and its individuals) once. For each event it returns
the triples the event adds to that closure. Only the ontology states axioms: a triple of an event never becomes one, so
that a publisher cannot change the meaning of classes. No result contains a blank node of a class expression.

- ``none``: the event unchanged.
- ``rdfs``: subclass, subproperty, domain, range (rdfs2, 3, 5, 7, 9, 11).
- ``owl-rl``: the OWL 2 RL rules of ``schema`` and ``rules``.

Literals never become subjects. Only members of declared classes belong to owl:Thing. An inconsistency does not stop
matching; ``inconsistencies`` finds it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from functools import cached_property

from motet.model.errors import LimitError
from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms, owl_axioms, rdfs_axioms
from motet.ontology.consequences import ConsequenceBound, uses_type_as_property
from motet.ontology.layered_triples import LayeredTriples
from motet.ontology.owl_names import SAME, SUBCLASS, SUBPROPERTY, TYPE, Triple
from motet.ontology.rules import Rules, compile_rules, enumerated
from motet.ontology.schema import Ancestors, PropertyTable, Schema, close_schema

#: Maximum number of triples inferred from one event, and the addition for each of its triples. Merging individuals is
#: cubic; with this limit the worst small event takes less than a second.
INFERRED_LIMIT = 5_000
INFERRED_PER_TRIPLE = 10


class Entailment(enum.StrEnum):
    NONE = "none"
    RDFS = "rdfs"
    OWL_RL = "owl-rl"


class Reasoner:
    """Computes closures of events under one ontology.

    >>> dog, animal = "<urn:Dog>", "<urn:Animal>"
    >>> reasoner = Reasoner([(dog, SUBCLASS, animal)])
    >>> sorted(reasoner.close([("<urn:rex>", TYPE, dog)])) == [("<urn:rex>", TYPE, animal), ("<urn:rex>", TYPE, dog)]
    True
    """

    def __init__(
        self, triples: Iterable[Triple], mode: Entailment = Entailment.OWL_RL, *, limit: int = INFERRED_LIMIT
    ) -> None:
        stated = frozenset(triples)
        self.mode = mode
        self.limit = limit
        self.axioms = _axioms(stated, mode)
        self.schema: Schema = close_schema(self.axioms)
        self._rules: Rules = compile_rules(self.axioms) if mode is Entailment.OWL_RL else Rules()
        self._type_has_hierarchy = _type_has_hierarchy(self.schema)
        self._background = self._close_background(stated)
        self._background_has_same_as = mode is Entailment.OWL_RL and self._background.has_same_as
        may_merge = self._background_has_same_as or (mode is Entailment.OWL_RL and _implies_same(self.schema))
        self._only_hierarchy = not (self._rules or may_merge or self._type_has_hierarchy)
        self._superclasses, self._properties = self._tables()

    @property
    def is_hierarchy_only(self) -> bool:
        """Whether the ontology has only subclasses, subproperties, domains and ranges: each triple is closed alone."""
        return self._only_hierarchy

    @cached_property
    def consequence_bound(self) -> ConsequenceBound | None:
        """The bound on the consequences of single triples; None if any triple may follow from any other."""
        if self._type_has_hierarchy or self._background_has_same_as or uses_type_as_property(self.axioms):
            return None
        return ConsequenceBound(self.axioms, self.schema, self._background)

    @cached_property
    def background(self) -> frozenset[Triple]:
        """The closed background, without the blank nodes of class expressions."""
        return frozenset(t for t in self._background.triples if _has_no_blank(t))

    def close(self, event: Iterable[Triple]) -> set[Triple]:
        """The event's triples and the triples inferred from them, without those of the closed background."""
        stated = set(event)
        expanded = _expand(stated, self._superclasses, self._properties)
        if not self._only_hierarchy or (self.mode is Entailment.OWL_RL and any(t[1] == SAME for t in stated)):
            expanded = self._close_by_rules(stated, expanded)
        return stated | expanded.difference(self._background.triples)

    @property
    def closed_background(self) -> LayeredTriples:
        """The closed background with lookups, class expressions included. It must not be changed."""
        return self._background

    def close_layered(self, event: Iterable[Triple]) -> LayeredTriples:
        """The closure of an event as a layer on the background, class expressions included."""
        stated = set(event)
        return self._layer_of(stated, self._expanded(stated))

    def _close_by_rules(self, stated: set[Triple], expanded: set[Triple]) -> set[Triple]:
        if self._type_has_hierarchy:
            expanded = self._expanded(stated)
        if self._background_has_same_as or any(map(self._rules.may_fire, expanded)):
            expanded = self._layer_of(stated, expanded).triples
        return {t for t in expanded if _has_no_blank(t)}

    def _layer_of(self, stated: set[Triple], expanded: set[Triple]) -> LayeredTriples:
        layer = LayeredTriples(expanded.difference(self._background.triples), self._background)
        self._saturate(layer, self.limit + (1 + INFERRED_PER_TRIPLE) * len(stated))
        return layer

    def _close_background(self, stated: frozenset[Triple]) -> LayeredTriples:
        members = (t for t in enumerated(self.axioms) if not v.is_literal(t[0]))
        background = LayeredTriples(self._expanded(stated.union(members, _hierarchy(self.schema))))
        self._saturate(background, None)
        return background

    def _expanded(self, triples: Iterable[Triple]) -> set[Triple]:
        """The closure under the hierarchy, class expressions included."""
        expanded = _expand(triples, self.schema.superclasses, self.schema.properties)
        while self._type_has_hierarchy:
            more = _expand(expanded, self.schema.superclasses, self.schema.properties)
            if len(more) == len(expanded):
                break
            expanded = more
        return expanded

    def _saturate(self, layer: LayeredTriples, limit: int | None) -> None:
        """Apply the rules to the triples of the upper layer until nothing new is inferred."""
        rules = self._rules
        stack = list(layer.triples)
        while stack:
            triple = stack.pop()
            if layer.has_same_as or rules.may_fire(triple):
                for new in self._expanded(self._infer(triple, layer, limit)):
                    if layer.add(new):
                        stack.append(new)
        if limit is not None and len(layer.triples) > limit:
            raise _limit_error(limit)

    def _infer(self, triple: Triple, layer: LayeredTriples, limit: int | None) -> set[Triple]:
        """The new triples that rules infer from a triple. Literals become neither subject nor predicate."""
        inferred: set[Triple] = set()
        for new in self._rules.infer(triple, layer):
            if new not in layer and new[0][0] != '"' and new[1][0] != '"':
                inferred.add(new)
                if limit is not None and len(layer.triples) + len(inferred) > limit:
                    raise _limit_error(limit)
        return inferred

    def _tables(self) -> tuple[Ancestors, PropertyTable]:
        """The hierarchy for ``close``: without class expressions if no rule uses them."""
        if not self._only_hierarchy:
            return self.schema.superclasses, self.schema.properties
        superclasses = {c: _without_blank(above) for c, above in self.schema.superclasses.items()}
        properties = {
            p: (_without_blank(q), _without_blank(d), _without_blank(r))
            for p, (q, d, r) in self.schema.properties.items()
        }
        return superclasses, properties


def _expand(triples: Iterable[Triple], superclasses: Ancestors, properties: PropertyTable) -> set[Triple]:
    """The triples with those inferred from each of them by the hierarchy; unrolled, because it runs for every event."""
    expanded = set(triples)
    for s, p, o in triples:
        if p == TYPE:
            for c in superclasses.get(o, ()):
                expanded.add((s, TYPE, c))
        entry = properties.get(p)
        if entry is not None:
            above, subject_classes, object_classes = entry
            for q in above:
                expanded.add((s, q, o))
            for c in subject_classes:
                expanded.add((s, TYPE, c))
            if object_classes and o[0] != '"':
                for c in object_classes:
                    expanded.add((o, TYPE, c))
    return expanded


def _limit_error(limit: int) -> LimitError:
    return LimitError(
        f"more than {limit} triples are inferred from one event",
        advice="look for owl:sameAs or a transitive property that joins many individuals, or raise the limit",
    )


def _axioms(triples: frozenset[Triple], mode: Entailment) -> Axioms:
    if mode is Entailment.NONE:
        return Axioms()
    return rdfs_axioms(triples) if mode is Entailment.RDFS else owl_axioms(triples)


def _hierarchy(schema: Schema) -> Iterator[Triple]:
    """The closed hierarchy as triples, so that patterns can match them."""
    yield from ((c, SUBCLASS, d) for c, above in schema.superclasses.items() for d in above)
    yield from ((p, SUBPROPERTY, q) for p, above in schema.superproperties.items() for q in above)


def _type_has_hierarchy(schema: Schema) -> bool:
    """Whether rdf:type is in the property hierarchy, so that one expansion does not suffice."""
    return TYPE in schema.properties or any(TYPE in above for above in schema.superproperties.values())


def _implies_same(schema: Schema) -> bool:
    """Whether some property implies owl:sameAs."""
    return any(SAME in above for above in schema.superproperties.values())


def _has_no_blank(triple: Triple) -> bool:
    return triple[0][0] != "_" and triple[2][0] != "_" and triple[1][0] != "_"


def _without_blank(terms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(term for term in terms if not v.is_blank(term))
