"""Patterns in a session that Motet has not made: its state store, partitions and workers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import motet
from motet.model.errors import UsageError
from motet.spark.frames.ordinary_session import (
    PROVIDER,
    SHUFFLE_PARTITIONS,
    STATE_PARTITIONS,
    STREAM_BUCKETS,
    batch_buckets,
    prepare_stream,
    stream_buckets,
)
from motet.spark.java import find_java
from motet.spark.session import ROCKSDB

PROGRAM = Path(__file__).with_name("ordinary.py")
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@pytest.fixture
def ordinary(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with Spark's defaults for streaming and shuffles."""
    session = spark.newSession()
    session.conf.set(PROVIDER, HDFS)
    session.conf.set(SHUFFLE_PARTITIONS, "200")
    yield session
    for name in (PROVIDER, SHUFFLE_PARTITIONS, STATE_PARTITIONS):
        session.conf.unset(name)


def test_a_program_of_an_ordinary_session_runs(tmp_path: Path) -> None:
    """Its Python is started by path and finds Motet by `sys.path`; a stream has the matches of a batch but the last."""
    source = str(Path(motet.__file__).parent.parent)
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "JAVA_HOME": str(find_java().home)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), source],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "200 True set() 2 600"


def test_a_stream_gets_its_state_store_and_partitions(ordinary: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Settings with Spark's defaults are set, once, and reported as lines that can be pasted."""
    for _ in range(2):
        prepare_stream(ordinary, 3)
    assert (ordinary.conf.get(PROVIDER), ordinary.conf.get(STATE_PARTITIONS)) == (ROCKSDB, "3")
    for name, record in zip((PROVIDER, STATE_PARTITIONS), caplog.records, strict=True):
        assert f'spark.conf.set("{name}"' in record.message


def test_another_state_store_is_left_alone(ordinary: SparkSession) -> None:
    """A platform may have one of its own."""
    ordinary.conf.set(PROVIDER, "com.example.Provider")
    ordinary.conf.set(SHUFFLE_PARTITIONS, "3")
    prepare_stream(ordinary, 3)
    assert ordinary.conf.get(PROVIDER) == "com.example.Provider"
    assert ordinary.conf.get(STATE_PARTITIONS, None) is None


def test_a_session_that_protects_its_settings_is_refused() -> None:
    """The error has the line to paste."""

    class Protected:
        def get(self, name: str, default: str | None = None) -> str:
            return {PROVIDER: HDFS, SHUFFLE_PARTITIONS: "200"}.get(name, default or "")

        def set(self, name: str, value: str) -> None:
            raise ValueError("not here")

    class Session:
        conf = Protected()

    with pytest.raises(UsageError, match=r"(?s)not here.*spark\.conf\.set\(.*RocksDBStateStoreProvider"):
        prepare_stream(Session(), 4)  # type: ignore[arg-type]


def test_buckets_follow_the_data(ordinary: SparkSession) -> None:
    """A few rows have one bucket instead of 200; many rows two per core; a stream a fixed number."""
    rows = ordinary.range(600)
    assert batch_buckets(rows) == 1
    assert batch_buckets(ordinary.range(10_000_000)) == 4
    assert stream_buckets(rows) == STREAM_BUCKETS
    ordinary.conf.set(SHUFFLE_PARTITIONS, "3")
    assert (batch_buckets(ordinary.range(10_000_000)), stream_buckets(rows)) == (3, 3)
