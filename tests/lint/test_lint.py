"""Each rule of lint with subscriptions that break it and subscriptions that do not."""

import pytest

from motet.language.parse import parse
from motet.lint.diagnostics import LocatedDiagnostic, Severity
from motet.lint.lint import SubscriptionDocument, lint
from motet.model.terms import OWL, RDF_TYPE, RDFS, XSD
from motet.model.times import END_OF_TIME
from motet.ontology.load import Ontology
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate
from motet.sparql import expressions
from motet.sparql.parse_cache import parse_expression

PREFIX = "PREFIX ex: <http://example.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
EVENTS = "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C"
ROOMS = (
    "EVENT a : ex:A { ?a ex:room ?room ; ex:level ?level } EVENT b : ex:B { ?b ex:room ?room } EVENT c : ex:C {"
    " ?c ex:room ?room ; ex:level ?other }"
)


def rules(*texts: str, ontology: Ontology | None = None, ignored: str = "latest-of-all") -> list[str]:
    """The names of the rules that some subscriptions break."""
    return [found.rule for found in diagnostics(*texts, ontology=ontology) if found.rule != ignored]


def diagnostics(*texts: str, ontology: Ontology | None = None) -> tuple[LocatedDiagnostic, ...]:
    text = PREFIX + "\n".join(f"SUBSCRIPTION s{number} {text}" for number, text in enumerate(texts))
    return lint([SubscriptionDocument(text, parse(text))], ontology)


def only(text: str, *ignored: str) -> list[str]:
    return [rule for rule in rules(text) if rule not in ("used-once", "unbounded-keys", *ignored)]


@pytest.mark.parametrize(
    "text",
    [
        "EVENT a : ex:A WHEN NO a FOR 10 min WITHIN 5 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN NO a FOR 10 min EQUALS NO b FOR 5 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN NO a FOR 5 min OVERLAPS NO b FOR 5 min WITHIN 5 min",
        "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C WHEN NO a FOR 5 min DURING (b AND c WITHIN 5 min)",
        "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C WHEN (NO a FOR 5 min STARTS b) BEFORE c WITHIN 5 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN a DURING b WITHIN 1 us",
        "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C WHEN (a BEFORE b) DURING c WITHIN 2 us",
        "EVENT a : ex:A WHEN (NO a FOR 5 min){3} EVERY 1 h WITHIN 4 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN (NO a FOR 5 min){2} EVERY 1 min EQUALS NO b FOR 7 min",
        "EVENT a : ex:A WHEN (NO a FOR 5 min)+ EVERY 1 h WITHIN 4 min",
        "EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?e < ?s)",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?s ?f WHEN a BEFORE b",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?e ?f WHEN a BEFORE b",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?s ?e WHEN a DURING b",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?t ?f WHEN a BEFORE b FILTER(?t < ?s)",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?t ?f WHEN a ALONGSIDE b FILTER(?e < ?t || ?f < ?s)",
        'EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s > "2026-01-02T00:00:00Z"^^xsd:dateTime && '
        '?e < "2026-01-01T00:00:00Z"^^xsd:dateTime)',
        'EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s < "2026-01-01T00:00:00Z"^^xsd:dateTime && '
        '?e > "2026-01-01T00:10:00Z"^^xsd:dateTime) WITHIN 5 min',
    ],
)
def test_times_that_never_fit(text: str) -> None:
    """Windows, relations and conditions on times that no events can fulfil."""
    assert only(text, "unrelated-pair") == ["times-never-fit"]


