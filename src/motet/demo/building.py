"""Generates a day of events in a small office building from a seed: readings and alarms as N-Quads, orders as XML.

The readings follow the hours of work (occupancy, temperature, air quality). Five incidents are added: a fire drill in
the morning with real smoke shortly before it, a cooling failure in the server room, burnt toast, a real fire in the
lab, and a door forced at night.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.times import UNITS, format_datetime, parse_datetime
from motet.model.xml_document import MOTET_NAMESPACE

BLD = "http://example.org/building#"
ROOM = "http://example.org/building/room/"
EVENT = "http://example.org/building/event/"

OFFICES = ("1-north", "1-south", "2-north", "2-south")
MEETING_ROOMS = ("1-meeting", "2-meeting")
COOLED = ("0-server", "2-lab")
ROOMS = ("0-lobby", "0-kitchen", *COOLED, *OFFICES, *MEETING_ROOMS)

MIDNIGHT = parse_datetime("2026-11-16T00:00:00Z")
RESULT_TIME = "<http://www.w3.org/ns/sosa/resultTime>"
STARTED = "<http://www.w3.org/ns/prov#startedAtTime>"
ENDED = "<http://www.w3.org/ns/prov#endedAtTime>"

ORDERS = 20
UNPAID_SHARE = 0.15
PRICES = {"coffee": 240, "tea": 210, "cake": 380}  # cents


@dataclass(frozen=True)
class Happening:
    """One event before it has an IRI."""

    start: int
    end: int
    kind: str
    room: str | None
    properties: tuple[tuple[str, str], ...] = ()


def ontology_path() -> Path:
    return Path(str(files("motet.demo") / "building.ttl"))


def subscriptions_path() -> Path:
    """Single-event subscriptions."""
    return Path(str(files("motet.demo") / "building.motet"))


def composite_path() -> Path:
    """Composite subscriptions."""
    return Path(str(files("motet.demo") / "combined.motet"))


def order_paths() -> tuple[Path, Path]:
    """Subscriptions to orders, in EXML-QL and in the language of Motet."""
    return Path(str(files("motet.demo") / "orders.exmlql")), Path(str(files("motet.demo") / "orders.motet"))


def mapping_path() -> Path:
    """The mapping of the deliveries that are derived from orders."""
    return Path(str(files("motet.demo") / "orders.yaml"))


def write_events(directory: Path, *, events: int = 6000, seed: int = 1, files: int = 8) -> list[Path]:
    """Write the day as several N-Quads files, one for each slot of the day, and return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    texts: list[list[str]] = [[] for _ in range(files)]
    for end, text in _timed_day(events, seed):
        texts[slot_of(end, files)].append(text)
    paths = [directory / f"{slot:02}-building.nq" for slot in range(files)]
    for path, slot_texts in zip(paths, texts, strict=True):
        path.write_text("".join(slot_texts), encoding="utf-8")
    return paths


