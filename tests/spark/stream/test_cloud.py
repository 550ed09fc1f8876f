"""The live cloud with Spark jobs behind it."""

from pathlib import Path

from pyspark.sql import SparkSession
from tests import builders

from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME
from motet.spark.stream.cloud import SparkCloud

RISING = (
    "SUBSCRIPTION rising EVENT a { ?a <urn:celsius> ?c } EVENT b { ?b <urn:celsius> ?d } "
    "WHEN a BEFORE b FILTER(?d > ?c) WITHIN 1 s SELECT ?a ?b"
)
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"


def reading(number: int, celsius: int) -> str:
    return builders.reading(number, celsius, f"2026-11-15T10:00:{number:02}Z")


def publish_and_listen(cloud: Cloud) -> list[Notification]:
    """One history, with a subscription that comes later and looks back, and one that ends."""
    heard: list[Notification] = []
    with cloud:
        cloud.subscribe(HOT + " " + RISING, heard.append)
        cloud.publish(reading(1, 35) + reading(2, 20))
        cloud.publish(reading(3, 36))
        cloud.flush()
        cloud.unsubscribe("hot")
        cloud.subscribe(HOT.replace("hot", 'again SINCE "2026-11-15T10:00:02Z"', 1), heard.append)
        cloud.publish(reading(4, 37))
        cloud.tick(END_OF_TIME)
    return heard


def test_spark_and_embedded_tell_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The same calls give the same notifications, in the same order, on both hosts."""
    on_spark = publish_and_listen(SparkCloud(Lake.open(tmp_path / "spark"), spark))
    embedded = publish_and_listen(Cloud(Lake.open(tmp_path / "embedded")))
    assert on_spark == embedded
    told: dict[str, list[tuple[str, ...]]] = {}
    for notification in on_spark:
        told.setdefault(notification.subscription, []).append(notification.events)
    assert told == {
        "hot": [("urn:e:1",), ("urn:e:3",)],
        "again": [("urn:e:3",), ("urn:e:4",)],
        "rising": [("urn:e:2", "urn:e:3"), ("urn:e:3", "urn:e:4")],
    }
    assert Lake.open(tmp_path / "spark").check() == []