@pytest.mark.parametrize(
    "text",
    [
        "EVENT a : ex:A WHEN NO a FOR 5 min WITHIN 5 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN a DURING b WITHIN 2 us",
        "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C WHEN (a BEFORE b) DURING c WITHIN 3 us",
        "EVENT a : ex:A EVENT b : ex:B WHEN NO a FOR 5 min OVERLAPS NO b FOR 5 min WITHIN 6 min",
        "EVENT a : ex:A EVENT b : ex:B WHEN (NO a FOR 5 min){2} EVERY 2 min EQUALS NO b FOR 7 min",
        "EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?e <= ?s)",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?e ?f WHEN a MEETS b",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?t ?f WHEN a ALONGSIDE b FILTER(?e < ?t || ?f > ?s)",
        "EVENT a : ex:A DURING ?s ?e EVENT b : ex:B DURING ?s ?f WHEN a STARTS b",
    ],
)
def test_times_that_fit(text: str) -> None:
    """With one microsecond more, events can fulfil them."""
    assert only(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5 && ?k < 3) } WHEN a",
        "EVENT a : ex:A { ?a ex:k ?k FILTER(false) } WHEN a",
        "EVENT a : ex:A { ?a ex:k ?k VALUES ?k { 1 2 } FILTER(?k > 3) } WHEN a",
        "EVENT a : ex:A { { ?a ex:k ?k FILTER(?k = 1) } FILTER(?k = 2) } WHEN a",
        "EVENT a : ex:A { { ?a ex:k ?k FILTER(1 > 2) } UNION { ?a ex:l ?k FILTER(?k != ?k && false) } } WHEN a",
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } EVENT b : ex:B { ?b ex:k ?k FILTER(?k < 3) } WHEN a BEFORE b",
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } EVENT b : ex:B WHEN (a BEFORE b) FILTER(?k < 3)",
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } WHEN a{3} EVERY 1 min FILTER(?k < 3)",
        "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B { ?b ex:l ?l } WHEN a UNLESS b WITHIN 1 min FILTER(?l > 3)",
        "EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s > 5)",
        "EVENT a : ex:A { VALUES ?k { } } WHEN a",
    ],
)
def test_conditions_that_never_hold(text: str) -> None:
    """In one event, across events that are joined, or on a variable that has no value."""
    assert only(text) == ["conditions-never-hold"]


@pytest.mark.parametrize(
    "text",
    [
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 3 && ?k < 5) } WHEN a",
        "EVENT a : ex:A { { ?a ex:k ?k FILTER(1 > 2) } UNION { ?a ex:l ?k } } WHEN a",
        "EVENT a : ex:A { OPTIONAL { ?a ex:k ?k } FILTER(!BOUND(?k) || ?k > 5) }"
        " EVENT b : ex:B { ?b ex:k ?k FILTER(?k < 3) } WHEN a BEFORE b",
        "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } EVENT b : ex:B { ?b ex:l ?l FILTER(?l < 3) } WHEN a BEFORE b",
        "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B { ?b ex:l ?l } WHEN (a BEFORE b) FILTER(?l > 3) WITHIN 1 min",
    ],
)
def test_conditions_that_may_hold(text: str) -> None:
    """A variable without a value agrees with every value, and different variables do not contradict each other."""
    assert only(text) == []


def test_in_the_cumulative_context_a_value_may_be_lost() -> None:
    """Members that disagree leave the variable unbound, so that it joins with every value in the operators above."""
    events = "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } EVENT b : ex:B EVENT c : ex:C { ?c ex:k ?k FILTER(?k < 3) }"
    text = f"{events} WHEN (a BEFORE b) BEFORE c WITHIN 1 min"
    assert only(text) == ["conditions-never-hold"]
    assert only(f"{text} CONTEXT cumulative") == []


def test_a_part_that_never_matches_is_a_warning_where_the_rest_can() -> None:
    """One side of OR, or the right side of UNLESS."""
    impossible = "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5 && ?k < 3) } EVENT b : ex:B"
    assert only(f"{impossible} WHEN a OR b") == ["part-never-matches"]
    assert only(f"{impossible} WHEN b UNLESS a WITHIN 1 min") == ["part-never-matches"]
    assert only(f"{impossible} WHEN a AND b WITHIN 1 min") == ["conditions-never-hold"]


