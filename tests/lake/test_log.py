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

from motet.lake import UNLIMITED, Lake, Receipt
from motet.model.errors import CorruptLakeError, LakeError, UsageError
from motet.model.records import Subscribe
from motet.model.times import END_OF_TIME, START_OF_TIME

Events = Callable[..., pa.Table]


def _micros(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(lake.snapshot().records())
    times = {name: table[name].cast(pa.int64()).to_pylist() for name in ("start", "end", "frontier")}
    return list(zip(*(times.get(name) or table[name].to_pylist() for name in columns), strict=True))


def test_append_reports_what_happened(tmp_path: Path, events: Events) -> None:
    """The receipt counts accepted events, duplicates and late events."""
    lake = Lake.open(tmp_path, lateness=10)
    lake.append(events([("urn:a", 100, 100)]), now=0)
    answer = lake.append(events([("urn:b", 0, 89), "urn:a", ("urn:c", 90, 90), "urn:b"]), now=0)
    assert answer == Receipt(1, 2, accepted=2, duplicates=2, late=1, duplicate_ids=("urn:a", "urn:b"))
    assert lake.append(events(["urn:a"]), now=0) == Receipt(None, None, 0, 1, 0, ("urn:a",))
    assert lake.append(events([]), now=0) == Receipt(None, None, 0, 0, 0)


def test_first_content_wins(tmp_path: Path, events: Events) -> None:
    """Publishing an IRI again changes nothing, also inside one batch."""
    lake = Lake.open(tmp_path)
    lake.append(events([("urn:a", 1, 1), ("urn:a", 2, 2)]), now=0)
    lake.append(events([("urn:a", 3, 3)]), now=0)
    assert _micros(lake, "id", "start", "end") == [("urn:a", 1, 1)]


def test_events_without_time_are_stamped(tmp_path: Path, events: Events) -> None:
    """An event that states no time has the time of its arrival."""
    lake = Lake.open(tmp_path)
    lake.append(events([("urn:a", None, None), ("urn:b", 5, 6)]), now=42)
    assert _micros(lake, "start", "end") == [(42, 42), (5, 6)]


def test_frontier_within_one_batch(tmp_path: Path, events: Events) -> None:
    """The frontier before a record includes earlier records of its batch; it never moves back."""
    lake = Lake.open(tmp_path, lateness=10)
    lake.append(
        events([("urn:a", 0, 50), ("urn:b", 0, 39), ("urn:c", 0, 40), ("urn:d", 0, 60), ("urn:e", 55, 55)]), now=0
    )
    lake.tick(45)
    lake.tick(70)
    lake.append(events([("urn:f", 69, 69)]), now=0)
    frontiers = [None, 40, 40, 40, 50, 50, 50, 70]
    late = [False, True, False, False, False, False, False, True]
    assert _micros(lake, "frontier", "late") == list(zip(frontiers, late, strict=True))


def test_with_unlimited_lateness_only_ticks_move_the_frontier(tmp_path: Path, events: Events) -> None:
    """Events do not move the frontier if the lateness is unlimited."""
    lake = Lake.open(tmp_path, lateness=UNLIMITED)
    lake.append(events([("urn:a", 9, 9), ("urn:b", 1, 1)]), now=0)
    lake.tick(END_OF_TIME)
    assert (_micros(lake, "frontier", "late"), lake.snapshot().frontier) == ([(None, False)] * 3, END_OF_TIME)


def test_frontier_stays_inside_the_calendar(tmp_path: Path, events: Events) -> None:
    """An event at the beginning of time does not put the frontier before it."""
    lake = Lake.open(tmp_path)
    lake.append(events([("urn:a", START_OF_TIME, START_OF_TIME), ("urn:b", START_OF_TIME, START_OF_TIME)]), now=0)
    assert _micros(lake, "frontier", "late") == [(None, False), (START_OF_TIME, False)]


def test_control_records(tmp_path: Path, events: Events) -> None:
    """Every command appends one control record, a background change one for removal and one for addition."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]), now=0)
    triple = ("<urn:s>", "<urn:p>", '"o"')
    offsets = [
        lake.subscribe("s", "text"),
        lake.background(added=[triple], removed=[triple]),
        lake.retract("urn:a"),
        lake.unsubscribe("s"),
        lake.tick(7),
    ]
    assert offsets == [1, 2, 4, 5, 6]
    stored = [dict(zip(("subject", "predicate", "object"), triple, strict=True))]
    assert _micros(lake, "kind", "id", "text", "end", "triples")[1:] == [
        ("subscribe", "s", "text", None, []),
        ("background", None, "remove", None, stored),
        ("background", None, "add", None, stored),
        ("retract", "urn:a", None, None, []),
        ("unsubscribe", "s", None, None, []),
        ("tick", None, None, 7, []),
    ]
    controls = pa.Table.from_batches(lake.snapshot().controls())
    assert controls["offset"].to_pylist() == [1, 2, 3, 4, 5, 6]


def test_a_retracted_event_is_still_a_duplicate(tmp_path: Path, events: Events) -> None:
    """After a retraction the IRI is still a duplicate; an unknown IRI cannot be retracted."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]), now=0)
    lake.retract("urn:a")
    assert lake.append(events(["urn:a"]), now=0).duplicates == 1
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
    assert lake.snapshot().subscriptions() == {"c": Subscribe("c", "text of c", 2), "a": Subscribe("a", "new text", 4)}


@pytest.mark.parametrize("times", [(5, 4), (None, 4), (4, None), (START_OF_TIME - 1, 0), (0, END_OF_TIME + 1)])
def test_events_need_an_interval(tmp_path: Path, events: Events, times: tuple[int | None, int | None]) -> None:
    """An event whose time is no interval is refused by name, and nothing of its batch is appended."""
    lake = Lake.open(tmp_path)
    with pytest.raises(UsageError, match="event <urn:bad>"):
        lake.append(events(["urn:good", ("urn:bad", *times)]), now=0)
    assert lake.snapshot().next_offset == 0


def test_wrong_requests(tmp_path: Path) -> None:
    """A batch that holds no events, a tick out of range and an empty change are refused."""
    lake = Lake.open(tmp_path)
    with pytest.raises(UsageError, match="these are not events"):
        lake.append(pa.table({"id": ["urn:a"]}), now=0)
    with pytest.raises(UsageError, match="outside the years 1 to 9999"):
        lake.tick(END_OF_TIME + 1)
    with pytest.raises(UsageError, match="without a triple"):
        lake.background()


def test_lateness_is_fixed(tmp_path: Path) -> None:
    """A lake has the lateness it was created with; opening it with another one is an error."""
    assert Lake.open(tmp_path / "a").lateness == 60_000_000
    assert Lake.open(tmp_path / "b", lateness=UNLIMITED).lateness is None
    assert Lake.open(tmp_path / "b").lateness is None
    with pytest.raises(UsageError, match="lateness of 1 min, not no limit"):
        Lake.open(tmp_path / "a", lateness=UNLIMITED)
    with pytest.raises(UsageError, match="-1 is no lateness"):
        Lake.open(tmp_path / "c", lateness=-1)


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
    """A newer format and a damaged settings file are different errors."""
    settings = tmp_path / "lake.json"
    settings.write_text(json.dumps({"format": 2, "lateness": None}))
    with pytest.raises(LakeError, match="Install a newer Motet"):
        Lake.open(tmp_path)
    settings.write_text("{")
    with pytest.raises(CorruptLakeError, match="is damaged"):
        Lake.open(tmp_path)


def test_failed_append_does_nothing(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed write the lake is unchanged, and the same append succeeds later."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]), now=0)
    before = lake.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _refuse)
        with pytest.raises(LakeError, match="cannot write"):
            lake.append(events(["urn:b"]), now=0)
    assert Lake.open(tmp_path).snapshot() == before
    assert lake.append(events(["urn:b"]), now=0).first == 1
    assert lake.check() == []


def _refuse(handle: int) -> None:
    raise OSError(5, "Input/output error")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_directory(tmp_path: Path, events: Events) -> None:
    """A lake in a read-only directory can be read; writing is an error with advice."""
    Lake.open(tmp_path).append(events(["urn:a"]), now=0)
    folders = [tmp_path, *(path for path in tmp_path.iterdir() if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    try:
        lake = Lake.open(tmp_path)
        assert _micros(lake, "id") == [("urn:a",)]
        with pytest.raises(LakeError, match="Check who owns"):
            lake.append(events(["urn:b"]), now=0)
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_two_lake_objects_share_the_log(tmp_path: Path, events: Events) -> None:
    """An event that one writer has committed is a duplicate for the other."""
    one, two = Lake.open(tmp_path), Lake.open(tmp_path)
    one.append(events(["urn:a"]), now=0)
    assert two.append(events(["urn:a", "urn:b"]), now=0) == Receipt(1, 1, 1, 1, 0, ("urn:a",))
    assert one.append(events(["urn:b", "urn:c"]), now=0) == Receipt(2, 2, 1, 1, 0, ("urn:b",))


def test_threads_may_share_a_lake(tmp_path: Path, events: Events) -> None:
    """Threads that append the same ids at once neither lose nor repeat an event."""
    lake = Lake.open(tmp_path)
    batches = [events([f"urn:{n % 7}:{m}" for m in range(3)]) for n in range(28)]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda batch: lake.append(batch, now=0), batches))
    assert sum(answer.accepted for answer in answers) == 21
    assert sorted(_micros(lake, "id")) == sorted({(f"urn:{n}:{m}",) for n in range(7) for m in range(3)})
    assert lake.check() == []


@pytest.mark.usefixtures("in_files")
def test_statistics(tmp_path: Path, events: Events) -> None:
    """The statistics count what the log holds."""
    lake = Lake.open(tmp_path, lateness=0)
    assert lake.statistics()["last_offset"] is None
    lake.append(events([("urn:a", 3, 9), ("urn:b", 1, 2)]), now=0)
    lake.subscribe("s", "text")
    found = lake.statistics()
    assert found.pop("bytes") == sum(path.stat().st_size for path in lake.snapshot().segment_paths())
    assert found == {
        "lateness": 0,
        "version": 2,
        "records": 3,
        "kinds": {"event": 2, "subscribe": 1},
        "events": 2,
        "late": 1,
        "segments": 2,
        "first_offset": 0,
        "last_offset": 2,
        "frontier": 9,
        "start": 1,
        "end": 9,
        "subscriptions": ["s"],
        "notifications": 0,
        "notification_files": 0,
        "notified_to": 0,
    }
