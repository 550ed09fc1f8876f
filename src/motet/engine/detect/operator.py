"""What all operators have in common: their interface, their environment, and conditions over variables of rows.

An operator receives the new occurrences of its operands and returns its own new occurrences. The frontier drives it: it
acts on what is complete and keeps the rest in its tables. The detector skips an operator without new input until the
frontier has passed `next_timer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import UNBOUND
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.frontier import Frontier
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.table_kernels import first_equal
from motet.jit.compiled import Ints
from motet.model.timeline import END_FRONTIER
from motet.plan.graph import PlanNode, variable_index
from motet.sparql.algebra import Expr
from motet.sparql.expressions import test
from motet.sparql.scope import variables_in_order

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
