"""A few plain N-Quads to events, quickly: what one small request usually holds.

For three lines, setting up the columnar decoder costs ten times the work. This one takes a text only when it is certain
about every line of it, as the kernel of ``nquads_kernel`` is about single lines, and says what that decoder would say;
a test holds the two together. Nothing is refused here.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from motet.codec.event_times import TimeProperties, parse_time
from motet.codec.limits import Source
from motet.model.tables import EventRow, Triple, event_batch

SMALL_BYTES = 4_096

_HOST = r"[0-9A-Za-z\-._~!$&'()*+,;=]"
_PLAIN = r"[0-9A-Za-z\-._~!$&'()*+,;=:@/?]*+"
_PATH = rf"{_PLAIN}(?:%[0-9A-Fa-f]{{2}}{_PLAIN})*+"
_IRI = rf"<[A-Za-z][0-9A-Za-z+\-.]*+:(?://{_HOST}*+(?::[0-9]*+)?+(?=[/?#>])|(?!//)){_PATH}(?:\#{_PATH})?+>"
_RESERVED = r"(?!<http://www\.w3\.org/(?:1999/02/22-rdf-syntax-ns\#|2001/XMLSchema\#string))"  # both need more rules
_LITERAL = rf'"[ !#-\[\]-~]*+"(?:@[a-z]{{2,8}}(?=[ \t])|\^\^{_RESERVED}{_IRI})?+'
_QUAD = re.compile(
    rf"^[ \t]*+({_IRI})[ \t]*+({_IRI})[ \t]*+({_IRI}|{_LITERAL})[ \t]*+({_IRI})[ \t]*+\.[ \t]*+\n",
    re.ASCII | re.MULTILINE,
)


class Small(NamedTuple):
    """Events, and the lines they begin at."""

    events: list[EventRow]
    lines: list[int]


def read_small(data: bytes, source: Source) -> Small | None:
    """The events of a small text; None when the usual decoder must look at it.

    >>> read_small(b'<urn:s> <urn:p> "o" <urn:e> .', Source("input")).events
    [EventRow(id='urn:e', start=None, end=None, triples=(('<urn:s>', '<urn:p>', '"o"'),))]
    """
    limits = source.limits
    if not data.isascii() or not 0 < len(data) <= min(SMALL_BYTES, limits.max_event_bytes, limits.max_line_bytes):
        return None
    text = data.decode("ascii")
    parts = _QUAD.split(text if text.endswith("\n") else text + "\n")
    if any(parts[::5]):  # what is between quads
        return None
    events: dict[str, dict[Triple, int]] = {}
    for line, triple in enumerate(zip(parts[1::5], parts[2::5], parts[3::5], strict=True), 1):
        events.setdefault(parts[5 * line - 1], {}).setdefault(triple, line)
    found = Small([], [])
    for graph, triples in events.items():
        times = _times(graph, triples, source.time_properties)
        if times is None:
            return None
        found.events.append(EventRow(graph[1:-1], *times, tuple(triples)))
        found.lines.append(next(iter(triples.values())))
    return found


def decode_small(data: bytes, source: Source) -> pa.RecordBatch | None:
    """As `read_small`, as a batch of EVENTS."""
    found = read_small(data, source)
    return None if found is None else event_batch(*found)


def _times(graph: str, triples: dict[Triple, int], properties: TimeProperties) -> tuple[int | None, int | None] | None:
    """Start and end; None when something is wrong with them."""
    places, found = _places(properties), {}
    for subject, predicate, value in triples:
        if predicate in places and subject == graph:
            place = places[predicate]
            if place in found:
                return None
            found[place] = value
    if not found:
        return None, None
    group = min(found)[0]
    try:
        own = [parse_time(found[place]) for place in ((group, False), (group, True)) if place in found]
    except ValueError:
        return None
    return (own[0], own[-1]) if own[0] <= own[-1] else None


@lru_cache(16)
def _places(properties: TimeProperties) -> dict[str, tuple[int, bool]]:
    """By predicate the number of its group, and whether it is an end."""
    return {
        f"<{name}>": (number, which > 0) for number, names in enumerate(properties) for which, name in enumerate(names)
    }
