"""How Spark starts: with the right Java and Python, quietly, on this machine only, leaving nothing behind.

Importing this module is cheap; PySpark is imported by the first call of :func:`session`.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from motet.model.errors import EngineError, UsageError
from motet.model.extras import require_extra
from motet.spark.java import Java, find_java
from motet.spark.workers import DAEMON_MODULE, filter_worker_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_EVERYWHERE = {  # also where the session was started by somebody else
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes what it changed
}
_CHOSEN: dict[str, str] = {}
_LOCAL = re.compile(r"local(?:-cluster)?(?:\[([^],]+).*\])?")
_CONNECT_PORT, _CONNECT_SECONDS = 15002, 10.0
_LOGGING = Path(__file__).with_name("log4j2.properties")


def session(
    *, master: str | None = None, app_name: str = "motet", config: Mapping[str, str] | None = None
) -> SparkSession:
    """The running session, or a new one: on all cores of this machine unless ``master``, `submit` or the variable
    `SPARK_REMOTE`, which names a Spark Connect server, say otherwise.

    ``config`` holds further Spark settings and wins over those made here.
    """
    require_extra("spark", "a Spark session")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted, master = _submitted(), resolve_master(master)
    if master.startswith("sc://"):
        return _connected(master, dict(config or {}))
    java = find_java()
    settings: dict[str, Any] = _settings(master, java) | submitted | dict(config or {}) | {"spark.master": master}
    python = settings.get("spark.pyspark.python", sys.executable)
    needs = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_REMOTE": None,  # PySpark would refuse it beside a master
    }
    try:
        with _environment(**needs), filter_worker_output():
            return SparkSession.builder.appName(app_name).config(map=settings).getOrCreate()
    except PySparkException as error:
        raise EngineError(
            f"Spark did not start on {master} with Java {java.version} ({java.reason}): {error}",
            advice="run `motet doctor` to see what is missing",
        ) from error


def resolve_master(master: str | None = None) -> str:
    """The master of a new session."""
    if found := master or _submitted().get("spark.master"):
        return found
    remote = os.environ.get("SPARK_REMOTE")
    if remote and not remote.startswith("sc://"):
        raise UsageError(
            f"SPARK_REMOTE is {_public(remote)!r}", advice="It names a Spark Connect server: sc://HOST:PORT"
        )
    return remote or "local[*]"


def set_submitted(settings: Mapping[str, str]) -> None:
    """Settings for all sessions of this process that start from now on: what `motet submit` is told."""
    _CHOSEN.clear()
    _CHOSEN.update(settings)


def _submitted() -> dict[str, str]:
    """What was chosen by whoever started this process: `motet submit`, or Spark's own `spark-submit`."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return dict(_CHOSEN)
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _connected(remote: str, config: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server, which has its own Java, Python and memory."""
    require_extra("connect", f"the Spark Connect server {_public(remote)}")
    from pyspark.sql import SparkSession

    _reach(remote)
    found = SparkSession.builder.remote(remote).getOrCreate()
    for name, value in (_EVERYWHERE | dict(config)).items():
        found.conf.set(name, value)
    return found


def _public(remote: str) -> str:
    """The address of a server without its parameters, which may hold a token."""
    return remote.partition(";")[0].removesuffix("/")


def _reach(remote: str) -> None:
    """Refuse a server that does not answer: PySpark would go on trying for a quarter of an hour without a word."""
    place = _public(remote)
    try:
        address = urlsplit(place)
        socket.create_connection((address.hostname or "", address.port or _CONNECT_PORT), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise EngineError(
            f"no Spark Connect server answers at {place}: {error}",
            advice="Check the address, sc://HOST:PORT, and that the server runs: Spark's sbin/start-connect-server.sh",
        ) from error


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; Spark Connect does not say, so there as many as a shuffle makes."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return spark.sparkContext.defaultParallelism


def cores(master: str = "local[*]") -> int | None:
    """How many tasks run at once, when the master says it.

    >>> cores("local[3]"), cores("local"), cores("spark://host:7077")
    (3, 1, None)
    """
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    if match[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(match[1] or 1)


def memory() -> int:
    """The bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _settings(master: str, java: Java) -> dict[str, str]:
    settings = {
        **_EVERYWHERE,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": _warehouse(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.defaultJavaOptions": f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}"',
    }
    return settings | _local_settings(master, java)


def _local_settings(master: str, java: Java) -> dict[str, str]:
    """What holds only when driver and tasks share this machine: loopback, its memory, its Java and Python."""
    parallel = cores(master)
    if parallel is None:
        return {}
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory()}m",
        "spark.sql.shuffle.partitions": str(2 * parallel),  # two rounds even out unequal partitions
        "spark.executorEnv.JAVA_HOME": str(java.home),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.python.daemon.module": DAEMON_MODULE,
    }


def _driver_memory() -> int:
    """A quarter of this machine's memory in MiB, between Spark's default of 1 GiB and 8 GiB."""
    return min(max(1024, memory() // 2**22), 8192)


@cache
def _warehouse() -> str:
    """Where tables go by default, removed when Python ends; Spark's own default is the working directory."""
    directory = tempfile.mkdtemp(prefix="motet-warehouse-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Spark reads these from the environment while it starts; afterwards the caller's own values are back."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
