"""AND, ALONGSIDE and the Allen relations in every context (language page, section 7).

In the unrestricted context pairs are found when their sides arrive. In the others both sides are pending until the
frontier has passed their end, and then complete in order. Open occurrences that can find no partner are pruned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from motet.engine.detect import pairing_kernels as kernels
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, IncrementalOperator, OperatorEnv, RowCondition, StateTables
from motet.engine.detect.order import break_ties
from motet.engine.detect.pairing_kernels import PairRows, PairTest, SideRange
from motet.engine.detect.table_kernels import (
    EMISSION_OFFSET,
    END,
    FIRST_OFFSET,
    LEFT_END,
    RIGHT_START,
    START,
    UNBOUND,
    VALUES,
    Members,
    gather_columns,
    is_time_ordered,
    key_ids,
    merge_events,
    merge_groups,
    take_rows,
)
from motet.jit.compiled import Bools, Ints, UInts
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.model.timeline import END_FRONTIER, NO_FRONTIER
from motet.plan.graph import LEFT_FIRST, Kind, PlanNode, variable_index

LEFT, RIGHT = 0, 1

_TABLES = 3  # of a side: open, pending and new rows
_NO_EVENTS, _NO_COLUMNS = (np.empty(0, np.int64), np.empty(0, np.int64)), np.empty((0, 0), np.int64)

_CONTEXTS = {
    Context.UNRESTRICTED: kernels.UNRESTRICTED,
    Context.RECENT: kernels.RECENT,
    Context.CHRONICLE: kernels.CHRONICLE,
    Context.CONTINUOUS: kernels.CONTINUOUS,
    Context.CUMULATIVE: kernels.CUMULATIVE,
}
_RELATIONS = {relation: getattr(kernels, relation.name) for relation in Relation}
_KINDS = {Kind.AND: kernels.AND, Kind.ALONGSIDE: kernels.ALONGSIDE}

# Relations where the right side completes first. Where either side can, both stay open.
_RIGHT_FIRST = frozenset(relation.inverse for relation in LEFT_FIRST)

# Instants that are equal in every pair, so that they can be part of the key: columns of the left and of the right side.
_EQUAL_TIMES = {
    Relation.MEETS: ((END, START),),
    Relation.MET_BY: ((START, END),),
    Relation.STARTS: ((START, START),),
    Relation.STARTED_BY: ((START, START),),
    Relation.FINISHES: ((END, END),),
    Relation.FINISHED_BY: ((END, END),),
    Relation.EQUALS: ((START, START), (END, END)),
}

_MAX_PAIRS, _ALL_PAIRS = 1 << 20, np.iinfo(np.int64).max
_NO_ALLOWED = np.empty(0, np.int64)

# Contexts where a completing row consumes all its candidates: if only one side opens, the first such row gets each.
_CONSUMES_ALL = (kernels.CONTINUOUS, kernels.CUMULATIVE)

# How a pair's times and offsets follow from those of its sides.
_COMBINED = {START: np.minimum, END: np.maximum, EMISSION_OFFSET: np.maximum, FIRST_OFFSET: np.minimum}
_COMBINED_COLUMNS = np.array(list(_COMBINED))


class PairingOperator(IncrementalOperator):
    """Holds, by side, pending rows, which have not completed yet, and the open rows of the context.

    Operands and state tables keep the operands' variables: most occurrences find no partner, and only pairs are worth
    the projection. ``variable_maps`` has, by side, the column of each variable of the result.
    """

    def __init__(self, node: PlanNode, variable_maps: Sequence[Sequence[int]], widths: Sequence[int]) -> None:
        assert node.context is not None, "pairing operators have a context"
        super().__init__(node)
        relation = node.operator.relation
        self._variable_maps = variable_maps
        self._context = _CONTEXTS[node.context]
        self._relation = _KINDS[node.kind] if relation is None else _RELATIONS[relation]
        self._bound = -1 if node.bound is None else node.bound
        self._condition = None if node.condition is None else RowCondition(node.condition)
        self._key_columns = self._find_key_columns()
        self._unconditional = PairTest(self._relation, self._bound, False, _NO_ALLOWED)
        self._result_columns = self._find_result_columns()
        self._nullable = [variable_index(name) for name in node.joined_variables if name not in node.key_variables]
        self._opens = np.array([relation not in _RIGHT_FIRST, relation not in LEFT_FIRST])
        self._one_side_open = self._context in _CONSUMES_ALL and not self._opens.all()
        self._order = [[variable_index(name) for name in names] for names in node.order or ((), ())]
        self._may_share_events = relation not in (Relation.BEFORE, Relation.AFTER)
        self._pending = [empty_table(width, with_members=node.with_members) for width in widths]
        self._open = [*self._pending]

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        batch = self._read(inputs, env)
        if batch.has_completing:
            return self._pair(batch, env)
        self.prune(env)
        return self._empty_result()

    def prune(self, env: OperatorEnv) -> None:
        """Drop the open occurrences that can find no partner any more."""
        for side, table in enumerate(self._open):
            may_pair = self._may_pair(table.columns[START], table.columns[END], side, env)
            if not may_pair.all():
                self._open[side] = table.take(may_pair)

    def next_timer(self, env: OperatorEnv) -> int:
        least = min(int(side.columns[END].min(initial=NO_TIMER)) for side in self._pending)
        return least if least == NO_TIMER else least + max(env.lags)

    def snapshot(self) -> StateTables:
        return {
            "waiting left": self._pending[LEFT],
            "waiting right": self._pending[RIGHT],
            "open left": self._open[LEFT],
            "open right": self._open[RIGHT],
        }

    def restore(self, tables: StateTables) -> None:
        self._pending = [tables["waiting left"], tables["waiting right"]]
        self._open = [tables["open left"], tables["open right"]]

    def _empty_result(self) -> Occurrences:
        return empty_table(len(self.node.variables), with_members=self.node.with_members)

    def _find_key_columns(self) -> Ints:
        """The columns that are equal in every pair, for each table of the left and of the right side."""
        node, relation = self.node, self.node.operator.relation
        columns = [
            tuple(VALUES + side[variable_index(name)] for side in self._variable_maps) for name in node.key_variables
        ]
        if relation is not None and node.context is not Context.RECENT:
            columns += _EQUAL_TIMES.get(relation, ())
        return np.array(columns, np.int64).reshape(len(columns), 2).T.repeat(_TABLES, axis=0)

    def _find_result_columns(self) -> list[Ints]:
        """For each side the columns of a pair that are copied from it, and the columns they are copied from."""
        left, right = self._variable_maps
        of_left = [(column, column) for column in _COMBINED_COLUMNS]
        of_left += [(VALUES + variable, VALUES + source) for variable, source in enumerate(left) if source >= 0]
        of_right = [(VALUES + variable, VALUES + source) for variable, source in enumerate(right) if left[variable] < 0]
        return [np.array(side, np.int64).reshape(-1, 2).T.copy() for side in (of_left, of_right)]

    def _read(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> _PairingBatch:
        """The open and the completing rows; the others stay pending."""
        tables = [(self._open[side], self._pending[side], inputs[side]) for side in (LEFT, RIGHT)]
        batch = _PairingBatch.of([*tables[LEFT], *tables[RIGHT]], self._key_columns)
        if self._context != kernels.UNRESTRICTED:
            frontier = env.frontier.current
            batch = batch.completing(frontier - max(env.lags) if frontier < END_FRONTIER else END_FRONTIER)
            self._pending = [batch.pending(side) for side in (LEFT, RIGHT)]
        return batch

    def _pair(self, batch: _PairingBatch, env: OperatorEnv) -> Occurrences:
        batch, later, earlier, open_rows = self._find_pairs(batch, env)
        self._open = [self._pruned(batch, batch.of_side(open_rows, side), side, env) for side in (LEFT, RIGHT)]
        if not len(later):
            return self._empty_result()
        merges = self._context == kernels.CUMULATIVE or self.node.with_members
        pairs = self._merge(batch, later, earlier) if merges else self._join(batch, later, earlier)
        if self._context != kernels.UNRESTRICTED:  # final with everything that completes before
            final = env.frontier.offsets_past(pairs.columns[END] + max(env.lags))
            np.maximum(pairs.columns[EMISSION_OFFSET], final, out=pairs.columns[EMISSION_OFFSET])
        return pairs

    def _pruned(self, batch: _PairingBatch, rows: UInts, side: int, env: OperatorEnv) -> Occurrences:
        if len(rows):
            rows = rows[self._may_pair(batch.start[rows], batch.end[rows], side, env)]
        return batch.table(side, rows)

    def _find_pairs(self, batch: _PairingBatch, env: OperatorEnv) -> tuple[_PairingBatch, UInts, UInts, UInts]:
        """The batch, perhaps reordered; pairs (later, earlier); and the rows that stay open, in the order of ends."""
        if self._one_side_open:
            return self._pair_one_sided(batch, env)
        rows = self._kernel_rows(batch)
        if self._context == kernels.UNRESTRICTED:
            order = np.argsort(batch.end, kind="stable").astype(np.uint32)
            return batch, *self._all_pairs(batch, rows, order, env), order
        order, same_events = self._completion_order(batch, rows, kernels.completing_rows(rows), env)
        pair_test = self._pair_test(batch, rows, env, order)
        pairs = kernels.pair_in_context(rows, pair_test, batch.keys, order, same_events, self._context, self._opens)
        return batch, *pairs

    def _pair_one_sided(self, batch: _PairingBatch, env: OperatorEnv) -> tuple[_PairingBatch, UInts, UInts, UInts]:
        """The pairs where only one side stays open."""
        opening, consuming = (LEFT, RIGHT) if self._opens[LEFT] else (RIGHT, LEFT)
        opens_right = opening == RIGHT
        oldest, _ = self._earliest_useful(opening, env)
        rows = self._kernel_rows(batch)
        test = self._pair_test(batch, rows, env)
        *pairs, has_ties = kernels.pair_one_sided(rows, test, batch.keys, opens_right, oldest)
        if has_ties:
            row_range = batch.ranges[consuming]
            completing = np.arange(row_range.new, row_range.stop, dtype=np.uint32)
            batch = batch.reordered(consuming, self._completion_order(batch, rows, completing, env)[0])
            rows = self._kernel_rows(batch)
            test = self._pair_test(batch, rows, env)
            *pairs, _ = kernels.pair_one_sided(rows, test, batch.keys, opens_right, oldest)
        return batch, *pairs

    def _kernel_rows(self, batch: _PairingBatch) -> PairRows:
        return batch.kernel_rows(batch.values(self._nullable, self._variable_maps), self._may_share_events)

    def _completion_order(
        self, batch: _PairingBatch, rows: PairRows, order: UInts, env: OperatorEnv
    ) -> tuple[UInts, Bools]:
        """Rows that are ordered by time in completion order; and which have the times and events of the one before."""
        is_tied, has_ties = kernels.find_ties(rows, batch.keys, order)
        if not has_ties:
            return order, is_tied

        def take_tied(tied: Ints) -> tuple[Occurrences, Bools]:
            return batch.both(tied.astype(np.uint32), self._variable_maps), batch.are_right(tied)

        is_recent = self._context == kernels.RECENT  # where rows with the same events have to be adjacent
        times = (order.astype(np.int64), batch.start, batch.end)
        completion = break_ties(*times, take_tied, env.dictionary, self._order, None if is_recent else is_tied)
        return completion.rows.astype(np.uint32), completion.same_events

    def _pair_test(
        self, batch: _PairingBatch, rows: PairRows, env: OperatorEnv, completing: UInts | None = None
    ) -> PairTest:
        """What pairs have to meet; a condition is evaluated on all possible pairs beforehand."""
        if self._condition is None:
            return self._unconditional
        completing = kernels.completing_rows(rows) if completing is None else completing
        open_rows = [np.arange(row_range.first, row_range.new, dtype=np.uint32) for row_range in batch.ranges]
        later, earlier = self._all_pairs(batch, rows, np.concatenate([*open_rows, completing]), env)
        allowed = np.sort(later.astype(np.int64) * len(batch.start) + earlier)
        return self._unconditional._replace(has_condition=True, allowed=allowed)

    def _all_pairs(self, batch: _PairingBatch, rows: PairRows, order: UInts, env: OperatorEnv) -> tuple[UInts, UInts]:
        """All pairs (later, earlier) that meet the relation and the condition, which is evaluated batch by batch."""
        last = np.full(2 * batch.keys, kernels.NOT_LISTED, np.uint32)
        before = np.empty(len(batch.start), np.uint32)
        if self._condition is None:
            later, earlier, _ = kernels.pair_all(rows, self._unconditional, order, last, before, 0, _ALL_PAIRS)
            return later, earlier
        values = batch.values(range(len(self.node.variables)), self._variable_maps).T.copy()
        pairs, index = [(order[:0], order[:0])], 0
        while index < len(order):
            later, earlier, index = kernels.pair_all(rows, self._unconditional, order, last, before, index, _MAX_PAIRS)
            joined = np.maximum(values[:, later], values[:, earlier])  # UNBOUND is less than every value
            is_true = self._condition.evaluate(joined, env.dictionary)
            pairs.append((later[is_true], earlier[is_true]))
        return np.concatenate([later for later, _ in pairs]), np.concatenate([earlier for _, earlier in pairs])

    def _join(self, batch: _PairingBatch, later: UInts, earlier: UInts) -> Occurrences:
        """One occurrence for each pair."""
        are_right = batch.are_right(later)
        left, right = np.where(are_right, earlier, later), np.where(are_right, later, earlier)
        columns = np.empty((VALUES + len(self.node.variables), len(later)), np.int64)
        of_right = np.empty((len(_COMBINED_COLUMNS), len(later)), np.int64)
        batch.gather(columns, self._result_columns[LEFT][0], LEFT, left, self._result_columns[LEFT][1])
        batch.gather(columns, self._result_columns[RIGHT][0], RIGHT, right, self._result_columns[RIGHT][1])
        batch.gather(of_right, _COMBINED_COLUMNS, RIGHT, right, _COMBINED_COLUMNS)
        columns[LEFT_END], columns[RIGHT_START] = columns[END], of_right[START]
        for column, combine in _COMBINED.items():
            combine(columns[column], of_right[column], out=columns[column])
        if self._nullable:
            self._fill_nullable(columns, batch, right)
        return Occurrences(columns, *merge_events(*batch.event_lists, left, right))

    def _fill_nullable(self, columns: Ints, batch: _PairingBatch, right: UInts) -> None:
        """Take shared variables that the left row leaves unbound from the right one."""
        values = batch.values(self._nullable, self._variable_maps)[right].T
        for variable, value in zip(self._nullable, values, strict=True):
            column = columns[VALUES + variable]
            np.copyto(column, value, where=column == UNBOUND)

    def _merge(self, batch: _PairingBatch, later: UInts, earlier: UInts) -> Occurrences:
        """One occurrence for each later row with all its partners (cumulative), or for each pair with its members."""
        if self._context == kernels.CUMULATIVE:
            groups, rows = _groups_by_later(later, earlier)
        else:
            groups, rows = np.arange(0, 2 * len(later) + 1, 2), np.column_stack([later, earlier]).ravel()
        table, are_right = batch.both(rows, self._variable_maps), batch.are_right(rows)
        merged = Occurrences(*merge_groups(table.columns, table.starts, table.events, groups, np.arange(len(rows))))
        merged.columns[LEFT_END], merged.columns[RIGHT_START] = _free_interval(table, are_right, groups)
        return replace(merged, members=_join_members(table, groups))

    def _may_pair(self, start: Ints, end: Ints, side: int, env: OperatorEnv) -> Bools:
        """Which open occurrences of a side may still find a partner."""
        first_start, first_end = self._earliest_useful(side, env)
        return (start >= first_start) & (end >= first_end)

    def _earliest_useful(self, side: int, env: OperatorEnv) -> tuple[int, int]:
        """The earliest start and the earliest end of an open occurrence of a side that may still find a partner.

        Future occurrences end no earlier than the frontier less the lag of their side.
        """
        if env.frontier.current >= END_FRONTIER:
            return END_FRONTIER, END_FRONTIER
        lag = env.lags[1 - side] if self._context == kernels.UNRESTRICTED else max(env.lags)
        relation, first = self.node.operator.relation, _RIGHT_FIRST if side else LEFT_FIRST
        partner_end = env.frontier.current - lag
        ends_last = relation is not None and relation not in first  # its partner ends before or with it
        earliest_start = partner_end - self._bound if self._bound >= 0 else NO_FRONTIER
        return earliest_start, partner_end if ends_last else NO_FRONTIER


@dataclass(frozen=True, eq=False)
class _PairingBatch:
    """The rows of both sides, numbered consecutively: of each side the open, the completing, then the pending rows.

    Completing rows are sorted by end and start.
    """

    tables: Sequence[Occurrences]
    bounds: Sequence[int]  # the first row of each table, and the number of all rows
    start: Ints
    end: Ints
    key: UInts
    keys: int
    ranges: tuple[SideRange, SideRange]
    sources: UInts | None = None  # by row: its index in the tables, where that differs

    @classmethod
    def of(cls, tables: Sequence[Occurrences], key_columns: Ints) -> _PairingBatch:
        """All rows of the tables of both sides, with the key columns of each table."""
        columns = tuple([table.columns for table in tables])
        start = np.concatenate([table[START] for table in columns])
        end = np.concatenate([table[END] for table in columns])
        bounds = [*accumulate([table.shape[1] for table in columns], initial=0)]
        left = SideRange(bounds[0], bounds[1], bounds[_TABLES])
        right = SideRange(bounds[_TABLES], bounds[_TABLES + 1], bounds[2 * _TABLES])
        key, count = key_ids(columns, key_columns)
        return cls(tables, bounds, start, end, key, count, (left, right))

    def completing(self, limit: int) -> _PairingBatch:
        """Only rows that end before a limit complete, ordered by time."""
        batch = self
        for side, (_, new, last) in enumerate(self.ranges):
            start, end = self.start[new:last], self.end[new:last]
            if last - new > 1 and not is_time_ordered(start, end):
                batch = batch.reordered(side, new + np.lexsort([start, end]))
        left, right = [
            SideRange(first, new, new + int(batch.end[new:last].searchsorted(limit)))
            for first, new, last in self.ranges
        ]
        return replace(batch, ranges=(left, right))

    def reordered(self, side: int, rows: UInts | Ints) -> _PairingBatch:
        """With the first rows after the open ones of a side in another order."""
        order = np.arange(len(self.start), dtype=np.uint32)
        order[self.ranges[side].new :][: len(rows)] = rows
        sources = order if self.sources is None else self.sources[order]
        return replace(self, start=self.start[order], end=self.end[order], key=self.key[order], sources=sources)

    @property
    def has_completing(self) -> bool:
        left, right = self.ranges
        return left.stop > left.new or right.stop > right.new

    def kernel_rows(self, nullable: Ints, may_share_events: bool) -> PairRows:
        lists = self.event_lists if may_share_events else _NO_EVENTS
        return PairRows(self.start, self.end, self.key, *self.ranges, nullable, may_share_events, *lists)

    def are_right(self, rows: UInts | Ints) -> Bools:
        are_right: Bools = rows >= self.ranges[RIGHT].first
        return are_right

    def of_side(self, rows: UInts, side: int) -> UInts:
        """The given rows that are of one side."""
        return rows[self.are_right(rows) == side]

    @cached_property
    def event_lists(self) -> tuple[Ints, Ints]:
        """The start of each row's events, and the events of all rows."""
        starts = np.zeros(len(self.start) + 1, np.int64)
        events = np.concatenate([table.events for table in self.tables])
        for table, (first, last) in zip(self.tables, pairwise(self.bounds), strict=True):
            np.add(table.starts, starts[first], out=starts[first : last + 1])
        if self.sources is None:
            return starts, events
        _, starts, events = take_rows(_NO_COLUMNS, starts, events, self.sources)
        return starts, events

    def values(self, variables: Sequence[int], variable_maps: Sequence[Sequence[int]]) -> Ints:
        """Variables of the result, by row and variable."""
        values = np.full((len(self.start), len(variables)), UNBOUND, np.int64)
        for index, variable in enumerate(variables):
            columns = [
                table.columns[VALUES + variable_map[variable]]
                if variable_map[variable] >= 0
                else np.full(len(table), UNBOUND)
                for variable_map, table in zip(np.repeat(variable_maps, _TABLES, axis=0), self.tables, strict=True)
            ]
            values[:, index] = np.concatenate(columns)
        return values if self.sources is None else values[self.sources]

    def gather(self, result: Ints, targets: Ints, side: int, rows: UInts, sources: Ints) -> None:
        """Copy columns of rows of a side to the target columns of the result."""
        tables = (table.columns for table in self._side_tables(side))
        gather_columns(result, targets, *tables, self._side_rows(side, rows), sources)

    def table(self, side: int, rows: UInts) -> Occurrences:
        """Rows of one side, in the variables of its operand."""
        if not len(rows):
            first, *_ = self._side_tables(side)
            return empty_table(first.width, with_members=first.members is not None)
        side_rows = self._side_rows(side, rows)
        if (side_rows[1:] > side_rows[:-1]).all():
            return self._take_ascending(side, side_rows)
        distinct, order = np.unique(side_rows, return_inverse=True)
        return self._take_ascending(side, distinct).take(order)

    def _take_ascending(self, side: int, side_rows: UInts) -> Occurrences:
        """Rows of a side, in ascending order."""
        tables, low = [], 0
        bounds = self.bounds[side * _TABLES : (side + 1) * _TABLES + 1]
        for table, (first, last) in zip(self._side_tables(side), pairwise(bounds), strict=True):
            high = int(side_rows.searchsorted(np.uint32(last - bounds[0])))
            if low < high:
                is_whole = high - low == last - first
                tables.append(table if is_whole else table.take(side_rows[low:high] - np.uint32(first - bounds[0])))
            low = high
        return concatenate(tables)

    def pending(self, side: int) -> Occurrences:
        """The rows of a side that do not complete yet."""
        last = self.bounds[(side + 1) * _TABLES]
        return self.table(side, np.arange(self.ranges[side].stop, last, dtype=np.uint32))

    def both(self, rows: UInts, variable_maps: Sequence[Sequence[int]]) -> Occurrences:
        """Rows of either side, in the variables of the result."""
        are_right = self.are_right(rows)
        sides = [self.table(side, rows[are_right == side]).project(variable_maps[side]) for side in (LEFT, RIGHT)]
        order = np.argsort(np.argsort(are_right, kind="stable"), kind="stable")
        return concatenate(sides).take(order)

    def _side_tables(self, side: int) -> Sequence[Occurrences]:
        return self.tables[side * _TABLES : (side + 1) * _TABLES]

    def _side_rows(self, side: int, rows: UInts) -> UInts:
        """The indexes of rows of a side in its tables, which are numbered consecutively."""
        sources = rows if self.sources is None else self.sources[rows]
        return sources - np.uint32(self.ranges[side].first)


