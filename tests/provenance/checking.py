"""Checks a derivation tree: every fact is computed again from events and definitions.

It shares nothing with the code that made the tree but joins, relations and SPARQL of the reference engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from motet.language import syntax as s
from motet.language.scope import nodes
from motet.model.intervals import Interval, Relation
from motet.model.terms import iri
from motet.ontology.entailment import Entailment, Reasoner
from motet.provenance import facts as f
from motet.provenance.why import DerivationNode, Why
from motet.reference.occurrences import Occurrence, bindings_agree, merge
from motet.reference.records import EventRecord
from motet.reference.sparql import Triple, holds


def untrue(why: Why, subscription: s.Subscription) -> Iterator[str]:
    """The errors of a derivation tree, apart from those about triples and absences."""
    notification = why.notification
    leaves = list(why.root.leaves())
    if {event for leaf in leaves for event in leaf.occurrence.events} != set(notification.events):
        yield "the leaves are not the notification's events"
    top = why.root.occurrence
    if (top.start, top.end, tuple(sorted(top.events))) != (
        notification.start_micros,
        notification.end_micros,
        notification.events,
    ):
        yield "the root is not the notification"
    if not set(notification.bindings) <= set(top.bindings):
        yield "the root does not bind what the notification binds"
    for node in _nodes(why.root):
        yield from (f"{fact} at {node.pattern}" for fact in node.facts if not true_alone(fact))
        yield from (f"{fact} at {node.pattern}" for fact in node.facts if not true_of_parts(fact, node))
        if node.operands and not made_of(node):
            yield f"{node.pattern} is not made of its operands"
    if not _is_path(why.root, subscription.pattern):
        yield "the operators are not those of the pattern"


def _nodes(node: DerivationNode) -> Iterator[DerivationNode]:
    yield node
    for operand in node.operands:
        yield from _nodes(operand)


def made_of(node: DerivationNode) -> bool:
    """Whether events and hull are those of the operands, and a variable has the value its operands agree on."""
    merged = merge([operand.occurrence for operand in node.operands], frozenset())
    o = node.occurrence
    return (o.events, o.start, o.end) == (merged.events, merged.start, merged.end) and set(o.bindings) <= set(
        merged.bindings
    )


def _is_path(node: DerivationNode, pattern: s.Pattern) -> bool:
    """Whether every node of the tree is a node of the pattern, below its parent."""
    inside = [node for node, _ in nodes(pattern)]
    return node.pattern in inside and all(_is_path(operand, node.pattern) for operand in node.operands)


def true_of_parts(fact: f.Fact, node: DerivationNode) -> bool:
    """Whether a fact is true of the operands and of the occurrence."""
    operands = [operand.occurrence for operand in node.operands]
    match fact:
        case f.Agrees(variable, term):
            return sum((variable, term) in operand.bindings for operand in operands) > 1
        case f.Counted(members, key):
            return members == len(operands) and all(set(key) <= set(operand.bindings) for operand in operands)
        case f.Begins(point):
            return point == node.occurrence.start and not node.occurrence.events
        case f.Gap(previous, following):
            return {previous, following} <= {operand.end for operand in operands}
        case f.Relates(_, left, right):
            intervals = [Interval(operand.start, operand.end) for operand in operands]
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
    node: DerivationNode, events: Mapping[str, EventRecord], ontology: frozenset[Triple], entailment: str
) -> Iterator[str]:
    """Triples of published events that are not in their stated source; inferred ones must have axioms."""
    reasoner = _reasoner(ontology, entailment)
    for leaf in node.leaves():
        (event,) = leaf.occurrence.events
        if event not in events:
            continue
        triples = events[event].triples
        for fact in leaf.facts:
            if isinstance(fact, f.Stated) and not _is_there(fact, triples, reasoner):
                yield f"{fact} of {iri(event)}"


@lru_cache
def _reasoner(ontology: frozenset[Triple], entailment: str) -> Reasoner:
    return Reasoner(ontology, Entailment(entailment))


def _is_there(fact: f.Stated, triples: frozenset[Triple], reasoner: Reasoner) -> bool:
    match fact.source:
        case "event":
            return fact.triple in triples
        case "background":
            return fact.triple in reasoner.background and fact.triple not in triples
        case "reasoning":
            needs_axioms = fact.triple not in Reasoner((), reasoner.mode).close(triples)
            is_inferred = fact.triple in reasoner.close(triples) and fact.triple not in triples
            return is_inferred and bool(fact.axioms) == needs_axioms
    return fact.source == "path"


def contradicting(fact: f.Absent, occurrences: list[Occurrence]) -> list[Occurrence]:
    """The occurrences of the absent pattern that contradict the fact."""
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
