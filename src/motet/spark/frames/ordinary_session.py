"""What an ordinary Spark session lacks for patterns: a state store with timers, and few partitions.

A session of `motet.spark.session` has both. In others, settings of streaming queries are set where they have Spark's
default, and reported.
"""

from __future__ import annotations

import logging
from math import ceil

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

from motet.model.errors import UsageError
from motet.spark.session import ROCKSDB, parallelism

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATE_PARTITIONS = "spark.sql.streaming.internal.stateStore.partitions"  # of stateful operators only
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
DEFAULT_PARTITIONS = 200  # Spark's default, chosen for clusters
STREAM_BUCKETS = 8  # of a stream in a session with Spark's default; a checkpoint fixes it, so it depends on nothing
BUCKET_BYTES = 4 << 20  # of a batch DataFrame, by Spark's estimate

_HDFS_PROVIDER = "HDFSBackedStateStoreProvider"  # Spark's default, which has neither timers nor several states

log = logging.getLogger("motet")


def batch_buckets(df: DataFrame) -> int:
    """The buckets for a batch DataFrame: by its size, at most two per task slot and the shuffle partitions."""
    spark = df.sparkSession
    most = min(_shuffle_partitions(spark), 2 * parallelism(spark))
    size = _estimated_bytes(df)
    return most if size is None else max(1, min(most, ceil(size / BUCKET_BYTES)))


def stream_buckets(df: DataFrame) -> int:
    """The number of buckets for a stream: the shuffle partitions that the session sets, otherwise a few."""
    count = _shuffle_partitions(df.sparkSession)
    return STREAM_BUCKETS if count == DEFAULT_PARTITIONS else count


def prepare_stream(spark: SparkSession, buckets: int) -> None:
    """Set the state store and the partitions of streaming queries, which are read when a query starts."""
    provider = spark.conf.get(PROVIDER) or _HDFS_PROVIDER
    if provider.endswith(_HDFS_PROVIDER):
        _set(spark, PROVIDER, ROCKSDB)
    if spark.conf.get(STATE_PARTITIONS, str(_shuffle_partitions(spark))) != str(buckets):
        _set(spark, STATE_PARTITIONS, str(buckets))


def _set(spark: SparkSession, name: str, value: str) -> None:
    line = f'spark.conf.set("{name}", "{value}")'
    try:
        spark.conf.set(name, value)
    except Exception as error:  # of the JVM, a Connect server or a platform that protects settings
        raise UsageError(
            f"this session does not let {name} be set: {error}",
            advice=f"set it where the session is made, as {line} or builder.config, then call detect again",
        ) from error
    log.warning("detect on a stream: %s, for the stateful streaming queries that this session starts from now on", line)


def _shuffle_partitions(spark: SparkSession) -> int:
    return int(spark.conf.get(SHUFFLE_PARTITIONS) or DEFAULT_PARTITIONS)


def _estimated_bytes(df: DataFrame) -> int | None:
    """Spark's estimate of the size of a DataFrame; None if there is none."""
    if is_remote():
        return None
    size = int(str(df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    return size if size < 1 << 60 else None  # an unknown size is huge
