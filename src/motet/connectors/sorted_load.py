"""Divides the events of one load into commits in the order of their ends (language page, section 14, "Loads").

The lake sorts the events of one commit, so a small load is one table in memory. A larger one is staged in scratch files
of the lake, each sorted, and merged into tables of the size of a commit, in bounded memory. A staged file consists of
small blocks, so that a merge of many files reads only what the next commit needs. Events with the same IRI are decided
before the merge, in the order of the input: afterwards the order of ends would decide which of them is the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from itertools import pairwise
from secrets import token_hex
from types import TracebackType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.event_times import Int64s
from motet.lake import Store
from motet.lake.store import SCRATCH
from motet.model.batches import EVENTS, content_digests

COMMIT_EVENTS = 524_288  # in a commit, which is held in memory
COMMIT_BYTES = 128 << 20
BLOCKS_PER_COMMIT = 256  # a merge reads at most a block of each staged file more than it needs
COMPARED_EVENTS = 1 << 20  # whose IRIs are compared at once
DROPPED_EVENTS = 1_024  # that are looked up in the log at once

LOAD_EVENTS = EVENTS.append(pa.field("source", pa.string()))  # the name of the input that an event is from
DIGESTED_EVENTS = LOAD_EVENTS.append(pa.field("digest", pa.binary(32)))  # which the lake need not compute again
STAGED_EVENTS = DIGESTED_EVENTS.append(pa.field("row", pa.int64())).append(pa.field("key", pa.binary(16)))
_COMPARED_FIELDS = [STAGED_EVENTS.get_field_index(name) for name in ("row", "key", "digest")]
_NO_END = np.iinfo(np.int64).max  # the end of an event that is stamped at its commit: after all others

IsInLog = Callable[[list[str]], Sequence[bool]]  # whether a log holds events with these IRIs
OnConflicts = Callable[[pa.Table], object]


class EventBuffer:
    """Events of a load in the order of the input, up to the size of a staged file."""

    def __init__(self, max_events: int, max_bytes: int) -> None:
        self._max_events, self._max_bytes = max_events, max_bytes
        self._batches: list[pa.RecordBatch] = []
        self._events = self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._events >= self._max_events or self._bytes >= self._max_bytes

    def add(self, events: pa.RecordBatch, source: str | None = None) -> None:
        sources = pa.repeat(pa.scalar(source, pa.string()), events.num_rows)
        self._batches.append(pa.RecordBatch.from_arrays([*events.columns, sources], schema=LOAD_EVENTS))
        self._events += events.num_rows
        self._bytes += events.nbytes

    def take(self) -> pa.Table:
        """The events since the last call."""
        table = pa.Table.from_batches(self._batches, LOAD_EVENTS)
        self._batches, self._events, self._bytes = [], 0, 0
        return table


class SortedLoad:
    """The events of one load: added in the order of the input, returned as one table for each commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._buffer = EventBuffer(COMMIT_EVENTS, COMMIT_BYTES)
        self._staged = StagedEvents(store)
        self.events = 0

    def __enter__(self) -> SortedLoad:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._staged.delete()

    def add(self, events: pa.RecordBatch, source: str | None = None) -> None:
        """Add events of an input with this name in errors."""
        if self._buffer.is_full:
            self._stage()
        self._buffer.add(events, source)
        self.events += events.num_rows

    def drop_repetitions(self, is_in_log: IsInLog, on_conflicts: OnConflicts) -> int:
        """Leave out events whose IRI an earlier event of the load has; returns the number of equal ones.

        Events with other content than the first are passed to ``on_conflicts``, in tables of DIGESTED_EVENTS. A load of
        one commit is left as it is: there the lake decides.
        """
        if not self._staged.is_empty:
            self._stage()
        return self._staged.drop_repetitions(is_in_log, on_conflicts)

    def tables(self) -> Iterator[pa.Table]:
        """The events of each commit: by end, those without one last, equal ones in the order of the input.

        Inside a table the events are in no order, except that a single table is in the order of the input.
        """
        if self._staged.is_empty:
            events = self._buffer.take()
            return iter([events] if events.num_rows else [])
        self._stage()
        return self._staged.tables()

    def _stage(self) -> None:
        events = self._buffer.take()
        if events.num_rows:
            self._staged.add(write_staged(self._store, events))


