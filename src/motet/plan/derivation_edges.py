"""Derivation edges: which CONSTRUCT clauses feed which leaves of other subscriptions, for a plan or incrementally.

A clause feeds a leaf when each triple that all matches of the leaf require may be one of the template's triples, or
follow from one, or from the background (language page, sections 8 and 12). No subscription feeds itself, and cycles are
refused. In a template ``?this`` is the derived event; its other variables stand for any term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from motet.language.syntax import Construct, Subscription, Template
from motet.model.errors import UsageError
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.graph import Kind, Plan
from motet.plan.leaves import EVENT_VARIABLE, LeafPredicates, normalise
from motet.sparql.algebra import Algebra, Bgp, Extend, Filter, Join, LeftJoin, Minus, Triple, is_hidden, variable_name

TemplateTriple = tuple[str, str, str]
RequiredTriples = tuple[Triple, ...]  # the triples that every match of a leaf has

THIS = "this"
_STAND_IN = "<urn:motet:variable:"


@dataclass(frozen=True, slots=True, order=True)
class DerivationEdge:
    """Events derived by a clause of one subscription are seen by a leaf of another."""

    producer: str
    clause: int  # from 1
    consumer: str
    node: int  # the leaf's place in the plan


def derivation_edges(plan: Plan, reasoner: Reasoner | None = None) -> tuple[DerivationEdge, ...]:
    """All feeding edges of a plan; a UsageError names the subscriptions that feed each other in a cycle.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> derivation_edges(build_plan(parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b")))
    (DerivationEdge(producer='one', clause=1, consumer='two', node=1),)
    """
    found = tuple(sorted(_feeds(plan, reasoner or Reasoner((), Entailment.NONE))))
    refuse_cycles({(feed.producer, feed.consumer) for feed in found})
    return found


def refuse_cycles(edges: set[tuple[str, str]]) -> None:
    """Given as producers with consumers."""
    if circle := _circle(edges):
        raise UsageError(
            f"the CONSTRUCT clauses of {', '.join(circle)} feed each other in a cycle",
            advice="Give the derived events a class that no EVENT of these subscriptions matches.",
        )


def linked_names(plan: Plan, reasoner: Reasoner | None = None) -> frozenset[str]:
    """The subscriptions that derive events for others, and those others, were they all in force at once."""
    found = _feeds(plan, reasoner or Reasoner((), Entailment.NONE))
    return frozenset(name for feed in found for name in (feed.producer, feed.consumer))


def feeds_itself(subscription: Subscription, reasoner: Reasoner) -> bool:
    """Whether a subscription's events would match its own leaves, if it saw them."""
    leaves = [required_triples(normalise(event)[0]) for event in subscription.events]
    return any(offer.may_match(leaf) for offer in template_triples(subscription, reasoner) for leaf in leaves)


@dataclass(frozen=True, slots=True)
class TemplateTriples:
    """What events derived by a clause may say: the template's triples with all that follows, an IRI standing in for
    each variable; and what is known besides.
    """

    triples: frozenset[TemplateTriple]
    background: frozenset[TemplateTriple]

    def may_match(self, needed: RequiredTriples) -> bool:
        """Whether a leaf may match them."""
        return all(self._has(triple) for triple in needed)

    def _has(self, needed: Triple) -> bool:
        if any(_may_be(needed, triple) for triple in self.triples):
            return True
        return needed.subject != f"?{EVENT_VARIABLE}" and any(_may_be(needed, triple) for triple in self.background)


def template_triples(subscription: Subscription, reasoner: Reasoner) -> list[TemplateTriples]:
    """Of each clause."""
    delivery = subscription.delivery
    return [_offer(template, reasoner) for template in delivery.templates] if isinstance(delivery, Construct) else []


def required_triples(leaf: LeafPredicates) -> RequiredTriples:
    """What an event must say, at least."""
    return tuple(_needed(leaf.algebra()))


def _feeds(plan: Plan, reasoner: Reasoner) -> Iterator[DerivationEdge]:
    leaves = [
        (node.id, required_triples(plan.leaves[node.operator.leaf_id or 0]))
        for node in plan.nodes
        if node.kind is Kind.LEAF
    ]
    for root in plan.roots:
        name = root.subscription.name
        for clause, offer in enumerate(template_triples(root.subscription, reasoner), 1):
            for node, needed in leaves:
                if offer.may_match(needed):
                    yield from (
                        DerivationEdge(name, clause, user, node) for user in plan.users.get(node, ()) if user != name
                    )


def _offer(template: Template, reasoner: Reasoner) -> TemplateTriples:
    triples = [
        (_stand_in(triple.subject), _stand_in(str(triple.predicate)), _stand_in(triple.object))
        for triple in template.triples
    ]
    return TemplateTriples(frozenset(reasoner.close(triples)), reasoner.background)


def _stand_in(place: str) -> str:
    name = variable_name(place)
    return place if not name else f"{_STAND_IN}{name.lstrip('.') if is_hidden(name) else name}>"


def _needed(pattern: Algebra) -> Iterator[Triple]:
    """The triples that every match has."""
    match pattern:
        case Bgp(triples):
            yield from triples
        case Join(left, right):
            yield from _needed(left)
            yield from _needed(right)
        case LeftJoin(left) | Minus(left):
            yield from _needed(left)
        case Filter(operand) | Extend(operand):
            yield from _needed(operand)


def _may_be(needed: Triple, offered: TemplateTriple) -> bool:
    places = (needed.subject, needed.predicate, needed.object)
    return all(_agrees(want, term) for want, term in zip(places, offered, strict=True))


def _agrees(want: object, term: str) -> bool:
    if not isinstance(want, str):  # a property path: by whatever links
        return True
    if want == f"?{EVENT_VARIABLE}":
        return term == f"{_STAND_IN}{THIS}>"
    return bool(variable_name(want)) or term.startswith(_STAND_IN) or want == term


def _circle(edges: set[tuple[str, str]]) -> list[str]:
    """The subscriptions on circles, and between them; empty when there are none."""
    while edges:
        producers, consumers = {producer for producer, _ in edges}, {consumer for _, consumer in edges}
        inner = {
            (producer, consumer) for producer, consumer in edges if producer in consumers and consumer in producers
        }
        if inner == edges:
            return sorted(producers | consumers)
        edges = inner
    return []


Clause = tuple[str, int]  # a subscription's, counted from 1


@dataclass
class DerivationGraph:
    """Of subscriptions that are known by name, with what their clauses offer and their leaves need.

    >>> from motet.language.parse import parse
    >>> from motet.ontology.entailment import Reasoner
    >>> from motet.plan.derivation_edges import required_triples, template_triples
    >>> from motet.plan.leaves import normalise
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> graph = DerivationGraph()
    >>> for subscription in parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b"):
    ...     leaf = required_triples(normalise(subscription.events[0])[0])
    ...     graph.add(subscription.name, template_triples(subscription, Reasoner(())), {7: leaf})
    False
    True
    >>> graph.edges
    {('one', 1): {'two': [7]}}
    >>> graph.remove("two"), graph.edges
    (True, {('one', 1): {}})
    """

    templates: dict[Clause, TemplateTriples] = field(default_factory=dict)
    required: dict[str, Mapping[int, RequiredTriples]] = field(default_factory=dict)  # by name and leaf
    edges: dict[Clause, dict[str, list[int]]] = field(default_factory=dict)  # by clause: who sees it, by which leaves

    def copy(self) -> DerivationGraph:
        """One that goes its own way from here."""
        return DerivationGraph(
            {**self.templates}, {**self.required}, {clause: {**fed} for clause, fed in self.edges.items()}
        )

    def add(self, name: str, offers: Sequence[TemplateTriples], needs: Mapping[int, RequiredTriples]) -> bool:
        """A subscription comes; whether it feeds somebody or is fed."""
        own = {(name, clause): offer for clause, offer in enumerate(offers, 1)}
        self.edges.update((clause, _fed(offer, self.required)) for clause, offer in own.items())
        is_fed = [self._feed(clause, name, needs) for clause in self.templates]
        self.templates |= own
        self.required[name] = needs
        return any(is_fed) or any(self.edges[clause] for clause in own)

    def _feed(self, clause: Clause, name: str, needs: Mapping[int, RequiredTriples]) -> bool:
        found = _fed(self.templates[clause], {name: needs})
        self.edges[clause].update(found)
        return bool(found)

    def remove(self, name: str) -> bool:
        """A subscription goes; whether it fed somebody or was fed."""
        own = [clause for clause in self.templates if clause[0] == name]
        has_fed = [self.edges.pop(clause) for clause in own]
        for clause in own:
            del self.templates[clause]
        self.required.pop(name, None)
        was_fed = [fed.pop(name, None) for fed in self.edges.values()]
        return any(has_fed) or any(was_fed)

    def pairs(self) -> set[tuple[str, str]]:
        """Each who feeds somebody, with each it feeds."""
        return {(producer, consumer) for (producer, _), fed in self.edges.items() for consumer in fed}

    def refuse_cycles(self) -> None:
        """A UsageError names the subscriptions that feed each other in a cycle."""
        refuse_cycles(self.pairs())


def _fed(offer: TemplateTriples, needs: Mapping[str, Mapping[int, RequiredTriples]]) -> dict[str, list[int]]:
    found = {name: [leaf for leaf, needed in own.items() if offer.may_match(needed)] for name, own in needs.items()}
    return {name: leaves for name, leaves in found.items() if leaves}
