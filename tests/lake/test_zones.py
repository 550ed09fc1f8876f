"""Zone files: what they hold, how they are divided, merged, pruned and deleted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.cli.main import main
from motet.lake import Lake, Snapshot
from motet.lake.zone_rows import log_rows, quad_rows, without_earlier
from motet.lake.zones import BOUND_LENGTH, divide, event_files, may_hold, quad_zones, read_zone
from motet.model.batches import EventRow, event_batch

Row = tuple[int, str, str, str]


class StepClock:
    now = 1_000_000

    def __call__(self) -> int:
        self.now += 1
        return self.now


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake", durable=False, clock=StepClock(), ahead=None)


def fill(lake: Lake, first: int, count: int) -> None:
    """Events with a triple of their own, and one that many others have."""
    rows = [
        EventRow(
            f"urn:e:{number:04}",
            number,
            number,
            (
                (f"<urn:e:{number:04}>", "<urn:level>", f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>'),
                (f"<urn:sensor:{number % 5}>", "<urn:in>", f"<urn:room:{number % 3}>"),
            ),
        )
        for number in range(first, first + count)
    ]
    lake.append(event_batch(rows))


def stored(snapshot: Snapshot) -> list[tuple[object, ...]]:
    """The rows of all zones, with ``first``."""
    tables = [read_zone(snapshot.store, zone) for zone in quad_zones(snapshot)]
    return sorted(tuple(row.values()) for table in tables for row in table.to_pylist())


def logged(snapshot: Snapshot, stop: int | None = None) -> list[tuple[object, ...]]:
    """The rows that the log gives at once."""
    rows = log_rows(snapshot, 0, snapshot.zones_end if stop is None else stop).quads
    return sorted(tuple(row.values()) for row in rows.to_pylist())


def test_zones_hold_the_triples_of_the_log(lake: Lake) -> None:
    """In many small steps the rows are those of one step, first flags included; the log is as before."""
    for step in range(6):
        fill(lake, 37 * step, 37)
        lake.build_zones(least=8)
        snapshot = lake.snapshot()
        assert snapshot.zones_end == snapshot.next_offset
        assert stored(snapshot) == logged(snapshot)
    assert lake.check() == []
    events = [read_zone(lake.store, file).num_rows for file in event_files(lake.snapshot())]
    assert sum(events) == 6 * 37


def test_each_zone_has_its_least_number_of_rows_and_runs_are_few(lake: Lake) -> None:
    for step in range(20):
        fill(lake, 20 * step, 20)
        lake.build_zones(least=8, most=20)
    snapshot = lake.snapshot()
    zones = quad_zones(snapshot)
    assert all(zone.rows >= 8 for zone in zones)
    assert len(zones) > 20
    assert len(event_files(snapshot)) <= 6


def test_too_few_new_rows_stay_outside_zones(lake: Lake) -> None:
    fill(lake, 0, 20)
    assert lake.build_zones(least=16).rows == 40
    end = lake.snapshot().zones_end
    fill(lake, 20, 5)
    assert lake.build_zones(least=16).rows == 0
    assert lake.snapshot().zones_end == end
    assert lake.build_zones(least=10).rows > 0


def test_zones_are_those_of_another_process_and_of_a_checkpoint(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.lake.manifest.CHECKPOINT_EVERY", 1)
    fill(lake, 0, 20)
    lake.build_zones(least=4, most=8)
    other = Lake.open(tmp_path / "lake", create=False, durable=False).snapshot()
    assert other == lake.snapshot()
    assert len(other.zones) > 2


def test_a_vacuum_deletes_replaced_and_orphaned_zones(lake: Lake) -> None:
    fill(lake, 0, 20)
    lake.build_zones(least=4)
    before = {file.name for file in lake.snapshot().zones}
    fill(lake, 20, 40)
    lake.build_zones(least=4)
    orphan = "zones/00000000000000000000-000000000001-deadbeef.parquet"
    lake.store.put(orphan, b"")
    lake.clock.now += 10_000_000_000_000_000  # type: ignore[attr-defined]
    deleted = set(lake.vacuum(older_than=0))
    assert before | {orphan} <= deleted
    assert set(lake.store.names("zones")) == {file.name for file in lake.snapshot().zones}


def test_dropped_zones_are_rebuilt(lake: Lake) -> None:
    fill(lake, 0, 20)
    lake.build_zones(least=4)
    rows = stored(lake.snapshot())
    assert lake.drop_zones() > 0
    assert lake.snapshot().zones_end == 0
    assert lake.drop_zones() == 0
    lake.build_zones(least=4)
    assert stored(lake.snapshot()) == rows


def test_bounds_are_cut_and_never_exclude_a_row(lake: Lake) -> None:
    long = "<urn:" + "x" * 200
    rows = [EventRow(f"urn:e:{n}", n, n, ((f"{long}{n}>", "<urn:p>", f'"{"y" * 5000}{n}"'),)) for n in range(50)]
    lake.append(event_batch(rows))
    lake.build_zones(least=4, most=8)
    zones = quad_zones(lake.snapshot())
    for zone in zones:
        assert len(zone.zone["bounds"]["s"][0]) == BOUND_LENGTH  # type: ignore[index]
        for row in read_zone(lake.store, zone).to_pylist():
            assert all(may_hold(zone, name, row[name], row[name]) for name in ("off", "s", "p", "o"))
    assert not may_hold(zones[0], "s", "<urn:a>", "<urn:a>")
    assert not may_hold(zones[0], "onum", 1, 2)


def test_a_commit_of_others_during_a_build_is_no_conflict(lake: Lake, tmp_path: Path) -> None:
    fill(lake, 0, 20)
    other = Lake.open(tmp_path / "lake", create=False, durable=False, clock=StepClock())

    def meanwhile(_: int) -> None:
        fill(other, 100, 1)

    lake.build_zones(least=4, on_rows=meanwhile)
    snapshot = lake.snapshot()
    assert snapshot.zones_end < snapshot.next_offset
    assert stored(snapshot) == logged(snapshot)


def test_two_builds_at_once_are_one(lake: Lake, tmp_path: Path) -> None:
    fill(lake, 0, 20)
    other = Lake.open(tmp_path / "lake", create=False, durable=False, clock=StepClock())

    def meanwhile(_: int) -> None:
        other.build_zones(least=4)

    lake.build_zones(least=4, on_rows=meanwhile)
    snapshot = lake.snapshot()
    assert stored(snapshot) == logged(snapshot)
    assert set(lake.store.names("zones")) == {file.name for file in snapshot.zones}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=60), st.integers(1, 5), st.integers(1, 20))
def test_every_row_is_in_one_zone(rows: list[tuple[int, int]], least: int, most: int) -> None:
    columns = [np.array(column, np.int64) for column in zip(*rows, strict=True)] or [np.empty(0, np.int64)] * 2
    zones = divide(columns, least, most)
    assert sorted(row for zone in zones for row in zone.tolist()) == list(range(len(rows)))
    assert len(zones) == 1 or all(len(zone) >= least for zone in zones)


@given(st.lists(st.lists(st.tuples(*[st.sampled_from(["<urn:a>", "<urn:b>"])] * 3), max_size=6), max_size=6))
def test_first_is_the_lowest_offset_of_a_triple(steps: list[list[tuple[str, str, str]]]) -> None:
    """However the rows are divided into steps."""
    tables: list[pa.Table] = []
    seen: set[tuple[str, str, str]] = set()
    offset = 0
    for step in steps:
        expected, columns = [], [[], [], [], []]  # type: ignore[var-annotated]
        for triple in step:
            expected.append(triple not in seen)
            seen.add(triple)
            for column, value in zip(columns, (offset, *triple), strict=True):
                column.append(value)
            offset += 1
        arrays = [pa.array(columns[0], pa.int64()), *(pa.array(column, pa.string()) for column in columns[1:])]
        table = without_earlier(quad_rows(pa.table(arrays, names=["off", "s", "p", "o"])), tables)
        assert table["first"].to_pylist() == expected
        tables.append(table)


def test_the_rows_of_a_run_are_sorted_by_predicate_object_and_subject(
    lake: Lake, events: Callable[..., pa.Table]
) -> None:
    lake.append(events([f"urn:e:{n}" for n in range(30)], 3))
    lake.build_zones(least=4)
    for zone in quad_zones(lake.snapshot()):
        rows = [(row["p"], row["o"], row["s"]) for row in read_zone(lake.store, zone).to_pylist()]
        assert rows == sorted(rows)


def test_damaged_zones_are_found_and_rebuilt(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    fill(lake, 0, 20)
    lake.build_zones(least=4, most=8)
    rows = stored(lake.snapshot())
    damaged, replaced = (zone.name for zone in quad_zones(lake.snapshot())[:2])
    lake.store.put(damaged, b"nothing")
    lake.store.put(replaced, (lake.store.find(quad_zones(lake.snapshot())[2].name) or b""))
    assert any(damaged in problem for problem in lake.check())
    assert main(["compact", "--lake", str(lake.store.root), "--rebuild-zones", "--json"]) == 0
    assert lake.check() == []
    assert stored(lake.snapshot()) == rows
    assert '"zones": 1' in capsys.readouterr().out


def test_runs_that_a_live_cloud_left_are_merged(lake: Lake) -> None:
    """A build that may have few rows in memory leaves many runs; a later one merges them, without new events."""
    for step in range(8):
        fill(lake, 20 * step, 20)
        lake.build_zones(least=8, most=20, most_merged=40)
    assert len(event_files(lake.snapshot())) == 8
    rows = stored(lake.snapshot())
    assert lake.build_zones(least=8, most=20).rows > 0
    assert len(event_files(lake.snapshot())) == 1
    assert stored(lake.snapshot()) == rows
    assert lake.build_zones(least=8).rows == 0
    assert lake.check() == []
