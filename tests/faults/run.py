"""`make faults`: the pipeline is killed at random moments while the log grows, and must still say what the log means.

Each fault leaves a notification table; what it should hold comes from the reference engine, which reads the same log.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.faults.author import SECOND, Author
from tests.faults.meaning import meant, stored
from tests.spark.standalone import LOOPBACK, Cluster, standalone

from motet.lake import Lake

LOCAL = ("stream", "--master", "local[2]", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
PATIENCE = 600  # seconds


class Storm:
    """A lake, somebody who writes it, and a pipeline that is killed again and again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.lake = Lake.open(folder / "lake", lateness=2 * SECOND)
        self.checkpoint = folder / "checkpoint"
        self.author = Author(self.lake, seed)
        self.random = Random(seed)

    @contextmanager
    def pipeline(self, *how: str) -> Iterator[subprocess.Popen[str]]:
        """`motet stream`, running; whatever is left of it in the end is killed."""
        where = ("--lake", str(self.lake.store.root), "--checkpoint", str(self.checkpoint))
        command = [
            sys.executable,
            "-m",
            "motet.cli.main",
            *how,
            *where,
            "--buckets",
            "5",
            "--max-records",
            "40",
            "--json",
        ]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            ) as process,
        ):
            try:
                yield process
            except StoppedError as stopped:
                errors.seek(0)
                raise SystemExit(f"{stopped}:\n{errors.read()[-4000:]}") from stopped
            finally:
                _kill(process)

    def kill(self) -> None:
        """Start it, write beside it, and kill it with all its processes."""
        self.author.write(self.random.randint(2, 8))
        with self.pipeline(*LOCAL) as process:
            _wait_for_a_batch(process)
            before, until = time.monotonic(), self.random.uniform(0, 8)
            while time.monotonic() - before < until:
                self.author.write(1)
                if self.random.random() < 0.1:
                    self.lake.compact()
                time.sleep(self.random.uniform(0, 0.5))
            _expect_alive(process)

    def settle(self) -> None:
        """Let it derive all there is."""
        with self.pipeline(*LOCAL, "--once") as process:
            process.communicate(timeout=PATIENCE)
            if process.returncode:
                raise StoppedError("the pipeline did not come to an end")

    def refusal(self) -> str:
        """What it says instead of starting."""
        where = ("--lake", str(self.lake.store.root), "--checkpoint", str(self.checkpoint))
        command = [sys.executable, "-m", "motet.cli.main", *LOCAL, *where, "--once", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.stderr if done.returncode else ""

    def problems(self) -> list[str]:
        """What the table lacks, and what it should not hold."""
        expected, found = meant(self.lake), stored(self.lake)
        lacking = [f"lacks {line}" for line in sorted(set(expected) - set(found))]
        extra = [f"has {line}" for line in sorted(set(found) - set(expected))]
        twice = [] if len(set(found)) == len(found) else ["has something twice"]
        return [*lacking, *extra, *twice, *self.lake.check()]


def killed(storm: Storm, kills: int) -> None:
    for number in range(1, kills + 1):
        storm.kill()
        _say(f"kill {number} of {kills}, {storm.lake.snapshot().next_offset} records")
    storm.author.end()
    storm.settle()


def torn(storm: Storm, _: int) -> None:
    """A checkpoint file that lost its end is refused, and nothing is changed; without the checkpoint all is derived."""
    storm.author.write(40)
    storm.settle()
    for pattern in ("offsets/[0-9]*", "state/0/*/*.changelog"):
        storm.author.write(10)
        file = max(storm.checkpoint.glob(pattern), key=lambda path: path.stat().st_mtime)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        said = storm.refusal()
        if str(storm.checkpoint) not in said or "Nothing is lost" not in said:
            raise SystemExit(f"a torn {file.relative_to(storm.checkpoint)} is not refused with advice:\n{said[-4000:]}")
        shutil.rmtree(storm.checkpoint)
        storm.settle()
    storm.author.end()
    storm.settle()


def bereft(storm: Storm, kills: int) -> None:
    """Executors of a cluster are killed; Spark runs their tasks again elsewhere."""
    settings = {**LOOPBACK, "spark.task.maxFailures": "20", "spark.sql.shuffle.partitions": "2"}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with standalone(2) as cluster:
        _kill_executors(storm, cluster, ("submit", "--master", cluster.master, *conf, "--", "stream"), kills // 3)


def _kill_executors(storm: Storm, cluster: Cluster, how: tuple[str, ...], kills: int) -> None:
    with storm.pipeline(*how) as process:
        _wait_for_a_batch(process)
        for number in range(1, kills + 1):
            storm.author.write(15)
            time.sleep(storm.random.uniform(1, 8))
            if executors := cluster.executors():
                os.kill(storm.random.choice(executors), signal.SIGKILL)
            _say(f"executor {number} of {kills}")
        storm.author.end()
        _wait_until(lambda: storm.lake.snapshot().notifications_end == storm.lake.snapshot().next_offset, process)


FAULTS: dict[str, Callable[[Storm, int], None]] = {"kill": killed, "checkpoint": torn, "executors": bereft}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", choices=FAULTS, action="append")
    options = parser.parse_args()
    failed = False
    for name in options.only or FAULTS:
        with tempfile.TemporaryDirectory(prefix="motet-faults-") as folder:
            storm = Storm(Path(folder), options.seed)
            _say(f"{name}, seed {options.seed}")
            FAULTS[name](storm, options.kills)
            problems = storm.problems()
            _say(f"{name}: {len(stored(storm.lake))} notifications of {storm.lake.snapshot().next_offset} records, ")
            _say("as the reference engine says" if not problems else "\n".join(problems[:20]))
            failed |= bool(problems)
    sys.exit(failed)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  (a command)


class StoppedError(Exception):
    """The pipeline has ended when it should not."""


def _wait_for_a_batch(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if not process.stdout.readline():
        raise StoppedError("the pipeline did not start")
    threading.Thread(target=process.stdout.read, daemon=True).start()  # so that it never waits for us


def _wait_until(is_done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_done():
        _expect_alive(process)
        if time.monotonic() > end:
            raise StoppedError("the pipeline does not get on")
        time.sleep(0.5)


def _expect_alive(process: subprocess.Popen[str]) -> None:
    if process.poll() is not None:
        raise StoppedError("the pipeline has ended by itself")


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    main()
