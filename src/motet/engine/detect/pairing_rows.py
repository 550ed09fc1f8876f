"""The rows that a pairing operator looks at at once: those of both sides, numbered through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from motet.engine.detect.gathering_kernels import gather
from motet.engine.detect.key_kernels import Numbers, key_numbers
from motet.engine.detect.occurrences import END, START, UNBOUND, VALUES, Ints, Occurrences, concatenated, none
from motet.engine.detect.order_kernels import in_order
from motet.engine.detect.pairing_kernels import Flags, Rows, Span
from motet.engine.detect.taking_kernels import taken

LEFT, RIGHT = 0, 1

TABLES = 3  # of a side: what is open, what has waited, what is new
_NO_LISTS, _NO_COLUMNS = (np.empty(0, np.int64), np.empty(0, np.int64)), np.empty((0, 0), np.int64)


@dataclass(frozen=True, eq=False)
class Batch:
    """Of either side first what is open, then what completes, by end and start, then what does not complete yet."""

    tables: Sequence[Occurrences]
    start: Ints
    end: Ints
    key: Numbers
    keys: int
    spans: tuple[Span, Span]
    source: Numbers | None = None  # where each row is in the tables, if that is somewhere else

    @classmethod
    def of(cls, tables: Sequence[Occurrences], keys: Ints) -> Batch:
        """All rows of the tables of both sides; ``keys`` are the columns of each table that make up its key."""
        columns = tuple(table.columns for table in tables)
        start, end = (np.concatenate([table[column] for table in columns]) for column in (START, END))
        bounds = [0, *accumulate(map(len, tables))]
        left, right = (Span(bounds[first], bounds[first + 1], bounds[first + TABLES]) for first in (0, TABLES))
        key, count = key_numbers(columns, keys)
        return cls(tables, start, end, key, count, (left, right))

    def completing(self, limit: int) -> Batch:
        """Only what ends before a limit takes part, and in order."""
        batch = self
        for side, (_, new, last) in enumerate(self.spans):
            start, end = self.start[new:last], self.end[new:last]
            if not in_order(start, end):
                batch = batch.arranged(side, new + np.lexsort([start, end]))
        left, right = (
            Span(first, new, new + int(batch.end[new:last].searchsorted(limit))) for first, new, last in self.spans
        )
        return replace(batch, spans=(left, right))

    def arranged(self, side: int, rows: Numbers | Ints) -> Batch:
        """With those of a side that come first after what is open in another order."""
        place = np.arange(len(self.start), dtype=np.uint32)
        place[self.spans[side].new :][: len(rows)] = rows
        source = place if self.source is None else self.source[place]
        return replace(self, start=self.start[place], end=self.end[place], key=self.key[place], source=source)

    @property
    def is_new(self) -> bool:
        """Whether anything completes."""
        return any(span.stop > span.new for span in self.spans)

    def asked(self, loose: Ints, may_share: bool) -> Rows:
        """As the kernels want them."""
        return Rows(
            self.start, self.end, self.key, *self.spans, loose, may_share, *(self.lists if may_share else _NO_LISTS)
        )

    def are_right(self, rows: Numbers | Ints) -> Flags:
        found: Flags = rows >= self.spans[RIGHT].first
        return found

    def of_side(self, rows: Numbers, side: int) -> Numbers:
        """Those of some rows that are of one side."""
        return rows[self.are_right(rows) == side]

    @cached_property
    def lists(self) -> tuple[Ints, Ints]:
        """The events of all rows: where those of each begin, and all."""
        starts, events = np.zeros(len(self.start) + 1, np.int64), np.concatenate([one.events for one in self.tables])
        first = 0
        for table in self.tables:
            last = first + len(table)
            np.add(table.starts, starts[first], out=starts[first : last + 1])
            first = last
        if self.source is None:
            return starts, events
        _, starts, events = taken(_NO_COLUMNS, starts, events, self.source)
        return starts, events

    def values(self, variables: Sequence[int], mappings: Sequence[Sequence[int]]) -> Ints:
        """Some variables of the result, of all rows; ``mappings`` say where either side has them."""
        found = np.full((len(self.start), len(variables)), UNBOUND, np.int64)
        for at, variable in enumerate(variables):
            columns = [
                table.columns[VALUES + mapping[variable]] if mapping[variable] >= 0 else np.full(len(table), UNBOUND)
                for mapping, table in zip(np.repeat(mappings, TABLES, axis=0), self.tables, strict=True)
            ]
            found[:, at] = np.concatenate(columns)
        return found if self.source is None else found[self.source]

    def gather(self, found: Ints, targets: Ints, side: int, rows: Numbers, sources: Ints) -> None:
        """Put columns of some rows of a side where they belong."""
        gather(found, targets, *(table.columns for table in self._of(side)), self._places(side, rows), sources)

    def table(self, side: int, rows: Numbers) -> Occurrences:
        """Some rows of one side, in its own variables."""
        if not len(rows):
            return none(self._of(side)[0].width, with_members=self._of(side)[0].members is not None)
        places = self._places(side, rows)
        if (places[1:] > places[:-1]).all():
            return self._at(side, places)
        distinct, order = np.unique(places, return_inverse=True)
        return self._at(side, distinct).take(order)

    def _at(self, side: int, places: Numbers) -> Occurrences:
        """What is at some places, which rise, of a side's tables."""
        found, first, low = [], 0, 0
        for table in self._of(side):
            high = int(places.searchsorted(np.uint32(first + len(table))))
            if low < high:
                is_whole = high - low == len(table)
                found.append(table if is_whole else table.take(places[low:high] - np.uint32(first)))
            first, low = first + len(table), high
        return concatenated(found)

    def rest(self, side: int) -> Occurrences:
        """What does not complete yet."""
        last = self.spans[side].first + sum(map(len, self._of(side)))
        return self.table(side, np.arange(self.spans[side].stop, last, dtype=np.uint32))

    def both(self, rows: Numbers, mappings: Sequence[Sequence[int]]) -> Occurrences:
        """Rows of either side, in the variables of the result."""
        are_right = self.are_right(rows)
        sides = [self.table(side, rows[are_right == side]).renamed(mappings[side]) for side in (LEFT, RIGHT)]
        order = np.argsort(np.argsort(are_right, kind="stable"), kind="stable")
        return concatenated(sides).take(order)

    def _of(self, side: int) -> Sequence[Occurrences]:
        return self.tables[side * TABLES : (side + 1) * TABLES]

    def _places(self, side: int, rows: Numbers) -> Numbers:
        """Where rows of a side are in its tables, if those are numbered through."""
        places = rows if self.source is None else self.source[rows]
        return places - np.uint32(self.spans[side].first)
