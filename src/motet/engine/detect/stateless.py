"""OR, WITHIN and FILTER: operators that remember nothing."""

from __future__ import annotations

from collections.abc import Sequence

from motet.engine.detect.columns import END, START, VALUES
from motet.engine.detect.occurrences import Occurrences, concatenated
from motet.engine.detect.operator import NEVER, Condition, Now, Tables
from motet.plan.nodes import Node


class _Passing:
    def due(self, now: Now) -> int:
        return NEVER

    def tables(self) -> Tables:
        return {}

    def load(self, tables: Tables) -> None:
        """There is nothing to go on from."""


class Union(_Passing):
    """A OR B: every occurrence of either side."""

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        return concatenated(inputs)


class Within(_Passing):
    """A WITHIN d, where no operator carries the bound."""

    def __init__(self, node: Node) -> None:
        self._window = node.operator.window or 0

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        (table,) = inputs
        return table.take(table.columns[END] - table.columns[START] <= self._window)


class Filter(_Passing):
    """A FILTER(…), where no operator carries the condition."""

    def __init__(self, node: Node) -> None:
        assert node.condition is not None, "a FILTER has a condition"
        self._condition = Condition(node.condition)

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        (table,) = inputs
        return table.take(self._condition.holds(table.columns[VALUES:], now.names))
