"""The notification table: every offset range is committed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from motet.lake import Lake
from motet.model.batches import NOTIFICATIONS
from motet.model.errors import UsageError

Notifications = Callable[..., pa.Table]


def _lake(path: Path, records: int) -> Lake:
    lake = Lake.open(path)
    for instant in range(records - 1):  # the first record is that of the settings
        lake.tick(instant)
    return lake


def _offsets(lake: Lake, first: int = 0) -> list[int]:
    return [offset for batch in lake.notifications(first) for offset in batch.column("offset").to_pylist()]


def test_ranges_follow_one_another(tmp_path: Path, notifications: Notifications) -> None:
    """A range is committed once and in order, also without notifications; any other is refused."""
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


def test_appends_and_compaction_keep_notifications(tmp_path: Path, notifications: Notifications) -> None:
    """Files of the table are compacted like segments; appends do not change them."""
    lake = _lake(tmp_path, 4)
    for n in range(4):
        lake.commit_notifications(notifications([n, n]), n, n + 1)
    lake.tick(9)
    before = pa.Table.from_batches(lake.notifications())
    lake.compact()
    after = pa.Table.from_batches(lake.notifications(), NOTIFICATIONS)
    assert (after, len(lake.snapshot().tables), lake.snapshot().notifications_end) == (before, 1, 4)
    assert (_offsets(lake, 2), lake.check()) == ([2, 2, 3, 3], [])
