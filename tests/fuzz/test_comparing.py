"""Comparing engines: agreement, what is reported, and what becomes of a difference."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.fuzz import engines
from motet.fuzz.case import Case, as_run, pack_cases, split_lines, timed_event
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import FuzzReport, compare, engine_capabilities, fuzz
from motet.fuzz.coverage import OPERATORS
from motet.fuzz.engines import EmbeddedEngine, ReferenceEngine, ShuffledReferenceEngine, batches, find_engine, shuffled
from motet.fuzz.oracle import expected_lines, expected_result
from motet.fuzz.shrink import shrink
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.language.scope import nodes
from motet.model.errors import EngineError, UsageError
from motet.reference import SubscribeRecord


@dataclass(frozen=True)
class Forgetful(ReferenceEngine):
    """A mutant: forgets notifications of more than one event that end at an odd second."""

    name: str = "forgetful"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [[line for line in expected_lines(case) if not self._forgets(json.loads(line))] for case in cases]

    def _forgets(self, line: dict[str, str]) -> bool:
        return len(line["events"]) > 1 and int(line["end"][18]) % 2 == 1


@dataclass(frozen=True)
class Failing(ReferenceEngine):
    """A mutant: cannot do the cases with these seeds."""

    name: str = "failing"
    seeds: tuple[int, ...] = ()

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        if any(case.seed in self.seeds for case in cases):
            raise EngineError("not this one")
        return super().run(cases)


def test_the_embedded_engine_agrees() -> None:
    """A hundred random subscriptions find nothing: the kernel agrees to the offset, and so do its hosts."""
    report = fuzz(EmbeddedEngine(), 100, seed=20)
    assert report.differences == []
    assert report.runs >= 100 and report.runs_with_notifications > 50
    assert report.capabilities == EngineCapabilities()


def test_a_host_that_says_something_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the kernel is right: a host may lose what the kernel has found."""
    cases = [case for case in islice(random_cases(29, EngineCapabilities()), 8) if case.is_run]
    assert not any(compare(EmbeddedEngine(), cases))
    monkeypatch.setattr(engines, "HOST_INTERVAL", 1)
    monkeypatch.setattr(engines, "embedded_files", Forgetful)
    assert any(compare(EmbeddedEngine(), cases))


def test_the_reference_does_not_depend_on_order_or_cuts() -> None:
    """Thirty random patterns say the same in another arrival order and read piece by piece."""
    report = fuzz(ShuffledReferenceEngine(), 30, seed=21)
    assert report.differences == []
    assert report.capabilities == EngineCapabilities()


def test_the_number_of_processes_changes_nothing() -> None:
    """Two processes try the same cases, count the same and find the same differences."""
    alone = fuzz(ReferenceEngine(), 126, seed=28)
    shared = fuzz(ReferenceEngine(), 126, seed=28, jobs=2)
    assert alone.runs == 126
    assert replace(alone, seconds=0.0) == replace(shared, seconds=0.0)


def test_an_operator_counts_when_it_has_inputs() -> None:
    """An operator below which nothing was found is not exercised, even when the whole pattern tells something."""
    text = "SUBSCRIPTION s EVENT a EVENT b : <urn:None> EVENT c WHEN (a BEFORE b) OR c{2} CONTEXT recent"
    events = [timed_event(f"urn:{n}", n, n, ()) for n in range(2)]
    case = as_run(Case(()).with_records([SubscribeRecord(0, *parse(text)), *events]))
    report = FuzzReport(EngineCapabilities())
    report.add(case, expected_result(case))
    assert report.runs_with_notifications == 1
    assert set(report.coverage.exercised) == {("LEAF", "recent", "points"), ("{n}", "recent", "points")}


