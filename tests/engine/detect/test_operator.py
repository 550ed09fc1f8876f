"""What all operators have in common, and the removal of repeated occurrences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tests.engine.detect.operator_driver import Driver, Row, operands, point

from motet.engine.detect.absence import NegationOperator
from motet.engine.detect.iteration import TimesOperator
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Deduplicator, Frontier, IncrementalOperator, OperatorEnv, StateTables
from motet.engine.detect.pairing import PairingOperator
from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.plan.graph import Kind, Operator, PlanNode

BEFORE = PlanNode(
    0, Operator(Kind.TIMED, Relation.BEFORE), operands(), ("v0",), bound=50, context=Context.UNRESTRICTED,
    key_variables=("v0",),
)  # fmt: skip
UNLESS = PlanNode(0, Operator(Kind.UNLESS, window=50), operands(), ("v0",))
TIMES = PlanNode(0, Operator(Kind.TIMES, count=2), operands()[:1], ("v0",), bound=50, context=Context.UNRESTRICTED)


@pytest.mark.parametrize(
    ("operator", "inputs", "frontier", "table"),
    [
        (PairingOperator(BEFORE, [[0], [0]], [1, 1]), ([point(5, "a", "r")], []), 6, "open left"),
        (NegationOperator(UNLESS, None), ([], [point(5, "b", "r")]), 4, "others"),
        (TimesOperator(TIMES), ([point(5, "a", "r")],), 6, "counted"),
    ],
)
def test_pruning_drops_what_can_no_longer_contribute(
    operator: IncrementalOperator, inputs: tuple[list[Row], ...], frontier: int, table: str
) -> None:
    """Rows stay while a later event could need them, and are dropped by `prune` after that, without new input."""
    driver = Driver(operator)
    driver.advance(*inputs, frontier=frontier)
    operator.prune(driver.env)
    assert list(driver.state()) == [table]
    later = Frontier.from_records(np.array([2000]), np.array([100]), frontier)
    operator.prune(replace(driver.env, frontier=later))
    assert driver.state() == {}


def test_metadata_says_what_an_operator_computes_and_how_much_state_it_has() -> None:
    """Its name, context, limits, and the number of rows in each table."""
    driver = Driver(PairingOperator(BEFORE, [[0], [0]], [1, 1]))
    driver.advance([point(5, "a", "r")], [], frontier=5)
    rows = {"waiting left": 0, "waiting right": 0, "open left": 1, "open right": 0}
    expected = {"name": "BEFORE", "context": "unrestricted", "bound": 50, "window": None, "rows": rows}
    assert driver.operator.metadata() == expected


def test_a_probe_stores_nothing() -> None:
    """A deduplicator in a probe returns the new rows, and returns them again."""
    driver, deduplicator = Driver(PairingOperator(BEFORE, [[0], [0]], [1, 1])), Deduplicator(1)
    driver.advance([], [], frontier=4)
    table, probe = driver.table([point(5, "a", "r")]), replace(driver.env, is_probe=True)
    counts = [len(deduplicator.advance(table, env)) for env in (probe, probe, driver.env, probe)]
    assert counts == [1, 1, 1, 0]


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
