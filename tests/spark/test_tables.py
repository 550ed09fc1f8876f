"""A lake read by Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from motet.lake import DataFile, Lake, Snapshot, Store
from motet.model.batches import EVENTS, RECORDS, notification_batch
from motet.model.errors import LakeError
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, START_OF_TIME
from motet.spark.tables import notifications, plan_segments, read_lake, register_lake_source, stored_notifications


def events(first: int, stop: int) -> pa.RecordBatch:
    triples = [{"subject": "<urn:s>", "predicate": "<urn:p>", "object": '"\U0001f525"@en'}]
    rows = [{"id": f"urn:e:{n}", "start": n, "end": n + 1, "triples": triples, "line": n} for n in range(first, stop)]
    return pa.RecordBatch.from_pylist(rows, EVENTS)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two segments of events, one of a control record, one with the ends of time."""
    lake = Lake.open(tmp_path / "a lake", lateness=None, ahead=None)
    lake.append(events(0, 300))
    lake.append(events(300, 500))
    lake.subscribe("any", "SUBSCRIPTION any EVENT e WHEN e")
    ends = {"start": START_OF_TIME, "end": END_OF_TIME, "triples": [], "line": 1}
    lake.append(pa.RecordBatch.from_pylist([{"id": "urn:always", **ends}], EVENTS))
    return lake


def table(frame: DataFrame) -> pa.Table:
    return frame.orderBy("offset").toArrow().cast(RECORDS)


def records(lake: Lake, first: int = 0, stop: int | None = None) -> pa.Table:
    return pa.Table.from_batches(lake.snapshot().records(first, stop), RECORDS)


def test_a_range_of_offsets(spark: SparkSession, lake: Lake) -> None:
    """Exactly the records of the range arrive, whole, from the segments that hold them."""
    frame = read_lake(spark, lake.store.root, 290, 310)
    assert table(frame).equals(records(lake, 290, 310))
    assert frame.rdd.getNumPartitions() == 2


def test_the_format_and_plain_parquet_agree(spark: SparkSession, lake: Lake) -> None:
    """The segments are Parquet that Spark reads as it is, to the same rows as the data source."""
    lake.compact()
    register_lake_source(spark)
    by_format = spark.read.format("motet").option("partitionBytes", 1000).load(str(lake.store.root))
    by_parquet = spark.read.parquet(*map(str, lake.snapshot().segment_paths()))
    assert table(by_format).equals(records(lake))
    assert table(by_parquet).equals(records(lake))
    assert by_format.rdd.getNumPartitions() > len(lake.snapshot().segments)


def test_a_frame_is_fixed_while_the_lake_changes(spark: SparkSession, lake: Lake) -> None:
    """Appending, compacting and vacuuming change nothing in a frame made before."""
    frame, before = read_lake(spark, lake.store.root), records(lake)
    lake.append(events(500, 510))
    lake.compact()
    lake.vacuum(0)
    assert table(frame).equals(before)


def test_an_empty_range_has_no_rows(spark: SparkSession, lake: Lake) -> None:
    """A range past the end is empty, not an error."""
    assert read_lake(spark, lake.store.root, 10_000).count() == 0


def test_a_missing_lake_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A path that holds no lake is refused at once, in Motet's own words."""
    with pytest.raises(LakeError, match="nowhere is not a lake"):
        read_lake(spark, tmp_path / "nowhere")


@given(
    lengths=st.lists(st.integers(1, 50), max_size=6),
    first=st.integers(0, 100),
    stop=st.none() | st.integers(0, 350),
    partition_bytes=st.integers(1, 3000),
)
def test_ranges_cover_every_offset_once(lengths: list[int], first: int, stop: int | None, partition_bytes: int) -> None:
    """However segments are divided, the ranges have each requested offset once, in order, inside their segments."""
    starts = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    segments = tuple(
        DataFile(f"segments/{n}", starts[n], starts[n + 1], length, 100 * length) for n, length in enumerate(lengths)
    )
    snapshot = Snapshot(Store(Path("lake")), segments=segments, next_offset=starts[-1])
    ranges = list(plan_segments(snapshot, first, stop, partition_bytes))
    covered = [(part.name, offset) for part in ranges for offset in range(part.first, part.stop)]
    end = starts[-1] if stop is None else min(stop, starts[-1])
    assert covered == [
        (file.name, offset) for file in segments for offset in range(file.first, file.stop) if first <= offset < end
    ]


Row = tuple[str, str, int]


def emitted(*offsets: int) -> list[tuple[Notification, int]]:
    """Two notifications for each offset."""
    pairs = [(offset, n) for offset in offsets for n in range(2)]
    return [(Notification(f"s{n}", offset, offset, (), (("x", "<urn:x>"),)), offset) for offset, n in pairs]


def notify(lake: Lake, *offsets: int) -> None:
    """Go on by one record for each offset after that of the settings, and notify of every one of them."""
    first = lake.snapshot().notifications_end
    for offset in range(lake.snapshot().next_offset, offsets[-1] + 1):
        lake.tick(offset)
    lake.commit_notifications(notification_batch(emitted(*offsets)), first, lake.snapshot().next_offset)


def expected(*offsets: int) -> list[Row]:
    return [(one.id, one.subscription, offset) for one, offset in emitted(*offsets)]


@pytest.fixture
def notified_lake(tmp_path: Path) -> Lake:
    lake = Lake.open(tmp_path / "lake", lateness=None)
    notify(lake, 0, 1, 2)
    notify(lake, 3, 4)
    return lake


def rows(frame: DataFrame) -> list[Row]:
    picked = frame.orderBy("offset", "subscription").select("id", "subscription", "offset").collect()
    return [(row.id, row.subscription, row.offset) for row in picked]


def test_a_range_of_notifications(spark: SparkSession, notified_lake: Lake) -> None:
    """A batch holds the notifications of the range, each with its id, whatever is appended later."""
    frame = stored_notifications(spark, notified_lake.store.root)
    notify(notified_lake, 5)
    assert rows(frame) == expected(0, 1, 2, 3, 4)
    assert rows(stored_notifications(spark, notified_lake.store.root, 2, 4)) == expected(2, 3)


def test_any_foreach_batch_writer_gets_each_once(spark: SparkSession, notified_lake: Lake, tmp_path: Path) -> None:
    """Over two runs of a query and a compaction between them, every notification is in one batch of bounded size."""
    batches: list[list[Row]] = []

    def run() -> None:
        frame = notifications(spark, notified_lake.store.root, max_offsets=2)
        writer = frame.writeStream.foreachBatch(lambda batch, number: batches.append(rows(batch)))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    assert batches == [expected(0, 1), expected(2, 3), expected(4)]
    notified_lake.compact()
    notify(notified_lake, 5)
    run()
    assert batches[3:] == [expected(5)]


def test_notifications_of_a_missing_lake(spark: SparkSession, tmp_path: Path) -> None:
    """A path that holds no lake is refused at once, in Motet's own words."""
    with pytest.raises(LakeError, match="nowhere is not a lake"):
        notifications(spark, tmp_path / "nowhere")
