"""What all operators have in common: they take what their operands have newly found and say what follows from it.

`advance` is driven by the frontier: an operator acts on what it knows to be complete, and keeps the rest in its tables.
It may be left out when there is nothing new and the frontier has not passed `due`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.frontier import PASSED_ALL, Frontier
from motet.engine.detect.occurrences import Occurrences

NEVER = PASSED_ALL
Tables = Mapping[str, Occurrences]


@dataclass(frozen=True, slots=True)
class Now:
    """What an operator is told beside its input: the frontier, the strings, and how far operands lag behind it."""

    frontier: Frontier
    names: Dictionary
    lags: Sequence[int] = ()  # by operand
    lag: int = 0  # of the operator's own results
    facts: dict[str, int] = field(default_factory=dict)  # about what was found, once for all who are told of it


class Operator(Protocol):
    """An operator with its state."""

    def advance(self, inputs: Sequence[Occurrences], now: Now) -> Occurrences:
        """What is new, given what is new in the operands; in the operator's own variables."""
        ...

    def due(self, now: Now) -> int:
        """The instant the frontier has to pass before anything can happen without input."""
        ...

    def tables(self) -> Tables:
        """All there is to remember."""
        ...

    def load(self, tables: Tables) -> None:
        """Go on from what another one remembered."""
        ...
