"""Comparison of engines: agreement, reports, and shrinking of differences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import pytest
from lxml import etree

from motet.cli.main import main
from motet.fuzz import engines
from motet.fuzz.case import Case, as_run, expected_lines, expected_result, pack_cases, split_lines, timed_event
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import OPERATORS, FuzzReport, compare, engine_capabilities, fuzz
from motet.fuzz.engines import EmbeddedEngine, ReferenceEngine, ShuffledReferenceEngine, find_engine, shuffled
from motet.fuzz.shrink import shrink
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.language.scope import nodes
from motet.model.errors import EngineError, UsageError
from motet.reference import SubscribeRecord


@dataclass(frozen=True)
class DroppingEngine(ReferenceEngine):
    """A mutant that drops notifications of several events that end at an odd second."""

    name: str = "forgetful"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [[line for line in expected_lines(case) if not self._forgets(json.loads(line))] for case in cases]

    def _forgets(self, line: dict[str, str]) -> bool:
        return len(line["events"]) > 1 and int(line["end"][18]) % 2 == 1


@dataclass(frozen=True)
class DroppingXmlEngine(ReferenceEngine):
    """A mutant that drops notifications with an element <p> in their bindings."""

    name: str = "without-xml"

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [[line for line in expected_lines(case) if '"value": "<p' not in line] for case in cases]


@dataclass(frozen=True)
class FailingEngine(ReferenceEngine):
    """A mutant that raises for cases with these seeds."""

    name: str = "failing"
    seeds: tuple[int, ...] = ()

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        if any(case.seed in self.seeds for case in cases):
            raise EngineError("not this one")
        return super().run(cases)


def test_the_embedded_engine_agrees() -> None:
    """A hundred random subscriptions show no difference: the processor agrees with offsets, and its hosts agree."""
    report = fuzz(EmbeddedEngine(), 100, seed=20)
    assert report.differences == []
    assert report.runs >= 100 and report.runs_with_notifications > 50
    assert report.capabilities == EngineCapabilities()


def test_a_wrong_host_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that loses notifications is a difference even if the processor is right."""
    cases = [case for case in islice(random_cases(29, EngineCapabilities()), 8) if case.is_run]
    assert not any(compare(EmbeddedEngine(), cases))
    monkeypatch.setattr(engines, "HOST_INTERVAL", 1)
    monkeypatch.setattr(engines, "embedded_files", DroppingEngine)
    assert any(compare(EmbeddedEngine(), cases))


def test_the_reference_does_not_depend_on_arrival_order_or_batches() -> None:
    """Thirty random patterns have the same notifications in another arrival order and in batches."""
    report = fuzz(ShuffledReferenceEngine(), 30, seed=21)
    assert report.differences == []
    assert report.capabilities == EngineCapabilities()


def test_the_number_of_processes_changes_nothing() -> None:
    """Two processes run the same cases, with the same counts and differences."""
    alone = fuzz(ReferenceEngine(), 126, seed=28)
    shared = fuzz(ReferenceEngine(), 126, seed=28, jobs=2)
    assert alone.runs == 126
    assert replace(alone, seconds=0.0) == replace(shared, seconds=0.0)


def test_an_operator_with_inputs_is_exercised() -> None:
    """An operator without occurrences of its operands is not exercised, even if the pattern has notifications."""
    text = "SUBSCRIPTION s EVENT a EVENT b : <urn:None> EVENT c WHEN (a BEFORE b) OR c{2} CONTEXT recent"
    events = [timed_event(f"urn:{n}", n, n, ()) for n in range(2)]
    case = as_run(Case(()).with_records([SubscribeRecord(0, *parse(text)), *events]))
    report = FuzzReport(EngineCapabilities())
    report.add(case, expected_result(case))
    assert report.runs_with_notifications == 1
    assert set(report.coverage.exercised) == {("LEAF", "recent", "points"), ("{n}", "recent", "points")}


def test_the_report_has_every_cell() -> None:
    """The report has every operator, context and kind of events, zeros included; `told` never exceeds `cases`."""
    report = fuzz(ReferenceEngine(), 30, seed=22)
    rows = report.coverage.rows()
    assert len(rows) == len(OPERATORS) * 5 * 2
    assert all(0 <= row["notified"] <= row["cases"] <= report.runs for row in rows)  # type: ignore[operator]
    leaves = [row["cases"] for row in rows if row["operator"] == "LEAF"]
    assert 0 < sum(leaves) <= report.runs  # type: ignore[arg-type]
    assert report.fields()["runs"] == 30


