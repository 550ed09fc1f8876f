"""The time of the first batch compared with the second when the verifier decides every match.

The subscriptions have a single EVENT with OPTIONAL and REGEX, which the index cannot decide alone. Their bodies have
one shape and differ in constants, so that the first batch compiles each body without parsing it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import machine_load, print_clock, print_figure

from motet.engine.match.matcher import Matcher
from motet.engine.runtime.active_plan import single_event_matcher
from motet.engine.runtime.emission import emit_solutions
from motet.language.parse import parse
from motet.model.batches import EventRow, Records, event_batch

NS = "http://example.org/"
GOAL_RATIO = 10.0


def subscription_text(number: int) -> str:
    body = (
        f"?e <{NS}key> <{NS}key/{number}> ; <{NS}name> ?name "
        f'OPTIONAL {{ ?e <{NS}level> ?level FILTER(?level > {number}) }} FILTER(REGEX(?name, "^n{number}$"))'
    )
    return f"SUBSCRIPTION s{number} EVENT e {{ {body} }} WHEN e"


def event_row(number: int) -> EventRow:
    id_ = f"{NS}event/{number}"
    triples = ((f"<{id_}>", f"<{NS}key>", f"<{NS}key/{number}>"), (f"<{id_}>", f"<{NS}name>", f'"n{number}"'))
    return EventRow(id_, number, number, triples)


def measure(count: int) -> dict[str, float]:
    subscriptions = parse("\n".join(map(subscription_text, range(count))))
    matcher = single_event_matcher(subscriptions, entailment="none")
    events = event_batch([event_row(number) for number in range(count)])
    warm_up = single_event_matcher(
        parse(f"SUBSCRIPTION w EVENT e {{ ?e <{NS}key> <{NS}key/0> }} WHEN e"), entailment="none"
    )
    _notifications(warm_up, events)  # compiles the kernels
    seconds = [_seconds(matcher, events, count) for _ in range(3)]
    return {"subscriptions": count, "first s": seconds[0], "second s": min(seconds[1:])}


def _seconds(matcher: Matcher, events: pa.RecordBatch, expected: int) -> float:
    begin = time.process_time()
    notifications = _notifications(matcher, events)
    seconds = time.process_time() - begin
    assert len(notifications) == expected, "each event matches one subscription"
    return seconds


def _notifications(matcher: Matcher, events: pa.RecordBatch) -> pa.RecordBatch:
    records = Records(columns=events)
    return emit_solutions(matcher.solve(records)).columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    row = measure(options.subscriptions)
    ratio = row["first s"] / row["second s"]
    if options.json:
        print(json.dumps({**row, "ratio": ratio}))
        return
    print(machine_load())
    print_clock("a batch", "events in columns", "its notifications", "processor time")
    title = f"first batch to second batch, {options.subscriptions:,} verified bodies"
    print_figure(title, f"{ratio:.1f} ×", f"≤ {GOAL_RATIO:.0f} ×", GOAL_RATIO / ratio)
    print_figure("    first batch", f"{row['first s'] * 1e3:.0f} ms")
    print_figure("    second batch", f"{row['second s'] * 1e3:.0f} ms")
    print(machine_load())


if __name__ == "__main__":
    main()
