"""Evaluating a whole query on a dataset in memory: solutions, a yes or no, or a graph.

Slow and plain: it says what a query means. Engines that compile queries are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from motet.sparql.algebra import (
    AskQuery,
    ConstructQuery,
    DescribeQuery,
    Query,
    SelectQuery,
    Triple,
    is_hidden,
    variable_name,
)
from motet.sparql.basic_patterns import Row
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import compile_group
from motet.sparql.graph import Graph
from motet.sparql.graph import Triple as Terms


@dataclass(frozen=True, slots=True)
class SolutionSequence:
    """The rows of a SELECT query in order; a variable that is not in a row is unbound."""

    variables: tuple[str, ...]
    rows: list[Row]


Answer = SolutionSequence | bool | Graph


def answer(query: Query, dataset: Dataset) -> Answer:
    """
    >>> from motet.sparql.parse import read_query
    >>> answer(read_query("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"), Dataset([("<urn:a>", "<urn:p>", "<urn:b>")])).rows
    [{'n': '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'}]
    """
    chosen = dataset.selected(query.dataset)
    rows = compile_group(query.pattern)(chosen.default, {})

    def triples_of(subjects: list[str]) -> list[Terms]:
        return [triple for subject in subjects for triple in chosen.default.match(subject, None, None)]

    return answer_from_rows(query, rows, chosen.blank_node, triples_of)


def answer_from_rows(
    query: Query, rows: list[Row], blank_node: Callable[[], str], triples_of: Callable[[list[str]], Iterable[Terms]]
) -> Answer:
    """The answer to a query whose pattern has these solutions.

    ``blank_node`` gives a new one at each call, ``triples_of`` the triples of the default graph with some subjects.
    """
    match query:
        case SelectQuery(variables=variables):
            return SolutionSequence(variables, rows)
        case AskQuery():
            return bool(rows)
        case ConstructQuery(template=template):
            return Graph(triple for row in rows for triple in _instances(template, row, blank_node))
        case DescribeQuery(targets=targets):
            return Graph(_descriptions(_described(targets, rows), triples_of))


def _instances(template: tuple[Triple, ...], row: Row, blank_node: Callable[[], str]) -> Iterator[Terms]:
    """The triples of the template for one solution, without those that would not be RDF."""
    nodes: dict[str, str] = {}

    def filled(place: str) -> str | None:
        name = variable_name(place)
        if name is None:
            return place
        if is_hidden(name):
            return nodes[name] if name in nodes else nodes.setdefault(name, blank_node())
        return row.get(name)

    for triple in template:
        assert isinstance(triple.predicate, str)
        subject, predicate, obj = filled(triple.subject), filled(triple.predicate), filled(triple.object)
        if subject is None or predicate is None or obj is None:
            continue
        if not subject.startswith('"') and predicate.startswith("<"):
            yield subject, predicate, obj


def _described(targets: tuple[str, ...], rows: list[Row]) -> list[str]:
    """The terms to describe, each once."""
    names = [(target, variable_name(target)) for target in targets]
    constants = [target for target, name in names if name is None]
    values = [row[name] for row in rows for _, name in names if name is not None and name in row]
    return list(dict.fromkeys(constants + values))


def _descriptions(nodes: list[str], triples_of: Callable[[list[str]], Iterable[Terms]]) -> Iterator[Terms]:
    """The concise bounded description of nodes: their triples, and those of the blank nodes these lead to."""
    newest, seen = nodes, set(nodes)
    while newest:
        found = list(triples_of(newest))
        yield from found
        newest = [node for node in dict.fromkeys(obj for _, _, obj in found) if node[:2] == "_:" and node not in seen]
        seen.update(newest)
