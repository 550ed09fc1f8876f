"""OR, WITHIN and FILTER: operators without state."""

from __future__ import annotations

from collections.abc import Sequence

from motet.engine.detect.occurrences import Occurrences, concatenate
from motet.engine.detect.operator import IncrementalOperator, OperatorEnv, RowCondition
from motet.engine.detect.table_kernels import END, START, VALUES
from motet.plan.graph import PlanNode


class OrOperator(IncrementalOperator):
    """A OR B: every occurrence of either side."""

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        return concatenate(inputs)


class WithinOperator(IncrementalOperator):
    """A WITHIN d, where no operator below applies the bound."""

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        self._bound = node.operator.window or 0

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        (table,) = inputs
        return table.take(table.columns[END] - table.columns[START] <= self._bound)


class FilterOperator(IncrementalOperator):
    """A FILTER(…), where no operator below applies the condition."""

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        assert node.condition is not None, "a FILTER has a condition"
        self._condition = RowCondition(node.condition)

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        (table,) = inputs
        return table.take(self._condition.evaluate(table.columns[VALUES:], env.dictionary))
