"""Segments: bounded row groups, range reads, and files that other readers can read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.lake import Lake, segments
from motet.lake.segments import inline_rows, is_inline, read_rows, version_in
from motet.model.batches import RECORDS, EventRow, RecordRow, content_digest, event_batch, record_rows
from motet.model.errors import CorruptLakeError

Events = Callable[..., pa.Table]


def test_schema_survives(tmp_path: Path, events: Events) -> None:
    """Records come back in exactly the RECORDS schema."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"], quads=3))
    lake.subscribe("s", "text")
    assert [batch.schema.equals(RECORDS) for batch in lake.snapshot().records()] == [True] * 3


TEXT, TIME = st.text(max_size=9), st.one_of(st.none(), st.integers(-(2**62), 2**62))
RECORD = st.builds(
    RecordRow,
    offset=st.integers(0, 2**62), kind=TEXT, id=st.one_of(st.none(), TEXT), start=TIME, end=TIME, frontier=TIME,
    late=st.booleans(), text=st.one_of(st.none(), TEXT), triples=st.lists(st.tuples(TEXT, TEXT, TEXT)).map(tuple),
    stamped=st.booleans(), digest=st.one_of(st.none(), st.binary(min_size=1, max_size=9)), payload=st.none(),
)  # fmt: skip


@given(st.lists(RECORD, max_size=3))
def test_inline_rows_are_compact_ascii_json(records: list[RecordRow]) -> None:
    """Every text and number is written as an encoder of JSON writes it."""
    fields = [(*record[:-2], record.digest and record.digest.hex()) for record in records]
    assert inline_rows(records) == json.dumps(fields, separators=(",", ":")).encode()


@pytest.mark.parametrize("damage", [b"[", b"[[1]]", b"[[]]", b'{"a": 1}', b'[["x", 5, 1, 1, 1, 1, 1, 1, []]]', b"[1]"])
def test_damaged_rows_are_named(tmp_path: Path, events: Events, damage: bytes) -> None:
    """Inline records that are damaged are an error that names the file."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"], quads=2).to_batches()[0])
    path = tmp_path / lake.snapshot().segments[1].name
    line, _, body = path.read_bytes().partition(b"\n")
    assert body.startswith(b"[")
    path.write_bytes(line + b"\n" + damage)
    with pytest.raises(CorruptLakeError, match=path.name):
        list(lake.snapshot().records())


XML = b'<?xml version="1.0" encoding="iso-8859-1"?>\r\n<a  b=\'1\'>\xe9</a>\n'
EVERY_FORM = {"rows": 1, "stream": 40, "segment": 5_000}


@pytest.mark.parametrize("form", EVERY_FORM)
def test_the_document_of_an_xml_event_is_kept_byte_for_byte(tmp_path: Path, form: str) -> None:
    """Beside the triples of the event, in every form of records, before and after a compaction."""
    triples = (("<urn:s>", "<urn:p>", '"o"'),)
    events = [
        EventRow(f"urn:e:{n}", n, n, triples, XML.replace(b"'1'", b"'%d'" % n) if n % 2 == 0 else None)
        for n in range(EVERY_FORM[form])
    ]
    lake = Lake.open(tmp_path)
    lake.append(event_batch(events))
    assert is_inline(lake.snapshot().segments[-1].name) == (form != "segment")
    for _ in range(2):
        records = [row for batch in lake.snapshot().records(1) for row in record_rows(batch)]
        assert [EventRow(str(row.id), row.start, row.end, row.triples, row.payload) for row in records] == events
        assert [row.digest for row in records] == [content_digest(row.triples, row.payload) for row in events]
        lake.compact()


def test_a_segment_without_documents_is_read(tmp_path: Path, events: Events) -> None:
    """Files that were written before XML events have no column for documents: it is null."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    lake.compact()
    [path] = lake.snapshot().segment_paths()
    pq.write_table(pq.read_table(path).drop(["payload"]), path)
    assert [row.payload for batch in lake.snapshot().records() for row in record_rows(batch)] == [None, None]


