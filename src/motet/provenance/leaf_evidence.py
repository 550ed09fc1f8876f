"""By which triples does an event match a leaf?

The leaf's pattern is followed with the values of one solution: each triple is found again in the event, in the
background, or among what reasoning adds, then with the axioms it follows from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from motet.language.syntax import Event
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE
from motet.ontology.entailment import Reasoner
from motet.ontology.explain import explain
from motet.provenance.facts import Anything, Fact, Lacks, Satisfies, Stated
from motet.reference.leaves import Knowledge
from motet.reference.log import Seen
from motet.reference.occurrences import Bindings, project
from motet.reference.sparql import Triple
from motet.sparql import algebra as sparql
from motet.sparql.algebra import Algebra, Expr, variable_name
from motet.sparql.basic_patterns import compile_bgp
from motet.sparql.evaluate import compile_group
from motet.sparql.graph import Graph
from motet.sparql.rewrite import peeled
from motet.sparql.scope import has_exists, mentioned
from motet.sparql.write import expression_text, group_text

EXPLAINED = 8  # triples of one leaf whose axioms are looked for: each costs some dozens of closures
LARGEST_EXPLAINED = 20_000  # triples of an ontology; beyond that looking for axioms takes minutes


def leaf_text(event: Event) -> str:
    """The class and the body as one group graph pattern.

    >>> leaf_text(Event("e", "urn:C"))
    '?e a <urn:C>'
    """
    typed = f"?{event.name} a <{event.class_iri}>" if event.class_iri else ""
    body = event.body.text if event.body else ""
    return f"{typed} . {body}" if typed and body else typed or body


def evidence(event: Event, seen: Seen, solution: Bindings, knowledge: Knowledge) -> tuple[Fact, ...]:
    """The facts by which an event matches a leaf with a solution."""
    text = leaf_text(event)
    if not text.strip():
        return (Anything(),)
    found = _Followed(Graph(knowledge.closed(seen.triples)), dict(solution))
    facts = list(dict.fromkeys(found.facts(event.algebra)))
    return tuple(_sourced(facts, seen.triples, knowledge))


@dataclass(frozen=True)
class _Followed:
    """A pattern followed through a graph with the values of one solution."""

    graph: Graph
    values: dict[str, str]

    def facts(self, pattern: Algebra) -> Iterator[Fact]:
        match pattern:
            case sparql.Bgp():
                yield from self._triples(pattern)
            case sparql.Join(left, right):
                yield from self.facts(left)
                yield from self.facts(right)
            case sparql.LeftJoin(left, right, condition):
                yield from self.facts(left)
                yield from self._optional(right, condition)
            case sparql.Union(left, right):
                yield from self.facts(left if self._holds(left) else right)
            case sparql.Minus(left, right):
                yield from self.facts(left)
                yield Lacks(group_text(right))
            case sparql.Filter():
                conditions, operand = peeled(pattern)
                yield from self.facts(operand)
                yield from map(self._condition, conditions)
            case sparql.Extend(operand):
                yield from self.facts(operand)

    def _triples(self, pattern: sparql.Bgp) -> Iterator[Fact]:
        """The values of blank nodes and of the inner nodes of paths are found here: any that fit will do."""
        rows = sorted(compile_bgp(pattern)(self.graph, dict(self.values)), key=lambda row: sorted(row.items()))
        for triple in pattern.triples if rows else ():
            if isinstance(triple.predicate, str):
                places = (triple.subject, triple.predicate, triple.object)
                subject, predicate, value = (_filled(place, rows[0]) for place in places)
                yield Stated((subject, predicate, value), "event")
            else:
                path = group_text(sparql.Bgp((triple,))).split(" ", 1)[1].rsplit(" ", 1)[0]
                yield Stated((_filled(triple.subject, rows[0]), path, _filled(triple.object, rows[0])), "path")

    def _optional(self, right: Algebra, condition: Expr | None) -> Iterator[Fact]:
        whole = right if condition is None else sparql.Filter(right, condition)
        if self._holds(whole):
            yield from self.facts(whole)

    def _condition(self, condition: Expr) -> Fact:
        if isinstance(condition, sparql.Not) and isinstance(condition.operand, sparql.Exists):
            return Lacks(group_text(condition.operand.pattern))
        if has_exists(condition):
            return Satisfies(expression_text(condition), ())
        values = tuple(sorted(self.values.items()))
        return Satisfies(expression_text(condition), project(values, mentioned(condition)))

    def _holds(self, pattern: Algebra) -> bool:
        return bool(compile_group(pattern)(self.graph, dict(self.values)))


def _filled(place: str, row: dict[str, str]) -> str:
    name = variable_name(place)
    return place if name is None else row[name]


def _sourced(facts: Iterable[Fact], own: frozenset[Triple], knowledge: Knowledge) -> Iterator[Fact]:
    """The facts with where their triples come from; axioms for the first few that reasoning added."""
    explained = 0
    for fact in facts:
        if not isinstance(fact, Stated) or fact.source == "path" or fact.triple in own:
            yield fact
        elif fact.triple in knowledge.background():
            yield Stated(fact.triple, "background")
        else:
            axioms = entailing(fact.triple, own, knowledge) if explained < EXPLAINED else ()
            explained += 1
            yield Stated(fact.triple, "reasoning", axioms, _stated_classes(fact.triple, own))


def _stated_classes(triple: Triple, own: frozenset[Triple]) -> tuple[str, ...]:
    subject, predicate, _ = triple
    return classes_of(subject, own) if predicate == RDF_TYPE else ()


def classes_of(subject: str, triples: Iterable[Triple]) -> tuple[str, ...]:
    """
    >>> classes_of("<urn:e>", [("<urn:e>", RDF_TYPE, "<urn:C>")])
    ('<urn:C>',)
    """
    return tuple(sorted(value for one, predicate, value in triples if (one, predicate) == (subject, RDF_TYPE)))


def entailing(triple: Triple, own: frozenset[Triple], knowledge: Knowledge) -> tuple[str, ...]:
    """The axioms by which a triple follows from an event; none for a large ontology, where that takes too long."""
    if len(knowledge.triples) > LARGEST_EXPLAINED:
        return ()

    def holds(part: Iterable[Triple]) -> bool:
        reasoner = Reasoner(part, knowledge.entailment)
        try:
            return triple in reasoner.close(own) or triple in reasoner.background
        except LimitError:
            return False

    subject, predicate, value = triple
    stated = {term for one in own for term in one if subject in one}
    return explain(knowledge.triples, holds, {subject, value if predicate == RDF_TYPE else predicate, *stated})
