"""OR, WITHIN and FILTER: operators that remember nothing."""

from __future__ import annotations

from collections.abc import Sequence

from motet.engine.detect.columns import END, START, VALUES
from motet.engine.detect.occurrences import Occurrences, concatenate
from motet.engine.detect.operator import NO_TIMER, OperatorEnv, RowCondition, StateTables
from motet.plan.nodes import Node


class StatelessOperator:
    def due(self, now: OperatorEnv) -> int:
        return NO_TIMER

    def tables(self) -> StateTables:
        return {}

    def load(self, tables: StateTables) -> None:
        """There is nothing to go on from."""


class OrOperator(StatelessOperator):
    """A OR B: every occurrence of either side."""

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        return concatenate(inputs)


class WithinOperator(StatelessOperator):
    """A WITHIN d, where no operator carries the bound."""

    def __init__(self, node: Node) -> None:
        self._window = node.operator.window or 0

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        (table,) = inputs
        return table.take(table.columns[END] - table.columns[START] <= self._window)


class FilterOperator(StatelessOperator):
    """A FILTER(…), where no operator carries the condition."""

    def __init__(self, node: Node) -> None:
        assert node.condition is not None, "a FILTER has a condition"
        self._condition = RowCondition(node.condition)

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        (table,) = inputs
        return table.take(self._condition.evaluate(table.columns[VALUES:], now.dictionary))
