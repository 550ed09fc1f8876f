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
    """A directory, a lake beside it, and what was set aside."""

    def __init__(self, root: Path) -> None:
        self.path = root / "inbox"
        self.path.mkdir()
        self.lake = Lake.open(root / "lake")
        self.rejected: list[DecodeError] = []

    def put(self, name: str, *ids: int, written: int | None = None) -> None:
        place = self.path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text("".join(f'<urn:e:{n}> <urn:p> "x" <urn:e:{n}> .\n' for n in ids))
        if written is not None:
            os.utime(place, (written, written))

    def source(self, *, stable_seconds: float = 0) -> DirectorySource:
        return DirectorySource(self.path, self.lake, self.rejected.extend, stable_seconds=stable_seconds)

    def ids(self) -> list[str]:
        snapshot = self.lake.snapshot()
        found = [id_ for batch in snapshot.records(columns=["id"]) for id_ in batch.column("id").to_pylist()]
        return [id_.removeprefix("urn:e:") for id_ in found]


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def test_the_oldest_file_comes_first_and_each_once(inbox: Inbox) -> None:
    """Files are taken in the order they were written, in one commit when they are small, and never again."""
    inbox.put("b.nq", 1, 2, written=10)
    inbox.put("a.nq", 3, written=20)
    inbox.put("deep/c.nq", 4, written=15)
    source = inbox.source()
    assert [result.inputs for result in source.ingest(0)] == [3]
    assert inbox.ids() == ["1", "2", "4", "3"]
    assert list(source.ingest(1)) == []
    assert list(inbox.source().ingest(2)) == [], "a new process knows what was taken"


def test_a_file_is_taken_when_it_has_stopped_changing(inbox: Inbox) -> None:
    """A file that looks different at every look is still being written."""
    source = inbox.source(stable_seconds=1)
    inbox.put("a.nq", 1)
    assert (list(source.ingest(0)), source.is_drained) == ([], False)
    inbox.put("a.nq", 1, 2)
    assert (list(source.ingest(1)), source.is_drained) == ([], False)
    assert [result.receipt.accepted for result in source.ingest(2)] == [2]
    assert source.is_drained


def test_a_file_that_grew_adds_what_is_new(inbox: Inbox) -> None:
    """A file that changed is read again; events that are in the log are left out."""
    source = inbox.source()
    inbox.put("a.nq", 1, 2)
    list(source.ingest(0))
    inbox.put("a.nq", 1, 2, 3)
    assert [(result.receipt.accepted, result.receipt.duplicates) for result in source.ingest(1)] == [(1, 2)]


def test_bad_files_are_named_and_do_not_block(inbox: Inbox) -> None:
    """What is undecodable, unknown or damaged is set aside with its name, and the rest is taken."""
    (inbox.path / "bad.ttl").write_text("no turtle")
    (inbox.path / "notes.txt").write_text("no events")
    (inbox.path / "torn.nq.gz").write_bytes(b"\x1f\x8bnothing")
    (inbox.path / ".hidden.nq").write_text("work in progress")
    inbox.put("good.nq", 1)
    assert [(result.inputs, result.rejected) for result in inbox.source().ingest(0)] == [(4, 3)]
    assert inbox.ids() == ["1"]
    names = sorted(Path(error.source or "").name for error in inbox.rejected)
    assert names == ["bad.ttl", "notes.txt", "torn.nq.gz"]


def test_an_unreadable_file_is_named_once_and_tried_again(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without permission is reported, and taken when it can be read."""
    inbox.put("a.nq", 1)
    source = inbox.source()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert [result.rejected for now in (0, 1) for result in source.ingest(now)] == [1]
    monkeypatch.undo()
    assert [result.receipt.accepted for result in source.ingest(2)] == [1]


def test_large_files_are_committed_in_parts(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is not larger than a group, and only whole files are noted as taken."""
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
    "place", ["motet.lake:Lake.append", "motet.lake.store:Store.put_if_absent", "motet.lake.progress:IngestedFiles.add"]
)
def test_a_killed_process_neither_loses_nor_doubles(inbox: Inbox, place: str) -> None:
    """Killed before the commit, inside it, or before it is noted: the next process ends with every event once."""
    for n in range(20):
        inbox.put(f"{n}.nq", 2 * n, 2 * n + 1, written=n)
    (inbox.path / "20.ttl").write_text("<> <urn:p> 1 .")
    arguments = ["ingest", "--lake", str(inbox.lake.store.root), "--watch", str(inbox.path), "--once", "--json"]
    killed = subprocess.run([sys.executable, CRASHING, place, "1", *arguments], capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    subprocess.run([sys.executable, "-m", "motet.cli.main", *arguments], capture_output=True, check=True)
    ids = inbox.ids()
    assert ids[:40] == [str(n) for n in range(40)]
    assert len(ids) == 41


def test_a_lake_cannot_be_its_own_source(inbox: Inbox) -> None:
    """A directory that holds the lake would feed the lake to itself."""
    with pytest.raises(UsageError, match="is inside the directory"):
        DirectorySource(inbox.path.parent, inbox.lake, inbox.rejected.extend)
