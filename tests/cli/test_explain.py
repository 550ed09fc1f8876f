"""What ``motet explain`` prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from motet.cli import explain
from motet.lake import Lake
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
        "         index: class C\n"
        "   notified at once, with its last event\n\n"
        "two: recent, SIGNAL\n"
        "└─ [0] EVENT b, shared by 2 subscriptions, see above\n"
        "   notified at once, with its last event\n\n"
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


@pytest.mark.parametrize(
    ("pattern", "sentence"),
    [
        ("a", "notified at once, with its last event"),
        ("a BEFORE b WITHIN 1 min", "notified 5 s after its last event: 5 s lateness"),
        ("a BEFORE b WITHIN 1 min CONTEXT unrestricted", "notified at once, with its last event"),
        ("a UNLESS b WITHIN 10 min", "notified 605 s after its last event: 10 min of the pattern and 5 s lateness"),
        ("NO a FOR 1 min", "notified 65 s after its last event: 1 min of the pattern and 5 s lateness"),
        ("a XOR b WITHIN 1 min", "notified 65 s after its last event: 1 min of the pattern and 5 s lateness"),
        ("a+ EVERY 30 s WITHIN 1 h", "notified 35 s after its last event: 30 s of the pattern and 5 s lateness"),
    ],
)
def test_when_notifications_come(
    pattern: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The delay of the pattern and the lateness, which is that of a lake if one is given."""
    leaves = "EVENT a : <urn:A> " + ("EVENT b : <urn:B> " if " b" in pattern else "")
    (tmp_path / "s.motet").write_text(f"SUBSCRIPTION s {leaves} WHEN {pattern}")
    assert run(str(tmp_path / "s.motet")) == 0
    assert f"   {sentence}\n" in capsys.readouterr().out
    Lake.open(tmp_path / "lake", lateness=None)
    assert run(str(tmp_path / "s.motet"), "--lake", str(tmp_path / "lake")) == 0
    printed = capsys.readouterr().out
    assert "notified at once" in printed or "notified when a tick has passed its last event" in printed
