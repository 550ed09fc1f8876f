"""Comparing an engine with the reference engine over many random cases, to the byte."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from random import Random

from motet.fuzz.case import Case, expected_lines
from motet.fuzz.coverage import Coverage
from motet.fuzz.engines import Engine
from motet.fuzz.logs import random_case, random_ontology
from motet.fuzz.subscriptions import Abilities, random_subscriptions
from motet.language.parse import parse

TOGETHER = 6  # subscriptions over one log

_COMPOSITE = "SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b"
_DERIVING = "SUBSCRIPTION s EVENT a WHEN a CONSTRUCT { ?a <urn:p> <urn:o> }"


@dataclass(frozen=True)
class Difference:
    """A case on which the engine does not say what the reference engine says."""

    case: Case
    expected: list[str]
    actual: list[str]


@dataclass
class Report:
    """What a run of the fuzzer did. One run is one subscription over one log."""

    abilities: Abilities
    runs: int = 0
    logs: int = 0
    told: int = 0  # runs that produced notifications
    notifications: int = 0
    seconds: float = 0.0
    coverage: Coverage = field(default_factory=Coverage)
    differences: list[Difference] = field(default_factory=list)

    def facts(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "logs": self.logs,
            "told": self.told,
            "told_share": round(self.told / max(self.runs, 1), 3),
            "notifications": self.notifications,
            "seconds": round(self.seconds, 1),
            "runs_per_second": round(self.runs / max(self.seconds, 1e-9), 1),
            "differences": len(self.differences),
            "composite": self.abilities.composite,
            "derived_events": self.abilities.derives,
            "logs_with_changes": self.abilities.logs,
        }

    def add(self, case: Case, expected: Sequence[str]) -> None:
        lines = Counter(json.loads(line)["subscription"] for line in expected)
        for subscription in case.subscriptions:
            self.coverage.add(case, subscription, told=lines[subscription.name] > 0)
            self.told += lines[subscription.name] > 0
        self.runs += len(case.subscriptions)
        self.logs += 1
        self.notifications += len(expected)


def fuzz(
    engine: Engine, runs: int, seed: int, *, keep_going: bool = False, advance: Callable[[int], object] = lambda _: None
) -> Report:
    """Run random cases until a difference is found, or to the end; ``advance`` is told of the runs that are done."""
    report = Report(abilities_of(engine))
    cases = random_cases(seed, report.abilities, engine.at_once)
    started = time.perf_counter()
    while report.runs < runs and (keep_going or not report.differences):
        batch = _no_more_than(list(islice(cases, engine.at_once)), runs - report.runs)
        expected = [expected_lines(case) for case in batch]
        for case, lines in zip(batch, expected, strict=True):
            report.add(case, lines)
        report.differences += (found for found in compare(engine, batch, expected) if found is not None)
        report.seconds = time.perf_counter() - started
        advance(sum(len(case.subscriptions) for case in batch))
    return report


def compare(
    engine: Engine, cases: Sequence[Case], expected: Sequence[list[str]] | None = None
) -> Iterator[Difference | None]:
    """For each case the difference, if there is one. A failure is a difference too."""
    wanted = expected if expected is not None else [expected_lines(case) for case in cases]
    for case, lines, actual in zip(cases, wanted, answers(engine, cases), strict=True):
        yield None if lines == actual else Difference(case, lines, actual)


def answers(engine: Engine, cases: Sequence[Case]) -> list[list[str]]:
    """What the engine says to each case; the message when it fails. Cases that fail together are tried alone."""
    try:
        return engine.run(cases)
    except Exception as error:  # noqa: BLE001  (whatever an engine raises is a finding, not ours to die of)
        if len(cases) == 1:
            return [[f"{type(error).__name__}: {error}"]]
    return [answers(engine, [case])[0] for case in cases]


def abilities_of(engine: Engine) -> Abilities:
    """What the engine can be given, found out by asking it."""
    composite, derives = (engine.supports(parse(text)[0]) for text in (_COMPOSITE, _DERIVING))
    return Abilities(composite, derives, engine.takes_logs, shares=engine.at_once > 1)


def random_cases(seed: int, abilities: Abilities, at_once: int = 1) -> Iterator[Case]:
    """Endless; the same for the same arguments. Cases that are run at once have one ontology."""
    for number in count():
        random = Random(f"{seed} {number}")  # noqa: S311  (seeded, not secret)
        ontology = random_ontology(Random(f"{seed} ontology {number // at_once}"))  # noqa: S311
        scope = f"c{number}"
        subscriptions = random_subscriptions(random, scope, abilities, TOGETHER)
        as_log = abilities.logs and random.random() < 0.4
        case = random_case(random, scope, subscriptions, as_log=as_log, tagged=abilities.shares)
        yield replace(case, ontology=ontology)


def _no_more_than(cases: list[Case], runs: int) -> list[Case]:
    """As many of the cases as make up the runs still wanted, at least one."""
    return cases[: max(1, -(-runs // TOGETHER))]
