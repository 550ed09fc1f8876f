"""Leaves that no event matched, with the nearest reason, at the end of `motet run` and `motet replay`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from motet.cli.main import main
from motet.jobs import unmatched_leaves
from motet.jobs.run import RunSummary, run_embedded
from motet.jobs.unmatched_leaves import find_unmatched
from motet.language.parse import parse
from motet.model.batches import EventRow, event_batch

PREFIXES = """
@prefix ex: <urn:x:> . @prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
EVENTS = f"""{PREFIXES}
ex:1 a ex:Hot ; ex:room 5 ; ex:by ex:s1 ; sosa:resultTime "2026-11-15T10:00:00Z"^^xsd:dateTime . ex:s1 a ex:Sensor .
ex:2 a ex:Hot ; ex:room 6 ; sosa:resultTime "2026-11-15T10:01:00Z"^^xsd:dateTime .
"""
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.ttl").write_text(EVENTS)


def warnings(text: str, capsys: pytest.CaptureFixture[str], *, replay: bool = False) -> list[str]:
    """What a run over the events, or a replay of them, warns of."""
    Path("s.motet").write_text(f"PREFIX ex: <urn:x:> {text}")
    if replay:
        assert main(["ingest", "--lake", "lake", "e.ttl"]) == 0
        assert main(["replay", "--lake", "lake", "--subscriptions", "s.motet", "--engine", "embedded"]) == 0
    else:
        assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl"]) == 0
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        ("ex:Hott", "no event of the class ex:Hott; did you mean ex:Hot?"),
        ("ex:Cool", "no event of the class ex:Cool"),
        (
            "ex:Sensor",
            "its class ex:Sensor is on an inner node, ex:s1 in the event ex:1. The class of an EVENT is that of the "
            "event itself: write { ?e ?p ?x . ?x a ex:Sensor }",
        ),
        ("ex:Hot { ?e ex:rom ?r }", "no event has the property ex:rom; did you mean ex:room?"),
        ("ex:Hot { ?e ex:room ?r FILTER(?r > 100) }", "the nearest event is ex:1: ?r > 100: ?r is 5"),
        ('ex:Hot { ?e ex:room "5" }', 'the nearest event is ex:1: ex:room "5": it is 5'),
    ],
)
def test_the_nearest_reason(leaf: str, reason: str, replay: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several subscriptions each leaf without an event is named once, with its reason and not also as a name."""
    text = f"SUBSCRIPTION hot EVENT h : ex:Hot WHEN h SUBSCRIPTION s EVENT e : {leaf} WHEN e"
    assert warnings(text, capsys, replay=replay) == [f"EVENT e of 's' matched no event: {reason}"]


@pytest.mark.parametrize(
    "pattern",
    ["h UNLESS c WITHIN 1 min", "h OR c", "(h BEFORE h2) WITHOUT c WITHIN 1 h", "h XOR c WITHIN 1 min"],
)
def test_optional_and_absent_sides(pattern: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A leaf that no notification needs is named, too, also when its subscription has notifications."""
    second = "EVENT h2 : ex:Hot" if "h2" in pattern else ""
    text = f"SUBSCRIPTION s EVENT h : ex:Hot {second} EVENT c : ex:Cool WHEN {pattern}"
    assert warnings(text, capsys) == ["EVENT c of 's' matched no event: no event of the class ex:Cool"]


def test_leaves_that_match_are_not_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Also without a notification, and by inference; derived events feed a leaf, too."""
    text = """
        SUBSCRIPTION pair EVENT a : ex:Hot EVENT b : ex:Hot WHEN a BEFORE b WITHIN 1 s
        SUBSCRIPTION derives EVENT d : ex:Hot WHEN d CONSTRUCT { ?this a ex:Derived }
        SUBSCRIPTION fed EVENT f : ex:Derived WHEN f
    """
    assert warnings(text, capsys) == []


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The summary has the findings."""
    Path("s.motet").write_text("SUBSCRIPTION s EVENT e : <urn:x:Hott> WHEN e")
    assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl", "--json"]) == 0
    summary = json.loads(capsys.readouterr().err)
    assert summary["unmatched_leaves"] == [
        {
            "leaf": "e",
            "name": "<urn:x:Hott>",
            "reason": "no event of the class <urn:x:Hott>; did you mean <urn:x:Hot>?",
            "subscription": "s",
        }
    ]
    assert [name["name"] for name in summary["unknown_names"]] == ["<urn:x:Hott>"]


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most so many events are read and so many leaves looked at, and that is said."""
    monkeypatch.setattr(unmatched_leaves, "MAX_EVENTS", 1)
    monkeypatch.setattr(unmatched_leaves, "MAX_LEAVES", 1)
    subscriptions = parse("SUBSCRIPTION a EVENT e : <urn:A> WHEN e SUBSCRIPTION b EVENT e : <urn:B> WHEN e")
    batches = [event_batch([EventRow(f"urn:e:{n}", 0, 0, (("<urn:s>", TYPE, "<urn:C>"),))], [1]) for n in range(3)]
    background = frozenset[tuple[str, str, str]](), "none"
    findings = find_unmatched(subscriptions, (), lambda: ((batch, background) for batch in batches), background)
    assert list(findings.lines()) == [
        "EVENT e of 'a' matched none of the first 1 events: no event of the class <urn:A>",
        "leaves that were not looked at: 1",
    ]


def test_no_event() -> None:
    """Without events there is no nearer reason."""
    background = frozenset[tuple[str, str, str]](), "none"
    findings = find_unmatched(parse("SUBSCRIPTION s EVENT e : <urn:A> WHEN e"), (), lambda: (), background)
    assert list(findings.lines()) == ["EVENT e of 's' matched no event: there is no event"]


def test_a_run_on_spark_names_unknown_names(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its tasks do not look at names: the driver reads events again. Nothing else of Spark is needed here."""

    def run_without_names(*arguments: Any) -> RunSummary:
        return dataclasses.replace(run_embedded(*arguments), unknown_names=())

    monkeypatch.setattr("motet.cli.run.runner", lambda engine: run_without_names)
    Path("s.motet").write_text("SUBSCRIPTION s EVENT e { ?e <urn:x:rom> ?r } EVENT f WHEN e OR f")
    assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl", "--engine", "spark"]) == 0
    error = capsys.readouterr().err
    assert "EVENT e of 's' matched no event: no event has the property <urn:x:rom>; did you mean <urn:x:room>?" in error
    Path("s.motet").write_text("SUBSCRIPTION s EVENT e { OPTIONAL { ?e <urn:x:rom> ?r } } WHEN e")
    assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl", "--engine", "spark"]) == 0
    assert "no event and no ontology has the property <urn:x:rom>, which 's' requires" in capsys.readouterr().err
