"""Documents that are read whole, parsed by pyoxigraph: their triples, graph by graph.

Turtle, N-Triples, RDF/XML and JSON-LD without named graphs are one event, whose IRI is also the base of relative IRIs.
After a syntax error TriG keeps the graphs read before it, except the last, whose rest is unknown; other documents are
refused whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from motet.codec.assemble import NO_QUADS, Grouped, Spoiled
from motet.codec.blank_nodes import Triple
from motet.codec.formats import Format
from motet.codec.hazards import refuse_hazards, refuse_remote_contexts
from motet.codec.limits import Limits
from motet.codec.rejections import Problem, cut
from motet.model import terms
from motet.model.errors import DecodeError, MotetError
from motet.model.schemas import QUADS

PARSERS = {
    Format.N_QUADS: ox.RdfFormat.N_QUADS,
    Format.TRIG: ox.RdfFormat.TRIG,
    Format.TURTLE: ox.RdfFormat.TURTLE,
    Format.N_TRIPLES: ox.RdfFormat.N_TRIPLES,
    Format.JSON_LD: ox.RdfFormat.JSON_LD,
    Format.RDF_XML: ox.RdfFormat.RDF_XML,
}
_DATASETS = (Format.N_QUADS, Format.TRIG)  # written graph by graph; without a graph there is no event


@dataclass
class Document:
    """Triples by graph term (None: the default graph), graphs that must not pass, problems that belong to no event."""

    graphs: dict[str | None, list[Triple]] = field(default_factory=dict)
    spoiled: Spoiled = field(default_factory=dict)
    loose: list[Problem] = field(default_factory=list)
    reading: str | None = None  # the graph of the last triple

    def spoil(self, graph: str | None, problem: Problem) -> None:
        if graph is None:
            self.loose.append(problem)
        else:
            self.spoiled.setdefault(graph, []).append(problem)


def read_document(
    data: bytes, syntax: Format, *, event: str, limits: Limits, damage: DecodeError | None = None
) -> Document:
    """Parse a document; ``event`` is the IRI of the event it is when it names no graphs.

    >>> read_document(b"<> a <urn:C> .", Format.TURTLE, event="urn:e:1", limits=Limits()).graphs
    {'<urn:e:1>': [('<urn:e:1>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<urn:C>')]}
    """
    document = Document()
    try:
        refuse_hazards(data, syntax, limits)
        if syntax is Format.JSON_LD:
            refuse_remote_contexts(data)
        _parse(data, syntax, event, document)
        if damage is not None:
            raise damage
    except SyntaxError as error:
        reason = f"not {syntax.name.replace('_', ' ')}: {error.msg}"
        problem = Problem(reason, None, error.lineno, error.offset)
        _give_up(document, syntax, event, data, problem if damage is None else _damaged(damage))
    except MotetError as error:
        _give_up(document, syntax, event, data, Problem(error.message, error.advice))
    except MemoryError as error:  # pyoxigraph's way to say that a token outgrew its buffer
        _give_up(document, syntax, event, data, Problem(str(error)))
    else:
        _settle_default_graph(document, syntax, event, data)
    return document


def group_documents(documents: Iterable[Document]) -> Grouped:
    """The events of documents, one after the other; a graph that two documents have is two events."""
    rows: list[tuple[str, str, str, str]] = []
    starts, spoiled, loose = [], {}, []
    for document in documents:
        for graph, triples in document.graphs.items():
            starts.append(len(rows))
            rows += [(graph or "", *triple) for triple in triples]
        spoiled.update(document.spoiled)
        loose += document.loose
    if not rows:
        return Grouped(NO_QUADS, np.zeros(0, np.int64), spoiled, loose)
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    lines = pa.array(np.ones(len(rows), np.int64))  # the parser does not tell lines: the document's first
    quads = pa.RecordBatch.from_arrays([*columns, lines], schema=QUADS)
    return Grouped(quads, np.array(starts, np.int64), spoiled, loose)


def _parse(data: bytes, syntax: Format, event: str, document: Document) -> None:
    for quad in ox.parse(data, format=PARSERS[syntax], base_iri=event):
        graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name)
        triple = str(quad.subject), str(quad.predicate), str(quad.object)
        document.graphs.setdefault(graph, []).append(triple)
        document.reading = graph
        if isinstance(quad.object, ox.Triple) or getattr(quad.object, "direction", None) is not None:
            reason = "RDF 1.2 triple terms and language tags with a direction are not supported"
            document.spoil(graph or terms.iri(event), Problem(reason, content=" ".join(triple)))


def _give_up(document: Document, syntax: Format, event: str, data: bytes, problem: Problem) -> None:
    """Reject what the problem leaves unknown: of TriG the last graph and the rest, of others everything."""
    text = data.decode("utf-8", "replace")
    if syntax not in _DATASETS or not document.graphs:
        document.graphs.clear()
        document.spoiled.clear()
        name = None if syntax in _DATASETS else event
        advice = problem.advice or "mend the document and publish it again"
        document.loose.append(replace(problem, advice=advice, content=cut(text), event=name))
        return
    rest = "\n".join(text.split("\n")[problem.line - 1 :]) if problem.line else None
    advice = problem.advice or "the events before it were taken; mend the document from here on and publish the rest"
    document.spoil(document.reading, replace(problem, advice=advice, content=cut(rest) if rest else None))
    document.graphs.pop(None, None)


def _damaged(damage: DecodeError) -> Problem:
    return Problem(damage.reason, damage.advice)


def _settle_default_graph(document: Document, syntax: Format, event: str, data: bytes) -> None:
    """Make the only graph of a document its event, or reject triples that stand beside named graphs."""
    if not document.graphs:
        advice = (
            "check the prefixes and the @context" if syntax is Format.JSON_LD else "an event has at least one triple"
        )
        problem = Problem(
            "the document holds no triples", advice, content=cut(data.decode("utf-8", "replace")), event=event
        )
        document.loose.append(problem)
    if None not in document.graphs:
        return
    triples = document.graphs.pop(None)
    if not document.graphs and syntax not in _DATASETS:
        document.graphs[terms.iri(event)] = triples
        return
    reason = f"{len(triples)} triple{'s' if len(triples) > 1 else ''} outside any graph, so of no event"
    advice = "put them into an event's graph" + ("" if document.graphs else ", or publish them as Turtle: one event")
    content = cut("\n".join(f"{s} {p} {o} ." for s, p, o in triples))
    document.loose.append(Problem(reason, advice, content=content))
