"""A few plain N-Quads to events, quickly: what one small request usually holds.

For three lines, setting up the columnar decoder costs ten times the work. This one takes a text only when it is certain
about every line of it, as the kernel of ``nquads_kernel`` is about single lines, and says what that decoder would say;
a test holds the two together. Nothing is refused here.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

from motet.codec.event_times import TimeProperties, parse_time
from motet.codec.limits import Source
from motet.model.schemas import EVENTS, TIME, TRIPLE

SMALL_BYTES = 4_096

_HOST = r"[0-9A-Za-z\-._~!$&'()*+,;=]"
_PATH = r"(?:[0-9A-Za-z\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})"
_IRI = rf"<[A-Za-z][0-9A-Za-z+\-.]*+:(?://{_HOST}*+(?::[0-9]*+)?+(?=[/?#>])|(?!//)){_PATH}*+(?:\#{_PATH}*+)?+>"
_RESERVED = r"(?!<http://www\.w3\.org/(?:1999/02/22-rdf-syntax-ns\#|2001/XMLSchema\#string))"  # both need more rules
_LITERAL = rf'"[ !#-\[\]-~]*+"(?:@[a-z]{{2,8}}(?=[ \t])|\^\^{_RESERVED}{_IRI})?+'
_QUAD = re.compile(
    rf"[ \t]*+({_IRI})[ \t]*+({_IRI})[ \t]*+({_IRI}|{_LITERAL})[ \t]*+({_IRI})[ \t]*+\.[ \t]*+\n", re.ASCII
)

_FIELDS = list(TRIPLE)
_TRIPLES = EVENTS.field("triples").type

Triple = tuple[str, str, str]


def decode_small(data: bytes, source: Source) -> pa.RecordBatch | None:
    """The events of a small text; None when the usual decoder must look at it.

    >>> decode_small(b'<urn:s> <urn:p> "o" <urn:e> .', Source("input")).column("id").to_pylist()
    ['urn:e']
    """
    limits = source.limits
    if not data.isascii() or len(data) > min(SMALL_BYTES, limits.max_event_bytes, limits.max_line_bytes):
        return None
    text = data.decode("ascii")
    events: dict[str, dict[Triple, int]] = {}
    at, line = 0, 1
    text += "" if text.endswith("\n") else "\n"
    while at < len(text):
        quad = _QUAD.match(text, at)
        if quad is None:
            return None
        subject, predicate, value, graph = quad.groups()
        events.setdefault(graph, {}).setdefault((subject, predicate, value), line)
        at, line = quad.end(), line + 1
    return _batch(events, source.time_properties)


def _batch(events: dict[str, dict[Triple, int]], properties: TimeProperties) -> pa.RecordBatch | None:
    times = [_times(graph, triples, properties) for graph, triples in events.items()]
    if None in times:
        return None
    starts, ends = zip(*(time for time in times if time is not None), strict=True)
    offsets = [0]
    for triples in events.values():
        offsets.append(offsets[-1] + len(triples))
    subjects, predicates, objects = zip(*(t for triples in events.values() for t in triples), strict=True)
    terms = [pa.array(column, pa.string()) for column in (subjects, predicates, objects)]
    columns = [
        pa.array([graph[1:-1] for graph in events], pa.string()),
        pa.array(starts, TIME),
        pa.array(ends, TIME),
        pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.StructArray.from_arrays(terms, fields=_FIELDS), type=_TRIPLES
        ),
        pa.array([next(iter(triples.values())) for triples in events.values()], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


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
        values = {which: parse_time(value) for (number, which), value in found.items() if number == group}
    except ValueError:
        return None
    start, end = values.get(False), values.get(True)
    start, end = end if start is None else start, start if end is None else end
    return (start, end) if start is not None and end is not None and start <= end else None


@lru_cache(16)
def _places(properties: TimeProperties) -> dict[str, tuple[int, bool]]:
    """By predicate the number of its group, and whether it is an end."""
    return {
        f"<{name}>": (number, which > 0) for number, names in enumerate(properties) for which, name in enumerate(names)
    }
