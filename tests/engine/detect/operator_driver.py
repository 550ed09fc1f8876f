"""Drives one operator with hand-written rows: events and terms are named by short strings, times are small integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Frontier, IncrementalOperator, OperatorEnv
from motet.engine.detect.table_kernels import (
    EMISSION_OFFSET,
    END,
    FIRST_OFFSET,
    LEFT_END,
    NO_OFFSET,
    RIGHT_START,
    START,
    VALUES,
)
from motet.model.timeline import NO_FRONTIER, clamp_frontier
from motet.plan.graph import Edge


class Row(NamedTuple):
    """An occurrence: its interval, the names of its events separated by spaces, and its values; None is unbound."""

    start: int
    end: int
    events: str
    values: tuple[str | None, ...] = ()


def point(instant: int, event: str, *values: str | None) -> Row:
    """An occurrence of one event at one instant."""
    return Row(instant, instant, event, values)


class Driver:
    """An operator with a dictionary and a frontier; each call of `advance` is one record."""

    def __init__(self, operator: IncrementalOperator, *, width: int = 1, lags: Sequence[int] = (0, 0)) -> None:
        self.operator = operator
        self.dictionary = Dictionary()
        self._width = width
        self._lags = lags
        self._offset = 1000
        self._frontier = NO_FRONTIER
        self._events: dict[str, int] = {}

    def advance(self, *inputs: Sequence[Row], frontier: int) -> list[Row]:
        """The new occurrences of the operator, sorted, once the frontier is at an instant."""
        return sorted((row for row, _ in self.emit(*inputs, frontier=frontier)), key=str)

    def emit(self, *inputs: Sequence[Row], frontier: int) -> list[tuple[Row, int]]:
        """The new occurrences with the number of the call whose record made each of them final, from 0 on."""
        offset = np.array([self._offset])
        env_frontier = Frontier.from_records(offset, np.array([clamp_frontier(frontier)]), self._frontier)
        self._frontier, self._offset = env_frontier.current, self._offset + 1
        self.env = OperatorEnv(env_frontier, self.dictionary, self._lags)
        result = self.operator.advance([self.table(rows) for rows in inputs], self.env)
        offsets = (result.columns[EMISSION_OFFSET] - 1000).tolist()
        return list(zip(self.rows(result), offsets, strict=True))

    def table(self, rows: Sequence[Row]) -> Occurrences:
        """Rows as a table of occurrences."""
        columns = np.zeros((VALUES + self._width, len(rows)), np.int64)
        lists = [sorted(map(self._event, row.events.split())) for row in rows]
        for index, row in enumerate(rows):
            columns[START, index], columns[END, index] = row.start, row.end
            columns[FIRST_OFFSET, index] = min(lists[index], default=NO_OFFSET)
            columns[VALUES:, index] = [-1 if value is None else self._term(value) for value in row.values]
        starts = np.cumsum([0, *map(len, lists)])
        return Occurrences(columns, starts, np.array([event for events in lists for event in events], np.int64))

    def pairs(self, *rows: tuple[Row, int, int]) -> Occurrences:
        """Occurrences of pairs, each with the end of its left side and the start of its right side."""
        table = self.table([row for row, _, _ in rows])
        table = table.with_column(LEFT_END, np.array([left_end for _, left_end, _ in rows]))
        return table.with_column(RIGHT_START, np.array([right_start for _, _, right_start in rows]))

    def rows(self, table: Occurrences) -> list[Row]:
        """A table of occurrences as rows."""
        names = {offset: name for name, offset in self._events.items()}
        events = [
            " ".join(sorted(names[offset] for offset in table.events[begin:end].tolist()))
            for begin, end in zip(table.starts[:-1].tolist(), table.starts[1:].tolist(), strict=True)
        ]
        values = [tuple(None if value < 0 else self.dictionary.string(value) for value in row) for row in table.values]
        times = table.columns[[START, END]].T.tolist()
        return [Row(start, end, event, value) for (start, end), event, value in zip(times, events, values, strict=True)]

    def state(self) -> dict[str, list[Row]]:
        """The rows of each table of the operator's state that is not empty, sorted."""
        return {
            name: sorted(self.rows(table), key=str) for name, table in self.operator.snapshot().items() if len(table)
        }

    def _event(self, name: str) -> int:
        if name not in self._events:
            self._events[name] = offset = len(self._events)
            self.dictionary.events.add(np.array([offset]), pa.array([f"urn:{name}"]), None)
        return self._events[name]

    def _term(self, value: str) -> int:
        return int(self.dictionary.terms.ids(pa.array([value]))[0])


def operands(width: int = 1) -> tuple[Edge, Edge]:
    """Two operands that share all variables of the operator."""
    names = tuple((f"v{variable}", f"v{variable}") for variable in range(width))
    return Edge(1, names), Edge(2, names)
