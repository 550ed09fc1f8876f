"""Guesses the format of events from the beginning of their text: N-Quads, Turtle or TriG, JSON-LD, CloudEvents or XML.

Only what is certain, or what the decoder of the guessed format will explain, is guessed; everything else is refused
with the content types to choose from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from motet.codec.compression import bytes_chunks
from motet.codec.formats import Format
from motet.model.errors import UsageError

MAX_LINES = 1_000  # looked at; a text of so many plain triples is N-Quads
SAMPLE_BYTES = 1 << 20
_MARK = "\ufeff"
_IRI = r"<[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*>"
_LITERAL = r"\"(?:[^\"\\\n\r]|\\.)*\"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?"
_XML_NAME = r"[A-Za-z_\u00b7-\uffff][\w.\u00b7-\uffff-]*"
_NODE = rf"(?:{_IRI}|_:[^\s<>\"]+)"
_QUAD = re.compile(rf"{_NODE}\s*{_IRI}\s*(?:{_NODE}|{_LITERAL})\s*(?P<graph>{_NODE})?\s*\.\s*(?:#.*)?")
_SUBJECT = re.compile(r"<|_:")
_TURTLE_START = re.compile(r"@prefix\b|@base\b|(?:prefix|base|graph|version)\s|[\[({]|[^\s<>\"'{}]*:", re.IGNORECASE)
_XML_START = re.compile(
    rf"<\?xml|<!|<(?P<name>(?:{_XML_NAME}:)?{_XML_NAME})(?P<attribute>\s+{_XML_NAME}(?::{_XML_NAME})?\s*=)?"
)
_RDF_ROOT = re.compile(r"(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>|\s)*+<(?:\w+:)?RDF\b", re.DOTALL)
_TERMS = re.compile(rf"{_IRI}|{_LITERAL}|_:[^\s<>\"]+")
_TURTLE_SIGN = re.compile(r"\ba\b|[;,\[\](){}':<]|\b\d|\btrue\b|\bfalse\b")


def guess_format(data: bytes) -> Format:
    """The format of a text; raises UsageError if its beginning does not show it.

    >>> guess_format(b'@prefix ex: <urn:ex#> . ex:a a ex:Alarm .'), guess_format(b'{"@id": "urn:e:1"}')
    (<Format.TRIG: 'application/trig'>, <Format.JSON_LD: 'application/ld+json'>)
    """
    sample = next(bytes_chunks(data, "input", chunk_bytes=SAMPLE_BYTES), b"")[:SAMPLE_BYTES]
    is_utf_16 = sample.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = sample.decode("utf-16" if is_utf_16 else "utf-8", "replace").lstrip(_MARK).lstrip()
    if re.match(r"\{\s*(?:[\"}]|$)|\[\s*(?:\{|\]\s*$)", text):
        return _json_format(text)
    if _is_xml(text):
        return Format.RDF_XML if _RDF_ROOT.match(text) else Format.XML
    for line in _statements(text):
        if quad := _QUAD.fullmatch(line):
            if quad["graph"]:
                return Format.N_QUADS
        elif _is_turtle(line):
            return Format.TRIG
        elif _SUBJECT.match(line):  # a damaged line of N-Quads, whose decoder says what is wrong
            return Format.N_QUADS
        else:
            raise _unknown(repr(line[:40]), ", ".join(syntax.value for syntax in Format))
    return Format.N_QUADS


def guess_json_format(value: object) -> Format:
    """The format of a JSON value: CloudEvents have a ``specversion``, everything else is JSON-LD."""
    if isinstance(value, Mapping) and "specversion" in value and "@context" not in value:
        return Format.CLOUDEVENT
    if isinstance(value, list) and value and all(guess_json_format(one) is Format.CLOUDEVENT for one in value):
        return Format.CLOUDEVENTS_BATCH
    return Format.JSON_LD


def _is_xml(text: str) -> bool:
    """Whether a text begins with a declaration, or with a tag that has attributes or is closed: others are IRIs."""
    match = _XML_START.match(text)
    if match is None or match["name"] is None or match["attribute"]:
        return match is not None
    name = re.escape(match["name"]) if len(text) < SAMPLE_BYTES // 4 else f"(?:{_XML_NAME}:)?{_XML_NAME}"
    return re.match(rf"<{name}\s*/>", text) is not None or re.search(rf"</{name}\s*>", text) is not None


def _json_format(text: str) -> Format:
    if '"specversion"' not in text:
        return Format.JSON_LD
    try:
        return guess_json_format(json.loads(text))
    except (ValueError, RecursionError):  # cut off, damaged or too deep: the decoder says so
        return Format.CLOUDEVENTS_BATCH if text.startswith("[") else Format.CLOUDEVENT


def _statements(text: str) -> Iterator[str]:
    """The first lines of a text that are neither empty nor comments."""
    lines = (line.strip() for line in re.split(r"[\r\n]+", text))
    for count, line in enumerate(line for line in lines if line and not line.startswith("#")):
        if count == MAX_LINES:
            return
        yield line


def _is_turtle(line: str) -> bool:
    if not _SUBJECT.match(line):
        return _TURTLE_START.match(line) is not None
    rest = _TERMS.sub(" ", line).rstrip()
    return not rest.endswith(".") or _TURTLE_SIGN.search(rest) is not None  # N-Quads end each line with a dot


def _unknown(what: str, types: str) -> UsageError:
    return UsageError(
        f"the format of the data is not known: it begins with {what}", advice=f"Give its content_type: {types}."
    )
