"""Which part of a leaf does an event fail first? Its class, triples as they are written, the rest, then FILTERs."""

from __future__ import annotations

from collections.abc import Iterator

from motet.language.syntax import Event
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE, iri
from motet.provenance.hindrances import (
    FilterFalse,
    Hindrance,
    NoMatch,
    NoTriple,
    OnlyBackground,
    OtherValue,
    TooMuch,
    WrongClass,
)
from motet.provenance.leaf_evidence import classes_of, leaf_text
from motet.reference.leaves import Knowledge
from motet.reference.occurrences import project
from motet.reference.sparql import Triple
from motet.sparql import algebra as sparql
from motet.sparql.algebra import Algebra, Expr, variable_name
from motet.sparql.evaluate import compile_group
from motet.sparql.graph import Graph
from motet.sparql.rewrite import elements, filtered, grouped, peeled
from motet.sparql.scope import mentioned
from motet.sparql.write import expression_text, group_text

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
