"""What do many composite subscriptions cost that are made of few distinct parts?

The parts are keyed `a_i BEFORE b_i WITHIN 10 s` over events of as many kinds. One set has a subscription for each part,
the other one twenty: with other names, other deliveries, and with FILTER, UNLESS and OR on top. The same log is run
through the processor with either, from decoded batches to notifications. The output grows with the subscriptions,
whatever is shared: how much that is depends on how close events are, so two logs are measured.
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

sys.path.insert(0, str(Path(__file__).parents[1]))  # also when run by path

from benchmarks.parts.figures import Seconds, best, load, tell
from benchmarks.parts.records import KEY, NS, batches, begun, events, few_names
from benchmarks.streams import SECOND, A, keyed_points

from motet.language.parse import parse
from motet.language.syntax import Event, Subscription
from motet.model.batches import event_records, tick_record
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME

KEYS_OF_A_PART = 10
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
    """Twenty subscriptions of part 0, the simplest first. The c that some have on top never come."""
    return [
        _variant(pattern, delivery, *NAMES[place % len(NAMES)])
        for place, (pattern, delivery) in enumerate(product(PATTERNS, DELIVERIES))
    ]


def _variant(pattern: str, delivery: str, a: str, b: str, c: str) -> Subscription:
    declared = [
        f"EVENT {name} : <{NS}{letter}/0> {{ ?{name} {KEY} ?k }}"
        for letter, name in zip("abc", (a, b, c), strict=True)
        if f"{{{letter}}}" in pattern
    ]
    when, wanted = pattern.format(a=a, b=b, c=c), delivery.format(a=a, b=b)
    (found,) = parse(f"SUBSCRIPTION s {' '.join(declared)} WHEN {when} CONTEXT continuous {wanted}")
    return found


def of_part(like: Subscription, part: int, number: int) -> Subscription:
    def moved(event: Event) -> Event:
        assert event.class_iri is not None, "all have one"
        return replace(event, class_iri=event.class_iri.removesuffix("0") + str(part))

    return replace(like, name=f"s{part}-{number}", events=tuple(map(moved, like.events)))


def log(parts: int, count: int, gap: float) -> pa.RecordBatch:
    """Events of the parts' kinds, some seconds apart for each part and key."""
    points = keyed_points(count, parts * KEYS_OF_A_PART, gap=gap)
    part, key = np.divmod(points.key, KEYS_OF_A_PART)
    letters = np.where(points.kind == A, "a", "b")
    kinds = pa.array([f"<{NS}{letter}/{own}>" for letter, own in zip(letters.tolist(), part.tolist(), strict=True)])
    return event_records(events(points, {RDF_TYPE: kinds, KEY: few_names(f"<{NS}k/", key, ">")}), 0)


def measure(subscriptions: list[Subscription], parts: list[pa.RecordBatch], rounds: int) -> tuple[Seconds, int]:
    """The time for the log, and how many notifications there are."""
    told = 0

    def prepare() -> Callable[[], object]:
        processor = begun(subscriptions)

        def run() -> None:
            nonlocal told
            told = sum(len(processor.advance(part)) for part in parts)

        return run

    return best(prepare, rounds), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--parts", type=int, default=500)
    parser.add_argument("--batch", type=int, default=65_536)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(load())
    many = [of_part(like, part, number) for number, like in enumerate(variants()) for part in range(options.parts)]
    few = many[: options.parts]
    for gap in (60 * SECOND, 5 * SECOND):
        whole = log(options.parts, options.events, gap)
        cut = [*batches(whole, options.batch), tick_record(END_OF_TIME, len(whole))]
        (one, told), (all_, retold) = (measure(several, cut, options.rounds) for several in (few, many))
        ratio = all_.processor / one.processor
        tell(
            f"{len(many):,} subscriptions over {options.parts} parts, {told / len(whole):.3f} pairs an event",
            f"{ratio:.2f} × the time of {len(few)}", f"≤ {GOAL:.0f} ×", GOAL / ratio,
        )  # fmt: skip
        print(
            f"    {len(few)}: {one.processor:.2f} s, {told:,} notifications; "
            f"{len(many):,}: {all_.processor:.2f} s, {retold:,} notifications"
        )
    print(load())


if __name__ == "__main__":
    main()
