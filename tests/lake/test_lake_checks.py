"""The check finds every kind of damage, and names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from motet.lake import Lake, ids
from motet.lake.checks import problems
from motet.lake.manifest import commit_name
from motet.model.batches import RECORDS

Events = Callable[..., pa.Table]


@pytest.fixture
def lake(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch, in_files: None) -> Lake:
    """Three segments of two events each."""
    monkeypatch.setattr(ids, "TAIL_SEGMENTS", 1)
    lake = Lake.open(tmp_path, lateness=10)
    for n in range(3):
        lake.append(events([(f"urn:{n}:{m}", 20 * n + m, 20 * n + m) for m in range(2)]), now=0)
    assert lake.check() == []
    return lake


def _change(lake: Lake, segment: int, column: str, values: list[Any]) -> str:
    """Write other values into a column of a segment, as damage would."""
    path = lake.snapshot().segment_paths()[segment]
    table = pq.read_table(path)
    field = RECORDS.field(column)
    table = table.set_column(RECORDS.get_field_index(column), field, pa.array(values, field.type))
    pq.write_table(table, path)
    return f"segments/{path.name}"


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("offset", [2, 4], "its offsets are not 2 to 3"),
        ("late", [True, False], "1 records with a wrong late flag, the first at offset 2"),
        ("frontier", [None, None], "2 records with a wrong frontier, the first at offset 2"),
        ("start", [19, 21], "the manifest describes it wrongly"),
    ],
)
def test_changed_columns(lake: Lake, column: str, values: list[Any], said: str) -> None:
    """Offsets, flags, frontiers and times that do not agree are found."""
    name = _change(lake, 1, column, values)
    assert f"{name}: {said}" in lake.check()


def test_repeated_ids(lake: Lake) -> None:
    """An IRI that stands twice is found, and the run that knows better."""
    _change(lake, 1, "id", ["urn:1:0", "urn:0:0"])
    found = lake.check()
    assert "event <urn:0:0> stands at offset 0 and at 3" in found
    assert any(problem.startswith("ids/") for problem in found)


def test_missing_and_torn_files(lake: Lake) -> None:
    """A missing segment and a torn one are both named; the check goes on to the end."""
    first, second, _ = lake.snapshot().segment_paths()
    first.unlink()
    second.write_bytes(b"PAR1")
    found = "\n".join(lake.check())
    assert f"{first} is missing" in found
    assert f"{second} cannot be read" in found


def test_missing_commits(lake: Lake) -> None:
    """A commit that is gone is noticed even when this process had already read it."""
    lake.store.delete(commit_name(2))
    assert lake.check() == ["manifest: commit 2 of 3 is missing"]


def test_a_snapshot_that_disagrees(lake: Lake) -> None:
    """A checkpoint that says something else than the commits is found."""
    wrong = lake.snapshot()._replace(frontier=7, notified_to=9)
    assert problems(wrong, 10) == [
        "manifest/checkpoint.json: does not agree with the commits; delete it to have it made again",
        "the manifest's frontier is 7, the records give 31",
        "notifications go to offset 9, the log ends at 6",
    ]


def test_records_in_a_commit_are_checked(tmp_path: Path, events: Events) -> None:
    """Records that stand in their commit are read and compared like those in files; lost ones are noticed."""
    lake = Lake.open(tmp_path)
    for n in range(3):
        lake.append(events([f"urn:{n}"]), now=0)
    assert lake.check() == []
    names = [segment.name for segment in lake.snapshot().segments]
    assert names == [commit_name(version) for version in (1, 2, 3)]
    line, _, body = (lake.store.find(names[0]) or b"").partition(b"\n")
    lake.store.put(names[0], line)
    other, _, _ = (lake.store.find(names[1]) or b"").partition(b"\n")
    lake.store.put(names[1], other + b"\n" + body)
    found = lake.check()
    assert f"{lake.store.path(names[0])} has no records any more" in found
    assert f"{names[1]}: its offsets are not 1 to 1" in found
