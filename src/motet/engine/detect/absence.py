"""UNLESS, WITHOUT, XOR and NO: occurrences without a contradicting one (language page, section 5).

All four make the same test of each occurrence: does a negated occurrence with agreeing values start after one instant
and end by another? The occurrence is pending until the frontier has passed the second instant. Negated occurrences are
kept while they can contradict a pending or a future occurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.detect.absence_kernels import find_contradicted, hash_rows
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, IncrementalOperator, OperatorEnv, StateTables
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
from motet.jit.compiled import Ints
from motet.model.timeline import END_FRONTIER, NO_FRONTIER
from motet.model.times import END_OF_TIME
from motet.plan.graph import Kind, PlanNode, variable_index

BEGINNING_TABLE = "beginning"


class _Windows(NamedTuple):
    """By row: a negated occurrence contradicts it if it starts after ``low`` and ends by ``high``."""

    low: Ints
    high: Ints
    is_tested: npt.NDArray[np.bool_]  # false where nothing can contradict

    def take(self, rows: npt.NDArray[np.bool_]) -> _Windows:
        return _Windows(self.low[rows], self.high[rows], self.is_tested[rows])


class _NegatedSide:
    """Occurrences that are pending until their window closes, and the negated ones that may contradict them."""

    def __init__(self, node: PlanNode, kind: Kind, width: int, pair_bound: int | None = None) -> None:
        self._kind = kind
        self._window = node.operator.window or 0
        self._pair_bound = pair_bound
        self._joined = np.array([VALUES + variable_index(name) for name in node.joined_variables], np.int64)
        self._keys = np.array([VALUES + variable_index(name) for name in node.key_variables], np.int64)
        self.pending = empty_table(width, with_members=node.with_members)
        self.negated = empty_table(width, with_members=node.with_members)

    def advance(self, new: Occurrences, negated: Occurrences, env: OperatorEnv, lags: Sequence[int]) -> Occurrences:
        """The occurrences that are final and not contradicted; ``lags`` are those of the two inputs."""
        self.negated = concatenate([self.negated, negated])
        pending = concatenate([self.pending, new])
        windows = self._windows(pending)
        is_closed = ~windows.is_tested | env.frontier.has_passed(windows.high + lags[1])
        self.pending = pending.take(~is_closed)
        result = self._uncontradicted(pending.take(is_closed), windows.take(is_closed), env, lags[1])
        self.prune(env, lags[0])
        return result

    def next_timer(self, lag: int) -> int:
        """When the first window closes."""
        return int(self._windows(self.pending).high.min()) + lag if len(self.pending) else NO_TIMER

    def _windows(self, table: Occurrences) -> _Windows:
        start, end = table.columns[START], table.columns[END]
        all_rows = np.ones(len(table), np.bool_)
        match self._kind:
            case Kind.XOR:  # the hull of both fits into the window
                return _Windows(end - self._window - 1, start + self._window, end - start <= self._window)
            case Kind.WITHOUT:  # between the sides of a pair
                left, right = table.columns[LEFT_END], table.columns[RIGHT_START]
                return _Windows(left, right - 1, left < right)
        return _Windows(end, end + self._window, all_rows)  # UNLESS; NO, whose occurrences are points

    def _uncontradicted(self, table: Occurrences, windows: _Windows, env: OperatorEnv, lag: int) -> Occurrences:
        if not len(table):
            return table
        negated = self.negated.columns
        negated_hashes = hash_rows(negated, self._keys)
        order = np.lexsort([negated[START], negated_hashes])
        hashes = hash_rows(table.columns, self._keys)
        holds = ~windows.is_tested | ~find_contradicted(
            table.columns,
            hashes,
            windows.low,
            windows.high,
            negated.take(order, axis=1),
            negated_hashes[order],
            self._joined,
        )
        final = np.where(windows.is_tested, env.frontier.offsets_past(windows.high + lag), -1)
        offsets = np.maximum(table.columns[EMISSION_OFFSET], final)
        return table.with_column(EMISSION_OFFSET, offsets).take(holds)

    def prune(self, env: OperatorEnv, lag: int) -> None:
        """Retain negated occurrences that start after the least ``low`` of a pending or future occurrence."""
        least = self._least_future_low(env.frontier.current, lag)
        if len(self.pending):
            least = min(least, int(self._windows(self.pending).low.min()))
        is_useful = self.negated.columns[START] > least
        if not is_useful.all():
            self.negated = self.negated.take(is_useful)

    def _least_future_low(self, frontier: int, lag: int) -> int:
        """The least ``low`` of future occurrences, which end no earlier than the frontier less their lag."""
        if frontier in (NO_FRONTIER, END_FRONTIER):
            return frontier
        match self._kind:
            case Kind.XOR:
                return frontier - lag - self._window - 1
            case Kind.WITHOUT:
                return NO_FRONTIER if self._pair_bound is None else frontier - lag - self._pair_bound
        return frontier - lag


class NegationOperator(IncrementalOperator):
    """A UNLESS B; and A WITHOUT B, where A is a pair of at most ``pair_bound``."""

    def __init__(self, node: PlanNode, pair_bound: int | None) -> None:
        super().__init__(node)
        self._side = _NegatedSide(node, node.kind, len(node.variables), pair_bound)

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        return self._side.advance(inputs[0], inputs[1], env, env.lags)

    def prune(self, env: OperatorEnv) -> None:
        self._side.prune(env, env.lags[0])

    def next_timer(self, env: OperatorEnv) -> int:
        return self._side.next_timer(env.lags[1])

    def snapshot(self) -> StateTables:
        return {"waiting": self._side.pending, "others": self._side.negated}

    def restore(self, tables: StateTables) -> None:
        self._side.pending, self._side.negated = tables["waiting"], tables["others"]


class XorOperator(IncrementalOperator):
    """A XOR B: each side is negated by the other."""

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        self._window = node.operator.window or 0
        self._sides = [_NegatedSide(node, Kind.XOR, len(node.variables)) for _ in range(2)]

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        return concatenate(
            [
                side.advance(inputs[i], self._short(inputs[1 - i]), env, (env.lags[i], env.lags[1 - i]))
                for i, side in enumerate(self._sides)
            ]
        )

    def _short(self, table: Occurrences) -> Occurrences:
        """The occurrences that fit into the window."""
        return table.take(table.columns[END] - table.columns[START] <= self._window)

    def prune(self, env: OperatorEnv) -> None:
        for side, lag in zip(self._sides, env.lags, strict=True):
            side.prune(env, lag)

    def next_timer(self, env: OperatorEnv) -> int:
        return min(side.next_timer(env.lags[1 - i]) for i, side in enumerate(self._sides))

    def snapshot(self) -> StateTables:
        left, right = self._sides
        return {
            "waiting left": left.pending,
            "waiting right": right.pending,
            "rights": left.negated,
            "lefts": right.negated,
        }

    def restore(self, tables: StateTables) -> None:
        left, right = self._sides
        left.pending, right.pending = tables["waiting left"], tables["waiting right"]
        left.negated, right.negated = tables["rights"], tables["lefts"]


class NoOperator(IncrementalOperator):
    """NO A FOR d: a start point is contradicted by an A after it. Start points are ends of A, and the beginning of the
    subscription.

    A beginning that is the least end of the visible events can still change until the frontier has passed it: an event
    that ends earlier is late then.
    """

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        self._window = node.operator.window or 0
        self._side = _NegatedSide(node, Kind.NO, 0)
        self._least_end = self._points(np.empty(0, np.int64))  # one row once there was an event, if it is the beginning
        self.begins_with_event = node.start is not None and node.start.begins_with_event
        if node.start is not None and node.start.beginning is not None:
            self._side.pending = self._possible_points([node.start.beginning])

    def see_end(self, end: int) -> None:
        """Take in the least end of some visible events, published after the subscription's start."""
        if not len(self._least_end) or end < self._least_end.columns[END][0]:
            self._least_end = self._points(np.array([end]))

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        negated = inputs[0].project(())
        ends = np.union1d(negated.columns[END], self._decided_beginning(env))
        new_points = self._possible_points(np.setdiff1d(ends, self._side.pending.columns[END]))
        result = self._side.advance(new_points, negated, env, (env.lags[0], env.lags[0]))
        return result.with_column(END, result.columns[START] + self._window)

    def _decided_beginning(self, env: OperatorEnv) -> Ints:
        """The least end of the visible events, once, when the frontier has passed it."""
        ends = self._least_end.columns[END]
        is_decided = (ends > NO_FRONTIER) & env.frontier.has_passed(ends)
        if is_decided.any():
            self._least_end = self._points(np.array([NO_FRONTIER]))  # no end is less: it stays decided
        return ends[is_decided]

    def prune(self, env: OperatorEnv) -> None:
        self._side.prune(env, env.lags[0])

    def next_timer(self, env: OperatorEnv) -> int:
        undecided = self._least_end.columns[END]
        undecided = undecided[undecided > NO_FRONTIER]
        return min([self._side.next_timer(env.lags[0]), *undecided.tolist()])

    def snapshot(self) -> StateTables:
        return {"points": self._side.pending, "others": self._side.negated, BEGINNING_TABLE: self._least_end}

    def restore(self, tables: StateTables) -> None:
        self._side.pending, self._side.negated = tables["points"], tables["others"]
        self._least_end = tables[BEGINNING_TABLE]

    def _possible_points(self, instants: Ints | Sequence[int]) -> Occurrences:
        """The points whose absence ends before the end of time."""
        points = np.asarray(instants, np.int64)
        return self._points(points[points + self._window <= END_OF_TIME])

    def _points(self, instants: Ints) -> Occurrences:
        """Occurrences without events and bindings."""
        columns = np.zeros((VALUES, len(instants)), np.int64)
        columns[START], columns[END], columns[FIRST_OFFSET] = instants, instants, NO_OFFSET
        members = member_array([frozenset({()})] * len(instants)) if self.node.with_members else None
        return Occurrences(columns, np.zeros(len(instants) + 1, np.int64), np.empty(0, np.int64), members)
