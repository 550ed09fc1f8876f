"""Appending to a lake, opening one, and its statistics."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders import ManualClock

from motet.lake import UNLIMITED, Lake, Receipt
from motet.model.errors import CorruptLakeError, LakeError, UsageError
from motet.model.records import Subscribe
from motet.model.settings import TIME_PROPERTIES
from motet.model.times import END_OF_TIME, START_OF_TIME

Events = Callable[..., pa.Table]


def _micros(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(lake.snapshot().records())
    times = {name: table[name].cast(pa.int64()).to_pylist() for name in ("start", "end", "frontier")}
    return list(zip(*(times.get(name) or table[name].to_pylist() for name in columns), strict=True))


def test_append_reports_what_happened(tmp_path: Path, events: Events) -> None:
    """The receipt names the IRIs and counts accepted, repeated, stamped and late events."""
    lake = Lake.open(tmp_path, lateness=10)
    lake.append(events([("urn:a", 100, 100)]))
    ids = ["urn:b", "urn:a", "urn:c", "urn:b", "urn:d"]
    times = [(0, 89), (0, 0), (90, 90), (0, 89), (None, None)]
    answer = lake.append(events([(id_, *time) for id_, time in zip(ids, times, strict=True)]))
    assert answer == Receipt(ids, accepted=3, repeated=2, stamped=1, late=1, rejected=(), first=2, last=4)
    assert lake.append(events(["urn:a"])) == Receipt(["urn:a"], 0, 1, 0, 0, (), None, None)
    assert lake.append(events([])) == Receipt([], 0, 0, 0, 0, (), None, None)


def test_frontier_moves_between_commits(tmp_path: Path, events: Events) -> None:
    """ "The frontier never falls, and moves only between commits"; events of one commit never make each other late."""
    lake = Lake.open(tmp_path, lateness=10)
    lake.append(events([("urn:a", 0, 50), ("urn:b", 0, 39), ("urn:c", 0, 60)]))
    lake.tick(45)
    lake.tick(70)
    lake.append(events([("urn:f", 69, 69), ("urn:g", 70, 70)]))
    frontiers = [None, None, None, None, 50, 50, 70, 70]
    late = [False, False, False, False, False, False, True, False]
    assert _micros(lake, "frontier", "late") == list(zip(frontiers, late, strict=True))
    assert lake.snapshot().frontier == 70


def test_with_unlimited_lateness_only_ticks_move_the_frontier(tmp_path: Path, events: Events) -> None:
    """Events do not move the frontier if the lateness is unlimited."""
    lake = Lake.open(tmp_path, lateness=UNLIMITED)
    lake.append(events([("urn:a", 9, 9), ("urn:b", 1, 1)]))
    lake.tick(END_OF_TIME, force=True)
    assert (_micros(lake, "frontier", "late"), lake.snapshot().frontier) == ([(None, False)] * 4, END_OF_TIME)


def test_frontier_stays_inside_the_calendar(tmp_path: Path, events: Events) -> None:
    """An event at the beginning of time does not put the frontier before it."""
    lake = Lake.open(tmp_path)
    lake.append(events([("urn:a", START_OF_TIME, START_OF_TIME)]))
    lake.append(events([("urn:b", START_OF_TIME, START_OF_TIME)]))
    assert _micros(lake, "frontier", "late")[1:] == [(None, False), (START_OF_TIME, False)]


def test_control_records(tmp_path: Path, events: Events) -> None:
    """Every command appends one control record, a background change one for removal and one for addition."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    triple = ("<urn:s>", "<urn:p>", '"o"')
    offsets = [
        lake.subscribe("s", "text"),
        lake.background(added=[triple], removed=[triple]),
        lake.retract("urn:a"),
        lake.unsubscribe("s"),
        lake.tick(7),
    ]
    assert offsets == [2, 3, 5, 6, 7]
    stored = [dict(zip(("subject", "predicate", "object"), triple, strict=True))]
    assert _micros(lake, "kind", "id", "text", "end", "triples")[2:] == [
        ("subscribe", "s", "text", None, []),
        ("background", None, "remove", None, stored),
        ("background", None, "add", None, stored),
        ("retract", "urn:a", None, None, []),
        ("unsubscribe", "s", None, None, []),
        ("tick", None, None, 7, []),
    ]
    controls = pa.Table.from_batches(lake.snapshot().controls())
    assert controls["offset"].to_pylist() == [0, 2, 3, 4, 5, 6, 7]


