"""The surfaces sparql, jtang and cecube compile to the same trees as the motet surface."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from motet import reference
from motet.language.cecube_surface import to_cecube
from motet.language.jtang_surface import to_jtang
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Select, Subscription
from motet.model.errors import SubscriptionError, UsageError
from motet.model.terms import RDF_TYPE, iri
from motet.model.times import END_OF_TIME

PROLOGUE = "PREFIX : <urn:c:>\n"


def same(text: str, syntax: str, when: str, rest: str = "") -> None:
    """The text means the motet pattern ``when`` over classes named like its events."""
    parsed = parse(PROLOGUE + text, syntax=syntax)
    events = " ".join(f"EVENT {event.name} : <{event.class_iri}>" for event in parsed[0].events)
    assert parsed == parse(f"SUBSCRIPTION query {events} WHEN {when} {rest}")


@pytest.mark.parametrize(
    ("text", "when", "rest"),
    [
        ("A", "A", ""),
        ("(A & B)_5s", "A AND B WITHIN 5 s", ""),
        ("A & B", "A AND B", "UNBOUNDED"),
        ("A | B", "A OR B", ""),
        ("(A || B)_{1 h}", "A ALONGSIDE B WITHIN 1 h", ""),
        ("(-A)_5min", "NO A FOR 5 min", ""),
        ('(A - B)_"PT5M"', "A UNLESS B WITHIN 5 min", ""),
        ("A^3", "A{3}", ""),
        ("(A^3)_1s", "A{3} EVERY 1 s", ""),
        ("(A^*)_1s", "A+ EVERY 1 s", "UNBOUNDED"),
        ("((A^*)_1s)_1h", "A+ EVERY 1 s WITHIN 1 h", ""),
        ("A before B", "A BEFORE B", "UNBOUNDED"),
        ("A meets B overlaps C", "A MEETS B OVERLAPS C", "UNBOUNDED"),
        ("(A finishes B)_1s | (A includes C)_1s", "(A FINISHES B WITHIN 1 s) OR (A_2 INCLUDES C WITHIN 1 s)", ""),
        ("(A starts B equals C)_1 d", "A STARTS B EQUALS C WITHIN 1 d", ""),
        ("A & A", "A AND A_2", "UNBOUNDED"),
        ("(A | B & C || D before E^2)_1s", "A OR B AND (C ALONGSIDE (D BEFORE E{2})) WITHIN 1 s", ""),
        ("(A & B - C)_1s", "A AND B UNLESS C WITHIN 1 s", "UNBOUNDED"),
        ("(A - B)_1s | C", "(A UNLESS B WITHIN 1 s) OR C", ""),
        ("(-A^2)_1s", "NO (A{2}) FOR 1 s", ""),
    ],
)
def test_jtang(text: str, when: str, rest: str) -> None:
    """Each symbol of JTangCSPS has its operator, its precedence, and the T of its parentheses."""
    same(text, "jtang", when, f"CONTEXT chronicle {rest}")


@pytest.mark.parametrize(
    ("text", "when", "rest"),
    [
        ("[and(A, B)]", "A AND B", "CONTEXT recent UNBOUNDED"),
        ("[and(A/*, B/T1)]/5 min", "A AND B WITHIN 5 min", ""),
        ("[and(A, B, C)]/5 s", "A AND B AND C WITHIN 5 s", ""),
        ("[or(A, [before(B, C)]/5 s)]", "A OR (B BEFORE C WITHIN 5 s)", ""),
        ("[xor(A, B)]/5 s", "A XOR B WITHIN 5 s", ""),
        ("[not(A)]/5 s", "NO A FOR 5 s", ""),
        ("[not(A/'PT5S')]", "NO A FOR 5 s", ""),
        ("[met by(A, B)]", "A MET BY B", "CONTEXT recent UNBOUNDED"),
        ("[overlappedBy(A, B)]", "A OVERLAPPED BY B", "CONTEXT recent UNBOUNDED"),
        ("[during(A/5 s, [equals(A, B)])]/1 h", "(A WITHIN 5 s) DURING (A_2 EQUALS B) WITHIN 1 h", ""),
    ],
)
def test_cecube(text: str, when: str, rest: str) -> None:
    """Each function of CECube has its operator, and a duration bounds it."""
    same(text, "cecube", when, rest)


DIFFERENCES = {
    "jtang": [
        ("A & (-S)_5s", "A UNLESS S WITHIN 5 s", ""),
        ("(-S)_5s & A", "A UNLESS S WITHIN 5 s", ""),
        ("A & ((-S)_5s)", "A UNLESS S WITHIN 5 s", ""),
        ("A & B & (-S)_5s", "(A AND B) UNLESS S WITHIN 5 s", "UNBOUNDED"),
        ("A & (-S)_5s & B", "(A AND B) UNLESS S WITHIN 5 s", "UNBOUNDED"),
        ("(-S)_5s & A & B", "(A AND B) UNLESS S WITHIN 5 s", "UNBOUNDED"),
        ("(A & B)_1h & (-S)_5s", "(A AND B WITHIN 1 h) UNLESS S WITHIN 5 s", ""),
        ("(A & B & (-S)_5s)_1h", "((A AND B) UNLESS S WITHIN 5 s) WITHIN 1 h", ""),
        ("(A & (-S)_5s)_1h", "(A UNLESS S WITHIN 5 s) WITHIN 1 h", ""),
        ("(A & (-S)_5s) & B", "(A UNLESS S WITHIN 5 s) AND B", "UNBOUNDED"),
        ("((A before B) & (-S)_5s)", "(A BEFORE B) UNLESS S WITHIN 5 s", "UNBOUNDED"),
        ("(-R)_1s & (-S)_5s", "NO R FOR 1 s AND NO S FOR 5 s", "UNBOUNDED"),
        ("(A & (-R)_1s & (-S)_5s)_1h", "A AND NO R FOR 1 s AND NO S FOR 5 s WITHIN 1 h", ""),
        ("A | (-S)_5s", "A OR NO S FOR 5 s", ""),
        ("(A before (-S)_5s)_1h", "A BEFORE NO S FOR 5 s WITHIN 1 h", ""),
    ],
    "cecube": [
        ("[and(A, [not(S)]/5 s)]", "A UNLESS S WITHIN 5 s", ""),
        ("[and([not(S)]/5 s, A)]", "A UNLESS S WITHIN 5 s", ""),
        ("[and(A, [not(S/5 s)])]", "A UNLESS S WITHIN 5 s", ""),
        ("[and(A, B, [not(S)]/5 s)]", "(A AND B) UNLESS S WITHIN 5 s", "CONTEXT recent UNBOUNDED"),
        ("[and(A, [not(S)]/5 s, B)]/1 h", "((A AND B) UNLESS S WITHIN 5 s) WITHIN 1 h", ""),
        ("[and([and(A, B)]/1 h, [not(S)]/5 s)]", "(A AND B WITHIN 1 h) UNLESS S WITHIN 5 s", ""),
        ("[and(A, [and(B, [not(S)]/5 s)])]/1 h", "A AND (B UNLESS S WITHIN 5 s) WITHIN 1 h", ""),
        ("[and([not(R)]/1 s, [not(S)]/5 s)]", "NO R FOR 1 s AND NO S FOR 5 s", "CONTEXT recent UNBOUNDED"),
        ("[and(A, [not(R)]/1 s, [not(S)]/5 s)]/1 h", "A AND NO R FOR 1 s AND NO S FOR 5 s WITHIN 1 h", ""),
        ("[or(A, [not(S)]/5 s)]", "A OR NO S FOR 5 s", ""),
    ],
}


@pytest.mark.parametrize(
    ("syntax", "text", "when", "rest"), [(syntax, *row) for syntax, rows in DIFFERENCES.items() for row in rows]
)
def test_conjunctions_with_a_negation(syntax: str, text: str, when: str, rest: str) -> None:
    """“A conjunction with exactly one negated operand, on either side, is a difference […]; a T of the conjunction is a
    WITHIN over it; two negations stay AND. […] Both are UNBOUNDED where a T is missing.”
    """
    same(text, syntax, when, f"CONTEXT chronicle {rest}" if syntax == "jtang" else rest)


def test_absence_of_the_paper() -> None:
    """“`((S1 before S2) & (¬S3)_T)` with E1 10:00, E2 10:01 and no E3 within T after E2 gives one notification {E1,
    E2}, also when there never was an E3.”
    """
    subscriptions = parse(PROLOGUE + "((S1 before S2) & (-S3)_5min)", syntax="jtang")

    def notified(*events: tuple[str, int]) -> list[tuple[str, ...]]:
        at = [event(f"urn:{name}:{minute}", minute * 60_000_000, name) for name, minute in events]
        first, last = reference.SubscribeRecord(0, subscriptions[0]), reference.TickRecord(0, END_OF_TIME)
        records: list[reference.Record] = [first, *at, last]
        placed = [replace(record, offset=offset) for offset, record in enumerate(records)]
        return [notification.events for notification in reference.evaluate(placed, lateness=None)]

    def event(name: str, time: int, class_: str) -> reference.EventRecord:
        return reference.EventRecord(0, name, time, time, frozenset({(iri(name), RDF_TYPE, iri(f"urn:c:{class_}"))}))

    pair = ("S1", 600), ("S2", 601)
    assert notified(*pair) == [("urn:S1:600", "urn:S2:601")]
    assert notified(*pair, ("S3", 607)) == [("urn:S1:600", "urn:S2:601")]
    assert notified(*pair, ("S3", 606)) == []


def test_cecube_delivers_no_negated_event() -> None:
    """Where times are limited, the events of an occurrence are selected, not those of a negation."""
    (subscription,) = parse(PROLOGUE + "[and(A/T1, B/T1, [not(S)]/5 s)]", syntax="cecube")
    assert subscription.delivery == Select(("A", "B"))


def in_order(subscription: Subscription) -> Subscription:
    """The subscription with its events by name: their order says nothing."""
    return replace(subscription, events=tuple(sorted(subscription.events, key=lambda event: event.name)))


@pytest.mark.parametrize("syntax", ["jtang", "cecube"])
def test_writing(syntax: str) -> None:
    """What is written reads back as the same tree."""
    texts = {
        "jtang": [
            *(row[0] for row in DIFFERENCES["jtang"]),
            "(A | B & C || D before E^2)_1s",
            "((A^*)_1s)_1h",
            "((A - (B | C))_2s - D)_1s | (-E^3)_1min",
            "((A | B)^2^3 & (C before (D meets E)))_1 d",
            "(A)_5s",
        ],
        "cecube": [
            *(row[0] for row in DIFFERENCES["cecube"]),
            "[met by([xor(A, [or(B, C, D)])]/5 s, E/3 s)]/1 h",
            "[during(A, [not(B/1 s)]/2 s)]",
            "[and([and(A, [not(B)]/1 s)]/2 s, [not([and(C, D)])]/3 s)]",
        ],
    }
    write = to_jtang if syntax == "jtang" else to_cecube
    for text in texts[syntax]:
        subscriptions = parse(PROLOGUE + text, syntax=syntax)
        for prefixes in ({}, {"c": "urn:c:"}, {"": "urn:c:"}):
            back = parse(write(subscriptions, prefixes), syntax=syntax)
            assert [in_order(each) for each in back] == [in_order(each) for each in subscriptions], text


@pytest.mark.parametrize(
    ("syntax", "rest", "reason"),
    [
        ("jtang", "WHEN A AND NO S FOR 5 s WITHIN 1 h", "`A AND NO S FOR 5 s` has no form: there a conjunction"),
        ("cecube", "WHEN NO S FOR 5 s AND A", "`NO S FOR 5 s AND A` has no form: there a conjunction"),
        ("jtang", "WHEN A AFTER S WITHIN 1 h", "has no AFTER, as in `A AFTER S`"),
        ("jtang", "WHEN A XOR S WITHIN 1 h", "has no XOR"),
        ("jtang", "WHEN A AND S{2} WITHIN 1 h SELECT ?A", "SELECT *"),
        ("jtang", "WHEN A OR (S{2} WITHIN 1 h)", "has no WITHIN over an iteration without EVERY"),
        ("cecube", "WHEN A ALONGSIDE S", "has no ALONGSIDE"),
        ("cecube", "WHEN (A XOR S WITHIN 1 s) WITHIN 5 s", "has no WITHIN over XOR"),
        ("cecube", "WHEN NO A FOR 1 s UNLESS S WITHIN 5 s", "two negations stay AND"),
        ("cecube", "WHEN A OR S{2}", "has no TIMES"),
    ],
)
def test_writing_refusals(syntax: str, rest: str, reason: str) -> None:
    """What a surface cannot express is refused by name: “`A AND NO S FOR T` cannot be written in them”."""
    context = "CONTEXT chronicle" if syntax == "jtang" else ""
    when, select, names = rest.partition(" SELECT")
    subscriptions = parse(f"SUBSCRIPTION s EVENT A : <urn:A> EVENT S : <urn:S> {when} {context} {select}{names}")
    with pytest.raises(UsageError, match=f"subscription 's' cannot be written in {syntax}: .*{re.escape(reason)}"):
        (to_jtang if syntax == "jtang" else to_cecube)(subscriptions, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("EVENT a : <urn:A> WHEN a", "it would name an event of class <urn:A> 'A'"),
        ("EVENT A : <urn:A> EVENT B : <urn:B> WHEN A OR (A BEFORE B WITHIN 5 s)", "'A_2'"),
        ("EVENT A WHEN A", "EVENT A is more than a class"),
        ("EVENT A : <urn:A> { ?A <urn:p> ?x } WHEN A", "EVENT A is more than a class"),
    ],
)
def test_writing_names(text: str, reason: str) -> None:
    """Events are named after their classes, so that notifications have the same variables."""
    with pytest.raises(UsageError, match=re.escape(reason)):
        to_jtang(parse(f"SUBSCRIPTION s {text} CONTEXT chronicle"), {})
    with pytest.raises(UsageError, match="its context is always chronicle"):
        to_jtang(parse(f"SUBSCRIPTION s {text}"), {})
    with pytest.raises(UsageError, match="has no SINCE"):
        to_jtang(parse(f'SUBSCRIPTION s SINCE "2026-01-01T00:00:00Z" {text} CONTEXT chronicle'), {})


def test_cecube_times() -> None:
    """Instants and spans limit the events below them; leaves with the same named time must share an instant."""
    text = """PREFIX : <urn:c:>
        [and(A/T1, [or(B/T1, C/2026-01-01T00:00:00Z)], D/2026-01-01T00:00:00Z..2026-01-05T00:00:00Z)]"""
    time = '"2026-01-0{}T00:00:00.000000Z"^^xsd:dateTime'
    meaning = f"""PREFIX : <urn:c:> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
        SUBSCRIPTION query
        EVENT A : :A DURING ?A_start ?A_end
        EVENT B : :B DURING ?B_start ?B_end
        EVENT C : :C DURING ?C_start ?C_end
        EVENT D : :D DURING ?D_start ?D_end
        WHEN (A AND (B OR (C FILTER(?C_start >= {time.format(1)} && ?C_end <= {time.format(1)})))
              FILTER((!BOUND(?B_start) || ?A_start <= ?B_end && ?B_start <= ?A_end)))
             AND (D FILTER(?D_start >= {time.format(1)} && ?D_end <= {time.format(5)}))
        CONTEXT recent UNBOUNDED SELECT ?A ?B ?C ?D"""
    assert parse(text, syntax="cecube") == parse(meaning)


def test_cecube_page_example() -> None:
    """The page's own form: E3 and E1 share an instant, the lone name T2 says nothing."""
    text = "PREFIX : <urn:c:> [and(E3/T1, [and(E1/T1, E2/T2)])]"
    meaning = """PREFIX : <urn:c:> SUBSCRIPTION query
        EVENT E3 : :E3 DURING ?E3_start ?E3_end EVENT E1 : :E1 DURING ?E1_start ?E1_end EVENT E2 : :E2
        WHEN E3 AND (E1 AND E2) FILTER(?E3_start <= ?E1_end && ?E1_start <= ?E3_end)
        CONTEXT recent UNBOUNDED SELECT ?E3 ?E1 ?E2"""
    assert parse(text, syntax="cecube") == parse(meaning)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "SELECT DISTINCT ?g ?x WHERE { GRAPH ?g { ?s :p ?x } FILTER(?x > 3) }",
            "EVENT g { ?s :p ?x FILTER(?x > 3) } WHEN g SELECT ?g ?x",
        ),
        (
            "SELECT * { FILTER regex(?x, 'a') . GRAPH ?e { ?s :p ?x . } }",
            "EVENT e { ?s :p ?x . FILTER regex(?x, 'a') } WHEN e",
        ),
    ],
)
def test_sparql(text: str, meaning: str) -> None:
    """A query over one GRAPH is a subscription to single events."""
    assert parse(PROLOGUE + text, syntax="sparql") == parse(f"{PROLOGUE} SUBSCRIPTION query {meaning}")


