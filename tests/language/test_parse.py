"""The `motet` surface: what the page's own examples become, and where faults are reported."""

from __future__ import annotations

import re

import pytest

from motet.language.parse import parse
from motet.language.syntax import (
    Alongside,
    And,
    Construct,
    Context,
    Event,
    Events,
    Expression,
    Filter,
    GroupPattern,
    Leaf,
    No,
    Or,
    Pattern,
    Run,
    Select,
    Signal,
    Subscription,
    Template,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.model.errors import SubscriptionError, UsageError
from motet.model.intervals import Relation

EX = "http://example.org/building#"
SECOND, MINUTE = 1_000_000, 60_000_000
A, B, C = Leaf("a"), Leaf("b"), Leaf("c")

REAL_FIRE = """
PREFIX ex: <http://example.org/building#>

SUBSCRIPTION real-fire
  EVENT smoke : ex:SmokeAlarm  { ?smoke ex:room ?room ; ex:level ?level . FILTER(?level > 3) }
  EVENT heat  : ex:HeatAlarm   { ?heat  ex:room ?room }
  EVENT drill : ex:FireDrill   { ?drill ex:room ?room }
  WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
  CONTEXT chronicle
  SELECT ?room ?level
"""


def pattern_of(pattern: str) -> Pattern:
    """The tree of a pattern over those of the events a, b and c that it uses."""
    used = [name for name in "abc" if re.search(rf"(?<![?\w]){name}(?!\w)", pattern)]
    events = " ".join(f"EVENT {name} {{ ?{name} <urn:v> ?{name}1 }}" for name in used)
    return parse(f"SUBSCRIPTION s {events} WHEN {pattern} CONTEXT recent UNBOUNDED")[0].pattern


def refusal(text: str) -> SubscriptionError:
    with pytest.raises(SubscriptionError) as caught:
        parse(text)
    return caught.value


def body(name: str) -> GroupPattern:
    return GroupPattern(f"?{name} <{EX}room> ?room", frozenset({name, "room"}))


def test_first_look() -> None:
    """The page's first example is this tree."""
    smoke = GroupPattern(
        f"?smoke <{EX}room> ?room ; <{EX}level> ?level . FILTER ( ?level > 3 )", frozenset({"smoke", "room", "level"})
    )
    assert parse(REAL_FIRE) == (
        Subscription(
            "real-fire",
            (
                Event("smoke", EX + "SmokeAlarm", smoke),
                Event("heat", EX + "HeatAlarm", body("heat")),
                Event("drill", EX + "FireDrill", body("drill")),
            ),
            Unless(Within(Timed(Relation.BEFORE, Leaf("smoke"), Leaf("heat")), 5 * MINUTE), Leaf("drill"), 10 * MINUTE),
            Context.CHRONICLE,
            delivery=Select(("room", "level")),
        ),
    )


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a AND b AND c", And(And(A, B), C)),
        ("a OR b AND c", Or(A, And(B, C))),
        ("a AND b BEFORE c", And(A, Timed(Relation.BEFORE, B, C))),
        ("a BEFORE b MET BY c", Timed(Relation.MET_BY, Timed(Relation.BEFORE, A, B), C)),
        ("a ALONGSIDE b", Alongside(A, B)),
        ("a XOR b WITHIN 2 s", Xor(A, B, 2 * SECOND)),
        ("a XOR b WITHIN 2 s WITHIN 3 s", Within(Xor(A, B, 2 * SECOND), 3 * SECOND)),
        ("a UNLESS b WITHIN 1 s WITHIN 2 s", Within(Unless(A, B, SECOND), 2 * SECOND)),
        ("(a BEFORE c) WITHOUT b", Without(Timed(Relation.BEFORE, A, C), B)),
        ("a{3}", Times(A, 3)),
        ("a{3} EVERY 1 s", Times(A, 3, SECOND)),
        ("a+ EVERY 1 s", Run(A, SECOND)),
        ("NO NO a FOR 1 s FOR 2 s", No(No(A, SECOND), 2 * SECOND)),
        ("NO a FOR 1 s {2}", Times(No(A, SECOND), 2)),
        ("(((a)))", A),
        ("a AND b FILTER(?a1 > ?b1)", Filter(And(A, B), Expression("?a1 > ?b1", frozenset({"a1", "b1"})))),
    ],
)
def test_patterns(text: str, tree: Pattern) -> None:
    """Precedence and associativity are those of the page's grammar."""
    assert pattern_of(text) == tree


