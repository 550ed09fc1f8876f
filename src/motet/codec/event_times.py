"""When events happened: read from their own triples (language page, section 1), a whole batch at a time.

The usual lexical forms are parsed by Arrow; anything else goes, one by one, through ``motet.model.times``, which also
words the errors.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.rejections import Problem
from motet.model import terms
from motet.model.times import END_OF_TIME, START_OF_TIME, UNITS, parse_datetime

Int64s = npt.NDArray[np.int64]
TimeProperties = tuple[tuple[str, ...], ...]

_PROV = "http://www.w3.org/ns/prov#"
TIME_PROPERTIES: TimeProperties = (
    (_PROV + "startedAtTime", _PROV + "endedAtTime"),
    ("http://www.w3.org/ns/sosa/resultTime",),
    (_PROV + "generatedAtTime",),
    ("http://purl.org/dc/terms/created",),
)
"""Groups of one property (a point) or two (start and end), tried in this order."""

NO_TIME = np.iinfo(np.int64).min
_DATATYPES = (terms.XSD + "dateTime", terms.XSD + "dateTimeStamp")
_END = f'"^^<{_DATATYPES[0]}>'
_PLAIN_END = f"Z{_END}"
_PLAIN_LENGTH = len('"2026-11-15T10:00:00') + len(_PLAIN_END)
_USUAL = (
    r'^"(?P<seconds>[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:(?P<fraction>\.\d{1,6})\d*)?'
    r"(?P<zone>Z|[+-](?:0\d|1[0-3]):[0-5]\d)?"
    r'"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime(?:Stamp)?>$'
)


class EventTimes(NamedTuple):
    """Start and end of each event, ``NO_TIME`` where it has none, and what is wrong with the rest."""

    start: Int64s
    end: Int64s
    problems: dict[int, list[Problem]]


class _Values(NamedTuple):
    """The time triples that count: which event, which property, which row, what value."""

    event: Int64s
    property: Int64s
    row: Int64s
    micros: Int64s


def event_times(quads: pa.RecordBatch, starts: Int64s, properties: TimeProperties = TIME_PROPERTIES) -> EventTimes:
    """The times of the events whose quads begin at ``starts``."""
    names = [name for group in properties for name in group]
    if not names:
        return EventTimes(np.full(len(starts), NO_TIME), np.full(len(starts), NO_TIME), {})
    event, prop, row = _deciding_rows(quads, starts, properties, names)
    objects = quads.column("object").take(pa.array(row))
    micros, malformed = parse_times(objects)
    problems: dict[int, list[Problem]] = defaultdict(list)
    for position, reason in malformed.items():
        problem = _problem(quads, row[position], f"<{names[prop[position]]}>: {reason}", advice="correct the time")
        problems[int(event[position])].append(problem)
    values = _Values(event, prop, row, micros)
    _find_repeated(quads, values, names, problems)
    start, end = _bounds(values, len(starts), properties)
    for backward in np.flatnonzero(end < start):
        reason = _backward(quads, values, names, int(backward))
        problem = _problem(quads, starts[backward], reason, advice="exchange the two times, or correct one")
        problems[int(backward)].append(problem)
    return EventTimes(start, end, dict(problems))


def parse_times(literals: pa.StringArray) -> tuple[Int64s, dict[int, str]]:
    """Microseconds of xsd:dateTime literals, and by position why one is not.

    >>> parse_times(pa.array(['"1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>']))
    (array([1000000]), {})
    """
    plain = _parse_plain(literals)
    if plain is not None:
        return plain, {}
    micros, usual = _parse_usual(literals)
    malformed: dict[int, str] = {}
    for position in np.flatnonzero(~usual):
        try:
            micros[position] = parse_time(literals[int(position)].as_py())
        except ValueError as error:
            malformed[int(position)] = str(error)
    return micros, malformed


def _deciding_rows(
    quads: pa.RecordBatch, starts: Int64s, properties: TimeProperties, names: list[str]
) -> tuple[Int64s, Int64s, Int64s]:
    """Event, property and row of every time triple about its own event, of the first group that the event has."""
    found = pc.index_in(quads.column("predicate"), value_set=pa.array([terms.iri(name) for name in names]))
    row = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    prop = found.drop_null().to_numpy().astype(np.int64)
    indices = pa.array(row)
    own = pc.equal(quads.column("subject").take(indices), quads.column("graph").take(indices))
    mask = own.to_numpy(zero_copy_only=False)
    row, prop = row[mask], prop[mask]
    event = np.searchsorted(starts, row, side="right") - 1
    group = np.repeat(np.arange(len(properties)), [len(names) for names in properties])[prop]
    first = np.full(len(starts), len(properties))
    np.minimum.at(first, event, group)
    decides = group == first[event]
    return event[decides], prop[decides], row[decides]


def _find_repeated(
    quads: pa.RecordBatch, values: _Values, names: list[str], problems: dict[int, list[Problem]]
) -> None:
    keys = values.event * len(names) + values.property
    unique, counts = np.unique(keys, return_counts=True)
    for key in unique[counts > 1]:
        event, prop = divmod(int(key), len(names))
        rows = values.row[keys == key]
        shown = ", ".join(quads.column("object").take(pa.array(rows)).to_pylist()[:5])
        reason = f"<{names[prop]}> has {len(rows)} values: {shown}"
        problems[event].append(_problem(quads, rows[0], reason, advice="an event has one time; keep one value"))


def _bounds(values: _Values, count: int, properties: TimeProperties) -> tuple[Int64s, Int64s]:
    is_end = np.concatenate([np.arange(len(group)) > 0 for group in properties])[values.property]
    start, end = np.full(count, NO_TIME), np.full(count, NO_TIME)
    start[values.event[~is_end]] = values.micros[~is_end]
    end[values.event[is_end]] = values.micros[is_end]
    return np.where(start == NO_TIME, end, start), np.where(end == NO_TIME, start, end)


def _backward(quads: pa.RecordBatch, values: _Values, names: list[str], event: int) -> str:
    mine = np.flatnonzero(values.event == event)
    shown = (f"<{names[values.property[i]]}> {quads.column('object')[int(values.row[i])].as_py()}" for i in mine)
    return f"it ends before it starts: {', '.join(shown)}"


def _problem(quads: pa.RecordBatch, row: int, reason: str, advice: str) -> Problem:
    return Problem(reason, advice=advice, line=quads.column("line")[int(row)].as_py())


def _parse_plain(literals: pa.StringArray) -> Int64s | None:
    """All of them at once, if all are in UTC and written with Z: eight times faster than looking for the parts.

    Arrow also reads a space for the T, and leaves out the seconds; xsd:dateTime does not.
    """
    plain = pc.and_(pc.ends_with(literals, _PLAIN_END), pc.greater_equal(pc.binary_length(literals), _PLAIN_LENGTH))
    odd = pc.or_(pc.match_substring(literals, " "), pc.starts_with(literals, '"0'))
    if not pc.all(pc.and_not(plain, odd)).as_py():
        return None
    lexical = pc.binary_slice(literals.cast(pa.binary()), 1, -len(_PLAIN_END)).cast(pa.string())
    try:
        return lexical.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:  # a wrong date, or more than six digits
        return None


def _parse_usual(literals: pa.StringArray) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Parse what has the usual form; the mask says for which positions that worked."""
    parts = pc.extract_regex(literals, _USUAL)
    usual = parts.is_valid().to_numpy(zero_copy_only=False).copy()
    parts = parts.drop_null()
    seconds, fraction, zone = parts.flatten()
    try:
        moments = pc.binary_join_element_wise(seconds, fraction, "").cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:  # such as 30 February: let the slow way say which one and why
        return np.zeros(len(literals), np.int64), np.zeros(len(literals), np.bool_)
    parsed = moments.to_numpy() - _zone_offsets(zone)
    micros = np.zeros(len(literals), np.int64)
    micros[usual] = parsed
    usual[usual] = (parsed >= START_OF_TIME) & (parsed <= END_OF_TIME)
    return micros, usual


def _zone_offsets(zone: pa.StringArray) -> Int64s:
    encoded = zone.dictionary_encode()
    offsets = np.array([_zone_offset(text) for text in encoded.dictionary.to_pylist()], np.int64)
    return offsets[encoded.indices.to_numpy()]


def _zone_offset(zone: str) -> int:
    if zone in ("", "Z"):
        return 0
    offset = int(zone[1:3]) * UNITS["h"] + int(zone[4:6]) * UNITS["min"]
    return -offset if zone[0] == "-" else offset


def parse_time(literal: str) -> int:
    """The microseconds of an xsd:dateTime literal; a ValueError says why it is none."""
    if literal.endswith(_END) and "\\" not in literal:
        return parse_datetime(literal[1 : -len(_END)])
    if terms.is_iri(literal):
        raise ValueError(f"{literal} is not an xsd:dateTime")
    text, datatype, _ = terms.literal_parts(literal)
    if datatype not in _DATATYPES:
        raise ValueError(f"{literal} is not an xsd:dateTime")
    return parse_datetime(text)
