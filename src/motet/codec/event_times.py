"""Reads the times of events from their triples (language page, section 1), a whole batch at a time.

Arrow parses the common lexical forms; ``motet.model.times`` parses the others one by one and words the errors.
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
from motet.model.settings import TIME_PROPERTIES, TimeProperties
from motet.model.times import END_OF_TIME, START_OF_TIME, UNITS, parse_datetime

Int64s = npt.NDArray[np.int64]
NO_TIME = np.iinfo(np.int64).min
_DATATYPES = (terms.XSD + "dateTime", terms.XSD + "dateTimeStamp")
_END = f'"^^<{_DATATYPES[0]}>'
_UTC_END = f"Z{_END}"
_UTC_LENGTH = len('"2026-11-15T10:00:00') + len(_UTC_END)
_COMMON_FORM = (
    r'^"(?P<seconds>[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:(?P<fraction>\.\d{1,6})\d*)?'
    r"(?P<zone>Z|[+-](?:0\d|1[0-3]):[0-5]\d)?"
    r'"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime(?:Stamp)?>$'
)


class EventTimes(NamedTuple):
    """Start and end of each event, ``NO_TIME`` where it has none, and the problems by event."""

    start: Int64s
    end: Int64s
    problems: dict[int, list[Problem]]


class _Values(NamedTuple):
    """The time triples of the deciding property groups: event, property, row and value of each."""

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
    for index, reason in malformed.items():
        problem = _problem(quads, row[index], f"<{names[prop[index]]}>: {reason}", advice="correct the time")
        problems[int(event[index])].append(problem)
    values = _Values(event, prop, row, micros)
    _report_repeated(quads, values, names, problems)
    start, end = _intervals(values, len(starts), properties)
    for backward in np.flatnonzero(end < start):
        reason = _backward_reason(quads, values, names, int(backward))
        problem = _problem(quads, starts[backward], reason, advice="exchange the two times, or correct one")
        problems[int(backward)].append(problem)
    return EventTimes(start, end, dict(problems))


def parse_times(literals: pa.StringArray) -> tuple[Int64s, dict[int, str]]:
    """Microseconds of xsd:dateTime literals, and the reasons why others are malformed, by index.

    >>> parse_times(pa.array(['"1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>']))
    (array([1000000]), {})
    """
    utc = _parse_utc(literals)
    if utc is not None:
        return utc, {}
    micros, is_common = _parse_common(literals)
    malformed: dict[int, str] = {}
    for index in np.flatnonzero(~is_common):
        try:
            micros[index] = parse_time(literals[int(index)].as_py())
        except ValueError as error:
            malformed[int(index)] = str(error)
    return micros, malformed


def _deciding_rows(
    quads: pa.RecordBatch, starts: Int64s, properties: TimeProperties, names: list[str]
) -> tuple[Int64s, Int64s, Int64s]:
    """Event, property and row of the time triples of each event, of the first property group it uses."""
    index = pc.index_in(quads.column("predicate"), value_set=pa.array([terms.iri(name) for name in names]))
    row = np.flatnonzero(index.is_valid().to_numpy(zero_copy_only=False))
    prop = index.drop_null().to_numpy().astype(np.int64)
    indices = pa.array(row)
    is_about_event = pc.equal(quads.column("subject").take(indices), quads.column("graph").take(indices))
    mask = is_about_event.to_numpy(zero_copy_only=False)
    row, prop = row[mask], prop[mask]
    event = np.searchsorted(starts, row, side="right") - 1
    group = np.repeat(np.arange(len(properties)), [len(names) for names in properties])[prop]
    first = np.full(len(starts), len(properties))
    np.minimum.at(first, event, group)
    decides = group == first[event]
    return event[decides], prop[decides], row[decides]


def _report_repeated(
    quads: pa.RecordBatch, values: _Values, names: list[str], problems: dict[int, list[Problem]]
) -> None:
    keys = values.event * len(names) + values.property
    unique, counts = np.unique(keys, return_counts=True)
    for key in unique[counts > 1]:
        event, prop = divmod(int(key), len(names))
        rows = values.row[keys == key]
        values_text = ", ".join(quads.column("object").take(pa.array(rows)).to_pylist()[:5])
        reason = f"<{names[prop]}> has {len(rows)} values: {values_text}"
        problems[event].append(_problem(quads, rows[0], reason, advice="an event has one time; keep one value"))


def _intervals(values: _Values, count: int, properties: TimeProperties) -> tuple[Int64s, Int64s]:
    is_end = np.concatenate([np.arange(len(group)) > 0 for group in properties])[values.property]
    start, end = np.full(count, NO_TIME), np.full(count, NO_TIME)
    start[values.event[~is_end]] = values.micros[~is_end]
    end[values.event[is_end]] = values.micros[is_end]
    return np.where(start == NO_TIME, end, start), np.where(end == NO_TIME, start, end)


def _backward_reason(quads: pa.RecordBatch, values: _Values, names: list[str], event: int) -> str:
    indices = np.flatnonzero(values.event == event)
    times = (f"<{names[values.property[i]]}> {quads.column('object')[int(values.row[i])].as_py()}" for i in indices)
    return f"it ends before it starts: {', '.join(times)}"


def _problem(quads: pa.RecordBatch, row: int, reason: str, advice: str) -> Problem:
    return Problem(reason, advice=advice, line=quads.column("line")[int(row)].as_py())


def _parse_utc(literals: pa.StringArray) -> Int64s | None:
    """Microseconds if all literals are in UTC and end with Z, else None: eight times faster than a regular expression.

    Arrow also accepts a space instead of the T, and a time without seconds; xsd:dateTime does not.
    """
    utc = pc.and_(pc.ends_with(literals, _UTC_END), pc.greater_equal(pc.binary_length(literals), _UTC_LENGTH))
    odd = pc.or_(pc.match_substring(literals, " "), pc.starts_with(literals, '"0'))
    if not pc.all(pc.and_not(utc, odd)).as_py():
        return None
    lexical = pc.binary_slice(literals.cast(pa.binary()), 1, -len(_UTC_END)).cast(pa.string())
    try:
        return lexical.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:  # a wrong date, or more than six digits
        return None


def _parse_common(literals: pa.StringArray) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    """Parse the literals of the common form; the mask is true for those that were parsed."""
    groups = pc.extract_regex(literals, _COMMON_FORM)
    is_common = groups.is_valid().to_numpy(zero_copy_only=False).copy()
    seconds, fraction, zone = groups.drop_null().flatten()
    try:
        local_micros = pc.binary_join_element_wise(seconds, fraction, "").cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:  # such as 30 February: parse_time reports which one and why
        return np.zeros(len(literals), np.int64), np.zeros(len(literals), np.bool_)
    parsed = local_micros.to_numpy() - _zone_offsets(zone)
    micros = np.zeros(len(literals), np.int64)
    micros[is_common] = parsed
    is_common[is_common] = (parsed >= START_OF_TIME) & (parsed <= END_OF_TIME)
    return micros, is_common


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
    """The microseconds of an xsd:dateTime literal; raises ValueError for any other term."""
    if literal.endswith(_END) and "\\" not in literal:
        return parse_datetime(literal[1 : -len(_END)])
    if terms.is_iri(literal):
        raise ValueError(f"{literal} is not an xsd:dateTime")
    text, datatype, _ = terms.literal_parts(literal)
    if datatype not in _DATATYPES:
        raise ValueError(f"{literal} is not an xsd:dateTime")
    return parse_datetime(text)
