"""Streams of the detection benchmarks, and the pairs that every engine must find in them.

The generators give NumPy columns, the same for every engine of a benchmark; the counters are slow and simple, and
every engine must agree with them. For realistic data see `motet demo`.

Times are microseconds, but whole milliseconds, because Flink orders rows by milliseconds; and no two points of one key
have the same time, because engines break such ties differently. Pairs exactly as far apart as the bound occur, a dozen
in a million events, so that an engine with ``<`` instead of ``<=`` is detected.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv

MILLISECOND, SECOND = 1_000, 1_000_000
WITHIN = 10 * SECOND
FIRST = 1_767_225_600 * SECOND  # 2026-01-01
KINDS = "ABX"  # X is in no pattern
A, B = 0, 1

Column = npt.NDArray[np.int64]
Relation = Callable[[Column, Column, Column, Column], npt.NDArray[np.bool_]]


class Points(NamedTuple):
    """Point events in the order of their time."""

    key: Column
    kind: Column  # an index of KINDS
    time: Column


class Intervals(NamedTuple):
    """The intervals of two streams, A and B, in the order of their end."""

    key: Column
    kind: Column
    start: Column
    end: Column


class Pairs(NamedTuple):
    """Rows of an A and of its B, sorted."""

    left: Column
    right: Column


def keyed_points(events: int = 1_000_000, keys: int = 1_000, seed: int = 5, gap: float = 2.9 * SECOND) -> Points:
    """A third each of A, B and X; with the default gap two A in three have a B of their key within 10 s.

    >>> points = keyed_points(9, keys=2)
    >>> [KINDS[kind] for kind in points.kind], bool((points.time[1:] >= points.time[:-1]).all())
    (['A', 'A', 'B', 'B', 'B', 'B', 'X', 'B', 'A'], True)
    """
    random = np.random.default_rng(seed)
    key, times = _arrivals(random, events, keys, gap)
    order = np.argsort(times, kind="stable")
    return Points(key[order], random.integers(len(KINDS), size=events), times[order])


def keyed_intervals(
    events: int = 1_000_000, keys: int = 1_000, seed: int = 5, gap: float = 3 * SECOND, length: float = 2 * SECOND
) -> Intervals:
    """Half A, half B, which last twice as long; about every second A overlaps a B or is during one.

    >>> intervals = keyed_intervals(1000, keys=2)
    >>> len(related_pairs(intervals, overlaps).left), len(related_pairs(intervals, during).left)
    (108, 128)
    """
    random = np.random.default_rng(seed)
    key, start = _arrivals(random, events, keys, gap)
    kind = random.integers(2, size=events)
    end = start + _positive(random, length * (1 + (kind == B)))
    order = np.argsort(end, kind="stable")
    return Intervals(key[order], kind[order], start[order], end[order])


def next_pairs(points: Points, within: int = WITHIN) -> Pairs:
    """`a BEFORE b WITHIN d CONTEXT continuous`: every A with the next B of its key, if that is at most d later.

    >>> columns = ([7, 7, 8, 7, 7], [A, A, B, B, B], [0, 3, 4, 10, 11])
    >>> next_pairs(Points(*map(np.array, columns)), within=7)
    Pairs(left=array([1]), right=array([3]))
    """
    matched: list[tuple[int, int]] = []
    open_: dict[int, list[tuple[int, int]]] = {}
    for row, (key, kind, now) in enumerate(zip(*(column.tolist() for column in points), strict=True)):
        if kind == A:
            open_.setdefault(key, []).append((row, now))
        elif kind == B:
            matched += [(left, row) for left, then in open_.pop(key, []) if now - then <= within]
    return _sorted(matched)


def related_pairs(intervals: Intervals, relation: Relation, within: int = WITHIN) -> Pairs:
    """`a RELATION b WITHIN d CONTEXT unrestricted`: all related A and B of one key with a hull of at most d."""
    related: list[tuple[int, int]] = []
    by_key = np.argsort(intervals.key, kind="stable")
    bounds = np.flatnonzero(np.diff(intervals.key[by_key])) + 1
    for rows in np.split(by_key, bounds):
        a, b = (rows[intervals.kind[rows] == kind] for kind in (A, B))
        a_start, a_end = intervals.start[a][:, None], intervals.end[a][:, None]
        b_start, b_end = intervals.start[b][None, :], intervals.end[b][None, :]
        hull = np.maximum(a_end, b_end) - np.minimum(a_start, b_start)
        left, right = np.nonzero(relation(a_start, a_end, b_start, b_end) & (hull <= within))
        related += zip(a[left].tolist(), b[right].tolist(), strict=True)
    return _sorted(related)


def overlaps(a_start: Column, a_end: Column, b_start: Column, b_end: Column) -> npt.NDArray[np.bool_]:
    return (a_start < b_start) & (b_start < a_end) & (a_end < b_end)


def during(a_start: Column, a_end: Column, b_start: Column, b_end: Column) -> npt.NDArray[np.bool_]:
    return (a_start > b_start) & (a_end < b_end)


def write(stream: Points | Intervals, path: Path) -> None:
    """Write a stream as CSV without a header: row, key, kind as a letter, then the times."""
    letters = np.array(list(KINDS))[stream.kind]
    columns = [np.arange(len(letters)), stream.key, letters, *stream[2:]]
    table = pa.table({str(index): column for index, column in enumerate(columns)})
    pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(include_header=False, quoting_style="none"))


def read_pairs(path: Path) -> Pairs:
    """The pairs that an engine wrote, as lines ``left,right`` in any order, in one file or in a directory of them."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return _sorted([(int(left), int(right)) for file in files for left, right in _fields(file)])


def _fields(file: Path) -> list[list[str]]:
    return [line.split(",") for line in file.read_text().splitlines()]


def _sorted(rows: list[tuple[int, int]]) -> Pairs:
    left, right = np.array(sorted(rows), dtype=np.int64).reshape(-1, 2).T
    return Pairs(left, right)


def _arrivals(random: np.random.Generator, events: int, keys: int, gap: float) -> tuple[Column, Column]:
    """Sorted keys, each with strictly increasing times."""
    _, starts, group = np.unique(key := np.sort(random.integers(keys, size=events)), True, True)
    gaps = _positive(random, np.full(events, gap))
    elapsed = np.cumsum(gaps)
    return key, FIRST + elapsed - (elapsed - gaps)[starts][group]


def _positive(random: np.random.Generator, mean: npt.NDArray[np.float64]) -> Column:
    """Exponential durations in whole milliseconds, at least one."""
    return MILLISECOND * (1 + random.exponential(mean / MILLISECOND).astype(np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    options = parser.parse_args()
    points = keyed_points(options.events, options.keys)
    intervals = keyed_intervals(options.events, options.keys)
    counters: dict[str, Callable[[], Pairs]] = {
        "a BEFORE b WITHIN 10 s, continuous": lambda: next_pairs(points),
        "the same, less than 10 s": lambda: next_pairs(points, WITHIN - 1),
        "a OVERLAPS b WITHIN 10 s": lambda: related_pairs(intervals, overlaps),
        "a DURING b WITHIN 10 s": lambda: related_pairs(intervals, during),
    }
    for pattern, count in counters.items():
        start = time.perf_counter()
        pairs = len(count().left)
        print(f"{pattern:<38}{pairs:>10,} pairs, counted in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
