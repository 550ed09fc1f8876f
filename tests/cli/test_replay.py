"""What ``motet replay`` and ``motet diff`` print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.builders import EX, minute_event

from motet.cli.main import main
from motet.fuzz.case import Case
from motet.fuzz.lakes import write_lake
from motet.lake import Lake

PAIR = f"""PREFIX ex: <{EX}>
SUBSCRIPTION pair
  EVENT a : ex:A
  EVENT b : ex:B
  WHEN a BEFORE b WITHIN 5 min CONTEXT unrestricted SIGNAL
"""
SINGLE = f"PREFIX ex: <{EX}> SUBSCRIPTION single EVENT a : ex:A WHEN a SIGNAL"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A lake with an A at 10:00 and Bs at 10:03 and 10:09, and files of subscriptions."""
    times = [(1, "A", 0), (2, "B", 3), (3, "B", 9)]
    events = [minute_event(number, class_, minute, has_time=True) for number, class_, minute in times]
    write_lake(Case((), lateness=0).with_records(events), tmp_path / "lake")
    (tmp_path / "old.motet").write_text(PAIR)
    (tmp_path / "new.motet").write_text(PAIR.replace("5 min", "10 min"))
    return tmp_path


def replay(home: Path, *more: str) -> int:
    files = ["--lake", str(home / "lake"), "--subscriptions", str(home / "old.motet")]
    return main(["replay", *files, "--engine", "embedded", *more])


def diff(home: Path, old: str, new: str, *more: str) -> int:
    return main(["diff", str(home / old), str(home / new), "--lake", str(home / "lake"), *more])


