"""The kinds of data that `publish` takes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyoxigraph
import pytest
import rdflib

import motet
from motet.embedded.cloud import Cloud
from motet.model.errors import DecodeError, UsageError

XSD = "http://www.w3.org/2001/XMLSchema#"
TIME = "http://www.w3.org/ns/sosa/resultTime"
ALL = f"SUBSCRIPTION all EVENT e {{ ?e <urn:celsius> ?c OPTIONAL {{ ?e <{TIME}> ?t }} }} WHEN e SELECT ?c ?t"
TEN = datetime(2026, 11, 15, 10, tzinfo=UTC)
TURTLE = """
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<urn:e:1> sosa:resultTime "2026-11-15T10:00:00Z"^^xsd:dateTime ; <urn:celsius> 35 .
"""
TRIG = f"<urn:e:1> {{ {TURTLE.strip().splitlines()[-1]} }}".replace("sosa:resultTime", f"<{TIME}>").replace(
    "xsd:dateTime", f"<{XSD}dateTime>"
)
QUADS = (
    f'<urn:e:1> <urn:celsius> "35"^^<{XSD}integer> <urn:e:1> .\n'
    f'<urn:e:1> <{TIME}> "{TEN.isoformat()}"^^<{XSD}dateTime> <urn:e:1> .\n'
)
JSON: dict[str, Any] = {"@id": "urn:e:1", "urn:celsius": 35, TIME: TEN}


def rdflib_graph(identifier: str | None = None) -> rdflib.Graph:
    graph = rdflib.Graph(identifier=identifier)
    graph.parse(data=TURTLE, format="turtle")
    return graph


def rdflib_dataset() -> rdflib.Dataset:
    dataset = rdflib.Dataset()
    named = dataset.graph(rdflib.URIRef("urn:e:1"))
    for triple in rdflib_graph():
        named.add(triple)
    return dataset


def oxigraph_store() -> pyoxigraph.Store:
    store = pyoxigraph.Store()
    store.load(TRIG.encode(), format=pyoxigraph.RdfFormat.TRIG)
    return store


@pytest.fixture
def found(tmp_path: Path) -> Iterator[tuple[Cloud, list[motet.Notification]]]:
    received: list[motet.Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(ALL, received.append)
        yield cloud, received


@pytest.mark.parametrize(
    "data",
    [
        QUADS,
        QUADS.encode(),
        bytearray(QUADS.encode()),
        TURTLE,
        TURTLE.encode(),
        TRIG,
        JSON,
        [JSON],
        '{"@id": "urn:e:1", "urn:celsius": 35, "http://www.w3.org/ns/sosa/resultTime": '
        f'{{"@value": "2026-11-15T10:00:00Z", "@type": "{XSD}dateTime"}}}}',
        rdflib_graph(),
        rdflib_graph("urn:e:1"),
        rdflib_dataset(),
        oxigraph_store(),
        pyoxigraph.Dataset(oxigraph_store()),
        list(oxigraph_store()),
    ],
    ids=lambda data: type(data).__name__,
)
def test_every_kind_of_data_is_the_same_event(found: tuple[Cloud, list[motet.Notification]], data: Any) -> None:
    """Text, bytes, dictionaries and graphs, without a content type."""
    cloud, received = found
    receipt = cloud.publish(data)
    assert (list(receipt.ids), receipt.accepted, receipt.stamped) == (["urn:e:1"], 1, 0)
    assert [(one["c"], one["t"], one.start) for one in received] == [(35, TEN, TEN)]


def test_a_dictionary_has_decimals_and_datetimes(found: tuple[Cloud, list[motet.Notification]]) -> None:
    """A list of dictionaries is several events; those without @id get an IRI."""
    cloud, received = found
    receipt = cloud.publish([{"urn:celsius": Decimal("35.50"), TIME: TEN}, {"urn:celsius": "hot", TIME: TEN}])
    assert (receipt.accepted, len(set(receipt.ids))) == (2, 2)
    assert {one["c"] for one in received} == {Decimal("35.50"), "hot"}


def test_a_dictionary_can_be_a_cloudevent(found: tuple[Cloud, list[motet.Notification]]) -> None:
    cloud, _ = found
    event = {"specversion": "1.0", "id": "7", "source": "urn:sensor", "type": "reading", "data": {"urn:celsius": 5}}
    event["datacontenttype"] = "application/ld+json"
    assert (cloud.publish(event).accepted, cloud.publish([event]).repeated) == (1, 1)


@pytest.mark.parametrize(
    ("data", "options", "reason"),
    [
        (5, {}, "publish takes no int"),
        (None, {}, "publish takes no NoneType"),
        (Path("events.nq"), {}, "publish takes no PosixPath"),
        ([1, "a"], {}, "publish takes no list of int, str"),
        ("hello", {}, "format of the data is not known"),
        ("\ud800", {}, "the text is not Unicode"),
        ({"urn:celsius": {1, 2}}, {}, "the data is not JSON: it has a set"),
        ({"urn:celsius": float("nan")}, {}, "the data is not JSON"),
        ({TIME: datetime(2026, 11, 15)}, {}, "has no zone"),
        (QUADS, {"content_type": 5}, "content_type is 5, of type int"),
        (QUADS, {"id": 5}, "id is 5, of type int"),
        (QUADS, {"headers": "ce-id"}, "headers is 'ce-id', of type str"),
        (rdflib_graph(), {"content_type": "text/turtle"}, "has no content type"),
    ],
)
def test_other_data_is_refused_with_advice(tmp_path: Path, data: Any, options: dict[str, Any], reason: str) -> None:
    """Never an AttributeError; the advice says what to give."""
    with motet.open(tmp_path) as cloud, pytest.raises(UsageError, match=reason) as refused:
        cloud.publish(data, **options)
    assert refused.value.advice


def test_an_error_in_guessed_turtle_says_that_it_was_guessed(tmp_path: Path) -> None:
    """What was read as Turtle may be something else."""
    with motet.open(tmp_path) as cloud:
        with pytest.raises(DecodeError) as refused:
            cloud.publish("@prefix ex: <urn:ex#> .\nex:a ex:b oops .")
        assert "read as application/trig" in str(refused.value.advice)
        with pytest.raises(DecodeError) as refused:
            cloud.publish({"celsius": 5})
        assert "@context" in str(refused.value.advice)


def test_rdflib_is_not_imported_by_publishing(tmp_path: Path) -> None:
    """Nor is pyoxigraph, for N-Quads."""
    program = f"""
import sys, motet
with motet.open({str(tmp_path)!r}) as cloud:
    cloud.publish({QUADS!r})
    before = "pyoxigraph" in sys.modules
    cloud.publish({{"urn:celsius": 5}})
print(before, "rdflib" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]