def test_a_wrong_engine_is_detected_and_its_case_shrunk() -> None:
    """A missing notification is shrunk to one subscription over two events, without ontology or ticks."""
    engine = DroppingEngine()
    report = fuzz(engine, 300, seed=23)
    assert len(report.differences) == 1
    small = shrink(engine, report.differences[0])
    assert small.expected != small.actual
    assert len(small.case.subscriptions) == 1
    assert len(small.case.events) <= 3
    assert small.case.is_run and not small.case.ontology
    assert len(list(nodes(small.case.subscriptions[0].pattern))) <= 3
    assert small.case.subscriptions[0].name == "s1"


def test_documents_and_blocks_are_shrunk() -> None:
    """A missing notification of a block is shrunk to a document and a block of a few elements."""
    engine = DroppingXmlEngine()
    report = fuzz(engine, 300, seed=21)
    small = shrink(engine, report.differences[0]).case
    elements = [len(list(etree.fromstring(event.payload or b"<none/>").iter("*"))) for event in small.events]
    blocks = [event.xml.tree.element for event in small.subscriptions[0].events if event.xml]
    assert len(small.subscriptions) == 1 and sum(elements) <= 4
    assert 1 <= len(blocks) <= 2 and all(len(list(block.walk())) <= 2 for block in blocks)


def test_a_failure_is_a_difference_of_one_case() -> None:
    """An engine that raises for one of several cases has a difference in that case only, with its message."""
    cases = list(islice(random_cases(24, EngineCapabilities()), 4))
    found = list(compare(FailingEngine(seeds=(cases[2].seed,)), cases))
    assert [difference is not None for difference in found] == [False, False, True, False]
    assert found[2] is not None and found[2].actual == ["EngineError: not this one"]


def test_engine_capabilities() -> None:
    """Engines of files accept runs only; others accept logs too."""
    assert engine_capabilities(ReferenceEngine()) == EngineCapabilities()
    assert engine_capabilities(engines.embedded_files()) == EngineCapabilities(logs=False)
    assert engine_capabilities(engines.LiveEngine()) == EngineCapabilities()
    with pytest.raises(UsageError, match="embedded, kernel, lake, reference, spark"):
        find_engine("flink")


def test_shuffling_keeps_the_log() -> None:
    """Shuffling moves events only, and does not make others late."""
    for case in islice(random_cases(25, EngineCapabilities()), 10):
        other = shuffled(case)
        assert {(e.id, e.triples) for e in other.events} == {(e.id, e.triples) for e in case.events}
        assert [type(record) for record in other.records] == [type(record) for record in case.records]


def test_packed_cases_are_split_again() -> None:
    """The lines of each case of a packed run are those of the case alone."""
    sharing = EngineCapabilities(logs=False, shares_runs=True)
    cases = list(islice(random_cases(26, sharing, 4), 4))
    lines = expected_lines(pack_cases(cases))
    assert list(split_lines(lines, cases)) == [expected_lines(case) for case in cases]


def test_a_difference_is_printed_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`motet fuzz` ends with status 1, prints a command that shows the difference, and writes the files."""
    monkeypatch.setitem(engines.ENGINES, "reference", DroppingEngine)
    arguments = ["fuzz", "--engine", "reference", "--runs", "300", "--seed", "23", "--save", str(tmp_path)]
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "--- subscriptions.motet" in shown.out and "--- expected.jsonl" in shown.out
    assert f"motet run --subscriptions {tmp_path}" in shown.err
    saved = {path.name for path in (tmp_path / "reference-23-1").iterdir()}
    assert saved == {"subscriptions.motet", "events.nq", "expected.jsonl", "actual.jsonl"}


def test_agreement_is_reported_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` prints the counts, the coverage and no differences; the status is 0."""
    assert main(["fuzz", "--engine", "embedded", "--runs", "12", "--seed", "27", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["runs"], report["differences"], report["found"]) == (12, 0, [])
    assert len(report["coverage"]) == len(OPERATORS) * 10


def test_no_runs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Zero runs are a usage error."""
    assert main(["fuzz", "--runs", "0"]) == 2
    assert "--runs must be at least 1" in capsys.readouterr().err
