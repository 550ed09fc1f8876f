"""RDF terms as Python values."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from motet.model.notifications import Notification
from motet.model.terms import RDF, XSD
from motet.model.values import IRI, Literal, PythonValue, python_value, term_of


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("<urn:room:1>", IRI("urn:room:1")),
        ('"lab"', "lab"),
        (f'"35"^^<{XSD}integer>', 35),
        (f'"+7"^^<{XSD}unsignedByte>', 7),
        (f'"35.50"^^<{XSD}decimal>', Decimal("35.50")),
        (f'"1e3"^^<{XSD}double>', 1000.0),
        (f'"-INF"^^<{XSD}float>', -math.inf),
        (f'"true"^^<{XSD}boolean>', True),
        (f'"0"^^<{XSD}boolean>', False),
        (f'"2026-11-15T12:00:00+02:00"^^<{XSD}dateTime>', datetime(2026, 11, 15, 10, tzinfo=UTC)),
        (f'"2026-11-15T10:00:00.5Z"^^<{XSD}dateTime>', datetime(2026, 11, 15, 10, 0, 0, 500_000, tzinfo=UTC)),
        (f'"2026-11-15T10:00:00"^^<{XSD}dateTime>', datetime(2026, 11, 15, 10)),
        ('"chat"@fr', Literal("chat", language="fr")),
        (f'"2026-11-15"^^<{XSD}date>', Literal("2026-11-15", IRI(XSD + "date"))),
        ('"5"^^<urn:kelvin>', Literal("5", IRI("urn:kelvin"))),
        (f'"1_000"^^<{XSD}integer>', Literal("1_000", IRI(XSD + "integer"))),
        (f'"x"^^<{XSD}dateTime>', Literal("x", IRI(XSD + "dateTime"))),
        (f'"{"9" * 5000}"^^<{XSD}integer>', Literal("9" * 5000, IRI(XSD + "integer"))),
    ],
)
def test_the_python_value_of_a_term(term: str, value: PythonValue) -> None:
    """A literal without a Python value of its own stays a literal; the term itself is exact."""
    found = python_value(term)
    assert (found, type(found)) == (value, type(value))
    assert term_of(term).n3 == term


def test_nan_is_a_float() -> None:
    found = python_value(f'"NaN"^^<{XSD}double>')
    assert isinstance(found, float) and math.isnan(found)


def test_a_literal_with_a_language_has_its_datatype() -> None:
    assert Literal("chat", language="fr").datatype == RDF + "langString"


def test_the_variables_of_a_notification_are_read_as_from_a_dictionary() -> None:
    """Values, terms, unbound variables, and everything as a dictionary."""
    room, level = ("room", "<urn:room:1>"), ("level", f'"35"^^<{XSD}integer>')
    found = Notification("hot", 0, 1_000_000, ("urn:e:1",), (level, room))
    assert (found["room"], found["level"], found.get("none"), found.get("none", 5)) == ("urn:room:1", 35, None, 5)
    assert ("room" in found, "none" in found, list(found)) == (True, False, ["level", "room"])
    assert found.terms == {"level": Literal("35", IRI(XSD + "integer")), "room": IRI("urn:room:1")}
    assert (found.start, found.end) == (datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert found.to_dict() == {
        "id": found.id,
        "subscription": "hot",
        "start": found.start,
        "end": found.end,
        "events": ["urn:e:1"],
        "bindings": {"level": 35, "room": "urn:room:1"},
    }
    assert repr(found) == (
        "Notification('hot', 1970-01-01T00:00:00.000000Z to 1970-01-01T00:00:01.000000Z, events=['urn:e:1'], "
        "{'level': 35, 'room': IRI('urn:room:1')})"
    )
    with pytest.raises(KeyError, match="'rooom'; bound variables: level, room"):
        found["rooom"]


def test_graphs_and_construct_are_in_the_dictionary_of_those_that_have_them() -> None:
    found = Notification("hot", 0, 0, ("urn:e:1",), (), construct=("<urn:a> <urn:b> <urn:c> .",))
    assert found.to_dict()["construct"] == ["<urn:a> <urn:b> <urn:c> ."]
    assert "graphs" not in found.to_dict()
