"""How long from N-Quads bytes to notifications, compared with iterating over pyoxigraph's parser?

Sensor events of six quads meet 10 000 subscriptions: most ask for one sensor and a range of values, one in twenty is
composite, `a BEFORE b WITHIN 10 s` at one sensor. The same bytes are read by pyoxigraph's parser in the same run, which
only counts the quads. The shares of the stages are told; so is what it takes to register a subscription from text.
Subscriptions are made from two parsed templates, since parsing them is not what is asked here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyoxigraph

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run by path

from benchmarks.parts.figures import Seconds, least, load, tell, timed
from benchmarks.parts.records import begun

from motet.codec.decode import decode_bytes
from motet.engine.runtime import emission as emission_module
from motet.engine.runtime import processor as processor_module
from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.batches import event_records, stamp, tick_record
from motet.model.terms import RDF_TYPE, XSD
from motet.model.times import END_OF_TIME

NS = "http://example.org/"
SEED = 20261115
COMPOSITE = 20  # one in so many
GOAL = 2.0
READ_FROM_TEXT = 20


def single(sensor: int, low: int) -> str:
    body = f"?e <{NS}sensor> <{NS}s/{sensor}> ; <{NS}value> ?v FILTER(?v >= {low} && ?v <= {low + 3})"
    return f"SUBSCRIPTION s EVENT e : <{NS}Reading> {{ {body} }} WHEN e SELECT ?e ?v"


def composite(sensor: int) -> str:
    bodies = {"a": "FILTER(?x > 24)", "b": "FILTER(?y < 18)"}
    values = {"a": "x", "b": "y"}
    declared = " ".join(
        f"EVENT {name} : <{NS}Reading> {{ ?{name} <{NS}sensor> <{NS}s/{sensor}> ; <{NS}value> ?{values[name]} {test} }}"
        for name, test in bodies.items()
    )
    return f"SUBSCRIPTION s {declared} WHEN a BEFORE b WITHIN 10 s CONTEXT continuous SELECT ?a ?b ?x ?y"


def subscriptions(count: int) -> list[Subscription]:
    """One after the other; sensors come around."""
    (one,), (pair,) = parse(single(0, 77)), parse(composite(0))
    found = []
    for number in range(count):
        like = pair if number % COMPOSITE == 0 else one
        found.append(_put(like, number, sensor=number // 2, low=10 + number % 20))
    return found


def _put(like: Subscription, number: int, sensor: int, low: int) -> Subscription:
    events = []
    for event in like.events:
        assert event.body is not None, "the templates have one"
        text = (
            event.body.text.replace("s/0>", f"s/{sensor}>")
            .replace(">= 77", f">= {low}")
            .replace("<= 80", f"<= {low + 3}")
        )
        events.append(replace(event, body=replace(event.body, text=text)))
    return replace(like, name=f"s{number}", events=tuple(events))


def nquads(events: int, sensors: int) -> bytes:
    """Six quads an event, a hundred events a second."""
    random = np.random.default_rng(SEED)
    rows = zip(random.integers(sensors, size=events).tolist(), random.normal(21, 4, events).tolist(), strict=True)
    return "".join(_event(number, sensor, value) for number, (sensor, value) in enumerate(rows)).encode()


def _event(number: int, sensor: int, value: float) -> str:
    event = f"<{NS}events/{number:08d}>"
    second, hundredth = divmod(number, 100)
    day = f"2026-11-15T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}.{hundredth:02d}Z"
    values = {
        RDF_TYPE: f"<{NS}Reading>",
        f"<{NS}sensor>": f"<{NS}s/{sensor}>",
        "<http://www.w3.org/ns/sosa/resultTime>": f'"{day}"^^<{XSD}dateTime>',
        f"<{NS}value>": f'"{value:.2f}"^^<{XSD}decimal>',
        "<http://www.w3.org/2000/01/rdf-schema#label>": f'"Reading {number}"@en',
        f"<{NS}status>": '"ok"',
    }
    return "".join(f"{event} {predicate} {object_} {event} .\n" for predicate, object_ in values.items())


def iterate(data: bytes) -> int:
    return sum(1 for _ in pyoxigraph.parse(data, pyoxigraph.RdfFormat.N_QUADS))


def run(data: bytes, processor: Processor) -> int:
    """Decode, and let the processor have it; how many notifications there are."""
    offset = told = 0
    for decoded in decode_bytes(data, "application/n-quads"):
        assert not decoded.rejected, "all events are good"
        told += len(processor.advance(event_records(stamp(decoded.events, 0), offset)))
        offset += len(decoded.events)
    return told + len(processor.advance(tick_record(END_OF_TIME, offset)))


class Stages:
    """Processor time in the stages, by wrapping their calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def watched(self, processor: Processor) -> Iterator[None]:
        wrapped: list[tuple[str, Any, str]] = [
            ("match", processor_module, "notify"),
            ("match for detection", processor._plan.leaf_matcher, "occurrences"),
            ("detect and deliver", processor._state.detector, "advance"),
            ("notifications of detection", emission_module, "notification_batch"),
            ("sort", processor_module, "merge_notifications"),
            ("processor", processor, "advance"),
        ]
        with ExitStack() as stack:
            for stage, owner, name in wrapped:
                stack.enter_context(mock.patch.object(owner, name, self._timed(stage, getattr(owner, name))))
            yield

    def _timed(self, stage: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **options: Any) -> Any:
            begin = time.process_time()
            try:
                return action(*arguments, **options)
            finally:
                self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - begin

        return timed


