"""XML documents by calls of a cloud: guessed format, identity, time, mappings, and queries over lifted triples."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.builders import TEN, ManualClock

import motet
from motet.lake import Lake
from motet.model.batches import RecordRow, record_rows
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.query.answers import QueryRows

ORDER = b"<order n='7'><pay>finished</pay></order>"
MAPPING = {"event": {"root": "order", "id": "urn:order:{@n}"}, "properties": {"pay": "urn:pay"}}
TIME = datetime(2026, 11, 15, 10, tzinfo=UTC)


@pytest.fixture
def cloud(tmp_path: Path) -> motet.Cloud:
    return motet.open(tmp_path / "lake", mappings=[MAPPING], ahead=None)


def last_event(cloud: motet.Cloud) -> RecordRow:
    *_, record = (row for batch in cloud.lake.snapshot().records() for row in record_rows(batch))
    return record


def test_a_document_is_lifted_by_the_mapping_of_the_lake(cloud: motet.Cloud) -> None:
    """Its format is guessed, its bytes are kept, and queries over history see its triples."""
    receipt = cloud.publish(ORDER, time=(TIME, "2026-11-15T10:00:05Z"))
    assert receipt.ids == ["urn:order:7"]
    record = last_event(cloud)
    assert (record.payload, record.triples) == (ORDER, (("<urn:order:7>", "<urn:pay>", '"finished"'),))
    assert ((record.end or 0) - (record.start or 0), record.stamped) == (5_000_000, False)
    rows = cloud.query("SELECT ?order ?pay { GRAPH ?order { ?order <urn:pay> ?pay } }")
    assert isinstance(rows, QueryRows)
    assert [dict(row) for row in rows] == [{"order": "urn:order:7", "pay": "finished"}]


def test_repetition_and_conflict_by_content(cloud: motet.Cloud) -> None:
    """White space in tags is no other content; a call in conflict is refused as a whole."""
    cloud.publish(ORDER)
    assert cloud.publish(b"<?xml version='1.0'?><order  n='7'><pay>finished</pay></order>").repeated == 1
    with pytest.raises(ConflictError):
        cloud.publish(ORDER.replace(b"finished", b"open"))


def test_a_document_without_identity_is_new_with_each_call(cloud: motet.Cloud) -> None:
    """As every event without an IRI; with an id it has that."""
    first, second = (cloud.publish("<invoice/>").ids for _ in range(2))
    assert first != second
    assert cloud.publish("<invoice/>", id="urn:i:1").ids == ["urn:i:1"]
    assert last_event(cloud).triples == ()


def test_a_bad_document_is_refused_with_advice(cloud: motet.Cloud) -> None:
    """Also one that does not fit its mapping; a time is for documents only."""
    with pytest.raises(DecodeError, match="document type declaration"):
        cloud.publish("<!DOCTYPE order><order/>")
    with pytest.raises(DecodeError, match="the event's id needs it"):
        cloud.publish("<order><pay>open</pay></order>")
    with pytest.raises(UsageError, match="a time is given, and the data is application/n-quads, not XML"):
        cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .', time=TIME)
    with pytest.raises(UsageError, match="the time ends before it starts"):
        cloud.publish(ORDER, time=("2026-11-15T10:00:05Z", TIME))


def test_a_wrong_mapping_is_refused_when_the_lake_is_made(tmp_path: Path) -> None:
    """And a lake with other mappings is not opened."""
    with pytest.raises(UsageError, match="'a//b//c' is no path"):
        motet.open(tmp_path / "lake", mappings=[{"properties": {"a//b//c": "urn:p"}}])
    Lake.open(tmp_path / "lake", clock=ManualClock(TEN))
    with pytest.raises(UsageError, match="mappings"):
        motet.open(tmp_path / "lake", mappings=["generic"])


def test_text_with_a_declared_encoding_is_stored_in_it(cloud: motet.Cloud) -> None:
    """So that the stored bytes mean the text that was published."""
    cloud.publish(text := '<?xml version="1.0" encoding="iso-8859-1"?><note>é</note>')
    assert last_event(cloud).payload == text.encode("latin-1")
