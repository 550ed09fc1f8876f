"""The room in the format of a lake: readers ignore what they do not know (docs/lake-format.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import TEN, ManualClock

from motet.lake import Lake
from motet.lake.manifest import CHECKPOINT, _to_checkpoint, commit_name
from motet.model.batches import RECORDS
from motet.model.errors import CorruptLakeError

Events = Callable[..., pa.Table]


@pytest.fixture
def lake(tmp_path: Path, events: Events) -> Lake:
    """A lake with records in a segment, in an Arrow stream and in JSON rows, and a notification-free table."""
    lake = Lake.open(tmp_path / "lake", clock=ManualClock(TEN))
    lake.append(events([("urn:a", 1, 1), ("urn:b", 2, 2)], quads=3))
    lake.compact()
    lake.subscribe("s", "text")
    lake.append(events([("urn:c", 3, 3)]).to_batches()[0])
    return lake


def records(lake: Lake) -> pa.Table:
    return pa.Table.from_batches(Lake.open(lake.store.root).snapshot().records(), RECORDS)


def change_line(lake: Lake, version: int, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the JSON of a commit."""
    line, newline, body = (lake.store.find(commit_name(version)) or b"").partition(b"\n")
    fields = json.loads(line)
    change(fields)
    lake.store.put(commit_name(version), json.dumps(fields).encode() + newline + body)


def test_unknown_keys_are_ignored(lake: Lake) -> None:
    """Keys of a commit, of its data files, of settings and of the lake's file."""
    expected, snapshot = records(lake), lake.snapshot()
    reserved = {"previous": "00", "hash": "11"}
    for version in range(1, snapshot.version + 1):
        change_line(lake, version, lambda fields: fields.update(reserved))
        change_line(lake, version, lambda fields: [file.update(digest="22") for file in fields["add"]])
    change_line(lake, 1, lambda fields: fields["settings"].update(colour="red"))
    (lake.store.root / "lake.json").write_text(json.dumps({"format": 2, "id": "x", "colour": "red"}))
    lake.store.delete(CHECKPOINT)
    again = Lake.open(lake.store.root)
    assert (again.snapshot(), again.id, again.check()) == (snapshot, "x", [])
    assert records(lake) == expected


def test_unknown_folders_and_kinds_of_files_are_ignored(lake: Lake) -> None:
    """A data file of a kind that this version does not know, and folders beside those of the lake."""
    expected, snapshot = records(lake), lake.snapshot()
    zone = {"name": "zones/1.zone", "first": 0, "stop": 3, "rows": 1, "size": 9, "kinds": {}, "columns": ["start"]}
    change_line(lake, snapshot.version, lambda fields: fields["add"].append(zone))
    (lake.store.root / "zones").mkdir()
    (lake.store.root / "zones" / "1.zone").write_bytes(b"?")
    (lake.store.root / "segments" / "notes.txt").write_text("?")
    again = Lake.open(lake.store.root)
    assert (again.snapshot(), again.check(), records(lake)) == (snapshot, [], expected)
    again.compact()
    again.vacuum(0)
    assert (lake.store.root / "zones" / "1.zone").exists()
    assert (lake.store.root / "segments" / "notes.txt").exists()


def test_unknown_columns_are_ignored(lake: Lake) -> None:
    """In Parquet, in an Arrow stream and at the end of JSON rows; with and without a choice of columns."""
    expected = records(lake)
    path = lake.store.path(lake.snapshot().segments[0].name)
    table = pq.read_table(path)
    pq.write_table(table.append_column("colour", pa.array(["<x/>"] * table.num_rows)), path)
    stream, rows = (segment.name for segment in lake.snapshot().segments[1:])
    _replace_body(lake, stream, _with_column)
    _replace_body(lake, rows, lambda body: json.dumps([[*row, None, "<x/>"] for row in json.loads(body)]).encode())
    assert records(lake) == expected
    columns = ["end", "digest"]
    chosen = pa.Table.from_batches(Lake.open(lake.store.root).snapshot().records(columns=columns))
    assert chosen == expected.select(columns)


def test_unknown_kinds_of_records_are_refused(lake: Lake) -> None:
    """They would change what the log means, so they cannot be ignored."""
    name = lake.snapshot().segments[-1].name
    _replace_body(lake, name, lambda body: body.replace(b'"event"', b'"suspend"'))
    change_line(lake, lake.snapshot().version, lambda fields: fields["add"][0].update(kinds={"suspend": 1}))
    with pytest.raises(CorruptLakeError, match=r"unknown kind 'suspend'\n  Install a newer Motet"):
        list(Lake.open(lake.store.root).snapshot().control_records())


def test_a_checkpoint_may_have_more(lake: Lake) -> None:
    """Unknown keys and unknown fields of data files in a checkpoint are ignored."""
    state = json.loads(_to_checkpoint(lake.snapshot()))
    state["colour"] = "red"
    state["segments"] = [[*row, "digest"] for row in state["segments"]]
    lake.store.put(CHECKPOINT, json.dumps(state).encode())
    assert Lake.open(lake.store.root).snapshot() == lake.snapshot()


def _replace_body(lake: Lake, name: str, change: Callable[[bytes], bytes]) -> None:
    line, _, body = (lake.store.find(name) or b"").partition(b"\n")
    lake.store.put(name, line + b"\n" + change(body))


def _with_column(body: bytes) -> bytes:
    with pa.ipc.open_stream(body) as stream:
        table = stream.read_all()
    table = table.append_column("colour", pa.array(["<x/>"] * table.num_rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
