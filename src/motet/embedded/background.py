"""The background graph of a live cloud: the ontology and the individuals that every event is read together with.

A change is a record in the log and holds for the events after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from motet.codec.formats import format_of_content_type
from motet.model.batches import Triple
from motet.model.errors import UsageError
from motet.ontology.axioms import owl_axioms
from motet.ontology.load import parse_ontology

#: RDF in a format that has a content type, or triples of canonical N-Triples terms.
RdfData = str | bytes | Iterable[Triple]
TripleSet = frozenset[Triple]
#: Given how the graph changes, writes the change to the log.
UpdateGraph = Callable[[Callable[[TripleSet], TripleSet]], int]


class Background:
    """Reached as ``cloud.background``.

    Blank nodes are named after the text they stand in: adding one text twice adds nothing, and removing that text
    removes what it added.
    """

    def __init__(self, change: UpdateGraph) -> None:
        self._change = change

    def add(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Add what is not there yet; how many triples that was."""
        triples = _read_triples(data, content_type)
        return self._change(lambda known: _check_axioms(known | triples))

    def remove(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Remove what is there; how many triples that was."""
        triples = _read_triples(data, content_type)
        return self._change(lambda known: _check_axioms(known - triples))


def _read_triples(data: RdfData, content_type: str) -> TripleSet:
    if isinstance(data, str | bytes):
        content = data.encode() if isinstance(data, str) else data
        return frozenset(parse_ontology(content, format_of_content_type(content_type), source="background").triples)
    return frozenset(map(_check_triple, data))


def _check_triple(triple: Triple) -> Triple:
    if len(triple) != 3 or not all(isinstance(term, str) and term[:1] in '<_"' and term for term in triple):
        raise UsageError(
            f"{triple!r} is not a triple of N-Triples terms",
            advice='write terms like "<http://example.org/room>" and "\\"5\\"^^<…>", or give RDF text',
        )
    return triple


def _check_axioms(graph: TripleSet) -> TripleSet:
    """The graph, if its axioms can be read: what cannot is refused before it is in the log for good."""
    owl_axioms(graph)
    return graph
