"""The notifications of a lake, read by Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from motet.lake import Lake
from motet.model.errors import LakeError
from motet.model.notifications import Notification
from motet.model.tables import notification_batch
from motet.spark.notification_source import notifications, stored_notifications

Row = tuple[str, str, int]


def emitted(*offsets: int) -> list[tuple[Notification, int]]:
    """Two notifications for each offset."""
    pairs = [(offset, n) for offset in offsets for n in range(2)]
    return [(Notification(f"s{n}", offset, offset, (), (("x", "<urn:x>"),)), offset) for offset, n in pairs]


def notify(lake: Lake, *offsets: int) -> None:
    """Go on by one record for each offset, and notify of every one of them."""
    first = lake.snapshot().next_offset
    for offset in offsets:
        lake.tick(offset)
    lake.commit_notifications(notification_batch(emitted(*offsets)), first, lake.snapshot().next_offset)


def expected(*offsets: int) -> list[Row]:
    return [(one.id, one.subscription, offset) for one, offset in emitted(*offsets)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(tmp_path / "lake", lateness=None)
    notify(lake, 0, 1, 2)
    notify(lake, 3, 4)
    return lake


def rows(frame: DataFrame) -> list[Row]:
    picked = frame.orderBy("offset", "subscription").select("id", "subscription", "offset").collect()
    return [(row.id, row.subscription, row.offset) for row in picked]


def test_a_range_of_offsets(spark: SparkSession, lake: Lake) -> None:
    """A batch holds the notifications of the range, each with its id, whatever comes later."""
    frame = stored_notifications(spark, lake.store.root)
    notify(lake, 5)
    assert rows(frame) == expected(0, 1, 2, 3, 4)
    assert rows(stored_notifications(spark, lake.store.root, 2, 4)) == expected(2, 3)


def test_any_foreach_batch_writer_gets_each_once(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Over two runs of a query and a compaction between them, every notification is in one batch of bounded size."""
    batches: list[list[Row]] = []

    def run() -> None:
        frame = notifications(spark, lake.store.root, max_offsets=2)
        writer = frame.writeStream.foreachBatch(lambda batch, number: batches.append(rows(batch)))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    assert batches == [expected(0, 1), expected(2, 3), expected(4)]
    lake.compact()
    notify(lake, 5)
    run()
    assert batches[3:] == [expected(5)]


def test_a_missing_lake_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A path that holds no lake is refused at once, in Motet's own words."""
    with pytest.raises(LakeError, match="nowhere is not a lake"):
        notifications(spark, tmp_path / "nowhere")
