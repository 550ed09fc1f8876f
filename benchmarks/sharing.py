"""The cost of many composite subscriptions with few distinct sub-patterns.

The sub-patterns are keyed, `a_i BEFORE b_i WITHIN 10 s`, each over events of its own kinds. The first set has one
subscription for each sub-pattern, the second has twenty: with other names, other deliveries, and FILTER, UNLESS and OR
on top. The processor runs the same log with each set. The number of notifications grows with the subscriptions,
whatever is shared; it depends on the gaps between events, so there are two logs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import Seconds, best, machine_load, print_clock, print_figure
from benchmarks.measurement.records import KEY, NS, batches, events, newest_end, ready_processor, repeated_names
from benchmarks.streams import SECOND, A, keyed_points

from motet.language.parse import parse
from motet.language.syntax import Event, Subscription
from motet.model.batches import Records, event_records, tick_record
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME

KEYS_PER_SUB_PATTERN = 10
GOAL = 3.0
PATTERNS = (
    "{a} BEFORE {b} WITHIN 10 s",
    "({a} BEFORE {b} WITHIN 10 s) UNLESS {c} WITHIN 5 s",
    "({a} BEFORE {b} WITHIN 10 s) OR {c}",
    "(({a} BEFORE {b} WITHIN 10 s) OR {c}) FILTER(?k != <urn:none>)",
)
NAMES = (("a", "b", "c"), ("x", "y", "z"), ("first", "second", "third"), ("late", "early", "odd"))
DELIVERIES = ("SELECT ?{a} ?{b}", "SELECT ?k", "SIGNAL", "SELECT *", "SELECT ?{b} ?k")


def variants() -> list[Subscription]:
    """Twenty subscriptions of sub-pattern 0, the simplest first. There are no events of kind c."""
    return [
        _variant(pattern, delivery, *NAMES[index % len(NAMES)])
        for index, (pattern, delivery) in enumerate(product(PATTERNS, DELIVERIES))
    ]


def _variant(pattern: str, delivery: str, a: str, b: str, c: str) -> Subscription:
    declared = [
        f"EVENT {name} : <{NS}{letter}/0> {{ ?{name} {KEY} ?k }}"
        for letter, name in zip("abc", (a, b, c), strict=True)
        if f"{{{letter}}}" in pattern
    ]
    when, clause = pattern.format(a=a, b=b, c=c), delivery.format(a=a, b=b)
    (subscription,) = parse(f"SUBSCRIPTION s {' '.join(declared)} WHEN {when} CONTEXT continuous {clause}")
    return subscription


def for_sub_pattern(template: Subscription, sub_pattern: int, variant: int) -> Subscription:
    """A copy of a subscription for the events of another sub-pattern."""

    def with_class(event: Event) -> Event:
        assert event.class_iri is not None, "the variants have classes"
        return replace(event, class_iri=event.class_iri.removesuffix("0") + str(sub_pattern))

    return replace(template, name=f"s{sub_pattern}-{variant}", events=tuple(map(with_class, template.events)))


def log(sub_patterns: int, count: int, gap: float) -> pa.RecordBatch:
    """Events of the kinds of all sub-patterns, with a mean gap for each sub-pattern and key."""
    points = keyed_points(count, sub_patterns * KEYS_PER_SUB_PATTERN, gap=gap)
    sub_pattern, key = np.divmod(points.key, KEYS_PER_SUB_PATTERN)
    letters = np.where(points.kind == A, "a", "b")
    kinds = pa.array(
        [f"<{NS}{letter}/{index}>" for letter, index in zip(letters.tolist(), sub_pattern.tolist(), strict=True)]
    )
    return event_records(events(points, {RDF_TYPE: kinds, KEY: repeated_names(f"<{NS}k/", key, ">")}), 0)


def measure(
    subscriptions: list[Subscription], record_batches: list[pa.RecordBatch], rounds: int
) -> tuple[Seconds, int]:
    """The time for the log, and the number of notifications."""
    notifications = 0

    def prepare() -> Callable[[], object]:
        processor = ready_processor(subscriptions)

        def run() -> None:
            nonlocal notifications
            notifications = sum(
                len(processor.advance(Records(columns=batch), newest_end(batch))) for batch in record_batches
            )

        return run

    return best(prepare, rounds), notifications


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--sub-patterns", "--parts", type=int, default=500)
    parser.add_argument("--batch", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine_load())
    print_clock("the log", "decoded batches in memory", "notification batches", "processor time, best round")
    indexes = range(options.sub_patterns)
    many = [for_sub_pattern(each, index, variant) for variant, each in enumerate(variants()) for index in indexes]
    few = many[: options.sub_patterns]
    for gap in (60 * SECOND, 5 * SECOND):
        records = log(options.sub_patterns, options.events, gap)
        record_batches = [*batches(records, options.batch), tick_record(END_OF_TIME, len(records))]
        (few_seconds, few_count), (many_seconds, many_count) = (
            measure(subscriptions, record_batches, options.rounds) for subscriptions in (few, many)
        )
        ratio = many_seconds.processor / few_seconds.processor
        print_figure(
            f"{len(many):,} subscriptions, {len(few)} sub-patterns, {few_count / len(records):.3f} pairs per event",
            f"{ratio:.2f} × the time of {len(few)}", f"≤ {GOAL:.0f} ×", GOAL / ratio,
        )  # fmt: skip
        print(
            f"    {len(few)}: {few_seconds.processor:.2f} s, {few_count:,} notifications; "
            f"{len(many):,}: {many_seconds.processor:.2f} s, {many_count:,} notifications"
        )
    print(machine_load())


if __name__ == "__main__":
    main()
