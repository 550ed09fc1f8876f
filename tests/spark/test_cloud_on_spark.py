"""The live cloud with Spark jobs behind it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.model.errors import EngineError
from motet.model.notifications import Notification
from motet.spark.cloud import derive_on

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int) -> str:
    event = f"<urn:e:{number}>"
    return (
        f'{event} <urn:celsius> "{celsius}"^^<http://www.w3.org/2001/XMLSchema#integer> {event} .\n'
        f'{event} <http://www.w3.org/ns/sosa/resultTime> "2026-11-15T10:00:{number:02}Z"'
        f"^^<http://www.w3.org/2001/XMLSchema#dateTime> {event} .\n"
    )


def publish_and_listen(cloud: Cloud) -> list[Notification]:
    """One history, with a subscription that comes later and looks back, and one that ends."""
    heard: list[Notification] = []
    with cloud:
        cloud.subscribe(HOT, heard.append)
        cloud.publish(reading(1, 35) + reading(2, 20))
        cloud.publish(reading(3, 36))
        cloud.flush()
        cloud.unsubscribe("hot")
        cloud.subscribe(HOT.replace("hot", 'again SINCE "2026-11-15T10:00:02Z"', 1), heard.append)
        cloud.publish(reading(4, 37))
    return heard


def test_what_combines_events_is_refused_and_not_written(tmp_path: Path) -> None:
    """The live cloud on Spark says that it does not detect, before the subscription is in the log."""
    lake = Lake.open(tmp_path)

    def never(*_: object) -> bool:
        raise AssertionError("nothing is to be derived")

    with (
        Cloud(lake, never) as cloud,
        pytest.raises(EngineError, match="The live cloud on Spark takes single events only"),
    ):
        cloud.subscribe("SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b WITHIN 5 s", print)
    assert lake.snapshot().next_offset == 0


def test_spark_and_embedded_tell_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The same calls give the same notifications, in the same order, on both hosts."""
    on_spark = publish_and_listen(Cloud(Lake.open(tmp_path / "spark"), derive_on(spark), threaded=True))
    embedded = publish_and_listen(Cloud(Lake.open(tmp_path / "embedded")))
    assert on_spark == embedded
    assert [notification.events for notification in on_spark] == [
        ("urn:e:1",),
        ("urn:e:3",),
        ("urn:e:3",),
        ("urn:e:4",),
    ]
    assert Lake.open(tmp_path / "spark").check() == []
