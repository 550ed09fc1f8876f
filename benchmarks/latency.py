"""The time from `cloud.publish(bytes)` to the call of the listener, one event at a time.

Subscriptions are ``k = ? and v in [10, 90]`` with a single EVENT; each event matches one of them. Wall time is what a
publisher sees; processor time of the publishing thread does not depend on other users of the machine. Subscriptions
are made from one parsed template, because parsing is not measured. The garbage collector runs as usual; its share in
the slowest events is printed. The best round counts, the one with the least p50; the p50 of the others are printed
too.

The file operations of a commit alone are measured as well, in the same directories afterwards: no engine over such
files can be faster. All lakes are deleted at the end, because some file systems create files slowly, for minutes,
after many were deleted.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import machine_load, print_clock, print_figure

import motet
from motet.embedded.cloud import Cloud
from motet.engine.runtime.warm_up import warm_up
from motet.lake.store import SCRATCH
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.notifications import Notification
from motet.model.terms import XSD

NS = "http://example.org/"
WARM_UP, ROUNDS = 100, 5
GOAL_P50, GOAL_P99 = 200.0, 1000.0  # µs, without fsync, at the largest number of subscriptions


def text(number: int) -> str:
    body = f"?e <{NS}k> <{NS}k/{number}> ; <{NS}v> ?v FILTER(?v >= 10 && ?v <= 90)"
    return f"SUBSCRIPTION s{number} EVENT e {{ {body} }} WHEN e SELECT ?e ?v"


class Template:
    """Replaces the parser: makes the subscriptions of `text` from one parsed subscription."""

    def __init__(self) -> None:
        (self._template,) = parse(text(0))

    def __call__(self, document: str, **_: object) -> tuple[Subscription, ...]:
        return tuple(self._with(number) for number in re.findall(r"SUBSCRIPTION s(\d+)", document))

    def _with(self, number: str) -> Subscription:
        (event,) = self._template.events
        assert event.body is not None, "the template has a body"
        body = replace(event.body, text=event.body.text.replace("k/0>", f"k/{number}>"))
        return replace(self._template, name=f"s{number}", events=(replace(event, body=body),))

    def patch_parser(self) -> AbstractContextManager[Any]:
        cloud = mock.patch.multiple("motet.embedded.cloud", parse=self)
        registration = mock.patch.multiple("motet.embedded.registration", parse=self)
        processor = mock.patch.multiple("motet.language.parse", parse=self)
        return _Patches(cloud, registration, processor)


class _Patches:
    def __init__(self, *patches: Any) -> None:
        self._patches = patches

    def __enter__(self) -> None:
        for patch in self._patches:
            patch.start()

    def __exit__(self, *_: object) -> None:
        for patch in self._patches:
            patch.stop()


def event(number: int, key: int) -> bytes:
    name = f"<{NS}e/{number}>"
    day = f'"2026-11-15T{10 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"^^<{XSD}dateTime>'
    return (
        f"{name} <{NS}k> <{NS}k/{key}> {name} .\n"
        f'{name} <{NS}v> "50.5"^^<{XSD}decimal> {name} .\n'
        f"{name} <http://www.w3.org/ns/sosa/resultTime> {day} {name} .\n"
    ).encode()


class Collections:
    """Counts the runs of the garbage collector."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Collections:
        gc.callbacks.append(self._on_collection)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        self.count += phase == "stop"


class Stages:
    """Processor time of the stages of publishing, measured by wrapping their calls."""

    def __init__(self, cloud: Cloud) -> None:
        self.seconds = dict.fromkeys(("decode", "append", "compute", "deliver"), 0.0)
        self._cloud = cloud

    def patches(self) -> _Patches:
        cloud = self._cloud
        wrapped = [
            ("decode", "motet.embedded.cloud", "decode_call"),
            ("append", cloud._committer, "append"),
            ("compute", cloud._loop.backend, "advance"),
            ("deliver", cloud._loop.dispatcher, "deliver"),
        ]
        return _Patches(*(self._timed(stage, owner, name) for stage, owner, name in wrapped))

    def _timed(self, stage: str, owner: Any, name: str) -> Any:
        if isinstance(owner, str):
            from motet.embedded import cloud as owner
        action = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            begin = time.thread_time()
            try:
                return action(*arguments, **options)
            finally:
                self.seconds[stage] += time.thread_time() - begin

        return mock.patch.object(owner, name, timed)


