"""Reads RDF files into a dataset in memory: their own default and named graphs, together.

The formats are those of event files. Blank nodes of different files are different nodes. A relative IRI is resolved
against the address of its file. CloudEvents become one named graph each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from motet.codec.compression import file_chunks, read_whole
from motet.codec.formats import Format, format_of_path
from motet.model.errors import DecodeError, MotetError, UsageError
from motet.sparql.dataset import Dataset, Triple

MAX_FILE_BYTES = 1 << 30  # of one file after decompression; the dataset is in memory

FileGraphs = dict[str | None, list[Triple]]  # None is the default graph

_LINE = re.compile(r"\bline (\d+)")


def read_dataset(
    paths: Iterable[str], *, now: str, random_bits: Callable[[], int], entailment: str = "none"
) -> Dataset:
    """The union of the graphs of some files, closed together: inferred triples are in the default graph."""
    graphs: FileGraphs = {}
    for index, path in enumerate(paths):
        for name, triples in read_graphs(path, f"f{index}b").items():
            graphs.setdefault(name, []).extend(triples)
    default = graphs.pop(None, [])
    named = {name: triples for name, triples in graphs.items() if name is not None}
    if entailment != "none":
        default = default + inferred_triples([default, *named.values()], entailment)
    return Dataset(default, named, now=now, random_bits=random_bits)


def inferred_triples(graphs: list[list[Triple]], entailment: str) -> list[Triple]:
    """The triples that follow from all graphs together and are in none of them."""
    from motet.ontology.entailment import Entailment, Reasoner

    stated = {triple for graph in graphs for triple in graph}
    return [
        triple for triple in Reasoner(stated, Entailment(entailment)).closed_background.triples if triple not in stated
    ]


def read_graphs(path: str, blank_prefix: str, *, base: str | None = None) -> FileGraphs:
    """The graphs of one file; the labels of its blank nodes get the prefix."""
    syntax = format_of_path(path)
    if syntax.is_rows:
        raise UsageError(
            f"{path} has rows, not RDF", advice="Load them with `motet ingest --map`, then query the lake."
        )
    if syntax.is_cloudevents:
        return parse_graphs(_events(path), Format.N_QUADS, path, blank_prefix)
    data = read_whole(file_chunks(path), MAX_FILE_BYTES)
    return parse_graphs(data, syntax, path, blank_prefix, base=base or Path(path).absolute().as_uri())


def parse_graphs(data: bytes, syntax: Format, source: str, blank_prefix: str, *, base: str | None = None) -> FileGraphs:
    """The graphs of one document.

    >>> parse_graphs(b"<urn:a> <urn:p> [] .", Format.TURTLE, "a.ttl", "b")
    {None: [('<urn:a>', '<urn:p>', '_:b0')]}
    """
    import pyoxigraph

    _refuse_unsafe(data, syntax, source)
    labels: dict[str, str] = {}

    def name(term: object) -> str:
        text = str(term)
        return labels.setdefault(text, f"_:{blank_prefix}{len(labels)}") if text.startswith("_:") else text

    graphs: FileGraphs = {}
    try:
        for quad in pyoxigraph.parse(data, pyoxigraph.RdfFormat.from_media_type(syntax.value), base_iri=base):
            graph = None if isinstance(quad.graph_name, pyoxigraph.DefaultGraph) else name(quad.graph_name)
            graphs.setdefault(graph, []).append((name(quad.subject), str(quad.predicate), name(quad.object)))
    except SyntaxError as problem:
        place = _LINE.search(str(problem))
        line = int(place[1]) if place else None
        raise DecodeError(f"not valid {syntax.value}: {problem}", source=source, line=line) from problem
    return graphs


def _events(path: str) -> bytes:
    """The events of a file of CloudEvents, as N-Quads; one that is rejected is an error."""
    from motet.codec.decode import decode_file
    from motet.codec.encode import encode

    parts = []
    for decoded in decode_file(path):
        for rejected in decoded.rejected:
            raise rejected
        parts.append(encode(decoded.events, Format.N_QUADS))
    return b"".join(parts)


def _refuse_unsafe(data: bytes, syntax: Format, source: str) -> None:
    from motet.codec.input_guards import refuse_unsafe
    from motet.codec.options import Limits

    try:
        refuse_unsafe(data, syntax, Limits(max_document_bytes=MAX_FILE_BYTES))
    except MotetError as error:
        raise DecodeError(error.message, source=source, advice=error.advice) from error
