"""The formats of events, with their content types and file name suffixes, and guesses from the beginning of a text.

Only what is certain, or what the decoder of the guessed format will explain, is guessed; everything else is refused
with the content types to choose from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import PurePath

from motet.codec.compression import bytes_chunks
from motet.model.errors import DecodeError, UsageError


class Format(Enum):
    """A format of events; the value is its content type."""

    N_QUADS = "application/n-quads"
    TRIG = "application/trig"
    TURTLE = "text/turtle"
    N_TRIPLES = "application/n-triples"
    JSON_LD = "application/ld+json"
    RDF_XML = "application/rdf+xml"
    CLOUDEVENT = "application/cloudevents+json"
    CLOUDEVENTS_BATCH = "application/cloudevents-batch+json"
    CSV = "text/csv"
    TSV = "text/tab-separated-values"
    NDJSON = "application/x-ndjson"
    JSON = "application/json"
    XML = "application/xml"  # and text/xml, and every …+xml but that of RDF and CloudEvents

    @property
    def is_rows(self) -> bool:
        """Whether it is a format of rows, which are events by a mapping."""
        return self in (Format.CSV, Format.TSV, Format.NDJSON, Format.JSON)

    @property
    def is_cloudevents(self) -> bool:
        return self in (Format.CLOUDEVENT, Format.CLOUDEVENTS_BATCH)


SUFFIXES = {
    ".nq": Format.N_QUADS,
    ".trig": Format.TRIG,
    ".ttl": Format.TURTLE,
    ".nt": Format.N_TRIPLES,
    ".jsonld": Format.JSON_LD,
    ".rdf": Format.RDF_XML,
    ".owl": Format.RDF_XML,
    ".ce.json": Format.CLOUDEVENT,
    ".cloudevents.json": Format.CLOUDEVENT,
    ".csv": Format.CSV,
    ".tsv": Format.TSV,
    ".ndjson": Format.NDJSON,
    ".jsonl": Format.NDJSON,
    ".json": Format.JSON,
    ".xml": Format.XML,
}
_OTHER_XML = (Format.RDF_XML.value, "application/cloudevents+xml")
COMPRESSION_SUFFIXES = (".gz", ".zst")


def format_of_path(path: str) -> Format:
    """The format that the suffix of a file name stands for.

    >>> format_of_path("day/events.nq.gz")
    <Format.N_QUADS: 'application/n-quads'>
    """
    syntax = find_format(path)
    if syntax is None:
        error = unknown_format(path)
        raise UsageError(f"{path}: {error.message}", advice=error.advice)
    return syntax


def find_format(path: str) -> Format | None:
    """The same; None if the suffix stands for no format."""
    name = PurePath(path).name.lower()
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    return next((SUFFIXES[suffix] for suffix in SUFFIXES if name.endswith(suffix)), None)


def unknown_format(path: str) -> DecodeError:
    """The rejection of a file whose name stands for no format."""
    advice = f"rename it to end in one of {', '.join(SUFFIXES)}, with .gz or .zst after it when compressed"
    return DecodeError("the suffix of the file name stands for no format", source=path, advice=advice)


def format_of_content_type(content_type: str) -> Format:
    """The format of a content type; a charset other than UTF-8 is refused.

    >>> format_of_content_type("text/turtle; charset=utf-8")
    <Format.TURTLE: 'text/turtle'>
    """
    essence, *parameters = (field.strip().lower() for field in content_type.split(";"))
    formats = {syntax.value: syntax for syntax in Format}
    if essence == "text/xml" or (essence.endswith("+xml") and essence not in _OTHER_XML):
        essence = Format.XML.value
    if essence not in formats:
        raise UsageError(f"the content type {content_type!r} is not known", advice=f"use one of {', '.join(formats)}")
    charsets = [value.strip('"') for name, _, value in (p.partition("=") for p in parameters) if name == "charset"]
    if any(charset not in ("utf-8", "utf8", "us-ascii") for charset in charsets):
        raise UsageError(f"the charset of {content_type!r} is not UTF-8", advice="send the events as UTF-8")
    return formats[essence]


# Guesses


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
