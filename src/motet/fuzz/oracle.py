"""The expected result of a case, by the reference engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from motet.fuzz.case import Case
from motet.language.syntax import Pattern
from motet.model.notifications import Notification
from motet.reference import evaluate_emissions

Emission = tuple[int, Notification]  # emission offset and notification


@dataclass(frozen=True)
class ExpectedResult:
    """The emissions of a case, and the sub-patterns with occurrences."""

    emissions: tuple[Emission, ...]
    active_patterns: frozenset[tuple[str, Pattern]]  # by name of the subscription

    def lines(self, *, offsets: bool = False) -> list[str]:
        """Notification lines, with emission offsets, or else each notification once."""
        return emission_lines(self.emissions, offsets=offsets)

    def notification_counts(self) -> Counter[str]:
        """The number of notifications of each subscription."""
        return Counter(notification.subscription for notification in {pair[1] for pair in self.emissions})


def expected_result(case: Case) -> ExpectedResult:
    """The emissions of a case by the definitions of the language page."""
    active_patterns: set[tuple[str, Pattern]] = set()

    def observe(name: str, pattern: Pattern, occurrences: Sequence[object]) -> None:
        if occurrences:
            active_patterns.add((name, pattern))

    emissions = evaluate_emissions(case.records, ontology=case.ontology, lateness=case.lateness, observe=observe)
    return ExpectedResult(tuple(emissions), frozenset(active_patterns))


def expected_lines(case: Case) -> list[str]:
    """Notification lines in the order of `motet run`."""
    return expected_result(case).lines()


def emission_lines(emissions: Iterable[Emission], *, offsets: bool) -> list[str]:
    """Lines in the order of `motet run`; with ``offsets`` each has its emission offset.

    >>> notification = Notification("s", 0, 0, ("urn:e:1",), ())
    >>> [line[:26] for line in emission_lines([(7, notification), (7, notification)], offsets=True)]
    ['{"offset": 7, "bindings": ', '{"offset": 7, "bindings": ']
    >>> len(emission_lines([(7, notification), (8, notification)], offsets=False))
    1
    """
    ordered = sorted(emissions, key=lambda pair: (pair[1].sort_key, pair[0]))
    if not offsets:
        return [_line(notification) for notification in dict.fromkeys(notification for _, notification in ordered)]
    return [f'{{"offset": {offset}, {_line(notification)[1:]}' for offset, notification in ordered]


@lru_cache(maxsize=4096)
def _line(notification: Notification) -> str:
    """The line of a notification, cached because the compared engine emits equal ones."""
    return notification.to_line()


def without_offsets(lines: Iterable[str]) -> list[str]:
    """The lines without emission offsets, each once.

    >>> without_offsets(['{"offset": 7, "bindings": {}}', "EngineError: no"])
    ['{"bindings": {}}', 'EngineError: no']
    """
    stripped = ("{" + line.split(", ", 1)[1] if line.startswith('{"offset": ') else line for line in lines)
    return list(dict.fromkeys(stripped))
