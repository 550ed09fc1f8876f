"""Refuses documents that could exhaust or mislead their parser, before they are parsed.

These are deeply nested JSON and XML, XML entities that expand beyond a limit, RDF 1.2 syntax whose nesting overflows
the parser's stack, and JSON-LD contexts that would have to be fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from xml.parsers import expat  # fetches nothing and limits the expansion of entities

import numpy as np

from motet.codec.formats import Format
from motet.codec.options import Limits
from motet.model.errors import LimitError, MotetError

_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_TURTLE_TOKEN = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*+"""'
    rb"|'''(?:[^'\\]|\\.|'(?!''))*+'''"
    rb'|"(?:[^"\\\n]|\\.)*+"'
    rb"|'(?:[^'\\\n]|\\.)*+'"
    rb"|<[^<>\s]*+>|#[^\r\n]*+",
    re.DOTALL,
)
TRIPLE_TERMS = "RDF 1.2 triple terms are not supported"
TRIPLE_TERMS_ADVICE = "reify the inner triple"
_ENTITY = re.compile(rb"""<!ENTITY\s+([^\s%]+)\s+(?:"([^"]*)"|'([^']*)')\s*>""")


def refuse_unsafe(data: bytes, syntax: Format, limits: Limits) -> None:
    """Raise a MotetError for a document that is not safe to parse."""
    if syntax in (Format.TURTLE, Format.TRIG, Format.N_TRIPLES, Format.N_QUADS):
        if has_triple_terms(data):
            raise MotetError(TRIPLE_TERMS, advice=TRIPLE_TERMS_ADVICE)
    elif syntax is Format.RDF_XML:
        _refuse_entity_expansion(data, limits.max_document_bytes)
        refuse_deep_xml(data, limits.max_depth)
    else:
        refuse_deep_json(data, limits.max_depth)


def refuse_deep_json(data: bytes, max_depth: int) -> None:
    """Raise LimitError for JSON nested deeper than ``max_depth``; brackets in strings do not count.

    >>> refuse_deep_json(b'{"a": "[[["}', 1)
    """
    bare = np.frombuffer(_JSON_STRING.sub(b"", data), np.uint8)
    steps = np.isin(bare, [ord("{"), ord("[")]).astype(np.int32) - np.isin(bare, [ord("}"), ord("]")])
    if len(steps) and int(steps.cumsum(dtype=np.int64).max()) > max_depth:
        raise LimitError(f"the JSON is nested deeper than {max_depth}", advice="flatten it: nodes can refer by @id")


def refuse_deep_xml(data: bytes, max_depth: int) -> None:
    """Raise LimitError for XML nested deeper than ``max_depth``.

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
    with suppress(expat.ExpatError):  # the RDF parser reports syntax errors
        parser.Parse(data, True)


def remote_contexts(document: object) -> Iterator[str]:
    """The IRIs of all remote contexts that a JSON-LD document refers to.

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


def has_triple_terms(data: bytes) -> bool:
    """Whether Turtle or TriG has RDF 1.2 triple terms or annotations; in strings and comments they are text.

    >>> has_triple_terms(b"<urn:s> <urn:p> <<( <urn:a> <urn:b> <urn:c> )>> ."), has_triple_terms(b"'<<(' # {|")
    (True, False)
    """
    if not any(mark in data for mark in (b"<<", b"{|")):
        return False
    bare = _TURTLE_TOKEN.sub(b" ", data)
    return any(mark in bare for mark in (b"<<", b"{|"))


def _refuse_entity_expansion(data: bytes, limit: int) -> None:
    """Raise for entities other than text, for entities made of entities, and for expansion beyond ``limit`` bytes."""
    declared = _ENTITY.findall(data)
    if len(declared) != data.count(b"<!ENTITY"):
        raise MotetError("the XML declares external or parameter entities", advice="write their text in place")
    if any(b"&" in first + second for _, first, second in declared):
        raise MotetError("the XML declares an entity made of other entities", advice="write its text in place")
    expanded_bytes = sum(data.count(b"&" + name + b";") * len(first + second) for name, first, second in declared)
    if expanded_bytes > limit:
        raise LimitError(f"the XML's entities expand to {expanded_bytes} bytes", advice="write their text in place")