def test_large_documents_divide_row_groups(tmp_path: Path) -> None:
    """Reading one row group costs a few megabytes, whatever the size of the documents."""
    lake = Lake.open(tmp_path)
    document = b"<a>" + random.Random(1).randbytes(100_000).hex().encode() + b"</a>"
    lake.append(event_batch([EventRow(f"urn:e:{n}", n, n, (), document) for n in range(150)]))
    metadata = pq.ParquetFile(tmp_path / lake.snapshot().segments[-1].name).metadata
    sizes = [metadata.row_group(n).num_rows * len(document) for n in range(metadata.num_row_groups)]
    assert sum(sizes) == 150 * len(document)
    assert max(sizes) <= segments.GROUP_QUADS * segments.ELEMENT_BYTES


def test_row_groups_are_bounded(tmp_path: Path, events: Events, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group holds a bounded number of triples, in one append and after compaction."""
    monkeypatch.setattr(segments, "GROUP_QUADS", 100)
    lake = Lake.open(tmp_path)
    for part in range(3):
        lake.append(events([f"urn:{part}:{n}" for n in range(50)], quads=4))
    lake.compact()
    [path] = lake.snapshot().segment_paths()
    metadata = pq.ParquetFile(path).metadata
    rows = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(rows) == 151
    assert max(rows) <= 20 * 2
    assert [r["offset"] for b in lake.snapshot().records(33, 91) for r in b.to_pylist()] == list(range(33, 91))


def test_a_range_read_returns_exactly_its_offsets(tmp_path: Path, events: Events) -> None:
    """A range read returns exactly its offsets, from as many segments as needed."""
    lake = Lake.open(tmp_path)
    for part in range(4):
        lake.append(events([f"urn:{part}:{n}" for n in range(3)]))
    batches = lake.snapshot().records(3, 9, ["id"])
    found = [row for batch in batches for row in batch.to_pylist()]
    assert found == [{"id": f"urn:{n // 3}:{n % 3}"} for n in range(2, 8)]


def test_damage_is_named(tmp_path: Path, events: Events) -> None:
    """A truncated segment is a CorruptLakeError that names the file."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    path = lake.store.path(lake.snapshot().segments[1].name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(CorruptLakeError, match=path.name):
        list(lake.snapshot().records())
    path.write_bytes(whole)
    lake.compact()
    [path] = lake.snapshot().segment_paths()
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptLakeError, match=path.name):
        list(lake.snapshot().records())


def test_version_is_read_from_names_only() -> None:
    """Files with other names have no version, so that a vacuum never deletes them as orphans."""
    assert [version_in(name) for name in ("segments/x.parquet", "segments/1-2-3-4.parquet", "segments/.x")] == [
        None
    ] * 3


def test_duckdb_reads_the_files(tmp_path: Path, events: Events) -> None:
    """DuckDB reads a snapshot's files as they are, triples included."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a", "urn:b"], quads=2))
    lake.tick(5)
    lake.compact()
    paths = [str(path) for path in lake.snapshot().segment_paths()]
    with duckdb.connect() as db:
        count = db.execute("SELECT count(*), count(*) FILTER (kind = 'event') FROM read_parquet(?)", [paths]).fetchall()
        triples = db.execute(
            'SELECT "offset", t.subject, t.predicate, t.object FROM '
            '(SELECT "offset", unnest(triples) AS t FROM read_parquet(?)) ORDER BY ALL',
            [paths],
        ).fetchall()
    assert count == [(4, 2)]
    assert triples == [
        (offset, f"<urn:{name}>", f"<urn:p{n}>", f'"{n}"') for offset, name in enumerate("ab", 1) for n in range(2)
    ]


def test_empty_range(tmp_path: Path, events: Events) -> None:
    """A range without rows yields no batch."""
    lake = Lake.open(tmp_path)
    lake.append(events(["urn:a"]))
    snapshot = lake.snapshot()
    assert list(read_rows(lake.store, snapshot.segments[1].name, 2, 5)) == []
    assert list(snapshot.records(2)) == []
