"""Cursors of consumers and the list of ingested files."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.lake import Lake, progress
from motet.lake.progress import IngestedFiles
from motet.model.errors import CorruptLakeError, UsageError


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake")


def notes(lake: Lake) -> list[Path]:
    return sorted((lake.store.root / "sources").glob("*"))


def test_ingested_files_are_stored(lake: Lake) -> None:
    """Another process finds a file by name, size and time, in its own source only."""
    IngestedFiles(lake.store, "inbox").add({"a.nq": (5, 7)})
    again = IngestedFiles(lake.store, "inbox")
    assert again.holds("a.nq", (5, 7))
    assert not again.holds("a.nq", (6, 7))
    assert not again.holds("b.nq", (5, 7))
    assert not IngestedFiles(lake.store, "outbox").holds("a.nq", (5, 7))


def test_lists_of_ingested_files_are_merged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long followed source has few lists, and they name existing files only."""
    monkeypatch.setattr(progress, "_MAX_NOTES", 3)
    ingested = IngestedFiles(lake.store, "inbox")
    for number in range(10):
        ingested.retain({f"{number - 1}.nq", f"{number}.nq"})
        ingested.add({f"{number}.nq": (1, number)})
        assert len(notes(lake)) <= 3
    again = IngestedFiles(lake.store, "inbox")
    assert again.holds("9.nq", (1, 9))
    assert not again.holds("0.nq", (1, 0))


def test_a_damaged_list_counts_as_empty(lake: Lake) -> None:
    """Its files are ingested again, which adds nothing; other lists are unaffected."""
    ingested = IngestedFiles(lake.store, "inbox")
    ingested.add({"a.nq": (1, 1)})
    (first,) = notes(lake)
    ingested.add({"b.nq": (1, 1)})
    first.write_bytes(b'{"a.nq": [1')
    again = IngestedFiles(lake.store, "inbox")
    assert (again.holds("a.nq", (1, 1)), again.holds("b.nq", (1, 1))) == (False, True)


def test_cursors(tmp_path: Path) -> None:
    """A cursor starts at 0, moves forward only, and any text names a consumer."""
    lake = Lake.open(tmp_path)
    assert lake.cursor("../a b") == 0
    lake.advance_cursor("../a b", 5)
    lake.advance_cursor("../a b", 5)
    assert (Lake.open(tmp_path).cursor("../a b"), lake.cursor("other")) == (5, 0)
    with pytest.raises(UsageError, match="at offset 5 and cannot go back to 4"):
        lake.advance_cursor("../a b", 4)
    with pytest.raises(UsageError, match="no name for a consumer"):
        lake.cursor("")
    assert lake.store.names("consumers") == ["consumers/..%2Fa%20b.json"]


def test_one_file_for_many_cursors(tmp_path: Path) -> None:
    """Cursors written together are read one by one; the greatest counts; a new process merges the files."""
    lake = Lake.open(tmp_path)
    lake.advance_cursor("own", 7)
    lake.consumers.put_cursors({"a": 3, "b": 4, "own": 5})
    lake.consumers.put_cursors({"b": 6})
    other = Lake.open(tmp_path)
    assert other.cursors(["a", "b", "own", "new"]) == {"a": 3, "b": 6, "own": 7, "new": 0}
    other.consumers.put_cursors({"a": 9})
    assert len([name for name in lake.store.names("consumers") if "+" in name]) == 1
    assert Lake.open(tmp_path).cursors(["a", "b"]) == {"a": 9, "b": 6}
    lake.store.put(lake.store.names("consumers")[0], b"[]")
    with pytest.raises(CorruptLakeError, match="not a cursor"):
        lake.cursor("a")


def test_a_consumer_belongs_to_one_holder(tmp_path: Path) -> None:
    """Names are claimed all or none, and free when they are released or their holder is gone."""
    lake, other = Lake.open(tmp_path), Lake.open(tmp_path)
    lake.consumers.claim(["a", "b"])
    lake.consumers.claim(["b"])
    with pytest.raises(UsageError, match="consumer 'b' is in use"):
        other.consumers.claim(["c", "b"])
    Lake.open(tmp_path).consumers.claim(["c"])  # and dropped
    lake.consumers.release(["b", "unknown"])
    other.consumers.claim(["b", "c"])
    with pytest.raises(UsageError, match="consumer 'a' is in use"):
        other.consumers.claim(["a"])
    lake.consumers.release_all()
    lake.consumers.release_all()
    other.consumers.claim(["a"])


def test_a_line_that_was_cut_off_claims_nothing(tmp_path: Path) -> None:
    """A claim that failed halfway does not disturb others."""
    lake, other = Lake.open(tmp_path), Lake.open(tmp_path)
    lake.consumers.claim(["a"])
    (held,) = (tmp_path / "consumers").glob("@*")
    with held.open("ab") as file:
        file.write(b'{"claim": "b')
    other.consumers.claim(["b"])
    with pytest.raises(UsageError, match="consumer 'a' is in use by another cloud"):
        other.consumers.claim(["a"])


def test_the_cursors_of_a_running_process_are_not_merged(tmp_path: Path) -> None:
    """Its cursor may fall, down to where it was when the consumer was claimed, and others see that."""
    lake, other = Lake.open(tmp_path), Lake.open(tmp_path)
    lake.consumers.claim(["a"])
    lake.consumers.put_cursors({"a": 9})
    other.consumers.claim(["b"])
    other.consumers.put_cursors({"b": 4})
    lake.consumers.put_cursors({"a": 7})
    assert Lake.open(tmp_path).cursors(["a", "b"]) == {"a": 7, "b": 4}
    lake.consumers.release_all()
    Lake.open(tmp_path).consumers.put_cursors({"c": 1})
    assert len(list((tmp_path / "consumers").glob("+*"))) == 2
    assert Lake.open(tmp_path).cursors(["a", "b", "c"]) == {"a": 7, "b": 4, "c": 1}
