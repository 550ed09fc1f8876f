"""AND, ALONGSIDE and the Allen relations in every context (language page, section 7).

In the unrestricted context pairs are found as their parts come. In the others both sides wait until the frontier has
passed their end, and then complete in order. What is open is forgotten once nothing can pair with it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from motet.engine.detect import pairing_kernels as kernels
from motet.engine.detect.columns import (
    EMISSION_OFFSET,
    END,
    FIRST_OFFSET,
    LEFT_END,
    RIGHT_START,
    START,
    UNBOUND,
    VALUES,
    Ints,
    Members,
)
from motet.engine.detect.frontier import END_FRONTIER, NO_FRONTIER
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, OperatorEnv, RowCondition, StateTables
from motet.engine.detect.order import break_ties
from motet.engine.detect.pairing_kernels import Flags, Rows, Span
from motet.engine.detect.table_kernels import (
    UInts,
    gather_columns,
    is_time_ordered,
    key_ids,
    merge_events,
    merge_groups,
    take_rows,
)
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.plan.nodes import LEFT_FIRST, Kind, Node, variable_number

LEFT, RIGHT = 0, 1

TABLES = 3  # of a side: what is open, what has waited, what is new
_NO_LISTS, _NO_COLUMNS = (np.empty(0, np.int64), np.empty(0, np.int64)), np.empty((0, 0), np.int64)

_CONTEXTS = {
    Context.UNRESTRICTED: kernels.UNRESTRICTED,
    Context.RECENT: kernels.RECENT,
    Context.CHRONICLE: kernels.CHRONICLE,
    Context.CONTINUOUS: kernels.CONTINUOUS,
    Context.CUMULATIVE: kernels.CUMULATIVE,
}
_RELATIONS = {relation: getattr(kernels, relation.name) for relation in Relation}
_KINDS = {Kind.AND: kernels.AND, Kind.ALONGSIDE: kernels.ALONGSIDE}

# Where the right side completes first; where it can be either, both have to stay open.
_RIGHT_FIRST = frozenset(relation.inverse for relation in LEFT_FIRST)

# Instants that are equal in a pair, so that they can be part of the key: columns of the left and of the right side.
_EQUAL_TIMES = {
    Relation.MEETS: ((END, START),),
    Relation.MET_BY: ((START, END),),
    Relation.STARTS: ((START, START),),
    Relation.STARTED_BY: ((START, START),),
    Relation.FINISHES: ((END, END),),
    Relation.FINISHED_BY: ((END, END),),
    Relation.EQUALS: ((START, START), (END, END)),
}

MANY_PAIRS, ALL_PAIRS = 1 << 20, np.iinfo(np.int64).max
NO_CODES = np.empty(0, np.int64)

# Contexts where whatever completes takes all it may: if only one side is ever open, each is taken by the first it can.
_TAKING_ALL = (kernels.CONTINUOUS, kernels.CUMULATIVE)

# What a pair has of both sides.
_OUTERMOST = {START: np.minimum, END: np.maximum, EMISSION_OFFSET: np.maximum, FIRST_OFFSET: np.minimum}
_PROGRESS = np.array(list(_OUTERMOST))


class PairingOperator:
    """``waiting`` have not completed yet; ``opened`` are what the context keeps. Sides are kept apart.

    Operands are taken in their own variables, as are the tables of what is kept of them: most occurrences find no
    partner, and only pairs are worth the copy. ``sources`` says where each side has the variables of the result.
    """

    def __init__(self, node: Node, sources: Sequence[Sequence[int]], widths: Sequence[int]) -> None:
        assert node.context is not None, "pairing operators have a context"
        relation = node.operator.relation
        self._node = node
        self._mappings = sources
        self._context = _CONTEXTS[node.context]
        self._relation = _KINDS[node.kind] if relation is None else _RELATIONS[relation]
        self._bound = -1 if node.bound is None else node.bound
        self._condition = None if node.condition is None else RowCondition(node.condition)
        self._keys = self._key_columns()
        self._unchecked = kernels.Related(self._relation, self._bound, False, NO_CODES)
        self._columns = self._result_columns()
        self._loose = [variable_number(name) for name in node.joined if name not in node.keys]
        self._opens = np.array([relation not in _RIGHT_FIRST, relation not in LEFT_FIRST])
        self._is_taken = self._context in _TAKING_ALL and not self._opens.all()
        self._order = [[variable_number(name) for name in names] for names in node.order or ((), ())]
        self._shares_events = relation not in (Relation.BEFORE, Relation.AFTER)
        self._waiting = [empty_table(width, with_members=node.with_members) for width in widths]
        self._opened = [*self._waiting]

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        batch = self._read(inputs, now)
        if batch.is_new:
            return self._paired(batch, now)
        for side, table in enumerate(self._opened):
            self._opened[side] = table.take(self._useful(table.columns[START], table.columns[END], side, now))
        return self._nothing()

    def due(self, now: OperatorEnv) -> int:
        ends = [int(side.columns[END].min()) for side in self._waiting if len(side)]
        return min(ends) + max(now.lags) if ends else NO_TIMER

    def tables(self) -> StateTables:
        return {
            "waiting left": self._waiting[LEFT],
            "waiting right": self._waiting[RIGHT],
            "open left": self._opened[LEFT],
            "open right": self._opened[RIGHT],
        }

    def load(self, tables: StateTables) -> None:
        self._waiting = [tables["waiting left"], tables["waiting right"]]
        self._opened = [tables["open left"], tables["open right"]]

    def _nothing(self) -> Occurrences:
        return empty_table(len(self._node.variables), with_members=self._node.with_members)

    def _key_columns(self) -> Ints:
        """The columns that are equal in every pair, for each table of the left and of the right side."""
        node, relation = self._node, self._node.operator.relation
        columns = [tuple(VALUES + side[variable_number(name)] for side in self._mappings) for name in node.keys]
        if relation is not None and node.context is not Context.RECENT:
            columns += _EQUAL_TIMES.get(relation, ())
        return np.array(columns, np.int64).reshape(len(columns), 2).T.repeat(TABLES, axis=0)

    def _result_columns(self) -> list[Ints]:
        """For either side, the columns of a pair that are taken from there, and from which."""
        left, right = self._mappings
        of_left = [(column, column) for column in _PROGRESS]
        of_left += [(VALUES + at, VALUES + source) for at, source in enumerate(left) if source >= 0]
        of_right = [(VALUES + at, VALUES + source) for at, source in enumerate(right) if left[at] < 0]
        return [np.array(side, np.int64).reshape(-1, 2).T.copy() for side in (of_left, of_right)]

    def _read(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Batch:
        """What is open, and what completes now; the rest waits."""
        tables = [(self._opened[side], self._waiting[side], inputs[side]) for side in (LEFT, RIGHT)]
        batch = Batch.of([*tables[LEFT], *tables[RIGHT]], self._keys)
        if self._context != kernels.UNRESTRICTED:
            frontier = now.frontier.current
            batch = batch.completing(frontier - max(now.lags) if frontier < END_FRONTIER else END_FRONTIER)
            self._waiting = [batch.rest(side) for side in (LEFT, RIGHT)]
        return batch

    def _paired(self, batch: Batch, now: OperatorEnv) -> Occurrences:
        batch, later, earlier, kept = self._pairs(batch, now)
        self._opened = [self._still_useful(batch, batch.of_side(kept, side), side, now) for side in (LEFT, RIGHT)]
        if not len(later):
            return self._nothing()
        is_whole = self._context == kernels.CUMULATIVE or self._node.with_members
        found = self._merged(batch, later, earlier) if is_whole else self._joined(batch, later, earlier)
        if self._context != kernels.UNRESTRICTED:
            known = now.frontier.passing_offsets(found.columns[END] + max(now.lags))  # with all that completes before
            np.maximum(found.columns[EMISSION_OFFSET], known, out=found.columns[EMISSION_OFFSET])
        return found

    def _still_useful(self, batch: Batch, rows: UInts, side: int, now: OperatorEnv) -> Occurrences:
        if len(rows):
            rows = rows[self._useful(batch.start[rows], batch.end[rows], side, now)]
        return batch.table(side, rows)

    def _pairs(self, batch: Batch, now: OperatorEnv) -> tuple[Batch, UInts, UInts, UInts]:
        """The rows, perhaps in another order; pairs (later, earlier); and what stays open, in the order of the ends."""
        if self._is_taken:
            return self._taken(batch, now)
        rows = self._asked(batch)
        if self._context == kernels.UNRESTRICTED:
            order = np.argsort(batch.end, kind="stable").astype(np.uint32)
            return batch, *self._all_pairs(batch, rows, order, now), order
        places, together = self._completion_order(batch, rows, kernels.completing(rows), now)
        asked = self._related(batch, rows, now, places)
        found = kernels.pair_some(rows, asked, batch.keys, places, together, self._context, self._opens)
        return batch, *found

    def _taken(self, batch: Batch, now: OperatorEnv) -> tuple[Batch, UInts, UInts, UInts]:
        """Where only one side is ever open."""
        own, other = (LEFT, RIGHT) if self._opens[LEFT] else (RIGHT, LEFT)
        oldest, _ = self._first_useful(own, now)
        rows = self._asked(batch)
        *found, are_tied = kernels.pair_next(rows, self._related(batch, rows, now), batch.keys, own == RIGHT, oldest)
        if are_tied:
            places = np.arange(batch.spans[other].new, batch.spans[other].stop, dtype=np.uint32)
            batch = batch.arranged(other, self._completion_order(batch, rows, places, now)[0])
            rows = self._asked(batch)
            *found, _ = kernels.pair_next(rows, self._related(batch, rows, now), batch.keys, own == RIGHT, oldest)
        return batch, *found

    def _asked(self, batch: Batch) -> kernels.Rows:
        return batch.asked(batch.values(self._loose, self._mappings), self._shares_events)

    def _completion_order(
        self, batch: Batch, rows: kernels.Rows, places: UInts, now: OperatorEnv
    ) -> tuple[UInts, kernels.Flags]:
        """Of rows that are in order of time; and which have times and events of the one before."""
        tied, some = kernels.rivals(rows, batch.keys, places)
        if not some:
            return places, tied

        def tied_rows(some: Ints) -> tuple[Occurrences, kernels.Flags]:
            return batch.both(some.astype(np.uint32), self._mappings), batch.are_right(some)

        is_recent = self._context == kernels.RECENT  # where those that belong together have to stand together
        times = (places.astype(np.int64), batch.start, batch.end)
        found = break_ties(*times, tied_rows, now.dictionary, self._order, None if is_recent else tied)
        return found.rows.astype(np.uint32), found.same_events

    def _related(
        self, batch: Batch, rows: kernels.Rows, now: OperatorEnv, completed: UInts | None = None
    ) -> kernels.Related:
        """What pairs have to meet; a condition is tried on all there could be."""
        if self._condition is None:
            return self._unchecked
        completed = kernels.completing(rows) if completed is None else completed
        opened = [np.arange(span.first, span.new, dtype=np.uint32) for span in batch.spans]
        later, earlier = self._all_pairs(batch, rows, np.concatenate([*opened, completed]), now)
        codes = np.sort(later.astype(np.int64) * len(batch.start) + earlier)
        return self._unchecked._replace(checked=True, allowed=codes)

    def _all_pairs(self, batch: Batch, rows: kernels.Rows, order: UInts, now: OperatorEnv) -> tuple[UInts, UInts]:
        """All pairs (later, earlier) that the relation and the condition admit; not too many are looked at at once."""
        last = np.full(2 * batch.keys, kernels.NOT_LISTED, np.uint32)
        before = np.empty(len(batch.start), np.uint32)
        if self._condition is None:
            later, earlier, _ = kernels.pair_all(rows, self._unchecked, order, last, before, 0, ALL_PAIRS)
            return later, earlier
        values = batch.values(range(len(self._node.variables)), self._mappings).T.copy()
        found, next_place = [(order[:0], order[:0])], 0
        while next_place < len(order):
            later, earlier, next_place = kernels.pair_all(
                rows, self._unchecked, order, last, before, next_place, MANY_PAIRS
            )
            joint = np.maximum(values[:, later], values[:, earlier])  # unbound is less than every value
            true = self._condition.evaluate(joint, now.dictionary)
            found.append((later[true], earlier[true]))
        return np.concatenate([later for later, _ in found]), np.concatenate([earlier for _, earlier in found])

    def _joined(self, batch: Batch, later: UInts, earlier: UInts) -> Occurrences:
        """An occurrence of each pair."""
        are_right = batch.are_right(later)
        left, right = np.where(are_right, earlier, later), np.where(are_right, later, earlier)
        found = np.empty((VALUES + len(self._node.variables), len(later)), np.int64)
        other = np.empty((len(_PROGRESS), len(later)), np.int64)
        batch.gather(found, self._columns[LEFT][0], LEFT, left, self._columns[LEFT][1])
        batch.gather(found, self._columns[RIGHT][0], RIGHT, right, self._columns[RIGHT][1])
        batch.gather(other, _PROGRESS, RIGHT, right, _PROGRESS)
        found[LEFT_END], found[RIGHT_START] = found[END], other[START]
        for column, outermost in _OUTERMOST.items():
            outermost(found[column], other[column], out=found[column])
        if self._loose:
            self._fill_loose(found, batch, right)
        return Occurrences(found, *merge_events(*batch.lists, left, right))

    def _fill_loose(self, found: Ints, batch: Batch, right: UInts) -> None:
        """Shared variables that the left side may leave unbound."""
        values = batch.values(self._loose, self._mappings)[right].T
        for variable, value in zip(self._loose, values, strict=True):
            column = found[VALUES + variable]
            np.copyto(column, value, where=column == UNBOUND)

    def _merged(self, batch: Batch, later: UInts, earlier: UInts) -> Occurrences:
        """One occurrence of each row with all its partners, or with each of them."""
        if self._context == kernels.CUMULATIVE:
            groups, places = _with_leader(later, earlier)
        else:
            groups, places = np.arange(0, 2 * len(later) + 1, 2), np.column_stack([later, earlier]).ravel()
        table, are_right = batch.both(places, self._mappings), batch.are_right(places)
        found = Occurrences(*merge_groups(table.columns, table.starts, table.events, groups, np.arange(len(places))))
        found.columns[LEFT_END], found.columns[RIGHT_START] = _sides(table, are_right, groups)
        return replace(found, members=_members(table, groups))

    def _useful(self, start: Ints, end: Ints, side: int, now: OperatorEnv) -> kernels.Flags:
        """Which open occurrences of a side may still find a partner."""
        first_start, first_end = self._first_useful(side, now)
        return (start >= first_start) & (end >= first_end)

    def _first_useful(self, side: int, now: OperatorEnv) -> tuple[int, int]:
        """When open occurrences of a side have to start and to end at the earliest to find a partner yet.

        Whatever comes from now on ends no earlier than the frontier, less the lag of its side.
        """
        if now.frontier.current >= END_FRONTIER:
            return END_FRONTIER, END_FRONTIER
        lag = now.lags[1 - side] if self._context == kernels.UNRESTRICTED else max(now.lags)
        relation, first = self._node.operator.relation, _RIGHT_FIRST if side else LEFT_FIRST
        partners_end = now.frontier.current - lag
        is_second = relation is not None and relation not in first  # the partner is the one that ends first
        return (
            partners_end - self._bound if self._bound >= 0 else NO_FRONTIER,
            partners_end if is_second else NO_FRONTIER,
        )


def _with_leader(later: UInts, earlier: UInts) -> tuple[Ints, UInts]:
    """The groups of a row with all its partners, itself first."""
    first = np.flatnonzero(np.append(True, later[1:] != later[:-1]))
    groups = np.append(first, len(later))
    return groups + np.arange(len(groups)), np.insert(earlier, first, later[first])


def _sides(table: Occurrences, are_right: kernels.Flags, groups: Ints) -> tuple[Ints, Ints]:
    """Where the left side ends and the right one starts, of each group."""
    ends = np.where(are_right, np.iinfo(np.int64).min, table.columns[END])
    starts = np.where(are_right, table.columns[START], np.iinfo(np.int64).max)
    return np.maximum.reduceat(ends, groups[:-1]), np.minimum.reduceat(starts, groups[:-1])


def _members(table: Occurrences, groups: Ints) -> npt.NDArray[np.object_] | None:
    """An occurrence joined with each of its partners, solution by solution."""
    if table.members is None:
        return None
    found: list[Members] = []
    for begin, end in pairwise(groups.tolist()):
        own, *others = table.members[begin:end]
        found.append(frozenset(joint for other in others for joint in _joint(own, other)))
    return member_array(found)


def _joint(some: Members, others: Members) -> list[tuple[tuple[str, int], ...]]:
    agreeing = ((one, other) for one in some for other in others if _agree(dict(one), dict(other)))
    return [tuple(sorted({*one, *other})) for one, other in agreeing]


def _agree(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())


@dataclass(frozen=True, eq=False)
class Batch:
    """Of either side first what is open, then what completes, by end and start, then what does not complete yet."""

    tables: Sequence[Occurrences]
    start: Ints
    end: Ints
    key: UInts
    keys: int
    spans: tuple[Span, Span]
    source: UInts | None = None  # where each row is in the tables, if that is somewhere else

    @classmethod
    def of(cls, tables: Sequence[Occurrences], keys: Ints) -> Batch:
        """All rows of the tables of both sides; ``keys`` are the columns of each table that make up its key."""
        columns = tuple(table.columns for table in tables)
        start, end = (np.concatenate([table[column] for table in columns]) for column in (START, END))
        bounds = [0, *accumulate(map(len, tables))]
        left, right = (Span(bounds[first], bounds[first + 1], bounds[first + TABLES]) for first in (0, TABLES))
        key, count = key_ids(columns, keys)
        return cls(tables, start, end, key, count, (left, right))

    def completing(self, limit: int) -> Batch:
        """Only what ends before a limit takes part, and in order."""
        batch = self
        for side, (_, new, last) in enumerate(self.spans):
            start, end = self.start[new:last], self.end[new:last]
            if not is_time_ordered(start, end):
                batch = batch.arranged(side, new + np.lexsort([start, end]))
        left, right = (
            Span(first, new, new + int(batch.end[new:last].searchsorted(limit))) for first, new, last in self.spans
        )
        return replace(batch, spans=(left, right))

    def arranged(self, side: int, rows: UInts | Ints) -> Batch:
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

    def are_right(self, rows: UInts | Ints) -> Flags:
        found: Flags = rows >= self.spans[RIGHT].first
        return found

    def of_side(self, rows: UInts, side: int) -> UInts:
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
        _, starts, events = take_rows(_NO_COLUMNS, starts, events, self.source)
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

    def gather(self, found: Ints, targets: Ints, side: int, rows: UInts, sources: Ints) -> None:
        """Put columns of some rows of a side where they belong."""
        gather_columns(found, targets, *(table.columns for table in self._of(side)), self._places(side, rows), sources)

    def table(self, side: int, rows: UInts) -> Occurrences:
        """Some rows of one side, in its own variables."""
        if not len(rows):
            return empty_table(self._of(side)[0].width, with_members=self._of(side)[0].members is not None)
        places = self._places(side, rows)
        if (places[1:] > places[:-1]).all():
            return self._at(side, places)
        distinct, order = np.unique(places, return_inverse=True)
        return self._at(side, distinct).take(order)

    def _at(self, side: int, places: UInts) -> Occurrences:
        """What is at some places, which rise, of a side's tables."""
        found, first, low = [], 0, 0
        for table in self._of(side):
            high = int(places.searchsorted(np.uint32(first + len(table))))
            if low < high:
                is_whole = high - low == len(table)
                found.append(table if is_whole else table.take(places[low:high] - np.uint32(first)))
            first, low = first + len(table), high
        return concatenate(found)

    def rest(self, side: int) -> Occurrences:
        """What does not complete yet."""
        last = self.spans[side].first + sum(map(len, self._of(side)))
        return self.table(side, np.arange(self.spans[side].stop, last, dtype=np.uint32))

    def both(self, rows: UInts, mappings: Sequence[Sequence[int]]) -> Occurrences:
        """Rows of either side, in the variables of the result."""
        are_right = self.are_right(rows)
        sides = [self.table(side, rows[are_right == side]).project(mappings[side]) for side in (LEFT, RIGHT)]
        order = np.argsort(np.argsort(are_right, kind="stable"), kind="stable")
        return concatenate(sides).take(order)

    def _of(self, side: int) -> Sequence[Occurrences]:
        return self.tables[side * TABLES : (side + 1) * TABLES]

    def _places(self, side: int, rows: UInts) -> UInts:
        """Where rows of a side are in its tables, if those are numbered through."""
        places = rows if self.source is None else self.source[rows]
        return places - np.uint32(self.spans[side].first)
