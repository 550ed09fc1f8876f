"""A directory as a source."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from motet.connectors import directory as module
from motet.connectors.directory import DirectorySource
from motet.lake import Lake
from motet.model.errors import DecodeError, UsageError

CRASHING = Path(__file__).with_name("crashing.py")


class Inbox:
    """A directory, a lake beside it, and the rejected events."""

    def __init__(self, root: Path) -> None:
        self.path = root / "inbox"
        self.path.mkdir()
        self.lake = Lake.open(root / "lake")
        self.rejected: list[DecodeError] = []

    def put(self, name: str, *ids: int, written: int | None = None) -> None:
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f'<urn:e:{n}> <urn:p> "x" <urn:e:{n}> .\n' for n in ids))
        if written is not None:
            os.utime(path, (written, written))

    def source(self, *, stable_seconds: float = 0) -> DirectorySource:
        return DirectorySource(self.path, self.lake, self.rejected.extend, stable_seconds=stable_seconds)

    def ids(self) -> list[str]:
        snapshot = self.lake.snapshot()
        found = [id_ for batch in snapshot.records(columns=["id"]) for id_ in batch.column("id").to_pylist()]
        return [id_.removeprefix("urn:e:") for id_ in found if id_ is not None]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def test_files_are_ingested_once_oldest_first(inbox: Inbox) -> None:
    """Files are ingested in the order of their modification, small ones in one commit, each once."""
    inbox.put("b.nq", 1, 2, written=10)
    inbox.put("a.nq", 3, written=20)
    inbox.put("deep/c.nq", 4, written=15)
    source = inbox.source()
    assert [result.inputs for result in source.ingest(0)] == [3]
    assert inbox.ids() == ["1", "2", "4", "3"]
    assert list(source.ingest(1)) == []
    assert list(inbox.source().ingest(2)) == [], "a new process knows what was taken"


def test_a_file_is_ingested_when_it_is_stable(inbox: Inbox) -> None:
    """A file that changes between polls is still being written."""
    source = inbox.source(stable_seconds=1)
    inbox.put("a.nq", 1)
    assert (list(source.ingest(0)), source.is_drained) == ([], False)
    inbox.put("a.nq", 1, 2)
    assert (list(source.ingest(1)), source.is_drained) == ([], False)
    assert [result.receipt.accepted for result in source.ingest(2)] == [2]
    assert source.is_drained


def test_a_changed_file_adds_its_new_events(inbox: Inbox) -> None:
    """A changed file is read again; events that are in the log are dropped."""
    source = inbox.source()
    inbox.put("a.nq", 1, 2)
    list(source.ingest(0))
    inbox.put("a.nq", 1, 2, 3)
    assert [(result.receipt.accepted, result.receipt.repeated) for result in source.ingest(1)] == [(1, 2)]


def test_undecodable_files_do_not_block_others(inbox: Inbox) -> None:
    """A file of an unknown format or with damaged content is rejected by name; the others are ingested."""
    (inbox.path / "bad.ttl").write_text("no turtle")
    (inbox.path / "notes.txt").write_text("no events")
    (inbox.path / "torn.nq.gz").write_bytes(b"\x1f\x8bnothing")
    (inbox.path / ".hidden.nq").write_text("work in progress")
    inbox.put("good.nq", 1)
    assert [(result.inputs, result.rejected) for result in inbox.source().ingest(0)] == [(4, 3)]
    assert inbox.ids() == ["1"]
    names = sorted(Path(error.source or "").name for error in inbox.rejected)
    assert names == ["bad.ttl", "notes.txt", "torn.nq.gz"]


def test_an_unreadable_file_is_rejected_once_and_retried(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without read permission is rejected, and ingested when it can be read."""
    inbox.put("a.nq", 1)
    source = inbox.source()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert [result.rejected for now in (0, 1) for result in source.ingest(now)] == [1]
    monkeypatch.undo()
    assert [result.receipt.accepted for result in source.ingest(2)] == [1]


def test_large_files_need_several_commits(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit has a maximal size, and only complete files are recorded as ingested."""
    monkeypatch.setattr(module, "COMMIT_BYTES", 1)
    monkeypatch.setattr(module, "SMALL_FILE_BYTES", 0)
    inbox.put("a.nq", 1, 2, written=1)
    inbox.put("b.nq", 3, written=2)
    inbox.put("c.nq", 4, 5, written=3)
    assert [(result.inputs, result.receipt.accepted) for result in inbox.source().ingest(0)] == [
        (0, 2),
        (1, 1),
        (1, 2),
        (1, 0),
    ]
    assert inbox.ids() == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    "call", ["motet.lake:Lake.append", "motet.lake.store:Store.put_if_absent", "motet.lake.progress:IngestedFiles.add"]
)
def test_a_kill_loses_and_repeats_nothing(inbox: Inbox, call: str) -> None:
    """Killed before or during the commit, or before it is recorded: the next process leaves every event once."""
    for n in range(20):
        inbox.put(f"{n}.nq", 2 * n, 2 * n + 1, written=n)
    (inbox.path / "20.ttl").write_text("<> <urn:p> 1 .")
    arguments = ["ingest", "--lake", str(inbox.lake.store.root), "--watch", str(inbox.path), "--once", "--json"]
    killed = subprocess.run([sys.executable, CRASHING, call, "1", *arguments], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "motet.cli.main", *arguments], capture_output=True, check=True)
    ids = inbox.ids()
    assert ids[:40] == [str(n) for n in range(40)]
    assert len(ids) == 41


def test_a_lake_cannot_be_its_own_source(inbox: Inbox) -> None:
    """A directory that contains the lake would ingest the files of the lake."""
    with pytest.raises(UsageError, match="is inside the directory"):
        DirectorySource(inbox.path.parent, inbox.lake, inbox.rejected.extend)