@pytest.mark.parametrize("relation", list(Relation))
def test_relations(relation: Relation) -> None:
    """Every Allen relation is written as on the page, in any case."""
    assert pattern_of(f"a {relation.value.lower()} b") == Timed(relation, A, B)


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1 us", 1),
        ("1 ms", 1_000),
        ("0.5 s", 500_000),
        ("5min", 5 * MINUTE),
        ("1 h", 60 * MINUTE),
        ("1 d", 24 * 60 * MINUTE),
        ('"PT5M"^^xsd:dayTimeDuration', 5 * MINUTE),
        ("'P1DT0.5S'^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>", 24 * 60 * MINUTE + 500_000),
    ],
)
def test_durations(text: str, micros: int) -> None:
    """Durations are whole microseconds, however they are written."""
    assert pattern_of(f"a WITHIN {text}") == Within(A, micros)


@pytest.mark.parametrize("name", ["s", "d", "min", "recent", "us"])
def test_units_and_contexts_are_no_keywords(name: str) -> None:
    """A unit or a context may name an event, since it can only stand where no event can."""
    assert parse(f"SUBSCRIPTION s EVENT {name} WHEN {name} WITHIN 5 s")[0].pattern == Within(Leaf(name), 5 * SECOND)


def test_deliveries() -> None:
    """Each delivery clause has its own tree, and SELECT * is the default."""
    head = "SUBSCRIPTION s EVENT a WHEN a "
    template = Template("?a <urn:p> [ ]", frozenset({"a"}))
    clauses = {
        "": Select(),
        "SELECT *": Select(),
        "SELECT ?a $a": Select(("a",)),
        "SIGNAL": Signal(),
        "EVENTS": Events(),
        "CONSTRUCT { ?a <urn:p> [] } CONSTRUCT {}": Construct((template, Template("", frozenset()))),
    }
    assert {clause: parse(head + clause)[0].delivery for clause in clauses} == clauses


def test_since() -> None:
    """SINCE takes an xsd:dateTime, with or without its datatype."""
    texts = ["'1970-01-01T00:00:01Z'", "'1970-01-01T00:00:01Z'^^xsd:dateTime"]
    assert [parse(f"SUBSCRIPTION s SINCE {t} EVENT a WHEN a")[0].since for t in texts] == [SECOND, SECOND]