def _groups_by_later(later: UInts, earlier: UInts) -> tuple[Ints, UInts]:
    """Groups of each later row and all its partners, the later row first."""
    first = np.flatnonzero(np.append(True, later[1:] != later[:-1]))
    groups = np.append(first, len(later))
    return groups + np.arange(len(groups)), np.insert(earlier, first, later[first])


def _free_interval(table: Occurrences, are_right: Bools, groups: Ints) -> tuple[Ints, Ints]:
    """For each group the end of its left side and the start of its right side."""
    ends = np.where(are_right, np.iinfo(np.int64).min, table.columns[END])
    starts = np.where(are_right, table.columns[START], np.iinfo(np.int64).max)
    return np.maximum.reduceat(ends, groups[:-1]), np.minimum.reduceat(starts, groups[:-1])


def _join_members(table: Occurrences, groups: Ints) -> npt.NDArray[np.object_] | None:
    """For each group the members of its first row joined with those of each partner."""
    if table.members is None:
        return None
    joined: list[Members] = []
    for begin, end in pairwise(groups.tolist()):
        first, *partners = table.members[begin:end]
        joined.append(frozenset(member for partner in partners for member in _join_solutions(first, partner)))
    return member_array(joined)


def _join_solutions(left: Members, right: Members) -> list[tuple[tuple[str, int], ...]]:
    compatible = ((a, b) for a in left for b in right if _agree(dict(a), dict(b)))
    return [tuple(sorted({*a, *b})) for a, b in compatible]


def _agree(left: dict[str, int], right: dict[str, int]) -> bool:
    return all(right.get(name, value) == value for name, value in left.items())
