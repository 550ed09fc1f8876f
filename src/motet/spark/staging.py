"""Where tasks leave decoded events for the task that appends them: scratch files in the lake, sorted by time.

Events of one batch come from many partitions, each with its own stretch of time. Appended one partition after another,
all but the first would be late; so they are put into one order here. Knows nothing of Spark.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from secrets import token_hex

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from motet.codec.events import Decoded
from motet.lake import Store
from motet.lake.store import SCRATCH
from motet.model.errors import DecodeError
from motet.model.schemas import EVENTS, TIME

FILE_EVENTS = 131_072  # of a staged file
FILE_LETTERS = 1_024  # of rejections, which may be large
GROUP_EVENTS = 16_384  # of a row group, of which a stretch of time needs only some
COMMIT_EVENTS = 524_288  # of a commit: what the appending task holds in memory

STAGED = pa.schema(
    [
        pa.field("part", pa.int64()),
        pa.field("number", pa.int64()),
        pa.field("events", pa.string()),
        pa.field("letters", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("rejected", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Staged:
    """What a task has left behind: a file of events, a file of rejections, or one of them."""

    part: int
    number: int  # among those of its part
    events: str | None
    letters: str | None
    rows: int
    rejected: int


class Stager:
    """Writes what one task decodes; a task that is tried again writes other files, and the first ones are forgotten."""

    def __init__(self, lake: str, part: int) -> None:
        self._store = Store(Path(lake), durable=False)
        self._part = part
        self._number = 0
        self._events: list[pa.RecordBatch] = []
        self._rejected: list[DecodeError] = []

    def add(self, decoded: Decoded) -> Iterator[pa.RecordBatch]:
        """Rows of STAGED for the files that are full now."""
        self._events.append(decoded.events)
        self._rejected += decoded.rejected
        if sum(batch.num_rows for batch in self._events) >= FILE_EVENTS or len(self._rejected) >= FILE_LETTERS:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """A row of STAGED for what is not in a file yet."""
        events = pa.Table.from_batches(self._events, EVENTS)
        if events.num_rows or self._rejected:
            names = self._write_events(events), self._write_letters()
            row = Staged(self._part, self._number, *names, events.num_rows, len(self._rejected))
            yield pa.RecordBatch.from_pylist([vars(row)], schema=STAGED)
            self._number += 1
        self._events, self._rejected = [], []

    def _write_events(self, events: pa.Table) -> str | None:
        if not events.num_rows:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.parquet"
        with self._store.create(name) as sink:
            pq.write_table(_by_time(events), sink, compression="lz4", row_group_size=GROUP_EVENTS)
        return name

    def _write_letters(self) -> str | None:
        if not self._rejected:
            return None
        name = f"{SCRATCH}/{token_hex(8)}.jsonl"
        with self._store.create(name) as sink:
            for error in self._rejected:
                sink.write(json.dumps(error.to_json(), ensure_ascii=False).encode() + b"\n")
        return name


def in_time_order(lake: str, staged: Sequence[Staged]) -> Iterator[pa.Table]:
    """All staged events by their ends, in tables of bounded size."""
    paths = [str(Path(lake, one.events)) for one in staged if one.events is not None]
    if sum(one.rows for one in staged) <= COMMIT_EVENTS:
        if paths:
            yield _by_time(pa.concat_tables([pq.read_table(path) for path in paths]))
        return
    for low, high in _ranges(paths):
        inside = [("end", ">=", low), ("end", "<", high)]
        yield _by_time(pa.concat_tables([pq.read_table(path, filters=inside) for path in paths]))


def keep_dead_letters(lake: str, staged: Sequence[Staged], path: Path) -> None:
    """Put the rejections of a batch into one file; when the batch is run again it is written again, not doubled."""
    letters = [Path(lake, one.letters) for one in staged if one.letters is not None]
    if not letters:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{token_hex(4)}")
    with unfinished.open("wb") as file:
        for letter in letters:
            with letter.open("rb") as source:
                shutil.copyfileobj(source, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def drop(lake: str, staged: Sequence[Staged]) -> None:
    """Remove staged files; what a killed process leaves is removed by a vacuum, like all scratch files."""
    store = Store(Path(lake), durable=False)
    for name in (name for one in staged for name in (one.events, one.letters) if name is not None):
        store.delete(name)


def _by_time(events: pa.Table) -> pa.Table:
    return events.take(pc.sort_indices(events, [("end", "ascending")]))


def _ranges(paths: Sequence[str]) -> list[tuple[pa.Scalar, pa.Scalar]]:
    """Stretches of time with about as many events as one commit takes; more when that many end at one instant."""
    columns = [pq.read_table(path, columns=["end"])["end"].cast(pa.int64()).to_numpy() for path in paths]
    ends = np.sort(np.concatenate(columns))
    bounds = [*np.unique(ends[::COMMIT_EVENTS]).tolist(), int(ends[-1]) + 1]
    scalars = [pa.scalar(bound, pa.int64()).cast(TIME) for bound in bounds]
    return list(pairwise(scalars))
