"""The triples by which an event matches a leaf, or the first part of the leaf it does not match.

A match is followed through the leaf's pattern with the values of one solution: each triple is found again in the event,
in the background, or among the inferred triples, then with the axioms it follows from. A failure is the first of the
class, the triples as written, the rest of the body, and the FILTERs that the event does not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from motet.language.syntax import Event
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE, iri
from motet.ontology.entailment import Reasoner
from motet.ontology.explain import explain
from motet.provenance.facts import Anything, Fact, Lacks, Satisfies, Stated
from motet.provenance.obstacles import (
    FilterFalse,
    Hindrance,
    NoMatch,
    NoTriple,
    OnlyBackground,
    OtherValue,
    TooMuch,
    WrongClass,
)
from motet.reference.leaves import Knowledge
from motet.reference.log import Seen
from motet.reference.occurrences import Bindings, project
from motet.reference.sparql import Triple
from motet.sparql import algebra as sparql
from motet.sparql.algebra import Algebra, Expr, variable_name
from motet.sparql.basic_patterns import compile_bgp
from motet.sparql.evaluate import compile_group
from motet.sparql.graph import Graph
from motet.sparql.rewrite import elements, filtered, grouped, peeled
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


Row = dict[str, str]


def failure(event: Event, event_iri: str, own: frozenset[Triple], knowledge: Knowledge) -> tuple[int, Hindrance]:
    """How many parts of the leaf are met, and the first that is not. The event is known not to match."""
    try:
        graph = Graph(knowledge.closed(own))
    except LimitError:
        return 0, TooMuch()
    text = leaf_text(event)
    conditions, pattern = peeled(event.algebra)
    given = {event.name: iri(event_iri)}
    met: list[Algebra] = []
    rows: list[Row] = [given]
    for step in _steps(pattern):
        before, rows = rows, compile_group(grouped([*met, step]))(graph, dict(given))
        if not rows:
            return len(met), _unmet(step, before, graph, own)
        met.append(step)
    for number, condition in enumerate(conditions, 1):
        before = rows
        if not (rows := compile_group(filtered(pattern, conditions[:number]))(graph, dict(given))):
            return len(met) + number, _false(condition, before)
    background = compile_group(event.algebra)(Graph(knowledge.background()), dict(given))
    return len(met) + len(conditions), OnlyBackground() if background else NoMatch(text)


def _steps(pattern: Algebra) -> Iterator[Algebra]:
    """The elements of the group, each triple of its own."""
    for element in elements(pattern):
        if isinstance(element, sparql.Join) and isinstance(element.right, sparql.Bgp):
            yield from (sparql.Join(sparql.EMPTY, sparql.Bgp((triple,))) for triple in element.right.triples)
        else:
            yield element


def _unmet(step: Algebra, rows: list[Row], graph: Graph, own: frozenset[Triple]) -> Hindrance:
    match step:
        case sparql.Join(_, sparql.Bgp((sparql.Triple(subject, str(predicate), value),))):
            found = _unmet_triple(subject, predicate, value, rows, graph, own)
            if found is not None:
                return found
    return NoMatch(group_text(step.right if isinstance(step, sparql.Join) else step))


def _unmet_triple(
    subject: str, predicate: str, value: str, rows: list[Row], graph: Graph, own: frozenset[Triple]
) -> Hindrance | None:
    """What is there instead; None when the triple's own places cannot tell."""
    about, wanted = _term(subject, rows[0]), _term(value, rows[0])
    if about is None or variable_name(predicate) is not None:
        return None
    if predicate == RDF_TYPE and wanted is not None:
        return WrongClass(about, wanted, classes_of(about, own) or classes_of(about, graph))
    found = tuple(sorted(triple[2] for triple in graph.match(about, predicate, None)))
    if not found:
        return NoTriple(about, predicate)
    return OtherValue(predicate, wanted, found) if wanted is not None else None


def _term(place: str, row: Row) -> str | None:
    name = variable_name(place)
    return place if name is None else row.get(name)


def _false(condition: Expr, rows: list[Row]) -> Hindrance:
    """The FILTER with the values of the first solution it rejects."""
    row = min(rows, key=lambda row: sorted(row.items()))
    return FilterFalse(expression_text(condition), project(tuple(sorted(row.items())), mentioned(condition)))
