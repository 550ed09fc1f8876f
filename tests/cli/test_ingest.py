"""`motet ingest`, and `motet deliver` with wrong arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.model.errors import LakeError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "exactly one source is required"),
        (["--watch", "in", "--nats", "nats://127.0.0.1:1"], "exactly one source is required"),
        (["--watch", "nowhere"], "there is no directory 'nowhere'"),
        (["--nats", "nats://127.0.0.1:1"], "requires the name of a stream"),
        (["--nats", "127.0.0.1", "--stream", "S"], "is not a NATS URL"),
        (["--nats", "nats://127.0.0.1:1", "--stream", "S", "--content-type", "no/type"], "'no/type' is not known"),
        (["--watch", "in", "--content-type", "text/turtle"], "--content-type is for - and --nats"),
        (["a.nq", "--once"], "--once is for --watch and --nats"),
        (["a.nq"], "there is no event file 'a.nq'"),
        (["-", "a.nq"], "standard input is no part of a load of files"),
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
    assert main(["ingest", "--lake", "lake", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_empty_directory_is_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The summary says that no file was ingested."""
    (tmp_path / "in").mkdir()
    assert main(["ingest", "--lake", str(tmp_path / "lake"), "--watch", str(tmp_path / "in"), "--once"]) == 0
    assert capsys.readouterr().out.startswith(
        "files        0\naccepted     0\nrepeated     0\nstamped      0\nlate         0\nleft out     0\n"
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


def quads(event: str, time: str, content: str = "1") -> str:
    """The N-Quads of an event with a time."""
    graph = f"<urn:e:{event}>"
    return (
        f'{graph} <http://www.w3.org/ns/sosa/resultTime> "{time}"^^<{DATE_TIME}> {graph} .\n'
        f'{graph} <urn:p> "{content}" {graph} .\n'
    )


@pytest.mark.parametrize(
    ("files", "status", "strict_status", "counts"),
    [
        ([quads("1", "2026-11-15T10:00:00Z")], 0, 0, {"accepted": 1}),
        ([quads("1", "2026-11-15T10:00:00Z"), quads("2", "2026-11-15T09:00:00Z")], 0, 3, {"late": 1}),
        ([quads("1", "2026-11-15T10:00:00Z") + "no quad\n"], 1, 3, {"rejected": 1, "conflicting": 0}),
        (
            [quads("1", "2026-11-15T10:00:00Z"), quads("1", "2026-11-15T10:00:00Z", "2")],
            1,
            3,
            {"rejected": 1, "conflicting": 1},
        ),
    ],
)
def test_strict_status(
    files: list[str],
    status: int,
    strict_status: int,
    counts: dict[str, int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Late events are no failure, rejected ones are; with --strict the status of both is 3."""
    for lake, option, expected in (("a", [], status), ("b", ["--strict"], strict_status)):
        for index, text in enumerate(files):
            (tmp_path / f"{index}.nq").write_text(text)
            last = main(["ingest", "--lake", str(tmp_path / lake), str(tmp_path / f"{index}.nq"), "--json", *option])
            printed = json.loads(capsys.readouterr().out)
        assert last == expected
        assert counts.items() <= printed.items()


def test_unknown_formats_are_set_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file whose name stands for no format costs other files nothing, in `ingest` and in `run`."""
    (tmp_path / "a.nq").write_text(quads("1", "2026-11-15T10:00:00Z"))
    (tmp_path / "notes.txt").write_text("no events")
    (tmp_path / "s.motet").write_text("SUBSCRIPTION s EVENT e WHEN e")
    files = [str(tmp_path / "notes.txt"), str(tmp_path / "a.nq")]
    assert main(["ingest", "--lake", str(tmp_path / "lake"), *files, "--json"]) == 1
    read = capsys.readouterr()
    assert json.loads(read.out) | {"seconds": 0, "lake": ""} == {
        "accepted": 1, "complete": True, "conflicting": 0, "files": 2, "late": 0, "left_out": 0, "rejected": 1,
        "repeated": 0, "stamped": 0, "lake": "", "seconds": 0,
    }  # fmt: skip
    assert "notes.txt: the suffix of the file name stands for no format\n  rename it to end in one of .nq" in read.err
    assert main(["run", "--subscriptions", str(tmp_path / "s.motet"), "--events", *files]) == 1
    assert "1 notifications from 1 events (0 repeated, 1 rejected)" in capsys.readouterr().err


ONTOLOGY = """\
<http://example.org/o> a <http://www.w3.org/2002/07/owl#Ontology> ; <http://purl.org/dc/terms/created> "2026-11-15" .
<http://example.org/o#A> a <http://www.w3.org/2002/07/owl#Class> .
[] a <http://www.w3.org/2002/07/owl#AllDifferent> .
"""


def test_an_ontology_is_no_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An ontology among the events is refused with advice, whatever --rest says; with an id it is an event."""
    path = tmp_path / "building.ttl"
    path.write_text(ONTOLOGY)
    for arguments in ([], ["--rest", "drop"], ["--rest", "share"]):
        assert main(["ingest", "--lake", str(tmp_path / "lake"), str(path), *arguments]) == 1
        error = capsys.readouterr().err
        assert "it is an ontology and not an event: <http://example.org/o> is an owl:Ontology" in error
        assert "--ontology FILE" in error
    assert main(["ingest", "--lake", str(tmp_path / "lake"), str(path), "--id", "urn:e:1"]) == 0


def test_a_failed_ingest_leaves_no_empty_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an accepted event there is no new lake; an old one stays, and dead letters do."""
    lake = tmp_path / "lake"
    (tmp_path / "bad.nq").write_text("no quad\n")
    (tmp_path / "good.nq").write_text(quads("1", "2026-11-15T10:00:00Z"))
    assert main(["ingest", "--lake", str(lake), str(tmp_path / "bad.nq")]) == 1
    assert f"no event was accepted, so no lake {lake} was created" in capsys.readouterr().err
    assert [str(path.relative_to(lake)) for path in lake.rglob("*.*")] == ["dead-letter/rejected.jsonl"]
    assert main(["inspect", "--lake", str(lake)]) == 1
    assert main(["ingest", "--lake", str(tmp_path / "other"), str(tmp_path / "bad.nq"), "--dead-letter", "-"]) == 1
    assert not (tmp_path / "other").exists()
    assert main(["ingest", "--lake", str(lake), str(tmp_path / "good.nq")]) == 0
    assert main(["ingest", "--lake", str(lake), str(tmp_path / "bad.nq")]) == 1
    assert main(["inspect", "--lake", str(lake)]) == 0


def test_the_summary_of_a_load_that_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When a load fails after some commits, the summary says what was committed."""
    from motet.connectors import ingestion

    def fail_after_one(*arguments: object, **options: object) -> Iterator[ingestion.IngestResult]:
        yield from islice(ingest_files(*arguments, **options), 1)  # type: ignore[arg-type]
        raise LakeError("the disk is full")

    ingest_files = ingestion.ingest_files
    monkeypatch.setattr(ingestion, "ingest_files", fail_after_one)
    (tmp_path / "good.nq").write_text(quads("1", "2026-11-15T10:00:00Z"))
    assert main(["ingest", "--lake", str(tmp_path / "lake"), str(tmp_path / "good.nq"), "--json"]) == 1
    read = capsys.readouterr()
    assert (json.loads(read.out)["accepted"], json.loads(read.out)["complete"]) == (1, False)
    assert "stopped before the end of the input" in read.err and "the disk is full" in read.err


def test_an_ontology_is_added_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--ontology` adds to the background what it lacks, before the events."""
    (tmp_path / "o.ttl").write_text("<urn:A> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:B> .")
    (tmp_path / "good.nq").write_text(quads("1", "2026-11-15T10:00:00Z"))
    for _ in range(2):
        files = [str(tmp_path / "good.nq"), "--ontology", str(tmp_path / "o.ttl")]
        assert main(["ingest", "--lake", str(tmp_path / "lake"), *files]) == 0
    capsys.readouterr()
    assert main(["inspect", "--lake", str(tmp_path / "lake"), "--records", "9", "--json"]) == 0
    assert [row["kind"] for row in json.loads(capsys.readouterr().out)] == ["settings", "background", "event"]
