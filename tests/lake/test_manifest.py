"""The manifest: one writer per commit number, rebuildable checkpoints, errors that name the damaged file."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.lake import Lake, system_clock
from motet.lake.manifest import CHECKPOINT, CHECKPOINT_EVERY, Commit, FileList, Manifest, commit_name
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError
from motet.model.settings import Settings


def _commits(store: Store, count: int) -> Manifest:
    manifest = Manifest(store, system_clock)
    for _ in range(count):
        manifest.commit(_one_record)
    return manifest


def _one_record(newest: Snapshot) -> Commit:
    at = newest.next_offset
    file = DataFile(f"segments/{at}", at, at + 1, 1, 10, {"tick": 1})
    return Commit.after(newest, clock=at)._replace(frontier=at, add=(file,))


def _file(number: int) -> DataFile:
    return DataFile(str(number), number, number + 1, 1, 1)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), max_size=30))
def test_a_list_of_files_never_changes(steps: list[tuple[int, int]]) -> None:
    """Extending any of the lists leaves the elements of all others unchanged."""
    made: list[tuple[FileList, tuple[DataFile, ...]]] = [(FileList(), ())]
    for number, (which, count) in enumerate(steps):
        files, expected = made[which % len(made)]
        more = [_file(100 * number + n) for n in range(count)]
        made.append((files.extended(more), (*expected, *more)))
    for files, expected in made:
        assert (tuple(files), len(files), files[:], files[1:-1]) == (expected, len(expected), expected, expected[1:-1])
        assert files == FileList(expected)
        assert pickle.loads(pickle.dumps(files)) == files  # noqa: S301  (our own bytes)
        assert not expected or (files[-1], files[0]) == (expected[-1], expected[0])


def test_commit_survives_json() -> None:
    """A commit is the same after a round trip through its JSON form."""
    file = DataFile("segments/x", 0, 2, 2, 99, {"event": 2}, 1, -5, 7, 1)
    names = ("segments/a", "segments/b")
    commit = Commit(9, 4, 3, 2, Settings(lateness=None, entailment="rdfs"), (file,), names, 12, ("segments/c",))
    assert Commit.from_bytes(commit.to_bytes()) == commit


def test_a_commit_conflict_is_retried(tmp_path: Path) -> None:
    """After a commit conflict the proposal is made again for the newer version."""
    store = Store(tmp_path)
    mine, other = Manifest(store, system_clock), Manifest(store, system_clock)
    asked = []

    def propose(newest: Snapshot) -> Commit:
        asked.append(newest.version)
        if len(asked) == 1:  # overtaken between the proposal and the commit
            store.put_if_absent(commit_name(1), _one_record(newest).to_bytes())
        return _one_record(newest)

    after = mine.commit(propose)
    assert asked == [0, 1]
    assert after == mine.snapshot() == other.snapshot()
    assert [file.first for file in other.snapshot().segments] == [0, 1]


@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"version": 100}'])
def test_checkpoint_is_only_a_shortcut(tmp_path: Path, damage: bytes | None) -> None:
    """Opening gives the same snapshot with a valid, a missing and a damaged checkpoint."""
    store = Store(tmp_path)
    expected = _commits(store, CHECKPOINT_EVERY + 3).snapshot()
    assert store.find(CHECKPOINT) is not None
    store.delete(CHECKPOINT) if damage is None else store.put(CHECKPOINT, damage)
    assert Manifest(store, system_clock).snapshot() == expected


def test_opening_reads_only_what_follows_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening reads the checkpoint and the commits after it only."""
    store = Store(tmp_path)
    expected = _commits(store, 2 * CHECKPOINT_EVERY + 2).snapshot()
    read: list[str] = []
    find = Store.find

    def noted(self: Store, name: str) -> bytes | None:
        read.append(name)
        return find(self, name)

    monkeypatch.setattr(Store, "find", noted)
    assert Manifest(store, system_clock).snapshot() == expected
    versions = range(2 * CHECKPOINT_EVERY + 1, 2 * CHECKPOINT_EVERY + 4)
    assert read[:4] == [CHECKPOINT, *map(commit_name, versions)]


def test_checkpoints_get_rarer_as_the_lake_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lake twice as large has half as many checkpoints."""
    monkeypatch.setattr("motet.lake.manifest.CHECKPOINT_EVERY", 2)
    written: list[str] = []
    put = Store.put

    def noted(self: Store, name: str, data: bytes) -> None:
        written.append(name)
        put(self, name, data)

    monkeypatch.setattr(Store, "put", noted)
    _commits(Store(tmp_path), 40)
    assert written == [CHECKPOINT] * 5  # at 2, 4, 8, 16 and 32


def test_a_taken_number_is_a_conflict(tmp_path: Path) -> None:
    """A commit after an outdated version is not written, and the commit that has its number stays."""
    first, second = Manifest(Store(tmp_path), system_clock), Manifest(Store(tmp_path), system_clock)
    after = first.commit(_one_record)
    assert second.write(second.cached_snapshot, _one_record(second.cached_snapshot)) is None
    assert second.snapshot() == after


def test_truncated_commit_is_named(tmp_path: Path) -> None:
    """An incomplete commit is an error that names the file."""
    store = Store(tmp_path)
    _commits(store, 2)
    path = store.path(commit_name(2))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CorruptLakeError, match=path.name):
        Manifest(store, system_clock)


def test_commits_of_another_lake_are_an_error(tmp_path: Path) -> None:
    """Commits whose offsets do not follow one another are refused."""
    store = Store(tmp_path)
    _commits(store, 2)
    store.put(commit_name(2), _one_record(Snapshot(store)).to_bytes())
    with pytest.raises(CorruptLakeError, match="adds offset 0 after 1"):
        Manifest(store, system_clock)


def test_a_snapshot_can_be_pickled(tmp_path: Path) -> None:
    """A snapshot can be sent to another process and read there."""
    lake = Lake.open(tmp_path)
    lake.tick(5)
    sent = pickle.loads(pickle.dumps(lake.snapshot()))  # noqa: S301 written one line above
    assert [batch.to_pylist() for batch in sent.records()] == [batch.to_pylist() for batch in lake.snapshot().records()]
