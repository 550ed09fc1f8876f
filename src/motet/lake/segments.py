"""Files of rows: writes Parquet in row groups of bounded size and reads offset ranges back.

Serves records and notifications, whose files both cover a range of offsets. The records of a small append are *inline*:
they follow the line of their commit until a compaction, as JSON or as one Arrow batch.
"""

from __future__ import annotations

import json
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from json.encoder import encode_basestring_ascii as json_text
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from motet.lake.store import Store
from motet.model.batches import NOTIFICATIONS, RECORDS, RecordRow, Records, conform, record_batch
from motet.model.errors import CorruptLakeError, LakeError

GROUP_QUADS = 131_072  # a row group holds about this many list elements, so that reading one costs a few megabytes
ELEMENT_BYTES = 128  # about the size of a list element
SINGLE_THREAD_ROWS = 1_000  # a file with at most so many rows is read by one thread
INLINE_ROWS = 4_096  # a larger batch is not inline, whatever its size in bytes: it need not be measured
INLINE_BYTES = 65_536  # records up to this size are inline
INLINE_FOLDER = "manifest/"
_ROW_FIELDS = len(RecordRow._fields)
_NULL, _BOOLEANS = "null", ("false", "true")
_ROWS = b"["  # first byte of JSON; an Arrow batch begins with 0xFF
FORMAT_1_RECORDS = pa.schema([field for field in RECORDS if field.name not in ("stamped", "digest", "payload")])
_FORMAT_1_FIELDS = len(FORMAT_1_RECORDS)
_STATISTICS = ["offset", "kind", "start", "end"]  # columns that readers prune by; terms would only enlarge the footers


def new_name(folder: str, first: int, version: int) -> str:
    """A unique name for a file that only the commit ``version`` may add.

    The version identifies orphans: once that commit exists without the file, no commit can add it.
    """
    return f"{folder}/{first:020}-{version:012}-{secrets.token_hex(4)}.parquet"


def version_in(name: str) -> int | None:
    """
    >>> version_in("segments/00000000000000000007-000000000003-a1b2c3d4.parquet")
    3
    """
    fields = name.rpartition("/")[2].split("-")
    return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else None


def is_inline(name: str) -> bool:
    """Whether a file is a commit with inline records."""
    return name.startswith(INLINE_FOLDER)


class StoredRecords(NamedTuple):
    """The file of a commit's records: its name and size, and the bytes to write if they are inline."""

    name: str  # empty if they are inline: the file is that of the commit
    size: int
    inline: bytes | memoryview = b""


def store_records(store: Store, records: Sequence[Records], first: int, version: int) -> StoredRecords:
    """Bring the records of a commit into the form in which they are stored; large ones are written to a segment."""
    inline = _inline(records)
    if inline is not None:
        return StoredRecords("", len(inline), inline)
    name = new_name("segments", first, version)
    return StoredRecords(name, write_rows(store, name, RECORDS, [_table(records)]))


def _inline(records: Sequence[Records]) -> bytes | memoryview | None:
    """The bytes of records that are small enough to be inline in their commit; None for others."""
    if len(records) == 1 and records[0].is_small:
        body: bytes | memoryview = inline_rows(records[0].rows)
    else:
        table = _table(records)
        if table.num_rows > INLINE_ROWS or table.nbytes > INLINE_BYTES:
            return None
        body = inline_batch(table)
    return body if len(body) <= INLINE_BYTES else None


def _table(records: Sequence[Records]) -> pa.Table:
    return pa.Table.from_batches([batch.columns for batch in records], RECORDS)


