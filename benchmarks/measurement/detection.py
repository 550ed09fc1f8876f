"""Detection alone: the detector, driven with occurrences of leaves that were made beforehand.

The pattern has two leaves, for the A and the B, each of which binds its event and its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from benchmarks.measurement.records import NS, names
from benchmarks.streams import A, B, Column, Intervals, Pairs, Points

from motet.engine.detect.detector import Detector
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Frontier
from motet.engine.detect.table_kernels import EMISSION_OFFSET, END, EVENT_BIT, FIRST_OFFSET, START, VALUES
from motet.language.syntax import Subscription
from motet.model.timeline import END_FRONTIER, NO_FRONTIER
from motet.plan.builder import PlanBuilder
from motet.plan.graph import Kind, PlanNode, Start


class Batch(NamedTuple):
    leaves: dict[int, Occurrences]
    frontier: Frontier


class Detection:
    """A subscription over a stream, in batches of one size; each run starts with empty state."""

    def __init__(self, subscription: Subscription, stream: Points | Intervals, size: int) -> None:
        builder = PlanBuilder()
        self._root = builder.add(subscription, Start(-1)).node
        self._nodes = list(builder.nodes.values())
        self._ids = names("e/", np.arange(len(stream.key)), "")
        self._terms = pa.array([f"<{NS}k/{key}>" for key in range(int(stream.key.max()) + 1)])
        leaves = [node for node in self._nodes if node.kind is Kind.LEAF]
        self._batches = list(_batches(leaves, stream, size))

    def prepare(self, tables: list[Occurrences] | None = None) -> Callable[[], int]:
        """A run that returns the number of pairs, and appends their tables to ``tables``."""
        names = Dictionary()
        names.events.add(np.arange(len(self._ids)), self._ids, None)
        names.terms.ids(self._terms)
        detector = Detector(names)
        detector.update(self._nodes, (), {node.id: node for node in self._nodes})
        return lambda: self._run(detector, tables)

    def _run(self, detector: Detector, tables: list[Occurrences] | None) -> int:
        count = 0
        for batch in self._batches:
            for _, table in detector.advance(*batch, roots={self._root}):
                count += len(table)
                if tables is not None:
                    tables.append(table)
        return count

    def pairs(self) -> Pairs:
        tables: list[Occurrences] = []
        self.prepare(tables)()
        left, right = np.concatenate([np.empty(0, np.int64), *(table.events for table in tables)]).reshape(-1, 2).T
        order = np.lexsort([right, left])
        return Pairs(left[order], right[order])


def _batches(leaves: list[PlanNode], stream: Points | Intervals, size: int) -> list[Batch]:
    """Batches by rows; the last one moves the frontier to the end of time."""
    batches, frontier, count = [], NO_FRONTIER, len(stream.key)
    for first in range(0, count, size):
        rows = np.arange(first, min(count, first + size))
        batch_frontier = Frontier.from_records(rows, stream[-1][rows], frontier)
        sides = {
            leaf.id: _leaf(stream, rows[stream.kind[rows] == kind]) for leaf, kind in zip(leaves, (A, B), strict=True)
        }
        batches.append(Batch(sides, batch_frontier))
        frontier = batch_frontier.current
    return [*batches, Batch({}, Frontier.from_records(np.array([count]), np.array([END_FRONTIER]), frontier))]


def _leaf(stream: Points | Intervals, rows: Column) -> Occurrences:
    columns = np.zeros((VALUES + 2, len(rows)), np.int64)
    columns[START], columns[END] = stream[2][rows], stream[-1][rows]
    columns[EMISSION_OFFSET] = columns[FIRST_OFFSET] = rows
    columns[VALUES], columns[VALUES + 1] = rows | EVENT_BIT, stream.key[rows]
    return Occurrences(columns, np.arange(len(rows) + 1), rows)
