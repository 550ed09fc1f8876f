"""UNLESS, WITHOUT, XOR and NO: what stays when nothing contradicts it (language page, section 5).

All four ask one question of each occurrence: is there another one, with agreeing values, that starts after an instant
and ends by another? It is asked when the frontier has passed the second instant; until then the occurrence waits. What
contradicts is kept as long as an occurrence that waits, or one that may still come, can be concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from motet.engine.detect.absence_kernels import codes_of, contradicted
from motet.engine.detect.columns import (
    EMISSION_OFFSET,
    END,
    FIRST_OFFSET,
    LEFT_END,
    NO_OFFSET,
    RIGHT_START,
    START,
    VALUES,
    Ints,
)
from motet.engine.detect.frontier import END_FRONTIER, NO_FRONTIER
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, OperatorEnv, StateTables
from motet.model.times import END_OF_TIME
from motet.plan.nodes import Kind, Node, variable_number


class Window(NamedTuple):
    """What contradicts an occurrence starts after ``low`` and ends by ``high``; some occurrences need not ask."""

    low: Ints
    high: Ints
    asks: npt.NDArray[np.bool_]

    def of(self, rows: npt.NDArray[np.bool_]) -> Window:
        return Window(self.low[rows], self.high[rows], self.asks[rows])


class _Side:
    """Occurrences that wait for their window to close, and what may contradict them."""

    def __init__(self, node: Node, kind: Kind, width: int, pair_bound: int | None = None) -> None:
        self._kind = kind
        self._span = node.operator.window or 0
        self._pair_bound = pair_bound
        self._joined = np.array([VALUES + variable_number(name) for name in node.joined], np.int64)
        self._keys = np.array([VALUES + variable_number(name) for name in node.keys], np.int64)
        self.waiting = empty_table(width, with_members=node.with_members)
        self.others = empty_table(width, with_members=node.with_members)

    def advance(self, new: Occurrences, others: Occurrences, now: OperatorEnv, lags: Sequence[int]) -> Occurrences:
        """What the frontier has shown to be uncontradicted; the lags are of the occurrences and of the others."""
        self.others = concatenate([self.others, others])
        waiting = concatenate([self.waiting, new])
        window = self._window(waiting)
        closed = ~window.asks | now.frontier.has_passed(window.high + lags[1])
        self.waiting = waiting.take(~closed)
        found = self._uncontradicted(waiting.take(closed), window.of(closed), now, lags[1])
        self._forget(now, lags[0])
        return found

    def due(self, lag: int) -> int:
        """When the first window closes."""
        return int(self._window(self.waiting).high.min()) + lag if len(self.waiting) else NO_TIMER

    def _window(self, table: Occurrences) -> Window:
        start, end = table.columns[START], table.columns[END]
        everyone = np.ones(len(table), np.bool_)
        match self._kind:
            case Kind.XOR:  # the hull of both fits
                return Window(end - self._span - 1, start + self._span, end - start <= self._span)
            case Kind.WITHOUT:  # between the sides of a pair
                left, right = table.columns[LEFT_END], table.columns[RIGHT_START]
                return Window(left, right - 1, left < right)
        return Window(end, end + self._span, everyone)  # UNLESS; NO, whose start points are points

    def _uncontradicted(self, table: Occurrences, window: Window, now: OperatorEnv, lag: int) -> Occurrences:
        if not len(table):
            return table
        others = self.others.columns
        codes = codes_of(others, self._keys)
        order = np.lexsort([others[START], codes])
        own = codes_of(table.columns, self._keys)
        stays = ~window.asks | ~contradicted(
            table.columns, own, window.low, window.high, others.take(order, axis=1), codes[order], self._joined
        )
        known = np.where(window.asks, now.frontier.passing_offsets(window.high + lag), -1)
        return table.with_column(EMISSION_OFFSET, np.maximum(table.columns[EMISSION_OFFSET], known)).take(stays)

    def _forget(self, now: OperatorEnv, lag: int) -> None:
        """Keep what starts after the least instant that anyone may ask for."""
        least = self._least_to_come(now.frontier.current, lag)
        if len(self.waiting):
            least = min(least, int(self._window(self.waiting).low.min()))
        useful = self.others.columns[START] > least
        if not useful.all():
            self.others = self.others.take(useful)

    def _least_to_come(self, frontier: int, lag: int) -> int:
        """Of what will still come, which ends no earlier than the frontier less its lag."""
        if frontier in (NO_FRONTIER, END_FRONTIER):
            return frontier
        match self._kind:
            case Kind.XOR:
                return frontier - lag - self._span - 1
            case Kind.WITHOUT:
                return NO_FRONTIER if self._pair_bound is None else frontier - lag - self._pair_bound
        return frontier - lag


class NegationOperator:
    """A UNLESS B, and A WITHOUT B, which looks into pairs of at most some length."""

    def __init__(self, node: Node, pair_bound: int | None) -> None:
        self._side = _Side(node, node.kind, len(node.variables), pair_bound)

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        return self._side.advance(inputs[0], inputs[1], now, now.lags)

    def due(self, now: OperatorEnv) -> int:
        return self._side.due(now.lags[1])

    def tables(self) -> StateTables:
        return {"waiting": self._side.waiting, "others": self._side.others}

    def load(self, tables: StateTables) -> None:
        self._side.waiting, self._side.others = tables["waiting"], tables["others"]


class XorOperator:
    """A XOR B: each side is contradicted by the other."""

    def __init__(self, node: Node) -> None:
        self._span = node.operator.window or 0
        self._sides = [_Side(node, Kind.XOR, len(node.variables)) for _ in range(2)]

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        return concatenate(
            [
                side.advance(inputs[own], self._short(inputs[1 - own]), now, (now.lags[own], now.lags[1 - own]))
                for own, side in enumerate(self._sides)
            ]
        )

    def _short(self, table: Occurrences) -> Occurrences:
        """Those that fit into the window by themselves."""
        return table.take(table.columns[END] - table.columns[START] <= self._span)

    def due(self, now: OperatorEnv) -> int:
        return min(side.due(now.lags[1 - own]) for own, side in enumerate(self._sides))

    def tables(self) -> StateTables:
        left, right = self._sides
        return {
            "waiting left": left.waiting,
            "waiting right": right.waiting,
            "rights": left.others,
            "lefts": right.others,
        }

    def load(self, tables: StateTables) -> None:
        left, right = self._sides
        left.waiting, right.waiting = tables["waiting left"], tables["waiting right"]
        left.others, right.others = tables["rights"], tables["lefts"]


class NoOperator:
    """NO A FOR d: a start point is contradicted by what follows it."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._span = node.operator.window or 0
        self._side = _Side(node, Kind.NO, 0)
        if node.start is not None and node.start.since is not None:
            self._side.waiting = self._points(np.array([node.start.since]))

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        heard = inputs[0].project(())
        fresh = np.setdiff1d(heard.columns[END], self._side.waiting.columns[END])
        fresh = fresh[fresh + self._span <= END_OF_TIME]
        found = self._side.advance(self._points(fresh), heard, now, (now.lags[0], now.lags[0]))
        return found.with_column(END, found.columns[START] + self._span)

    def due(self, now: OperatorEnv) -> int:
        return self._side.due(now.lags[0])

    def tables(self) -> StateTables:
        return {"points": self._side.waiting, "others": self._side.others}

    def load(self, tables: StateTables) -> None:
        self._side.waiting, self._side.others = tables["points"], tables["others"]

    def _points(self, instants: Ints) -> Occurrences:
        """Occurrences without events and bindings."""
        columns = np.zeros((VALUES, len(instants)), np.int64)
        columns[START], columns[END], columns[FIRST_OFFSET] = instants, instants, NO_OFFSET
        members = member_array([frozenset({()})] * len(instants)) if self._node.with_members else None
        return Occurrences(columns, np.zeros(len(instants) + 1, np.int64), np.empty(0, np.int64), members)
