"""How often each operator was exercised, by context and by whether the log's events are points or intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from motet.fuzz.case import Case
from motet.language.check import spoken
from motet.language.syntax import Context, Pattern, Run, Subscription, Times
from motet.language.walk import nodes
from motet.model.intervals import Relation

OPERATORS = (
    "LEAF", "AND", "ALONGSIDE", *(relation.value for relation in Relation), "OR", "XOR", "WITHIN", "FILTER", "UNLESS",
    "WITHOUT", "NO", "{n}", "{n} EVERY", "+ EVERY",
)  # fmt: skip
KINDS = ("points", "intervals")

Cell = tuple[str, str, str]  # operator, context, points or intervals


@dataclass
class Coverage:
    """``told`` counts the cases that also produced notifications."""

    exercised: Counter[Cell] = field(default_factory=Counter)
    told: Counter[Cell] = field(default_factory=Counter)

    def add(self, case: Case, subscription: Subscription, *, told: bool) -> None:
        kind = KINDS[any(event.start < event.end for event in case.events)]
        for operator in set(operators(subscription.pattern)):
            cell = (operator, subscription.context.value, kind)
            self.exercised[cell] += 1
            self.told[cell] += told

    def rows(self, contexts: tuple[Context, ...] = tuple(Context)) -> list[dict[str, object]]:
        """Every cell there could be, those never reached included."""
        cells = [(operator, context.value, kind) for operator in OPERATORS for context in contexts for kind in KINDS]
        names = ("operator", "context", "kind", "cases", "told")
        return [dict(zip(names, (*cell, self.exercised[cell], self.told[cell]), strict=True)) for cell in cells]


def operators(pattern: Pattern) -> Iterator[str]:
    """The operators of a pattern as the report names them.

    >>> from motet.language.syntax import Leaf
    >>> list(operators(Times(Leaf("a"), 2)))
    ['{n}', 'LEAF']
    """
    for node, _ in nodes(pattern):
        match node:
            case Times(gap=gap):
                yield "{n}" if gap is None else "{n} EVERY"
            case Run():
                yield "+ EVERY"
            case _:
                yield spoken(node)
