"""The speed of keyed pair detection, compared with Siddhi and Flink.

Three patterns: `a BEFORE b` over points, every A with the next B; `a OVERLAPS b` and `a DURING b` over intervals, all
pairs; each by key and WITHIN 10 s. Each is measured as detection alone, from the occurrences of the leaves; as the
whole processor, from decoded batches of the log to notifications; and with the peers in the same run. All must find
the pairs that a slow counter finds. Motet runs on one core.

The clock of Siddhi covers sending rows from memory, in one thread; that of Flink includes reading its CSV file, in
another thread. Ratios to them are by processor time. Esper cannot be installed here; its figures were measured once on
a machine of this kind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.detection import Detection
from benchmarks.measurement.figures import best, machine_load, print_clock, print_figure, rate
from benchmarks.measurement.records import CLASSES, KEY, batches, newest_end, pairs, ready_processor, records
from benchmarks.peers import flink, siddhi
from benchmarks.peers.outcome import Measured, Unavailable
from benchmarks.streams import (
    Intervals,
    Pairs,
    Points,
    during,
    keyed_intervals,
    keyed_points,
    next_pairs,
    overlaps,
    read_pairs,
    related_pairs,
    write,
)

from motet.language.parse import parse
from motet.model.batches import Records, tick_record
from motet.model.times import END_OF_TIME

SIZES = (16_384, 65_536, 1_048_576)
ESPER_POINTS, ESPER_INTERVALS = 1.0e6, 0.32e6  # events a second
OVER_ESPER = {"before": 30, "overlaps": 20, "during": 20}
OVER_FLINK = 300


class Workload(NamedTuple):
    name: str
    context: str
    stream: Points | Intervals
    expected: Pairs

    @property
    def text(self) -> str:
        events = (
            f"EVENT {name} : {class_} {{ ?{name} {KEY} ?k }}" for name, class_ in zip("ab", CLASSES, strict=False)
        )
        pattern = f"a {self.name.upper()} b WITHIN 10 s CONTEXT {self.context}"
        return f"SUBSCRIPTION s {' '.join(events)} WHEN {pattern} SELECT ?a ?b"

    @property
    def esper(self) -> float:
        return ESPER_POINTS if self.name == "before" else ESPER_INTERVALS

    def check(self, actual: Pairs, engine: str) -> None:
        for column, expected in zip(actual, self.expected, strict=True):
            if not np.array_equal(column, expected):
                sys.exit(f"{engine} finds {len(column):,} pairs of {self.name}, not the expected {len(expected):,}")


def workloads(events: int, keys: int) -> list[Workload]:
    points, intervals = keyed_points(events, keys), keyed_intervals(events, keys)
    return [
        Workload("before", "continuous", points, next_pairs(points)),
        Workload("overlaps", "unrestricted", intervals, related_pairs(intervals, overlaps)),
        Workload("during", "unrestricted", intervals, related_pairs(intervals, during)),
    ]


def detection(workload: Workload, size: int, rounds: int) -> float:
    """Events per second of detection alone, by processor time."""
    (subscription,) = parse(workload.text)
    alone = Detection(subscription, workload.stream, size)
    workload.check(alone.pairs(), "detection")
    return len(workload.stream.key) / best(alone.prepare, rounds).processor


def processor(workload: Workload, log: pa.RecordBatch, size: int, rounds: int) -> float:
    """Events per second of the whole processor, by processor time."""
    record_batches = [*batches(log, size), tick_record(END_OF_TIME, len(log))]
    workload.check(pairs(_run(workload, record_batches)), "the processor")

    def prepare() -> Callable[[], object]:
        ready = ready_processor(parse(workload.text))
        return lambda: [ready.advance(Records(columns=batch), newest_end(batch)) for batch in record_batches]

    return len(log) / best(prepare, rounds).processor


def _run(workload: Workload, record_batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    ready = ready_processor(parse(workload.text))
    return [ready.advance(Records(columns=batch), newest_end(batch)).columns for batch in record_batches]


def measure_peers(workload: Workload) -> dict[str, Measured]:
    """The figures of the other engines; prints why one cannot be measured."""
    measured = {}
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "stream.csv"
        write(workload.stream, stream)
        measures: dict[str, Callable[[Path], Measured]] = {
            "Siddhi": lambda pairs: siddhi.measure(stream, pairs, workload.name)
        }
        if workload.name == "before":
            measures["Flink"] = lambda pairs: flink.measure(stream, pairs)
        for name, measure in measures.items():
            written = Path(folder) / name
            try:
                measured[name] = measure(written)
            except Unavailable as reason:
                print(f"{name} cannot be measured here: {reason}")
                continue
            workload.check(read_pairs(written), name)
    return measured


def report(workload: Workload, options: argparse.Namespace) -> None:
    events = len(workload.stream.key)
    title = f"a {workload.name.upper()} b, {workload.context}, {events:,} events"
    goal = workload.esper * OVER_ESPER[workload.name]
    log = records(workload.stream)
    sizes = [size for size in SIZES if size < 2 * events]
    measures: dict[str, Callable[[int], float]] = {
        "detection alone": lambda size: detection(workload, size, options.rounds),
        "decoded batches to notifications": lambda size: processor(workload, log, size, max(2, options.rounds // 2)),
    }
    fastest = dict.fromkeys(measures, 0.0)
    for name, measure in measures.items():
        for size in sizes:
            speed = measure(size)
            fastest[name] = max(fastest[name], speed)
            goal_text = f"≥ {OVER_ESPER[workload.name]} × Esper = {goal / 1e6:.1f} M/s"
            print_figure(f"{title}, {name}, {size:,} per batch", rate(speed, 1), goal_text, speed / goal)
    if options.peers:
        report_peers(title, measure_peers(workload), fastest)


def report_peers(title: str, peers: dict[str, Measured], fastest: dict[str, float]) -> None:
    """Print the figures of the peers by wall time, and the ratios to them by processor time."""
    for name, peer in peers.items():
        print_figure(f"{title}, {name}", rate(peer.events, peer.seconds))
        details = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in peer.details.items())
        print(f"    wall {peer.seconds:.2f} s; {details}")
        for measure, speed in fastest.items():
            ratio = speed / (peer.events / peer.details["processor"])
            goal = f"≥ {OVER_FLINK} × {name}" if name == "Flink" else ""
            print_figure(
                f"    {measure}, ratio to {name} by processor time",
                f"{ratio:.1f} times",
                goal,
                ratio / OVER_FLINK if goal else None,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without Siddhi and Flink")
    options = parser.parse_args()
    print(machine_load())
    print_clock("detection alone", "leaf occurrences in memory", "tables of pairs", "processor time, best round")
    print_clock("the processor", "decoded batches in memory", "notification batches", "processor time, best round")
    if options.peers:
        print_clock("Siddhi", "the first row sent from memory", "the last row sent", "wall time, best of 6 runs")
        print_clock(
            "Flink", "reading its CSV file", "the end of the job, less the start of a job", "wall time, best of 3 runs"
        )
    for workload in workloads(options.events, options.keys):
        report(workload, options)
    print(machine_load())


if __name__ == "__main__":
    main()
