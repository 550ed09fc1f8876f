"""Observations for the benchmark of SPARQL: the data of a lake and of another store, equal for equal sizes.

Five triples per event: a skewed class of 200, a skewed sensor of 2 000, a time, a value of one of three numeric types,
and one of a label, a link to the observation before it in a chain of 500, and the room of the sensor, which other
events state too. Events have UUIDs as names, observations consecutive numbers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.model.batches import EVENTS, TIME, TRIPLE
from motet.model.terms import RDF_TYPE, XSD
from motet.model.times import UNITS, format_datetime, parse_datetime

EX = "http://example.org/"
CLASSES, SENSORS, ROOMS, CHAIN = 200, 2_000, 200, 500
SENSOR, TIME_OF, VALUE, LABEL, FOLLOWS, IN_ROOM, PART_OF = (
    f"<{EX}{name}>" for name in ("sensor", "at", "value", "label", "follows", "inRoom", "partOf")
)
BEGIN = parse_datetime("2026-01-01T00:00:00Z")
WORDS = ("cold", "damp", "door", "east", "fan", "hall", "high", "lamp", "low", "main", "north", "old", "open", "pump")
TRIPLES_PER_EVENT = 5

Triple = tuple[str, str, str]


class Observation(NamedTuple):
    event: str
    time: int
    triples: tuple[Triple, ...]


def observations(count: int, seed: int = 1, *, has_uuids: bool = False) -> Iterator[Observation]:
    """Events in the order of their times; the names of the observations are consecutive numbers or UUIDs."""
    choose = np.random.default_rng(seed)
    classes = _zipf(choose, CLASSES, count)
    sensors = _zipf(choose, SENSORS, count)
    values, kinds, words = choose.random(count) * 100, choose.integers(0, 3, count), choose.integers(0, 14, (count, 3))
    names = choose.bytes(16 * count)
    uuids = choose.bytes(16 * count) if has_uuids else b""

    def observation(number: int) -> str:
        if not has_uuids:
            return f"<{EX}obs/{number}>"
        return f"<{uuid.UUID(bytes=uuids[16 * number : 16 * number + 16], version=4).urn}>"

    for number in range(count):
        subject, instant = observation(number), BEGIN + number * UNITS["s"]
        sensor = int(sensors[number])
        triples = (
            (subject, RDF_TYPE, f"<{EX}C{classes[number]}>"),
            (subject, SENSOR, f"<{EX}sensor/{sensor}>"),
            (subject, TIME_OF, f'"{format_datetime(instant)}"^^<{XSD}dateTime>'),
            (subject, VALUE, _number(float(values[number]), int(kinds[number]))),
            _other(number, subject, sensor, words[number], observation(max(number - 5, 0))),
        )
        name = uuid.UUID(bytes=names[16 * number : 16 * number + 16], version=4)
        yield Observation(name.urn, instant, triples)


def background() -> list[Triple]:
    """The rooms and their floors, four of them, and the building."""
    floors = [(f"<{EX}room/{room}>", PART_OF, f"<{EX}floor/{room % 4}>") for room in range(ROOMS)]
    return [*floors, *((f"<{EX}floor/{floor}>", PART_OF, f"<{EX}building>") for floor in range(4))]


def batches(observed: Iterator[Observation], size: int = 20_000) -> Iterator[pa.RecordBatch]:
    """The events as batches of EVENTS."""
    rows: list[Observation] = []
    for row in observed:
        rows.append(row)
        if len(rows) == size:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def nquads(observed: Iterator[Observation]) -> Iterator[str]:
    """The events as N-Quads, one text for each."""
    for event, _, triples in observed:
        yield "".join(f"{s} {p} {o} <{event}> .\n" for s, p, o in triples)


def _batch(rows: list[Observation]) -> pa.RecordBatch:
    times = pa.array([row.time for row in rows], TIME)
    names = [field.name for field in TRIPLE]
    triples = [[dict(zip(names, triple, strict=True)) for triple in row.triples] for row in rows]
    columns = [
        pa.array([row.event for row in rows]), times, times,
        pa.array(triples, pa.list_(pa.field("item", TRIPLE, nullable=False))), pa.array(np.zeros(len(rows), np.int64)),
        pa.nulls(len(rows), pa.binary()),
    ]  # fmt: skip
    return pa.record_batch(columns, schema=EVENTS)


def _zipf(choose: np.random.Generator, limit: int, count: int) -> np.ndarray:
    """Numbers below a limit, small ones more often."""
    weights = 1 / np.arange(1, limit + 1)
    return choose.choice(limit, count, p=weights / weights.sum())


def _number(value: float, kind: int) -> str:
    if kind == 0:
        return f'"{int(value)}"^^<{XSD}integer>'
    return f'"{value:.2f}"^^<{XSD}decimal>' if kind == 1 else f'"{value:.4E}"^^<{XSD}double>'


def _other(number: int, subject: str, sensor: int, words: np.ndarray, earlier: str) -> Triple:
    if number % 5 == 0:
        return (f"<{EX}sensor/{sensor}>", IN_ROOM, f"<{EX}room/{sensor % ROOMS}>")
    if number % 5 == 1 and number % CHAIN > 5:
        return (subject, FOLLOWS, earlier)
    return (subject, LABEL, '"' + " ".join(WORDS[word] for word in words) + ('"@en' if number % 2 else '"@de'))