def write_staged(store: Store, events: pa.Table) -> str:
    """Write events of LOAD_EVENTS, at least one, to a sorted scratch file; returns its name."""
    ids = events["id"].to_pylist()
    keys = pa.array([blake2b(iri.encode(), digest_size=16).digest() for iri in ids], pa.binary(16))
    rows = pa.array(np.arange(len(ids)))
    columns = [*events.columns, pa.array(content_digests(events), pa.binary(32)), rows, keys]
    table = pa.table(columns, schema=STAGED_EVENTS)
    (batch,) = table.take(pc.sort_indices(table, [("end", "ascending")])).combine_chunks().to_batches()  # nulls last
    starts, weights = _blocks(batch)
    bounds = np.append(starts, batch.num_rows)
    metadata = {"bounds": bounds.tobytes(), "ends": _ends(batch)[starts].tobytes(), "weights": weights.tobytes()}
    name = f"{SCRATCH}/{token_hex(8)}.arrow"
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with (
        Store(store.root, durable=False).create(name) as sink,
        pa.ipc.new_file(sink, STAGED_EVENTS.with_metadata(metadata), options=options) as writer,
    ):
        for first, stop in pairwise(bounds.tolist()):
            writer.write_batch(batch.slice(first, stop - first))
    return name


class _Bound(NamedTuple):
    """A row of a staged file, as a position in the order of all: by end, then by file, then by row."""

    end: int
    file: int
    row: int


