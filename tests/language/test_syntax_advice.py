"""A writer who thinks in another language is told how the pattern language says it."""

import pytest

from motet.language.parse import parse
from motet.model.errors import SubscriptionError

DECLARED = "SUBSCRIPTION s EVENT smoke : <urn:S> EVENT heat : <urn:H> EVENT drill : <urn:D> "


def refusal(text: str, syntax: str = "motet") -> SubscriptionError:
    with pytest.raises(SubscriptionError) as caught:
        parse(text, syntax=syntax)
    return caught.value


@pytest.mark.parametrize(
    ("pattern", "sign", "advice"),
    [
        ("smoke AND NOT drill", "NOT", "write smoke UNLESS drill WITHIN 5 min"),
        ("smoke AND NOT (drill OR heat)", "NOT", "write smoke UNLESS y WITHIN 5 min"),
        ("NOT smoke", "NOT", "NO smoke FOR 5 min for a silence"),
        ("!smoke", "!", "NO smoke FOR 5 min"),
        ("smoke THEN heat", "THEN", "write smoke BEFORE heat WITHIN 5 min"),
        ("smoke FOLLOWED BY heat", "FOLLOWED", "write smoke BEFORE heat WITHIN 5 min"),
        ("smoke -> heat", "->", "write smoke BEFORE heat WITHIN 5 min"),
        ("smoke → heat", "→", "write smoke BEFORE heat WITHIN 5 min"),
        ("smoke ; heat", ";", "write smoke BEFORE heat WITHIN 5 min"),
        ("SEQ(smoke, heat)", "SEQ", "BEFORE"),
        ("smoke , heat", ",", "write smoke AND heat"),
        ("smoke && heat", "&&", "write smoke AND heat"),
        ("smoke || heat", "||", "write smoke OR heat"),
        ("COUNT(smoke) > 3", "COUNT", "`a{3} EVERY 1 min` counts events"),
        ("AVG(?level) > 3", "AVG", "there are no aggregates"),
        ("smoke GROUP BY ?room", "GROUP", "there are no aggregates"),
        ("smoke FILTER(COUNT(?smoke) > 3)", "COUNT", "there are no aggregates"),
        ("smoke SELECT (COUNT(?smoke) AS ?n)", "(COUNT", "select variables only; there are no aggregates"),
        ("smoke SELECT ?smoke GROUP BY ?smoke", "GROUP", "there are no aggregates"),
        ("smoke SELECT ?smoke ORDER BY ?smoke", "ORDER", "notifications are a set"),
        ("smoke SELECT ?smoke, ?heat", ", ?heat", "write the variables without commas"),
        ("smoke{2,3}", ",", "write one number"),
        ("smoke*", "*", "write smoke{3} for three of them"),
        ("smoke BEFORE heat WHERE ?x > 3", "WHERE", "write FILTER(…)"),
        ("smoke BEFORE heat IN 5 min", "IN", "write WITHIN"),
        ("smoke BEFOR heat", "BEFOR", "did you mean BEFORE?"),
    ],
)
def test_words_of_other_languages(pattern: str, sign: str, advice: str) -> None:
    """The error is at the foreign word and says what to write instead."""
    text = f"{DECLARED}WHEN {pattern}"
    error = refusal(text)
    assert (error.position, advice in str(error.advice)) == (text.index(sign, len(DECLARED) + 5), True), str(error)


def test_a_declared_name_is_not_foreign() -> None:
    """An event may be called `then` or `not`; two names without an operator are just that."""
    error = refusal("SUBSCRIPTION s EVENT then : <urn:S> EVENT not : <urn:H> WHEN not then")
    assert "an operator is missing before 'then'" in str(error)
    assert parse("SUBSCRIPTION s EVENT then : <urn:S> EVENT not : <urn:H> WHEN not BEFORE then")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("PREFIX ex: <urn:>\nSELECT ?g WHERE { GRAPH ?g { ?g a ex:A } }", "read it with --syntax sparql"),
        ("select ?s where { ?s a <urn:A> }", "only SELECT ?g … WHERE { GRAPH ?g { … } } can be a subscription"),
        ("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", "only SELECT ?g … WHERE { GRAPH ?g { … } }"),
        ("ASK { ?s ?p ?o }", "only SELECT ?g … WHERE { GRAPH ?g { … } }"),
        ("@prefix ex: <urn:> .", "write PREFIX ex: <…>"),
        ("EVENT a : <urn:A> WHEN a", "begin with SUBSCRIPTION and a name"),
        ("(A & B)_5min", "--syntax sparql, jtang or cecube"),
        ("", "there is no subscription"),
    ],
)
def test_other_documents(text: str, reason: str) -> None:
    """A SPARQL query, Turtle or another syntax is recognised, and the advice names the option."""
    assert reason in str(refusal(text))


def test_the_motet_syntax_read_as_sparql() -> None:
    """The other way round."""
    assert "this is a subscription of the motet syntax" in str(refusal(DECLARED, "sparql"))
    assert "there are no aggregates" in str(refusal("SELECT ?g { GRAPH ?g { ?g ?p ?o } } GROUP BY ?g", "sparql"))
    assert "there are no aggregates" in str(refusal("SELECT (AVG(?o) AS ?x) { GRAPH ?g { ?g ?p ?o } }", "sparql"))


def test_what_is_expected_can_be_read() -> None:
    """Thirty possible words are listed by kind."""
    assert refusal(f"{DECLARED}WHEN smoke heat").advice == (
        "expected an operator (AND, OR, XOR, BEFORE or another time relation, UNLESS, WITHOUT, FILTER), {n} or +, "
        "a delivery clause (SELECT, CONSTRUCT, …), CONTEXT, SUBSCRIPTION, WITHIN or the end"
    )
    assert refusal(f"{DECLARED}WHEN smoke BEFORE").advice == "expected '(', NO or a name"
