"""What a document could do to its parser, refused before the parser sees it.

JSON and XML nested without end, XML entities that expand without end, RDF 1.2 syntax whose nesting overflows a stack,
and JSON-LD contexts that would have to be fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from xml.parsers import expat  # fetches nothing, and limits the growth of entities by itself

import numpy as np

from motet.codec.formats import Format
from motet.codec.limits import Limits
from motet.model.errors import LimitError, MotetError

_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TURTLE_WORD = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*+"""'
    rb"|'''(?:[^'\\]|\\.|'(?!''))*+'''"
    rb'|"(?:[^"\\\n]|\\.)*+"'
    rb"|'(?:[^'\\\n]|\\.)*+'"
    rb"|<[^<>\s]*+>|#[^\n]*+",
    re.DOTALL,
)
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""")


def refuse_hazards(data: bytes, syntax: Format, limits: Limits) -> None:
    """Raise a MotetError for a document that must not reach its parser."""
    if syntax in (Format.TURTLE, Format.TRIG, Format.N_TRIPLES, Format.N_QUADS):
        _refuse_rdf12(data)
    elif syntax is Format.RDF_XML:
        _refuse_expansion(data, limits.max_document_bytes)
        refuse_deep_xml(data, limits.max_depth)
    else:
        refuse_deep_json(data, limits.max_depth)


def refuse_deep_json(data: bytes, max_depth: int) -> None:
    """
    >>> refuse_deep_json(b'{"a": "[[["}', 1)
    """
    bare = np.frombuffer(_JSON_STRING.sub(b"", data), np.uint8)
    steps = np.isin(bare, [ord("{"), ord("[")]).astype(np.int32) - np.isin(bare, [ord("}"), ord("]")])
    if len(steps) and int(steps.cumsum(dtype=np.int64).max()) > max_depth:
        raise LimitError(f"the JSON is nested deeper than {max_depth}", advice="flatten it: nodes can refer by @id")


def refuse_deep_xml(data: bytes, max_depth: int) -> None:
    """
    >>> refuse_deep_xml(b"<a><b/><!-- <c><d> --></a>", 2)
    """
    depth = 0

    def opened(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > max_depth:
            raise LimitError(f"the XML is nested deeper than {max_depth}", advice="flatten it: use rdf:resource")

    def closed(_name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    with suppress(expat.ExpatError):  # what is no XML is for the RDF parser to report
        parser.Parse(data, True)


def remote_contexts(document: object) -> Iterator[str]:
    """Every context a JSON-LD document wants fetched.

    >>> list(remote_contexts({"@context": ["https://schema.org/", {"a": "urn:a"}]}))
    ['https://schema.org/']
    """
    if isinstance(document, list):
        for item in document:
            yield from remote_contexts(item)
    elif isinstance(document, dict):
        for key, value in document.items():
            entries = value if isinstance(value, list) else [value]
            if key in ("@context", "@import"):
                yield from (entry for entry in entries if isinstance(entry, str))
            yield from remote_contexts(value)


def refuse_remote_contexts(data: bytes) -> None:
    """Raise for a JSON-LD document, known to be nested within limits, that wants a context fetched."""
    try:
        document = json.loads(data)
    except ValueError:
        return  # the parser words syntax errors better
    if remote := list(dict.fromkeys(remote_contexts(document))):
        raise MotetError(
            f"the JSON-LD context <{'>, <'.join(remote[:5])}> is remote, and nothing is fetched",
            advice="write the context into the document",
        )


def _refuse_rdf12(data: bytes) -> None:
    if not any(mark in data for mark in (b"<<", b"{|")):
        return
    bare = _TURTLE_WORD.sub(b" ", data)
    if any(mark in bare for mark in (b"<<", b"{|")):
        raise MotetError(
            "RDF 1.2 triple terms are not supported", advice="state the triple about a triple with plain triples"
        )


def _refuse_expansion(data: bytes, limit: int) -> None:
    """Entities may stand for text, as OWL files use them, but not for other entities, and not for too much."""
    declared = _ENTITY.findall(data)
    if len(declared) != data.count(b"<!ENTITY"):
        raise MotetError("the XML declares external or parameter entities", advice="write their text in place")
    if any(b"&" in first + second for _, first, second in declared):
        raise MotetError("the XML declares an entity made of other entities", advice="write its text in place")
    grown = sum(data.count(b"&" + name + b";") * len(first + second) for name, first, second in declared)
    if grown > limit:
        raise LimitError(f"the XML's entities expand to {grown} bytes", advice="write their text in place")