def write_rows(store: Store, name: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write the tables, one after another, as one durable file; returns its size in bytes."""
    with store.create(name) as sink:
        with pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=_STATISTICS) as writer:
            for group in _groups(tables):
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
        return sink.tell()


def inline_rows(records: Sequence[RecordRow]) -> bytes:
    """The inline form of a few records: JSON, which takes a fraction of the time of an Arrow batch.

    >>> inline_rows([RecordRow(0, "tick", None, None, 5, None, False, None, ())])
    b'[[0,"tick",null,null,5,null,false,null,[],false,null]]'
    """
    return f"[{','.join([_json_row(record) for record in records])}]".encode()


def _json_row(record: RecordRow) -> str:
    """The fields of a record as JSON; the document of an XML event, in base64, is a field that other records lack."""
    # as f-strings: an encoder takes twice the time
    offset, kind, id_, start, end, frontier, is_late, text, triples, is_stamped, digest, payload = record
    graph = ",".join([f"[{json_text(s)},{json_text(p)},{json_text(o)}]" for s, p, o in triples])
    document = "" if payload is None else f',"{b64encode(payload).decode()}"'
    return (
        f"[{offset},{json_text(kind)},{_NULL if id_ is None else json_text(id_)},{_NULL if start is None else start},"
        f"{_NULL if end is None else end},{_NULL if frontier is None else frontier},{_BOOLEANS[is_late]},"
        f"{_NULL if text is None else json_text(text)},[{graph}],{_BOOLEANS[is_stamped]},"
        f"{_NULL if digest is None else json_text(digest.hex())}{document}]"
    )


def inline_batch(records: pa.Table) -> memoryview:
    """The inline form of more records: an Arrow stream, which states its columns."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, records.schema) as stream:
        stream.write_table(records.combine_chunks())
    return memoryview(sink.getvalue())


def _record(row: list[Any]) -> RecordRow:
    """The record in a row of JSON: of format 1 two fields shorter, of a later format perhaps longer."""
    missing = (False, None, None)[len(row) - _FORMAT_1_FIELDS :]
    *values, triples, stamped, digest, payload = (*row, *missing)[:_ROW_FIELDS]
    content = digest and bytes.fromhex(digest), payload and b64decode(payload, validate=True)
    return RecordRow._make([*values, tuple(map(tuple, triples)), stamped, *content])


def read_rows(
    store: Store, name: str, first: int, stop: int, columns: Sequence[str] | None = None, *, controls_only: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows whose offset lies in ``[first, stop)``, in file order."""
    if is_inline(name):
        yield from _read_inline(store, name, first, stop, columns)
        return
    path = store.path(name)
    schema = _requested(NOTIFICATIONS if name.startswith("notifications/") else RECORDS, columns)
    required = list(dict.fromkeys([*schema.names, "offset"]))
    try:
        with pq.ParquetFile(path, memory_map=True) as file:
            groups = [
                group for group in range(file.num_row_groups) if _touches(file, group, first, stop, controls_only)
            ]
            threads = file.metadata.num_rows > SINGLE_THREAD_ROWS
            for batch in file.iter_batches(row_groups=groups, columns=required, use_threads=threads) if groups else ():
                cut = _cut(batch, first, stop)
                if cut.num_rows:
                    yield conform(cut, schema)
    except FileNotFoundError:
        raise LakeError(f"{path} is missing", advice=_MISSING) from None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise CorruptLakeError(f"{path} cannot be read: {error}", advice=_UNREADABLE) from error


def _read_inline(
    store: Store, name: str, first: int, stop: int, columns: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    _, _, body = (store.find(name) or b"").partition(b"\n")
    if not body:
        raise LakeError(f"{store.path(name)} has no inline records", advice=_MISSING)
    try:
        if body[:1] == _ROWS:
            batch = record_batch(map(_record, json.loads(body)))
        else:
            batch = _read_batch(pa.py_buffer(body))
            batch.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError, OverflowError, TypeError, ValueError) as error:
        raise CorruptLakeError(f"{store.path(name)} cannot be read: {error}", advice=_UNREADABLE) from error
    cut = _cut(batch, first, stop)
    if cut.num_rows:
        yield conform(cut, _requested(RECORDS, columns))


def _read_batch(body: pa.Buffer) -> pa.RecordBatch:
    """The records of an inline Arrow stream; in format 1, of a batch without its schema."""
    if pa.ipc.read_message(body).type == "record batch":
        return pa.ipc.read_record_batch(body, FORMAT_1_RECORDS)
    with pa.ipc.open_stream(body) as stream:
        return stream.read_next_batch()


def _requested(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    return schema if columns is None else pa.schema([schema.field(name) for name in columns])


_MISSING = (
    "A vacuum may have removed it after a compaction: take a new snapshot, or vacuum with a longer grace period. "
    "If `motet inspect --check` finds it missing too, restore it from a backup."
)
_UNREADABLE = "Restore the file from a backup; `motet inspect --check` lists every file that is damaged."


def _touches(file: pq.ParquetFile, group: int, first: int, stop: int, controls_only: bool) -> bool:
    columns = {}
    for index in range(file.metadata.num_columns):
        column = file.metadata.row_group(group).column(index)
        if column.path_in_schema in ("offset", "kind"):
            columns[column.path_in_schema] = column.statistics
    offsets, kinds = columns.get("offset"), columns.get("kind")
    if offsets is not None and offsets.has_min_max and (offsets.max < first or offsets.min >= stop):
        return False
    only_events = kinds is not None and kinds.has_min_max and kinds.min == kinds.max == "event"
    return not (controls_only and only_events)


def _cut(batch: pa.RecordBatch, first: int, stop: int) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    low, high = offsets.searchsorted([first, stop])
    return batch.slice(low, high - low)


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows as row groups: small tables are joined, large ones divided."""
    pending: list[pa.Table] = []
    weight = 0
    for table in tables:
        rows = max(1, table.num_rows * GROUP_QUADS // max(_weight(table), 1))
        for start in range(0, table.num_rows, rows):
            pending.append(table.slice(start, rows))
            weight += _weight(pending[-1])
            if weight >= GROUP_QUADS // 2:
                yield pa.concat_tables(pending)
                pending, weight = [], 0
    if pending:
        yield pa.concat_tables(pending)


def _weight(table: pa.Table) -> int:
    """The number of rows and list elements, by which row groups are divided; documents count by their size."""
    lists = (column for column in table.columns if pa.types.is_list(column.type))
    documents = table["payload"].nbytes // ELEMENT_BYTES if "payload" in table.column_names else 0
    return table.num_rows + documents + sum(len(chunk.flatten()) for column in lists for chunk in column.chunks)