def test_what_never_occurs_is_absent() -> None:
    """NO starts at the beginning of the subscription, too: its impossible operand is only a warning."""
    body = "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5 && ?k < 3) } WHEN NO a FOR 1 min"
    assert only(body) == ["part-never-matches"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS (NO b FOR 10 min) WITHIN 5 min", ["idle-guard"]),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS (NO b FOR 4 min) WITHIN 5 min", []),
        ("EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5) } EVENT b : ex:B { ?b ex:k ?k FILTER(?k < 3) }"
         " WHEN a UNLESS b WITHIN 5 min", ["idle-guard"]),
        (f"{EVENTS} WHEN (a BEFORE c WITHIN 5 min) WITHOUT (NO b FOR 5 min)", ["idle-guard"]),
        (f"{EVENTS} WHEN (a BEFORE c WITHIN 5 min) WITHOUT b", []),
    ],
)  # fmt: skip
def test_a_negation_without_effect(text: str, expected: list[str]) -> None:
    """The absent side of UNLESS and WITHOUT must fit into the window and agree with the other side."""
    assert only(text) == expected


EX = "<http://example.org/{}>"
PETS = Ontology(
    (
        (EX.format("Cat"), f"<{RDFS}subClassOf>", EX.format("Animal")),
        (EX.format("Dog"), f"<{RDFS}subClassOf>", EX.format("Animal")),
        (EX.format("Cat"), f"<{OWL}disjointWith>", EX.format("Dog")),
        (EX.format("Imp"), f"<{RDFS}subClassOf>", EX.format("Dog")),
        (EX.format("Imp"), f"<{RDFS}subClassOf>", EX.format("Cat")),
        (EX.format("barks"), f"<{RDFS}domain>", EX.format("Dog")),
    )
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENT a : ex:Cat WHEN a", []),
        ("EVENT a : ex:Dog { ?a ex:barks ?x } WHEN a", []),
        ("EVENT a : ex:Imp WHEN a", ["contradicts-ontology"]),
        ("EVENT a : ex:Cat { ?a a ex:Dog } WHEN a", ["contradicts-ontology"]),
        ("EVENT a : ex:Cat { ?a ex:barks ?x } WHEN a", ["contradicts-ontology"]),
        ("EVENT a : ex:Animal { ?a ex:owner ?x . ?x a ex:Cat , ex:Dog } WHEN a", ["unknown-property"]),
        ("EVENT a : ex:Catt WHEN a", ["unknown-class"]),
        ("EVENT a : ex:Dog { ?a ex:bark/ex:barks ?x } WHEN a", ["unknown-property"]),
    ],
)
def test_leaves_under_an_ontology(text: str, expected: list[str]) -> None:
    """Disjoint classes, domains, classes without members, and names that the ontology does not have."""
    assert rules(text, ontology=PETS) == expected
    assert rules(text) == []


@pytest.mark.parametrize(
    ("wider", "narrower"),
    [
        ("EVENT a : ex:A WHEN a", "EVENT a : ex:A { ?a ex:k 3 } WHEN a"),
        ("EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 3) } WHEN a", "EVENT e : ex:A { ?e ex:k ?x FILTER(?x > 5) } WHEN e"),
        ("EVENT a : ex:A { ?a ex:k ?k } WHEN a", "EVENT e : ex:A { ?e ex:k 3 } WHEN e"),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a OR b", "EVENT x : ex:B { ?x ex:k 1 } WHEN x"),
        (f"{ROOMS} WHEN (a BEFORE b WITHIN 5 min) OR c",
         f"{ROOMS.partition(' EVENT c')[0]} WHEN (a BEFORE b WITHIN 5 min) FILTER(?level > 3) WITHIN 1 min"),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a AND b WITHIN 5 min CONTEXT unrestricted",
         "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B { ?b ex:k ?k } WHEN b BEFORE a WITHIN 3 min"),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS b WITHIN 5 min",
         "EVENT a : ex:A { ?a ex:k 1 } EVENT b : ex:B WHEN a UNLESS b WITHIN 6 min"),
    ],
)  # fmt: skip
def test_a_subscription_that_another_one_covers(wider: str, narrower: str) -> None:
    """Wider leaves, longer windows, fewer conditions; reported at the narrower subscription in any order."""
    assert [rule for rule in rules(wider, narrower) if "another" in rule] == ["covered-by-another"]
    assert [rule for rule in rules(narrower, wider) if "another" in rule] == ["covered-by-another"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("EVENT a : ex:A WHEN a", "EVENT b : ex:B WHEN b"),
        ("EVENT a : ex:A WHEN a", "EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS b WITHIN 5 min"),
        ("EVENT a : ex:A EVENT c : ex:C WHEN a BEFORE c WITHIN 5 min CONTEXT unrestricted",
         f"{EVENTS} WHEN (a BEFORE c WITHIN 5 min) WITHOUT b CONTEXT unrestricted"),
        ("EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 3) } WHEN a", "EVENT a : ex:A { ?a ex:k ?k FILTER(?k < 5) } WHEN a"),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 5 min",
         "EVENT a : ex:A { ?a ex:k 1 } EVENT b : ex:B WHEN a BEFORE b WITHIN 5 min"),
        ("EVENT a : ex:A EVENT b : ex:B { ?b ex:k ?k } WHEN a UNLESS b WITHIN 5 min SIGNAL",
         "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B { ?b ex:k ?k } WHEN a UNLESS b WITHIN 5 min SIGNAL"),
        ("EVENT a : ex:A WHEN a", 'SINCE "2026-01-01T00:00:00Z" EVENT a : ex:A { ?a ex:k 1 } WHEN a'),
    ],
)  # fmt: skip
def test_subscriptions_that_do_not_cover_each_other(one: str, other: str) -> None:
    """In recent a wider leaf pairs differently; nobody can filter by an absence, and one with more joins does less."""
    assert [rule for rule in rules(one, other) if "another" in rule] == []


