"""What ``motet explain`` prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from motet.cli import explain
from motet.model.errors import SubscriptionError, UsageError

TEXT = "SUBSCRIPTION {} EVENT {} : <urn:C> WHEN {} SIGNAL"


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    explain.add_arguments(parser)
    return explain.run(parser.parse_args(arguments))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two files with the same pattern under other names."""
    paths = [tmp_path / "one.motet", tmp_path / "two.motet"]
    for path, event in zip(paths, "ab", strict=True):
        path.write_text(TEXT.format(path.stem, event, event))
    return [str(path) for path in paths]


def test_files_are_planned_together(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes that several files share are shown once."""
    assert run(*files) == 0
    assert capsys.readouterr().out == (
        "one: recent, SIGNAL\n"
        "└─ [0] EVENT a, shared by 2 subscriptions\n"
        "         index: class C\n\n"
        "two: recent, SIGNAL\n"
        "└─ [0] EVENT b, shared by 2 subscriptions, see above\n\n"
        "partitioning\n"
        "  [0] of one, two\n"
        "    by event: each event decides alone, so any worker can evaluate it\n\n"
        "2 subscriptions, 1 node (1 shared), 1 distinct event pattern\n"
    )


def test_output_formats(files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and Graphviz go to standard output, a drawing to its file."""
    assert run(*files, "--json") == 0
    assert [root["node"] for root in json.loads(capsys.readouterr().out)["subscriptions"]] == [0, 0]
    assert run(*files, "--dot") == 0
    assert capsys.readouterr().out.startswith("digraph plan {\n")
    assert run(*files, "--svg", str(tmp_path / "plan.svg")) == 0
    assert (tmp_path / "plan.svg").read_text().startswith("<svg ")


def test_other_syntaxes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--syntax selects the surface the files are written in."""
    (tmp_path / "s.rq").write_text("SELECT ?g WHERE { GRAPH ?g { ?g a <urn:C> } }")
    assert run(str(tmp_path / "s.rq"), "--syntax", "sparql") == 0
    assert "index: class C" in capsys.readouterr().out


def test_errors_name_the_problem(tmp_path: Path, files: list[str]) -> None:
    """A missing file, a wrong subscription and a drawing that cannot be written are usage errors."""
    with pytest.raises(UsageError, match="there is no subscription file"):
        run(str(tmp_path / "missing"))
    (tmp_path / "wrong").write_text("SUBSCRIPTION s EVENT a WHEN b")
    with pytest.raises(SubscriptionError, match="line 1, column 29"):
        run(str(tmp_path / "wrong"))
    with pytest.raises(UsageError, match="cannot be written"):
        run(*files, "--svg", str(tmp_path / "no" / "plan.svg"))
