"""Subscriptions written in Python are the trees that the text gives."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from motet.language.builder import PatternText, event, no, subscription
from motet.language.parse import parse
from motet.language.syntax import Events
from motet.model.errors import SubscriptionError, UsageError

EX = "http://example.org/building#"
A, B, C = (event(name, body=f"?{name} <urn:v> ?{name}1") for name in "abc")


def test_page_example() -> None:
    """The page's first example, in Python."""
    smoke = event("smoke", EX + "SmokeAlarm", "?smoke ex:room ?room ; ex:level ?level . FILTER(?level > 3)")
    heat = event("heat", EX + "HeatAlarm", "?heat ex:room ?room")
    drill = event("drill", EX + "FireDrill", "?drill ex:room ?room # in this room")
    built = subscription(
        "real-fire",
        smoke.before(heat).within("5 min").unless(drill, timedelta(minutes=10)),
        context="chronicle",
        select=["room", "level"],
        prefixes={"ex": EX},
    )
    text = """PREFIX ex: <http://example.org/building#>
        SUBSCRIPTION real-fire
          EVENT smoke : ex:SmokeAlarm  { ?smoke ex:room ?room ; ex:level ?level . FILTER(?level > 3) }
          EVENT heat  : ex:HeatAlarm   { ?heat  ex:room ?room }
          EVENT drill : ex:FireDrill   { ?drill ex:room ?room }
          WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
          CONTEXT chronicle
          SELECT ?room ?level"""
    assert (built,) == parse(text)


@pytest.mark.parametrize(
    ("pattern", "when"),
    [
        *(
            (getattr(A, name.lower().replace(" ", "_"))(B), f"a {name} b")
            for name in (
                *("BEFORE", "AFTER", "MEETS", "MET BY", "OVERLAPS", "OVERLAPPED BY", "STARTS", "STARTED BY", "DURING"),
                *("INCLUDES", "FINISHES", "FINISHED BY", "EQUALS", "ALONGSIDE"),
            )
        ),
        (A.and_(B).or_(C), "a AND b OR c"),
        (A.and_(B.or_(C)), "a AND (b OR c)"),
        (A.xor(B, "PT1S"), "a XOR b WITHIN 1 s"),
        (A.before(B).without(C), "(a BEFORE b) WITHOUT c"),
        (A.before(B).filter("?a1 < ?b1").within("1 s"), "a BEFORE b FILTER(?a1 < ?b1) WITHIN 1 s"),
        (A.times(3).and_(B.times(2, "1 s")), "a{3} AND b{2} EVERY 1 s"),
        (A.run("1 s").within(timedelta(hours=1)), "a+ EVERY 1 s WITHIN 1 h"),
        (no(A.or_(B), "1 d"), "NO (a OR b) FOR 1 d"),
    ],
)
def test_operators(pattern: PatternText, when: str) -> None:
    """Every operator has a method, and nesting needs no thought about precedence."""
    events = " ".join(declaration for _, declaration in pattern.events)
    assert (subscription("s", pattern),) == parse(f"SUBSCRIPTION s {events} WHEN {when}")


def test_clauses() -> None:
    """Every other clause has a parameter."""
    timed = event("t", times=("from", "to"))
    built = subscription(
        "s", timed, context="cumulative", unbounded=True, deliver="EVENTS", since="2026-01-01T00:00:00Z"
    )
    text = """SUBSCRIPTION s SINCE "2026-01-01T00:00:00Z" EVENT t DURING ?from ?to WHEN t
        CONTEXT cumulative UNBOUNDED EVENTS"""
    assert (built,) == parse(text)
    assert built.delivery == Events()
    assert (subscription("s", A, construct=["?a <urn:p> 1", "?a <urn:q> 2"]),) == parse(
        "SUBSCRIPTION s EVENT a { ?a <urn:v> ?a1 } WHEN a CONSTRUCT { ?a <urn:p> 1 } CONSTRUCT { ?a <urn:q> 2 }"
    )


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: event("when"), "'when' cannot name an event"),
        (lambda: subscription("a b", A), "'a b' cannot name a subscription"),
        (lambda: event("a", body="?a ?b ?c } WHEN a {"), "'}' closes nothing"),
        (lambda: A.filter("?a) OR (?b"), "')' closes nothing"),
        (lambda: subscription("s", A.or_(event("a"))), "two different events are called 'a'"),
        (lambda: subscription("s", A.before(B), context="chronicle"), "BEFORE has no bound"),
        (lambda: subscription("s", A, select=["z"]), "?z in SELECT is in no EVENT"),
    ],
)
def test_refusals(make: Callable[[], object], reason: str) -> None:
    """What is wrong in Python is refused as it is in text."""
    with pytest.raises(UsageError) as caught:
        make()
    assert reason in str(caught.value)


def test_deep_chains_are_refused() -> None:
    """A long chain of calls is a refusal, not a RecursionError."""
    pattern = A
    for _ in range(500):
        pattern = no(pattern, "1 s")
    with pytest.raises(SubscriptionError, match="200 operators deep"):
        subscription("s", pattern)


def test_a_class_is_an_iri_or_a_name_with_a_prefix() -> None:
    """A prefix of the subscription is expanded; other texts with a colon are IRIs."""
    for class_ in ("ex:Alarm", "urn:ex#Alarm"):
        pattern = event("e", class_)
        built = subscription("s", pattern, prefixes={"ex": "urn:ex#"})
        assert (built,) == parse("SUBSCRIPTION s EVENT e : <urn:ex#Alarm> WHEN e")


def test_since_is_text_or_a_datetime_with_a_zone() -> None:
    for since in ("1970-01-01T00:00:01Z", datetime.fromtimestamp(1, UTC)):
        assert subscription("s", event("e"), since=since).since == 1_000_000
    with pytest.raises(UsageError, match="has no zone"):
        subscription("s", event("e"), since=datetime(2026, 1, 1))
