"""What a host does for a live lake: ticks when nothing happens (language page, section 14), and zones."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.builders import TEN, ManualClock, reading

from motet.codec.decode import decode_bytes
from motet.jobs.upkeep import Heartbeat, Waiting, ZoneBuilding
from motet.lake import UNLIMITED, Lake
from motet.model.batches import EventRow, event_batch
from motet.model.errors import LakeError
from motet.model.records import Tick
from motet.model.settings import SettingValues
from motet.model.times import format_datetime

SECOND = 1_000_000
LATENESS = 5 * SECOND


class Case:
    """A lake with an event at ten, published at ten, and a heartbeat that has seen it."""

    def __init__(self, folder: Path, settings: SettingValues, *, delay: int = 0, spark: bool = False) -> None:
        self.clock = ManualClock(TEN + delay)
        self.lake = Lake.open(folder, clock=self.clock, **settings)
        for decoded in decode_bytes(reading(1, 20, format_datetime(TEN)).encode(), "application/n-quads"):
            self.lake.append(decoded.events)
        self.reports: list[str] = []
        self.asked: list[int] = []
        self.heartbeat = Heartbeat(self.lake, spark=spark, report=self.reports.append)
        assert not self.beat([TEN])

    def beat(self, instants: list[int]) -> bool:
        """Whether a tick is appended while operators wait for some instants."""
        return self.heartbeat.beat(self.lake.snapshot().next_offset, self.waiting(instants))

    def waiting(self, instants: list[int]) -> Waiting:
        def greatest_until(bound: int) -> int | None:
            self.asked.append(bound)
            return max((instant for instant in instants if instant <= bound), default=None)

        return greatest_until

    def ticks(self) -> list[int]:
        records = self.lake.snapshot().control_records(Tick)
        return [record.instant for record in records if isinstance(record, Tick)]


def test_a_tick_at_the_greatest_instant_that_the_clock_has_passed(tmp_path: Path) -> None:
    """When such instants are not after clock − lateness and the frontier has not moved for heartbeat: a tick at the
    greatest of them.
    """
    case = Case(tmp_path, {})
    case.clock.now = TEN + 30 * SECOND
    instants = [TEN + 1, TEN + 2, TEN + 25 * SECOND, TEN + 25 * SECOND + 1]
    assert case.beat(instants)
    assert (case.ticks(), case.lake.snapshot().frontier) == ([TEN + 25 * SECOND], TEN + 25 * SECOND)


def test_the_frontier_must_rest(tmp_path: Path) -> None:
    """Until it has not moved for the duration no tick is appended; each movement begins a new rest."""
    case = Case(tmp_path, {"lateness": 0})
    for seconds, is_due in ((0.999_999, False), (1, True), (1.5, False), (1.999_999, False), (2, True)):
        case.clock.now = TEN + int(seconds * SECOND)
        assert case.beat([case.clock.now]) == is_due
    assert case.ticks() == [TEN + SECOND, TEN + 2 * SECOND]


def test_operators_are_not_asked_at_every_look(tmp_path: Path) -> None:
    """Twice per duration: looking costs nothing in between."""
    case = Case(tmp_path, {})
    for tenths in range(60, 80):
        case.clock.now = TEN + tenths * SECOND // 10
        assert not case.beat([])
    assert len(case.asked) == 4


def test_nothing_to_decide(tmp_path: Path) -> None:
    """No tick if nothing waits, or only for instants after clock − lateness, or not after the frontier."""
    case = Case(tmp_path, {})
    case.clock.now = TEN + 20 * SECOND
    assert not case.beat([])
    case.clock.now += SECOND
    assert not case.beat([case.clock.now - LATENESS + 1])
    case.clock.now += SECOND
    assert not case.beat([TEN - LATENESS])
    assert case.ticks() == []


def test_valid_only_directly_after_what_it_was_computed_from(tmp_path: Path) -> None:
    """A record that another process appends meanwhile invalidates the tick; records not processed yet do, too."""
    case = Case(tmp_path, {})
    case.clock.now = TEN + 20 * SECOND
    other = Lake.open(tmp_path, clock=case.clock)

    def waiting(bound: int) -> int:
        other.subscribe("s", "SUBSCRIPTION s EVENT e WHEN e")
        return TEN + 1

    assert not case.heartbeat.beat(case.lake.snapshot().next_offset, waiting)
    case.clock.now += SECOND
    assert not case.heartbeat.beat(case.lake.snapshot().next_offset - 1, case.waiting([TEN + 1]))
    assert case.ticks() == []
    assert case.beat([TEN + 1])


@pytest.mark.parametrize("settings", [{"heartbeat": None}, {"lateness": UNLIMITED}])
def test_never(tmp_path: Path, settings: SettingValues) -> None:
    """`None` for never; with `lateness` unlimited only ticks move it, and there is no heartbeat."""
    case = Case(tmp_path, settings)
    case.clock.now = TEN + 3600 * SECOND
    assert not case.beat([TEN + 1])


def test_on_spark_the_default_is_longer(tmp_path: Path) -> None:
    """A setting, default 1 s, on Spark 10 s."""
    case = Case(tmp_path, {"lateness": 0}, spark=True)
    case.clock.now = TEN + 10 * SECOND - 1
    assert not case.beat([TEN + 1])
    case.clock.now += 1
    assert case.beat([TEN + 1])


@pytest.mark.parametrize(("delay", "is_live"), [(LATENESS, True), (LATENESS + 1, False)])
def test_only_while_the_log_is_live(tmp_path: Path, delay: int, is_live: bool) -> None:
    """Each event of the newest commit ended at most `lateness` before its clock; otherwise the log says so, once."""
    case = Case(tmp_path, {}, delay=delay)
    for _ in range(3):
        case.clock.now += 20 * SECOND
        if case.beat([TEN + 1]):
            break
    assert case.ticks() == ([TEN + 1] if is_live else [])
    assert len(case.reports) == (0 if is_live else 1)
    assert is_live or "is not live: its newest events ended more than 5 s" in case.reports[0]


def test_a_clock_that_is_set_back(tmp_path: Path) -> None:
    """The rest begins again."""
    case = Case(tmp_path, {"lateness": 0})
    case.clock.now = TEN - 3600 * SECOND
    assert not case.beat([TEN - 7200 * SECOND, TEN + 1])
    case.clock.now += SECOND
    assert not case.beat([])
    assert case.asked == [TEN - 3599 * SECOND]


def publish(lake: Lake, *names: str) -> None:
    lake.append(event_batch([EventRow(f"urn:{name}", 1, 1, (("<urn:s>", "<urn:p>", "<urn:o>"),)) for name in names]))


def test_zones_are_built_when_enough_records_are_in_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again only after as many new ones."""
    monkeypatch.setattr("motet.jobs.upkeep.ZONE_RECORDS", 3)
    lake = Lake.open(tmp_path, durable=False, ahead=None, lateness=None)
    building = ZoneBuilding(lake)
    ends = []
    for names in (("a",), ("b", "c"), ("d",)):
        publish(lake, *names)
        building.start_if_due(lake.snapshot().next_offset)
        building.close()
        ends.append(lake.snapshot().zones_end)
    assert ends == [0, 4, 4]  # the first record is that of the settings


def test_a_failed_build_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process goes on: queries read the log."""
    monkeypatch.setattr("motet.jobs.upkeep.ZONE_RECORDS", 1)
    lake = Lake.open(tmp_path, durable=False, ahead=None)

    def fail(**_: object) -> None:
        raise LakeError("no space")

    monkeypatch.setattr(lake, "build_zones", fail)
    publish(lake, "a")
    building = ZoneBuilding(lake)
    with caplog.at_level(logging.ERROR, "motet"):
        building.start_if_due(2)
        building.close()
    assert [record.message for record in caplog.records] == ["zones could not be built"]