def test_a_retracted_event_is_still_repeated(tmp_path: Path, events: Events) -> None:
    """After a retraction the log still holds the IRI; an unknown IRI cannot be retracted."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    lake.retract("urn:a")
    assert lake.append(events(["urn:a"])).repeated == 1
    with pytest.raises(UsageError, match="no event <urn:b>"):
        lake.retract("urn:b")


def test_active_subscriptions(tmp_path: Path) -> None:
    """A snapshot has the active subscriptions, with offset and text."""
    lake = Lake.open(tmp_path)
    for name in ("a", "b", "c"):
        lake.subscribe(name, f"text of {name}")
    lake.unsubscribe("b")
    lake.subscribe("a", "new text")
    lake.compact()
    assert lake.snapshot().subscriptions() == {"c": Subscribe("c", "text of c", 3), "a": Subscribe("a", "new text", 5)}


@pytest.mark.parametrize("times", [(5, 4), (None, 4), (4, None), (START_OF_TIME - 1, 0), (0, END_OF_TIME + 1)])
def test_events_need_an_interval(tmp_path: Path, events: Events, times: tuple[int | None, int | None]) -> None:
    """An event whose time is no interval is refused by name, and nothing of its batch is appended."""
    lake = Lake.open(tmp_path)
    with pytest.raises(UsageError, match="event <urn:bad>"):
        lake.append(events(["urn:good", ("urn:bad", *times)]))
    assert lake.snapshot().next_offset == 1


def test_wrong_requests(tmp_path: Path) -> None:
    """A batch that holds no events, a tick out of range and an empty change are refused."""
    lake = Lake.open(tmp_path)
    with pytest.raises(UsageError, match="these are not events"):
        lake.append(pa.table({"id": ["urn:a"]}))
    with pytest.raises(UsageError, match="outside the years 1 to 9999"):
        lake.tick(END_OF_TIME + 1)
    with pytest.raises(UsageError, match="without a triple"):
        lake.background()


def test_what_is_not_a_lake(tmp_path: Path) -> None:
    """Opening something else is refused, with advice, and creates nothing."""
    with pytest.raises(LakeError, match="is not a lake\n  Check the path"):
        Lake.open(tmp_path / "none", create=False)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(LakeError, match=r"it holds 'letter.txt'"):
        Lake.open(tmp_path)
    with pytest.raises(LakeError, match="A lake is a directory"):
        Lake.open(tmp_path / "letter.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_settings_from_elsewhere(tmp_path: Path) -> None:
    """A newer format and a damaged file are different errors."""
    settings = tmp_path / "lake.json"
    settings.write_text(json.dumps({"format": 3}))
    with pytest.raises(LakeError, match="Install a newer Motet"):
        Lake.open(tmp_path)
    settings.write_text("{")
    with pytest.raises(CorruptLakeError, match="is damaged"):
        Lake.open(tmp_path)


def test_failed_append_does_nothing(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed write the lake is unchanged, and the same append succeeds later."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    before = lake.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _refuse)
        with pytest.raises(LakeError, match="cannot write"):
            lake.append(events(["urn:b"]))
    assert Lake.open(tmp_path).snapshot() == before
    assert lake.append(events(["urn:b"])).first == 2
    assert lake.check() == []


def _refuse(handle: int) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(tmp_path: Path, events: Events) -> None:
    """A lake in a read-only directory can be read; writing is an error with advice."""
    Lake.open(tmp_path).append(events(["urn:a"]))
    folders = [tmp_path, *(path for path in tmp_path.iterdir() if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        lake = Lake.open(tmp_path)
        assert _micros(lake, "id") == [(None,), ("urn:a",)]
        with pytest.raises(LakeError, match="Check who owns"):
            lake.append(events(["urn:b"]))
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_two_lake_objects_share_the_log(tmp_path: Path, events: Events) -> None:
    """An event that one writer has committed is repeated for the other."""
    one, two = Lake.open(tmp_path), Lake.open(tmp_path)
    one.append(events(["urn:a"]))
    assert two.append(events(["urn:a", "urn:b"])) == Receipt(["urn:a", "urn:b"], 1, 1, 0, 0, (), 2, 2)
    assert one.append(events(["urn:b", "urn:c"])) == Receipt(["urn:b", "urn:c"], 1, 1, 0, 0, (), 3, 3)


def test_threads_may_share_a_lake(tmp_path: Path, events: Events) -> None:
    """Threads that append the same ids at once neither lose nor repeat an event."""
    lake = Lake.open(tmp_path)
    batches = [events([f"urn:{n % 7}:{m}" for m in range(3)]) for n in range(28)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lake.append, batches))
    assert sum(answer.accepted for answer in answers) == 21
    assert sorted(_micros(lake, "id")[1:]) == sorted({(f"urn:{n}:{m}",) for n in range(7) for m in range(3)})
    assert lake.check() == []


@pytest.mark.usefixtures("in_files")
def test_statistics(tmp_path: Path, events: Events) -> None:
    """The statistics count what the log holds."""
    lake = Lake.open(tmp_path, lateness=0, clock=ManualClock(20))
    assert lake.statistics()["last_offset"] == 0
    lake.append(events([("urn:a", 3, 9)]))
    lake.append(events([("urn:b", 1, 2), ("urn:c", None, None)]))
    lake.subscribe("s", "text")
    found = lake.statistics()
    assert found.pop("bytes") == sum(path.stat().st_size for path in lake.snapshot().segment_paths())
    assert found == {
        "mappings": (),
        "lateness": 0,
        "ahead": 86_400_000_000,
        "heartbeat": "default",
        "time_properties": TIME_PROPERTIES,
        "entailment": None,
        "version": 4,
        "records": 5,
        "kinds": {"event": 3, "settings": 1, "subscribe": 1},
        "events": 3,
        "late": 1,
        "stamped": 1,
        "segments": 4,
        "first_offset": 0,
        "last_offset": 4,
        "frontier": 9,
        "clock": 20,
        "live": True,
        "start": 1,
        "end": 20,
        "subscriptions": ["s"],
        "notifications": 0,
        "notification_files": 0,
        "notified_to": 0,
    }
