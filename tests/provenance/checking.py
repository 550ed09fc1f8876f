"""Whether an account of a notification is true: everything it states is computed again, from events and definitions.

Shares nothing with what made the account but the definitions of joins, relations and SPARQL in the reference engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from motet.language import syntax as s
from motet.language.walk import nodes
from motet.model.intervals import Interval, Relation
from motet.model.terms import iri
from motet.ontology.entailment import Entailment, Reasoner
from motet.provenance import facts as f
from motet.provenance.why import DerivationNode, Why
from motet.reference.occurrences import Occurrence, bindings_agree, merge
from motet.reference.records import EventRecord
from motet.reference.sparql import Triple, holds


def untrue(why: Why, subscription: s.Subscription) -> Iterator[str]:
    """What is wrong with an account, apart from what it says of triples and of absences."""
    notification = why.notification
    leaves = list(why.root.leaves())
    if {event for leaf in leaves for event in leaf.occurrence.events} != set(notification.events):
        yield "the leaves are not the notification's events"
    top = why.root.occurrence
    if (top.start, top.end, tuple(sorted(top.events))) != (notification.start, notification.end, notification.events):
        yield "the root is not the notification"
    if not set(notification.bindings) <= set(top.bindings):
        yield "the root does not bind what the notification binds"
    for reason in _nodes(why.root):
        yield from (f"{fact} at {reason.pattern}" for fact in reason.facts if not true_alone(fact))
        yield from (f"{fact} at {reason.pattern}" for fact in reason.facts if not true_of_parts(fact, reason))
        if reason.operands and not made_of(reason):
            yield f"{reason.pattern} is not made of its parts"
    if not _is_path(why.root, subscription.pattern):
        yield "the operators are not those of the pattern"


def _nodes(reason: DerivationNode) -> Iterator[DerivationNode]:
    yield reason
    for part in reason.operands:
        yield from _nodes(part)


def made_of(reason: DerivationNode) -> bool:
    """Events and hull are those of the parts; a variable has the value every part that binds it has."""
    whole = merge([part.occurrence for part in reason.operands], frozenset())
    o = reason.occurrence
    return (o.events, o.start, o.end) == (whole.events, whole.start, whole.end) and set(o.bindings) <= set(
        whole.bindings
    )


def _is_path(reason: DerivationNode, pattern: s.Pattern) -> bool:
    """Every node of the account is a node of the pattern, below the node it is part of."""
    inside = [node for node, _ in nodes(pattern)]
    return reason.pattern in inside and all(_is_path(part, reason.pattern) for part in reason.operands)


def true_of_parts(fact: f.Fact, reason: DerivationNode) -> bool:
    """What a fact says of the parts and of the occurrence itself."""
    parts = [part.occurrence for part in reason.operands]
    match fact:
        case f.Agrees(variable, term):
            return sum((variable, term) in part.bindings for part in parts) > 1
        case f.Counted(members, key):
            return members == len(parts) and all(set(key) <= set(part.bindings) for part in parts)
        case f.Begins(point):
            return point == reason.occurrence.start and not reason.occurrence.events
        case f.Gap(previous, following):
            return {previous, following} <= {part.end for part in parts}
        case f.Relates(_, left, right):
            intervals = [Interval(part.start, part.end) for part in parts]
            return left in intervals and right in intervals
    return True


def true_alone(fact: f.Fact) -> bool:  # noqa: PLR0911  (a table)
    match fact:
        case f.Relates("ALONGSIDE", left, right):
            return max(left.start, right.start) <= min(left.end, right.end)
        case f.Relates(relation, left, right):
            return Relation(relation).holds(Interval(left.start, left.end), Interval(right.start, right.end))
        case f.Fits(start, end, bound):
            return 0 <= end - start <= bound
        case f.Satisfies(condition, values) if "EXISTS" not in condition:
            return holds(condition, values, frozenset(re.findall(r"\?(\w+)", condition)))
        case f.Passes(left, right):
            return not left.end < right.start
        case f.Picked(_, _, candidates, taken):
            return 1 <= taken <= candidates
        case f.Gap(previous, following, allowed):
            return 0 <= following - previous <= allowed
    return True


def untrue_triples(
    reason: DerivationNode, events: Mapping[str, EventRecord], ontology: frozenset[Triple], entailment: str
) -> Iterator[str]:
    """Triples of published events that are not where they are said to be; the axioms named must suffice."""
    reasoner = _reasoner(ontology, entailment)
    for leaf in reason.leaves():
        (event,) = leaf.occurrence.events
        if event not in events:
            continue
        own = events[event].triples
        for fact in leaf.facts:
            if isinstance(fact, f.Stated) and not _is_there(fact, own, reasoner):
                yield f"{fact} of {iri(event)}"


@lru_cache
def _reasoner(ontology: frozenset[Triple], entailment: str) -> Reasoner:
    return Reasoner(ontology, Entailment(entailment))


def _is_there(fact: f.Stated, own: frozenset[Triple], reasoner: Reasoner) -> bool:
    match fact.source:
        case "event":
            return fact.triple in own
        case "background":
            return fact.triple in reasoner.background and fact.triple not in own
        case "reasoning":
            needs_axioms = fact.triple not in Reasoner((), reasoner.mode).close(own)
            is_inferred = fact.triple in reasoner.close(own) and fact.triple not in own
            return is_inferred and bool(fact.axioms) == needs_axioms
    return fact.source == "path"


def contradicting(fact: f.Absent, occurrences: list[Occurrence]) -> list[Occurrence]:
    """The occurrences of the absent pattern that would make the statement false."""
    return [b for b in occurrences if bindings_agree(b.bindings, fact.bindings) and _in_window(fact, b)]


def _in_window(fact: f.Absent, b: Occurrence) -> bool:
    match fact.window:
        case "after":
            return fact.after < b.start and b.end <= fact.until
        case "between":
            return fact.after < b.start and b.end < fact.until
        case _:
            assert fact.length is not None
            return max(fact.until, b.end) - min(fact.after, b.start) <= fact.length
