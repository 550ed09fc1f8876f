"""Each occurrence is emitted once (language page, section 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tests.engine.detect.operator_driver import Driver, Row, point

from motet.engine.detect.distinct import Deduplicator
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import IncrementalOperator, OperatorEnv, StateTables
from motet.plan.graph import Kind, Operator, PlanNode


class DistinctOperator(IncrementalOperator):
    """A deduplicator as an operator with one operand."""

    def __init__(self) -> None:
        super().__init__(PlanNode(0, Operator(Kind.OR)))
        self._deduplicator = Deduplicator(1)

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        return self._deduplicator.advance(inputs[0], env)

    def prune(self, env: OperatorEnv) -> None:
        self._deduplicator.prune(env)

    def snapshot(self) -> StateTables:
        return {"distinct": self._deduplicator.emitted_before}

    def restore(self, tables: StateTables) -> None:
        self._deduplicator.emitted_before = tables["distinct"]


A = point(5, "a", "r")


def test_an_occurrence_is_identified_by_its_events_interval_and_bindings() -> None:
    """Rows that differ in one of them are different."""
    rows = [A, point(5, "b", "r"), point(5, "a", "s"), Row(4, 5, "a", ("r",)), Row(5, 6, "a", ("r",))]
    assert Driver(DistinctOperator()).advance([*rows, *rows], frontier=0) == sorted(rows, key=str)


def test_a_repetition_is_recognised_while_the_frontier_has_not_passed_its_end() -> None:
    """Later none can arrive, and the row is pruned."""
    driver = Driver(DistinctOperator())
    assert driver.advance([A], frontier=4) == [A]
    assert driver.advance([A], frontier=5) == []
    assert driver.state() == {"distinct": [A]}
    driver.advance([], frontier=6)
    assert driver.state() == {}