def test_a_superclass_covers_under_the_ontology() -> None:
    """ex:Animal is wider than ex:Cat only with the ontology."""
    texts = "EVENT a : ex:Cat WHEN a", "EVENT a : ex:Animal WHEN a"
    assert rules(*texts) == []
    assert rules(*texts, ontology=PETS) == ["covered-by-another"]


def test_equal_subscriptions_are_reported_at_the_later_one() -> None:
    """Equal up to the names of events and variables and the order of commutative operands; the delivery counts."""
    one = "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B WHEN a AND b WITHIN 5 min SELECT ?k"
    other = "EVENT x : ex:B EVENT y : ex:A { ?y ex:k ?j } WHEN x AND y WITHIN 5 min SELECT ?j"
    assert rules(one, other) == ["same-as-another"]
    assert rules(one, other.replace("SELECT ?j", "SELECT ?j ?x")) == ["covered-by-another"]
    assert rules(one, other.replace("5 min", "6 min")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ROOMS} WHEN a BEFORE b BEFORE c", ["unbounded-keys", "unbounded-keys"]),
        (f"{ROOMS} WHEN a BEFORE b BEFORE c WITHIN 5 min", []),
        (f"{EVENTS} WHEN a BEFORE b BEFORE c", []),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b CONTEXT chronicle UNBOUNDED", ["unbounded-state"]),
        ("EVENT a : ex:A WHEN a+ EVERY 1 min CONTEXT recent UNBOUNDED", ["unbounded-state"]),
        ("EVENT a : ex:A WHEN a{3}", ["unbounded-count"]),
        ("EVENT a : ex:A WHEN a{3} EVERY 1 min", []),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 2 h CONTEXT unrestricted", ["many-pairs"]),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 2 h CONTEXT chronicle", []),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 2 d", ["long-window"]),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS b WITHIN 2 d", ["long-window"]),
        ("EVENT a : ex:A WHEN NO a FOR 2 d", ["long-window"]),
        ("EVENT a EVENT b : ex:B WHEN a BEFORE b WITHIN 1 h", ["matches-everything"]),
        ("EVENT a WHEN a", []),
    ],
)
def test_state(text: str, expected: list[str]) -> None:
    """Keys and occurrences that are kept forever, windows of days, all pairs of hours, every event in a pair."""
    assert [rule for rule in rules(text) if rule != "used-once"] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENT a : ex:A { ?a ex:room ?r } EVENT b : ex:B { ?b ex:floor ?f } WHEN a AND b WITHIN 1 h"
         " CONTEXT continuous", ["unrelated-pair"]),
        ("EVENT a : ex:A { ?a ex:room ?r } EVENT b : ex:B { ?b ex:room ?r } WHEN a AND b WITHIN 1 h", []),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a AND b WITHIN 1 h", []),
        ("EVENT a : ex:A { ?a ex:room ?room } EVENT b : ex:B { ?b ex:room ?romo } WHEN a BEFORE b WITHIN 1 h",
         ["similar-variables"]),
        ("EVENT a : ex:A { ?a ex:room ?Room ; ex:p ?room } WHEN a FILTER(?room > 1)", ["similar-variables"]),
        ("EVENT a : ex:A { ?a ex:t ?t1 } EVENT b : ex:B { ?b ex:t ?t2 } WHEN a BEFORE b WITHIN 1 h", []),
        ("EVENT a : ex:A { ?a ex:room ?room ; ex:level ?level } WHEN a SELECT ?room", ["used-once"]),
        ("EVENT a : ex:A { ?a ex:room ?room ; ex:level ?level } WHEN a", []),
        ("EVENT a : ex:A { ?a ex:p ?x } EVENT b : ex:B WHEN b UNLESS a WITHIN 1 h SELECT ?b ?x", ["never-bound"]),
        ("EVENT a : ex:A { ?a ex:p ?x } EVENT b : ex:B WHEN a OR b SELECT ?x", ["may-be-unbound"]),
        ("EVENT a : ex:A { OPTIONAL { ?a ex:p ?x } } WHEN a SELECT ?x", ["may-be-unbound"]),
        ("EVENT a : ex:A { OPTIONAL { ?a ex:p ?x } FILTER(?x > 1) } WHEN a SELECT ?x", []),
    ],
)  # fmt: skip
def test_slips(text: str, expected: list[str]) -> None:
    """Pairs without shared variables, similar names, unused variables, unbound deliveries."""
    assert rules(text) == expected


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        ('EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s = "2026-01-01T00:00:00"^^xsd:dateTime)',
         "?s is a time of 'a', with a zone"),
        ('EVENT a : ex:A { ?a ex:at ?t FILTER(?t >= "2026-01-01T10:00:00"^^xsd:dateTime && '
         '?t <= "2026-01-01T12:00:00Z"^^xsd:dateTime) } WHEN a', "?t <="),
        ('EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s > "2026-01-01T00:00:00Z")', "?s is a time of 'a'"),
        ("EVENT a : ex:A { ?a ex:k ?k BIND(STR(?k) AS ?t) FILTER(?t > 5) } WHEN a", "?t is an xsd:string, by its BIND"),
        ('EVENT a : ex:A { ?a ex:room ?r . ?r a ex:Room FILTER(?r = "attic") } WHEN a', "?r is an IRI"),
        ('EVENT a : ex:A { ?a ex:room ?r . ?r a ex:Room FILTER(CONTAINS(?r, "attic")) } WHEN a', "?r is an IRI"),
        ('EVENT a : ex:A WHEN a FILTER(?a = "urn:e:1")', "?a is the IRI of an event"),
        ("EVENT a : ex:A DURING ?s ?e EVENT b : ex:B WHEN (a BEFORE b WITHIN 1 h) FILTER(?s = ?b)", "?s = ?b"),
        ("EVENT a : ex:A { VALUES ?k { 1 } ?a ex:k ?k } EVENT b : ex:B { VALUES ?k { 1.0 } ?b ex:k ?k }"
         " WHEN a BEFORE b WITHIN 1 h", "an xsd:integer; ?k is one of VALUES, an xsd:decimal"),
        ("EVENT a : ex:A { ?a ex:k ?k FILTER(DATATYPE(?k) = xsd:integer) }"
         " EVENT b : ex:B { ?b ex:k ?k FILTER(DATATYPE(?k) = xsd:string) } WHEN a BEFORE b WITHIN 1 h", "DATATYPE"),
        ("EVENT a : ex:A { ?a ex:room ?r . ?r ex:in ?f } EVENT b : ex:B { ?b ex:k ?r FILTER(?r > 3) }"
         " WHEN a BEFORE b WITHIN 1 h", "?r is an IRI"),
    ],
)  # fmt: skip
def test_types_that_never_agree(text: str, reasons: str) -> None:
    """Zoned and zoneless times, times or numbers and strings, IRIs and strings, joins of terms of different types."""
    (error,) = [found for found in diagnostics(text) if found.severity is Severity.ERROR]
    assert (error.rule, reasons in error.diagnostic.message) == ("conditions-never-hold", True), str(error)


