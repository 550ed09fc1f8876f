"""The formats of events, with their content types and file name suffixes."""

from __future__ import annotations

from enum import Enum
from pathlib import PurePath

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
