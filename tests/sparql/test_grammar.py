"""The parser lets all valid SPARQL pass, refuses what pyoxigraph refuses, and finds the place where text goes wrong."""

from __future__ import annotations

import os
import re

import pyoxigraph
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.model.errors import SubscriptionError
from motet.sparql.parse import read_group
from motet.sparql.tokens import Document, Token, tokenise

GROUPS = (
    "",
    "?s ?p ?o",
    "?s a <urn:C> ; <urn:p> ?x , -5 , 2.5e3 ; ; . ?x <urn:q> 'a'@en-GB , '''b'''^^<urn:t> .",
    "?s <urn:a> / ^ <urn:b> * | ! ( <urn:c> | ^ a ) ? ?o . ?s ( <urn:a> | <urn:b> ) + ?o",
    "[ ] <urn:p> ( 1 ?x [ <urn:q> ( ) ] ) . [ <urn:p> true ] . ( 1 2 ) <urn:q> _:b",
    "OPTIONAL { ?s ?p ?o } . ?s ?p ?z MINUS { ?s ?p 5 } { } UNION { ?a ?b ?c } UNION { }",
    "FILTER ( ?x > 3 && ! BOUND ( ?y ) || ?z IN ( 1 , 'x' ) ) FILTER NOT EXISTS { ?s ?p ?o } . ?a ?b ?c",
    "FILTER regex ( ?x , 'a' , 'i' ) FILTER ( ?x NOT IN ( ) ) FILTER <http://www.w3.org/2001/XMLSchema#boolean> ( ?x )",
    "BIND ( ( ?x + 1 ) * -2 / ?y - 3 -4 * ?z AS ?v ) VALUES ?w { 1 UNDEF <urn:x> }",
    "VALUES ( ?i ?j ) { ( 1 2 ) ( 'a' 'b' ) } VALUES ( ) { ( ) }",
    "FILTER ( IF( ?x = 1 , COALESCE( ?y , - ?z ) , <http://www.w3.org/2001/XMLSchema#integer> ( '5' ) ) >= + 1 )",
)
MUTATIONS = int(os.environ.get("MOTET_MUTATIONS", "300"))


def judged(text: str) -> bool:
    try:
        read_group(text)
    except SubscriptionError as error:
        return "takes one argument" in error.message  # of a cast: the grammar leaves the number open
    return True


def valid(text: str) -> bool:
    try:
        pyoxigraph.Store().query(f"SELECT * WHERE {{ {text} FILTER(false) }}")
    except SyntaxError:
        return False
    return True


@pytest.mark.parametrize("text", GROUPS)
def test_all_constructs_pass(text: str) -> None:
    """Every construct of a group graph pattern is in the grammar."""
    assert (judged(text), valid(text)) == (True, True)


@settings(max_examples=MUTATIONS, deadline=None, derandomize=True)  # each quirk of pyoxigraph found is named below
@given(data=st.data())
def test_valid_groups_are_those_of_pyoxigraph(data: st.DataObject) -> None:
    """However a group is cut and stirred, the parser accepts what pyoxigraph accepts, and nothing else."""
    tokens = [token for group in GROUPS for token in tokenise(Document(group))]
    words = [token.text for token in tokenise(Document(data.draw(st.sampled_from(GROUPS))))]
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(words)))
        words[place : place + data.draw(st.integers(0, 2))] = data.draw(
            st.lists(st.sampled_from(tokens).map(lambda token: token.text), max_size=2)
        )
    text = " ".join(words)
    assume(not re.search(r"[!+-] [!+\-0-9]", text))  # pyoxigraph allows chains of signs, and space inside -1
    assert judged(text) == valid(text)


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("EVENT a { ?s ?p } WHEN a", 16, "something is missing here"),
        ("EVENT a { ?s ?p 'é' . ?s ?p 5 6 } WHEN a", 31, "'6' cannot stand here"),
        ("EVENT a { ?s bad ?o } WHEN a", 14, "'bad' cannot stand here"),
        ("EVENT a { FILTER ?x > 3 } WHEN a", 18, "'?x' cannot stand here"),
        ("EVENT a { ?s ?p ?o } WHEN a FILTER(?s > > 1)", 41, "'>' cannot stand here"),
        ("EVENT a { ?s ?p ?o } WHEN a FILTER()", 35, "something is missing here"),
        ("EVENT a { ?s ?p ?o } WHEN a FILTER(?s ?p)", 39, "'?p' cannot stand here"),
        ("EVENT a WHEN a CONSTRUCT { ?a FILTER }", 31, "'FILTER' cannot stand here"),
        ("EVENT a { ?s ?p ?o } ORDER WHEN a", 22, "'ORDER' cannot stand here"),
        ("EVENT a { ?s ?p ?o ORDER BY ?s } WHEN a", 20, "'ORDER' cannot stand here"),
        ("EVENT a { ?s ?p ?o FILTER(NOW() > ?o) } WHEN a", 27, "NOW has a different value each time"),
        ("EVENT a { ?s ?p ?o BIND(1 AS ?a) } WHEN a", 30, "?a is the event itself"),
        ("EVENT a { ?s ?p ?o BIND(1 AS ?o) } WHEN a", 30, "a BIND variable must be new"),
        ("EVENT a WHEN a CONSTRUCT { ?a <urn:p>/<urn:q> 1 }", 38, "'/' cannot stand here"),
        ("EVENT a { ?s ?p <http://[a> } WHEN a", 17, "is not a valid IRI"),
        ("EVENT a { ?s ?p 'x'@englishtongue } WHEN a", 20, "is not a language tag"),
        ("EVENT a { ?s ?p '\\uD800' } WHEN a", 17, "half of a surrogate pair"),
    ],
)
def test_places(text: str, column: int, reason: str) -> None:
    """A fault inside SPARQL is reported at its place in the document."""
    with pytest.raises(SubscriptionError) as caught:
        parse(f"SUBSCRIPTION s\n{text}")
    error = caught.value
    assert (error.line, error.column, reason in str(error)) == (2, column, True), str(error)


def test_tokens() -> None:
    """Comments vanish, strings and IRIs keep their signs, and positions are those of the text."""
    assert tokenise(Document("$a <urn:#x> '#'#y\n}")) == [
        Token("VAR", "$a", 0),
        Token("IRIREF", "<urn:#x>", 3),
        Token("STRING", "'#'", 12),
        Token("PUNCTUATION", "}", 18),
    ]
