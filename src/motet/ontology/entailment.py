"""What is true of an event, given the ontology?

A ``Reasoner`` closes the background (the triples that come with the ontology) once. For each event it returns what the
event adds to that closure. Axioms are what the ontology states; a triple of an event never becomes an axiom, so a
publisher cannot change what classes mean. Blank nodes of class expressions stay inside: no result mentions one.

- ``none``: the event as it is.
- ``rdfs``: subclass, subproperty, domain, range (rdfs2, 3, 5, 7, 9, 11).
- ``owl-rl``: the OWL 2 RL rules as ``schema`` and ``rules`` list them.

Literals never become subjects. Members of declared classes belong to owl:Thing, others to nothing unsaid. A
contradiction does not stop matching; ask ``clashes`` about it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from functools import cached_property

from motet.model.errors import LimitError
from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms, owl_axioms, rdfs_axioms
from motet.ontology.facts import Facts
from motet.ontology.reach import Reach, mentions_type
from motet.ontology.rules import Rules, compile_rules, enumerated
from motet.ontology.schema import Above, Properties, Schema, close_schema
from motet.ontology.vocabulary import SAME, SUBCLASS, SUBPROPERTY, TYPE, Triple

#: Triples that may follow from one event: so many, and so many more for each of its own. Merging individuals is cubic,
#: and at this limit the worst small event costs under a second.
DERIVED_LIMIT = 5_000
DERIVED_PER_TRIPLE = 10


class Entailment(enum.StrEnum):
    NONE = "none"
    RDFS = "rdfs"
    OWL_RL = "owl-rl"


class Reasoner:
    """The consequences of an ontology for one event at a time.

    >>> dog, animal = "<urn:Dog>", "<urn:Animal>"
    >>> reasoner = Reasoner([(dog, SUBCLASS, animal)])
    >>> sorted(reasoner.close([("<urn:rex>", TYPE, dog)])) == [("<urn:rex>", TYPE, animal), ("<urn:rex>", TYPE, dog)]
    True
    """

    def __init__(
        self, triples: Iterable[Triple], mode: Entailment = Entailment.OWL_RL, *, limit: int = DERIVED_LIMIT
    ) -> None:
        stated = frozenset(triples)
        self.mode = mode
        self.limit = limit
        self.axioms = _axioms(stated, mode)
        self.schema: Schema = close_schema(self.axioms)
        self._rules: Rules = compile_rules(self.axioms) if mode is Entailment.OWL_RL else Rules()
        self._is_odd = _is_odd(self.schema)
        self._background = self._close_background(stated)
        self._merges = mode is Entailment.OWL_RL and self._background.has_same
        merges = self._merges or (mode is Entailment.OWL_RL and _implies_same(self.schema))
        self._only_hierarchy = not (self._rules or merges or self._is_odd)
        self._superclasses, self._properties = self._tables()

    @property
    def only_hierarchy(self) -> bool:
        """Whether subclass, subproperty, domain and range are all there is, so that triples follow one by one."""
        return self._only_hierarchy

    @cached_property
    def reach(self) -> Reach | None:
        """What single triples of an event can lead to; None when anything can follow from any."""
        if self._is_odd or self._merges or mentions_type(self.axioms):
            return None
        return Reach(self.axioms, self.schema, self._background)

    @cached_property
    def background(self) -> frozenset[Triple]:
        """The closed background, without the blank nodes of class expressions."""
        return frozenset(t for t in self._background.triples if _is_plain(t))

    def close(self, event: Iterable[Triple]) -> set[Triple]:
        """The event's triples and everything that follows from them and is not in the closed background."""
        own = set(event)
        found = _expand(own, self._superclasses, self._properties)
        if not self._only_hierarchy or (self.mode is Entailment.OWL_RL and any(t[1] == SAME for t in own)):
            found = self._close_generally(own, found)
        return own | found.difference(self._background.triples)

    @property
    def closed_background(self) -> Facts:
        """The closed background with its look-ups, class expressions included. Not to be changed."""
        return self._background

    def layer(self, event: Iterable[Triple]) -> Facts:
        """What the event adds, class expressions included: for those who look for contradictions or members."""
        own = set(event)
        return self._layer_of(own, self._expanded(own))

    def _close_generally(self, own: set[Triple], expanded: set[Triple]) -> set[Triple]:
        if self._is_odd:
            expanded = self._expanded(own)
        if self._merges or any(map(self._rules.sets_off, expanded)):
            expanded = self._layer_of(own, expanded).triples
        return {t for t in expanded if _is_plain(t)}

    def _layer_of(self, own: set[Triple], expanded: set[Triple]) -> Facts:
        facts = Facts(expanded.difference(self._background.triples), self._background)
        self._saturate(facts, self.limit + (1 + DERIVED_PER_TRIPLE) * len(own))
        return facts

    def _close_background(self, stated: frozenset[Triple]) -> Facts:
        members = (t for t in enumerated(self.axioms) if not v.is_literal(t[0]))
        facts = Facts(self._expanded(stated.union(members, _hierarchy(self.schema))))
        self._saturate(facts, None)
        return facts

    def _expanded(self, triples: Iterable[Triple]) -> set[Triple]:
        """All that the hierarchy says, class expressions included."""
        found = _expand(triples, self.schema.superclasses, self.schema.properties)
        while self._is_odd and len(more := _expand(found, self.schema.superclasses, self.schema.properties)) > len(
            found
        ):
            found = more
        return found

    def _saturate(self, facts: Facts, limit: int | None) -> None:
        """Follow every rule from every triple of the upper layer, expanded already, until nothing is new."""
        rules = self._rules
        waiting = list(facts.triples)
        while waiting:
            triple = waiting.pop()
            if facts.has_same or rules.sets_off(triple):
                for new in self._expanded(self._new(triple, facts, limit)):
                    if facts.add(new):
                        waiting.append(new)
        if limit is not None and len(facts.triples) > limit:
            raise _too_much(limit)

    def _new(self, triple: Triple, facts: Facts, limit: int | None) -> set[Triple]:
        """What the rules derive from a triple and is not known. Literals become neither subject nor predicate."""
        found: set[Triple] = set()
        for new in self._rules.follow(triple, facts):
            if new not in facts and new[0][0] != '"' and new[1][0] != '"':
                found.add(new)
                if limit is not None and len(facts.triples) + len(found) > limit:
                    raise _too_much(limit)
        return found

    def _tables(self) -> tuple[Above, Properties]:
        """The hierarchy as ``close`` needs it: without class expressions when no rule will look at them."""
        if not self._only_hierarchy:
            return self.schema.superclasses, self.schema.properties
        superclasses = {c: _plain(above) for c, above in self.schema.superclasses.items()}
        properties = {p: (_plain(q), _plain(d), _plain(r)) for p, (q, d, r) in self.schema.properties.items()}
        return superclasses, properties


