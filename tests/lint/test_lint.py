"""Each rule of lint with subscriptions that break it and subscriptions that do not."""

import pytest

from motet.language.parse import parse
from motet.lint.diagnostics import Severity
from motet.lint.lint import SubscriptionDocument, lint
from motet.model.terms import OWL, RDFS
from motet.ontology.load import Ontology

PREFIX = "PREFIX ex: <http://example.org/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
EVENTS = "EVENT a : ex:A EVENT b : ex:B EVENT c : ex:C"
ROOMS = (
    "EVENT a : ex:A { ?a ex:room ?room ; ex:level ?level } EVENT b : ex:B { ?b ex:room ?room } EVENT c : ex:C {"
    " ?c ex:room ?room ; ex:level ?other }"
)


def rules(*texts: str, ontology: Ontology | None = None) -> list[str]:
    """The names of the rules that some subscriptions break."""
    text = PREFIX + "\n".join(f"SUBSCRIPTION s{number} {text}" for number, text in enumerate(texts))
    return [diagnostic.rule for diagnostic in lint([SubscriptionDocument(text, parse(text))], ontology)]


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


def test_silence_of_what_never_occurs_has_no_start() -> None:
    """NO starts at the end of an occurrence, or at SINCE."""
    body = "EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 5 && ?k < 3) } WHEN NO a FOR 1 min"
    assert only(body) == ["conditions-never-hold"]
    assert only(f'SINCE "2026-01-01T00:00:00Z" {body}') == ["part-never-matches"]


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
        ("EVENT a : ex:A WHEN a", "EVENT a : ex:A EVENT b : ex:B WHEN a UNLESS b WITHIN 5 min"),
        (f"{ROOMS} WHEN (a BEFORE b WITHIN 5 min) OR c",
         f"{ROOMS} WHEN (a BEFORE b WITHIN 5 min) UNLESS c WITHIN 1 min"),
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
        ("EVENT a : ex:A { ?a ex:k ?k FILTER(?k > 3) } WHEN a", "EVENT a : ex:A { ?a ex:k ?k FILTER(?k < 5) } WHEN a"),
        ("EVENT a : ex:A EVENT b : ex:B WHEN a BEFORE b WITHIN 5 min",
         "EVENT a : ex:A { ?a ex:k 1 } EVENT b : ex:B WHEN a BEFORE b WITHIN 5 min"),
        ("EVENT a : ex:A EVENT b : ex:B { ?b ex:k ?k } WHEN a UNLESS b WITHIN 5 min SIGNAL",
         "EVENT a : ex:A { ?a ex:k ?k } EVENT b : ex:B { ?b ex:k ?k } WHEN a UNLESS b WITHIN 5 min SIGNAL"),
        ("EVENT a : ex:A WHEN a", 'SINCE "2026-01-01T00:00:00Z" EVENT a : ex:A { ?a ex:k 1 } WHEN a'),
    ],
)  # fmt: skip
def test_subscriptions_that_do_not_cover_each_other(one: str, other: str) -> None:
    """In the recent context a wider leaf pairs differently, and a negation with more joins has less effect."""
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
        ("EVENT a : ex:A { ?a ex:room ?r } EVENT b : ex:B { ?b ex:floor ?f } WHEN a AND b WITHIN 1 h",
         ["unrelated-pair"]),
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
