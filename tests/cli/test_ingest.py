"""`motet ingest`, and `motet deliver` with wrong arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from motet.cli.main import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one source is required"),
        (["--watch", "in", "--nats", "nats://127.0.0.1:1"], "exactly one source is required"),
        (["--watch", "nowhere"], "there is no directory 'nowhere'"),
        (["--nats", "nats://127.0.0.1:1"], "requires the name of a stream"),
        (["--nats", "127.0.0.1", "--stream", "S"], "is not a NATS URL"),
        (["--nats", "nats://127.0.0.1:1", "--stream", "S", "--content-type", "no/type"], "'no/type' is not known"),
        (["a.nq", "--once"], "--once is for --watch and --nats"),
        (["a.nq"], "there is no event file 'a.nq'"),
        (["-", "a.nq"], "standard input is no part of a load of files"),
        (["notes.txt"], "notes.txt"),
        (["--id", "urn:e:1", "--watch", "in"], "--id names the event of one input"),
        (["--lateness", "soon", "-"], "'soon' is not a duration"),
    ],
)
def test_ingest_refuses_wrong_arguments(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wrong arguments are named, the status is 2, and no event is ingested."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("notes.txt").write_text("no events")
    assert main(["ingest", "--lake", "lake", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_directory_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary says that no file was ingested."""
    (tmp_path / "in").mkdir()
    assert main(["ingest", "--lake", str(tmp_path / "lake"), "--watch", str(tmp_path / "in"), "--once"]) == 0
    assert capsys.readouterr().out.startswith(
        "files     0\naccepted  0\nrepeated  0\nstamped   0\nlate      0\nleft out  0\nrejected  0\n"
    )


def test_deliver_needs_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Delivering does not create a lake."""
    assert main(["deliver", "--lake", str(tmp_path / "lake"), "--nats", "nats://127.0.0.1:1"]) == 1
    assert "is not a lake" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()


DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"
TIMED = f'<urn:e:1> <http://www.w3.org/ns/sosa/resultTime> "2026-11-15T10:00:00Z"^^<{DATE_TIME}> .\n'


@pytest.mark.parametrize(
    ("text", "arguments", "counts"),
    [
        (TIMED + "<urn:x> <urn:p> 1 .", [], {"accepted": 0, "rejected": 1}),
        (TIMED + "<urn:x> <urn:p> 1 .", ["--rest", "drop"], {"accepted": 1, "left_out": 1}),
        (TIMED + "<urn:x> <urn:p> 1 .", ["--rest", "share"], {"accepted": 1, "left_out": 0}),
        ("<urn:x> <urn:p> 1 .", ["--id", "urn:x"], {"accepted": 1, "stamped": 1}),
        ("<> <urn:p> <other> .", ["--base", "http://example.org/"], {"accepted": 1, "rejected": 0}),
    ],
)
def test_options_say_which_events_a_document_has(
    text: str, arguments: list[str], counts: dict[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What belongs to no event refuses the document, is left out and counted, or is shared; --id makes one event."""
    (tmp_path / "a.ttl").write_text(text)
    status = main(["ingest", "--lake", str(tmp_path / "lake"), "--json", *arguments, str(tmp_path / "a.ttl")])
    summary = json.loads(capsys.readouterr().out)
    assert {name: summary[name] for name in counts} == counts
    assert status == (1 if summary["rejected"] else 0)


@pytest.mark.parametrize(
    ("content_type", "text"),
    [("application/n-quads", b'<urn:a> <urn:p> "1" <urn:a> .\n'), ("text/turtle", b"[] <urn:p> 1 .")],
)
def test_standard_input_is_a_source(content_type: str, text: bytes, tmp_path: Path) -> None:
    """`motet ingest -` appends what it reads; --content-type is its format."""
    arguments = ["ingest", "--lake", str(tmp_path / "lake"), "--json", "--content-type", content_type, "-"]
    command = [sys.executable, "-m", "motet.cli.main", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, check=True)
    assert json.loads(done.stdout)["accepted"] == 1
    assert b"stamped events: 1." in done.stderr
