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
from motet.plan.leaves import EVENT, LeafPredicates, normalise
from motet.sparql.algebra import Algebra, Bgp, Extend, Filter, Join, LeftJoin, Minus, Triple, is_hidden, variable_name

Offered = tuple[str, str, str]
Needed = tuple[Triple, ...]  # the triples that every match of a leaf has

THIS = "this"
_STAND_IN = "<urn:motet:variable:"


@dataclass(frozen=True, slots=True, order=True)
class Feed:
    """Events derived by a clause of one subscription are seen by a leaf of another."""

    producer: str
    clause: int  # from 1
    consumer: str
    node: int  # the leaf's place in the plan


def feeds(plan: Plan, reasoner: Reasoner | None = None) -> tuple[Feed, ...]:
    """All feeding edges of a plan; a UsageError names the subscriptions that feed each other in a cycle.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> feeds(build(parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b")))
    (Feed(producer='one', clause=1, consumer='two', node=1),)
    """
    found = tuple(sorted(_feeds(plan, reasoner or Reasoner((), Entailment.NONE))))
    refuse_circles({(feed.producer, feed.consumer) for feed in found})
    return found


def refuse_circles(edges: set[tuple[str, str]]) -> None:
    """Given as producers with consumers."""
    if circle := _circle(edges):
        raise UsageError(
            f"the CONSTRUCT clauses of {', '.join(circle)} feed each other in a cycle",
            advice="Give the derived events a class that no EVENT of these subscriptions matches.",
        )


def fed(plan: Plan, reasoner: Reasoner | None = None) -> frozenset[str]:
    """The subscriptions that derive events for others, and those others, were they all in force at once."""
    found = _feeds(plan, reasoner or Reasoner((), Entailment.NONE))
    return frozenset(name for feed in found for name in (feed.producer, feed.consumer))


def feeds_itself(subscription: Subscription, reasoner: Reasoner) -> bool:
    """Whether a subscription's events would match its own leaves, if it saw them."""
    leaves = [needs(normalise(event)[0]) for event in subscription.events]
    return any(offer.meets(leaf) for offer in offers(subscription, reasoner) for leaf in leaves)


@dataclass(frozen=True, slots=True)
class Offer:
    """What events derived by a clause may say: the template's triples with all that follows, an IRI standing in for
    each variable; and what is known besides.
    """

    triples: frozenset[Offered]
    background: frozenset[Offered]

    def meets(self, needed: Needed) -> bool:
        """Whether a leaf may match them."""
        return all(self._has(triple) for triple in needed)

    def _has(self, needed: Triple) -> bool:
        if any(_may_be(needed, triple) for triple in self.triples):
            return True
        return needed.subject != f"?{EVENT}" and any(_may_be(needed, triple) for triple in self.background)


def offers(subscription: Subscription, reasoner: Reasoner) -> list[Offer]:
    """Of each clause."""
    delivery = subscription.delivery
    return [_offer(template, reasoner) for template in delivery.templates] if isinstance(delivery, Construct) else []


def needs(leaf: LeafPredicates) -> Needed:
    """What an event must say, at least."""
    return tuple(_needed(leaf.algebra()))


def _feeds(plan: Plan, reasoner: Reasoner) -> Iterator[Feed]:
    leaves = [(node.id, needs(plan.leaves[node.operator.match or 0])) for node in plan.nodes if node.kind is Kind.LEAF]
    for root in plan.roots:
        name = root.subscription.name
        for clause, offer in enumerate(offers(root.subscription, reasoner), 1):
            for node, needed in leaves:
                if offer.meets(needed):
                    yield from (Feed(name, clause, user, node) for user in plan.users.get(node, ()) if user != name)


def _offer(template: Template, reasoner: Reasoner) -> Offer:
    triples = [
        (_stand_in(triple.subject), _stand_in(str(triple.predicate)), _stand_in(triple.object))
        for triple in template.triples
    ]
    return Offer(frozenset(reasoner.close(triples)), reasoner.background)


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


def _may_be(needed: Triple, offered: Offered) -> bool:
    places = (needed.subject, needed.predicate, needed.object)
    return all(_agrees(want, term) for want, term in zip(places, offered, strict=True))


def _agrees(want: object, term: str) -> bool:
    if not isinstance(want, str):  # a property path: by whatever links
        return True
    if want == f"?{EVENT}":
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
class FeedingEdges:
    """Of subscriptions that are known by name, with what their clauses offer and their leaves need.

    >>> from motet.language.parse import parse
    >>> from motet.ontology.entailment import Reasoner
    >>> from motet.plan.derivation_edges import needs, offers
    >>> from motet.plan.leaves import normalise
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> edges = FeedingEdges()
    >>> for one in parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b"):
    ...     edges.add(one.name, offers(one, Reasoner(())), {7: needs(normalise(one.events[0])[0])})
    False
    True
    >>> edges.fed
    {('one', 1): {'two': [7]}}
    >>> edges.remove("two"), edges.fed
    (True, {('one', 1): {}})
    """

    offers: dict[Clause, Offer] = field(default_factory=dict)
    needs: dict[str, Mapping[int, Needed]] = field(default_factory=dict)  # by name and leaf
    fed: dict[Clause, dict[str, list[int]]] = field(default_factory=dict)  # by clause: who sees it, by which leaves

    def copy(self) -> FeedingEdges:
        """One that goes its own way from here."""
        return FeedingEdges({**self.offers}, {**self.needs}, {clause: {**fed} for clause, fed in self.fed.items()})

    def add(self, name: str, offers: Sequence[Offer], needs: Mapping[int, Needed]) -> bool:
        """A subscription comes; whether it feeds somebody or is fed."""
        own = {(name, clause): offer for clause, offer in enumerate(offers, 1)}
        self.fed.update((clause, _fed(offer, self.needs)) for clause, offer in own.items())
        is_fed = [self._feed(clause, name, needs) for clause in self.offers]
        self.offers |= own
        self.needs[name] = needs
        return any(is_fed) or any(self.fed[clause] for clause in own)

    def _feed(self, clause: Clause, name: str, needs: Mapping[int, Needed]) -> bool:
        found = _fed(self.offers[clause], {name: needs})
        self.fed[clause].update(found)
        return bool(found)

    def remove(self, name: str) -> bool:
        """A subscription goes; whether it fed somebody or was fed."""
        own = [clause for clause in self.offers if clause[0] == name]
        has_fed = [self.fed.pop(clause) for clause in own]
        for clause in own:
            del self.offers[clause]
        self.needs.pop(name, None)
        was_fed = [fed.pop(name, None) for fed in self.fed.values()]
        return any(has_fed) or any(was_fed)

    def pairs(self) -> set[tuple[str, str]]:
        """Each who feeds somebody, with each it feeds."""
        return {(producer, consumer) for (producer, _), fed in self.fed.items() for consumer in fed}

    def refuse_circles(self) -> None:
        """A UsageError names the subscriptions that feed each other in a cycle."""
        refuse_circles(self.pairs())


def _fed(offer: Offer, needs: Mapping[str, Mapping[int, Needed]]) -> dict[str, list[int]]:
    found = {name: [leaf for leaf, needed in own.items() if offer.meets(needed)] for name, own in needs.items()}
    return {name: leaves for name, leaves in found.items() if leaves}
