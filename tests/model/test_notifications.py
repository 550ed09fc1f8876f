"""The one-line form of a notification."""

import hashlib
import json
from dataclasses import replace

from motet.model.notifications import Notification
from motet.model.times import parse_datetime

TEN = parse_datetime("2026-11-15T10:00:00Z")
FIRE = Notification("real-fire", TEN, TEN + 1, ("urn:e:1", "urn:e:2"), (("level", '"é"'), ("room", "<urn:r>")))


def test_the_line_is_exactly_the_page_form() -> None:
    """Keys sorted, separators `, ` and `: `, UTF-8, microseconds and Z."""
    assert FIRE.to_line() == (
        '{"bindings": {"level": {"type": "literal", "value": "é"}, "room": {"type": "uri", "value": "urn:r"}}, '
        '"end": "2026-11-15T10:00:00.000001Z", "events": ["urn:e:1", "urn:e:2"], '
        f'"id": "{FIRE.id}", "start": "2026-11-15T10:00:00.000000Z", "subscription": "real-fire"}}'
    )


def test_the_id_is_the_hash_of_the_line_without_it() -> None:
    """A re-delivery can be recognised, and so can a reader check an id."""
    fields = json.loads(FIRE.to_line())
    del fields["id"]
    line = json.dumps(fields, sort_keys=True, ensure_ascii=False)
    assert FIRE.id == hashlib.sha256(line.encode()).hexdigest()


def test_graphs_and_construct_are_shown_but_not_identifying() -> None:
    """EVENTS adds graphs, CONSTRUCT adds construct; the id is the same with and without."""
    whole = replace(FIRE, graphs=("g",), construct=("c",))
    assert whole.id == FIRE.id
    assert json.loads(whole.to_line()) == json.loads(FIRE.to_line()) | {"graphs": ["g"], "construct": ["c"]}


def test_a_line_can_be_read_back() -> None:
    """Every kind of term, and the parts that do not identify, come back as they were."""
    terms = ("<urn:a>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>', '"feu"@fr', '"two\\n\\"lines\\" 🔥"', '""')
    bindings = tuple((f"x{number}", term) for number, term in enumerate(terms))
    told = Notification("s", -1, 7, ("urn:e:1", "urn:e:2"), bindings, graphs=("<urn:a> <urn:b> <urn:c> <urn:g> .",))
    assert Notification.from_line(told.to_line()) == told
    assert Notification.from_line(replace(told, graphs=None, construct=()).to_line()).construct == ()
