"""Compaction, vacuum and the check of all files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import FUTURE, ManualClock

from motet.lake import CompactionResult, DataFile, Lake, Snapshot, ids
from motet.lake.maintenance import find_problems, plan
from motet.lake.manifest import commit_name
from motet.model.batches import RECORDS
from motet.model.errors import CorruptLakeError, LakeError, UsageError

Events = Callable[..., pa.Table]
CLOCK = ManualClock(FUTURE)


def _rows(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [row for batch in snapshot.records() for row in batch.to_pylist()]


def _lake(path: Path, events: Events, count: int) -> Lake:
    lake = Lake.open(path, clock=CLOCK)
    for n in range(count):
        lake.append(events([(f"urn:{n}", n, n)]))
    return lake


def test_records_stay_the_same(tmp_path: Path, events: Events) -> None:
    """After a compaction there are fewer files, and the same records in the same order."""
    lake = _lake(tmp_path, events, 5)
    lake.tick(3)
    before = _rows(lake.snapshot())
    assert lake.compact() == CompactionResult(before=7, after=1, rows=7)
    assert (_rows(lake.snapshot()), len(lake.snapshot().segments), lake.check()) == (before, 1, [])
    assert lake.compact() == CompactionResult()


def test_old_snapshots_read_on_until_the_grace_period_ends(tmp_path: Path, events: Events) -> None:
    """Replaced files are deleted after the grace period; then an old snapshot raises an error with the reason."""
    lake = _lake(tmp_path, events, 3)
    old = lake.snapshot()
    ids = [None, "urn:0", "urn:1", "urn:2"]
    lake.compact()
    CLOCK.now += 499
    assert lake.vacuum(500) == []
    assert [row["id"] for row in _rows(old)] == ids
    CLOCK.now += 1
    assert lake.vacuum(500) == [file.name for file in old.segments]
    with pytest.raises(LakeError, match="take a new snapshot"):
        _rows(old)
    assert ([row["id"] for row in _rows(lake.snapshot())], lake.snapshot().replaced) == (ids, ())


@pytest.mark.usefixtures("in_files")
def test_vacuum_removes_orphans_but_not_what_a_writer_is_about_to_commit(tmp_path: Path, events: Events) -> None:
    """A file for a commit that exists without it is an orphan; one for the next commit may still be added."""
    lake = _lake(tmp_path, events, 2)
    orphan, pending = (f"segments/{2:020}-{version:012}-cafecafe.parquet" for version in (3, 4))
    for name in (orphan, pending):
        lake.store.path(name).write_bytes(b"torn")
    assert lake.vacuum(0) == [orphan]
    assert lake.store.path(pending).exists()
    lake.tick(0)
    assert lake.vacuum(0) == [pending]


@pytest.mark.usefixtures("in_files")
def test_rival_compactions(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two compactions of the same files one is committed; the other changes nothing and leaves no file."""
    lake, rival = _lake(tmp_path, events, 4), Lake.open(tmp_path)
    commit = lake._manifest.commit

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        assert rival.compact().before == 5
        return commit(*arguments)

    monkeypatch.setattr(lake._manifest, "commit", overtaken)
    assert lake.compact() == CompactionResult()
    assert ([row["offset"] for row in _rows(lake.snapshot())], lake.check()) == ([0, 1, 2, 3, 4], [])
    assert len(lake.store.names("segments")) == 6


