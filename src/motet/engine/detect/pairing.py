"""AND, ALONGSIDE and the Allen relations in every context (language page, section 7).

In the unrestricted context pairs are found as their parts come. In the others both sides wait until the frontier has
passed their end, and then complete in order. What is open is forgotten once nothing can pair with it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from motet.engine.detect import pairing_kernels as kernels
from motet.engine.detect.conditions import Condition
from motet.engine.detect.frontier import PASSED_ALL
from motet.engine.detect.grouping_kernels import merged
from motet.engine.detect.occurrences import (
    EMITTED,
    END,
    LEFT_END,
    RIGHT_START,
    START,
    VALUES,
    Ints,
    Members,
    Occurrences,
    concatenated,
    member_sets,
    none,
)
from motet.engine.detect.operator import NEVER, Now, Tables
from motet.engine.detect.order import completion_order
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.plan.nodes import Kind, Node, variable_number

_CONTEXTS = {
    Context.UNRESTRICTED: kernels.UNRESTRICTED,
    Context.RECENT: kernels.RECENT,
    Context.CHRONICLE: kernels.CHRONICLE,
    Context.CONTINUOUS: kernels.CONTINUOUS,
    Context.CUMULATIVE: kernels.CUMULATIVE,
}
_RELATIONS = {relation: getattr(kernels, relation.name) for relation in Relation}
_KINDS = {Kind.AND: kernels.AND, Kind.ALONGSIDE: kernels.ALONGSIDE}

# The side that completes first; where it can be either, both have to stay open.
_LEFT_FIRST = frozenset(
    {Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.STARTS, Relation.DURING, Relation.FINISHED_BY}
)
_RIGHT_FIRST = frozenset(relation.inverse for relation in _LEFT_FIRST)

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

LEFT, RIGHT = 0, 1


class Pairing:
    """``waiting`` have not completed yet; ``opened`` are what the context keeps. Sides are kept apart."""

    def __init__(self, node: Node) -> None:
        assert node.context is not None, "pairing operators have a context"
        relation = node.operator.relation
        self._node = node
        self._context = _CONTEXTS[node.context]
        self._relation = _KINDS[node.kind] if relation is None else _RELATIONS[relation]
        self._bound = -1 if node.bound is None else node.bound
        self._condition = None if node.condition is None else Condition(node.condition)
        self._joined = np.array([VALUES + variable_number(name) for name in node.joined], np.int64)
        self._keys = _key_columns(node)
        self._opens = np.array([relation not in _RIGHT_FIRST, relation not in _LEFT_FIRST])
        self._order = [[variable_number(name) for name in names] for names in node.order or ((), ())]
        self._waiting = [self._none(), self._none()]
        self._opened = [self._none(), self._none()]

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        if self._context == kernels.UNRESTRICTED:
            complete = list(inputs)
        else:
            complete = [self._completed(side, inputs[side], now) for side in (LEFT, RIGHT)]
        found = self._paired(complete, now)
        self._forget(now)
        return found

    def due(self, now: Now) -> int:
        if self._context == kernels.UNRESTRICTED:
            return NEVER
        ends = [int(side.rows[:, END].min()) for side in self._waiting if len(side)]
        return min(ends) + max(now.lags) if ends else NEVER

    def tables(self) -> Tables:
        return {
            "waiting left": self._waiting[LEFT],
            "waiting right": self._waiting[RIGHT],
            "open left": self._opened[LEFT],
            "open right": self._opened[RIGHT],
        }

    def load(self, tables: Tables) -> None:
        self._waiting = [tables["waiting left"], tables["waiting right"]]
        self._opened = [tables["open left"], tables["open right"]]

    def _none(self) -> Occurrences:
        return none(len(self._node.variables), with_members=self._node.with_members)

    def _completed(self, side: int, new: Occurrences, now: Now) -> Occurrences:
        """What the frontier has passed, and all its equals that could still come."""
        waiting = concatenated([self._waiting[side], new])
        ready = now.frontier.passed(waiting.rows[:, END] + max(now.lags))
        self._waiting[side] = waiting.take(~ready)
        return waiting.take(ready)

    def _paired(self, complete: list[Occurrences], now: Now) -> Occurrences:
        if not any(map(len, complete)):
            return self._none()
        table = concatenated([*self._opened, *complete])
        open_rows = sum(map(len, self._opened))
        is_right = np.repeat([False, True, False, True], [len(part) for part in (*self._opened, *complete)])
        order = completion_order(
            table.take(np.arange(open_rows, len(table))),
            now.names,
            is_right=is_right[open_rows:],
            variables=self._order,
        )
        later, earlier, kept = self._pairs(table, is_right, open_rows, order.places + open_rows, order.together, now)
        self._opened = [table.take(kept[~is_right[kept]]), table.take(kept[is_right[kept]])]
        return self._results(table, is_right, later, earlier, now)

    def _pairs(
        self, table: Occurrences, is_right: npt.NDArray[np.bool_], open_rows: int, order: Ints,
        together: npt.NDArray[np.bool_], now: Now,
    ) -> tuple[Ints, Ints, Ints]:  # fmt: skip
        lane, lanes = kernels.lanes_of(table.rows, is_right, self._keys)

        def pairs(context: int, allowed: Ints | None) -> tuple[Ints, Ints, Ints]:
            found: tuple[Ints, Ints, Ints] = kernels.pair_rows(
                table.rows, table.starts, table.events, is_right, open_rows, order, together, lane, lanes,
                self._joined, self._relation, self._bound, context, self._opens,
                allowed is not None, np.empty(0, np.int64) if allowed is None else allowed,
            )  # fmt: skip
            return found

        if self._condition is None:
            return pairs(self._context, None)
        later, earlier, _ = pairs(kernels.UNRESTRICTED, None)
        true = self._condition.holds(_joint_values(table, later, earlier), now.names)
        return pairs(self._context, np.sort(later[true] * len(table) + earlier[true]))

    def _results(
        self, table: Occurrences, is_right: npt.NDArray[np.bool_], later: Ints, earlier: Ints, now: Now
    ) -> Occurrences:
        if not len(later):
            return self._none()
        if self._context == kernels.CUMULATIVE:
            groups = np.append(np.flatnonzero(np.diff(later, prepend=-1)), len(later))
            groups, places = _with_leader(later, earlier, groups)
        else:
            groups, places = np.arange(0, 2 * len(later) + 1, 2), np.column_stack([later, earlier]).ravel()
        found = Occurrences(*merged(table.rows, table.starts, table.events, groups, places))
        rows = found.rows
        rows[:, LEFT_END], rows[:, RIGHT_START] = _sides(table.rows, is_right, groups, places)
        if self._context != kernels.UNRESTRICTED:
            known = now.frontier.known(rows[:, END] + max(now.lags))
            rows[:, EMITTED] = np.maximum(rows[:, EMITTED], known)
        return replace(found, members=_members(table, groups, places))

    def _forget(self, now: Now) -> None:
        """Whatever comes from now on ends no earlier than the frontier, less the lag of its side."""
        lags = now.lags if self._context == kernels.UNRESTRICTED else [max(now.lags)] * 2
        for side, first in ((LEFT, _LEFT_FIRST), (RIGHT, _RIGHT_FIRST)):
            partners_end = now.frontier.now - lags[1 - side] if now.frontier.now < PASSED_ALL else PASSED_ALL
            opened = self._opened[side]
            useful = np.full(len(opened), partners_end < PASSED_ALL)
            if self._bound >= 0:
                useful &= opened.rows[:, START] >= partners_end - self._bound
            relation = self._node.operator.relation
            if relation is not None and relation not in first:
                useful &= opened.rows[:, END] >= partners_end  # the partner is the one that ends first
            if not useful.all():
                self._opened[side] = opened.take(useful)


def _key_columns(node: Node) -> Ints:
    """The columns of the left and of the right side that are equal in every pair."""
    certain = [VALUES + variable_number(name) for name in node.joined if name in node.keys]
    relation = node.operator.relation
    times = _EQUAL_TIMES.get(relation, ()) if relation and node.context is not Context.RECENT else ()
    columns = [(column, column) for column in certain] + list(times)
    return np.array(columns, np.int64).reshape(len(columns), 2).T.copy()


def _joint_values(table: Occurrences, later: Ints, earlier: Ints) -> Ints:
    values = table.rows[:, VALUES:]
    found: Ints = np.maximum(values[later], values[earlier])  # unbound is less than every value
    return found


def _with_leader(later: Ints, earlier: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """The groups of an occurrence with all its candidates, itself first."""
    first = groups[:-1]
    places = np.insert(earlier, first, later[first])
    return groups + np.arange(len(groups)), places


def _sides(rows: Ints, is_right: npt.NDArray[np.bool_], groups: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Where the left side ends and the right one starts, of each group."""
    right = is_right[places]
    ends = np.where(right, np.iinfo(np.int64).min, rows[places, END])
    starts = np.where(right, rows[places, START], np.iinfo(np.int64).max)
    return np.maximum.reduceat(ends, groups[:-1]), np.minimum.reduceat(starts, groups[:-1])


def _members(table: Occurrences, groups: Ints, places: Ints) -> npt.NDArray[np.object_] | None:
    """An occurrence joined with each of its partners, solution by solution."""
    if table.members is None:
        return None
    found: list[Members] = []
    for begin, end in zip(groups[:-1].tolist(), groups[1:].tolist(), strict=True):
        own, *others = (table.members[place] for place in places[begin:end])
        found.append(frozenset(joint for other in others for joint in _joint(own, other)))
    return member_sets(found)


def _joint(some: Members, others: Members) -> list[tuple[tuple[str, int], ...]]:
    agreeing = ((one, other) for one in some for other in others if _agree(dict(one), dict(other)))
    return [tuple(sorted({*one, *other})) for one, other in agreeing]


def _agree(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())
