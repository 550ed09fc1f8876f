"""Which CONSTRUCT clauses feed which leaves: the edges of a plan from one subscription to another.

A clause feeds a leaf when each triple that all matches of the leaf need may be one of the template's triples, or follow
from one, or from the background (language page, sections 8 and 12). No subscription feeds itself, and circles are
refused. In a template ``?this`` is the derived event; its other variables stand for anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from motet.language.syntax import Construct, Subscription, Template
from motet.model.errors import UsageError
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.leaf_predicates import EVENT, LeafPredicates, normalise
from motet.plan.nodes import Kind, Plan
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
    >>> from motet.plan.dag import build
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
