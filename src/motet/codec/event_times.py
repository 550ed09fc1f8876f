"""Reads the times of events from their triples (language page, section 1), a whole batch at a time.

Arrow parses the common lexical forms; ``motet.model.times`` parses the others one by one and words the errors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.rejections import Problem
from motet.model import terms
from motet.model.batches import ATTRIBUTE
from motet.model.settings import TIME_PROPERTIES, TimeProperties
from motet.model.times import END_OF_TIME, START_OF_TIME, UNITS, parse_datetime

Int64s = npt.NDArray[np.int64]
CREATED = "http://purl.org/dc/terms/created"  # anything may have it: of another node it is not the time of an event
CLOUDEVENT_TIME = ATTRIBUTE + "time"  # the time of an event that has no other

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


@lru_cache(16)
def node_predicates(properties: TimeProperties) -> frozenset[str]:
    """The predicates, as terms, whose subjects state a time that is that of an event."""
    return frozenset(terms.iri(name) for group in properties for name in group if name != CREATED)


def event_times(
    quads: pa.RecordBatch, starts: Int64s, properties: TimeProperties = TIME_PROPERTIES, *, is_document: bool = False
) -> EventTimes:
    """The times of the events whose quads begin at ``starts``.

    An event whose node states no time has that of the only other node that states one. If several do, that is a
    problem, except for an event that is a whole document.
    """
    names = [name for group in properties for name in group] + [CLOUDEVENT_TIME]
    groups = (*properties, (CLOUDEVENT_TIME,))
    event, prop, row, ambiguous = _deciding_rows(quads, starts, groups, names)
    objects = quads.column("object").take(pa.array(row))
    micros, malformed = parse_times(objects)
    is_attribute = prop == len(names) - 1
    if is_attribute.any() and len(unusable := _unusable_attributes(event, is_attribute, malformed)):
        event, prop, row = (np.delete(values, unusable) for values in (event, prop, row))
        micros, malformed = parse_times(objects.take(pa.array(np.delete(np.arange(len(objects)), unusable))))
    problems: dict[int, list[Problem]] = defaultdict(list)
    for index, reason in malformed.items():
        problem = _problem(quads, row[index], f"<{names[prop[index]]}>: {reason}", advice="correct the time")
        problems[int(event[index])].append(problem)
    values = _Values(event, prop, row, micros)
    _report_repeated(quads, values, names, problems)
    start, end = _intervals(values, len(starts), groups)
    for backward in np.flatnonzero(end < start):
        reason = _backward_reason(quads, values, names, int(backward))
        problem = _problem(quads, starts[backward], reason, advice="exchange the two times, or correct one")
        problems[int(backward)].append(problem)
    for without, rows in () if is_document else ambiguous.items():
        problems[without].append(_ambiguous_problem(quads, rows))
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
    quads: pa.RecordBatch, starts: Int64s, groups: TimeProperties, names: list[str]
) -> tuple[Int64s, Int64s, Int64s, dict[int, Int64s]]:
    """Event, property and row of the time triples that decide: of the first property group that is used.

    Those of the event's node decide; if it has none but a CloudEvents attribute, those of the only other node. The last
    value has, by event, the rows of several other nodes.
    """
    index = pc.index_in(quads.column("predicate"), value_set=pa.array([terms.iri(name) for name in names]))
    row = np.flatnonzero(index.is_valid().to_numpy(zero_copy_only=False))
    prop = index.drop_null().to_numpy().astype(np.int64)
    indices = pa.array(row)
    is_own = pc.equal(quads.column("subject").take(indices), quads.column("graph").take(indices))
    decides = is_own.to_numpy(zero_copy_only=False).copy()
    event = np.searchsorted(starts, row, side="right") - 1
    group = np.repeat(np.arange(len(groups)), [len(group) for group in groups])[prop]
    attribute = len(groups) - 1
    has_own = np.zeros(len(starts), np.bool_)
    has_own[event[decides & (group < attribute)]] = True
    ambiguous: dict[int, Int64s] = {}
    is_created = np.array([name == CREATED for name in names])[prop]
    of_other = ~decides & ~has_own[event] & (group < attribute) & ~is_created
    if of_other.any():
        ambiguous = _ambiguous_events(quads, row[of_other], event[of_other])
        decides |= of_other & ~np.isin(event, list(ambiguous))
    row, prop, event, group = row[decides], prop[decides], event[decides], group[decides]
    first = np.full(len(starts), len(groups))
    np.minimum.at(first, event, group)
    decides = group == first[event]
    return event[decides], prop[decides], row[decides], ambiguous


def _unusable_attributes(event: Int64s, is_attribute: npt.NDArray[np.bool_], malformed: Iterable[int]) -> Int64s:
    """The indices of CloudEvents attributes that are no time, or several: as triples they may be anything."""
    is_unusable = np.isin(np.arange(len(event)), list(malformed))
    several = np.bincount(event[is_attribute]) > 1
    is_unusable[is_attribute] |= several[event[is_attribute]]
    return np.flatnonzero(is_unusable & is_attribute)


def _ambiguous_events(quads: pa.RecordBatch, row: Int64s, event: Int64s) -> dict[int, Int64s]:
    """The events in which these rows have several subjects, with the first row of each subject."""
    subject = quads.column("subject").take(pa.array(row)).dictionary_encode().indices.to_numpy()
    _, first = np.unique(np.stack([event, subject]), axis=1, return_index=True)
    events, counts = np.unique(event[first], return_counts=True)
    return {int(several): np.sort(row[first[event[first] == several]]) for several in events[counts > 1]}


def _ambiguous_problem(quads: pa.RecordBatch, rows: Int64s) -> Problem:
    one, other = (quads.column("subject")[int(row)].as_py() for row in rows[:2])
    reason = f"its node states no time, and several others in it do: {one} and {other}"
    advice = "state the time of the event itself, or publish the document with an id: then it is one event"
    return _problem(quads, rows[1], reason, advice)


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
