"""How often each operator had something to work on, by context and by whether events are points or intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from motet.fuzz.case import Case
from motet.language.check import spoken
from motet.language.syntax import Context, Pattern, Run, Subscription, Times
from motet.language.walk import children, nodes
from motet.model.intervals import Relation

OPERATORS = (
    "LEAF", "AND", "ALONGSIDE", *(relation.value for relation in Relation), "OR", "XOR", "WITHIN", "FILTER", "UNLESS",
    "WITHOUT", "NO", "{n}", "{n} EVERY", "+ EVERY",
)  # fmt: skip
KINDS = ("points", "intervals")

Cell = tuple[str, str, str]  # operator, context, points or intervals


@dataclass
class Coverage:
    """``exercised`` counts the runs in which every operand of the operator produced something; ``told`` those of them
    that ended in notifications.
    """

    exercised: Counter[Cell] = field(default_factory=Counter)
    told: Counter[Cell] = field(default_factory=Counter)

    def add(self, case: Case, subscription: Subscription, produced: Container[Pattern], *, told: bool) -> None:
        """Count the operators of which every operand is among the patterns that ``produced`` something."""
        kind = KINDS[any(event.start < event.end for event in case.events)]
        for operator in {name for name, node in operators(subscription.pattern) if _has_inputs(node, produced)}:
            cell = (operator, subscription.context.value, kind)
            self.exercised[cell] += 1
            self.told[cell] += told

    def include(self, other: Coverage) -> None:
        self.exercised += other.exercised
        self.told += other.told

    @property
    def rarest(self) -> int:
        """How often the rarest cell of the operators that occurred at all was exercised."""
        occurring = {operator for operator, _, _ in self.exercised}
        counts = [row["cases"] for row in self.rows() if row["operator"] in occurring]
        return min((int(str(count)) for count in counts), default=0)

    def rows(self, contexts: tuple[Context, ...] = tuple(Context)) -> list[dict[str, object]]:
        """Every cell there could be, those never reached included."""
        cells = [(operator, context.value, kind) for operator in OPERATORS for context in contexts for kind in KINDS]
        names = ("operator", "context", "kind", "cases", "told")
        return [dict(zip(names, (*cell, self.exercised[cell], self.told[cell]), strict=True)) for cell in cells]


def operators(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """The operators of a pattern, as the report names them.

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
                yield spoken(node), node


def _has_inputs(node: Pattern, produced: Container[Pattern]) -> bool:
    return all(operand in produced for operand in children(node))
