"""Counts how often random cases exercise each operator, by context and by points or intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from motet.fuzz.case import Case
from motet.language.check import operator_text
from motet.language.scope import children, nodes
from motet.language.syntax import Context, Pattern, Run, Subscription, Times
from motet.model.intervals import Relation

OPERATORS = (
    "LEAF", "AND", "ALONGSIDE", *(relation.value for relation in Relation), "OR", "XOR", "WITHIN", "FILTER", "UNLESS",
    "WITHOUT", "NO", "{n}", "{n} EVERY", "+ EVERY",
)  # fmt: skip
KINDS = ("points", "intervals")

Cell = tuple[str, str, str]  # operator, context, points or intervals


@dataclass
class Coverage:
    """``exercised`` counts runs in which every operand of an operator has occurrences; ``with_notifications`` those of
    them that have notifications.
    """

    exercised: Counter[Cell] = field(default_factory=Counter)
    with_notifications: Counter[Cell] = field(default_factory=Counter)

    def add(
        self, case: Case, subscription: Subscription, active_patterns: Container[Pattern], *, has_notifications: bool
    ) -> None:
        """Count the operators of a subscription whose operands are all among ``active_patterns``."""
        kind = KINDS[any(event.start < event.end for event in case.events)]
        for operator in {name for name, node in operators(subscription.pattern) if _has_inputs(node, active_patterns)}:
            cell = (operator, subscription.context.value, kind)
            self.exercised[cell] += 1
            self.with_notifications[cell] += has_notifications

    def merge(self, other: Coverage) -> None:
        self.exercised += other.exercised
        self.with_notifications += other.with_notifications

    @property
    def rarest(self) -> int:
        """The least count of the cells of all operators that were exercised."""
        exercised = {operator for operator, _, _ in self.exercised}
        counts = [row["cases"] for row in self.rows() if row["operator"] in exercised]
        return min((int(str(count)) for count in counts), default=0)

    def rows(self, contexts: tuple[Context, ...] = tuple(Context)) -> list[dict[str, object]]:
        """The counts of all cells, including zeros."""
        cells = [(operator, context.value, kind) for operator in OPERATORS for context in contexts for kind in KINDS]
        names = ("operator", "context", "kind", "cases", "told")
        return [
            dict(zip(names, (*cell, self.exercised[cell], self.with_notifications[cell]), strict=True))
            for cell in cells
        ]


def operators(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """The operators of a pattern with their names in the report.

    >>> from motet.language.syntax import Leaf
    >>> [name for name, _ in operators(Times(Leaf("a"), 2))]
    ['{n}', 'LEAF']
    """
    for node, _ in nodes(pattern):
        match node:
            case Times(gap=gap):
                yield "{n}" if gap is None else "{n} EVERY", node
            case Run():
                yield "+ EVERY", node
            case _:
                yield operator_text(node), node


def _has_inputs(node: Pattern, active_patterns: Container[Pattern]) -> bool:
    return all(operand in active_patterns for operand in children(node))