def registering() -> float:
    """Seconds for a subscription from text, which differs from all others."""
    processor = Processor(lateness=0)
    begin = time.process_time()
    for number in range(READ_FROM_TEXT):
        text = composite(number) if number % COMPOSITE == 0 else single(number, number)
        processor.activate(replace(one, name=f"s{number}") for one in parse(text))
    return (time.process_time() - begin) / READ_FROM_TEXT


def shares(data: bytes, several: list[Subscription]) -> dict[str, float]:
    """Seconds in each stage, the parts of the processor apart."""
    processor, stages = begun(several), Stages()
    with stages.watched(processor):
        whole = timed(lambda: run(data, processor)).processor
    spent = stages.seconds
    detecting = spent["match for detection"] + spent["detect and deliver"] + spent["notifications of detection"]
    return {
        "decode": whole - spent["processor"],
        "match": spent["match"],
        "leaves to occurrences": spent["match for detection"],
        "detect": spent["detect and deliver"],
        "deliver": spent["notifications of detection"] + spent["sort"],
        "rest of the processor": spent["processor"] - spent["match"] - detecting - spent["sort"],
    }


def measure(data: bytes, several: list[Subscription], rounds: int) -> tuple[Seconds, Seconds]:
    """Ours and pyoxigraph's, in turns."""
    ours, theirs = [], []
    for _ in range(rounds):
        processor = begun(several)
        ours.append(timed(partial(run, data, processor)))
        theirs.append(timed(lambda: iterate(data)))
    return least(ours), least(theirs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(load())
    several = subscriptions(options.subscriptions)
    data = nquads(options.events, options.subscriptions // 2)
    told = run(data, begun(several))
    ours, theirs = measure(data, several, options.rounds)
    ratio = ours.processor / theirs.processor
    title = f"N-Quads to notifications, {options.subscriptions:,} subscriptions, 5 % composite"
    tell(title, f"{ratio:.2f} × pyoxigraph", f"≤ {GOAL:.0f} × iterating pyoxigraph", GOAL / ratio)
    quads = 6 * options.events
    print(f"    {quads:,} quads, {told:,} notifications, {quads / ours.processor:,.0f} quads/s")
    print(f"    ours {ours.processor:.2f} s, by the clock {ours.clock:.2f} s", end="; ")
    print(f"pyoxigraph {theirs.processor:.2f} s, by the clock {theirs.clock:.2f} s")
    spent = shares(data, several)
    whole = sum(spent.values())
    print("    " + ", ".join(f"{stage} {seconds:.3f} s ({seconds / whole:.0%})" for stage, seconds in spent.items()))
    tell("registering a subscription from text", f"{registering() * 1e3:.1f} ms")
    print(load())


if __name__ == "__main__":
    main()
