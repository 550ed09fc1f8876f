"""The result of running another engine over the stream of a benchmark: a figure, or the reason why there is none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from motet.model.errors import JavaError
from motet.spark.java import Java, find_java

CACHE = Path(__file__).parents[2] / ".cache"
TIMEOUT = 900.0  # seconds; an install or a run takes about one minute


class Unavailable(Exception):  # noqa: N818  (the benchmark reports it and continues)
    """The reason why a peer cannot be measured here."""


class Measured(NamedTuple):
    events: int
    matches: int
    seconds: float  # wall time of the best run on a warm JVM, without its start
    rows_per_second: int
    details: dict[str, float]  # further times: processor time, start, first run


def java() -> Java:
    """The Java that Spark uses."""
    try:
        return find_java()
    except JavaError as error:
        raise Unavailable(f"no Java was found: {error}") from error


def run(*command: str | Path, environment: Mapping[str, str] = os.environ) -> str:
    """The output of a command."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, check=True, env=environment
        ).stdout
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{' '.join(map(str, command))} failed: {error.stderr.strip()[-2000:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
