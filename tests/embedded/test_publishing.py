"""Group commit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.builders import reading

from motet.embedded.cloud import Cloud
from motet.embedded.delivery_loop import RecentRecords
from motet.embedded.publishing import GroupCommitter
from motet.lake import CommitResult, Lake


def test_appends_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    """Requests that arrive during a commit are committed together, each with its own receipt."""
    lake = Lake.open(tmp_path)
    groups: list[int] = []
    started, may_go = threading.Event(), threading.Event()

    class Slow(Lake):
        def append_group(self, requests: object) -> CommitResult:
            groups.append(len(requests))  # type: ignore[arg-type]
            if len(groups) == 1:
                started.set()
                assert may_go.wait(30)
            return super().append_group(requests)  # type: ignore[arg-type]

    slow = Slow(lake._manifest, lake.store)
    committer = GroupCommitter(slow, RecentRecords())
    cloud = Cloud(slow)
    cloud._committer = committer
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(cloud.publish, reading(0, 35))
        assert started.wait(30)
        queued = [pool.submit(cloud.publish, reading(number, 35) + reading(0, 35)) for number in (1, 2, 2, 3)]
        while len(committer._queue) < len(queued):
            threading.Event().wait(0.001)
        may_go.set()
        receipts = [first.result(), *(future.result() for future in queued)]
    cloud.close()
    assert groups == [1, 4]
    assert sum(receipt.accepted for receipt in receipts) == 4
    assert [receipt.repeated for receipt in receipts[1:]].count(1) == 3
    assert lake.check() == []