RANGES = Ontology(
    (
        *((EX.format(name), RDF_TYPE, f"<{OWL}Class>") for name in ("A", "B", "Room")),
        (EX.format("attic"), RDF_TYPE, EX.format("Room")),
        (EX.format("level"), f"<{RDFS}range>", f"<{XSD}integer>"),
        (EX.format("at"), f"<{RDFS}range>", f"<{XSD}dateTime>"),
        (EX.format("name"), f"<{RDFS}range>", f"<{XSD}string>"),
        (EX.format("room"), RDF_TYPE, f"<{OWL}ObjectProperty>"),
        (EX.format("label"), RDF_TYPE, f"<{OWL}DatatypeProperty>"),
    )
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('EVENT a : ex:A { ?a ex:level ?l FILTER(?l > "1000") } WHEN a', "level, whose range is xsd:integer"),
        ('EVENT a : ex:A { ?a ex:at ?t FILTER(?t > "2026-01-01") } WHEN a', "at, whose range is xsd:dateTime"),
        ('EVENT a : ex:A { ?a ex:room ?r FILTER(?r = "attic") } WHEN a', "room, an owl:ObjectProperty"),
        ("EVENT a : ex:A { ?a ex:level ?x } EVENT b : ex:B { ?b ex:name ?x } WHEN a BEFORE b WITHIN 1 h",
         "name, whose range is xsd:string"),
        ("EVENT a : ex:A { ?a ex:room ?x } EVENT b : ex:B { ?b ex:label ?x } WHEN a BEFORE b WITHIN 1 h",
         "label, an owl:DatatypeProperty"),
        ("EVENT a : ex:A { ?a ex:level ?l FILTER(?l > 1000) } WHEN a", None),
        ("EVENT a : ex:A { ?a ex:level ?x } EVENT b : ex:B { ?b ex:label ?x } WHEN a BEFORE b WITHIN 1 h", None),
        ("EVENT a : ex:A { ?a ex:room ?r FILTER(STR(?r) = 'attic') } WHEN a", None),
    ],
)  # fmt: skip
def test_types_of_the_ontology(text: str, reason: str | None) -> None:
    """The ranges and kinds of properties state what values they have, if events agree with the ontology."""
    errors = [found for found in diagnostics(text, ontology=RANGES) if found.severity is Severity.ERROR]
    assert [found.rule for found in errors] == (["contradicts-ontology"] if reason else [])
    assert all(str(reason) in found.diagnostic.message for found in errors)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENT a : ex:A { ?a ex:attik ?r } WHEN a", "check its spelling and prefix"),
        ("EVENT a : ex:A { ?a ex:attic ?r } WHEN a", "check its spelling and prefix"),
        ("EVENT a : ex:A { ?a ex:leve ?r } WHEN a", "did you mean level"),
        ("EVENT a : ex:Roomm WHEN a", "did you mean Room"),
        ("EVENT a : ex:level WHEN a", "check its spelling and prefix"),
    ],
)
def test_names_are_offered_for_their_use(text: str, expected: str) -> None:
    """An individual is not offered as a property, nor a property as a class."""
    (found,) = diagnostics(text, ontology=RANGES)
    assert (found.rule[:8], expected in found.diagnostic.advice) == ("unknown-", True), str(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('EVENT a : ex:A { ?a ex:t ?t FILTER(?t > "1000") } WHEN a', [("string-comparison", "a number")]),
        ('EVENT a : ex:A { ?a ex:t ?t } WHEN a FILTER(?t < "2026-01-01T00:00:00Z")', [("string-comparison", "a time")]),
        ('EVENT a : ex:A { ?a ex:r ?t FILTER(?t IN ("urn:x")) } WHEN a', [("string-comparison", "an IRI")]),
        ('EVENT a : ex:A { ?a ex:t ?t FILTER(?t = "high" && ?t != "5") } WHEN a', []),
        ('EVENT a : ex:A { ?a ex:t ?t BIND(STR(?t) AS ?u) FILTER(?u = "5") } WHEN a', []),
        ('EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s > "2026-01-01T00:00:00"^^xsd:dateTime)',
         [("time-without-zone", "14 hours")]),
        ('EVENT a : ex:A DURING ?s ?e WHEN a FILTER(?s > "2026-01-01T00:00:00Z"^^xsd:dateTime)', []),
    ],
)  # fmt: skip
def test_constants_that_look_like_others(text: str, expected: list[tuple[str, str]]) -> None:
    """A number, time or IRI in quotes is a string, and a time without a zone is rarely comparable."""
    found = [(one.rule, one.diagnostic.message) for one in diagnostics(text)]
    assert [rule for rule, _ in found] == [rule for rule, _ in expected]
    assert all(part in message for (_, message), (_, part) in zip(found, expected, strict=True))


