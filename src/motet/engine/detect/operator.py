"""What all operators have in common: the frontier, their interface and environment, conditions, no repetitions.

An operator receives the new occurrences of its operands and returns its own new occurrences. The frontier drives it: it
acts on what is complete and keeps the rest in its tables. The detector skips an operator without new input until the
frontier has passed `next_timer`.

Of repeated occurrences the first final one counts, later ones are dropped (language page, 4 and 5). Once the frontier
has passed an instant and the lag of the pattern, no occurrence that ends there can be new. Older rows are pruned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.table_kernels import (
    EMISSION_OFFSET,
    END,
    LEFT_END,
    RIGHT_START,
    START,
    UNBOUND,
    VALUES,
    first_equal,
    first_offsets_past,
)
from motet.jit.compiled import Ints
from motet.model.timeline import END_FRONTIER
from motet.plan.graph import PlanNode, variable_index
from motet.sparql.algebra import Expr
from motet.sparql.expressions import test
from motet.sparql.scope import variables_in_order

# The frontier along a batch: which record was the first to move it past an instant


@dataclass(frozen=True, slots=True)
class Frontier:
    """The records of a batch that moved the frontier, and the frontier after each of them.

    >>> frontier = Frontier.from_records(np.array([3, 4, 7]), np.array([5, 5, 9]), 0)
    >>> frontier.offsets_past(np.array([4, 5])), frontier.current
    (array([3, 7]), 9)
    """

    offsets: Ints
    instants: Ints
    previous: int  # the frontier before the batch
    first_offset: int  # of the batch
    current: int  # the frontier after the last record

    @classmethod
    def from_records(cls, offsets: Sequence[int] | Ints, instants: Sequence[int] | Ints, previous: int) -> Frontier:
        """From the offset of each record of a batch and the frontier after it, as a `FrontierTimeline` has them."""
        highest = np.maximum.accumulate(np.append(previous, instants))
        moved = np.flatnonzero(highest[1:] > highest[:-1])
        return cls(
            np.asarray(offsets, np.int64)[moved], highest[1:][moved], previous, int(offsets[0]), int(highest[-1])
        )

    def before(self) -> Frontier:
        """The frontier before the batch."""
        return Frontier(self.offsets[:0], self.instants[:0], self.previous, self.first_offset, self.previous)

    def has_passed(self, instants: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        passed: npt.NDArray[np.bool_] = instants < self.current
        return passed

    def offsets_past(self, instants: npt.NDArray[Any]) -> Ints:
        """The offsets of the records that moved the frontier past these instants, all of which it has passed.

        For an instant that was passed before the batch this is the batch's first offset: a subscription record there
        can have shortened a lag.
        """
        return first_offsets_past(self.instants, self.offsets, self.previous, self.first_offset, instants)


_INSTANTS = 1 << 60  # added to instants in the place of offsets, so that they are greater than every offset


@dataclass(frozen=True, slots=True)
class ProbeFrontier(Frontier):
    """A frontier at the end of time that moves there microsecond by microsecond: what it makes final has the least
    frontier at which it is final in the place of the emission offset.

    >>> frontier = ProbeFrontier.after(5)
    >>> frontier.final_frontiers(frontier.offsets_past(np.array([3, 7])))
    array([5, 8])
    """

    @classmethod
    def after(cls, previous: int) -> ProbeFrontier:
        """The probe of a state whose frontier is known."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), previous, 0, END_FRONTIER)

    def offsets_past(self, instants: npt.NDArray[Any]) -> Ints:
        offsets: Ints = np.maximum(instants + 1, self.previous) + _INSTANTS
        return offsets

    def final_frontiers(self, offsets: Ints) -> Ints:
        """The least frontiers behind emission offsets that this frontier has given."""
        return offsets[offsets >= _INSTANTS // 2] - _INSTANTS


# Operators


NO_TIMER = END_FRONTIER
StateTables = Mapping[str, Occurrences]  # by name


@dataclass(frozen=True, slots=True)
class OperatorEnv:
    """What an operator is given beside its input: the frontier, the dictionary, and the lags of operands and result."""

    frontier: Frontier
    dictionary: Dictionary
    lags: Sequence[int] = ()  # by operand
    lag: int = 0  # of the operator's occurrences
    is_probe: bool = False  # nothing is stored that is not part of the detector's copies
    summary: dict[str, int] = field(default_factory=dict)  # of a root's new occurrences, for all its subscriptions


class IncrementalOperator(ABC):
    """An operator of a plan node with its state."""

    def __init__(self, node: PlanNode) -> None:
        self.node = node

    @property
    def name(self) -> str:
        """The operator's name in the pattern language."""
        return self.node.title

    def metadata(self) -> dict[str, object]:
        """What the operator computes, and the number of rows in each of its state tables."""
        node = self.node
        context = None if node.context is None else node.context.value
        rows = {name: len(table) for name, table in self.snapshot().items()}
        return {
            "name": self.name,
            "context": context,
            "bound": node.bound,
            "window": node.operator.window,
            "rows": rows,
        }

    @abstractmethod
    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        """The new occurrences, given those of the operands; in the operator's variables."""

    def prune(self, env: OperatorEnv) -> None:  # noqa: B027  (without state there is nothing to do)
        """Drop the rows of state that can no longer contribute at this frontier; nothing becomes final by it."""

    def next_timer(self, env: OperatorEnv) -> int:
        """The instant the frontier has to pass before the operator can emit anything without input."""
        return NO_TIMER

    def snapshot(self) -> StateTables:
        """The whole state."""
        return {}

    def restore(self, tables: StateTables) -> None:  # noqa: B027
        """Replace the state by tables that `snapshot` has returned."""


class RowCondition:
    """A FILTER across events: a SPARQL expression over the values of rows, evaluated once for each distinct row."""

    def __init__(self, expression: Expr) -> None:
        self._test = test(expression)
        self._variables = list(variables_in_order(expression))

    def evaluate(self, values: Ints, dictionary: Dictionary) -> npt.NDArray[np.bool_]:
        """Which rows meet the condition; an error is false. ``values`` are given by variable and row."""
        columns_by_name = [(variable_index(name), name) for name in self._variables]
        used = [(column, name) for column, name in columns_by_name if column < len(values)]
        count = values.shape[1]
        if not count:
            return np.zeros(0, np.bool_)
        columns = np.array([column for column, _ in used], np.int64)
        no_events = np.zeros(count + 1, np.int64), np.empty(0, np.int64)
        first = first_equal(np.ascontiguousarray(values), columns, *no_events)
        is_true = np.zeros(count, np.bool_)
        for row in np.unique(first).tolist():
            is_true[row] = self._test(_bindings(values[:, row], used, dictionary))
        return is_true[first]


def _bindings(row: Ints, used: list[tuple[int, str]], dictionary: Dictionary) -> dict[str, str]:
    return {name: dictionary.string(int(row[column])) for column, name in used if row[column] != UNBOUND}


# Repeated occurrences


_TIMES = np.array([START, END], np.int64)


class Deduplicator:
    """With ``pairs``, rows whose sides leave different intervals free between them are different."""

    def __init__(self, width: int, *, pairs: bool = False, with_members: bool = False) -> None:
        sides = (LEFT_END, RIGHT_START) if pairs else ()
        self._columns = np.array([START, END, *sides, *range(VALUES, VALUES + width)], np.int64)
        self.emitted_before = empty_table(width, with_members=with_members)

    def advance(self, new: Occurrences, env: OperatorEnv) -> Occurrences:
        """The rows that have not been emitted before."""
        result, emitted_before = self._separate(new, env)
        if not env.is_probe:
            self.emitted_before = emitted_before
        return result

    def prune(self, env: OperatorEnv) -> None:
        """Drop the rows that cannot be repeated any more."""
        if len(self.emitted_before):
            may_repeat = ~env.frontier.has_passed(self.emitted_before.columns[END] + env.lag)
            self.emitted_before = self.emitted_before.take(may_repeat)

    def _separate(self, new: Occurrences, env: OperatorEnv) -> tuple[Occurrences, Occurrences]:
        """The rows that have not been emitted before, and those that may be repeated later."""
        if not len(self.emitted_before) and (not len(new) or env.frontier.has_passed(new.columns[END] + env.lag).all()):
            return self._deduplicate(new), self.emitted_before  # none of these can be repeated later
        ordered = new.take(np.argsort(new.columns[EMISSION_OFFSET], kind="stable"))
        table = concatenate([self.emitted_before, ordered])
        first = first_equal(table.columns, self._columns, table.starts, table.events)
        is_first = first == np.arange(len(table))
        table = _with_all_members(table, first)
        is_new = is_first.copy()
        is_new[: len(self.emitted_before)] = False
        may_repeat = ~env.frontier.has_passed(table.columns[END] + env.lag)
        return table.take(is_new), table.take(is_first & may_repeat)

    def _deduplicate(self, new: Occurrences) -> Occurrences:
        if len(new) < 2:
            return new
        offsets = new.columns[EMISSION_OFFSET]
        is_ordered = (offsets[1:] >= offsets[:-1]).all()
        ordered = new if is_ordered else new.take(np.argsort(offsets, kind="stable"))
        first = first_equal(ordered.columns, self._columns, ordered.starts, ordered.events)
        is_first = first == np.arange(len(ordered))
        return ordered if is_first.all() else _with_all_members(ordered, first).take(is_first)


def are_distinct(table: Occurrences) -> bool:
    """Whether no two rows have the same times and events."""
    first = first_equal(table.columns, _TIMES, table.starts, table.events)
    return bool((first == np.arange(len(table))).all())


def _with_all_members(table: Occurrences, first: Ints) -> Occurrences:
    """Add the members of repeated rows to the first one, if both are final with the same record."""
    repeated: npt.NDArray[np.int64] = np.flatnonzero(first != np.arange(len(table)))
    if table.members is None or not len(repeated):
        return table
    members, offsets = list(table.members), table.columns[EMISSION_OFFSET]
    for row in repeated.tolist():
        if offsets[row] == offsets[first[row]]:
            members[first[row]] |= members[row]
    return Occurrences(table.columns, table.starts, table.events, member_array(members))
