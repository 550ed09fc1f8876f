"""The throughput from N-Quads files to the notification table, on Spark in local mode with two cores.

Sensor events of six quads, as in ``end_to_end.py``, are matched with 1, 100 and 10 000 subscriptions, one in twenty
composite. Files are decoded into the log while the streaming pipeline computes notifications. The first files are not
counted: Spark's workers start and read the subscriptions, and Java compiles for some more batches. In the same run and
over the same bytes pyoxigraph's parser is iterated in two processes, and the embedded host runs. With ``--long`` the
sizes of memory, state and checkpoint are recorded over a stream a hundred times longer than its windows, with a plot.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.end_to_end import iterate, nquads, subscriptions
from benchmarks.measurement.figures import machine_load, print_clock, print_figure

from motet.codec.decode import decode_bytes
from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.language.printer import to_text
from motet.spark.session import session
from motet.spark.stream.job import ended_batches, start_query

CORES = 2
QUADS = 6  # per event
LATENESS = 1_000_000
STRIDER = 3_100_000 / 9  # triples per second and machine, as published
SENSORS = 5_000
WARM_UP = 6  # files


class Figure(NamedTuple):
    """Wall time of the counted files, and processor time of the stages."""

    seconds: float
    stages: dict[str, float]
    notifications: int


def write_files(folder: Path, events: int, files: int) -> list[Path]:
    """Write the stream to files, each an interval of time."""
    lines = nquads(events * files, SENSORS).splitlines(keepends=True)
    bounds = range(0, len(lines) + 1, events * QUADS)
    paths = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        paths.append(folder / f"{number:03}.nq")
        paths[-1].write_bytes(b"".join(lines[first:last]))
    return paths


def create_lake(folder: Path, count: int) -> Lake:
    lake = Lake.open(folder, lateness=LATENESS, durable=False)
    lake.subscribe_all({subscription.name: to_text(subscription) for subscription in subscriptions(count)})
    return lake


def append(lake: Lake, path: Path) -> None:
    for decoded in decode_bytes(path.read_bytes(), "application/n-quads"):
        lake.append(decoded.events)


def on_spark(folder: Path, files: Sequence[Path], count: int, buckets: int | None) -> Figure:
    """Append the files to the log one after the other while the query runs; the first ones are not counted."""
    lake = create_lake(folder / "lake", count)
    spark = session(master=f"local[{CORES}]")
    query = start_query(spark, [lake.store.root], folder / "checkpoint", buckets=buckets, max_records=10**9)
    try:
        for path in files[:WARM_UP]:
            append(lake, path)
            query.processAllAvailable()
        before = list(ended_batches(query, -1))[-1].number
        begin = time.perf_counter()
        for path in files[WARM_UP:]:
            append(lake, path)
        appended = time.perf_counter() - begin
        query.processAllAvailable()
        seconds = time.perf_counter() - begin
    finally:
        query.stop()
    counted = list(ended_batches(query, before))
    stages = {name: sum(batch.stages[name] for batch in counted) for name in counted[0].stages}
    stages["decoding and appending, wall"] = appended
    return Figure(seconds, stages, sum(batch.notifications for batch in counted))


def embedded(folder: Path, files: Sequence[Path], count: int) -> Figure:
    """The live cloud with the same subscriptions and files."""
    lake = create_lake(folder, count)
    with Cloud(lake) as cloud:
        for path in files[:WARM_UP]:
            append(lake, path)
            cloud.flush()
        before, begin = _notification_count(lake), time.perf_counter()
        for path in files[WARM_UP:]:
            append(lake, path)
            cloud.flush()
        seconds = time.perf_counter() - begin
    return Figure(seconds, {}, _notification_count(lake) - before)


def _notification_count(lake: Lake) -> int:
    return sum(table.rows for table in lake.snapshot().tables)


def parsing(files: Sequence[Path]) -> float:
    """Seconds of iterating pyoxigraph's parser over the counted files, in two processes."""
    contents = [path.read_bytes() for path in files[WARM_UP:]]
    with ProcessPoolExecutor(CORES) as pool:
        list(pool.map(len, [b""] * CORES))
        begin = time.perf_counter()
        list(pool.map(iterate, contents))
        return time.perf_counter() - begin


