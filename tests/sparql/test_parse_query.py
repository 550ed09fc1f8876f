"""Whole queries become algebra; what is not valid or not supported is refused at its place."""

from __future__ import annotations

from contextlib import suppress
from time import perf_counter

import pytest

from motet.model.errors import LimitError, MotetError, SubscriptionError
from motet.model.terms import XSD
from motet.sparql.algebra import (
    Aggregate,
    Arithmetic,
    Bgp,
    Compare,
    Constant,
    DatasetClause,
    Distinct,
    Extend,
    Filter,
    Group,
    NamedGraph,
    OrderBy,
    OrderCondition,
    Project,
    SelectQuery,
    Slice,
    Triple,
    Variable,
)
from motet.sparql.parse import read_query

ONE = Constant(f'"1"^^<{XSD}integer>')
SPO = Bgp((Triple("?s", "?p", "?o"),))


def test_the_parts_of_a_query_stand_in_the_order_of_their_evaluation() -> None:
    """Grouping, HAVING, SELECT expressions, ORDER BY, projection, DISTINCT, LIMIT (section 18.2.4)."""
    query = read_query(
        "SELECT DISTINCT ?s (COUNT(?o) + 1 AS ?n) FROM <urn:g> { GRAPH ?g { ?s ?p ?o } } "
        "GROUP BY ?s HAVING (COUNT(?o) > 1) ORDER BY DESC(?n) LIMIT 5 OFFSET 2"
    )
    group = Group(NamedGraph("?g", SPO), ("s",), ((".a0", Aggregate("COUNT", Variable("o"))),))
    having = Filter(group, Compare(">", Variable(".a0"), ONE))
    columns = Extend(having, "n", Arithmetic("+", Variable(".a0"), ONE))
    ordered = OrderBy(columns, (OrderCondition(Variable("n"), descending=True),))
    assert query == SelectQuery(
        Slice(Distinct(Project(ordered, ("s", "n"))), 2, 5), ("s", "n"), DatasetClause(("<urn:g>",), ())
    )


def test_a_star_stands_for_the_visible_variables_as_they_occur() -> None:
    """Not those of MINUS, FILTER and blank nodes."""
    query = read_query("SELECT * { ?b <urn:p> [ <urn:q> ?a ] MINUS { ?m ?m ?m } FILTER(?f) } VALUES ?v { 1 }")
    assert isinstance(query, SelectQuery)
    assert query.variables == ("b", "a", "v")


def test_a_signed_number_is_a_constant_in_a_query() -> None:
    """As the grammar has it; stored leaf bodies have a sign and a number."""
    assert read_query("SELECT (-05 AS ?x) { }").pattern == Project(
        Extend(Bgp(()), "x", Constant(f'"-05"^^<{XSD}integer>')), ("x",)
    )


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("SELECT ?s { ?s ?p ?o } GROUP BY ?p", "not valid SPARQL: ?s is not a key of the grouping", 7),
        ("SELECT * { ?s ?p ?o } GROUP BY ?p", "not valid SPARQL: SELECT * with GROUP BY", 7),
        ("SELECT (1 AS ?s) { ?s ?p ?o }", "not valid SPARQL: ?s already has a value", 13),
        ("SELECT (1 AS ?x) (2 AS ?x) { }", "not valid SPARQL: ?x is projected twice", 13),
        ("SELECT (SUM(COUNT(?x)) AS ?y) { }", "COUNT is an aggregate and not allowed here", 12),
        ("SELECT ?x { FILTER(COUNT(?x) > 1) }", "COUNT is an aggregate and not allowed here", 19),
        ("SELECT (COUNT(*) AS ?n) { } HAVING (?n > 1)", "HAVING comes before SELECT computes ?n", 43),
        ("SELECT * { SERVICE <urn:s> { } }", "SERVICE is not supported: queries read no other endpoint", 11),
        ("INSERT DATA { <urn:a> <urn:b> <urn:c> }", "INSERT is an update, and updates are not supported", 0),
        ("LOAD <http://example.org/>", "LOAD is an update, and updates are not supported", 0),
        ("SELECT * { ?s ex:p ?o }", "'ex' is not a declared prefix", 14),
        ("SELECT * { ?s <http://[a> ?o }", "<http://[a> is not a valid IRI", 14),
        ("SELECT * { ?s <p> ?o }", "<p> is relative and there is no BASE", 14),
        ("SELECT * { ?s ?p ?o } LIMIT -1", "not valid SPARQL: -1 is no number of solutions", 28),
        ("SELECT { ?s ?p ?o }", "not valid SPARQL: '{' cannot stand here", 7),
        ("CONSTRUCT { ?s <urn:p>* ?o } { }", "not valid SPARQL: '*' cannot stand here", 22),
        ("ASK { ?s ?p ?o } ; ASK { }", "not valid SPARQL: ';' cannot stand here", 17),
    ],
)
def test_refusals(text: str, message: str, position: int) -> None:
    """What is not valid or not supported is refused at its place."""
    with pytest.raises(SubscriptionError) as caught:
        read_query(text)
    assert (caught.value.message, caught.value.position) == (message, position)


def test_an_update_is_refused_with_the_way_to_do_it() -> None:
    """The advice names publishing, retracting and the background."""
    with pytest.raises(SubscriptionError, match="publish events") as caught:
        read_query("DELETE WHERE { ?s ?p ?o }")
    assert all(word in str(caught.value) for word in ("motet publish", "motet retract", "motet background"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * " + "{" * 100 + "}" * 100,
        "SELECT * { FILTER(" + "(" * 100 + "1" + ")" * 101 + " }",
        "SELECT * { FILTER(1" + " + 1" * 500 + ") }",
        "SELECT * { " + "OPTIONAL { ?s ?p ?o } " * 500 + "}",
        "SELECT * { ?s " + "(" * 100 + "<urn:p>" + ")" * 100 + " ?o }",
        "SELECT * { ?s ?p " + "[ ?p " * 100 + "1" + " ]" * 100 + " }",
        "SELECT " + " ".join(f"({i} AS ?v{i})" for i in range(500)) + " { }",
        "SELECT * { } #" + " " * 1_000_000,
    ],
)
def test_limits(text: str) -> None:
    """Length, depth and number of operators are limited; the interpreter's stack is not at risk."""
    with pytest.raises(LimitError):
        read_query(text)


@pytest.mark.parametrize(
    "part", ["a.", "a-", "<a", "'a' ", '"""a ', "[]", "(", "-", "\\u0041", "ex:.", "_:a.", "1.e", "# \n"]
)
def test_the_time_is_linear_in_the_text(part: str) -> None:
    """However often something is repeated: no part of the text is read again and again."""
    started = perf_counter()
    with suppress(MotetError):
        read_query("SELECT * { " + part * 20_000 + " }")
    assert perf_counter() - started < 10  # a quadratic reader takes minutes
