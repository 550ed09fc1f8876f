"""AND, ALONGSIDE and the Allen relations in every context (language page, section 7).

In the unrestricted context pairs are found as their parts come. In the others both sides wait until the frontier has
passed their end, and then complete in order. What is open is forgotten once nothing can pair with it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

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
    UNBOUND,
    VALUES,
    Ints,
    Members,
    Occurrences,
    concatenated,
    member_sets,
    none,
)
from motet.engine.detect.operator import NEVER, Now, Tables
from motet.engine.detect.order import Order, with_ties
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.plan.nodes import LEFT_FIRST, Kind, Node, variable_number

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

LEFT, RIGHT = 0, 1
NO_ROWS = np.empty(0, np.int64)
MANY_PAIRS, ALL_PAIRS = 1 << 20, np.iinfo(np.int64).max


class Pairing:
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
        self._condition = None if node.condition is None else Condition(node.condition)
        self._sources = np.array([[VALUES + s if s >= 0 else -1 for s in side] for side in sources], np.int64)
        self._sources = self._sources.reshape(2, len(node.variables))
        self._keys = self._key_columns()
        self._loose = [variable_number(name) for name in node.joined if name not in node.keys]
        self._opens = np.array([relation not in _RIGHT_FIRST, relation not in LEFT_FIRST])
        self._order = [[variable_number(name) for name in names] for names in node.order or ((), ())]
        self._shares_events = relation not in (Relation.BEFORE, Relation.AFTER)
        self._none = [none(width, with_members=node.with_members) for width in widths]
        self._waiting = [*self._none]
        self._opened = [*self._none]

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        batch = self._read(inputs, now)
        if len(batch.start) > batch.open_rows:
            return self._paired(batch, now)
        for side, table in enumerate(self._opened):
            self._opened[side] = table.take(self._is_useful(table.rows[:, START], table.rows[:, END], side, now))
        return self._nothing()

    def due(self, now: Now) -> int:
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

    def _nothing(self) -> Occurrences:
        return none(len(self._node.variables), with_members=self._node.with_members)

    def _key_columns(self) -> Ints:
        """The columns of the left and of the right side that are equal in every pair."""
        node, relation = self._node, self._node.operator.relation
        columns = [tuple(self._sources[:, variable_number(name)].tolist()) for name in node.keys]
        if relation is not None and node.context is not Context.RECENT:
            columns += _EQUAL_TIMES.get(relation, ())
        return np.array(columns, np.int64).reshape(len(columns), 2).T.copy()

    def _read(self, inputs: Sequence[Occurrences], now: Now) -> _Batch:
        """What is open, and what completes now; the rest waits."""
        limit = PASSED_ALL
        if self._context != kernels.UNRESTRICTED and now.frontier.now < PASSED_ALL:
            limit = now.frontier.now - max(now.lags)
        tables = [*self._opened, self._waiting[LEFT], inputs[LEFT], self._waiting[RIGHT], inputs[RIGHT]]
        start, end, lane, part, place, lanes = kernels.read_parts(
            tuple(table.rows for table in tables), _OF_RIGHT, _IS_NEW, limit, self._keys
        )
        open_rows = sum(map(len, self._opened))
        second = int(np.searchsorted(part, 4))
        batch = _Batch(tables, start, end, lane, lanes, part, place, open_rows, second)
        all_complete = len(part) == sum(map(len, tables))
        self._waiting = [*self._none] if all_complete else [batch.left_over(2, 3), batch.left_over(4, 5)]
        return batch

    def _paired(self, batch: _Batch, now: Now) -> Occurrences:
        later, earlier, kept = self._pairs(batch, now)
        self._opened = [self._still_useful(batch, batch.of_side(kept, side), side, now) for side in (LEFT, RIGHT)]
        if not len(later):
            return self._nothing()
        if self._context == kernels.CUMULATIVE or self._node.with_members:
            found = self._merged(batch, later, earlier)
        else:
            pairs = (batch.lane, later, earlier)
            found = Occurrences(*kernels.joined(batch.rows, batch.lists(), *pairs, self._sources))
        if self._context != kernels.UNRESTRICTED:
            known = now.frontier.known(found.rows[:, END] + max(now.lags))  # with all that completes before
            found.rows[:, EMITTED] = np.maximum(found.rows[:, EMITTED], known)
        return found

    def _still_useful(self, batch: _Batch, rows: Ints, side: int, now: Now) -> Occurrences:
        useful = rows[self._is_useful(batch.start[rows], batch.end[rows], side, now)]
        return batch.table(useful) if len(useful) else self._none[side]

    def _completion_order(self, batch: _Batch, now: Now) -> Order:
        places, in_order = kernels.merge_runs(batch.start, batch.end, batch.open_rows, batch.second)
        if not in_order:
            places = batch.open_rows + np.lexsort([batch.start[batch.open_rows :], batch.end[batch.open_rows :]])
        tied, some = kernels.rivals(batch.start, batch.end, batch.lane, batch.lanes, places)
        if not some:
            return Order(places, tied)

        def tied_rows(rows: Ints) -> tuple[Occurrences, npt.NDArray[np.bool_]]:
            return batch.table(rows, self._mappings), (batch.lane[rows] & 1).astype(np.bool_)

        is_recent = self._context == kernels.RECENT  # where those that belong together have to stand together
        return with_ties(places, batch.start, batch.end, tied_rows, now.names, self._order, None if is_recent else tied)

    def _pairs(self, batch: _Batch, now: Now) -> tuple[Ints, Ints, Ints]:
        """The pairs (later, earlier), and the rows that stay open, in the order of their ends."""
        loose = batch.values(self._loose, self._mappings)
        rows = (batch.start, batch.end, batch.lane, batch.open_rows)
        relation = (loose, batch.lists(self._shares_events), self._relation, self._bound)
        if self._context == kernels.UNRESTRICTED:
            order = np.argsort(batch.end, kind="stable")
            return *self._all_pairs(batch, order, (*rows, *relation), now), order
        completed, allowed = self._completion_order(batch, now), NO_ROWS
        if self._condition is not None:
            order = np.append(np.arange(batch.open_rows), completed.places)
            later, earlier = self._all_pairs(batch, order, (*rows, *relation), now)
            allowed = np.sort(later * len(batch.start) + earlier)
        found: tuple[Ints, Ints, Ints] = kernels.pair_some(
            *rows, *relation, completed.places, completed.together, batch.lanes, self._context, self._opens,
            self._condition is not None, allowed,
        )  # fmt: skip
        return found

    def _all_pairs(self, batch: _Batch, order: Ints, relation: tuple[object, ...], now: Now) -> tuple[Ints, Ints]:
        """All pairs (later, earlier) that the relation and the condition admit; not too many are looked at at once."""
        last, before = np.full(batch.lanes, -1, np.int32), np.empty(len(order), np.int32)
        if self._condition is None:
            later, earlier, _ = kernels.pair_all(*relation, order, last, before, 0, ALL_PAIRS)
            return later, earlier
        values = batch.values(range(len(self._node.variables)), self._mappings)
        found, next_place = [(NO_ROWS, NO_ROWS)], 0
        while next_place < len(order):
            later, earlier, next_place = kernels.pair_all(*relation, order, last, before, next_place, MANY_PAIRS)
            joint = np.maximum(values[later], values[earlier])  # unbound is less than every value
            true = self._condition.holds(joint, now.names)
            found.append((later[true], earlier[true]))
        return np.concatenate([later for later, _ in found]), np.concatenate([earlier for _, earlier in found])

    def _merged(self, batch: _Batch, later: Ints, earlier: Ints) -> Occurrences:
        """One occurrence of each row with all its partners, or with each of them."""
        if self._context == kernels.CUMULATIVE:
            groups, places = _with_leader(later, earlier)
        else:
            groups, places = np.arange(0, 2 * len(later) + 1, 2), np.column_stack([later, earlier]).ravel()
        table = batch.table(places, self._mappings)
        is_right = (batch.lane[places] & 1).astype(np.bool_)
        found = Occurrences(*merged(table.rows, table.starts, table.events, groups, np.arange(len(places))))
        found.rows[:, LEFT_END], found.rows[:, RIGHT_START] = _sides(table.rows, is_right, groups)
        return replace(found, members=_members(table, groups))

    def _is_useful(self, start: Ints, end: Ints, side: int, now: Now) -> npt.NDArray[np.bool_]:
        """Which open occurrences of a side may still find a partner.

        Whatever comes from now on ends no earlier than the frontier, less the lag of its side.
        """
        lag = now.lags[1 - side] if self._context == kernels.UNRESTRICTED else max(now.lags)
        relation, first = self._node.operator.relation, _RIGHT_FIRST if side else LEFT_FIRST
        partners_end = now.frontier.now - lag if now.frontier.now < PASSED_ALL else PASSED_ALL
        useful = np.full(len(start), partners_end < PASSED_ALL)
        if self._bound >= 0:
            useful &= start >= partners_end - self._bound
        if relation is not None and relation not in first:
            useful &= end >= partners_end  # the partner is the one that ends first
        return useful


# The tables of a batch: open left and right, then left and right each as it waited and as it came.
_OF_RIGHT = np.array([False, True, False, False, True, True])
_IS_NEW = np.array([False, False, True, True, True, True])


@dataclass(frozen=True, slots=True)
class _Batch:
    """All rows that take part, numbered through: what is open, then the left and the right ones that complete."""

    tables: list[Occurrences]
    start: Ints
    end: Ints
    lane: kernels.Small
    lanes: int
    part: kernels.Bytes  # the table of each row
    place: kernels.Small  # and its place there
    open_rows: int
    second: int  # the first right one that completes

    @property
    def rows(self) -> tuple[Ints, ...]:
        return tuple(table.rows for table in self.tables)

    def left_over(self, *parts: int) -> Occurrences:
        """The rows of some tables that do not take part."""
        rest = []
        for part in parts:
            first, last = np.searchsorted(self.part, [part, part + 1])
            if last - first == len(self.tables[part]):
                rest.append(self.tables[part].first(0))
                continue
            stays = np.ones(len(self.tables[part]), np.bool_)
            stays[self.place[first:last]] = False
            rest.append(self.tables[part].take(stays))
        return concatenated(rest)

    def lists(self, may_share: bool = True) -> kernels.Lists:
        """The events of all rows; whether two that are related may share one."""
        starts, events = tuple(table.starts for table in self.tables), tuple(table.events for table in self.tables)
        return starts, events, self.part, self.place, may_share

    def values(self, variables: Sequence[int], mappings: Sequence[Sequence[int]]) -> Ints:
        """Some variables of the result, of all rows."""
        found = np.full((len(self.start), len(variables)), UNBOUND, np.int64)
        for part, table in enumerate(self.tables if len(variables) else ()):
            rows = np.flatnonzero(self.part == part)
            mapping = mappings[RIGHT if _OF_RIGHT[part] else LEFT]
            for at, variable in enumerate(variables):
                if mapping[variable] >= 0:
                    found[rows, at] = table.rows[self.place[rows], VALUES + mapping[variable]]
        return found

    def table(self, rows: Ints, mappings: Sequence[Sequence[int]] | None = None) -> Occurrences:
        """Some rows, in the variables of the result if it is said where those are; otherwise all are of one side."""
        found, order = [], []
        for part in np.unique(self.part[rows]).tolist():
            chosen = np.flatnonzero(self.part[rows] == part)
            taken = self.tables[part].take(self.place[rows[chosen]])
            found.append(taken.renamed(mappings[RIGHT if _OF_RIGHT[part] else LEFT]) if mappings else taken)
            order.append(chosen)
        if len(found) == 1:
            return found[0]
        return concatenated(found).take(np.argsort(np.concatenate(order), kind="stable"))

    def of_side(self, rows: Ints, side: int) -> Ints:
        """Those of some rows that are of one side."""
        return rows[(self.lane[rows] & 1) == side]


def _with_leader(later: Ints, earlier: Ints) -> tuple[Ints, Ints]:
    """The groups of a row with all its partners, itself first."""
    first = np.flatnonzero(np.diff(later, prepend=-1))
    groups = np.append(first, len(later))
    return groups + np.arange(len(groups)), np.insert(earlier, first, later[first])


def _sides(rows: Ints, is_right: npt.NDArray[np.bool_], groups: Ints) -> tuple[Ints, Ints]:
    """Where the left side ends and the right one starts, of each group."""
    ends = np.where(is_right, np.iinfo(np.int64).min, rows[:, END])
    starts = np.where(is_right, rows[:, START], np.iinfo(np.int64).max)
    return np.maximum.reduceat(ends, groups[:-1]), np.minimum.reduceat(starts, groups[:-1])


def _members(table: Occurrences, groups: Ints) -> npt.NDArray[np.object_] | None:
    """An occurrence joined with each of its partners, solution by solution."""
    if table.members is None:
        return None
    found: list[Members] = []
    for begin, end in pairwise(groups.tolist()):
        own, *others = table.members[begin:end]
        found.append(frozenset(joint for other in others for joint in _joint(own, other)))
    return member_sets(found)


def _joint(some: Members, others: Members) -> list[tuple[tuple[str, int], ...]]:
    agreeing = ((one, other) for one in some for other in others if _agree(dict(one), dict(other)))
    return [tuple(sorted({*one, *other})) for one, other in agreeing]


def _agree(one: dict[str, int], other: dict[str, int]) -> bool:
    return all(other.get(name, value) == value for name, value in one.items())
