"""RDF terms as canonical N-Triples strings: ``<iri>``, ``"text"``, ``"text"@en``, ``"5"^^<datatype>``.

Equal strings are equal terms, in Python, Arrow, Parquet and SQL.
Canonical means: as pyoxigraph prints it (xsd:string left out, language tags in lower case, only the escapes that are
needed). There are no blank nodes: decoding replaces them by IRIs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyoxigraph

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
XSD = "http://www.w3.org/2001/XMLSchema#"

RDF_TYPE = f"<{RDF}type>"

_LITERAL = re.compile(r'"((?:[^"\\]++|\\.)*+)"(?:@([A-Za-z0-9-]+)|\^\^<([^>]*)>)?', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_NAMED_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f\x7f\ufffe\uffff]')
_ESCAPED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", '"': '\\"', "\\": "\\\\"}


def iri(value: str) -> str:
    """
    >>> iri("urn:e:1")
    '<urn:e:1>'
    """
    return f"<{value}>"


def literal(text: str, *, datatype: str | None = None, language: str | None = None) -> str:
    """
    >>> literal("5", datatype=XSD + "integer")
    '"5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    quoted = '"' + _TO_ESCAPE.sub(_escape, text) + '"'
    if language is not None:
        return f"{quoted}@{language.lower()}"
    return quoted if datatype in (None, XSD + "string") else f"{quoted}^^<{datatype}>"


def is_iri(term: str) -> bool:
    return term.startswith("<")


def iri_value(term: str) -> str:
    """The IRI inside the brackets."""
    return term[1:-1]


def literal_parts(term: str) -> tuple[str, str, str | None]:
    """Text, datatype IRI and language of a literal.

    >>> literal_parts('"chat"@fr')
    ('chat', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#langString', 'fr')
    """
    match = _LITERAL.fullmatch(term)
    if match is None:
        raise ValueError(f"{term!r} is not an N-Triples literal")
    text, language, datatype = match.groups()
    text = _ESCAPE.sub(_unescape, text) if "\\" in text else text
    return text, RDF + "langString" if language else datatype or XSD + "string", language


def to_json(term: str) -> dict[str, str]:
    """The W3C SPARQL 1.1 JSON results form of a term.

    >>> to_json("<urn:e:1>")
    {'type': 'uri', 'value': 'urn:e:1'}
    """
    if is_iri(term):
        return {"type": "uri", "value": iri_value(term)}
    text, datatype, language = literal_parts(term)
    if language:
        return {"type": "literal", "value": text, "xml:lang": language}
    if datatype == XSD + "string":
        return {"type": "literal", "value": text}
    return {"type": "literal", "value": text, "datatype": datatype}


def from_json(value: Mapping[str, str]) -> str:
    """The inverse of :func:`to_json`.

    >>> from_json({"type": "literal", "value": "fire", "xml:lang": "en"})
    '"fire"@en'
    """
    if value["type"] == "uri":
        return iri(value["value"])
    return literal(value["value"], datatype=value.get("datatype"), language=value.get("xml:lang"))


def to_oxigraph(term: str) -> pyoxigraph.NamedNode | pyoxigraph.Literal:
    import pyoxigraph

    if is_iri(term):
        return pyoxigraph.NamedNode(iri_value(term))
    text, datatype, language = literal_parts(term)
    if language:
        return pyoxigraph.Literal(text, language=language)
    return pyoxigraph.Literal(text, datatype=pyoxigraph.NamedNode(datatype))


def _escape(match: re.Match[str]) -> str:
    return _ESCAPED.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _unescape(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    return chr(int(digits, 16)) if digits else _NAMED_ESCAPES[match[3]]
