"""Zone files: their size beside that of the log, and how much of them patterns with bound terms read.

The data is that of `benchmarks/sparql.py`. The share of a pattern is what `motet explain` says: the bytes of the
columns that it needs in row groups that may hold matches, and the rows of these groups. A pattern with one bound term
may read 35 % or twice the share of its matches, whichever is more, one with two 10 % or twice.

    python benchmarks/zones.py
    python benchmarks/zones.py --subjects uuid --json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # for running it by path

from benchmarks.measurement.quads import TRIPLES_PER_EVENT, Triple, observations
from benchmarks.sparql import load_lake

from motet.lake import Lake
from motet.query.lake_query import QueryOptions, answer_size, explain_query, query_lake

GOALS = {1: 0.35, 2: 0.10}  # by the number of bound terms
SAMPLES = 30  # of a kind of pattern
PATTERNS = {  # by what is bound; {0} is the graph, {1}, {2}, {3} are the terms of a triple in it
    "s": "{1} ?p ?o", "p": "?s {2} ?o", "o": "?s ?p {3}", "g": "GRAPH {0} {{ ?s ?p ?o }}",
    "s p": "{1} {2} ?o", "s o": "{1} ?p {3}", "p o": "?s {2} {3}", "g s": "GRAPH {0} {{ {1} ?p ?o }}",
    "g p": "GRAPH {0} {{ ?s {2} ?o }}", "g o": "GRAPH {0} {{ ?s ?p {3} }}",
}  # fmt: skip


class PatternShare(NamedTuple):
    """What the sampled patterns of one kind read, as shares of all zones."""

    patterns: int
    mean_bytes: float
    max_bytes: float
    max_rows: float
    over: int  # patterns that read more than their goal


def shares(lake: Lake, quads: int, bound: str, triples: list[tuple[str, Triple]]) -> PatternShare:
    texts = {PATTERNS[bound].format(f"<{graph}>", *triple) for graph, triple in triples}
    read_bytes, read_rows, over = [], [], 0
    for text in sorted(texts)[:SAMPLES]:
        query = f"SELECT * {{ {text} }}"
        explained = explain_query(lake, query, QueryOptions(), lambda: None)
        size = sum(scan.bytes for scan in explained.scans) / explained.zone_bytes
        matching = answer_size(query_lake(lake, query, QueryOptions(), lambda: None).answer) / quads
        read_bytes.append(size)
        read_rows.append(sum(scan.rows for scan in explained.scans) / quads)
        over += size > max(GOALS[len(bound.split())], 2 * matching)
    return PatternShare(len(read_bytes), sum(read_bytes) / len(read_bytes), max(read_bytes), max(read_rows), over)


def sampled_triples(events: int, *, has_uuids: bool) -> list[tuple[str, Triple]]:
    """Triples of random events, with the names of these."""
    choose = random.Random(1)
    numbers = sorted(choose.sample(range(events), min(3 * SAMPLES, events)))
    every: Iterator[tuple[str, Triple]] = (
        (observation.event, choose.choice(observation.triples))
        for number, observation in enumerate(observations(events, has_uuids=has_uuids))
        if number in numbers
    )
    return list(islice(every, len(numbers)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--zones", type=int, default=256, help="about how many")
    parser.add_argument("--subjects", choices=["sequential", "uuid"], default="sequential")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    has_uuids, events = args.subjects == "uuid", args.quads // TRIPLES_PER_EVENT
    with tempfile.TemporaryDirectory() as folder:
        lake = load_lake(Path(folder) / "lake", events, has_uuids=has_uuids)
        lake.build_zones()
        usual = lake.snapshot()
        log, zones = sum(file.size for file in usual.segments), sum(file.size for file in usual.zones)
        lake.drop_zones()
        forced = lake.build_zones(least=1, most=round(1.3 * args.quads / args.zones))
        triples = sampled_triples(events, has_uuids=has_uuids)
        found = {bound: shares(lake, args.quads, bound, triples) for bound in PATTERNS}
    figures = {"quads": args.quads, "subjects": args.subjects, "log": log, "zones": zones, "ratio": zones / log}
    if args.json:
        print(
            json.dumps(
                {**figures, "forced": forced.zones, "read": {b: s._asdict() for b, s in found.items()}}, indent=2
            )
        )
        return
    print(f"{args.quads} quads, {args.subjects} subjects: log {log:,} bytes, zones {zones:,}: {zones / log:.2f} of it")
    print(f"{forced.zones} zones; bound terms, patterns, mean and most bytes read, most rows, patterns above the goal")
    for bound, share in found.items():
        line = f"{share.mean_bytes:>8.1%}{share.max_bytes:>8.1%}{share.max_rows:>8.1%}{share.over:>4}"
        print(f"{bound:<6}{share.patterns:>4}{line}")


if __name__ == "__main__":
    main()
