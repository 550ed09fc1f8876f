"""What a lake remembers of the files it has taken in."""

from __future__ import annotations

from pathlib import Path

import pytest

from motet.lake import Lake, progress
from motet.lake.progress import IngestedFiles


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "lake")


def notes(lake: Lake) -> list[Path]:
    return sorted((lake.store.root / "sources").glob("*"))


def test_another_process_knows_what_was_taken(lake: Lake) -> None:
    """A file is known by its name and looks, in its own source only."""
    IngestedFiles(lake.store, "inbox").add({"a.nq": (5, 7)})
    again = IngestedFiles(lake.store, "inbox")
    assert again.holds("a.nq", (5, 7))
    assert not again.holds("a.nq", (6, 7))
    assert not again.holds("b.nq", (5, 7))
    assert not IngestedFiles(lake.store, "outbox").holds("a.nq", (5, 7))


def test_notes_become_one_and_forget_what_is_gone(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a source is followed, its notes stay few, and about files that are there."""
    monkeypatch.setattr(progress, "_MAX_NOTES", 3)
    taken = IngestedFiles(lake.store, "inbox")
    for number in range(10):
        taken.retain({f"{number - 1}.nq", f"{number}.nq"})
        taken.add({f"{number}.nq": (1, number)})
        assert len(notes(lake)) <= 3
    again = IngestedFiles(lake.store, "inbox")
    assert again.holds("9.nq", (1, 9))
    assert not again.holds("0.nq", (1, 0))


def test_a_damaged_note_is_as_good_as_none(lake: Lake) -> None:
    """Its files are read again, which adds nothing; nothing else is lost."""
    taken = IngestedFiles(lake.store, "inbox")
    taken.add({"a.nq": (1, 1)})
    (first,) = notes(lake)
    taken.add({"b.nq": (1, 1)})
    first.write_bytes(b'{"a.nq": [1')
    again = IngestedFiles(lake.store, "inbox")
    assert (again.holds("a.nq", (1, 1)), again.holds("b.nq", (1, 1))) == (False, True)
