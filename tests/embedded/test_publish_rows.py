"""`Cloud.publish_rows`: rows of Python programs as events, by a mapping."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import motet
from motet.model.errors import ConflictError, DecodeError, UsageError

MAPPING = """
prefixes: {ex: http://example.org/}
event: {class: ex:Reading, time: time}
properties: {room: ex:room, celsius: ex:celsius}
"""
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
ROWS = [{"time": NOON, "room": "hall", "celsius": 35}, {"time": NOON, "room": "attic", "celsius": 20.5}]
HOT = """
PREFIX ex: <http://example.org/>
SUBSCRIPTION hot EVENT r : ex:Reading { ?r ex:room ?room ; ex:celsius ?c FILTER(?c > 30) } WHEN r SELECT ?room
"""


@pytest.fixture(params=["text", "file", "dict"])
def mapping(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """A mapping as text, as the path of a file, and as Python values."""
    (tmp_path / "m.yaml").write_text(MAPPING)
    structure = {
        "prefixes": {"ex": "http://example.org/"},
        "event": {"class": "ex:Reading", "time": "time"},
        "properties": {"room": "ex:room", "celsius": "ex:celsius"},
    }
    return {"text": MAPPING, "file": tmp_path / "m.yaml", "dict": structure}[request.param]


def test_rows_are_events_that_subscriptions_match(tmp_path: Path, mapping: str) -> None:
    """A mapping may be text, a file or a dict; rows may be dicts, Arrow or pandas."""
    rooms = []
    with motet.open(tmp_path / "lake") as cloud:
        cloud.subscribe(HOT, lambda notification: rooms.append(dict(notification.bindings)["room"]))
        table = pa.Table.from_pylist(ROWS)
        for rows in (ROWS, ROWS[0], table, table.to_pandas()):
            cloud.publish_rows(rows, mapping)
        cloud.flush()
    assert rooms == ['"hall"'] * 4


def test_each_call_is_an_input_of_its_own(tmp_path: Path) -> None:
    """The same rows without ids are new events in every call; the receipt names their IRIs."""
    with motet.open(tmp_path / "lake") as cloud:
        receipts = [cloud.publish_rows(ROWS, MAPPING) for _ in range(2)]
        (single,) = cloud.publish_rows(ROWS[0], MAPPING).ids
    ids = [id_ for receipt in receipts for id_ in receipt.ids]
    assert len(set(ids)) == 4
    assert single.startswith("urn:uuid:")


def test_a_call_with_a_bad_row_appends_nothing(tmp_path: Path) -> None:
    """The error names row and column; a missing column lists those there are."""
    with motet.open(tmp_path / "lake") as cloud:
        with pytest.raises(DecodeError, match="rows, line 2: column 'time': 'noon' is no time"):
            cloud.publish_rows([ROWS[0], {**ROWS[1], "time": "noon"}], MAPPING)
        with pytest.raises(UsageError, match=r"(?s)no column 'celsius'.*the columns are: time, room"):
            cloud.publish_rows([{"time": NOON, "room": "hall"}], MAPPING)
        assert cloud.lake.snapshot().count("event") == 0


def test_an_id_says_which_rows_are_one_event(tmp_path: Path) -> None:
    """Equal rows with one id are a repetition, also in one call; other content is a conflict and refuses the call."""
    mapping = MAPPING.replace("{class", '{id: "ex:{room}", class')
    with motet.open(tmp_path / "lake") as cloud:
        receipt = cloud.publish_rows([ROWS[0], ROWS[0], ROWS[1]], mapping)
        assert (receipt.accepted, receipt.repeated) == (2, 1)
        with pytest.raises(ConflictError, match=r"http://example\.org/hall"):
            cloud.publish_rows([{**ROWS[0], "celsius": 1}], mapping)


def test_wrong_rows_get_a_sentence(tmp_path: Path) -> None:
    """Columns of several types, and what is no table."""
    frame = pa.Table.from_pylist(ROWS).to_pandas()
    with motet.open(tmp_path / "lake") as cloud:
        with pytest.raises(UsageError, match="values of several types"):
            cloud.publish_rows(frame.assign(celsius=["warm", 1]), MAPPING)
        with pytest.raises(UsageError, match="a row is no"):
            cloud.publish_rows(frame.celsius, MAPPING)
        with pytest.raises(UsageError, match="rows are no int"):
            cloud.publish_rows(5, MAPPING)
