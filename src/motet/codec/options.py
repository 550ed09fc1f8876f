"""Options of one decoding: the input's name in errors, limits on untrusted input, and the properties of times."""

from __future__ import annotations

from dataclasses import dataclass, field

from motet.model.settings import TIME_PROPERTIES, TimeProperties

MIB = 1 << 20


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
    """The input's name in errors, its limits, and the properties that hold the times of its events."""

    name: str
    limits: Limits = field(default_factory=Limits)
    time_properties: TimeProperties = TIME_PROPERTIES
