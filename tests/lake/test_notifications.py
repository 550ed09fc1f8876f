"""Notification tables: every range of the log exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from motet.lake import Lake
from motet.model.batches import NOTIFICATIONS
from motet.model.errors import CorruptLakeError, UsageError

Notifications = Callable[..., pa.Table]


def _lake(path: Path, records: int) -> Lake:
    lake = Lake.open(path)
    for instant in range(records):
        lake.tick(instant)
    return lake


def _offsets(lake: Lake, first: int = 0) -> list[int]:
    return [offset for batch in lake.notifications(first) for offset in batch.column("offset").to_pylist()]


def test_ranges_follow_one_another(tmp_path: Path, notifications: Notifications) -> None:
    """A range is taken once, in its turn, also when it gave rise to nothing; any other is refused."""
    lake = _lake(tmp_path, 6)
    assert lake.commit_notifications(notifications([1, 0]), 0, 2)
    assert not lake.commit_notifications(notifications([1, 0]), 0, 2)
    assert not lake.commit_notifications(notifications([4]), 4, 5)
    assert lake.commit_notifications(notifications([]), 2, 4)
    assert lake.commit_notifications(notifications([4, 4]).to_batches()[0], 4, 5)
    assert (_offsets(lake), _offsets(lake, 1), lake.snapshot().notifications_end) == ([0, 1, 4, 4], [1, 4, 4], 5)
    assert (lake.statistics()["notifications"], lake.check()) == (4, [])


def test_wrong_ranges(tmp_path: Path, notifications: Notifications) -> None:
    """Notifications outside their range, an empty range, or one past the log's end are refused."""
    lake = _lake(tmp_path, 2)
    with pytest.raises(UsageError, match="not those of the records 0 to 1"):
        lake.commit_notifications(notifications([1]), 0, 1)
    with pytest.raises(UsageError, match="not those of the records 0 to 0"):
        lake.commit_notifications(notifications([]), 0, 0)
    with pytest.raises(UsageError, match="the log ends at offset 2"):
        lake.commit_notifications(notifications([]), 0, 3)


def test_appending_and_compaction_keep_them(tmp_path: Path, notifications: Notifications) -> None:
    """Tables are compacted like segments, and appends leave them alone."""
    lake = _lake(tmp_path, 4)
    for n in range(4):
        lake.commit_notifications(notifications([n, n]), n, n + 1)
    lake.tick(9)
    before = pa.Table.from_batches(lake.notifications())
    lake.compact()
    after = pa.Table.from_batches(lake.notifications(), NOTIFICATIONS)
    assert (after, len(lake.snapshot().tables), lake.snapshot().notifications_end) == (before, 1, 4)
    assert (_offsets(lake, 2), lake.check()) == ([2, 2, 3, 3], [])


def test_cursors(tmp_path: Path) -> None:
    """A cursor starts at 0, moves forward only, and any text names a consumer."""
    lake = Lake.open(tmp_path)
    assert lake.cursor("../a b") == 0
    lake.advance_cursor("../a b", 5)
    lake.advance_cursor("../a b", 5)
    assert (Lake.open(tmp_path).cursor("../a b"), lake.cursor("other")) == (5, 0)
    with pytest.raises(UsageError, match="at offset 5 and cannot go back to 4"):
        lake.advance_cursor("../a b", 4)
    with pytest.raises(UsageError, match="no name for a consumer"):
        lake.cursor("")
    assert lake.store.names("consumers") == ["consumers/..%2Fa%20b.json"]


def test_one_sheet_for_many_cursors(tmp_path: Path) -> None:
    """Cursors written together are found one by one; the farthest counts; a new process takes the sheets over."""
    lake = Lake.open(tmp_path)
    lake.advance_cursor("own", 7)
    lake.advance_cursors({"a": 3, "b": 4, "own": 5})
    lake.advance_cursors({"a": 2, "b": 6})
    other = Lake.open(tmp_path)
    assert other.cursors(["a", "b", "own", "new"]) == {"a": 3, "b": 6, "own": 7, "new": 0}
    other.advance_cursors({"a": 9})
    assert len([name for name in lake.store.names("consumers") if "+" in name]) == 1
    assert Lake.open(tmp_path).cursors(["a", "b"]) == {"a": 9, "b": 6}
    lake.store.put(lake.store.names("consumers")[0], b"[]")
    with pytest.raises(CorruptLakeError, match="not a cursor"):
        lake.cursor("a")
