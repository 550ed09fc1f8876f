"""The background graph of a live cloud: the ontology and individuals that every event is read with.

A change is a record of the log and applies to the events after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from motet.codec.formats import format_of_content_type
from motet.embedded.publishing import encode_text
from motet.model.batches import Triple
from motet.model.errors import DecodeError, UsageError, check_type
from motet.ontology.axioms import owl_axioms
from motet.ontology.load import parse_ontology

#: RDF text of some content type, or triples of canonical N-Triples terms.
RdfData = str | bytes | Iterable[Triple]
TripleSet = frozenset[Triple]
#: Returns the graph after all records of the log.
ReadGraph = Callable[[], TripleSet]
#: Takes a function from the old graph to the new one, appends the change to the log, returns its size.
UpdateGraph = Callable[[Callable[[TripleSet], TripleSet]], int]


class Background:
    """The background graph of a cloud, available as ``cloud.background``.

    Blank nodes are named after the text that contains them: adding a text twice adds nothing, and removing the text
    removes what it added.
    """

    def __init__(self, read: ReadGraph, update: UpdateGraph) -> None:
        self._read = read
        self._update = update

    def triples(self) -> TripleSet:
        """The triples of the graph, as canonical N-Triples terms."""
        return self._read()

    def add(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Add triples and return how many of them are new."""
        triples = _read_triples(data, content_type)
        return self._update(lambda graph: _check_axioms(graph | triples))

    def remove(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Remove triples and return how many of them were there."""
        triples = _read_triples(data, content_type)
        return self._update(lambda graph: _check_axioms(graph - triples))


def _read_triples(data: RdfData, content_type: str) -> TripleSet:
    check_type("content_type", content_type, str)
    check_type("the data", data, str, bytes, Iterable)
    if not isinstance(data, str | bytes):
        return frozenset(map(_check_triple, data))
    content = encode_text(data) if isinstance(data, str) else data
    try:
        return frozenset(parse_ontology(content, format_of_content_type(content_type), source="background").triples)
    except DecodeError as error:
        error.advice = error.advice or f"Correct the text, which was read as {content_type}, or give its content_type."
        raise


def _check_triple(triple: Triple) -> Triple:
    is_triple = isinstance(triple, tuple | list) and len(triple) == 3
    if not is_triple or not all(isinstance(term, str) and term and term[0] in '<_"' for term in triple):
        raise UsageError(
            f"{triple!r} is not a triple of N-Triples terms",
            advice='Write terms like "<http://example.org/room>" and "\\"5\\"^^<…>", or give RDF text',
        )
    return triple[0], triple[1], triple[2]


def _check_axioms(graph: TripleSet) -> TripleSet:
    """The graph itself; raises if its axioms cannot be read, before they are in the log."""
    owl_axioms(graph)
    return graph
