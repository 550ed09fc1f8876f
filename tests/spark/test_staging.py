"""Staged events, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.codec.events import Decoded
from motet.lake import Lake
from motet.model.errors import DecodeError
from motet.model.schemas import EVENTS
from motet.spark import staging
from motet.spark.staging import Staged, Stager, drop, in_time_order, keep_dead_letters


def decoded(ends: list[int], *rejected: str) -> Decoded:
    rows = [{"id": f"urn:e:{end}", "start": end, "end": end, "triples": [], "line": 1} for end in ends]
    return Decoded(pa.RecordBatch.from_pylist(rows, EVENTS), [DecodeError(reason) for reason in rejected])


def stage(lake: Path, parts: list[list[int]]) -> list[Staged]:
    found = []
    for number, ends in enumerate(parts):
        stager = Stager(str(lake), number)
        batches = [batch for end in ends for batch in stager.add(decoded([end]))]
        found += [Staged(**row) for batch in [*batches, *stager.finish()] for row in batch.to_pylist()]
    return found


@given(parts=st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=3), commit=st.integers(1, 30))
def test_staged_events_come_in_the_order_of_time(
    parts: list[list[int]], commit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever part an event was in, and however many commits it takes, all events come, sorted by their ends."""
    lake = Lake.open(tmp_path_factory.mktemp("lake")).store.root
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(staging, "FILE_EVENTS", 4)
        patched.setattr(staging, "COMMIT_EVENTS", commit)
        staged = stage(lake, parts)
        tables = list(in_time_order(str(lake), staged))
    ends = [table["end"].cast(pa.int64()).to_pylist() for table in tables]
    assert [end for table in ends for end in table] == sorted(end for part in parts for end in part)
    assert all(len(table) - max(Counter(table).values()) < 2 * commit for table in ends)
    drop(str(lake), staged)
    assert list((lake / "tmp").glob("*")) == []


def test_dead_letters_of_a_batch_are_one_file(tmp_path: Path) -> None:
    """A batch that is run again writes its rejections again, into the same file."""
    lake = str(Lake.open(tmp_path / "lake").store.root)
    for _ in range(2):
        staged = []
        for part in range(2):
            stager = Stager(lake, part)
            batches = [*stager.add(decoded([], f"reason {part}")), *stager.finish()]
            staged += [Staged(**row) for batch in batches for row in batch.to_pylist()]
        keep_dead_letters(lake, staged, tmp_path / "letters" / "1.jsonl")
        drop(lake, staged)
    (kept,) = (tmp_path / "letters").iterdir()
    assert [line.partition('"reason": ')[2][:10] for line in kept.read_text().splitlines()] == [
        '"reason 0"',
        '"reason 1"',
    ]
