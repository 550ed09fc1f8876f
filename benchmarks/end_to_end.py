"""The time from N-Quads bytes to notifications, compared with iterating over pyoxigraph's parser.

Sensor events of six quads are matched with 10 000 subscriptions: most have one sensor and a range of values, one in
twenty is composite, `a BEFORE b WITHIN 10 s` at one sensor. In the same run pyoxigraph's parser reads the same bytes
and only counts the quads. The times of the stages are printed, and the time to register a subscription from text. The
subscriptions are made from two parsed templates, because parsing is not measured.
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

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import Seconds, least, machine_load, print_clock, print_figure, timed
from benchmarks.measurement.records import newest_end, ready_processor

from motet.codec.decode import decode_bytes
from motet.engine.runtime import dataflow as dataflow_module
from motet.engine.runtime import emission as emission_module
from motet.engine.runtime.processor import Processor
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.batches import Records, event_records, stamp, tick_record
from motet.model.terms import RDF_TYPE, XSD
from motet.model.times import END_OF_TIME

NS = "http://example.org/"
SEED = 20261115
COMPOSITE_INTERVAL = 20  # one in so many subscriptions is composite
GOAL = 2.0
REGISTERED = 20  # subscriptions registered from text


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
    """Single-event and composite subscriptions, two for each sensor."""
    (single_template,), (composite_template,) = parse(single(0, 77)), parse(composite(0))
    made = []
    for number in range(count):
        template = composite_template if number % COMPOSITE_INTERVAL == 0 else single_template
        made.append(_from_template(template, number, sensor=number // 2, low=10 + number % 20))
    return made


def _from_template(template: Subscription, number: int, sensor: int, low: int) -> Subscription:
    events = []
    for event in template.events:
        assert event.body is not None, "the templates have one"
        text = (
            event.body.text.replace("s/0>", f"s/{sensor}>")
            .replace(">= 77", f">= {low}")
            .replace("<= 80", f"<= {low + 3}")
        )
        events.append(replace(event, body=replace(event.body, text=text)))
    return replace(template, name=f"s{number}", events=tuple(events))


def nquads(events: int, sensors: int) -> bytes:
    """Events of six quads, a hundred per second."""
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
    """Decode and process all events; returns the number of notifications."""
    offset = notifications = 0
    for decoded in decode_bytes(data, "application/n-quads"):
        assert not decoded.rejected, "all events are valid"
        records = event_records(stamp(decoded.events, 0), offset)
        notifications += len(processor.advance(Records(columns=records), newest_end(records)))
        offset += len(decoded.events)
    return notifications + len(processor.advance(Records(columns=tick_record(END_OF_TIME, offset)), END_OF_TIME))


class Stages:
    """Processor time of the stages, measured by wrapping their calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measured(self, processor: Processor) -> Iterator[None]:
        wrapped: list[tuple[str, Any, str]] = [
            ("match", dataflow_module, "emit_solutions"),
            ("match for detection", processor._dataflow.plan.leaf_matcher, "occurrences"),
            ("detect and deliver", processor._dataflow, "_emit_run"),
            ("notifications of detection", emission_module, "emit_occurrences"),
            ("sort", dataflow_module, "merge_batches"),
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


def registration() -> float:
    """Seconds to register a subscription from a text that differs from all others."""
    processor = Processor()
    begin = time.process_time()
    for number in range(REGISTERED):
        text = composite(number) if number % COMPOSITE_INTERVAL == 0 else single(number, number)
        processor.activate(replace(subscription, name=f"s{number}") for subscription in parse(text))
    return (time.process_time() - begin) / REGISTERED


def stage_seconds(data: bytes, active: list[Subscription]) -> dict[str, float]:
    """Seconds of each stage."""
    processor, stages = ready_processor(active), Stages()
    with stages.measured(processor):
        total = timed(lambda: run(data, processor)).processor
    spent = stages.seconds
    detecting = spent["match for detection"] + spent["detect and deliver"] + spent["notifications of detection"]
    return {
        "decode": total - spent["processor"],
        "match": spent["match"],
        "leaves to occurrences": spent["match for detection"],
        "detect": spent["detect and deliver"],
        "deliver": spent["notifications of detection"] + spent["sort"],
        "rest of the processor": spent["processor"] - spent["match"] - detecting - spent["sort"],
    }


def measure(data: bytes, active: list[Subscription], rounds: int) -> tuple[Seconds, Seconds]:
    """The times of Motet and of pyoxigraph, in interleaved rounds."""
    motet, pyoxigraph_runs = [], []
    for _ in range(rounds):
        processor = ready_processor(active)
        motet.append(timed(partial(run, data, processor)))
        pyoxigraph_runs.append(timed(lambda: iterate(data)))
    return least(motet), least(pyoxigraph_runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine_load())
    print_clock("Motet", "N-Quads bytes in memory", "notification batches", "processor time, best round")
    print_clock("pyoxigraph", "the same bytes", "the last parsed quad", "processor time, best round")
    print_clock("registration", "the text of a subscription", "its activation", "processor time, mean")
    active = subscriptions(options.subscriptions)
    data = nquads(options.events, options.subscriptions // 2)
    notifications = run(data, ready_processor(active))
    motet, parser_seconds = measure(data, active, options.rounds)
    ratio = motet.processor / parser_seconds.processor
    title = f"N-Quads to notifications, {options.subscriptions:,} subscriptions, 5 % composite"
    print_figure(title, f"{ratio:.2f} × pyoxigraph", f"≤ {GOAL:.0f} × iterating pyoxigraph", GOAL / ratio)
    quads = 6 * options.events
    print(f"    {quads:,} quads, {notifications:,} notifications, {quads / motet.processor:,.0f} quads/s")
    print(f"    Motet {motet.processor:.2f} s, wall {motet.wall:.2f} s", end="; ")
    print(f"pyoxigraph {parser_seconds.processor:.2f} s, wall {parser_seconds.wall:.2f} s")
    spent = stage_seconds(data, active)
    total = sum(spent.values())
    print("    " + ", ".join(f"{stage} {seconds:.3f} s ({seconds / total:.0%})" for stage, seconds in spent.items()))
    print_figure("registration of a subscription from text", f"{registration() * 1e3:.1f} ms")
    print(machine_load())


if __name__ == "__main__":
    main()