READINGS = "EVENT a : ex:A DURING ?from ?to { ?a ex:room ?room ; ex:level ?level . FILTER(?level > 3) }"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{READINGS} WHEN a{{3}} EVERY 1 min SELECT ?room", None),
        (f"{READINGS} WHEN a{{3}} EVERY 1 min SELECT ?room ?level", "?level is delivered, so '{3}' counts per value"),
        (f"{READINGS} WHEN a{{3}} EVERY 1 min SELECT ?from", "?from is delivered"),
        (f"{READINGS} WHEN a+ EVERY 1 min WITHIN 1 h SELECT ?level", "so '+' counts per value"),
        (f"{READINGS} WHEN a{{3}} EVERY 1 min", None),
        (f"{READINGS} WHEN a SELECT ?room ?level", None),
        ("EVENT a { ?a ex:room ?room ; ex:name ?name } WHEN a{3} EVERY 1 min SELECT ?room ?name", "?name, ?room is"),
        ("EVENT a { ?a ex:room ?room ; ex:k ?k } EVENT b { ?b ex:room ?room ; ex:k ?k }"
         " WHEN a{3} EVERY 1 min BEFORE b WITHIN 1 h SELECT ?room ?k", None),
    ],
)  # fmt: skip
def test_a_delivered_variable_becomes_a_key(text: str, expected: str | None) -> None:
    """A measured value that is selected makes all members of an iteration agree on it."""
    found = [one.diagnostic.message for one in diagnostics(text) if one.rule == "selected-key"]
    assert [str(expected) in message for message in found] == [True] * (expected is not None)