def test_append_during_compaction(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compaction during which records are appended is committed after them."""
    lake, writer = _lake(tmp_path, events, 3), Lake.open(tmp_path)
    commit = lake._manifest.commit

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.undo()
        writer.append(events(["urn:new"]))
        return commit(*arguments)

    monkeypatch.setattr(lake._manifest, "commit", overtaken)
    assert lake.compact().before == 4
    assert [(file.first, file.stop) for file in lake.snapshot().segments] == [(0, 4), (4, 5)]
    assert len(lake.vacuum(0)) == 4
    assert ([row["offset"] for row in _rows(lake.snapshot())], lake.check()) == ([0, 1, 2, 3, 4], [])


@pytest.mark.usefixtures("in_files")
def test_damage_is_not_made_permanent(tmp_path: Path, events: Events) -> None:
    """A compaction of a file whose rows disagree with the manifest is an error and changes nothing."""
    lake = _lake(tmp_path, events, 3)
    _, first, second, _ = lake.snapshot().segment_paths()
    second.write_bytes(first.read_bytes())
    with pytest.raises(CorruptLakeError, match="does not hold the 1 rows"):
        lake.compact()
    assert len(lake.store.names("segments")) == 4


@given(st.lists(st.integers(1, 30), max_size=40), st.integers(1, 60))
def test_plan_respects_the_target(sizes: list[int], target: int) -> None:
    """Groups are neighbours, at least two, within the target, and none begins with a file larger than the rest."""
    files = [DataFile(str(n), n, n + 1, rows, rows) for n, rows in enumerate(sizes)]
    for group in plan(files, target, 10**9):
        assert [file.first for file in group] == list(range(group[0].first, group[0].first + len(group)))
        assert len(group) >= 2
        assert sum(file.rows for file in group) <= target
        assert group[0].rows <= sum(file.rows for file in group[1:])


@given(st.integers(1, 200))
def test_repeated_compaction_leaves_few_files(count: int) -> None:
    """Compacting after every append keeps the number of files logarithmic."""
    files: list[DataFile] = []
    for n in range(count):
        files.append(DataFile(str(n), n, n + 1, 1, 1))
        for group in plan(files, 10**6, 10**9):
            rows = sum(file.rows for file in group)
            at = files.index(group[0])
            files[at : at + len(group)] = [DataFile(f"{n}+", group[0].first, group[-1].stop, rows, rows)]
    assert len(files) <= 2 * count.bit_length() + 1


def test_records_in_commits_become_files(tmp_path: Path, events: Events) -> None:
    """A compaction moves inline records to Parquet; a vacuum then deletes them from their commit."""
    lake = _lake(tmp_path, events, 3)
    lake.compact()
    lake.tick(0)
    with pytest.raises(UsageError, match="not in Parquet"):
        lake.snapshot().segment_paths()
    assert lake.compact() == CompactionResult(1, 1, 1)
    assert [path.suffix for path in lake.snapshot().segment_paths()] == [".parquet"] * 2
    before = _rows(lake.snapshot())
    assert len(lake.vacuum(0)) == 5
    assert all(b"\n" not in (lake.store.find(commit_name(version)) or b"") for version in range(1, 8))
    assert (_rows(Lake.open(tmp_path).snapshot()), lake.check()) == (before, [])


@pytest.fixture
def lake(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch, in_files: None) -> Lake:
    """A segment with the settings and three of two events each."""
    monkeypatch.setattr(ids, "TAIL_SEGMENTS", 1)
    lake = Lake.open(tmp_path, lateness=10)
    for n in range(3):
        lake.append(events([(f"urn:{n}:{m}", 20 * n + m, 20 * n + m) for m in range(2)]))
    assert lake.check() == []
    return lake


def _change(lake: Lake, segment: int, column: str, values: list[Any]) -> str:
    """Write other values into a column of a segment."""
    path = lake.snapshot().segment_paths()[segment]
    table = pq.read_table(path)
    field = RECORDS.field(column)
    table = table.set_column(RECORDS.get_field_index(column), field, pa.array(values, field.type))
    pq.write_table(table, path)
    return f"segments/{path.name}"


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("offset", [3, 5], "its offsets are not 3 to 4"),
        ("late", [True, False], "1 records with a wrong late flag, the first at offset 3"),
        ("frontier", [None, None], "2 records with a wrong frontier, the first at offset 3"),
        ("start", [19, 21], "the manifest describes it wrongly"),
        ("stamped", [True, False], "the manifest describes it wrongly"),
        ("digest", [b"", None], "1 records with a wrong digest, the first at offset 3"),
    ],
)
def test_changed_columns(lake: Lake, column: str, values: list[Any], said: str) -> None:
    """Wrong offsets, flags, frontiers, times and digests are found."""
    name = _change(lake, 2, column, values)
    assert f"{name}: {said}" in lake.check()


def test_repeated_ids(lake: Lake) -> None:
    """A repeated IRI is found, and the run that disagrees with the log."""
    _change(lake, 2, "id", ["urn:1:0", "urn:0:0"])
    found = lake.check()
    assert "event <urn:0:0> is at offset 1 and at 4" in found
    assert any(problem.startswith("ids/") for problem in found)


def test_missing_and_torn_files(lake: Lake) -> None:
    """A missing and a truncated segment are both named; the check continues to the end."""
    _, first, second, _ = lake.snapshot().segment_paths()
    first.unlink()
    second.write_bytes(b"PAR1")
    found = "\n".join(lake.check())
    assert f"{first} is missing" in found
    assert f"{second} cannot be read" in found


def test_missing_commits(lake: Lake) -> None:
    """A missing commit is found even if this process has read it before."""
    lake.store.delete(commit_name(2))
    assert lake.check() == ["manifest: commit 2 of 4 is missing"]


def test_a_snapshot_that_disagrees(lake: Lake) -> None:
    """A checkpoint that disagrees with the commits is found."""
    wrong = lake.snapshot()._replace(frontier=7, notifications_end=9)
    assert find_problems(wrong) == [
        "manifest/checkpoint.json: does not agree with the commits; delete it and it is rebuilt",
        "the manifest's frontier is 7, the records give 31",
        "notifications go to offset 9, the log ends at 7",
    ]


def test_records_in_a_commit_are_checked(tmp_path: Path, events: Events) -> None:
    """Inline records are read and compared like those in segments; missing ones are found."""
    lake = Lake.open(tmp_path)
    for n in range(3):
        lake.append(events([f"urn:{n}"]))
    assert lake.check() == []
    names = [segment.name for segment in lake.snapshot().segments]
    assert names == [commit_name(version) for version in (1, 2, 3, 4)]
    line, _, body = (lake.store.find(names[0]) or b"").partition(b"\n")
    lake.store.put(names[0], line)
    other, _, _ = (lake.store.find(names[1]) or b"").partition(b"\n")
    lake.store.put(names[1], other + b"\n" + body)
    found = lake.check()
    assert f"{lake.store.path(names[0])} has no inline records" in found
    assert f"{names[1]}: its offsets are not 1 to 1" in found
