"""Options of one decoding: the input's name and identity, limits on untrusted input, and how its events are found."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypedDict

from motet.codec.identity import BatchInput, is_reserved
from motet.codec.row_mapping import GENERIC, RowMapping
from motet.model.errors import UsageError
from motet.model.settings import TIME_PROPERTIES, Settings, TimeProperties

MIB = 1 << 20
Rest = Literal["refuse", "drop", "share"]
REST: tuple[Rest, ...] = ("refuse", "drop", "share")
ABSOLUTE_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")


@dataclass(frozen=True)
class Limits:
    """Upper limits for one input; whatever exceeds them is rejected."""

    max_event_bytes: int = 16 * MIB
    max_line_bytes: int = 16 * MIB
    max_document_bytes: int = 64 * MIB  # documents are read whole; larger N-Quads are read as a stream
    max_depth: int = 200  # nesting of JSON and XML
    max_blank_node_work: int = 200_000  # steps of canonical labelling per event; a step takes microseconds


@dataclass(frozen=True)
class DecodeOptions:
    """The name of an input in errors, its limits, and how its events are found (language page, section 14)."""

    name: str
    limits: Limits = field(default_factory=Limits)
    time_properties: TimeProperties = TIME_PROPERTIES
    id: str | None = None  # the IRI of the event that the whole document is
    base: str | None = None  # of relative IRIs
    rest: Rest = "refuse"  # what happens to triples that belong to no event
    input_id: str | None = None  # the id of the file, message, row or call: events without an IRI are named after it
    batch: BatchInput | None = None  # the input that this one is a part of
    mapping: RowMapping | None = None  # of the rows or documents of this input
    interval: tuple[int, int] | None = None  # of the XML event that the document is
    xml_mappings: tuple[RowMapping, ...] = ()  # of XML documents, in the order they are tried after ``mapping``

    def __post_init__(self) -> None:
        for what, iri in (("event id", self.id), ("base", self.base), ("input id", self.input_id)):
            if iri is not None and not ABSOLUTE_IRI.fullmatch(iri):
                raise UsageError(f"the {what} {iri!r} is not an absolute IRI", advice="use one such as urn:uuid:…")
        for what, iri in (("event id", self.id), ("input id", self.input_id)):
            if iri is not None and is_reserved(iri):
                raise UsageError(f"the {what} {iri!r} is reserved", advice="use an IRI outside urn:motet:")
        if self.rest not in REST:
            raise UsageError(f"rest is {self.rest!r}", advice=f"use one of {', '.join(REST)}")


class DecodeSettings(TypedDict):
    """The settings of a lake that a writer uses to decode its input."""

    time_properties: TimeProperties
    xml_mappings: tuple[RowMapping, ...]


NO_SETTINGS = DecodeSettings(time_properties=TIME_PROPERTIES, xml_mappings=())


def decode_settings(settings: Settings) -> DecodeSettings:
    """The settings in force when a writer begins to read an input."""
    mappings = tuple(map(stored_mapping, settings.mappings))
    return DecodeSettings(time_properties=settings.time_properties, xml_mappings=mappings)


@lru_cache(maxsize=64)
def stored_mapping(text: str) -> RowMapping:
    """A mapping of XML documents from the text that a lake stores."""
    return RowMapping.of(text) if text == GENERIC else RowMapping.parse(text, "a mapping of the lake")