def test_members_agree_on_a_delivered_variable() -> None:
    """What the rule says is so: three readings of different levels are not three of one level."""
    (subscription,) = parse(f"{PREFIX}SUBSCRIPTION s {READINGS} WHEN a{{3}} EVERY 1 min SELECT ?room ?level")
    for levels, expected in (((4, 5, 6), 0), ((4, 4, 4), 1)):
        records: list[Record] = [SubscribeRecord(0, subscription)]
        for number, level in enumerate(levels, 1):
            term = f'"{level}"^^<{XSD}integer>'
            records.append(event_record(number, "A", room=EX.format("attic"), level=term))
        records.append(TickRecord(len(records), END_OF_TIME))
        assert len(evaluate(records, ontology=frozenset(), lateness=None)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("EVENT a { ?a ex:room ?r } EVENT b { ?b ex:floor ?f } WHEN a BEFORE b WITHIN 1 h", [Severity.WARNING]),
        ("EVENT a { ?a ex:room ?r } EVENT b { ?b ex:room ?q } WHEN a BEFORE b FILTER(?r = ?q)", [Severity.WARNING]),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 1 h", [Severity.HINT]),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 1 h CONTEXT chronicle", []),
        ("EVENT a { ?a ex:room ?r } EVENT b { ?b ex:room ?r } WHEN a BEFORE b WITHIN 1 h", []),
        ("EVENT a : ex:A EVENT b : ex:B WHEN NO a FOR 5 min BEFORE b", []),
    ],
)
def test_recent_keeps_one_for_all(text: str, expected: list[Severity]) -> None:
    """Without a shared variable, recent keeps one occurrence of each side, of all rooms together."""
    assert [one.severity for one in diagnostics(text) if one.rule == "latest-of-all"] == expected


