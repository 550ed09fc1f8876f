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


LATIN = b'<?xml version="1.0" encoding="iso-8859-1"?>\r\n<a  b=\'1\'>\xe9</a>\n'


@pytest.mark.parametrize("envelopes", [False, True])
def test_documents_come_out_byte_for_byte(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], envelopes: bool
) -> None:
    """They are no N-Quads; inside CloudEvents they are read back with their IRIs and intervals."""
    lake = Lake.open(tmp_path / "lake", clock=ManualClock(TEN + 60))
    triple = ("<urn:e:1>", "<urn:p>", '"lifted"')
    xml = [EventRow("urn:e:1", TEN, TEN + 5, (triple,), LATIN), EventRow("urn:e:2", None, None, (), b"<b>\r\n</b>")]
    lake.append([event(3), *xml])
    command = ["export", "--lake", str(lake.store.root)]
    assert main(command) == 0
    printed = capsysbinary.readouterr()
    assert (b"urn:e:3" in printed.out, b"urn:e:1" in printed.out) == (True, False)
    assert b"2 XML events are not N-Quads and left out" in printed.err
    folder = tmp_path / "documents"
    assert main([*command, "--documents", str(folder), *["--envelopes"] * envelopes]) == 0
    files = sorted(folder.iterdir())
    if not envelopes:
        assert [path.read_bytes() for path in files] == [LATIN, b"<b>\r\n</b>"]
        return
    assert main(["ingest", "--lake", str(tmp_path / "copy"), *map(str, files)]) == 0
    copied = events_of(Lake.open(tmp_path / "copy"))
    assert copied == [each._replace(triples=()) for each in events_of(lake) if each.payload]


def test_envelopes_need_documents(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The option alone has no meaning."""
    assert main(["export", "--lake", str(lake.store.root), "--envelopes"]) == 2
    assert "Add --documents DIR" in capsys.readouterr().err
