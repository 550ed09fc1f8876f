"""`motet export`: the events of a lake as N-Quads that can be read back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.builders import TEN, ManualClock, datetime

from motet.cli.main import main
from motet.lake import Lake
from motet.model.batches import EventRow, event_rows
from motet.model.times import format_datetime

RESULT_TIME = "<http://www.w3.org/ns/sosa/resultTime>"


def event(number: int, *, has_time: bool = True) -> EventRow:
    name, instant = f"urn:e:{number}", TEN + number
    time = (f"<{name}>", RESULT_TIME, datetime(format_datetime(instant)))
    triples = ((f"<{name}>", "<urn:p>", f'"{number} \\"ü\\""'), *([time] if has_time else []))
    return EventRow(name, instant if has_time else None, instant if has_time else None, triples)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Two events that state a time, one that was stamped, and a retracted one."""
    lake = Lake.open(tmp_path / "lake", clock=ManualClock(TEN + 60))
    lake.append([event(1), event(2), event(3, has_time=False), event(4)])
    lake.retract("urn:e:4")
    return lake


def events_of(lake: Lake) -> list[EventRow]:
    table = pa.Table.from_batches(lake.snapshot().records())
    events = table.filter(pa.compute.equal(table["kind"], "event"))
    return [row._replace(triples=tuple(sorted(row.triples))) for row in event_rows(events)]


def test_an_export_is_read_back(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ "`motet export` writes a lake as N-Quads that can be read back"; there, everything is repeated."""
    output = tmp_path / "events.nq"
    assert main(["export", "--lake", str(lake.store.root), "--output", str(output)]) == 0
    printed = capsys.readouterr().err
    assert "3 events written, 1 retracted ones left out" in printed
    assert "1 of them state no time" in printed
    assert main(["ingest", "--lake", str(tmp_path / "copy"), str(output)]) == 0
    copy = Lake.open(tmp_path / "copy")
    assert events_of(copy)[:2] == events_of(lake)[:2]
    version = lake.snapshot().version
    assert main(["ingest", "--lake", str(lake.store.root), str(output)]) == 0
    assert lake.snapshot().version == version, "all of them are repeated"


def test_times_of_the_log_can_be_written(
    lake: Lake, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """With --times a stamped event states the time it has in the log."""
    assert main(["export", "--lake", str(lake.store.root), "--times"]) == 0
    output = tmp_path / "events.nq"
    output.write_bytes(capsysbinary.readouterr().out)
    assert main(["ingest", "--lake", str(tmp_path / "copy"), str(output)]) == 0
    copied = {row.id: (row.start, row.end) for row in events_of(Lake.open(tmp_path / "copy"))}
    assert copied == {row.id: (row.start, row.end) for row in events_of(lake) if row.id != "urn:e:4"}
