"""How fast are keyed pairs found, and how much faster than by Siddhi and Flink?

Three questions: `a BEFORE b` over points, every A with the next B; `a OVERLAPS b` and `a DURING b` over intervals, all
pairs; each by key and WITHIN 10 s. Three ways: detection alone, from the occurrences of leaves; the whole processor,
from decoded batches of the log to notifications; and the peers, in the same run. Everybody must find the pairs that a
slow counter finds. Motet runs on one core.

Siddhi's figure is the sending of rows from memory, in one thread; Flink's includes reading its CSV file, in another
thread. Esper is not to be had here; its figures were measured once on a machine of this kind.
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

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run by path

from benchmarks.parts.detection import Detection
from benchmarks.parts.figures import best, load, rate, tell
from benchmarks.parts.records import CLASSES, KEY, batches, begun, pairs, records
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
from motet.model.batches import tick_record
from motet.model.times import END_OF_TIME

SIZES = (16_384, 65_536, 1_048_576)
ESPER_POINTS, ESPER_INTERVALS = 1.0e6, 0.32e6  # events a second
OVER_ESPER = {"before": 30, "overlaps": 20, "during": 20}
OVER_FLINK = 300


class Question(NamedTuple):
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

    def check(self, found: Pairs, by: str) -> None:
        for own, wanted in zip(found, self.expected, strict=True):
            if not np.array_equal(own, wanted):
                sys.exit(f"{by} finds {len(own):,} pairs of {self.name}, not the {len(wanted):,} there are")


def questions(events: int, keys: int) -> list[Question]:
    points, intervals = keyed_points(events, keys), keyed_intervals(events, keys)
    return [
        Question("before", "continuous", points, next_pairs(points)),
        Question("overlaps", "unrestricted", intervals, related_pairs(intervals, overlaps)),
        Question("during", "unrestricted", intervals, related_pairs(intervals, during)),
    ]


def detection(question: Question, size: int, rounds: int) -> float:
    """Events a second, by processor time."""
    (subscription,) = parse(question.text)
    alone = Detection(subscription, question.stream, size)
    question.check(alone.pairs(), "detection")
    return len(question.stream.key) / best(alone.prepare, rounds).processor


def processor(question: Question, log: pa.RecordBatch, size: int, rounds: int) -> float:
    parts = [*batches(log, size), tick_record(END_OF_TIME, len(log))]
    question.check(pairs(_run(question, parts)), "the processor")

    def prepare() -> Callable[[], object]:
        running = begun(parse(question.text))
        return lambda: [running.advance(part) for part in parts]

    return len(log) / best(prepare, rounds).processor


def _run(question: Question, parts: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    running = begun(parse(question.text))
    return [running.advance(part) for part in parts]


def peers(question: Question) -> dict[str, Measured]:
    """What the other engines make of it; they say why if they are not to be had."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "stream.csv"
        write(question.stream, stream)
        asked: dict[str, Callable[[Path], Measured]] = {
            "Siddhi": lambda pairs: siddhi.measure(stream, pairs, question.name)
        }
        if question.name == "before":
            asked["Flink"] = lambda pairs: flink.measure(stream, pairs)
        for name, measure in asked.items():
            written = Path(folder) / name
            try:
                found[name] = measure(written)
            except Unavailable as reason:
                print(f"{name} cannot be measured here: {reason}")
                continue
            question.check(read_pairs(written), name)
    return found


def ask(question: Question, options: argparse.Namespace) -> None:
    events = len(question.stream.key)
    title = f"a {question.name.upper()} b, {question.context}, {events:,} events"
    goal = question.esper * OVER_ESPER[question.name]
    log = records(question.stream)
    sizes = [size for size in SIZES if size < 2 * events]
    ways: dict[str, Callable[[int], float]] = {
        "detection alone": lambda size: detection(question, size, options.rounds),
        "decoded batches to notifications": lambda size: processor(question, log, size, max(2, options.rounds // 2)),
    }
    quickest = dict.fromkeys(ways, 0.0)
    for way, measure in ways.items():
        for size in sizes:
            speed = measure(size)
            quickest[way] = max(quickest[way], speed)
            against = f"≥ {OVER_ESPER[question.name]} × Esper = {goal / 1e6:.1f} M/s"
            tell(f"{title}, {way}, {size:,} a batch", rate(speed, 1), against, speed / goal)
    if options.peers:
        told(title, peers(question), quickest)


def told(title: str, others: dict[str, Measured], quickest: dict[str, float]) -> None:
    """The peers' figures by the clock, and how they compare by processor time."""
    for name, peer in others.items():
        tell(f"{title}, {name}", rate(peer.events, peer.seconds))
        apart = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in peer.apart.items())
        print(f"    clock {peer.seconds:.2f} s; apart: {apart}")
        for way, speed in quickest.items():
            ratio = speed / (peer.events / peer.apart["processor"])
            goal = f"≥ {OVER_FLINK} × {name}" if name == "Flink" else ""
            tell(f"    {way}, against {name}", f"{ratio:.1f} times", goal, ratio / OVER_FLINK if goal else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="without Siddhi and Flink")
    options = parser.parse_args()
    print(load())
    for question in questions(options.events, options.keys):
        ask(question, options)
    print(load())


if __name__ == "__main__":
    main()
