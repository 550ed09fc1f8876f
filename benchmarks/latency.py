"""How long from `cloud.publish(bytes)` until the listener is called, one event at a time?

Subscriptions are ``k = ? and v in [10, 90]`` of a single EVENT; each event meets one of them. Wall time is what a
publisher sees; processor time of the publishing thread is what remains of it on a machine that others use as well.
Subscriptions are made from one parsed template, since parsing them is not what is asked here. The garbage collector is
left as it is; how much of the slowest events it had a part in is told. As everywhere here the best round counts, the
one with the least p50; those of the others are told beside it.

What a commit's file operations take by themselves is told as well, in the same folders right after: no engine over such
files can be quicker. All lakes are deleted at the very end, since some file systems need long, for minutes, to make a
file where many were deleted.
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

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run by path

from benchmarks.parts.figures import load, tell

import motet
from motet.embedded.cloud import Cloud
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
    """Parses texts of `text` by putting their numbers into one that was parsed."""

    def __init__(self) -> None:
        (self._like,) = parse(text(0))

    def __call__(self, document: str, **_: object) -> tuple[Subscription, ...]:
        return tuple(self._with(number) for number in re.findall(r"SUBSCRIPTION s(\d+)", document))

    def _with(self, number: str) -> Subscription:
        (event,) = self._like.events
        assert event.body is not None, "the template has one"
        body = replace(event.body, text=event.body.text.replace("k/0>", f"k/{number}>"))
        return replace(self._like, name=f"s{number}", events=(replace(event, body=body),))

    def in_place_of_parsing(self) -> AbstractContextManager[Any]:
        cloud = mock.patch.multiple("motet.embedded.cloud", parse=self)
        processor = mock.patch.multiple("motet.engine.runtime.active_subscription", parse=self)
        return _Both(cloud, processor)


class _Both:
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


class Pauses:
    """How often the garbage collector has run, by its own notice."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Pauses:
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        self.count += phase == "stop"


class Stages:
    """Processor time in the stages of publishing, by wrapping their one call each."""

    def __init__(self, cloud: Cloud) -> None:
        self.seconds = dict.fromkeys(("decode", "append", "derive", "deliver"), 0.0)
        self._cloud = cloud

    def patches(self) -> _Both:
        cloud = self._cloud
        wrapped = [
            ("decode", "motet.embedded.cloud", "decode_small"),
            ("append", cloud._committer, "append"),
            ("derive", cloud._backend, "advance"),
            ("deliver", cloud._dispatcher, "deliver"),
        ]
        return _Both(*(self._timed(stage, owner, name) for stage, owner, name in wrapped))

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
    """Publish one event after another and look at the clocks when the listener is called."""
    heard: list[tuple[float, float]] = []

    def listen(_: Notification) -> None:
        heard.append((time.perf_counter(), time.thread_time()))

    with template.in_place_of_parsing(), motet.open(folder, durable=durable) as cloud:
        for first in range(0, subscriptions, 5_000):
            several = range(first, min(first + 5_000, subscriptions))
            cloud.subscribe("\n".join(map(text, several)), listen)
        bodies = [event(number, number % subscriptions) for number in range(WARM_UP + (ROUNDS + 1) * events)]
        publish(cloud, bodies[:WARM_UP], heard)
        gc.collect()
        begins = range(WARM_UP, len(bodies) - events, events)
        rounds = [publish(cloud, bodies[begin : begin + events], heard) for begin in begins]
        wall, processor, collected = min(rounds, key=lambda one: percentile(one[0], 50))
        stages = Stages(cloud)
        with stages.patches():
            publish(cloud, bodies[-events:], heard)
    slowest = np.argsort(processor)[-max(events // 100, 1) :]
    files = bare(folder, events, durable=durable)
    return {
        "subscriptions": subscriptions,
        "fsync": durable,
        "p50 µs": percentile(wall, 50),
        "p99 µs": percentile(wall, 99),
        "p50 of rounds µs": [percentile(one[0], 50) for one in rounds],
        "files p50 µs": percentile(files, 50),
        "files p99 µs": percentile(files, 99),
        "processor p50 µs": percentile(processor, 50),
        "processor p99 µs": percentile(processor, 99),
        **{f"{stage} µs": seconds / events * 1e6 for stage, seconds in stages.seconds.items()},
        "collected %": 100 * float(np.mean(collected)),
        "slowest collected %": 100 * float(np.mean(np.array(collected)[slowest])),
    }


def bare(folder: Path, count: int, *, durable: bool) -> list[float]:
    """What the operating system takes for a commit of one event: a new file gets its name by a link."""
    commits = folder / "manifest"
    body = max(commits.glob("*[0-9].json")).read_bytes()
    took = []
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
        took.append(time.perf_counter() - begin)
    return took


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(handle)
    os.close(handle)


def publish(
    cloud: Cloud, bodies: Sequence[bytes], heard: list[tuple[float, float]]
) -> tuple[list[float], list[float], list[bool]]:
    """The time until the listener was called, by both clocks, and whether garbage was collected meanwhile."""
    wall, processor, collected = [], [], []
    with Pauses() as pauses:
        for body in bodies:
            before, begin, busy = pauses.count, time.perf_counter(), time.thread_time()
            cloud.publish(body)
            wall.append(heard[-1][0] - begin)
            processor.append(heard[-1][1] - busy)
            collected.append(pauses.count > before)
    return wall, processor, collected


def percentile(seconds: list[float], share: float) -> float:
    return float(np.percentile(seconds, share)) * 1e6


def show(row: dict[str, Any], largest: int) -> None:
    """Two lines of the table, the stages and the collector's part below; the goals are for many without fsync."""
    question = f"publish → listener, {row['subscriptions']:,} subscriptions{', fsync' if row['fsync'] else ''}"
    has_goal = row["subscriptions"] == largest and not row["fsync"]
    for share, goal in (("p50", GOAL_P50), ("p99", GOAL_P99)):
        took = row[f"{share} µs"]
        busy, files = row[f"processor {share} µs"], row[f"files {share} µs"]
        figure = f"{took:,.0f} µs, busy {busy:,.0f}, files {files:,.0f}"
        tell(f"{question}, {share}", figure, *((f"≤ {goal:,.0f} µs", goal / took) if has_goal else ()))
    stages = ", ".join(f"{stage} {row[f'{stage} µs']:,.0f} µs" for stage in ("decode", "append", "derive", "deliver"))
    rounds = ", ".join(f"{took:,.0f}" for took in row["p50 of rounds µs"])
    print(f"    rounds {rounds}; {stages}; garbage was collected in {row['collected %']:.1f} % of the events", end="")
    print(f" and in {row['slowest collected %']:.0f} % of the slowest hundredth")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10_000, help="subscriptions in the largest set")
    parser.add_argument("--events", type=int, default=2_000, help="events in a round")
    parser.add_argument("--directory", help="where to make the lakes, on the disk that is asked about")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    template, rows = Template(), []
    if not options.json:
        print(load())
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
    print(load())


if __name__ == "__main__":
    main()
