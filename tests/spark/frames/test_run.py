"""The state of a stream's buckets, without Spark: with any batches and restarts, it has the matches of a batch."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from motet.model.errors import EngineError
from motet.model.terms import XSD
from motet.spark.frames.query import parse_subscriptions
from motet.spark.frames.run import BatchDetect, StreamDetect, TaskSpec
from motet.spark.stream import state_store as keeping

LEAVES = "EVENT a { ?a :room ?r ; :kind 'a' } EVENT b { ?b :room ?r ; :kind 'b' OPTIONAL { ?b :level ?l } }"
PATTERNS = f"""
SUBSCRIPTION pair {LEAVES} WHEN a BEFORE b WITHIN 20 s CONTEXT chronicle
SUBSCRIPTION absence {LEAVES} WHEN a UNLESS b WITHIN 9 s
SUBSCRIPTION silence EVENT a {{ ?a :kind 'a' }} WHEN NO a FOR 15 s
SUBSCRIPTION crowd EVENT a {{ ?a :room ?r ; :kind 'a' }} WHEN a{{3}} WITHIN 1 min SELECT ?r
SUBSCRIPTION alone EVENT a {{ ?a :level 2 }} WHEN a
"""
SECOND = 1_000_000

Rows = list[dict[str, Any]]
Matches = list[tuple[object, ...]]


class Value:
    """A value or list of Spark's state, as far as it is used."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []

    def get(self) -> Any:
        return iter(self.rows) if self.is_list else (self.rows[0] if self.rows else None)

    is_list = False

    def update(self, row: tuple[Any, ...]) -> None:
        self.rows = [row]

    def appendValue(self, row: tuple[Any, ...]) -> None:  # noqa: N802  (Spark's name)
        self.rows.append(row)

    def clear(self) -> None:
        self.rows = []


class Handle:
    """The state of one bucket, and the timer it has asked for."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.timer: int | None = None

    def getValueState(self, name: str, schema: str) -> Value:  # noqa: N802
        return self.values.setdefault(name, Value())

    def getListState(self, name: str, schema: str) -> Value:  # noqa: N802
        found = self.getValueState(name, schema)
        found.is_list = True
        return found

    def registerTimer(self, at: int) -> None:  # noqa: N802
        self.timer = at


class Now:
    def __init__(self, watermark: int) -> None:
        self._watermark = watermark

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self._watermark


def work() -> TaskSpec:
    question = parse_subscriptions(PATTERNS)
    types = {"level": XSD + "integer"}
    return TaskSpec(question, tuple(types.get(name, XSD + "string") for name in question.columns))


def day(work_: TaskSpec, count: int) -> Rows:
    """Rows of one bucket, in which all can be anything."""
    chance = random.Random(5)
    found: Rows = []
    for n in range(count):
        said = {"room": chance.choice("xy"), "kind": chance.choice("abc"), "level": chance.choice([None, "2", "3"])}
        at = (1000 + 3 * n + chance.randint(0, 5)) * SECOND
        roles = {f"role{number}": True for number in range(len(work_.query.roles))}
        texts = {f"text{number}": said[name] for number, name in enumerate(work_.query.columns)}
        found.append({"bucket": 0, "id": f"row:{n:03}", "start": at, "end": at, **roles, **texts})
    return found


def in_batch(work_: TaskSpec, rows: Rows) -> Matches:
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: (row["end"], row["id"])))
    found = BatchDetect(work_)(iter(table.to_batches(max_chunksize=7)))
    return sorted(tuple(map(str, row.values())) for batch in found for row in batch.to_pylist())


def as_stream(work_: TaskSpec, rows: Rows, handle: Handle, restart: Callable[[], None]) -> Matches:
    """Ten rows in a batch; the watermark is that of the batch before, and a timer fires when it is passed."""
    told: list[pd.DataFrame] = []
    watermark = 0
    for begin in range(0, len(rows) + 20, 10):
        processor = StreamDetect(work_, 4)
        processor.init(cast(StatefulProcessorHandle, handle))
        part = rows[begin : begin + 10]
        if part:
            told += processor.handleInputRows((0,), frames(part), Now(watermark))
        elif handle.timer is not None and handle.timer <= watermark:
            told += processor.handleExpiredTimer((0,), Now(watermark), None)
        restart()
        highest = max((row["end"] for row in rows[: begin + 10]), default=0) // 1000
        watermark = highest - 6000 if begin + 10 < len(rows) else highest + 3_600_000
    return sorted(tuple(map(str, (*row[:3], list(row[3]), list(row[4])))) for frame in told for row in frame.values)


def frames(rows: Rows) -> Iterator[pd.DataFrame]:
    """In two pieces."""
    yield pd.DataFrame(rows[:4])
    if rows[4:]:
        yield pd.DataFrame(rows[4:])


@pytest.mark.parametrize("restart", [lambda: None, keeping._cache.clear], ids=["going on", "from the state"])
def test_a_stream_has_the_matches_of_a_batch(restart: Callable[[], None]) -> None:
    """In any order of rows within the lateness, with a cached processor and with one restored from the state."""
    wanted = work()
    rows = day(wanted, 70)
    expected = in_batch(wanted, rows)
    assert {row[0] for row in expected} == {one.name for one in wanted.query.subscriptions}
    handle = Handle()
    assert as_stream(wanted, rows, handle, restart) == expected
    assert keeping.StateHeader(*handle.values["place"].rows[0]).deltas == len(handle.values["deltas"].rows)


def test_state_of_another_query_is_refused() -> None:
    """A checkpoint is used only with the pattern, columns and buckets of its first start."""
    wanted, handle = work(), Handle()
    as_stream(wanted, day(wanted, 10), handle, lambda: None)
    processor = StreamDetect(wanted, 5)
    processor.init(cast(StatefulProcessorHandle, handle))
    with pytest.raises(EngineError, match="belongs to another pattern"):
        list(processor.handleExpiredTimer((0,), Now(0), None))
