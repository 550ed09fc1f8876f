"""Real Spark on this machine, as processes on loopback that are stopped whatever happens: a cluster of a master and
workers, or a Spark Connect server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from motet.spark.java import find_java

PATIENCE = 600.0  # seconds for a process to begin: much, for a machine that is busy
ADDRESS = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
READY = re.compile(r"Successfully registered with master (spark://127\.0\.0\.1:\d+)")
CONNECTED = re.compile(r"Successfully started service '\S+SparkConnectService' on port (\d+)")
QUICK = "-XX:TieredStopAtLevel=1"  # nothing here runs long enough to be optimised
LOOPBACK = {  # for the driver's session
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
}

_DEPLOY, _CONNECT = "org.apache.spark.deploy", "org.apache.spark.sql.connect.service.SparkConnectServer"
_PLACE = ("--host", "127.0.0.1", "--webui-port", "0")


@dataclass(frozen=True)
class Cluster:
    master: str  # its address
    workers: tuple[int, ...]  # process ids

    def executors(self) -> list[int]:
        """The processes that run tasks now."""
        return [pid for worker in self.workers for pid in _children(worker)]


@contextmanager
def standalone(workers: int = 2, *, memory: str = "1100M") -> Iterator[Cluster]:
    """A cluster of workers with one core each, and room for one executor of a gigabyte."""
    with ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory(prefix="motet-cluster-", ignore_cleanup_errors=True))
        _, address = stack.enter_context(_daemon(ADDRESS, f"{_DEPLOY}.master.Master", *_PLACE, "--port", "0"))
        pids = []
        for number in range(workers):
            size = ("--cores", "1", "--memory", memory, "--work-dir", f"{work}/{number}")
            call = (f"{_DEPLOY}.worker.Worker", *_PLACE, *size, address)
            pids.append(stack.enter_context(_daemon(READY, *call))[0])
        yield Cluster(address, tuple(pids))


@contextmanager
def connect() -> Iterator[str]:
    """The address of a Spark Connect server on two cores."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    call = (f"{_DEPLOY}.SparkSubmit", "--master", "local[2]", *conf, "--class", _CONNECT, "spark-internal")
    with _daemon(CONNECTED, *call) as (_, port):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _daemon(ready: re.Pattern[str], *command: str) -> Iterator[tuple[int, str]]:
    """A process of Spark's own; its id, and the address or port it said when it was ready."""
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    spark = Path(found.origin).parent
    home = {"JAVA_HOME": str(find_java().home), "SPARK_HOME": str(spark)}
    home |= {"PYSPARK_PYTHON": sys.executable}  # of a server; executors are told by their driver
    home |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    call = [str(spark / "bin" / "spark-class"), *command]
    process = subprocess.Popen(call, env=os.environ | home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(PATIENCE, process.kill)
    watchdog.start()
    listener = None
    try:
        said = list(_until(ready, process.stdout))
        watchdog.cancel()
        listener = threading.Thread(target=process.stdout.read)  # so that it never waits for us
        listener.start()
        address = ready.search(said[-1] if said else "")
        assert address, f"{command[0]} did not begin:\n{''.join(said[-20:])}"
        yield process.pid, address[1]
    finally:
        watchdog.cancel()
        executors = _children(process.pid)
        process.kill()
        process.wait()
        for pid in executors:  # they would notice by themselves, later
            _kill(pid)
        if listener is not None:
            listener.join()
        process.stdout.close()


def _until(ready: re.Pattern[str], said: Iterable[str]) -> Iterator[str]:
    for line in said:
        yield line
        if ready.search(line):
            return


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in _text(task).split()]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread has ended
        return ""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        return