def event_record(number: int, class_: str, **values: str) -> EventRecord:
    """An event with properties, at its offset in microseconds."""
    name = f"<urn:e:{number}>"
    properties = {(name, EX.format(key), term) for key, term in values.items()}
    triples = frozenset({(name, RDF_TYPE, EX.format(class_))} | properties)
    return EventRecord(number, f"urn:e:{number}", number, number, triples)


def test_recent_does_keep_one_for_all() -> None:
    """What the rule says is so: of two alarms in two rooms, the later one replaces the other."""
    text = "EVENT a : ex:A {{ ?a ex:room ?r }} EVENT b : ex:B {{ ?b ex:room ?{} }} WHEN a BEFORE b WITHIN 1 h"
    for variable, expected in (("q", {("urn:e:2", "urn:e:3")}), ("r", {("urn:e:1", "urn:e:3")})):
        (subscription,) = parse(f"{PREFIX}SUBSCRIPTION s {text.format(variable)}")
        rooms = enumerate((("A", "one"), ("A", "two"), ("B", "one")), 1)
        events = [event_record(number, class_, room=EX.format(room)) for number, (class_, room) in rooms]
        records: list[Record] = [SubscribeRecord(0, subscription), *events, TickRecord(4, END_OF_TIME)]
        found = evaluate(records, ontology=frozenset(), lateness=None)
        assert {notification.events for notification in found} == expected


@pytest.mark.parametrize("constant", ['"1000"', '"2026-01-01T00:00:00Z"', '"urn:x"'])
@pytest.mark.parametrize("sign", ["=", "<", "<=", ">", ">="])
def test_a_string_is_never_compared_with_another_value(constant: str, sign: str) -> None:
    """What string-comparison says is so: no number, time or IRI equals, precedes or follows a string."""
    terms = [f'"{value}"^^<{XSD}{kind}>' for value in ("1000", "12000") for kind in ("integer", "decimal", "double")]
    terms += [f'"2026-01-01T00:00:00{zone}"^^<{XSD}dateTime>' for zone in ("", "Z")]
    holds = expressions.test(parse_expression(f"?x {sign} {constant}"))
    assert not any(holds({"x": term}) for term in [*terms, "<urn:x>", f'"2026-01-01"^^<{XSD}date>'])


def test_cycles_of_construct() -> None:
    """Subscriptions that feed each other are refused together; lint says so for each."""
    text = "EVENT a : ex:{} WHEN a CONSTRUCT {{ ?this a ex:{} }}"
    assert rules(text.format("A", "B"), text.format("B", "C"), text.format("C", "A")) == ["construct-cycle"] * 3
    assert rules(text.format("A", "B"), text.format("B", "C")) == []
    wider = text.format("Cat", "Dog"), text.format("Animal", "Cat")
    assert rules(*wider, ontology=PETS).count("construct-cycle") == 2
    assert rules(*wider) == []


def test_a_finding_shows_its_place() -> None:
    """File, line and column, the line with a caret under it, and advice; as errors do."""
    text = "SUBSCRIPTION s\n  EVENT a : <urn:A>\n  WHEN NO a FOR 10 min WITHIN 5 min"
    (diagnostic,) = lint([SubscriptionDocument(text, parse(text), "quiet.motet")])
    assert diagnostic.severity is Severity.ERROR
    assert str(diagnostic).split("\n") == [
        "quiet.motet: line 3, column 24: error[times-never-fit] s: "
        "no times fit: NO a FOR 10 min lasts 10 min; WITHIN 5 min",
        "    WHEN NO a FOR 10 min WITHIN 5 min",
        "                         ^",
        "  each of these is possible alone, but not all together: make a window longer, or drop one of them",
    ]
    assert (diagnostic.to_json()["line"], diagnostic.to_json()["column"]) == (3, 24)
