"""One test per rule that refuses a well-formed subscription (language page, sections 3 and 7)."""

from __future__ import annotations

import pytest

from motet.language.parse import parse
from motet.model.errors import SubscriptionError

DECLARED = "".join(f"EVENT {name} {{ ?{name} <urn:v> ?{name}1 }}\n" for name in "abc")


def check(when: str, events: str = DECLARED) -> None:
    parse(f"SUBSCRIPTION s\n{events}WHEN\n{when}")


@pytest.mark.parametrize(
    ("when", "place", "reason"),
    [
        ("a OR b OR x", "6:11", "no event is called 'x'"),
        ("a OR b", "4:7", "the event 'c' is declared and not used"),
        ("a OR b OR c SELECT ?a1 ?z", "6:24", "?z in SELECT is in no EVENT"),
        ("(a AND b) FILTER(?a1 > ?z) OR c", "6:28", "cannot stand here"),
        ("((a AND b) FILTER(?a1 > ?z)) OR c", "6:25", "?z in FILTER is in no EVENT"),
        ("a OR b OR c CONSTRUCT { ?a <urn:p> ?z }", "6:36", "?z in CONSTRUCT is in no EVENT"),
        ("a{2} AND b AND c SELECT ?a1 ?a", "6:29", "?a is repeated"),
        ("(a OR (a AND b) {2}) AND c SELECT ?a", "6:35", "?a is repeated"),
        ("(a OR b) BEFORE (a OR c)", "6:10", "'a' is on both sides of BEFORE"),
        ("(a OR b) AND (a OR c)", "6:10", "'a' is on both sides of AND"),
        ("(a OR b) ALONGSIDE (a OR c)", "6:10", "'a' is on both sides of ALONGSIDE"),
        ("(a OR b) XOR (a OR c) WITHIN 1 s", "6:10", "'a' is on both sides of XOR"),
        ("(a OR b OR c) UNLESS a WITHIN 1 s", "6:15", "'a' is on both sides of UNLESS"),
        ("(a BEFORE (b OR c)) WITHOUT c", "6:21", "'c' is on both sides of WITHOUT"),
        ("a BEFORE b BEFORE c CONTEXT chronicle", "6:12", "BEFORE has no bound in the chronicle context"),
        ("(a AND b WITHIN 1 s) AND c CONTEXT unrestricted", "6:22", "AND has no bound in the unrestricted"),
        ("(a UNLESS b WITHIN 1 s) AND c CONTEXT continuous", "6:25", "AND has no bound in the continuous"),
        ("(a ALONGSIDE b) XOR c WITHIN 1 s CONTEXT cumulative", "6:4", "ALONGSIDE has no bound in the cumulative"),
        ("a+ EVERY 1 s OR b OR c", "6:2", "has no bound, so a run may never end"),
        ("(a OR b) WITHOUT c", "6:10", "WITHOUT needs a pair"),
        ("((a BEFORE b) OR c) WITHOUT d", "6:29", "no event is called 'd'"),
        ("((a AND b){2}) WITHOUT c", "6:16", "WITHOUT needs a pair"),
        ("(a UNLESS b WITHIN 1 s FILTER(?a1 > 1)) WITHOUT c", "6:41", "WITHOUT needs a pair"),
    ],
)
def test_refusals(when: str, place: str, reason: str) -> None:
    """What can never match, or never end, is refused at its place."""
    with pytest.raises(SubscriptionError) as caught:
        check(when)
    error = caught.value
    assert (f"{error.line}:{error.column}", reason in str(error)) == (place, True), str(error)


@pytest.mark.parametrize(
    "when",
    [
        "a BEFORE b BEFORE c WITHIN 5 s CONTEXT chronicle",
        "a BEFORE b BEFORE c CONTEXT chronicle UNBOUNDED",
        "a BEFORE b BEFORE c",
        "(a OR b) OR (a OR c)",
        "(a BEFORE b UNLESS c WITHIN 1 s WITHIN 2 s) WITHIN 5 s CONTEXT continuous",
        "(NO (a BEFORE b) FOR 1 s OR c) WITHIN 5 s CONTEXT cumulative",
        "(a+ EVERY 1 s WITHIN 1 h) OR b OR c",
        "(a+ EVERY 1 s OR b OR c) WITHIN 1 h",
        "a+ EVERY 1 s OR b OR c CONTEXT recent UNBOUNDED",
        "(a BEFORE b WITHIN 1 s) WITHOUT c WITHIN 1 h",
        "(a BEFORE b FILTER(?a1 < ?b1)) WITHOUT c",
        "a{2} AND b AND c SELECT ?b ?a1",
        "a{2} OR b OR c CONTEXT chronicle",
    ],
)
def test_acceptances(when: str) -> None:
    """What the page allows passes."""
    check(when)


def test_duplicate_event() -> None:
    """An event may be declared once only."""
    with pytest.raises(SubscriptionError, match="line 3, column 7: the event 'a' is declared twice"):
        check("a", "EVENT a\nEVENT a\n")


def test_duplicate_subscription() -> None:
    """Two subscriptions of one document have two names."""
    with pytest.raises(SubscriptionError, match="line 2, column 14: the subscription 's' is already"):
        parse("SUBSCRIPTION s EVENT a WHEN a\nSUBSCRIPTION s EVENT a WHEN a")


@pytest.mark.parametrize("pattern", ["(" * 1000 + "a" + ")" * 1000, "a" + " OR a" * 150])
def test_depth_allowed(pattern: str) -> None:
    """Parentheses cost nothing, and a chain of 150 operators is no danger."""
    check(pattern, "EVENT a\n")


@pytest.mark.parametrize("pattern", ["NO " * 900 + "a" + " FOR 1 s" * 900, "a" + " OR a" * 4_000])
def test_depth_refused(pattern: str) -> None:
    """A deep pattern is a refusal with a place, never a RecursionError."""
    with pytest.raises(SubscriptionError, match="more than 200 operators deep"):
        check(pattern, "EVENT a\n")


@pytest.mark.parametrize(
    "events", ["EVENT a DURING ?a ?b\n", "EVENT a DURING ?b ?b\n", "EVENT a DURING ?b ?c { ?a ?p ?c }\n"]
)
def test_times_are_fresh(events: str) -> None:
    """The variables of an event's interval are two, and not otherwise bound by the event."""
    with pytest.raises(SubscriptionError, match="cannot stand for a time of 'a'"):
        check("a", events)