def test_replay_prints_the_lines_of_a_run(home: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """In the form and order of `motet run`; the summary goes to standard error."""
    assert replay(home) == 0
    printed = capsysbinary.readouterr()
    [line] = printed.out.decode().splitlines()
    assert json.loads(line)["events"] == ["urn:e:1", "urn:e:2"]
    assert printed.err.startswith(b"1 notifications from a log of 3 events in ")
    assert replay(home, "--since", "2026-11-15T10:01:00Z", "--json", "--output", str(home / "out.jsonl")) == 0
    assert json.loads(capsysbinary.readouterr().err)["notifications"] == 0
    assert (home / "out.jsonl").read_bytes() == b""


def test_diff_explains_changes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A gained notification is explained with the new text; the obstacle in the old text stands below."""
    assert diff(home, "old.motet", "new.motet") == 0
    table, account = capsys.readouterr().out.split("\n\n")
    assert [line.split() for line in table.splitlines()] == [
        ["subscription", "gained", "lost"],
        ["pair", "edited", "1", "0"],
    ]
    lines = account.splitlines()
    assert lines[0].startswith("+ pair ") and lines[0].endswith(" on 2026-11-15, 10:00:00 to 10:09:00")
    assert "     │  9 min in all, at most 10 min allowed" in lines
    assert lines[-1] == (
        "  before, urn:e:3: as b it matches, but in a BEFORE b WITHIN 5 min: "
        "9 min in all where 5 min are allowed, with urn:e:1 at 10:00:00"
    )


def test_diff_is_symmetric_and_prints_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the files exchanged a gain is a loss; the explanations are those of `why` and `why-not`."""
    assert diff(home, "new.motet", "old.motet", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["subscriptions"] == {"pair": "edited"}
    [change] = found["changes"]
    assert (change["change"], change["notification"]["events"]) == ("lost", ["urn:e:1", "urn:e:3"])
    assert change["why"]["notification"] == change["notification"]["id"]
    assert change["why_not"]["reasons"][0]["reason"]["kind"] == "too far"


def test_diff_of_added_and_removed_subscriptions(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A subscription that only one side has gets no why-not; changes beyond the limit are only counted."""
    (home / "single.motet").write_text(SINGLE)
    assert diff(home, "old.motet", "single.motet", "--limit", "1") == 0
    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()[1:3]] == [
        ["pair", "removed", "0", "1"],
        ["single", "added", "1", "0"],
    ]
    assert "before" not in printed.out
    assert printed.err == "changes without an explanation: 1. Raise --limit to explain them.\n"


ABSENCE = PAIR.replace("pair", "alone").replace("a BEFORE b WITHIN 5 min", "a UNLESS b WITHIN 5 min")


def add_late_event(home: Path) -> None:
    """The lake with another B at 10:02, which is late, and a subscription that it contradicts."""
    late = minute_event(4, "B", 2, has_time=True)
    times = [(1, "A", 0), (3, "B", 9)]
    events = [minute_event(number, class_, minute, has_time=True) for number, class_, minute in times]
    write_lake(Case((), lateness=0).with_records([*events, late]), home / "late")
    (home / "absence.motet").write_text(ABSENCE)


def test_replay_reads_late_events(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """“`motet replay --late` reads late events as if they had come in time”; the summary names their number."""
    add_late_event(home)
    files = ["--lake", str(home / "late"), "--subscriptions", str(home / "absence.motet"), "--engine", "embedded"]
    assert main(["replay", *files]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["events"] == ["urn:e:1"]
    assert printed.err.endswith("; late events, left out (--late reads them): 1\n")
    assert main(["replay", *files, "--late", "--json"]) == 0
    printed = capsys.readouterr()
    summary = json.loads(printed.err)
    assert (printed.out, summary["late"], summary["late_read"]) == ("", 1, True)


def test_diff_of_late_events(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """“`motet diff --late` shows the notifications that would be gained and lost (an absence told although a late event
    contradicts it)”.
    """
    add_late_event(home)
    (home / "both.motet").write_text(ABSENCE + PAIR.split("\n", 1)[1])
    request = ["diff", str(home / "both.motet"), "--late", "--lake", str(home / "late")]
    assert main(request) == 0
    printed = capsys.readouterr()
    assert printed.err == "1 of 3 events are late\n"
    assert [line.split() for line in printed.out.splitlines()[1:3]] == [
        ["alone", "late", "events", "0", "1"],
        ["pair", "late", "events", "1", "0"],
    ]
    assert "without the late events, urn:e:" in printed.out and "with the late events, urn:e:1: " in printed.out
    assert main([*request, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    changes = [(each["change"], each["notification"]["events"]) for each in found["changes"]]
    assert (found["late"], changes) == (1, [("lost", ["urn:e:1"]), ("gained", ["urn:e:1", "urn:e:4"])])


def test_diff_takes_one_file_or_two(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two for an edit, one for late events."""
    assert diff(home, "old.motet", "new.motet", "--late") == 2
    assert "--late compares one file with itself" in capsys.readouterr().err
    assert main(["diff", str(home / "old.motet"), "--lake", str(home / "lake")]) == 2
    assert "the file after the edit is missing" in capsys.readouterr().err


def test_verify_names_the_number_of_late_events(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """“`verify` and `inspect` name the number of late events.”"""
    add_late_event(home)
    assert main(["verify", "--lake", str(home / "late"), "--engine", "embedded", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["late"] == 1
    assert main(["inspect", "--lake", str(home / "late"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["late"] == 1


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--since", "2026-11-16T00:00:00Z", "--until", "2026-11-15T00:00:00Z"], 2, "is later than --until"),
        (["--since", "yesterday"], 2, "is not an xsd:dateTime"),
        (["--subscriptions", "none.motet"], 2, "there is no subscription file 'none.motet'"),
        (["--lake", "none"], 1, "none is not a lake"),
    ],
)
def test_wrong_requests(
    more: list[str], status: int, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one sentence and an exit status."""
    assert replay(home, *more) == status
    assert message in capsys.readouterr().err


def test_an_empty_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There are no notifications and no changes."""
    Lake.open(tmp_path / "lake")
    (tmp_path / "old.motet").write_text(PAIR)
    assert replay(tmp_path) == 0
    assert diff(tmp_path, "old.motet", "old.motet") == 0
    assert capsys.readouterr().out.split() == ["subscription", "gained", "lost", "pair", "unchanged", "0", "0"]
