"""What the reference engine says of a case: the verdict every other engine is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from motet.fuzz.case import Case
from motet.language.syntax import Pattern
from motet.model.notifications import Notification
from motet.reference import evaluate_emissions

Emission = tuple[int, Notification]  # the offset of the record that made it final


@dataclass(frozen=True)
class Verdict:
    """The emissions of a case, and which parts of which patterns produced anything."""

    emissions: tuple[Emission, ...]
    produced: frozenset[tuple[str, Pattern]]  # by the subscription's name

    def lines(self, *, offsets: bool = False) -> list[str]:
        """As the engine in question writes them: with offsets, or each notification once."""
        return lines_of(self.emissions, offsets=offsets)

    def told(self) -> Counter[str]:
        """How many notifications each subscription has."""
        return Counter(found.subscription for found in {found for _, found in self.emissions})


def judge(case: Case) -> Verdict:
    """The notifications of a case by the definitions of the language page."""
    produced: set[tuple[str, Pattern]] = set()

    def observe(name: str, pattern: Pattern, found: Sequence[object]) -> None:
        if found:
            produced.add((name, pattern))

    emissions = evaluate_emissions(case.records, ontology=case.ontology, lateness=case.lateness, observe=observe)
    return Verdict(tuple(emissions), frozenset(produced))


def expected_lines(case: Case) -> list[str]:
    """Notification lines in the order of `motet run`."""
    return judge(case).lines()


def lines_of(emissions: Iterable[Emission], *, offsets: bool) -> list[str]:
    """Lines in the order of `motet run`; with ``offsets`` each says which record made it final.

    >>> notification = Notification("s", 0, 0, ("urn:e:1",), ())
    >>> [line[:26] for line in lines_of([(7, notification), (7, notification)], offsets=True)]
    ['{"offset": 7, "bindings": ', '{"offset": 7, "bindings": ']
    >>> len(lines_of([(7, notification), (8, notification)], offsets=False))
    1
    """
    ordered = sorted(emissions, key=lambda pair: (pair[1].sort_key, pair[0]))
    if not offsets:
        return [_line(found) for found in dict.fromkeys(found for _, found in ordered)]
    return [f'{{"offset": {offset}, {_line(found)[1:]}' for offset, found in ordered]


@lru_cache(maxsize=4096)
def _line(found: Notification) -> str:
    """What is equal has one line: an engine that is right says what has just been expected."""
    return found.to_line()


def without_offsets(lines: Iterable[str]) -> list[str]:
    """
    >>> without_offsets(['{"offset": 7, "bindings": {}}', "EngineError: no"])
    ['{"bindings": {}}', 'EngineError: no']
    """
    plain = ("{" + line.split(", ", 1)[1] if line.startswith('{"offset": ') else line for line in lines)
    return list(dict.fromkeys(plain))
