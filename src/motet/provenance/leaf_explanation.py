"""The triples by which an event matches a leaf, or the first part of the leaf it does not match.

A match is followed through the leaf's pattern with the values of one solution: each triple is found again in the event,
in the background, or among the inferred triples, then with the axioms it follows from. A failure is the first of the
class, the triples as written, the rest of the body, and the FILTERs that the event does not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from motet.language.syntax import Event
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE, iri
from motet.model.xml_document import parse_stored_xml
from motet.ontology.entailment import Reasoner
from motet.ontology.explain import explain
from motet.provenance import obstacles
from motet.provenance.facts import Anything, Fact, InDocument, Lacks, Satisfies, Stated
from motet.reference.leaves import BackgroundGraph
from motet.reference.log import VisibleEvent
from motet.reference.occurrences import SortedBindings, project
from motet.reference.sparql import Triple
from motet.sparql import algebra as sparql
from motet.sparql.algebra import Algebra, Expr, elements, filtered, grouped, peeled, variable_name
from motet.sparql.basic_patterns import compile_bgp
from motet.sparql.dataset import Graph
from motet.sparql.evaluate import compile_group
from motet.sparql.scope import has_exists, mentioned
from motet.sparql.write import expression_text, group_text
from motet.xmlql.blocks import Block, ElementPattern
from motet.xmlql.evaluate import Evaluation, has_own_structure
from motet.xmlql.write import block_text

MAX_EXPLAINED_TRIPLES = 8  # per leaf, with axioms: each costs dozens of closures
MAX_ONTOLOGY_TRIPLES = 20_000  # beyond that the search for axioms takes minutes


def leaf_text(event: Event) -> str:
    """The class and the body as one group graph pattern.

    >>> leaf_text(Event("e", "urn:C"))
    '?e a <urn:C>'
    """
    typed = f"?{event.name} a <{event.class_iri}>" if event.class_iri else ""
    body = event.body.text if event.body else ""
    return f"{typed} . {body}" if typed and body else typed or body


def match_facts(
    event: Event, visible_event: VisibleEvent, solution: SortedBindings, background: BackgroundGraph
) -> tuple[Fact, ...]:
    """The facts by which an event matches a leaf with a solution."""
    text = leaf_text(event)
    in_document = () if event.xml is None else (InDocument(event.xml.text),)
    if not text.strip():
        return in_document or (Anything(),)
    walk = _PatternWalk(Graph(background.closure_with(visible_event.triples)), dict(solution))
    facts = list(dict.fromkeys(walk.facts(event.algebra)))
    return (*_with_sources(facts, visible_event.triples, background), *in_document)


@dataclass(frozen=True)
class _PatternWalk:
    """Follows a pattern through a graph with the values of one solution."""

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
        """The triples of a basic graph pattern; blank nodes and inner nodes of paths get their first match."""
        rows = sorted(compile_bgp(pattern)(self.graph, dict(self.values)), key=lambda row: sorted(row.items()))
        for triple in pattern.triples if rows else ():
            if isinstance(triple.predicate, str):
                terms = (triple.subject, triple.predicate, triple.object)
                subject, predicate, value = (_instantiate(term, rows[0]) for term in terms)
                yield Stated((subject, predicate, value), "event")
            else:
                path = group_text(sparql.Bgp((triple,))).split(" ", 1)[1].rsplit(" ", 1)[0]
                yield Stated(
                    (_instantiate(triple.subject, rows[0]), path, _instantiate(triple.object, rows[0])), "path"
                )

    def _optional(self, right: Algebra, condition: Expr | None) -> Iterator[Fact]:
        optional = right if condition is None else sparql.Filter(right, condition)
        if self._holds(optional):
            yield from self.facts(optional)

    def _condition(self, condition: Expr) -> Fact:
        if isinstance(condition, sparql.Not) and isinstance(condition.operand, sparql.Exists):
            return Lacks(group_text(condition.operand.pattern))
        if has_exists(condition):
            return Satisfies(expression_text(condition), ())
        values = tuple(sorted(self.values.items()))
        return Satisfies(expression_text(condition), project(values, mentioned(condition)))

    def _holds(self, pattern: Algebra) -> bool:
        return bool(compile_group(pattern)(self.graph, dict(self.values)))


def _instantiate(term: str, row: dict[str, str]) -> str:
    name = variable_name(term)
    return term if name is None else row[name]


def _with_sources(
    facts: Iterable[Fact], event_triples: frozenset[Triple], background: BackgroundGraph
) -> Iterator[Fact]:
    """The facts with the sources of their triples; the first inferred triples with their axioms."""
    explained = 0
    for fact in facts:
        if not isinstance(fact, Stated) or fact.source == "path" or fact.triple in event_triples:
            yield fact
        elif fact.triple in background.closure():
            yield Stated(fact.triple, "background")
        else:
            axioms = explain_triple(fact.triple, event_triples, background) if explained < MAX_EXPLAINED_TRIPLES else ()
            explained += 1
            yield Stated(fact.triple, "reasoning", axioms, _stated_classes(fact.triple, event_triples))


def _stated_classes(triple: Triple, event_triples: frozenset[Triple]) -> tuple[str, ...]:
    subject, predicate, _ = triple
    return classes_of(subject, event_triples) if predicate == RDF_TYPE else ()


def classes_of(subject: str, triples: Iterable[Triple]) -> tuple[str, ...]:
    """The classes that triples state for a subject.

    >>> classes_of("<urn:e>", [("<urn:e>", RDF_TYPE, "<urn:C>")])
    ('<urn:C>',)
    """
    return tuple(sorted(value for about, predicate, value in triples if (about, predicate) == (subject, RDF_TYPE)))


def explain_triple(triple: Triple, event_triples: frozenset[Triple], background: BackgroundGraph) -> tuple[str, ...]:
    """The axioms by which a triple follows from an event; none for a large ontology, where that takes too long."""
    if len(background.triples) > MAX_ONTOLOGY_TRIPLES:
        return ()

    def holds(axioms: Iterable[Triple]) -> bool:
        reasoner = Reasoner(axioms, background.entailment)
        try:
            return triple in reasoner.close(event_triples) or triple in reasoner.background
        except LimitError:
            return False

    subject, predicate, value = triple
    neighbours = {term for fact in event_triples for term in fact if subject in fact}
    return explain(background.triples, holds, {subject, value if predicate == RDF_TYPE else predicate, *neighbours})


SolutionRow = dict[str, str]


def match_failure(
    event: Event,
    event_iri: str,
    event_triples: frozenset[Triple],
    background: BackgroundGraph,
    payload: bytes | None = None,
) -> tuple[int, obstacles.Obstacle]:
    """The number of parts of the leaf that the event meets, and the first it does not meet; it does not match."""
    if event.xml is not None and (failure := _block_failure(event.xml.tree, payload)) is not None:
        return failure
    try:
        graph = Graph(background.closure_with(event_triples))
    except LimitError:
        return 0, obstacles.TooMuch()
    text = leaf_text(event)
    conditions, pattern = peeled(event.algebra)
    initial = {event.name: iri(event_iri)}
    met: list[Algebra] = []
    rows: list[SolutionRow] = [initial]
    for step in _steps(pattern):
        before, rows = rows, compile_group(grouped([*met, step]))(graph, dict(initial))
        if not rows:
            return len(met), _step_failure(step, before, graph, event_triples)
        met.append(step)
    for count, condition in enumerate(conditions, 1):
        before = rows
        if not (rows := compile_group(filtered(pattern, conditions[:count]))(graph, dict(initial))):
            return len(met) + count, _filter_failure(condition, before)
    without_event = compile_group(event.algebra)(Graph(background.closure()), dict(initial))
    return len(met) + len(conditions), obstacles.OnlyBackground() if without_event else obstacles.NoMatch(text)


def _block_failure(block: Block, payload: bytes | None) -> tuple[int, obstacles.Obstacle] | None:
    """The first part of a block that a document lacks, at the element that has most of it; None if it matches."""
    if payload is None:
        return 0, obstacles.NoDocument()
    root, pattern, evaluation = parse_stored_xml(payload), block.element, Evaluation()
    elements = [root] if block.is_anchored else list(root.iter("*"))
    candidates = [element for element in elements if has_own_structure(pattern, element)]
    if not candidates:
        return 0, obstacles.NoElement(_written(replace(pattern, nested=())), "")
    met = [[evaluation.has_inside(nested, element) for nested in pattern.nested] for element in candidates]
    best = max(met, key=sum)
    if not all(best):
        has = replace(pattern, nested=tuple(each for each, is_met in zip(pattern.nested, best, strict=True) if is_met))
        missing = pattern.nested[best.index(False)]
        sign = "//" if missing.is_descendant else ""
        return 1 + sum(best), obstacles.NoElement(sign + _written(missing.element), _written(has))
    try:
        if evaluation.solutions_at(pattern, candidates):
            return None
    except LimitError:
        return 1 + len(best), obstacles.TooMuch()
    return 1 + len(best), obstacles.NoMatch(block_text(block))


def _written(pattern: ElementPattern) -> str:
    return block_text(Block(pattern))


def _steps(pattern: Algebra) -> Iterator[Algebra]:
    """The elements of the group, one step per triple."""
    for element in elements(pattern):
        if isinstance(element, sparql.Join) and isinstance(element.right, sparql.Bgp):
            yield from (sparql.Join(sparql.EMPTY, sparql.Bgp((triple,))) for triple in element.right.triples)
        else:
            yield element


def _step_failure(
    step: Algebra, rows: list[SolutionRow], graph: Graph, event_triples: frozenset[Triple]
) -> obstacles.Obstacle:
    match step:
        case sparql.Join(_, sparql.Bgp((sparql.Triple(subject, str(predicate), value),))):
            failure = _triple_failure(subject, predicate, value, rows, graph, event_triples)
            if failure is not None:
                return failure
    return obstacles.NoMatch(group_text(step.right if isinstance(step, sparql.Join) else step))


def _triple_failure(
    subject: str, predicate: str, value: str, rows: list[SolutionRow], graph: Graph, event_triples: frozenset[Triple]
) -> obstacles.Obstacle | None:
    """What the event has instead of a triple; None when the terms of the triple do not decide that."""
    about, required = _term(subject, rows[0]), _term(value, rows[0])
    if about is None or variable_name(predicate) is not None:
        return None
    if predicate == RDF_TYPE and required is not None:
        return obstacles.WrongClass(about, required, classes_of(about, event_triples) or classes_of(about, graph))
    values = tuple(sorted(triple[2] for triple in graph.match(about, predicate, None)))
    if not values:
        return obstacles.NoTriple(about, predicate)
    return obstacles.OtherValue(predicate, required, values) if required is not None else None


def _term(term: str, row: SolutionRow) -> str | None:
    name = variable_name(term)
    return term if name is None else row.get(name)


def _filter_failure(condition: Expr, rows: list[SolutionRow]) -> obstacles.Obstacle:
    """The FILTER with the values of the first solution it rejects."""
    row = min(rows, key=lambda row: sorted(row.items()))
    return obstacles.FilterFalse(expression_text(condition), project(tuple(sorted(row.items())), mentioned(condition)))
