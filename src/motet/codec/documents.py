"""Parses whole documents (TriG, Turtle, N-Triples, RDF/XML, JSON-LD) with pyoxigraph into triples by graph.

Turtle, N-Triples, RDF/XML and JSON-LD without named graphs are one event, whose IRI is also the base of relative IRIs.
Of TriG with a syntax error the graphs before the error are accepted, except the last, which is incomplete; any other
document with a syntax error is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyoxigraph as ox

from motet.codec.blank_nodes import Triple
from motet.codec.formats import Format
from motet.codec.grouping import NO_QUADS, GroupedQuads, RejectedGraphs
from motet.codec.input_guards import refuse_remote_contexts, refuse_unsafe
from motet.codec.options import Limits
from motet.codec.rejections import Problem, truncate
from motet.model import terms
from motet.model.batches import QUADS
from motet.model.errors import DecodeError, MotetError

PARSERS = {
    Format.N_QUADS: ox.RdfFormat.N_QUADS,
    Format.TRIG: ox.RdfFormat.TRIG,
    Format.TURTLE: ox.RdfFormat.TURTLE,
    Format.N_TRIPLES: ox.RdfFormat.N_TRIPLES,
    Format.JSON_LD: ox.RdfFormat.JSON_LD,
    Format.RDF_XML: ox.RdfFormat.RDF_XML,
}
_DATASETS = (Format.N_QUADS, Format.TRIG)  # formats in which triples outside a named graph belong to no event


@dataclass
class ParsedDocument:
    """Triples by graph term (None: the default graph), graphs to reject, problems that belong to no event."""

    graphs: dict[str | None, list[Triple]] = field(default_factory=dict)
    rejected: RejectedGraphs = field(default_factory=dict)
    unattributed: list[Problem] = field(default_factory=list)
    current_graph: str | None = None  # the graph of the last triple

    def reject(self, graph: str | None, problem: Problem) -> None:
        if graph is None:
            self.unattributed.append(problem)
        else:
            self.rejected.setdefault(graph, []).append(problem)


def read_document(
    data: bytes, syntax: Format, *, event: str, limits: Limits, damage: DecodeError | None = None
) -> ParsedDocument:
    """Parse a document; ``event`` is the IRI of its event if it has no named graphs.

    >>> read_document(b"<> a <urn:C> .", Format.TURTLE, event="urn:e:1", limits=Limits()).graphs
    {'<urn:e:1>': [('<urn:e:1>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<urn:C>')]}
    """
    document = ParsedDocument()
    try:
        refuse_unsafe(data, syntax, limits)
        if syntax is Format.JSON_LD:
            refuse_remote_contexts(data)
        _parse(data, syntax, event, document)
        if damage is not None:
            raise damage
    except SyntaxError as error:
        reason = f"not {syntax.name.replace('_', ' ')}: {error.msg}"
        problem = Problem(reason, None, error.lineno, error.offset)
        _reject_remainder(document, syntax, event, data, problem if damage is None else _damage_problem(damage))
    except MotetError as error:
        _reject_remainder(document, syntax, event, data, Problem(error.message, error.advice))
    except MemoryError as error:  # pyoxigraph raises it when a token is longer than its buffer
        _reject_remainder(document, syntax, event, data, Problem(str(error)))
    else:
        _assign_default_graph(document, syntax, event, data)
    return document


def group_documents(documents: Iterable[ParsedDocument]) -> GroupedQuads:
    """Group the quads of documents in their order; a graph that is in two documents becomes two events."""
    rows: list[tuple[str, str, str, str]] = []
    starts, rejected, unattributed = [], {}, []
    for document in documents:
        for graph, triples in document.graphs.items():
            starts.append(len(rows))
            rows += [(graph or "", *triple) for triple in triples]
        rejected.update(document.rejected)
        unattributed += document.unattributed
    if not rows:
        return GroupedQuads(NO_QUADS, np.zeros(0, np.int64), rejected, unattributed)
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    lines = pa.array(np.ones(len(rows), np.int64))  # the parser gives no line numbers
    quads = pa.RecordBatch.from_arrays([*columns, lines], schema=QUADS)
    return GroupedQuads(quads, np.array(starts, np.int64), rejected, unattributed)


def _parse(data: bytes, syntax: Format, event: str, document: ParsedDocument) -> None:
    for quad in ox.parse(data, format=PARSERS[syntax], base_iri=event):
        graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name)
        triple = str(quad.subject), str(quad.predicate), str(quad.object)
        document.graphs.setdefault(graph, []).append(triple)
        document.current_graph = graph
        if isinstance(quad.object, ox.Triple) or getattr(quad.object, "direction", None) is not None:
            reason = "RDF 1.2 triple terms and language tags with a direction are not supported"
            document.reject(graph or terms.iri(event), Problem(reason, content=" ".join(triple)))


def _reject_remainder(document: ParsedDocument, syntax: Format, event: str, data: bytes, problem: Problem) -> None:
    """Reject what follows an error: in TriG the last graph and the rest, in other formats the whole document."""
    text = data.decode("utf-8", "replace")
    if syntax not in _DATASETS or not document.graphs:
        document.graphs.clear()
        document.rejected.clear()
        name = None if syntax in _DATASETS else event
        advice = problem.advice or "correct the document and publish it again"
        document.unattributed.append(replace(problem, advice=advice, content=truncate(text), event=name))
        return
    rest = "\n".join(text.split("\n")[problem.line - 1 :]) if problem.line else None
    advice = problem.advice or "the events before it were accepted; correct the rest of the document and publish it"
    document.reject(document.current_graph, replace(problem, advice=advice, content=truncate(rest) if rest else None))
    document.graphs.pop(None, None)


def _damage_problem(damage: DecodeError) -> Problem:
    return Problem(damage.reason, damage.advice)


def _assign_default_graph(document: ParsedDocument, syntax: Format, event: str, data: bytes) -> None:
    """Make a default graph without named graphs the event of the document; reject one beside named graphs."""
    if not document.graphs:
        advice = (
            "check the prefixes and the @context" if syntax is Format.JSON_LD else "an event has at least one triple"
        )
        problem = Problem(
            "the document holds no triples", advice, content=truncate(data.decode("utf-8", "replace")), event=event
        )
        document.unattributed.append(problem)
    if None not in document.graphs:
        return
    triples = document.graphs.pop(None)
    if not document.graphs and syntax not in _DATASETS:
        document.graphs[terms.iri(event)] = triples
        return
    reason = f"{len(triples)} triple{'s' if len(triples) > 1 else ''} outside any graph, and therefore in no event"
    advice = "put them into an event's graph" + ("" if document.graphs else ", or publish them as Turtle: one event")
    content = truncate("\n".join(f"{s} {p} {o} ." for s, p, o in triples))
    document.unattributed.append(Problem(reason, advice, content=content))
