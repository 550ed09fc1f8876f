"""Uniqueness of ids: exact under collisions, and rebuilt when the derived files are lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from motet.lake import Lake, ids
from motet.lake.ids import HashRun, hash_ids, load_runs

Events = Callable[..., pa.Table]


def test_hashes_are_stable() -> None:
    """IdHashes are data on disk: they must never change. (`printf urn:a | b2sum -l 64`, little-endian)"""
    assert hash_ids(["urn:a", "urn:ü"]).tolist() == [11287189174731656706, 12677045540761829826]


def test_possible_duplicates_lists_every_entry() -> None:
    """A hash that occurs several times gives every offset, one that does not occur gives none."""
    run = HashRun(0, 9, np.array([3, 5, 5, 8], np.uint64), np.array([7, 1, 4, 0]))
    where, offsets = run.possible_duplicates(np.array([5, 6, 8, 9], np.uint64))
    assert (where.tolist(), offsets.tolist()) == ([0, 0, 2], [1, 4, 0])


def test_runs_are_merged_geometrically(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of runs grows with the logarithm of the ids, and together they cover the log from 0."""
    monkeypatch.setattr(ids, "TAIL_SEGMENTS", 1)
    lake = Lake.open(tmp_path)
    for n in range(40):
        lake.append(events([f"urn:{n}"]))
    runs = load_runs(lake.store, 41)
    assert len(runs) <= 6
    assert [run.first for run in runs] + [41] == [0] + [run.stop for run in runs]
    assert len(lake.store.names("ids")) == len(runs)


@pytest.mark.parametrize("harm", ["deleted", "truncated", "swapped"])
def test_lost_runs_are_rebuilt(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    """Without its run files, or with damaged ones, a lake finds the same repetitions."""
    monkeypatch.setattr(ids, "TAIL_SEGMENTS", 3)
    lake = Lake.open(tmp_path)
    for n in range(10):
        lake.append(events([f"urn:{n}"]))
    for name in lake.store.names("ids"):
        content = lake.store.find(name) or b""
        lake.store.delete(name) if harm == "deleted" else lake.store.path(name).write_bytes(
            content[:-8] if harm == "truncated" else b"motetid9" + content[8:]
        )
    again = Lake.open(tmp_path).append(events([f"urn:{n}" for n in range(11)]))
    assert (again.accepted, again.repeated) == (1, 10)


def test_runs_of_a_longer_history_are_ignored(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that reaches past the end of the log, as after restoring an older copy, is not trusted."""
    monkeypatch.setattr(ids, "TAIL_SEGMENTS", 1)
    lake = Lake.open(tmp_path / "a")
    for n in range(4):
        lake.append(events([f"urn:{n}"]))
    older = Lake.open(tmp_path / "b")
    for name in lake.store.names("ids"):
        older.store.put(name, lake.store.find(name) or b"")
    assert older.append(events(["urn:0"])).accepted == 1


def test_subscription_names_are_not_event_ids(tmp_path: Path, events: Events) -> None:
    """A subscription and an event may have the same name."""
    lake = Lake.open(tmp_path)
    lake.subscribe("urn:a", "text")
    assert lake.append(events(["urn:a"])).accepted == 1


def test_large_batches_become_runs_at_once(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch larger than the tail is found again, by this process and by the next one."""
    monkeypatch.setattr(ids, "TAIL_IDS", 10)
    lake = Lake.open(tmp_path)
    batch = events([f"urn:{n}" for n in range(25)])
    assert lake.append(batch).accepted == 25
    assert (lake.append(batch).repeated, Lake.open(tmp_path).append(batch).repeated) == (25, 25)
    assert lake.store.names("ids") == ["ids/00000000000000000000-00000000000000000026.run"]
