"""The events of a load, sorted by their ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.connectors import sorted_load as module
from motet.connectors.sorted_load import SortedLoad
from motet.lake import Store
from motet.model.batches import EventRow, event_batch

Event = tuple[int, int | None, int]  # number of its IRI, end, number of its content

EVENTS = st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 9), st.integers(0, 1)), max_size=60)


def to_batch(events: Sequence[Event]) -> pa.RecordBatch:
    """The events, each with its index as line."""
    rows = [EventRow(f"urn:e:{n}", end, end, (("<urn:s>", "<urn:p>", f'"{content}"'),)) for n, end, content in events]
    return event_batch(rows, range(len(rows)))


def completion(event: Event) -> tuple[bool, int]:
    """By this key the lake sorts the events of a commit, stably."""
    return event[1] is None, event[1] or 0


def lines(table: pa.Table) -> list[int]:
    found: list[int] = table["line"].to_pylist()
    return found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store whose scratch files are all deleted in the end."""
    yield Store(tmp_path)
    assert list((tmp_path / "tmp").glob("*")) == []


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loads of more than three events are staged."""
    monkeypatch.setattr(module, "COMMIT_EVENTS", 3)
    monkeypatch.setattr(module, "BLOCKS_PER_COMMIT", 2)


@given(events=EVENTS, commit=st.integers(1, 20), blocks=st.integers(1, 20), size=st.integers(1, 500))
def test_a_load_is_sorted_by_ends(
    events: list[Event], commit: int, blocks: int, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ "in the order of its events' ends, stamped ones last": however many commits; ties in the order of the input."""
    root = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "COMMIT_EVENTS", commit)
        patched.setattr(module, "COMMIT_BYTES", size)
        patched.setattr(module, "BLOCKS_PER_COMMIT", blocks)
        with SortedLoad(Store(root)) as load:
            batch = to_batch(events)
            for index in range(len(events)):
                load.add(batch.slice(index, 1))
            assert load.events == len(events)
            found = [sorted(lines(table), key=lambda index: completion(events[index])) for table in load.tables()]
    by_end = sorted(range(len(events)), key=lambda index: completion(events[index]))
    assert [index for table in found for index in table] == by_end
    assert all(found)
    assert list((root / "tmp").glob("*")) == []


@given(events=EVENTS, compared=st.integers(1, 80), held=st.sets(st.integers(0, 30), max_size=5))
def test_the_first_of_equal_iris_is_taken(
    events: list[Event], compared: int, held: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ "in one input the first": repetitions are counted, conflicts passed on, whatever their ends and files.

    About IRIs that the log holds, the lake decides.
    """
    conflicts: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "COMMIT_EVENTS", 3)
        patched.setattr(module, "BLOCKS_PER_COMMIT", 2)
        patched.setattr(module, "COMPARED_EVENTS", compared)
        patched.setattr(module, "DROPPED_EVENTS", 2)
        with SortedLoad(Store(tmp_path_factory.mktemp("lake"))) as load:
            batch = to_batch(events)
            for index in range(len(events)):
                load.add(batch.slice(index, 1))
            repeated = load.drop_repetitions(
                lambda ids: [int(iri.removeprefix("urn:e:")) in held for iri in ids],
                lambda table: conflicts.extend(lines(table)),
            )
            kept = {line for table in load.tables() for line in lines(table)}
    first: dict[int, int] = {}
    expected_kept, expected_repeated, expected_conflicts = set(), 0, []
    for index, (iri, _, content) in enumerate(events):
        if iri in held or iri not in first:
            expected_kept.add(index)
        elif first[iri] == content:
            expected_repeated += 1
        else:
            expected_conflicts.append(index)
        first.setdefault(iri, content)
    if len(events) <= 3:
        assert (repeated, conflicts, kept) == (0, [], set(range(len(events)))), "in one commit the lake decides"
    else:
        assert (repeated, sorted(conflicts), kept) == (expected_repeated, expected_conflicts, expected_kept)


def test_a_failure_deletes_the_staged_files(store: Store, small_files: None) -> None:
    """Whatever ends a load, its scratch files are deleted."""
    with pytest.raises(RuntimeError), SortedLoad(store) as load:
        for n in range(10):
            load.add(to_batch([(n, n, 0)]))
        assert list((store.root / "tmp").iterdir()), "it is staged"
        raise RuntimeError


def test_staged_files_are_read_although_a_vacuum_deletes_them(store: Store, small_files: None) -> None:
    """A load that takes longer than the grace period of scratch files is complete."""
    with SortedLoad(store) as load:
        for n in range(10):
            load.add(to_batch([(n, -n, 0)]))
        for path in (store.root / "tmp").iterdir():
            path.unlink()
        assert sum(table.num_rows for table in load.tables()) == 10


def test_a_load_of_large_events_is_committed_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is bounded in bytes as well as in events."""
    monkeypatch.setattr(module, "COMMIT_BYTES", 10_000)
    with SortedLoad(store) as load:
        for n in range(40):
            load.add(event_batch([EventRow(f"urn:e:{n}", n, n, (("<urn:s>", "<urn:p>", f'"{"x" * 1000}"'),))]))
        sizes = [table.num_rows for table in load.tables()]
    assert sum(sizes) == 40
    assert max(sizes) <= 20