class StagedEvents:
    """The staged files of a load, in the order of the input."""

    def __init__(self, store: Store, names: Sequence[str] = ()) -> None:
        self._store = Store(store.root, durable=False)
        self._files: list[_StagedFile] = []
        self._open = ExitStack()
        for name in names:
            self.add(name)

    @property
    def is_empty(self) -> bool:
        return not self._files

    def add(self, name: str) -> None:
        """Add a file of `write_staged`. It stays open, so that it can be read when a vacuum deletes its name."""
        source = self._open.enter_context(pa.memory_map(str(self._store.path(name))))
        self._files.append(_StagedFile(name, source))

    def close(self) -> None:
        """Close the files, which stay where they are."""
        self._open.close()

    def delete(self) -> None:
        """Delete the files; a vacuum deletes those of a killed process, as all scratch files."""
        self.close()
        for file in self._files:
            self._store.delete(file.name)
        self._files = []

    def tables(self) -> Iterator[pa.Table]:
        """The events of each commit, as tables of DIGESTED_EVENTS; sorted stably by end, all together are sorted."""
        for starts, stops in pairwise(self._positions(bound) for bound in self._bounds()):
            batches = [
                batch
                for file, start, stop in zip(self._files, starts, stops, strict=True)
                for batch in file.retained_rows(start, stop)
            ]
            table = pa.Table.from_batches(batches, DIGESTED_EVENTS)
            if table.num_rows:
                yield table

    def drop_repetitions(self, is_in_log: IsInLog, on_conflicts: OnConflicts) -> int:
        """As `SortedLoad.drop_repetitions`; IRIs are compared in parts of bounded size, by their hashes."""
        parts = -(-sum(file.rows for file in self._files) // COMPARED_EVENTS)
        count = 0
        for part in range(parts):
            repeated = _repeated_events([file.compared_columns(part, parts) for file in self._files])
            for index, file in enumerate(self._files):
                of_file = np.flatnonzero(repeated.file == index)
                positions, is_conflict = repeated.position[of_file], repeated.is_conflict[of_file]
                count += _drop_from_file(file, positions, is_conflict, is_in_log, on_conflicts)
        return count

    def _bounds(self) -> Iterator[_Bound]:
        """Where the tables begin, and the end of the last one."""
        ends = np.concatenate([file.ends for file in self._files])
        files = np.repeat(np.arange(len(self._files)), [len(file.ends) for file in self._files])
        rows = np.concatenate([file.starts for file in self._files])
        order = np.lexsort((rows, files, ends))
        weights = np.concatenate([file.weights for file in self._files])[order]
        commit = np.floor((np.cumsum(weights) - weights) / BLOCKS_PER_COMMIT)
        is_untimed = ends[order] == _NO_END
        if weights[is_untimed].sum() <= BLOCKS_PER_COMMIT:  # a commit of stamped events alone would make the log live
            commit[is_untimed] = commit[~is_untimed].max(initial=0)
        order = order[np.flatnonzero(np.diff(commit, prepend=-1))]
        yield from map(
            _Bound._make, zip(ends[order].tolist(), files[order].tolist(), rows[order].tolist(), strict=True)
        )
        yield _Bound(_NO_END, len(self._files), 0)

    def _positions(self, bound: _Bound) -> list[int]:
        """How many rows of each file are before the bound."""
        return [
            bound.row if index == bound.file else file.count_before(bound.end, inclusive=index < bound.file)
            for index, file in enumerate(self._files)
        ]


class _StagedFile:
    """A staged file, open for reading."""

    def __init__(self, name: str, source: pa.MemoryMappedFile) -> None:
        self.name = name
        self._reader = pa.ipc.open_file(source)
        compared_options = pa.ipc.IpcReadOptions(included_fields=_COMPARED_FIELDS)
        self._compared = pa.ipc.open_file(source, options=compared_options)
        metadata = self._reader.schema.metadata
        self._bounds = np.frombuffer(metadata[b"bounds"], np.int64)
        self.starts, self.rows = self._bounds[:-1], int(self._bounds[-1])  # the first row of each block; of the file
        self.ends = np.frombuffer(metadata[b"ends"], np.int64)  # of the first row of each block
        self.weights = np.frombuffer(metadata[b"weights"], np.float64)
        self._is_retained: npt.NDArray[np.bool_] | None = None

    def count_before(self, end: int, *, inclusive: bool) -> int:
        """The number of rows that end before an instant, or, if inclusive, not after it."""
        side: Literal["left", "right"] = "right" if inclusive else "left"
        block = int(np.searchsorted(self.ends, end, side=side)) - 1
        if block < 0:
            return 0
        return int(self.starts[block]) + int(np.searchsorted(_ends(self._reader.get_batch(block)), end, side=side))

    def retained_rows(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows of a range that are not dropped, as batches of DIGESTED_EVENTS."""
        for first, batch in self._blocks(start, stop):
            begin, end = max(start - first, 0), min(stop - first, batch.num_rows)
            rows = batch.slice(begin, end - begin).select(DIGESTED_EVENTS.names)
            if self._is_retained is not None:
                rows = rows.filter(pa.array(self._is_retained[first + begin : first + end]))
            yield rows.replace_schema_metadata(None)

    def take(self, positions: Int64s) -> pa.Table:
        """The rows at increasing positions, as a table of DIGESTED_EVENTS."""
        taken = []
        for block, (first, stop) in enumerate(pairwise(self._bounds.tolist())):
            chosen = positions[np.searchsorted(positions, first) : np.searchsorted(positions, stop)]
            if len(chosen):
                taken.append(self._reader.get_batch(block).select(DIGESTED_EVENTS.names).take(pa.array(chosen - first)))
        return pa.Table.from_batches([batch.replace_schema_metadata(None) for batch in taken], DIGESTED_EVENTS)

    def drop(self, positions: Int64s) -> None:
        if len(positions):
            if self._is_retained is None:
                self._is_retained = np.ones(self.rows, np.bool_)
            self._is_retained[positions] = False

    def compared_columns(self, part: int, parts: int) -> _ComparedColumns:
        """Of the rows whose key is in that part of all keys: position, order in the input, key and digest."""
        found = []
        for block, first in enumerate(self.starts.tolist()):
            batch = self._compared.get_batch(block)
            keys = _words(batch.column("key"), 2)
            is_in_part = ((keys[:, 0] >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32) == part
            chosen = np.flatnonzero(is_in_part)
            rows = batch.column("row").to_numpy()
            found.append((first + chosen, rows[chosen], keys[chosen], _words(batch.column("digest"), 4)[chosen]))
        return _ComparedColumns(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))

    def _blocks(self, start: int, stop: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The blocks that overlap a range of rows, each with its first row."""
        if start < stop:
            first = int(np.searchsorted(self.starts, start, side="right")) - 1
            last = int(np.searchsorted(self.starts, stop, side="left"))
            for block in range(first, last):
                yield int(self.starts[block]), self._reader.get_batch(block)


class _ComparedColumns(NamedTuple):
    """Columns of a staged file by which repetitions are found."""

    position: Int64s  # in the file
    row: Int64s  # in the input
    key: npt.NDArray[np.uint64]
    digest: npt.NDArray[np.uint64]


class _RepeatedEvents(NamedTuple):
    """Events whose IRI an earlier event of the load has."""

    file: Int64s
    position: Int64s
    is_conflict: npt.NDArray[np.bool_]  # its content differs from that of the first


def _repeated_events(files: Sequence[_ComparedColumns]) -> _RepeatedEvents:
    file = np.repeat(np.arange(len(files)), [len(part.row) for part in files])
    position, row, key, digest = (np.concatenate(columns) for columns in zip(*files, strict=True))
    order = np.lexsort((row, file, key[:, 1], key[:, 0]))
    key, digest = key[order], digest[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (key[1:] != key[:-1]).any(axis=1)
    first_of_group = np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    repeated = np.flatnonzero(~is_first)
    is_conflict = (digest[repeated] != digest[first_of_group[repeated]]).any(axis=1)
    return _RepeatedEvents(file[order][repeated], position[order][repeated], is_conflict)


def _drop_from_file(
    file: _StagedFile,
    positions: Int64s,
    is_conflict: npt.NDArray[np.bool_],
    is_in_log: IsInLog,
    on_conflicts: OnConflicts,
) -> int:
    """Drop events whose IRI an earlier one has, unless the log holds it: then it decides about all of them.

    Returns the number of dropped events that are no conflicts.
    """
    order = np.argsort(positions)
    count = 0
    for first in range(0, len(order), DROPPED_EVENTS):
        chosen = order[first : first + DROPPED_EVENTS]
        events = file.take(positions[chosen])
        is_dropped = ~np.asarray(is_in_log(events["id"].to_pylist()), np.bool_)
        file.drop(positions[chosen[is_dropped]])
        conflicts = is_dropped & is_conflict[chosen]
        if conflicts.any():
            on_conflicts(events.filter(pa.array(conflicts)))
        count += int((is_dropped & ~conflicts).sum())
    return count


def _blocks(events: pa.RecordBatch) -> tuple[Int64s, npt.NDArray[np.float64]]:
    """The first rows of blocks, and their weights: 1 is a small part of a commit in events or bytes."""
    share = np.maximum(1 / COMMIT_EVENTS, _event_bytes(events) / COMMIT_BYTES) * BLOCKS_PER_COMMIT
    block = np.floor(np.cumsum(share) - share).astype(np.int64)
    starts = np.concatenate([[0], np.flatnonzero(np.diff(block)) + 1])
    return starts, np.add.reduceat(share, starts)


def _event_bytes(events: pa.RecordBatch) -> Int64s:
    """The number of bytes of the terms and the document of each event."""
    triples = events.column("triples")
    bounds = triples.offsets.to_numpy()
    lengths = sum(pc.binary_length(terms).to_numpy().astype(np.int64) for terms in triples.values.flatten())
    total = np.concatenate([[0], np.cumsum(lengths)])
    sizes: Int64s = np.diff(total[bounds])
    return sizes + pc.fill_null(pc.binary_length(events.column("payload")), 0).to_numpy()


def _ends(batch: pa.RecordBatch) -> Int64s:
    return pc.fill_null(batch.column("end").cast(pa.int64()), _NO_END).to_numpy()


def _words(column: pa.FixedSizeBinaryArray, count: int) -> npt.NDArray[np.uint64]:
    """Binary values of a fixed size as rows of integers."""
    words = np.frombuffer(column.buffers()[1], ">u8", count * len(column), 8 * count * column.offset)
    return words.reshape(-1, count).astype(np.uint64)