def measure(template: Template, folder: Path, subscriptions: int, events: int, *, durable: bool) -> dict[str, Any]:
    """Publish one event after another, and read the clocks when the listener is called."""
    calls: list[tuple[float, float]] = []

    def listen(_: Notification) -> None:
        calls.append((time.perf_counter(), time.thread_time()))

    with template.patch_parser(), motet.open(folder, durable=durable) as cloud:
        for first in range(0, subscriptions, 5_000):
            numbers = range(first, min(first + 5_000, subscriptions))
            cloud.subscribe("\n".join(map(text, numbers)), listen)
        bodies = [event(number, number % subscriptions) for number in range(WARM_UP + (ROUNDS + 1) * events)]
        publish(cloud, bodies[:WARM_UP], calls)
        gc.collect()
        begins = range(WARM_UP, len(bodies) - events, events)
        rounds = [publish(cloud, bodies[begin : begin + events], calls) for begin in begins]
        wall, processor, collected = min(rounds, key=lambda round_: percentile(round_[0], 50))
        stages = Stages(cloud)
        with stages.patches():
            publish(cloud, bodies[-events:], calls)
    slowest = np.argsort(processor)[-max(events // 100, 1) :]
    files = file_operations(folder, events, durable=durable)
    return {
        "subscriptions": subscriptions,
        "fsync": durable,
        "p50 µs": percentile(wall, 50),
        "p99 µs": percentile(wall, 99),
        "p50 of rounds µs": [percentile(round_[0], 50) for round_ in rounds],
        "files p50 µs": percentile(files, 50),
        "files p99 µs": percentile(files, 99),
        "processor p50 µs": percentile(processor, 50),
        "processor p99 µs": percentile(processor, 99),
        **{f"{stage} µs": seconds / events * 1e6 for stage, seconds in stages.seconds.items()},
        "collected %": 100 * float(np.mean(collected)),
        "slowest collected %": 100 * float(np.mean(np.array(collected)[slowest])),
    }


def file_operations(folder: Path, count: int, *, durable: bool) -> list[float]:
    """Seconds of the file operations of a commit of one event: a new file, linked to its name."""
    commits = folder / "manifest"
    body = max(commits.glob("*[0-9].json")).read_bytes()
    seconds = []
    for number in range(count):
        scratch, name = f"{folder}/{SCRATCH}/{number}", f"{commits}/bare-{number}"
        begin = time.perf_counter()
        handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        os.write(handle, body)
        if durable:
            os.fsync(handle)
        os.close(handle)
        os.link(scratch, name)
        if durable:
            sync_folder(commits)
        os.unlink(scratch)  # noqa: PTH108  (as the lake does it)
        seconds.append(time.perf_counter() - begin)
    return seconds


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


def publish(
    cloud: Cloud, bodies: Sequence[bytes], calls: list[tuple[float, float]]
) -> tuple[list[float], list[float], list[bool]]:
    """The times until the listener was called, by both clocks, and whether garbage was collected meanwhile."""
    wall, processor, collected = [], [], []
    with Collections() as collections:
        for body in bodies:
            before, begin, busy = collections.count, time.perf_counter(), time.thread_time()
            cloud.publish(body)
            wall.append(calls[-1][0] - begin)
            processor.append(calls[-1][1] - busy)
            collected.append(collections.count > before)
    return wall, processor, collected


def percentile(seconds: list[float], share: float) -> float:
    return float(np.percentile(seconds, share)) * 1e6


def show(row: dict[str, Any], largest: int) -> None:
    """Print p50 and p99, the stages and the share of the collector; the goals are for the largest set without fsync."""
    title = f"publish → listener, {row['subscriptions']:,} subscriptions{', fsync' if row['fsync'] else ''}"
    has_goal = row["subscriptions"] == largest and not row["fsync"]
    for share, goal in (("p50", GOAL_P50), ("p99", GOAL_P99)):
        took = row[f"{share} µs"]
        busy, files = row[f"processor {share} µs"], row[f"files {share} µs"]
        figure = f"{took:,.0f} µs, CPU {busy:,.0f}, files {files:,.0f}"
        print_figure(f"{title}, {share}", figure, *((f"≤ {goal:,.0f} µs", goal / took) if has_goal else ()))
    stages = ", ".join(f"{stage} {row[f'{stage} µs']:,.0f} µs" for stage in ("decode", "append", "compute", "deliver"))
    rounds = ", ".join(f"{took:,.0f}" for took in row["p50 of rounds µs"])
    print(f"    rounds {rounds}; {stages}; garbage was collected in {row['collected %']:.1f} % of the events", end="")
    print(f" and in {row['slowest collected %']:.0f} % of the slowest hundredth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000, help="subscriptions in the largest set")
    parser.add_argument("--events", type=int, default=2_000, help="events in a round")
    parser.add_argument("--directory", help="where to create the lakes, on the disk to measure")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()  # before the parser is replaced: compiling parses subscriptions, too
    template, rows = Template(), []
    if not options.json:
        print(machine_load())
        print_clock("latency", "the call of publish", "the call of the listener", "wall time and CPU time, best round")
        print_clock("files", "creating the file of a commit", "its link and sync", "wall time")
    sizes = dict.fromkeys(min(size, options.largest) for size in (1, 100, options.largest))
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        for durable, size in product((False, True), sizes):
            lake = Path(folder, f"{size}-{durable}")
            rows.append(measure(template, lake, size, options.events, durable=durable))
            if not options.json:
                show(rows[-1], options.largest)
    if options.json:
        goal = next(row for row in rows if row["subscriptions"] == options.largest and not row["fsync"])
        ratios = {"p50 of goal": goal["p50 µs"] / GOAL_P50, "p99 of goal": goal["p99 µs"] / GOAL_P99}
        print(json.dumps({"rows": rows, **ratios}))
        return
    print(machine_load())


if __name__ == "__main__":
    main()
