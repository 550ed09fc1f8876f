"""What is shown of a lake for queries: topics, zones with a picture, and how a query is answered."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from motet.cli.main import main
from motet.lake import Lake
from motet.lake.zones import as_svg, as_text, zone_summary
from motet.model.batches import EventRow, event_batch

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Twenty events of two classes in zones, and one that is in none."""
    lake = Lake.open(tmp_path / "lake", durable=False, ahead=None)
    lake.append(event_batch(map(_event, range(20))))
    lake.build_zones(least=4, most=10)
    lake.append(event_batch([_event(20)]))
    return lake


def _event(number: int) -> EventRow:
    name = f"<urn:e:{number:02}>"
    triples = (
        (name, TYPE, f"<urn:C{number % 2}>"),
        (name, "<urn:level>", f'"{number}"^^<{INTEGER}>'),
        (name, "<http://www.w3.org/ns/sosa/madeBySensor>", f"<urn:s:{number % 3}>"),
    )
    return EventRow(name[1:-1], number, number, triples)


def test_topics(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """A retracted event does not count."""
    lake.retract("urn:e:00")
    assert main(["inspect", "--lake", str(lake.store.root), "--topics", "--json"]) == 0
    topics = json.loads(capsys.readouterr().out)
    assert [(topic["class"], topic["events"]) for topic in topics] == [("urn:C0", 10), ("urn:C1", 10)]
    assert topics[0]["properties"]["urn:level"] == {INTEGER: 10}
    assert topics[0]["producers"] == {"urn:s:0": 3, "urn:s:1": 3, "urn:s:2": 4}
    assert topics[0]["start"] == "1970-01-01T00:00:00.000002Z"
    assert topics[0]["end"] == "1970-01-01T00:00:00.000020Z"
    assert main(["inspect", "--lake", str(lake.store.root), "--topics"]) == 0
    assert "urn:C1: 10 events" in capsys.readouterr().out


def test_zones_and_their_picture(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = lake.snapshot()
    summary = zone_summary(snapshot)
    assert summary["zone_rows"] == 60
    assert summary["zoned_to"] == snapshot.next_offset - 1
    assert as_text(snapshot, "offset", "object").count("\n") == 21
    drawing = ElementTree.fromstring(as_svg(snapshot, "predicate", "subject"))  # noqa: S314  (our own)
    assert len(drawing.findall("{http://www.w3.org/2000/svg}rect")) == summary["zones"]
    path = tmp_path / "zones.svg"
    arguments = ["inspect", "--lake", str(lake.store.root), "--zones"]
    assert main([*arguments, "--dimensions", "offset", "predicate", "--svg", str(path)]) == 0
    assert path.read_text().startswith("<svg")
    assert main([*arguments, "--json"]) == 0
    assert '"bounds"' in capsys.readouterr().out


def test_a_lake_without_zones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Lake.open(tmp_path / "lake")
    assert main(["inspect", "--lake", str(tmp_path / "lake"), "--zones"]) == 0
    assert "motet compact" in capsys.readouterr().err


def test_explain_shows_sql_zones_and_bytes(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT ?l { <urn:e:03> <urn:level> ?l }"
    assert main(["explain", "--query", query, "--lake", str(lake.store.root), "--json"]) == 0
    explained = json.loads(capsys.readouterr().out)
    (scan,) = explained["scans"]
    assert scan["pattern"] == "<urn:e:03> <urn:level> ?o"
    assert 0 < scan["zones"] < explained["zones"]
    assert 0 < scan["bytes"] < explained["zone_bytes"]
    assert explained["tail_rows"] == 3
    assert "SELECT" in explained["sql"]
    assert main(["explain", "--query", query, "--lake", str(lake.store.root)]) == 0
    assert "scan <urn:e:03> <urn:level> ?o" in capsys.readouterr().out


def test_values_of_known_kinds_are_compared_in_sql(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The manifest has the kinds of objects by predicate; where any may occur, the evaluator is called."""

    def sql(pattern: str) -> str:
        arguments = ["explain", "--json", "--lake", str(lake.store.root), "--query", f"SELECT * {{ {pattern} }}"]
        assert main(arguments) == 0
        text = json.loads(capsys.readouterr().out)["sql"]
        assert isinstance(text, str)
        return text

    assert "sparql_" not in sql("?e <urn:level> ?l FILTER(?l > 5)")
    assert "sparql_truth" in sql("?e ?p ?l FILTER(?l != 5)")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--query", "ASK {}"],
        ["--lake", "x"],
        [],
        ["--query", "ASK {}", "--lake", "x", "--dot"],
        ["fire.motet", "--as-of", "5"],
        ["fire.motet", "--entailment", "none"],
    ],
)
def test_an_incomplete_request_to_explain_is_refused(arguments: list[str]) -> None:
    assert main(["explain", *arguments]) == 2
