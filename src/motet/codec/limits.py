"""How much untrusted input may ask for, and what every stage of one decoding needs to know. Nothing is read here."""

from __future__ import annotations

from dataclasses import dataclass, field

from motet.codec.event_times import TIME_PROPERTIES, TimeProperties

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one input may cost; anything beyond becomes a rejection, never a crash."""

    max_event_bytes: int = 16 * MIB
    max_line_bytes: int = 16 * MIB
    max_document_bytes: int = 64 * MIB  # of formats that are read whole; larger N-Quads are read as a stream
    max_depth: int = 200  # nesting of JSON
    max_blank_node_work: int = 200_000  # steps of canonical labelling per event, some microseconds each


@dataclass(frozen=True)
class Source:
    """The name errors give the input, its limits, and where its events keep their time."""

    name: str
    limits: Limits = field(default_factory=Limits)
    time_properties: TimeProperties = TIME_PROPERTIES
