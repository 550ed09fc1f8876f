"""Cases as files: reading gives the written case, and `motet run` accepts a run."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.fuzz.case import expected_lines
from motet.fuzz.cases import random_cases
from motet.fuzz.compare import log_kinds
from motet.fuzz.files import read_case, read_lines, write_case
from motet.fuzz.subscriptions import EngineCapabilities


def test_a_written_case_reads_back_equal(tmp_path: Path) -> None:
    """Runs and logs have the same notifications after a round trip through files."""
    for number, case in enumerate(islice(random_cases(11, EngineCapabilities()), 24)):
        write_case(tmp_path / str(number), case, {"expected.jsonl": expected_lines(case)})
        again = read_case(tmp_path / str(number))
        assert (again.lateness, again.ontology, again.subscriptions) == (
            case.lateness,
            case.ontology,
            case.subscriptions,
        )
        assert case.is_run or again.records == case.records
        assert expected_lines(again) == read_lines(tmp_path / str(number) / "expected.jsonl")


def test_motet_run_accepts_a_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The files of a run give the expected lines in `motet run`; an event with other content is rejected."""
    cases = random_cases(12, EngineCapabilities(logs=False))
    case = next(case for case in cases if case.ontology and "conflict" in log_kinds(case))
    write_case(tmp_path, case, {})
    events = sorted(map(str, tmp_path.glob("events*")))
    assert len(events) >= 2
    subscriptions, ontology = str(tmp_path / "subscriptions.motet"), str(tmp_path / "ontology.ttl")
    assert main(["run", "--subscriptions", subscriptions, "--events", *events, "--ontology", ontology]) == 1
    assert capfd.readouterr().out.splitlines() == expected_lines(case)
