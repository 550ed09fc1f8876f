"""What ``motet explain`` prints."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from motet.cli import explain
from motet.lake import Lake
from motet.model.errors import LimitError, SubscriptionError, UsageError

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


PAY = """
WHERE $p : <person><name></name> ELEMENT_AS $n <number>$pn</number></person>, $o : <order><pn>$pn</pn></order>,
      $p BEFORE $o WITHIN 1 d
CONSTRUCT <result><pn>$pn</pn>$n</result>
"""
DOCUMENTS = {
    "p.xml": '<person xmlns:m="urn:motet:ns#" m:start="2026-01-01T00:00:00Z">'
    "<name>Li</name><number>4</number></person>",
    "o.xml": '<order xmlns:m="urn:motet:ns#" m:start="2026-01-01T00:00:01Z"><pn>4</pn></order>',
}


@pytest.mark.parametrize(
    ("events", "values"),
    [
        (["p.xml"], ["false", "false", "false", "true, 1 occurrence", "false"]),
        (["p.xml", "o.xml"], ["true, 1 notification", *["true, 1 occurrence"] * 4]),
    ],
)
def test_over_events_the_composition_tree_has_truth_values(
    events: list[str], values: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """CONSTRUCT is the root; a node is true if it has an occurrence, the root if there is a notification."""
    for name, text in {**DOCUMENTS, "pay.exmlql": PAY}.items():
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / name) for name in events]
    assert run(str(tmp_path / "pay.exmlql"), "--syntax", "exmlql", "--events", *paths) == 0
    root, within, before, person, order = values
    assert capsys.readouterr().out == (
        "query: recent\n"
        f"└─ CONSTRUCT  {root}\n"
        "   │     <result><pn>$pn</pn>$n</result>\n"
        f"   └─ WITHIN 1 d  {within}\n"
        f"      └─ BEFORE  {before}\n"
        f"         ├─ EVENT p  {person}\n"
        f"         └─ EVENT o  {order}\n"
    )
    assert run(str(tmp_path / "pay.exmlql"), "--syntax", "exmlql", "--json", "--events", *paths) == 0
    [tree] = json.loads(capsys.readouterr().out)["subscriptions"]
    assert (tree["notifications"] == 1, tree["pattern"]["true"]) == (len(events) == 2, len(events) == 2)


def test_composition_trees_are_for_few_events_and_without_a_lake(tmp_path: Path, files: list[str]) -> None:
    """The reference engine is slow; what has no meaning is refused."""
    events = tmp_path / "events.nq"
    events.write_text("".join(f'<urn:e:{n}> <urn:p> "{n}" <urn:e:{n}> .\n' for n in range(2001)))
    with pytest.raises(LimitError, match="more than 2000 events"):
        run(*files, "--events", str(events))
    with pytest.raises(UsageError, match="--events shows composition trees"):
        run(*files, "--dot", "--events", str(events))
    with pytest.raises(UsageError, match="--map is for the documents of --events"):
        run(*files, "--map", "generic")
