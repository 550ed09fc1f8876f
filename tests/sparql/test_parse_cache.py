"""SPARQL in plans: parsed once for each shape, written back as text."""

from __future__ import annotations

import pytest

from motet.sparql import parse_cache
from motet.sparql.algebra import Compare, Constant, Variable
from motet.sparql.parse import parse_expression, parse_group
from motet.sparql.parse_cache import expression_of, group_of
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
    assert group_of(text) == parse_group(text)


@pytest.mark.parametrize("text", GROUPS)
def test_algebra_is_written_as_text_that_parses_to_it(text: str) -> None:
    """A pattern that was written back is the same pattern."""
    pattern = parse_group(text)
    assert parse_group(group_text(pattern)) == pattern


def test_an_expression_is_written_as_text_that_parses_to_it() -> None:
    """Operators keep their operands, whatever binds more tightly."""
    expression = parse_expression("( ?a + 1 ) * - ?b > 2 && ( ?c || ! ?d ) && ?e != ?f / 3")
    assert parse_expression(expression_text(expression)) == expression


def test_a_signed_number_behind_a_comparison_is_one_constant() -> None:
    """A negative limit is a constant like any other."""
    number = '"-5"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert expression_of("?x > -5") == Compare(">", Variable("x"), Constant(number))


def test_texts_of_one_shape_are_parsed_once() -> None:
    """Other names and other constants cost no second parse."""
    group_of("?a <urn:one-shape> ?b FILTER ( ?b > 1 )")
    before = parse_cache._group.cache_info().misses
    group_of("?c <urn:other> ?d FILTER ( ?d > 2.5 )")
    assert parse_cache._group.cache_info().misses == before
