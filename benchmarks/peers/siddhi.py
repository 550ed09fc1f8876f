"""The speed of Siddhi for keyed pairs of points in order or intervals in an Allen relation, and a check of its pairs.

Esper's jars are in no package index that pip reaches. Those of Siddhi, another Java engine of that kind, are in the
wheel of PySiddhi, of which nothing else is used::

    python -m pip download --no-deps --only-binary :all: --platform manylinux1_x86_64 PySiddhi==5.1.0

The rows are read into memory, then sent one by one by `SiddhiRunner.java`, in one thread; only the sending is measured.
No Java compiler is needed: Janino, a part of Spark, compiles the runner. The JVM takes some runs to warm up.

    python -m benchmarks.peers.siddhi points.csv --pattern before --pairs build/siddhi-pairs.csv
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.outcome import CACHE, Measured, Unavailable, java, run

VERSION = "5.1.0"
RUNNER = Path(__file__).with_name("SiddhiRunner.java")

_POINTS = "".join(f"define stream {name} (row long, k long, us long);" for name in "ABX")
_INTERVALS = "".join(f"define stream {name} (row long, k long, s long, e long);" for name in "ABX")
_BY_KEY = """{streams}
partition with (k of A, k of B) begin from {pairing} select a.row as a, b.row as b insert into Pairs; end;"""
# Rows are in the order of their ends, and in both relations B ends last: it is joined with the A of the last ten
# seconds and a little more, because a window drops rows that are exactly as old as it is long.
_JOIN = "B#window.length(1) as b unidirectional join A#window.externalTime(e, 10001000) as a on {condition}"
_OVERLAPS = "a.s < b.s and b.s < a.e and a.e < b.e and b.e - a.s <= 10000000L"
_DURING = "a.s > b.s and a.e < b.e and b.e - b.s <= 10000000L"
APPS = {
    "before": _BY_KEY.format(streams=_POINTS, pairing="every a=A -> b=B within 10 sec"),
    "overlaps": _BY_KEY.format(streams=_INTERVALS, pairing=_JOIN.format(condition=_OVERLAPS)),
    "during": _BY_KEY.format(streams=_INTERVALS, pairing=_JOIN.format(condition=_DURING)),
}


def measure(stream: Path, pairs: Path, pattern: str, repetitions: int = 6) -> Measured:
    """Run Siddhi over a CSV file of points or intervals; it writes the pairs to the CSV file ``pairs``."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    try:
        with _runner() as runner:
            events = runner.read(str(stream.resolve()))
            runs = [(runner.run(APPS[pattern]), runner.processor()) for _ in range(repetitions)]
            matches = runner.write(str(pairs.resolve()))
    except Py4JError as error:
        raise Unavailable(f"Siddhi failed: {error}") from error
    seconds, processor = map(min, zip(*runs, strict=True))
    details = {"processor": round(processor, 3), "first run": round(runs[0][0], 3)}
    return Measured(events, matches, round(seconds, 3), round(events / seconds), details)


@contextmanager
def _runner() -> Iterator[Any]:
    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

    classpath = os.pathsep.join(map(str, [*_siddhi(), *_janino()]))
    gateway = JavaGateway.launch_gateway(
        classpath=classpath, javaopts=["-Xmx4g"], java_path=str(java().executable), die_on_exit=True
    )
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(RUNNER.read_text())
        yield compiler.getClassLoader().loadClass("SiddhiRunner").newInstance()
    finally:
        gateway.shutdown()
        gateway.java_process.kill()  # threads of Siddhi keep it alive
        gateway.java_process.wait()  # Py4J closes its pipes in another thread


def _siddhi() -> list[Path]:
    """The jars of Siddhi from the wheel of PySiddhi."""
    home = CACHE / f"siddhi-{VERSION}"
    if not home.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as draft:
            platform = [
                "--only-binary",
                ":all:",
                "--platform",
                "manylinux1_x86_64",
            ]  # the jars are the same on all platforms
            download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", draft]
            run(*download, *platform, f"PySiddhi=={VERSION}")
            (wheel,) = Path(draft).glob("*.whl")
            zipfile.ZipFile(wheel).extractall(Path(draft) / "wheel")
            (Path(draft) / "wheel").rename(home)
    return sorted((home / "__PySiddhiProxy" / "target" / "lib").glob("*.jar"))


def _janino() -> list[Path]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    return [*jars.glob("janino-*.jar"), *jars.glob("commons-compiler-*.jar")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stream", type=Path, help="CSV: row, key, kind, microseconds (start and end for an interval)")
    parser.add_argument("--pattern", choices=APPS, default="before")
    parser.add_argument("--pairs", type=Path, required=True, help="the CSV file to write")
    options = parser.parse_args()
    try:
        print(json.dumps(measure(options.stream, options.pairs, options.pattern)._asdict()))
    except Unavailable as reason:
        print(f"Siddhi cannot be measured here: {reason}")


if __name__ == "__main__":
    main()