def test_names_are_expanded() -> None:
    """Prefixes, the base, layout, comments and the sign of a variable leave no trace in a body."""
    bare = "SUBSCRIPTION s EVENT a : <http://x/C> { ?a <http://x/p> '#'@en , \"5\"^^<http://x/d> } WHEN a"
    dressed = """BASE <http://x/y> PREFIX x: <> PREFIX : <http://x/>
        SUBSCRIPTION s EVENT a : :C { $a # a comment with } in it
           <p> '#'@en, "5" ^^ :d } WHEN a"""
    assert parse(bare) == parse(dressed)


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("?a <urn:p> ?x FILTER(?y > 1)", {"a", "x"}),
        ("?a <urn:p> ?x OPTIONAL { ?x <urn:q> ?y }", {"a", "x", "y"}),
        ("?a <urn:p> ?x MINUS { ?x <urn:q> ?y }", {"a", "x"}),
        ("{ ?a <urn:p> ?x } UNION { ?a <urn:p> ?y }", {"a", "x", "y"}),
        ("?a <urn:p> ?x BIND(?z + 1 AS ?y)", {"a", "x", "y"}),
        ("VALUES (?x ?y) { (1 UNDEF) }", {"x", "y"}),
        ("?a <urn:p>/<urn:q>* [ <urn:r> ?x ]", {"a", "x"}),
        ("?a <urn:p> ?x FILTER EXISTS { ?a <urn:q> ?y }", {"a", "x"}),
        ("", set()),
    ],
)
def test_variables_in_scope(text: str, variables: set[str]) -> None:
    """A body's variables are those SPARQL counts as in scope: a FILTER, MINUS or EXISTS adds none."""
    event = parse(f"SUBSCRIPTION s EVENT a {{ {text} }} WHEN a")[0].events[0]
    assert event.body is not None
    assert event.body.variables == variables


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("", "1:1", "there is no subscription"),
        ("SUBSCRIPTION s EVENT a WHEN", "1:28", "ends too early"),
        ("SUBSCRIPTION s EVENT a WHEN a a", "1:31", "an operator is missing before 'a'"),
        ("SUBSCRIPTION s EVENT when WHEN a", "1:22", "is a keyword"),
        ("SUBSCRIPTION by EVENT a WHEN a", "1:14", "is a keyword"),
        ("SUBSCRIPTION s EVENT a:b WHEN a", "1:22", "white space must surround"),
        ("SUBSCRIPTION s EVENT a WHEN a CONTEXT newest", "1:39", "not a context"),
        ("SUBSCRIPTION s EVENT a WHEN a ~", "1:31", "'~' cannot stand here"),
        ("SUBSCRIPTION s SINCE 'x EVENT a WHEN a", "1:22", "string that does not end"),
        ("SUBSCRIPTION s\nEVENT a {\n ?a ex:p ?x } WHEN a", "3:5", "'ex' is not a declared prefix"),
        ("SUBSCRIPTION s EVENT a : b:C WHEN a", "1:26", "'b' is not a declared prefix"),
        ("SUBSCRIPTION s EVENT a { ?a <p> ?x } WHEN a", "1:29", "relative"),
        ("SUBSCRIPTION s EVENT a { ?a ?p ?x WHEN a", "1:24", "never closed"),
        ("SUBSCRIPTION s EVENT a { (] } WHEN a", "1:27", "closes nothing"),
        ("SUBSCRIPTION s EVENT a {\n GRAPH ?g { ?a ?p ?x } } WHEN a", "2:2", "GRAPH is not allowed"),
        ("SUBSCRIPTION s EVENT a { SERVICE ?g { ?a ?p ?x } } WHEN a", "1:26", "SERVICE is not allowed"),
        ("SUBSCRIPTION s EVENT a { { SELECT ?a { ?a ?p ?x } } } WHEN a", "1:28", "a subquery is not allowed"),
        ("SUBSCRIPTION s EVENT a { ?a ?p ?x } WHEN a FILTER(EXISTS { ?a ?p ?x })", "1:51", "sees bindings"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 5 weeks", "1:40", "not a unit"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 0 s", "1:38", "longer than zero"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN -5 s", "1:38", "longer than zero"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 0.5 us", "1:38", "whole number of microseconds"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 1e3 s", "1:38", "plain digits"),
        (f"SUBSCRIPTION s EVENT a WHEN a WITHIN {'9' * 5000} s", "1:38", "plain digits"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 1000000 d", "1:38", "hundred years"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 'P'^^xsd:dayTimeDuration", "1:38", "not an xsd:dayTimeDuration"),
        ("SUBSCRIPTION s EVENT a WHEN a WITHIN 'P1D'^^xsd:duration", "1:43", "is an xsd:dayTimeDuration"),
        ("SUBSCRIPTION s EVENT a WHEN a{0}", "1:31", "1 to 1000000 members"),
        (f"SUBSCRIPTION s EVENT a WHEN a{{{'9' * 5000}}}", "1:31", "1 to 1000000 members"),
        ("SUBSCRIPTION s SINCE 'yesterday' EVENT a WHEN a", "1:22", "not an xsd:dateTime"),
        ("SUBSCRIPTION s SINCE '2026-01-01T00:00:00Z'^^xsd:date EVENT a WHEN a", "1:44", "takes an xsd:dateTime"),
        ("SUBSCRIPTION s EVENT a WHEN a UNLESS a", "1:39", "ends too early"),
        ("SUBSCRIPTION s EVENT a { " + "{ " * 40 + "} " * 40 + "} WHEN a", "1:90", "32 deep"),
        ("SUBSCRIPTION s EVENT a { " + "?a ?p ?x . " * 600 + "} WHEN a", "1:24", "2000 tokens"),
    ],
)
def test_faults_have_a_place(text: str, place: str, reason: str) -> None:
    """Whatever is wrong is reported with its line, its column and a reason."""
    error = refusal(text)
    assert (f"{error.line}:{error.column}", reason in str(error)) == (place, True), str(error)


def test_the_source_is_named() -> None:
    """An error begins with the name of the document it is about."""
    with pytest.raises(SubscriptionError, match=r"^fire\.motet: line 1, column 1"):
        parse("", source="fire.motet")


def test_size_is_limited() -> None:
    """A document of more than a mebibyte is refused before it is read."""
    assert "1048576 characters" in str(refusal(" " * (1 << 20) + "SUBSCRIPTION"))


def test_patterns_are_limited() -> None:
    """A pattern of hundreds of thousands of words is refused before it is parsed."""
    assert "more than 10000 words" in str(refusal("SUBSCRIPTION s EVENT a WHEN " + "(" * 500_000 + "a"))


def test_unknown_syntax() -> None:
    """Asking for a surface that is not there lists those that are."""
    with pytest.raises(UsageError, match="use one of motet"):
        parse("", syntax="klingon")