def test_the_report_has_every_cell() -> None:
    """Operator by context by points and intervals, those never reached included; told never exceeds cases."""
    report = fuzz(ReferenceEngine(), 30, seed=22)
    rows = report.coverage.rows()
    assert len(rows) == len(OPERATORS) * 5 * 2
    assert all(0 <= row["told"] <= row["cases"] <= report.runs for row in rows)  # type: ignore[operator]
    leaves = [row["cases"] for row in rows if row["operator"] == "LEAF"]
    assert 0 < sum(leaves) <= report.runs  # type: ignore[arg-type]
    assert report.fields()["runs"] == 30


def test_a_wrong_engine_is_found_and_its_case_shrunk() -> None:
    """A forgotten notification comes down to one subscription over two events, without ontology or ticks."""
    engine = Forgetful()
    report = fuzz(engine, 300, seed=23)
    assert len(report.differences) == 1
    small = shrink(engine, report.differences[0])
    assert small.expected != small.actual
    assert len(small.case.subscriptions) == 1
    assert len(small.case.events) <= 3
    assert small.case.is_run and not small.case.ontology
    assert len(list(nodes(small.case.subscriptions[0].pattern))) <= 3
    assert small.case.subscriptions[0].name == "s1"


def test_a_failure_is_a_difference_of_one_case() -> None:
    """An engine that fails on one of several cases is blamed for that case only, in its own words."""
    cases = list(islice(random_cases(24, EngineCapabilities()), 4))
    found = list(compare(Failing(seeds=(cases[2].seed,)), cases))
    assert [difference is not None for difference in found] == [False, False, True, False]
    assert found[2] is not None and found[2].actual == ["EngineError: not this one"]


def test_an_engine_is_asked_what_it_can_do() -> None:
    """Files only, or logs too."""
    assert engine_capabilities(ReferenceEngine()) == EngineCapabilities()
    assert engine_capabilities(engines.embedded_files()) == EngineCapabilities(logs=False)
    assert engine_capabilities(engines.LiveEngine()) == EngineCapabilities()
    with pytest.raises(UsageError, match="embedded, kernel, reference, spark"):
        find_engine("flink")


def test_shuffling_and_cutting_keep_the_log() -> None:
    """The same records in other pieces; shuffling moves events only, and makes no other event late."""
    for case in islice(random_cases(25, EngineCapabilities()), 10):
        assert [record for batch in batches(case) for record in batch] == list(case.records)
        other = shuffled(case)
        assert {(e.id, e.triples) for e in other.events} == {(e.id, e.triples) for e in case.events}
        assert [type(record) for record in other.records] == [type(record) for record in case.records]


def test_packed_cases_come_apart_again() -> None:
    """Many runs in one: each case's lines are those it has alone."""
    sharing = EngineCapabilities(logs=False, shares_runs=True)
    cases = list(islice(random_cases(26, sharing, 4), 4))
    lines = expected_lines(pack_cases(cases))
    assert list(split_lines(lines, cases)) == [expected_lines(case) for case in cases]


def test_a_difference_is_printed_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`motet fuzz` ends with status 1, says how to see it, and leaves the files."""
    monkeypatch.setitem(engines.ENGINES, "reference", Forgetful)
    arguments = ["fuzz", "--engine", "reference", "--runs", "300", "--seed", "23", "--save", str(tmp_path)]
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "--- subscriptions.motet" in shown.out and "--- expected.jsonl" in shown.out
    assert f"motet run --subscriptions {tmp_path}" in shown.err
    saved = {path.name for path in (tmp_path / "reference-23-1").iterdir()}
    assert saved == {"subscriptions.motet", "events.nq", "expected.jsonl", "actual.jsonl"}


def test_agreement_is_reported_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` has the facts, the coverage and no findings; the status is 0."""
    assert main(["fuzz", "--engine", "embedded", "--runs", "12", "--seed", "27", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["runs"], report["differences"], report["found"]) == (12, 0, [])
    assert len(report["coverage"]) == len(OPERATORS) * 10


def test_no_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Asking for nothing is a mistake, not a success."""
    assert main(["fuzz", "--runs", "0"]) == 2
    assert "--runs must be at least 1" in capsys.readouterr().err
