"""Spark sessions: started with a suitable Java and Python, without log output, by default on this machine only.

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

from motet.model.errors import EngineError, UsageError, require_extra
from motet.spark.java import Java, find_java
from motet.spark.workers import DAEMON_MODULE, filter_worker_output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_SESSION_SETTINGS = {  # also of a session on a Spark Connect server
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",  # a batch writes only its changes
}
_SUBMITTED: dict[str, str] = {}
_LOCAL = re.compile(r"local(?:-cluster)?(?:\[([^],]+).*\])?")
_CONNECT_PORT, _CONNECT_SECONDS = 15002, 10.0
_LOGGING = Path(__file__).with_name("log4j2.properties")


def session(
    *, master: str | None = None, app_name: str = "motet", config: Mapping[str, str] | None = None
) -> SparkSession:
    """The active session, or a new one on the master of :func:`resolve_master`.

    ``config`` has further Spark settings, which take precedence over those made here.
    """
    require_extra("spark", "a Spark session")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    submitted, master = _submitted(), resolve_master(master)
    if master.startswith("sc://"):
        return _connect(master, dict(config or {}))
    java = find_java()
    settings: dict[str, Any] = _settings(master, java) | submitted | dict(config or {}) | {"spark.master": master}
    python = settings.get("spark.pyspark.python", sys.executable)
    environment = {
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_REMOTE": None,  # PySpark refuses it beside a master
    }
    try:
        with _environment(**environment), filter_worker_output():
            return SparkSession.builder.appName(app_name).config(map=settings).getOrCreate()
    except PySparkException as error:
        raise EngineError(
            f"Spark did not start on {master} with Java {java.version} ({java.reason}): {error}",
            advice="Run `motet doctor` to see what is missing.",
        ) from error


def resolve_master(master: str | None = None) -> str:
    """The master of a new session: ``master``, that of `motet submit`, SPARK_REMOTE or all cores of this machine."""
    if configured := master or _submitted().get("spark.master"):
        return configured
    remote = os.environ.get("SPARK_REMOTE")
    if remote and not remote.startswith("sc://"):
        raise UsageError(
            f"SPARK_REMOTE is {_without_token(remote)!r}", advice="It names a Spark Connect server: sc://HOST:PORT"
        )
    return remote or "local[*]"


def brief_settings(master: str | None = None) -> dict[str, str]:
    """Settings for a session on this machine that ends soon: its JVM does not optimise code; none on a cluster.

    >>> brief_settings("spark://host:7077")
    {}
    """
    if cores(resolve_master(master)) is None or _submitted():
        return {}
    return {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def set_submitted(settings: Mapping[str, str]) -> None:
    """Set the settings of `motet submit` for all sessions that this process starts from now on."""
    _SUBMITTED.clear()
    _SUBMITTED.update(settings)


def _submitted() -> dict[str, str]:
    """The settings of `motet submit`, or of Spark's own `spark-submit` if it has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return dict(_SUBMITTED)
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def _connect(remote: str, config: Mapping[str, str]) -> SparkSession:
    """A session on a Spark Connect server, which has its own Java, Python and memory."""
    require_extra("connect", f"the Spark Connect server {_without_token(remote)}")
    from pyspark.sql import SparkSession

    _check_connection(remote)
    spark = SparkSession.builder.remote(remote).getOrCreate()
    for name, value in (_SESSION_SETTINGS | dict(config)).items():
        spark.conf.set(name, value)
    return spark


def _without_token(remote: str) -> str:
    """The address of a server without its parameters, which may contain a token."""
    return remote.partition(";")[0].removesuffix("/")


def _check_connection(remote: str) -> None:
    """Refuse a server that does not answer: PySpark retries for a quarter of an hour without a message."""
    address = _without_token(remote)
    try:
        url = urlsplit(address)
        socket.create_connection((url.hostname or "", url.port or _CONNECT_PORT), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise EngineError(
            f"no Spark Connect server answers at {address}: {error}",
            advice="Check the address, sc://HOST:PORT, and that the server runs: Spark's sbin/start-connect-server.sh",
        ) from error


def parallelism(spark: SparkSession) -> int:
    """The number of tasks that run at once; on Spark Connect, which does not report it, the shuffle partitions."""
    from pyspark.sql.utils import is_remote

    if is_remote():
        return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return spark.sparkContext.defaultParallelism


def cores(master: str = "local[*]") -> int | None:
    """The number of tasks that run at once on a local master; None for others.

    >>> cores("local[3]"), cores("local"), cores("spark://host:7077")
    (3, 1, None)
    """
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    if match[1] == "*":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(match[1] or 1)


@contextmanager
def workers_with_motet(spark: SparkSession) -> Iterator[None]:
    """Give the Python functions that are made in the block the Python and the Motet of the driver, on this machine.

    PySpark starts workers with the `python3` of the PATH, also if the driver was started by the path of its Python; and
    workers do not have the driver's `sys.path`. On a cluster the executors need Motet (docs/operations.md).
    """
    from pyspark.sql.utils import is_remote

    if is_remote() or cores(spark.sparkContext.master or "") is None or _daemon(spark) == DAEMON_MODULE:
        yield
        return
    context = spark.sparkContext
    python, environment = context.pythonExec, dict(context.environment)
    if python == "python3" and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    paths = [str(Path(__file__).parent.parent.parent), environment.get("PYTHONPATH", "")]
    context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    try:
        yield
    finally:
        context.pythonExec = python
        context.environment.clear()
        context.environment.update(environment)


def _daemon(spark: SparkSession) -> str | None:
    return spark.sparkContext.getConf().get("spark.python.daemon.module")


def memory() -> int:
    """The bytes of memory this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _settings(master: str, java: Java) -> dict[str, str]:
    settings = {
        **_SESSION_SETTINGS,
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": _warehouse(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.defaultJavaOptions": f'-Dlog4j2.configurationFile="{_LOGGING.as_uri()}"',
    }
    return settings | _local_settings(master, java)


def _local_settings(master: str, java: Java) -> dict[str, str]:
    """Settings for driver and tasks on this machine: loopback, its memory, its Java and Python."""
    parallel = cores(master)
    if parallel is None:
        return {}
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": f"{_driver_memory()}m",
        "spark.sql.shuffle.partitions": str(2 * parallel),  # two rounds balance unequal partitions
        "spark.executorEnv.JAVA_HOME": str(java.home),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.python.daemon.module": DAEMON_MODULE,
    }


def _driver_memory() -> int:
    """A quarter of this machine's memory in MiB, between Spark's default of 1 GiB and 8 GiB."""
    return min(max(1024, memory() // 2**22), 8192)


@cache
def _warehouse() -> str:
    """The default directory of tables, removed when Python exits; Spark's own default is the working directory."""
    directory = tempfile.mkdtemp(prefix="motet-warehouse-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


@contextmanager
def _environment(**values: str | None) -> Iterator[None]:
    """Set environment variables that Spark reads while it starts, and restore them afterwards."""
    saved = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(saved)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
