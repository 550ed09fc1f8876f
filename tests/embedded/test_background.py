"""Changing the background graph of a live cloud."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import RESULT_TIME, datetime, event_nquads, stored_log

import motet
from motet.lake import Lake
from motet.model.errors import DecodeError, UsageError
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME
from motet.reference import evaluate_written

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
ACTION = (
    PREFIXES
    + """:Action owl:equivalentClass [ owl:intersectionOf
           ( :Film [ owl:onProperty :genre ; owl:someValuesFrom :ActionGenre ] ) ] ."""
)
FAST = PREFIXES + ":Fast owl:equivalentClass [ owl:onProperty :speed ; owl:hasValue :high ] ."
CHASE = PREFIXES + ":chase a :ActionGenre ."
WANTED = "SUBSCRIPTION action EVENT film : <urn:x:Action> WHEN film"


def film(number: int) -> str:
    """A film about a chase; whether that makes it an action film is for the background to say."""
    event = f"<urn:e:{number}>"
    time = f'"2026-11-15T10:00:{number:02d}Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    created = f"<http://purl.org/dc/terms/created> {time}"
    lines = (f"{RDF_TYPE} <urn:x:Film>", "<urn:x:genre> <urn:x:chase>", created)
    return "".join(f"{event} {line} {event} .\n" for line in lines)


def test_a_change_holds_for_the_events_after_it(tmp_path: Path) -> None:
    """An axiom, an individual, its removal and its return apply from their offsets on."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(WANTED, found.append)
        cloud.publish(film(1))
        cloud.background.add(ACTION)
        cloud.publish(film(2))
        assert cloud.background.add(CHASE) == 1
        cloud.publish(film(3))
        assert cloud.background.remove(CHASE) == 1
        cloud.publish(film(4))
        cloud.background.add([("<urn:x:chase>", RDF_TYPE, "<urn:x:ActionGenre>")])
        cloud.publish(film(5))
    assert [notification.events for notification in found] == [("urn:e:3",), ("urn:e:5",)]
    assert sorted(found, key=lambda one: one.sort_key) == by_definition(Lake.open(tmp_path))


def by_definition(lake: Lake) -> list[Notification]:
    """What the reference engine makes of the lake's log."""
    found = evaluate_written(replace(stored_log(lake.snapshot()), frontier=END_OF_TIME))
    return sorted((notification for _, notification in found), key=lambda one: one.sort_key)


def test_adding_a_text_twice_adds_nothing(tmp_path: Path) -> None:
    """Adding a text with class expressions again adds nothing, also after reopening; removing it removes it whole."""
    with motet.open(tmp_path) as cloud:
        added = cloud.background.add(ACTION)
        assert (added > 5, cloud.background.add(ACTION)) == (True, 0)
    with motet.open(tmp_path) as cloud:
        assert cloud.background.add(ACTION) == 0
        cloud.background.add(FAST)
        assert cloud.background.remove(ACTION) == added
        assert cloud.background.remove(ACTION) == 0
    assert Lake.open(tmp_path).statistics()["kinds"] == {"background": 3, "settings": 1}


def test_blank_nodes_of_two_texts_differ(tmp_path: Path) -> None:
    """The class expressions of a file given at opening and of a text added later are kept apart."""
    (tmp_path / "fast.ttl").write_text(FAST)
    found: list[Notification] = []
    with motet.open(tmp_path / "lake", ontology=[tmp_path / "fast.ttl"]) as cloud:
        cloud.background.add(ACTION + CHASE)
        cloud.subscribe(WANTED, found.append)
        cloud.subscribe("SUBSCRIPTION fast EVENT e : <urn:x:Fast> WHEN e", found.append)
        cloud.publish(film(1))
        time = (RESULT_TIME, datetime("2026-11-15T10:00:02Z"))  # that of its arrival is late if the clock is behind
        cloud.publish(event_nquads("urn:e:2", ("<urn:x:speed>", "<urn:x:high>"), time))
    assert [(one.subscription, one.events) for one in found] == [("action", ("urn:e:1",)), ("fast", ("urn:e:2",))]


def test_content_types(tmp_path: Path) -> None:
    """The content type selects the parser."""
    line = f"<urn:x:chase> {RDF_TYPE} <urn:x:ActionGenre> ."
    with motet.open(tmp_path) as cloud:
        assert cloud.background.add(line.encode(), content_type="application/n-triples") == 1
        assert cloud.background.add(CHASE) == 0


@pytest.mark.parametrize(
    ("data", "content_type", "error"),
    [
        ("<urn:a> <urn:b>", "text/turtle", DecodeError),
        (CHASE, "text/html", UsageError),
        ([("chase", "a", "genre")], "text/turtle", UsageError),
        (PREFIXES + ":A owl:unionOf [ rdfs:label 'no list' ] .", "text/turtle", UsageError),
    ],
)
def test_invalid_data_changes_nothing(
    data: str | list[tuple[str, str, str]], content_type: str, error: type[Exception], tmp_path: Path
) -> None:
    """Broken RDF and broken axioms are refused before they are in the log."""
    with motet.open(tmp_path) as cloud:
        with pytest.raises(error):
            cloud.background.add(data, content_type=content_type)
        assert cloud.lake.snapshot().next_offset == 1
