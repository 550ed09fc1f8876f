"""A directory as a source."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from motet.connectors import directory as module
from motet.connectors import sorted_load
from motet.connectors.directory import DirectorySource
from motet.connectors.ingestion import IngestResult
from motet.lake import Lake
from motet.model.batches import micros
from motet.model.errors import DecodeError, UsageError

CRASHING = Path(__file__).with_name("crashing.py")


class Inbox:
    """A directory, a lake beside it, and the rejected events."""

    def __init__(self, root: Path) -> None:
        self.path = root / "inbox"
        self.path.mkdir()
        self.lake = Lake.open(root / "lake")
        self.rejected: list[DecodeError] = []

    def put(self, name: str, *ids: int, written: int | None = None, value: str = "x") -> None:
        """A file of events, each a point so many seconds after ten."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(quads(n, value) for n in ids))
        if written is not None:
            os.utime(path, (written, written))

    def source(self, *, stable_seconds: float = 0) -> DirectorySource:
        return DirectorySource(self.path, self.lake, self.rejected.extend, stable_seconds=stable_seconds)

    def look(self, now: float = 0, source: DirectorySource | None = None) -> IngestResult:
        """The counts of the load that one look at the directory finds."""
        return sum((source or self.source()).ingest(now), start=IngestResult())

    def ids(self) -> list[str]:
        snapshot = self.lake.snapshot()
        found = [id_ for batch in snapshot.records(columns=["id"]) for id_ in batch.column("id").to_pylist()]
        return [id_.removeprefix("urn:e:") for id_ in found if id_ is not None]


def quads(n: int, value: str = "x") -> str:
    event = f"<urn:e:{n}>"
    time = f'"2026-11-15T10:00:{n:02}Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    return f'{event} <urn:p> "{value}" {event} .\n{event} <http://www.w3.org/ns/sosa/resultTime> {time} {event} .\n'


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path)


def test_one_look_is_one_load(inbox: Inbox) -> None:
    """ "what one look at a watched directory finds … is committed in the order of its events' ends", each file once."""
    inbox.put("b.nq", 4, 2, written=10)
    inbox.put("a.nq", 1, written=20)
    inbox.put("deep/c.nq", 3, written=15)
    source = inbox.source()
    version = inbox.lake.snapshot().version
    assert inbox.look(0, source) == IngestResult(inputs=3, accepted=4)
    assert inbox.lake.snapshot().version == version + 1
    assert inbox.ids() == ["1", "2", "3", "4"]
    assert list(source.ingest(1)) == []
    assert list(inbox.source().ingest(2)) == [], "a new process knows what was taken"


def test_a_file_is_ingested_when_it_is_stable(inbox: Inbox) -> None:
    """A file that changes between polls is still being written."""
    source = inbox.source(stable_seconds=1)
    inbox.put("a.nq", 1)
    assert (list(source.ingest(0)), source.is_drained) == ([], False)
    inbox.put("a.nq", 1, 2)
    assert (list(source.ingest(1)), source.is_drained) == ([], False)
    assert inbox.look(2, source).accepted == 2
    assert source.is_drained


def test_a_changed_file_adds_its_new_events(inbox: Inbox) -> None:
    """A changed file is read again; events that are in the log are repetitions."""
    source = inbox.source()
    inbox.put("a.nq", 1, 2)
    inbox.look(0, source)
    inbox.put("a.nq", 1, 2, 3)
    assert inbox.look(1, source) == IngestResult(inputs=1, accepted=1, repeated=2)


def test_undecodable_files_do_not_block_others(inbox: Inbox) -> None:
    """A file of an unknown format or with damaged content is rejected by name; the others are ingested."""
    (inbox.path / "bad.ttl").write_text("no turtle")
    (inbox.path / "notes.txt").write_text("no events")
    (inbox.path / "torn.nq.gz").write_bytes(b"\x1f\x8bnothing")
    (inbox.path / ".hidden.nq").write_text("work in progress")
    inbox.put("good.nq", 1)
    assert inbox.look() == IngestResult(inputs=4, accepted=1, rejected=3)
    assert inbox.ids() == ["1"]
    names = sorted(Path(error.source or "").name for error in inbox.rejected)
    assert names == ["bad.ttl", "notes.txt", "torn.nq.gz"]


@pytest.mark.parametrize("small_file_bytes", [0, 65536])
def test_a_conflict_is_a_dead_letter(inbox: Inbox, small_file_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """ "in one input the first … in a load … only the event, as a dead letter": the older file counts."""
    monkeypatch.setattr(module, "SMALL_FILE_BYTES", small_file_bytes)
    inbox.put("b.nq", 1, 2, written=1)
    inbox.put("a.nq", 2, 3, written=2, value="y")
    assert inbox.look() == IngestResult(inputs=2, accepted=3, rejected=1)
    (letter,) = inbox.rejected
    assert letter.event == "urn:e:2"
    assert '"y"' in (letter.content or "")
    assert Path(letter.source or "").name == ("inbox" if small_file_bytes else "a.nq")


def test_an_unreadable_file_is_rejected_once_and_retried(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without read permission is rejected, and ingested when it can be read."""
    inbox.put("a.nq", 1)
    source = inbox.source()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert [inbox.look(now, source).rejected for now in (0, 1)] == [1, 0]
    monkeypatch.undo()
    assert inbox.look(2, source).accepted == 1


def test_a_load_of_several_commits_is_in_the_order_of_ends(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits have a maximal size; no event makes another one of the load late, and no scratch file is left."""
    monkeypatch.setattr(sorted_load, "COMMIT_EVENTS", 4)
    monkeypatch.setattr(module, "SMALL_FILE_BYTES", 0)
    inbox.put("a.nq", *range(50, 20, -1), written=1)
    inbox.put("b.nq", *range(1, 59, 2), written=2)
    result = inbox.look()
    assert (result.inputs, result.accepted, result.repeated, result.late) == (2, 44, 15, 0)
    columns = (batch.column("end") for batch in inbox.lake.snapshot().records(columns=["end"]))
    ends = [end for column in columns for end in micros(column) if end is not None]
    assert ends == sorted(ends)
    assert inbox.lake.snapshot().version > 9
    assert list((inbox.lake.store.root / "tmp").iterdir()) == []


def test_a_stop_during_reading_leaves_the_load_out(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a load would make the other half late: it is committed when all of it has been read, or not at all."""
    stop_requested = threading.Event()
    stop_requested.set()
    inbox.put("a.nq", 1)
    source = inbox.source()
    assert list(source.ingest(0, stop_requested)) == []
    assert inbox.look(1, source) == IngestResult(inputs=1, accepted=1)


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
