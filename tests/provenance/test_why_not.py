"""The obstacles of events: for one small building, and for random logs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import get_args

import pytest
from tests.builders import EX, MINUTE, TEN, minute_event

from motet.fuzz.cases import random_cases
from motet.fuzz.subscriptions import EngineCapabilities
from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE, RDFS, XSD, iri
from motet.model.times import END_OF_TIME
from motet.provenance import facts, obstacles
from motet.provenance.obstacle_text import obstacle_text, why_not_json, why_not_lines
from motet.provenance.text import TextStyle
from motet.provenance.traced_log import TracedLog
from motet.provenance.why_not import why_not
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    evaluate,
)

STYLE = TextStyle({"ex": EX}, "2026-11-15")
EVENTS = """
  EVENT smoke : ex:Smoke { ?smoke ex:room ?room ; ex:level ?level FILTER(?level > 3) }
  EVENT heat : ex:Heat { ?heat ex:room ?room }
  EVENT drill : ex:Drill { ?drill ex:room ?room }
"""


event = partial(minute_event, room="r1")


def subscribed(when: str, *, since: str = "", events: str = EVENTS) -> SubscribeRecord:
    used = "".join(line for line in events.splitlines(keepends=True) if line.split()[1:2] and line.split()[1] in when)
    return SubscribeRecord(0, parse(f"PREFIX ex: <{EX}> SUBSCRIPTION s {since} {used} WHEN {when}")[0])


def traced(records: Iterable[Record], lateness: int | None = None) -> TracedLog:
    numbered = [replace(record, offset=offset) for offset, record in enumerate(records)]
    return TracedLog.from_records(numbered, lateness=lateness)


def nearest_text(records: Iterable[Record], number: int, lateness: int | None = None) -> str:
    """The text of the nearest obstacle."""
    answer = why_not(traced(records, lateness), "s", f"urn:e:{number}")
    return obstacle_text(answer.nearest, answer.event, STYLE)


END = TickRecord(0, END_OF_TIME)
PAIR = "(smoke BEFORE heat WITHIN 5 min)"
SMOKE = event(1, "Smoke", 0, level=5)


@pytest.mark.parametrize(
    ("when", "event_", "others", "answer"),
    [
        ("smoke", event(2, "Heat", 0), [], "as smoke: class ex:Smoke: the event is an ex:Heat"),
        ("smoke", event(2, "Smoke", 0, room=None, level=5), [], "as smoke: no triple ex:room"),
        ("smoke", event(2, "Smoke", 0, level=2), [], "as smoke: ?level > 3: ?level is 2"),
        (PAIR, event(2, "Heat", 1), [], "as heat it matches, but in smoke BEFORE heat WITHIN 5 min: there is no smoke"),
        (
            PAIR,
            event(2, "Heat", 7),
            [SMOKE],
            "as heat it matches, but in smoke BEFORE heat WITHIN 5 min: "
            "7 min in all where 5 min are allowed, with urn:e:1 at 10:00:00",
        ),
        (
            PAIR,
            event(2, "Heat", -1),
            [SMOKE],
            "as heat it matches, but in smoke BEFORE heat WITHIN 5 min: "
            "the left side is AFTER the right side, not BEFORE, with urn:e:1 at 10:00:00",
        ),
        (
            PAIR,
            event(2, "Heat", 1, room="r2"),
            [SMOKE],
            "as heat it matches, but in smoke BEFORE heat WITHIN 5 min: "
            "?room is ex:r2 here and ex:r1 there: urn:e:1 at 10:00:00",
        ),
        (
            f"{PAIR} UNLESS drill WITHIN 10 min",
            event(2, "Heat", 1),
            [SMOKE, event(3, "Drill", 4)],
            "as heat it matches, but in (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min: "
            "drill contradicts it: urn:e:3 at 10:04:00",
        ),
        (
            f"{PAIR} UNLESS drill WITHIN 10 min",
            event(2, "Drill", 4),
            [SMOKE, event(3, "Heat", 1)],
            "as drill: it can only prevent a match (drill must be absent); "
            "it prevented urn:e:1, urn:e:3 at 10:00:00 to 10:01:00",
        ),
        (
            f"{PAIR} WITHOUT drill",
            event(2, "Heat", 3),
            [SMOKE, event(3, "Drill", 2)],
            "as heat it matches, but in (smoke BEFORE heat WITHIN 5 min) WITHOUT drill: "
            "drill contradicts it: urn:e:3 at 10:02:00",
        ),
        (
            "smoke XOR heat WITHIN 5 min",
            event(2, "Heat", 3),
            [SMOKE],
            "as heat it matches, but in smoke XOR heat WITHIN 5 min: smoke contradicts it: urn:e:1 at 10:00:00",
        ),
        (
            f"{PAIR} FILTER(?level > 6)",
            event(2, "Heat", 3),
            [SMOKE],
            "as heat it matches, but in (smoke BEFORE heat WITHIN 5 min) FILTER(?level > 6): "
            "FILTER(?level > 6) is not true: ?level is 5",
        ),
        (
            "(smoke BEFORE heat FILTER(?level > 6)) WITHIN 5 min",
            event(2, "Heat", 3),
            [SMOKE],
            "as heat it matches, but in smoke BEFORE heat FILTER(?level > 6): "
            "FILTER(?level > 6) is not true: ?level is 5, with urn:e:1 at 10:00:00",
        ),
        ("heat{3}", event(2, "Heat", 3), [event(1, "Heat", 0)], "as heat it matches, but in heat{3}: 2 of 3"),
        (
            "heat{2} WITHIN 15 min",
            event(2, "Heat", 0),
            [event(1, "Heat", 60), event(3, "Heat", 70)],
            "as heat it matches, but in heat{2} WITHIN 15 min: 1 h in all where 15 min are allowed",
        ),
        (
            "heat{2} WITHIN 15 min",
            event(2, "Heat", 40),
            [event(1, "Heat", 0), event(3, "Heat", 10), event(4, "Heat", 60)],
            "as heat it matches, but in heat{2} WITHIN 15 min: 20 min in all where 15 min are allowed",
        ),
        (
            "heat{2} EVERY 2 min",
            event(2, "Heat", 3),
            [event(1, "Heat", 0)],
            "as heat it matches, but in heat{2} EVERY 2 min: "
            "3 min apart from the next, urn:e:1 at 10:00:00, where 2 min are allowed",
        ),
        (
            "heat{2} WITHIN 2 min",
            event(2, "Heat", 3),
            [event(1, "Heat", 0)],
            "as heat it matches, but in heat{2} WITHIN 2 min: 3 min in all where 2 min are allowed",
        ),
        ("NO heat FOR 2 min", event(2, "Heat", 3), [], "as heat: it can only prevent a match (heat must be absent); "
         "it prevented nothing"),
        (f"{PAIR} CONTEXT chronicle", event(2, "Heat", 3), [SMOKE, event(3, "Heat", 1)],
         "as heat it matches, but in smoke BEFORE heat WITHIN 5 min: "
         "urn:e:1 at 10:00:00 would fit, but was consumed by urn:e:3"),
        (f"{PAIR} CONTEXT chronicle", event(2, "Smoke", 2, level=9), [SMOKE, event(3, "Heat", 3)],
         "as smoke it matches, but in smoke BEFORE heat WITHIN 5 min: "
         "urn:e:3 at 10:03:00 would fit, but was passed over for urn:e:1"),
    ],
)  # fmt: skip
def test_the_nearest_obstacle(when: str, event_: EventRecord, others: list[EventRecord], answer: str) -> None:
    """The obstacle has the predicate, condition or partner, with its values."""
    events = sorted([*others, event_], key=lambda one: one.end)
    assert nearest_text([subscribed(when), *events, END], 2) == answer


def test_replaced_in_recent() -> None:
    """In recent the next occurrence of a key replaces the earlier one, which is no longer open."""
    records: list[Record] = [
        subscribed(PAIR),
        event(2, "Smoke", 0, level=5),
        event(3, "Smoke", 1, level=5),
        event(4, "Heat", 2),
        END,
    ]
    assert nearest_text(records, 2) == (
        "as smoke it matches, but in smoke BEFORE heat WITHIN 5 min: "
        "urn:e:4 at 10:02:00 would fit, but was replaced by urn:e:3"
    )


def test_notified_and_pending_events() -> None:
    """A notified event has its notification ids; a pending one has the instant the frontier must pass."""
    records: list[Record] = [subscribed("smoke UNLESS drill WITHIN 10 min"), event(2, "Smoke", 0, level=5)]
    [notification] = evaluate(list(traced([*records, END]).records), lateness=None)
    assert nearest_text([*records, END], 2) == f"as smoke: notified: {notification.id[:12]} (see `motet why`)"
    assert nearest_text(records, 2) == "as smoke: not final yet: there is no frontier yet, it must pass 10:10:00"
    assert nearest_text([*records, TickRecord(0, TEN + MINUTE)], 2) == (
        "as smoke: not final yet: the frontier is at 10:01:00, it must pass 10:10:00"
    )
    assert (
        nearest_text([*records, UnsubscribeRecord(0, "s"), END], 2)
        == "as smoke: the subscription ended before it was final"
    )


def test_a_single_event_is_notified_without_a_frontier() -> None:
    """A single-event occurrence is final at once, also when the subscription ends later."""
    records: list[Record] = [subscribed("smoke"), event(2, "Smoke", 0, level=5), UnsubscribeRecord(0, "s")]
    assert nearest_text(records, 2).startswith("as smoke: notified")


def test_invisible_events() -> None:
    """Late, too early, retracted and after the end have obstacles of their own."""
    event_, begin, later = event(2, "Smoke", 0, level=5), subscribed("smoke"), event(3, "Heat", 5)
    assert nearest_text([begin, later, event_], 2, lateness=MINUTE) == (
        "late: it ends at 10:00:00, the frontier before its commit was at 10:04:00"
    )
    assert nearest_text([event_, begin], 2) == "published (10:00:00) before the subscription began, which has no SINCE"
    since = subscribed("smoke", since='SINCE "2026-11-15T10:01:00Z"')
    assert nearest_text([event_, since], 2) == "it starts at 10:00:00, before SINCE 10:01:00"
    since = subscribed("smoke", since='SINCE "2026-11-15T09:00:00Z"')
    assert nearest_text([event_, RetractRecord(0, "urn:e:2"), since], 2) == "retracted before the subscription began"
    assert nearest_text([begin, UnsubscribeRecord(0, "s"), event_], 2) == "published after the subscription had ended"


def test_the_first_unmet_part_of_a_body_is_reported() -> None:
    """A different constant, a class of another subject, a path, and a solution of the background alone."""
    room = iri(EX + "r1")
    leaf = "EVENT smoke : ex:Smoke {{ {} }}\n"
    for body, answer in {
        "?smoke ex:room ex:r2": "as smoke: ex:room ex:r2: it is ex:r1",
        "?smoke ex:room ?room . ?room a ex:Cooled": "as smoke: class ex:Cooled: ex:r1 is an ex:Lab",
        "?smoke ex:room ?room . ?room ex:floor ?floor": "as smoke: no triple ex:floor about ex:r1",
        "?smoke ex:near+ ?room": "as smoke: no match of { ?smoke (ex:near)+ ?room }",
        "?smoke ex:level ?level FILTER(?level > 1) FILTER(?level < 5)": "as smoke: ?level < 5: ?level is 5",
    }.items():
        background = BackgroundRecord(0, added=frozenset({(room, RDF_TYPE, iri(EX + "Lab"))}))
        begin = subscribed("smoke", events=leaf.format(body))
        assert nearest_text([begin, background, event(2, "Smoke", 0, level=5), END], 2) == answer
    alone = subscribed("smoke", events="EVENT smoke { ex:r1 a ?class }\n")
    axiom = (iri(EX + "Lab"), iri(RDFS + "subClassOf"), iri(EX + "Room"))
    background = BackgroundRecord(0, added=frozenset({(room, RDF_TYPE, iri(EX + "Lab")), axiom}))
    assert nearest_text([alone, background, event(2, "Smoke", 0), END], 2) == (
        "as smoke: the solution arises from the background alone, without the event"
    )


def test_the_first_unmet_part_of_a_block_is_reported() -> None:
    """An event without a document, an element that no document has, and a part that the nearest element lacks."""
    leaf = "EVENT smoke XML {{ {} }}\n"
    order = EventRecord(2, "urn:e:2", 0, 0, frozenset(), payload=b"<order><pay>open</pay><pn>1</pn></order>")
    for block, answer in {
        "<offer/>": "as smoke: the document has no <offer></offer>",
        "<order><pn>$n</pn><pay>ok</pay></order>": "as smoke: the document has <order><pn>$n</pn></order>, but no "
        "<pay>ok</pay> in it",
        "<order><pay>$v</pay><pn>$v</pn></order>": "as smoke: no match of { <order><pay>$v</pay><pn>$v</pn></order> }",
    }.items():
        assert nearest_text([subscribed("smoke", events=leaf.format(block)), order, END], 2) == answer
    any_order = subscribed("smoke", events=leaf.format("<order/>"))
    assert nearest_text([any_order, event(2, "Smoke", 0), END], 2) == "as smoke: the event is no XML document"


def test_unknown_subscriptions_and_events_are_errors() -> None:
    """An unknown subscription and an unknown event are UsageErrors."""
    log = traced([subscribed("smoke"), SMOKE])
    with pytest.raises(UsageError, match="no subscription 't'"):
        why_not(log, "t", "urn:e:1")
    with pytest.raises(UsageError, match="no event <urn:e:9>"):
        why_not(log, "s", "urn:e:9")


def test_kinds_keep_their_spelling() -> None:
    """The kinds in `motet why --json` and `motet why-not --json` are made from class names and stay as published."""
    assert sorted(class_.__name__.lower() for class_ in get_args(facts.Fact)) == [
        "absent", "agrees", "anything", "begins", "counted", "fits", "gap", "indocument", "lacks", "passes", "picked",
        "relates", "satisfies", "stated",
    ]  # fmt: skip
    assert sorted(obstacles.kind(class_.__new__(class_)) for class_ in get_args(obstacles.Obstacle)) == [
        "contradicted", "differs", "filter false", "gap too long", "late", "no document", "no element", "no match",
        "no partner", "no triple", "not fed", "notified", "only background", "other value", "pending", "prevents",
        "retracted", "same event", "taken", "too early", "too far", "too few", "too long", "too much", "unrelated",
        "unsubscribed", "wrong class",
    ]  # fmt: skip


def test_notified_means_notified() -> None:
    """Over random logs: an event is notified exactly if it is in a notification; others have another obstacle."""
    kinds = set()
    for case in islice(random_cases(71, EngineCapabilities()), 8):
        ontology, lateness = case.ontology, case.lateness
        found = evaluate(case.records, ontology=ontology, lateness=lateness)
        told = {(one.subscription, name): one.id for one in found for name in one.events}
        log = TracedLog.from_records(case.records, ontology=ontology, lateness=lateness)
        for subscription in case.subscriptions:
            for one in {record.id for record in log.records if isinstance(record, EventRecord)}:
                answer = why_not(log, subscription.name, one)
                nearest = answer.nearest.obstacle
                kinds.add(obstacles.kind(nearest))
                assert isinstance(nearest, obstacles.Notified) == ((subscription.name, one) in told)
                assert (
                    not isinstance(nearest, obstacles.Notified) or told[subscription.name, one] in nearest.notifications
                )
                reasons = why_not_json(answer)["reasons"]
                assert isinstance(reasons, list)
                assert len(list(why_not_lines(answer, STYLE, everything=True))) == 1 + len(reasons)
    assert len(kinds) > 10


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('FILTER(?level > "1000")', '?level > "1000": ?level is 5; a number is never compared with a string'),
        ("FILTER(?level = ex:five)", "?level is 5; a number is never compared with an IRI"),
        ('FILTER(CONTAINS(?room, "r1"))', "?room is ex:r1; an IRI is never compared with a string"),
        ('FILTER(?room = "r1" || ?level > 6)', "an IRI is never compared with a string"),
        ("FILTER(?level > 6.5)", "?level > 6.5: ?level is 5"),
    ],
)
def test_a_difference_of_types_is_named(body: str, reason: str) -> None:
    """A number that is compared with a string is not larger, whatever the digits are."""
    events = f"EVENT smoke : ex:Smoke {{ ?smoke ex:room ?room ; ex:level ?level {body} }}"
    text = nearest_text([subscribed("smoke", events=events), SMOKE, END], 1)
    assert text.endswith(reason), text


def test_times_with_and_without_a_zone_are_told_apart() -> None:
    """They look alike, and are comparable only when they are more than 14 hours apart."""
    events = "EVENT smoke : ex:Smoke DURING ?from ?to"
    when = 'smoke FILTER(?from > "2026-11-15T09:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>)'
    text = nearest_text([subscribed(when, events=events), SMOKE, END], 1)
    assert text.endswith("a time with a zone is never compared with a time without a zone less than 14 hours apart")


def test_terms_that_look_alike_have_their_datatypes() -> None:
    """Joins compare terms: 5 and "5"^^xsd:decimal differ, and so they are written."""
    one, other = SMOKE, event(2, "Heat", 1)
    level = f'"5"^^<{XSD}decimal>'
    other = replace(other, triples=other.triples | {("<urn:e:2>", f"<{EX}level>", level)})
    events = "  EVENT smoke : ex:Smoke { ?smoke ex:level ?level }\n  EVENT heat : ex:Heat { ?heat ex:level ?level }\n"
    text = nearest_text([subscribed("smoke BEFORE heat WITHIN 5 min", events=events), one, other, END], 2)
    assert '?level is "5"^^decimal here and "5"^^integer there' in text.replace("xsd:", ""), text
