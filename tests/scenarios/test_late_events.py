"""Everyday situations in which no event is late that the language page does not call late (section 14).

A process listens all the time, with occurrences that wait for every instant: its heartbeat makes no event late either.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest

from motet.connectors import sorted_load
from motet.connectors.directory import DirectorySource
from motet.connectors.ingestion import IngestResult, ingest_chunks, ingest_files
from motet.jobs.upkeep import Heartbeat
from motet.lake import Lake
from motet.model.errors import DecodeError
from motet.model.times import format_datetime, parse_datetime

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
TEN = parse_datetime("2026-11-15T10:00:00Z")
PROV = "http://www.w3.org/ns/prov#"
DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"


class World:
    """A lake with a clock that the test sets, and a process that listens."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = TEN
        self.lake = Lake.open(root / "lake", clock=lambda: self.now, durable=False)
        self.total = IngestResult()
        self.reports: list[str] = []
        self._heartbeat = Heartbeat(self.lake, report=self.reports.append)

    def wait(self, until: int) -> None:
        """Let the clock go on, with heartbeats."""
        while self.now < until:
            self.now = min(self.now + 20 * SECOND, until)
            self._heartbeat.beat(self.lake.snapshot().next_offset, lambda bound: bound)

    def publish(self, text: str) -> IngestResult:
        """Append events as they come, as from a pipe."""
        return self._count(ingest_chunks(self.lake, iter([text.encode()]), "application/n-quads", refuse))

    def load(self, *texts: str) -> IngestResult:
        """Append files as one load."""
        paths = [self.root / f"{index}.nq" for index in range(len(texts))]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text)
        files = [str(path) for path in paths]
        return self._count(ingest_files(self.lake, files, refuse))

    def look(self, source: DirectorySource) -> IngestResult:
        return self._count(source.ingest(0))

    def _count(self, results: Iterable[IngestResult]) -> IngestResult:
        result = sum(results, start=IngestResult())
        self.total += result
        return result


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refuse(rejected: Iterable[DecodeError]) -> None:
    for error in rejected:
        raise error


def event(name: str, start: int | None = None, end: int | None = None, *, zone: str = "Z") -> str:
    """An event as N-Quads: an interval, a point, or without a time."""
    iri = f"<urn:e:{name}>"
    times = [("startedAtTime", start), ("endedAtTime", start if end is None else end)]
    lines = [f"{iri} <urn:p> <urn:o> {iri} ."]
    for property_, instant in times if start is not None else []:
        text = format_datetime(instant or 0).removesuffix("Z") + zone
        lines.append(f'{iri} <{PROV}{property_}> "{text}"^^<{DATE_TIME}> {iri} .')
    return "".join(f"{line}\n" for line in lines)


def test_a_drill_announced_at_its_start(world: World) -> None:
    """ "So no announced … time makes other events late": one that ends in two hours does not move the frontier."""
    world.publish(event("drill", TEN, TEN + 2 * HOUR))
    for minute in range(1, 180):
        world.wait(TEN + minute * MINUTE)
        world.publish(event(f"r{minute}", world.now - SECOND))
    assert (world.total.accepted, world.total.late) == (180, 0)
    assert world.lake.snapshot().count("tick") > 100, "it is live"


@pytest.mark.parametrize(("hours", "late"), [(9, 0), (2, 0), (-5, 1), (-12, 1)])
def test_one_local_time_without_a_zone(world: World, hours: int, late: int) -> None:
    """ "No zone means UTC": a sensor whose time is hours ahead makes no other late; one hours behind is late itself."""
    for minute in range(60):
        world.wait(TEN + minute * MINUTE)
        if minute == 10:
            assert world.publish(event("local", world.now + hours * HOUR, zone="")).late == late
        world.publish(event(f"r{minute}", world.now - SECOND))
    assert (world.total.accepted, world.total.late) == (61, late)


def test_hourly_files_in_a_watched_directory(world: World) -> None:
    """Files of several sensors, unsorted and with a day of history at first: what one look finds is one load."""
    inbox = world.root / "inbox"
    inbox.mkdir()
    source = DirectorySource(inbox, world.lake, refuse, stable_seconds=0)
    random = Random(14)
    for hour in (*range(24), 24, 25, 26):
        for sensor in range(3):
            begin = TEN + (hour - 24) * HOUR
            instants = [begin + random.randrange(HOUR) for _ in range(20)]
            path = inbox / f"{hour}-{sensor}.nq"
            path.write_text("".join(event(f"{hour}-{sensor}-{n}", instant) for n, instant in enumerate(instants)))
            os.utime(path, (random.randrange(100), random.randrange(100)))
        if hour >= 23:
            world.wait(begin + HOUR + MINUTE)
            assert world.look(source).late == 0
    assert (world.total.inputs, world.total.accepted, world.total.late) == (81, 1620, 0)


def test_a_source_with_a_constant_delay_of_five_minutes(world: World) -> None:
    """Five minutes are more than the lateness, but the events come in their order."""
    for minute in range(120):
        world.wait(TEN + minute * MINUTE + 5 * MINUTE)
        world.publish(event(f"r{minute}", TEN + minute * MINUTE))
    assert (world.total.accepted, world.total.late) == (120, 0)
    assert not world.lake.snapshot().is_live, "a heartbeat would make the next event late"
    assert "is not live" in world.reports[0]


@pytest.mark.parametrize("commit", [524_288, 100])
def test_thirty_days_of_history_with_one_untimed_event(
    world: World, commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "stamped ones last": the stamp of one event makes neither its load nor the next one late, nor the log live."""
    monkeypatch.setattr(sorted_load, "COMMIT_EVENTS", commit)
    monkeypatch.setattr(sorted_load, "BLOCKS_PER_COMMIT", 100)
    random = Random(30)
    world.now = TEN + 30 * DAY
    texts = [event(f"r{n}", TEN + n * HOUR) for n in range(30 * 24)]
    first, second = [*texts[:400], event("untimed")], texts[400:]
    for half in (first, second):
        random.shuffle(half)
        world.load(*("".join(half[index::10]) for index in range(10)))
        world.wait(world.now + MINUTE)
    assert (world.total.accepted, world.total.stamped, world.total.late) == (721, 1, 0)
