"""SPARQL in plans: parsed once for each shape, written back as text."""

from __future__ import annotations

import pytest

from motet.model.errors import SubscriptionError
from motet.sparql import parse, parse_cache
from motet.sparql.algebra import Compare, Constant, Triple, Variable
from motet.sparql.parse import read_expression, read_group
from motet.sparql.parse_cache import parse_expression, parse_group, parse_template
from motet.sparql.write import expression_text, group_text

GROUPS = (
    "",
    "?e <urn:p> ?x ; <urn:q> 5 , 2.5 , 1e3 , true , 'x' , \"y\\n\\\"\"@EN , '''z'''^^<urn:t>",
    "?e <urn:p>/<urn:q>* ?x . ?x ^<urn:r>|<urn:s>? ?y . ?y ! ( <urn:p> | ^ <urn:q> ) ?z",
    "?e <urn:p> [ <urn:q> ?x ] , -5 , +2",
    "?e a <urn:C> OPTIONAL { ?e <urn:p> ?x FILTER ( ?x > ?y ) } OPTIONAL { { ?e <urn:q> ?z FILTER ( ?z = 1 ) } }",
    "{ ?e <urn:p> ?x } UNION { ?e <urn:q> ?x } UNION { } ?e <urn:r> ?y",
    "{ ?e <urn:p> ?x FILTER ( ?x > 1 ) } ?e <urn:q> ?x FILTER ( ?x < 5 && ! BOUND( ?y ) )",
    "?e <urn:p> ?x BIND ( ?x * 2 - 1 AS ?y ) MINUS { ?e <urn:q> ?y } VALUES ( ?a ?b ) { ( 1 UNDEF ) ( <urn:i> 'j' ) }",
    "?e <urn:p> ?x FILTER ( NOT EXISTS { ?x <urn:q> ?e } || EXISTS { ?e ?q ?x } )",
    "?e <urn:p> ?x FILTER ( REGEX( STR( ?x ) , '^a\\\\.b' , 'i' ) && IF( ?x = 1 , true , COALESCE( ?x , 2 ) ) )",
    "?e <urn:p> ?x FILTER ( ?x IN ( 1 , 'x' ) || ?x NOT IN ( ) )",
    "?e <urn:p> ?x FILTER ( <http://www.w3.org/2001/XMLSchema#integer>( ?x ) < 4 )",
)


@pytest.mark.parametrize("text", GROUPS)
def test_a_filled_template_is_what_the_text_itself_parses_to(text: str) -> None:
    """Names and constants come back into the tree exactly where they were."""
    assert parse_group(text) == read_group(text)


@pytest.mark.parametrize("text", GROUPS)
def test_algebra_is_written_as_text_that_parses_to_it(text: str) -> None:
    """A pattern that was written back is the same pattern."""
    pattern = read_group(text)
    assert read_group(group_text(pattern)) == pattern


def test_an_expression_is_written_as_text_that_parses_to_it() -> None:
    """Operators keep their operands, whatever binds more tightly."""
    expression = read_expression("( ?a + 1 ) * - ?b > 2 && ( ?c || ! ?d ) && ?e != ?f / 3")
    assert read_expression(expression_text(expression)) == expression


def test_a_signed_number_behind_a_comparison_is_one_constant() -> None:
    """A negative limit is a constant like any other."""
    number = '"-5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert parse_expression("?x > -5") == Compare(">", Variable("x"), Constant(number))


def test_texts_of_one_shape_are_parsed_once() -> None:
    """Other names and other constants cost no second parse."""
    parse_group("?a <urn:one-shape> ?b FILTER ( ?b > 1 )")
    before = parse_cache._group.cache_info().misses
    parse_group("?c <urn:other> ?d FILTER ( ?d > 2.5 )")
    assert parse_cache._group.cache_info().misses == before


def test_the_limit_on_length_is_about_the_text_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placeholders may make the template longer than the limit."""
    text = "?e <urn:the-limit> 1 , 2 , 3"
    monkeypatch.setattr(parse, "MAX_LENGTH", len(text))
    assert parse_group(text) == read_group(text)


def test_a_nested_group_keeps_its_scope() -> None:
    """What is written before a group is not visible in its FILTER, BIND, OPTIONAL or MINUS."""
    for nested in (
        "FILTER ( ?e = 1 )",
        "BIND ( ?e AS ?x )",
        "OPTIONAL { ?a <urn:p> ?b FILTER ( ?e = 1 ) }",
        "MINUS { }",
    ):
        assert parse_group(f"{{ {nested} }}") != parse_group(nested)
        assert parse_group(group_text(parse_group(f"{{ {nested} }}"))) == parse_group(f"{{ {nested} }}")


def test_a_construct_template_is_parsed_to_triples() -> None:
    """Blank nodes become hidden variables."""
    assert parse_template("?this <urn:p> [ ]") == (Triple("?this", "<urn:p>", "?.0"),)
    assert parse_template("") == ()
    with pytest.raises(SubscriptionError, match="cannot stand here"):
        parse_template("?this <urn:p>* ?x")
