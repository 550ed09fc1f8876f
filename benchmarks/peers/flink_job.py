"""The Flink job of the comparison, run by an interpreter with PyFlink; it prints one line of JSON. See `flink.py`.

Flink's WITHIN is ``<``, ours ``<=``; times are whole milliseconds, so its bound is one millisecond more. Rows of other
kinds are filtered out before the pattern, which is faster than skipping them in the pattern.

The first run over all points warms up the JVM and writes the pairs for the comparison; later runs discard them. The
time of a run over almost no points is the start of a job and is subtracted. Reading the CSV file is included, because
Flink reads while it matches, in another thread; the time of reading alone is given separately, and so is the processor
time of the whole JVM, which is more reliable than wall time on a shared machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

FEW = 1_000

SOURCE = """
CREATE TABLE {name} (
  id BIGINT, k BIGINT, kind STRING, us BIGINT,
  ts AS TO_TIMESTAMP_LTZ(us / 1000, 3), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND
) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
WRITTEN = """
CREATE TABLE written (a BIGINT, b BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'csv')"""
DROPPED = """
CREATE TABLE dropped (a BIGINT, b BIGINT) WITH ('connector' = 'blackhole')"""
READ = "INSERT INTO dropped SELECT id, k FROM points WHERE kind IN ('A', 'B')"
MATCH = """
INSERT INTO {sink}
SELECT a, b FROM (SELECT * FROM {source} WHERE kind IN ('A', 'B')) MATCH_RECOGNIZE (
  PARTITION BY k ORDER BY ts
  MEASURES A.id AS a, B.id AS b
  ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW
  PATTERN (A X* B) WITHIN INTERVAL '10.001' SECOND
  DEFINE A AS A.kind = 'A', X AS X.kind <> 'B', B AS B.kind = 'B')"""


class Seconds(NamedTuple):
    clock: float
    processor: float


def measure(points: Path, pairs: Path, parallelism: int, repetitions: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        few = Path(directory) / "few.csv"
        with points.open() as lines:
            few.write_text("".join(islice(lines, FEW)))
        tables = _tables({"points": points, "few": few}, pairs, parallelism)
        first = _run(tables, MATCH.format(source="points", sink="written"))
        starting, reading, whole = (
            _best([_run(tables, query) for _ in range(repetitions)])
            for query in (
                MATCH.format(source="few", sink="dropped"),
                READ,
                MATCH.format(source="points", sink="dropped"),
            )
        )
    count, seconds = _lines(points), whole.clock - starting.clock
    return {
        "events": count,
        "matches": sum(_lines(file) for file in pairs.rglob("*") if file.is_file()),
        "seconds": round(seconds, 3),
        "rows_per_second": round(count / seconds),
        "details": {
            "processor": round(whole.processor - starting.processor, 3),
            "starting a job": round(starting.clock, 3),
            "reading alone": round(reading.clock - starting.clock, 3),
            "first run, pairs written": round(first.clock, 3),
        },
    }


def _tables(sources: dict[str, Path], pairs: Path, parallelism: int) -> Any:
    from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found]

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", str(parallelism))
    for name, path in sources.items():
        tables.execute_sql(SOURCE.format(name=name, path=path.resolve().as_uri()))
    tables.execute_sql(WRITTEN.format(path=pairs.resolve().as_uri()))
    tables.execute_sql(DROPPED)
    return tables


def _run(tables: Any, query: str) -> Seconds:
    processor, clock = _processor(), time.perf_counter()
    tables.execute_sql(query).wait()
    return Seconds(time.perf_counter() - clock, _processor() - processor)


def _processor() -> float:
    """Seconds of processor time that the JVM has taken so far."""
    from pyflink.java_gateway import get_gateway  # type: ignore[import-not-found]

    return get_gateway().jvm.java.lang.ProcessHandle.current().info().totalCpuDuration().get().toMillis() / 1000


def _best(runs: list[Seconds]) -> Seconds:
    return Seconds(min(run.clock for run in runs), min(run.processor for run in runs))


def _lines(file: Path) -> int:
    return file.read_bytes().count(b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, help="CSV: row, key, kind, microseconds")
    parser.add_argument("--pairs", type=Path, required=True, help="a directory that does not exist yet")
    parser.add_argument("--parallelism", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    print(json.dumps(measure(options.points, options.pairs, options.parallelism, options.repetitions)))


if __name__ == "__main__":
    main()