@pytest.mark.parametrize("syntax", ["jtang", "cecube"])
def test_documents_with_names(syntax: str) -> None:
    """A document may hold several subscriptions, each with a header, comments and its own prologue."""
    patterns = {"jtang": ("x:A", "(<urn:c:B> & C)_1s"), "cecube": ("[or(x:A,C)]", "[and(<urn:c:B>, C)]/1 s")}
    first, second = patterns[syntax]
    text = f"# two\nBASE <urn:b:x> PREFIX x: <y>\nSUBSCRIPTION one {first} # first\nSUBSCRIPTION the-other {second}"
    parsed = parse(text.replace("<y>", "<urn:y>").replace("<urn:b:x>", "<http://b/x>"), syntax=syntax)
    assert [subscription.name for subscription in parsed] == ["one", "the-other"]
    assert parsed[0].events[0].class_iri == "urn:yA"
    assert parsed[1].events[1].class_iri == "http://b/C"
    assert parse(to_text(parsed)) == parsed


@pytest.mark.parametrize(
    ("syntax", "text", "column", "reason"),
    [
        ("jtang", "A - B", 3, "'-' needs a T"),
        ("jtang", "-A", 1, "'-' needs a T"),
        ("jtang", "A^*", 2, "'^' needs a T"),
        ("jtang", "(A - B - C)_1s", 4, "'-' needs a T"),
        ("jtang", "(A & B)_5", 10, "not an expression"),
        ("jtang", "(A & B)_5weeks", 10, "not a unit"),
        ("jtang", "A & x:B", 5, "'x' is not a declared prefix"),
        ("jtang", "", 1, "not an expression"),
        ("jtang", "SUBSCRIPTION or A", 14, "'or' cannot be a subscription's name"),
        ("cecube", "SUBSCRIPTION within [or(A,B)]", 14, "'within' cannot be a subscription's name"),
        ("jtang", "A^0", 3, "1 to 1000000 members"),
        ("jtang", "(" * 3 + "A" + ")" * 2, 7, "not an expression"),
        ("jtang", "(-" * 300 + "A" + ")_1s" * 300, 402, "200 operators deep"),
        ("cecube", "[xor(A, B)]", 2, "'xor' needs a duration"),
        ("cecube", "[not(A)]", 2, "'not' needs a duration"),
        ("cecube", "[not(A, B)]/1 s", 2, "takes 1 event, not 2"),
        ("cecube", "[and(A)]", 2, "takes 2 events, not 1"),
        ("cecube", "[before(A, B, C)]", 2, "takes 2 events, not 3"),
        ("cecube", "[and(A, B)]/T", 13, "a name limits leaves"),
        ("cecube", "[and(A, [not(B)]/1 s)]/2026-01-01T00:00:00Z", 24, "an absence has no event"),
        ("cecube", "[and(A/2026-01-02T00:00:00Z..2026-01-01T00:00:00Z, B)]", 8, "ends before it begins"),
        ("cecube", "[and(A/2026-13-01T00:00:00Z, B)]", 8, "not an xsd:dateTime"),
        ("cecube", "[nand(A, B)]", 2, "not a composite event"),
        ("cecube", "A", 1, "not a composite event"),
        ("cecube", "[and(A," * 300 + "B" + ")]" * 300, 701, "nested more than 100 deep"),
        ("sparql", "SELECT ?x { ?s :p ?x }", 13, "beside one GRAPH"),
        ("sparql", "SELECT ?x { GRAPH ?g { ?s :p ?x } GRAPH ?h { ?s :p ?x } }", 35, "beside one GRAPH"),
        ("sparql", "SELECT ?x {}", 12, "there is no GRAPH"),
        ("sparql", "SELECT ?z { GRAPH ?g { ?s :p ?x } }", 8, "?z in SELECT is in no EVENT"),
        ("sparql", "SELECT ?x { GRAPH ?g { ?s :p ?x } } LIMIT 3", 37, "no solution modifiers"),
        ("sparql", "SELECT (1 AS ?x) { GRAPH ?g { ?s :p ?x } }", 8, "only variables can be selected"),
        ("sparql", "SELECT ?x { GRAPH ?when { ?s :p ?x } }", 19, "?when cannot name an event"),
        ("sparql", "SELECT ?x { GRAPH ?g { ?s :p ?x } FILTER(NOT EXISTS {}) }", 46, "EXISTS beside GRAPH"),
        ("sparql", "SELECT ?x { GRAPH ?g { ?s :p ?x } FILTER EXISTS {} }", 42, "EXISTS beside GRAPH"),
        ("sparql", "SELECT ?x { GRAPH ?g { GRAPH ?h { ?s :p ?x } } }", 24, "GRAPH is not allowed"),
        ("sparql", "ASK {}", 1, "SELECT is missing"),
        ("sparql", "SELECT ?x WHERE", 16, "'{' is missing"),
    ],
)
def test_refusals(syntax: str, text: str, column: int, reason: str) -> None:
    """What a surface does not have is refused at its place."""
    with pytest.raises(SubscriptionError) as caught:
        parse(PROLOGUE + text, syntax=syntax)
    error = caught.value
    place = (2, column) if text else (1, 18)
    assert (error.line, error.column, reason in str(error)) == (*place, True), str(error)


def test_bare_names_need_a_prefix() -> None:
    """A bare class name without a default prefix or base has no IRI."""
    with pytest.raises(SubscriptionError, match="line 1, column 11: 'B' is not an IRI"):
        parse("<urn:a> & B", syntax="jtang")


@pytest.mark.parametrize("syntax", ["jtang", "cecube"])
def test_size_is_limited(syntax: str) -> None:
    """A document of a small surface is small."""
    with pytest.raises(SubscriptionError, match="may have 65536 characters"):
        parse(PROLOGUE + "(" * 70_000, syntax=syntax)


def test_the_name_is_given() -> None:
    """A surface without names takes the name it is given, if it is one."""
    assert parse("SELECT ?g { GRAPH ?g {} }", syntax="sparql", name="every-event")[0].name == "every-event"
    with pytest.raises(UsageError, match="cannot name a subscription"):
        parse("SELECT ?g { GRAPH ?g {} }", syntax="sparql", name="no such name")