def compare(count: int, files: Sequence[Path], events: int, buckets: int | None) -> None:
    folder = Path(tempfile.mkdtemp(prefix="motet-pipeline-"))
    try:
        spark = on_spark(folder, files, count, buckets)
        host = embedded(folder / "embedded", files, count)
    finally:
        shutil.rmtree(folder)
    quads = events * QUADS * (len(files) - WARM_UP)
    parse, rate = parsing(files), quads / spark.seconds
    title = f"{count:,} subscriptions, N-Quads to the notification table"
    print_figure(title, f"{rate:,.0f} quads/s", f"≥ {STRIDER:,.0f} (Strider, per machine)", rate / STRIDER)
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in spark.stages.items())
    print(f"    {quads:,} quads in {spark.seconds:.2f} s; {stages}")
    if spark.notifications != host.notifications:
        sys.exit(f"Spark gives {spark.notifications} notifications, the embedded host {host.notifications}")
    working = (spark.stages["matching"] + spark.stages["detecting"]) / CORES
    print_figure("  matching and detecting, ratio to pyoxigraph", f"{working / parse:.2f} x", "< 1 x", parse / working)
    print(f"    pyoxigraph on {CORES} cores {parse:.2f} s; {spark.notifications:,} notifications on both")
    print_figure("  Spark, ratio to the embedded host", f"{spark.seconds / host.seconds:.2f} x")


def flat(rounds: int, events: int, picture: Path) -> None:
    """One stream of many windows: state, checkpoint and the memory of all processes after each round."""
    folder = Path(tempfile.mkdtemp(prefix="motet-pipeline-"))
    sizes_by_batch = []
    try:
        lake = create_lake(folder / "lake", 1_000)
        checkpoint = folder / "checkpoint"
        query = start_query(session(master=f"local[{CORES}]"), [lake.store.root], checkpoint, max_records=10**9)
        for path in write_files(folder, events, rounds):
            append(lake, path)
            path.unlink()
            query.processAllAvailable()
            last = list(ended_batches(query, -1))[-1]
            size = sum(file.stat().st_size for file in checkpoint.rglob("*") if file.is_file())
            sizes_by_batch.append({"state": last.state_bytes or 0, "checkpoint": size, "memory": resident(os.getpid())})
        query.stop()
    finally:
        shutil.rmtree(folder)
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_text(_plot(sizes_by_batch), "utf-8")
    second_half = sizes_by_batch[len(sizes_by_batch) // 2 :]  # Spark keeps files of the last hundred batches
    for name in sizes_by_batch[0]:
        sizes = [row[name] for row in second_half]
        print_figure(
            f"{name}, {rounds} batches", f"{min(sizes):,} to {max(sizes):,} bytes", "flat", 2 * min(sizes) / max(sizes)
        )
    print(f"    {picture}: {json.dumps(sizes_by_batch[-1])}")


def resident(process: int) -> int:
    """The memory of a process and its descendants: Java and its Python workers."""
    try:
        directory = Path(f"/proc/{process}")
        pages = int((directory / "statm").read_text().split()[1])
        below = [int(child) for task in directory.glob("task/*/children") for child in task.read_text().split()]
    except OSError:  # the process has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(map(resident, below))


def _plot(rows: Sequence[dict[str, int]]) -> str:
    """An SVG with a line for each size, scaled to its maximum."""
    width, height, colours = 800, 300, ("#b33", "#36b", "#393")
    lines = []
    for colour, name in zip(colours, rows[0], strict=True):
        greatest = max(row[name] for row in rows) or 1
        points = " ".join(
            f"{20 + (width - 40) * index / max(1, len(rows) - 1):.1f},{height - 20 - 240 * row[name] / greatest:.1f}"
            for index, row in enumerate(rows)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        label = f"{name}, at most {greatest:,} bytes"
        lines.append(f'<text x="30" y="{18 * len(lines) // 2 + 8}" fill="{colour}" font-size="13">{label}</text>')
    body = "\n".join(lines)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">\n{body}\n</svg>\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, help="per file")
    parser.add_argument("--files", type=int, default=14, help=f"the first {WARM_UP} warm up")
    parser.add_argument("--subscriptions", type=int, nargs="*", default=[1, 100, 10_000])
    parser.add_argument("--buckets", type=int, help="default: as the product chooses")
    parser.add_argument(
        "--long", type=int, default=0, metavar="N", help="batches of a long stream whose sizes are recorded"
    )
    parser.add_argument("--picture", type=Path, default=Path("build/pipeline.svg"))
    options = parser.parse_args()
    print(machine_load())
    print_clock("Spark", "appending the first counted file", "the notifications of the last one", "wall time")
    print_clock(
        "the embedded host", "appending the first counted file", "the notifications of the last one", "wall time"
    )
    print_clock("pyoxigraph", "the bytes of the counted files", "the last parsed quad", "wall time, two processes")
    with tempfile.TemporaryDirectory(prefix="motet-pipeline-") as folder:
        files = write_files(Path(folder), options.events, options.files)
        for count in options.subscriptions:
            compare(count, files, options.events, options.buckets)
    if options.long:
        flat(options.long, max(1_000, options.events // 50), options.picture)
    print(machine_load())


if __name__ == "__main__":
    main()
