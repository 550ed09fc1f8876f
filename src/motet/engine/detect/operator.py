"""What all operators have in common: they take what their operands have newly found and say what follows from it.

`advance` is driven by the frontier: an operator acts on what it knows to be complete, and keeps the rest in its tables.
It may be left out when there is nothing new and the frontier has not passed `due`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import UNBOUND, Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.frontier import END_FRONTIER, Frontier
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import first_equal
from motet.plan.nodes import variable_number
from motet.sparql.algebra import Expr
from motet.sparql.expressions import test
from motet.sparql.scope import variables_in_order

NO_TIMER = END_FRONTIER
StateTables = Mapping[str, Occurrences]


@dataclass(frozen=True, slots=True)
class OperatorEnv:
    """What an operator is told beside its input: the frontier, the strings, and how far operands lag behind it."""

    frontier: Frontier
    dictionary: Dictionary
    lags: Sequence[int] = ()  # by operand
    lag: int = 0  # of the operator's own results
    summary: dict[str, int] = field(default_factory=dict)  # about what was found, once for all who are told of it


class Operator(Protocol):
    """An operator with its state."""

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        """What is new, given what is new in the operands; in the operator's own variables."""
        ...

    def due(self, now: OperatorEnv) -> int:
        """The instant the frontier has to pass before anything can happen without input."""
        ...

    def tables(self) -> StateTables:
        """All there is to remember."""
        ...

    def load(self, tables: StateTables) -> None:
        """Go on from what another one remembered."""
        ...


class RowCondition:
    """Evaluated once for each combination of values."""

    def __init__(self, expression: Expr) -> None:
        self._test = test(expression)
        self._names = list(variables_in_order(expression))

    def evaluate(self, values: Ints, names: Dictionary) -> npt.NDArray[np.bool_]:
        """For each row; values are given by variable and row."""
        known = [(variable_number(name), name) for name in self._names]
        used = [(column, name) for column, name in known if column < len(values)]
        count = values.shape[1]
        if not count:
            return np.zeros(0, np.bool_)
        columns = np.array([column for column, _ in used], np.int64)
        zeros = np.zeros(count + 1, np.int64)
        first = first_equal(np.ascontiguousarray(values), columns, zeros, np.empty(0, np.int64))
        truth = np.zeros(count, np.bool_)
        for row in np.unique(first).tolist():
            truth[row] = self._test(_bindings(values[:, row], used, names))
        return truth[first]


def _bindings(row: Ints, used: list[tuple[int, str]], names: Dictionary) -> dict[str, str]:
    return {name: names.string(int(row[column])) for column, name in used if row[column] != UNBOUND}
