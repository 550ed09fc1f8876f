"""`motet ingest` and `motet deliver` with wrong arguments."""

from __future__ import annotations

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
        "files     0\naccepted  0\nrepeated  0\nstamped   0\nlate      0\nrejected  0\n"
    )


def test_deliver_needs_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Delivering does not create a lake."""
    assert main(["deliver", "--lake", str(tmp_path / "lake"), "--nats", "nats://127.0.0.1:1"]) == 1
    assert "is not a lake" in capsys.readouterr().err
    assert not (tmp_path / "lake").exists()
