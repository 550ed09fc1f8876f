"""The growth of matching with the number of subscriptions, and the cost of a subscription.

Subscriptions are ``k = ? and cat = ? and v in [lo, hi]``, registered in bulk from a table of template parameters. The
same events are matched with more and more of them, with as many matches for each event: the time per event should not
grow. Everything runs in one process on one core. Times are processor times of the best of some rounds, because the
machine may be shared; "latency ns" is the time of one dependent load from memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.figures import machine_load, print_clock, print_figure, rate

from motet.engine.match.encode import encode, encoding_tables
from motet.engine.match.index import ANY_LENGTH, LeafIndex, LeafTable, SegmentLeaves
from motet.engine.match.leaf import LeafQuery, leaf_entry
from motet.engine.match.matcher import BuiltIndex, EncodedBatch, IndexedPredicates, Reasoning, solutions
from motet.engine.match.xml_index import XmlIndex
from motet.engine.runtime.active_plan import single_event_leaf
from motet.engine.runtime.emission import decided_notifications
from motet.jit.compiled import compiled
from motet.language.parse import parse
from motet.model.batches import EVENTS, TIME, TRIPLE, Records
from motet.model.terms import XSD

NS = "http://example.org/"
SEED = 20261115
CATEGORIES = 20
WIDTH = 10.0
GOAL_SEARCH, GOAL_NOTIFICATIONS = 0.5, 10e6  # µs per event, notifications per second
GOAL_REGISTERED, GOAL_BYTES, GOAL_GROWTH = 0.5e6, 300, 2.0
ESPER = 6.0  # µs per event with 1 M such subscriptions, measured once on a machine of this kind: 5 to 7


def template(number: int, key: str, category: str, low: float, high: float) -> LeafQuery:
    body = f"?e <{NS}k> {key} ; <{NS}cat> {category} ; <{NS}v> ?v FILTER(?v >= {low} && ?v <= {high})"
    (found,) = parse(f"SUBSCRIPTION s{number} EVENT e {{ {body} }} WHEN e SELECT ?e ?v")
    return single_event_leaf(found)


class Parameters:
    """A table of template parameters: ``each`` subscriptions share a key, a category and a range."""

    def __init__(self, count: int, each: int) -> None:
        random = np.random.default_rng(SEED)
        group = np.arange(count) // each
        self.key = self._terms("k", group // CATEGORIES)
        self.category = self._terms("cat", group % CATEGORIES)
        low = random.integers(0, 90, -(-count // each))[group].astype(np.float64)
        self.low, self.high = low, low + WIDTH
        self.names = pc.binary_join_element_wise("s", pa.array(np.arange(count)).cast(pa.string()), "")
        self.groups = int(group[-1]) + 1

    def _terms(self, name: str, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
        return pc.binary_join_element_wise(f"<{NS}{name}/", pa.array(numbers).cast(pa.string()), ">", "")

    def leaf(self, leaf: int) -> LeafQuery:
        key, category = self.key[leaf].as_py(), self.category[leaf].as_py()
        return template(leaf, key, category, self.low[leaf], self.high[leaf])

    def register(self) -> LeafIndex:
        """An index of all subscriptions, registered in bulk."""
        template_entry = leaf_entry(self.leaf(0))
        assert template_entry.projection is not None, "the index decides the template"
        count = len(self.names)
        columns = {f"<{NS}k>": self.key, f"<{NS}cat>": self.category}
        intervals = np.stack([self.low, self.high, np.zeros(count)], axis=1)[:, None]
        terms = tuple(columns[predicate] for predicate in template_entry.shape.constants)
        block = LeafTable(template_entry.shape, terms, intervals, np.arange(count, dtype=np.int32))
        longest = np.full(count, ANY_LENGTH)
        leaves = SegmentLeaves(self.names, (template_entry.projection,), np.zeros(count, np.int32), longest, self.leaf)
        return LeafIndex().with_tables([block], leaves)


def events(parameters: Parameters, count: int) -> pa.RecordBatch:
    """Events with key, category and value, each of which matches a random group of subscriptions."""
    random = np.random.default_rng(SEED + 1)
    group = random.integers(0, parameters.groups, count)
    first = group * (len(parameters.names) // parameters.groups)
    ids = pc.binary_join_element_wise(f"{NS}events/", pa.array(np.arange(count)).cast(pa.string()), "")
    subject = pc.binary_join_element_wise("<", ids, ">", "")
    inside = pa.array(np.round(parameters.low[first] + random.random(count) * 9 + 0.5, 2)).cast(pa.string())
    value = pc.binary_join_element_wise('"', inside, f'"^^<{XSD}decimal>', "")
    objects = [parameters.key.take(pa.array(first)), parameters.category.take(pa.array(first)), value]
    order = np.arange(3 * count).reshape(3, count).T.ravel()
    predicates = pa.array(np.repeat([f"<{NS}k>", f"<{NS}cat>", f"<{NS}v>"], count).tolist(), pa.string())
    columns = [pa.concat_arrays([subject] * 3), predicates, pa.concat_arrays(objects)]
    triples = pa.StructArray.from_arrays([c.take(pa.array(order)) for c in columns], fields=list(TRIPLE))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(count + 1) * 3, pa.int32()), triples, type=EVENTS.field(3).type)
    times = pa.array(np.arange(count)).cast(TIME)
    columns = [ids, times, times, lists, pa.array(np.arange(count)), pa.nulls(count, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def best(action: Callable[[], object], rounds: int = 9) -> float:
    """Seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        begin = time.thread_time()
        action()
        seconds.append(time.thread_time() - begin)
    return min(seconds)


