"""Verification on Spark has the result of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import motet
from motet.demo import building
from motet.fuzz.cases import nth_case
from motet.fuzz.lakes import write_lake
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jobs.verify import recompute, verify_embedded
from motet.lake import Lake
from motet.model.batches import notification_batch
from motet.spark.batch.verify import pack_subscriptions, verify_spark


def test_packs_together_have_the_rows_of_one_processor(tmp_path: Path) -> None:
    """Over random logs, subscriptions processed in separate packs have the same notifications at the same offsets."""
    several = 0
    for number in range(16):
        lake = write_lake(nth_case(22, number, EngineCapabilities()), tmp_path / str(number))
        lake.commit_notifications(notification_batch(()), 0, lake.snapshot().next_offset)
        snapshot = lake.snapshot()
        spread = pack_subscriptions(snapshot, 3)
        found = [
            row
            for pack in spread
            for row in recompute(snapshot, pack.active)
            if json.loads(row[1])["subscription"] in pack.reported
        ]
        assert sorted(found) == sorted(recompute(snapshot)), number
        several += len(spread) > 1
    assert several > 8


def test_spark_finds_the_same_chain_and_the_same_difference(spark: SparkSession, tmp_path: Path) -> None:
    """Subscriptions that feed each other, one that looks back and one that ended; then a row is changed."""
    first, *others = building.write_events(tmp_path / "events", events=600, files=3)
    with motet.open(tmp_path / "lake", ontology=[building.ontology_path()]) as cloud:
        cloud.subscribe(building.subscriptions_path().read_text(), lambda _: None)
        cloud.publish(first.read_bytes())
        cloud.subscribe(building.composite_path().read_text(), lambda _: None)
        cloud.subscribe(
            f'SUBSCRIPTION back SINCE "2026-11-16T00:00:00Z" EVENT e : <{building.BLD}Alarm> WHEN e SELECT ?e',
            lambda _: None,
        )
        cloud.unsubscribe("stale-air")
        for path in others:
            cloud.publish(path.read_bytes())
    lake = Lake.open(tmp_path / "lake")
    snapshot = lake.snapshot()
    assert any(pack.reported >= {"fire", "fire-spreads"} for pack in pack_subscriptions(snapshot, 4))
    whole = verify_spark(snapshot)
    assert whole.difference is None and whole == verify_embedded(snapshot)
    path = snapshot.notification_paths()[0]
    table = pq.read_table(path)
    rows = [row | {"events": ["urn:other"]} if number == 1 else row for number, row in enumerate(table.to_pylist())]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    found = verify_spark(snapshot)
    assert found == verify_embedded(snapshot)
    assert found.difference is not None and found.difference.kind == "different"
    assert found.difference.stored is not None
    assert json.loads(found.difference.stored[1])["events"] == ["urn:other"]