def _expand(triples: Iterable[Triple], superclasses: Above, properties: Properties) -> set[Triple]:
    """The hierarchy rules, which need no look at other triples. Written out: this is the path of every event."""
    found = set(triples)
    for s, p, o in triples:
        if p == TYPE:
            for c in superclasses.get(o, ()):
                found.add((s, TYPE, c))
        known = properties.get(p)
        if known is not None:
            above, subject_classes, object_classes = known
            for q in above:
                found.add((s, q, o))
            for c in subject_classes:
                found.add((s, TYPE, c))
            if object_classes and o[0] != '"':
                for c in object_classes:
                    found.add((o, TYPE, c))
    return found


def _too_much(limit: int) -> LimitError:
    return LimitError(
        f"more than {limit} triples hold because of one event",
        advice="look for owl:sameAs or a transitive property that joins many individuals, or raise the limit",
    )


def _axioms(triples: frozenset[Triple], mode: Entailment) -> Axioms:
    if mode is Entailment.NONE:
        return Axioms()
    return rdfs_axioms(triples) if mode is Entailment.RDFS else owl_axioms(triples)


def _hierarchy(schema: Schema) -> Iterator[Triple]:
    """Subclass and subproperty closed, so that a pattern may ask for them."""
    yield from ((c, SUBCLASS, d) for c, above in schema.superclasses.items() for d in above)
    yield from ((p, SUBPROPERTY, q) for p, above in schema.superproperties.items() for q in above)


def _is_odd(schema: Schema) -> bool:
    """Whether rdf:type takes part in the property hierarchy, so that expanding once is not enough."""
    return TYPE in schema.properties or any(TYPE in above for above in schema.superproperties.values())


def _implies_same(schema: Schema) -> bool:
    """Whether some property implies owl:sameAs."""
    return any(SAME in above for above in schema.superproperties.values())


def _is_plain(triple: Triple) -> bool:
    return triple[0][0] != "_" and triple[2][0] != "_" and triple[1][0] != "_"


def _plain(terms: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(term for term in terms if not v.is_blank(term))
