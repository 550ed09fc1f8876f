"""The same rows for every way they can be published, and the events of a lake as values to compare."""

from __future__ import annotations

import json
from pathlib import Path

from motet.cli.main import main
from motet.lake import Lake
from motet.model.batches import event_rows

MAPPING = """
prefixes: {ex: http://example.org/}
event: {id: "ex:reading/{n}", class: "ex:{kind}", time: time}
properties:
  n: {property: ex:number, datatype: integer}
  room: {property: ex:room, iri: "ex:room/{room}"}
  celsius: {property: ex:celsius, datatype: double}
"""
WITHOUT_ID = MAPPING.replace('id: "ex:reading/{n}", ', "")
ROWS: list[dict[str, object]] = [
    {"n": 1, "kind": "Smoke", "time": "2020-11-15T10:00:00Z", "room": "hall", "celsius": 21},
    {"n": 2, "kind": "Heat", "time": "2020-11-15T10:00:01.5Z", "room": "room 2", "celsius": 55.5},
    {"n": 3, "kind": "Heat", "time": "2020-11-15T10:00:02Z", "room": "hall", "celsius": None},
]
CSV = "\n".join(
    [
        "n,kind,time,room,celsius",
        *(",".join("" if cell is None else str(cell) for cell in row.values()) for row in ROWS),
    ]
)
NDJSON = "".join(f"{json.dumps(row)}\n" for row in ROWS)

Events = set[tuple[str, int | None, int | None, frozenset[tuple[str, str, str]]]]


def events_of(lake: Path | Lake) -> Events:
    """IRIs, times and triples of the events of a lake."""
    opened = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    records = (batch for batch in opened.snapshot().records())
    return {
        (row.id, row.start, row.end, frozenset(row.triples))
        for batch in records
        for row in event_rows(batch.filter([kind == "event" for kind in batch.column("kind").to_pylist()]))
    }


def ingested(folder: Path, mapping: str = MAPPING) -> Events:
    """The events that `motet ingest --map` makes of the rows as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.csv").write_text(CSV)
    (folder / "mapping.yaml").write_text(mapping)
    lake = folder / "ingested"
    assert main(["ingest", "--lake", str(lake), "--map", str(folder / "mapping.yaml"), str(folder / "rows.csv")]) == 0
    return events_of(lake)