@compiled
def chase(following: np.ndarray[tuple[int, int], np.dtype[np.int64]], steps: int) -> int:
    """Follow the pointers from one cache line to the next."""
    at = 0
    for _ in range(steps):
        at = following[at, 0]
    return at


def latency() -> float:
    """Seconds of a load in random order from as much memory as a million subscriptions need."""
    lines, steps = 2**20, 100_000
    following = np.zeros((lines, 8), np.int64)
    order = np.random.default_rng(SEED).permutation(lines)
    following[order, 0] = np.roll(order, 1)
    chase(following, 1)
    return best(lambda: chase(following, steps)) / steps


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(count: int, each: int, size: int) -> dict[str, float]:
    """Register ``count`` subscriptions and match ``size`` events."""
    before = resident()
    parameters = Parameters(count, each)  # kept: leaves to verify are made from it
    begin = time.thread_time()
    index = parameters.register()
    registered = time.thread_time() - begin
    memory = resident() - before
    batch = events(parameters, size)
    tables = encoding_tables(index.predicates, set(index.compared), {}, {})
    quads = encode(batch, tables)
    (segment,) = index.segments
    hits = segment.arrays.search(quads)
    assert len(hits.event) == size * each and not hits.is_open.any(), "each event has the expected matches"
    predicates = IndexedPredicates(index, Reasoning(frozenset(), "none"))
    encoded = EncodedBatch(Records(columns=batch), BuiltIndex(index, XmlIndex(), predicates))
    searching = best(lambda: segment.arrays.search(quads))

    def notify() -> None:
        decided_notifications(solutions(encoded, segment, hits), segment.leaves.names)

    notifying = best(notify, 3)
    return {
        "subscriptions": count,
        "matches per event": each,
        "encode µs/event": best(lambda: encode(batch, tables)) / size * 1e6,
        "search µs/event": searching / size * 1e6,
        "solutions µs/event": notifying / size * 1e6,
        "occurrences/s": size * each / searching,
        "notifications/s": size * each / (searching + notifying),
        "registered/s": count / registered,
        "bytes each": memory / count,
    }


def show(rows: Sequence[Mapping[str, float]], load_of_memory: float) -> None:
    """Print the figures with their goals, and the details of each row."""
    few, many, crowd = rows[0]["search µs/event"], rows[-2], rows[-1]
    count, took, growth = f"{many['subscriptions']:,.0f}", many["search µs/event"], many["search µs/event"] / few
    print_figure(
        f"{count} subscriptions, one match per event", f"{took:.2f} µs/event", f"≤ {GOAL_SEARCH} µs", GOAL_SEARCH / took
    )
    print_figure("    ratio of Esper's time to it", f"{ESPER / took:.0f} ×")
    rate_ = crowd["notifications/s"]
    print_figure(
        f"{count} subscriptions, {crowd['matches per event']:.0f} matches per event",
        rate(rate_, 1), f"≥ {GOAL_NOTIFICATIONS / 1e6:.0f} M/s", rate_ / GOAL_NOTIFICATIONS,
    )  # fmt: skip
    registered, each = many["registered/s"], many["bytes each"]
    print_figure(
        f"bulk registration of {count} subscriptions", rate(registered, 1), "≥ 0.5 M/s", registered / GOAL_REGISTERED
    )
    print_figure("    memory per subscription", f"{each:.0f} bytes", f"≤ {GOAL_BYTES} bytes", GOAL_BYTES / each)
    print_figure(
        f"growth of search from 1,000 to {count} subscriptions", f"{growth:.2f} ×", "≤ 2 ×", GOAL_GROWTH / growth
    )
    loads = (took - few) / load_of_memory
    print(f"    the difference is {loads:.1f} loads from memory ({load_of_memory * 1e3:.0f} ns each) per event")
    for row in rows:
        print("    " + ", ".join(f"{name} {value:,.2f}" for name, value in row.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000, help="subscriptions in the largest set")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measure(1_000, 1, 1_000)  # compile
    sizes = [size for size in (1_000, 10_000, 100_000, 1_000_000, 10_000_000) if size < options.largest]
    if not options.json:
        print(machine_load())
        print_clock("search", "encoded events in memory", "the hits of all events", "processor time, best of 9 rounds")
        print_clock("notifications", "encoded events in memory", "notification batches", "processor time, best rounds")
        print_clock("registration", "the table of parameters", "the built index", "processor time, one round")
    rows = [measure(size, 1, 50_000) for size in [*sizes, options.largest]]
    rows.append(measure(options.largest, 100, 10_000))
    load_of_memory = latency() * 1e6
    if options.json:
        growth = rows[-2]["search µs/event"] / rows[0]["search µs/event"]
        print(json.dumps({"rows": rows, "growth": growth, "latency ns": load_of_memory * 1e3}))
        return
    show(rows, load_of_memory)
    print(machine_load())


if __name__ == "__main__":
    main()
