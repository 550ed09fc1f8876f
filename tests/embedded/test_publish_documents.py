"""Publishing documents to a cloud (language page, section 14). Quotes are from that section."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import motet
from motet.embedded.cloud import Cloud
from motet.model.errors import ConflictError, DecodeError, UsageError

TURTLE = "text/turtle"
DATE = '"2026-11-15T10:00:0{0}Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
TIMES = f"<urn:e:{{0}}> <http://www.w3.org/ns/sosa/resultTime> {DATE} .\n"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with motet.open(tmp_path / "lake", ahead="unlimited") as opened:
        yield opened


def test_three_timed_subjects(cloud: Cloud) -> None:
    """ "So a Turtle file with three timed subjects is three events"; "Receipts name the IRIs."."""
    receipt = cloud.publish("".join(map(TIMES.format, (1, 2, 3))), content_type=TURTLE)
    assert (list(receipt.ids), receipt.accepted) == (["urn:e:1", "urn:e:2", "urn:e:3"], 3)


def test_the_same_reading_twice_is_two_events(cloud: Cloud) -> None:
    """ "of a call a new `urn:uuid:`"; "So publishing the same reading twice is two events"."""
    ids = [cloud.publish("<> <urn:value> 5 .", content_type=TURTLE).ids[0] for _ in range(2)]
    assert ids[0] != ids[1]
    assert all(id_.startswith("urn:uuid:") for id_ in ids)
    several = cloud.publish("[] <urn:value> 5 . [] <urn:value> 5 .", content_type=TURTLE)
    assert len({*several.ids}) == 2
    assert all(id_.startswith("urn:motet:event:") for id_ in several.ids)


def test_id_base_and_rest(cloud: Cloud) -> None:
    """The arguments of the rules 1, 3 and 6; what is left out is in the receipt."""
    text = TIMES.format(1) + "<urn:other> <urn:p> <x> ."
    with pytest.raises(DecodeError, match="relative IRI"):
        cloud.publish(text, content_type=TURTLE)
    with pytest.raises(DecodeError, match="belongs to no event"):
        cloud.publish(text, content_type=TURTLE, base="http://b/")
    receipt = cloud.publish(text, content_type=TURTLE, base="http://b/", rest="drop")
    assert (list(receipt.ids), receipt.accepted, receipt.dropped) == (["urn:e:1"], 1, 1)
    receipt = cloud.publish(text, content_type=TURTLE, base="http://b/", id="urn:all")
    assert (list(receipt.ids), receipt.dropped) == (["urn:all"], 0)
    with pytest.raises(UsageError, match="reserved"):
        cloud.publish(text, content_type=TURTLE, id="urn:motet:mine")


def test_derived_events_are_left_out(cloud: Cloud) -> None:
    """ "graphs under `urn:motet:derived:` are left out and counted"."""
    quads = "<urn:s> <urn:p> <urn:o> <urn:motet:derived:5> .\n<urn:s> <urn:p> <urn:o> <urn:e:1> .\n"
    receipt = cloud.publish(quads)
    assert (list(receipt.ids), receipt.accepted, receipt.derived) == (["urn:e:1"], 1, 1)


def test_a_call_that_conflicts_with_itself_is_refused_as_a_whole(cloud: Cloud) -> None:
    """ "**Conflict** … The other is rejected and names the IRI: a call as a whole"."""
    base = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "datacontenttype": TURTLE}
    one, other = base | {"data": "<> <urn:p> 1 ."}, base | {"data": "<> <urn:p> 2 ."}
    with pytest.raises(ConflictError, match="urn:cloudevents:s:1"):
        cloud.publish(json.dumps([one, other]), content_type="application/cloudevents-batch+json")
    repeated = cloud.publish(json.dumps([one, one]), content_type="application/cloudevents-batch+json")
    assert (repeated.accepted, repeated.repeated) == (1, 1)
