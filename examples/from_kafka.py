"""Ingest a Kafka topic into a lake with Spark's Kafka connector, each message exactly once.

Run: python examples/from_kafka.py SERVERS TOPIC LAKE      (on a session that has Spark's Kafka connector)
     python examples/from_kafka.py                         (without Kafka: rows of the same schema, from files)

The connector is a jar of the cluster, not of Motet: start Spark with
``--packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION`` or put it into ``jars/``.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from motet.lake import Lake
from motet.spark import ingest
from motet.spark.session import session

MESSAGES = (
    "topic string, partition int, offset long, timestamp timestamp, value binary, "
    "headers array<struct<key string, value binary>>"
)


def kafka(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    """The messages of a topic."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return reader.option("startingOffsets", "earliest").option("includeHeaders", "true").load()


def without_kafka(spark: SparkSession, directory: str) -> DataFrame:
    """The same columns from files: five messages in Turtle, one of which is invalid, and one in N-Quads."""
    turtle = [("content-type", b"text/turtle")]
    now = datetime(2026, 11, 15, 10, tzinfo=UTC)
    values = [f"<> <http://example.org/celsius> {n} .".encode() for n in range(20, 24)] + [b"broken"]
    rows = [("rooms", 0, n, now, value, turtle) for n, value in enumerate(values)]
    rows.append(("rooms", 1, 0, now, b'<urn:e:1> <http://example.org/celsius> "24" <urn:e:1> .', []))
    spark.createDataFrame(rows, MESSAGES).write.parquet(directory)
    return spark.readStream.schema(MESSAGES).parquet(directory)


def to_events(messages: DataFrame) -> DataFrame:
    """The columns for `ingest`: the value, its format from a header, its time, and an IRI if it names none."""
    return messages.selectExpr(
        "value",
        "decode(get(filter(headers, header -> lower(header.key) = 'content-type'), 0).value, 'UTF-8') AS content_type",
        "timestamp",
        "concat_ws(':', 'urn:kafka', topic, partition, offset) AS id",
    )


def main() -> None:
    spark = session()
    if len(sys.argv) == 4:
        servers, topic, lake = sys.argv[1:]
        ingest(to_events(kafka(spark, servers, topic)), lake, checkpoint=f"{lake}-checkpoint").awaitTermination()
    with tempfile.TemporaryDirectory() as directory:
        lake = f"{directory}/lake"
        messages = to_events(without_kafka(spark, f"{directory}/messages"))
        query = ingest(
            messages, lake, checkpoint=f"{directory}/checkpoint", trigger={"availableNow": True}, on_batch=print
        )
        query.awaitTermination()
        print(f"{Lake.open(lake).snapshot().count('event')} events in the log, and rejected:")
        for path in Path(lake, "dead-letter").iterdir():
            print(path.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
