"""The speed of Flink's MATCH_RECOGNIZE for `a BEFORE b WITHIN 10 s` by key, and a check of its pairs.

PyFlink pins old releases of NumPy, pandas and PyArrow, so it has an environment of its own, made on demand::

    python3.11 -m venv .cache/flink-venv                              # Python 3.9 to 3.12
    .cache/flink-venv/bin/python -m pip install apache-flink==2.3.0   # a minute, 850 MB; nothing needs a compiler

Its interpreter runs `flink_job.py`, on the Java that Spark uses. `Unavailable` gives the reason if there is no figure.

    python -m benchmarks.peers.flink points.csv --pairs build/flink-pairs
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from benchmarks.peers.outcome import CACHE, Measured, Unavailable, java, run

VERSION = "2.3.0"
PYTHONS = ((3, 9), (3, 12))
ENVIRONMENT = CACHE / "flink-venv"
JOB = Path(__file__).with_name("flink_job.py")


def measure(points: Path, pairs: Path, parallelism: int = 1, repetitions: int = 3) -> Measured:
    """Run Flink over a CSV file of points; it writes the pairs as CSV files to the new directory ``pairs``."""
    options = ["--parallelism", str(parallelism), "--repetitions", str(repetitions)]
    environment = {**os.environ, "JAVA_HOME": str(java().home)}
    output = run(interpreter(), JOB, points, "--pairs", pairs, *options, environment=environment)
    return Measured(**json.loads(output.splitlines()[-1]))


def interpreter() -> Path:
    """The Python of the environment with PyFlink, which is created at the first use."""
    python = ENVIRONMENT / "bin" / "python"
    ready = ENVIRONMENT / f".apache-flink-{VERSION}"
    if not ready.exists():
        run(_supported_python(), "-m", "venv", "--clear", ENVIRONMENT)
        run(python, "-m", "pip", "install", "--quiet", f"apache-flink=={VERSION}")
        ready.touch()
    return python


def _supported_python() -> str:
    if PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        return sys.executable
    for minor in range(PYTHONS[1][1], PYTHONS[0][1] - 1, -1):
        if python := shutil.which(f"python3.{minor}"):
            return python
    raise Unavailable("PyFlink needs a Python between 3.9 and 3.12, and none was found")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, help="CSV: row, key, kind, microseconds")
    parser.add_argument("--pairs", type=Path, required=True, help="a directory that does not exist yet")
    parser.add_argument("--parallelism", type=int, default=1)
    options = parser.parse_args()
    try:
        print(json.dumps(measure(options.points, options.pairs, options.parallelism)._asdict()))
    except Unavailable as reason:
        print(f"Flink cannot be measured here: {reason}")


if __name__ == "__main__":
    main()