def slot_of(end: int, slots: int) -> int:
    """The slot of an event, of a number of equal ones in the day; the last one also has what ends after midnight."""
    return min((end - MIDNIGHT) * slots // UNITS["d"], slots - 1)


def day(*, events: int = 6000, seed: int = 1) -> Iterator[str]:
    """The N-Quads text of each event, ordered by end; about `events` of them.

    >>> first = next(day(events=100, seed=7))
    >>> "http://example.org/building/event/000001" in first
    True
    """
    return (text for _, text in _timed_day(events, seed))


def _timed_day(events: int, seed: int) -> Iterator[tuple[int, str]]:
    """The end and the N-Quads text of each event."""
    rng = random.Random(seed)  # noqa: S311  (sample data, not a secret)
    readings = list(_readings(rng, events))
    happenings = sorted([*readings, *_doors(rng, events // 20), *_incidents()], key=lambda h: (h.end, h.start, h.kind))
    for index, happening in enumerate(happenings, 1):
        yield happening.end, _nquads(f"{EVENT}{index:06}", happening)


def _readings(rng: random.Random, events: int) -> Iterator[Happening]:
    """The readings of all sensors, at a regular interval with jitter."""
    sensors = [(room, kind) for room in ROOMS for kind in ("temperature", "air", "motion")]
    per_sensor = max(1, events // len(sensors))
    interval = UNITS["d"] // per_sensor
    for room, kind in sensors:
        for step in range(per_sensor):
            at = MIDNIGHT + step * interval + rng.randrange(interval)
            hour = (at - MIDNIGHT) / UNITS["h"]
            yield _reading(rng, room, kind, at, hour)


def _reading(rng: random.Random, room: str, kind: str, at: int, hour: float) -> Happening:
    sensor = ("sensor", iri(f"http://example.org/building/sensor/{room}-{kind}"))
    if kind == "temperature":
        value = ("celsius", _decimal(_celsius(rng, room, hour)))
        return Happening(at, at, "TemperatureReading", room, (sensor, value))
    if kind == "air":
        ppm = 420 + 900 * _occupancy(room, hour) + rng.gauss(0, 40)
        return Happening(at, at, "AirQualityReading", room, (sensor, ("ppm", _integer(max(400, round(ppm))))))
    people = sum(rng.random() < _occupancy(room, hour) for _ in range(8))
    return Happening(at, at, "MotionReading", room, (sensor, ("people", _integer(people))))


def _celsius(rng: random.Random, room: str, hour: float) -> float:
    if room in COOLED:
        failure = 8 * math.exp(-((hour - 14.6) ** 2) / 0.08) if room == "0-server" else 0
        fire = 15 * math.exp(-((hour - 16.6) ** 2) / 0.01) if room == "2-lab" else 0
        return 20 + failure + fire + rng.gauss(0, 0.3)
    return 19.5 + 2.5 * math.sin((hour - 9) / 24 * 2 * math.pi) + 1.5 * _occupancy(room, hour) + rng.gauss(0, 0.3)


def _occupancy(room: str, hour: float) -> float:
    """The occupancy of a room, from 0 to about 1.2."""
    if room in MEETING_ROOMS:
        return 1.1 if int(hour) in (10, 11, 14, 15) else 0.05
    if room == "0-kitchen":
        return 1.2 * math.exp(-((hour - 12.4) ** 2) / 0.3)
    if room in COOLED:
        return 0.05
    return max(0.0, math.sin((hour - 8) / 10 * math.pi)) if 8 <= hour <= 18 else 0.0


def _doors(rng: random.Random, count: int) -> Iterator[Happening]:
    """Doors that stay open for some seconds: these events are intervals."""
    for _ in range(count):
        hour = min(max(rng.gauss(12.5, 3), 0), 23.9)
        start = MIDNIGHT + int(hour * UNITS["h"])
        badge = ("badge", iri(f"http://example.org/building/badge/{rng.randrange(1, 41):03}"))
        yield Happening(start, start + rng.randrange(2, 40) * UNITS["s"], "DoorOpened", rng.choice(ROOMS), (badge,))


def _incidents() -> Iterator[Happening]:
    yield _at("10:56:30", "OpticalSmokeAlarm", "1-north", level=2)
    yield _at("10:58:10", "HeatAlarm", "1-north", level=1)
    yield _at("11:00:00", "FireDrill", None, lasts=6 * UNITS["min"])
    yield _at("11:03:10", "IonisationSmokeAlarm", "1-north", level=2)
    yield _at("12:41:30", "OpticalSmokeAlarm", "0-kitchen", level=2)
    yield _at("14:36:00", "HeatAlarm", "0-server", level=1)
    yield _at("16:34:05", "OpticalSmokeAlarm", "2-lab", level=4)
    yield _at("16:36:40", "HeatAlarm", "2-lab", level=5)
    yield _at("16:37:02", "IonisationSmokeAlarm", "2-south", level=4)
    yield _at("23:12:48", "DoorForced", "0-lobby", lasts=3 * UNITS["s"])


def _at(clock: str, kind: str, room: str | None, *, level: int | None = None, lasts: int = 0) -> Happening:
    start = parse_datetime(f"2026-11-16T{clock}Z")
    return Happening(start, start + lasts, kind, room, () if level is None else (("level", _integer(level)),))


def _nquads(event: str, happening: Happening) -> str:
    return "".join(f"{iri(event)} {predicate} {value} {iri(event)} .\n" for predicate, value in _statements(happening))


def _statements(happening: Happening) -> Iterable[tuple[str, str]]:
    yield RDF_TYPE, iri(BLD + happening.kind)
    if happening.room:
        yield iri(BLD + "room"), iri(ROOM + happening.room)
    for name, value in happening.properties:
        yield iri(BLD + name), value
    if happening.start == happening.end:
        yield RESULT_TIME, _instant(happening.start)
    else:
        yield STARTED, _instant(happening.start)
        yield ENDED, _instant(happening.end)


def _instant(micros: int) -> str:
    return literal(format_datetime(micros), datatype=XSD + "dateTime")


def _decimal(value: float) -> str:
    return literal(f"{value:.1f}", datatype=XSD + "decimal")


def _integer(value: int) -> str:
    return literal(str(value), datatype=XSD + "integer")


def write_orders(directory: Path, *, seed: int = 1, files: int = 8) -> None:
    """Write each order and payment as an XML file whose name begins with its slot of the day."""
    directory.mkdir(parents=True, exist_ok=True)
    for time, name, text in orders(seed=seed):
        (directory / f"{slot_of(time, files):02}-{name}.xml").write_text(text, encoding="utf-8")


def orders(*, seed: int = 1) -> Iterator[tuple[int, str, str]]:
    """The time, name and text of each order of coffee and each payment.

    >>> [(name, text[:6]) for _, name, text in orders()][:2]
    [('order-101', '<order'), ('payment-101', '<payme')]
    """
    rng = random.Random(f"orders {seed}")  # noqa: S311  (sample data, not a secret)
    for number in range(101, 101 + ORDERS):
        time = MIDNIGHT + int(rng.uniform(8.5, 17) * UNITS["h"])
        item, quantity = rng.choice(list(PRICES)), rng.randint(2, 8)
        room = rng.choice((*MEETING_ROOMS * 2, *OFFICES))
        content = f'<number>{number}</number><room>{room}</room><item quantity="{quantity}">{item}</item>'
        yield time, f"order-{number}", _order_document("order", number, time, content)
        if rng.random() >= UNPAID_SHARE:
            paid = time + rng.randint(2, 90) * UNITS["min"]
            amount = f"{PRICES[item] * quantity / 100:.2f}"
            text = _order_document("payment", number, paid, f"<order>{number}</order><amount>{amount}</amount>")
            yield paid, f"payment-{number}", text


def _order_document(name: str, number: int, time: int, content: str) -> str:
    attributes = f'm:id="http://example.org/building/{name}/{number}" m:start="{format_datetime(time)}"'
    return f'<{name} xmlns:m="{MOTET_NAMESPACE}" {attributes}>{content}</{name}>\n'
