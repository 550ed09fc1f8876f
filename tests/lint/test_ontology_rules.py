"""Names that neither the ontology nor an event has are listed, once."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import motet
from motet.cli.lake_advice import warn_of_unknown_names
from motet.cli.main import main
from motet.codec.decode import decode_file
from motet.lake import Lake
from motet.language.parse import parse
from motet.lint.ontology_rules import UnknownNames
from motet.model.terms import RDF_TYPE, RDFS, XSD

SUBSCRIPTIONS = """
PREFIX ex: <http://example.org/>
SUBSCRIPTION one EVENT a : ex:Smoek { ?a ex:room ?r OPTIONAL { ?a ex:lvl ?l } } WHEN a
SUBSCRIPTION two EVENT a : ex:Smoek EVENT b : ex:Fire { ?b ex:room/ex:floor ?r } WHEN a BEFORE b WITHIN 1 h
  CONSTRUCT { ?this a ex:Danger ; ex:because ?a }
SUBSCRIPTION three EVENT c : ex:Danger { ?c ex:because ?x FILTER NOT EXISTS { ?c ex:never ?y } } WHEN c
"""
EVENTS = f"""
<urn:e> {RDF_TYPE} <http://example.org/Smoke> <urn:e> .
<urn:e> <http://example.org/room> <urn:r> <urn:e> .
<urn:e> <http://example.org/level> "3"^^<{XSD}integer> <urn:e> .
"""
ONTOLOGY = (("<http://example.org/Fire>", f"<{RDFS}subClassOf>", "<http://example.org/Thing>"),)


def batches(folder: Path, text: str) -> list[pa.RecordBatch]:
    (folder / "events.nq").write_text(text)
    return [decoded.events for decoded in decode_file(str(folder / "events.nq"))]


def test_names_are_found(tmp_path: Path) -> None:
    """Classes, properties, paths and OPTIONAL count; what CONSTRUCT derives and the ontology has is known."""
    names = UnknownNames(parse(SUBSCRIPTIONS), ONTOLOGY)
    assert names.found() == ()
    for events in batches(tmp_path, EVENTS):
        names.observe(events)
    ex = "<http://example.org/{}>"
    assert [(one.kind, one.name, one.subscriptions, one.similar) for one in names.found()] == [
        ("class", ex.format("Smoek"), ("one", "two"), ex.format("Smoke")),
        ("property", ex.format("floor"), ("two",), None),
        ("property", ex.format("lvl"), ("one",), ex.format("level")),
    ]


def test_known_names_are_not_found() -> None:
    """A class is not a property; a later batch makes a name known."""
    names = UnknownNames(parse("SUBSCRIPTION s EVENT e : <urn:C> { ?e <urn:p> ?x ; a ?c } WHEN e"))
    names.observe_names(classes=["<urn:p>"], properties=["<urn:C>"])
    assert [one.name for one in names.found()] == ["<urn:C>", "<urn:p>"]
    names.observe_names(classes=["<urn:C>"], properties=["<urn:p>"])
    assert names.found() == ()


def test_records_of_a_lake_are_observed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`motet stream` names them when it starts; control records have no triples."""
    with motet.open(tmp_path / "lake") as cloud:
        cloud.subscribe(SUBSCRIPTIONS, lambda _: None)
        cloud.publish(EVENTS)
    warn_of_unknown_names(Lake.open(tmp_path / "lake", create=False).snapshot())
    warned = capsys.readouterr().err.splitlines()
    assert [line.split(">, which")[0].split("/")[-1] for line in warned] == ["Fire", "Smoek", "floor", "lvl"]


def test_run_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`motet run` warns on standard error, once for each name; as JSON they are in the summary.

    A class is named with the events of the pattern that matched nothing.
    """
    (tmp_path / "s.motet").write_text(SUBSCRIPTIONS)
    (tmp_path / "e.nq").write_text(EVENTS)
    command = ["run", "--subscriptions", str(tmp_path / "s.motet"), "--events", str(tmp_path / "e.nq")]
    assert main(command) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")]
    assert [line.split(">, which")[0].split("/")[-1] for line in warnings[:2]] == ["floor", "lvl"]
    assert warnings[2] == (
        "warning: EVENT a of 'one' matched no event: no event of the class ex:Smoek; did you mean ex:Smoke?"
    )
    assert len(warnings) == 5
    assert main([*command, "--json"]) == 0
    summary = json.loads(capsys.readouterr().err.splitlines()[-1])
    assert summary["unknown_names"][0]["name"] == "<http://example.org/Fire>"
