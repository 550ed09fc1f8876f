"""SPARQL text becomes algebra: nothing changed, nothing dropped."""

import pytest

from motet.model.errors import LimitError, SubscriptionError
from motet.model.terms import RDF, RDF_TYPE, XSD
from motet.sparql.algebra import (
    EMPTY,
    Alternative,
    And,
    Arithmetic,
    Bgp,
    Call,
    Compare,
    Constant,
    Exists,
    Expr,
    Extend,
    Filter,
    In,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    NegatedSet,
    Not,
    OneOrMore,
    Sequence,
    Triple,
    Union,
    Values,
    Variable,
    ZeroOrMore,
    ZeroOrOne,
)
from motet.sparql.parse import MAX_LENGTH, read_expression, read_group
from motet.sparql.scope import certainly_bound, in_scope, mentioned


def integer(text: str) -> str:
    return f'"{text}"^^<{XSD}integer>'


def number(text: str) -> Constant:
    return Constant(integer(text))


SPO = Bgp((Triple("?s", "?p", "?o"),))
SQO = Bgp((Triple("?s", "<urn:q>", "?x"),))
POSITIVE = Compare(">", Variable("o"), number("0"))


def test_empty_group() -> None:
    """The empty group has no triples."""
    assert read_group("") == Bgp(())


def test_adjacent_triples_are_one_pattern() -> None:
    """Triples around a FILTER belong to one basic pattern; the filter holds for the whole group."""
    assert read_group("?s ?p ?o . FILTER(?o > 0) ?s <urn:q> ?x") == Filter(Bgp((*SPO.triples, *SQO.triples)), POSITIVE)


def test_blank_nodes_are_hidden_variables() -> None:
    """A label is the same variable in a group; brackets and lists make new ones, none can clash with a user's."""
    assert read_group("_:a <urn:p> [ <urn:q> 1 ] . _:a <urn:r> (2)") == Bgp(
        (
            Triple("?.0", "<urn:p>", "?.1"),
            Triple("?.1", "<urn:q>", integer("1")),
            Triple("?.0", "<urn:r>", "?.2"),
            Triple("?.2", f"<{RDF}first>", integer("2")),
            Triple("?.2", f"<{RDF}rest>", f"<{RDF}nil>"),
        )
    )


@pytest.mark.parametrize(
    ("written", "term"),
    [
        ("01", integer("01")),
        ("1.50", f'"1.50"^^<{XSD}decimal>'),
        ("1E1", f'"1E1"^^<{XSD}double>'),
        ("-05", integer("-05")),
        ("+5", integer("+5")),
        ("-.50", f'"-.50"^^<{XSD}decimal>'),
        ("-1.e-01", f'"-1.e-01"^^<{XSD}double>'),
        ("true", f'"true"^^<{XSD}boolean>'),
        (f'"1"^^<{XSD}boolean>', f'"1"^^<{XSD}boolean>'),
        (f'"a" ^^ <{XSD}string>', '"a"'),
        ('"a"@EN-us', '"a"@en-us'),
        ('"a" @en', '"a"@en'),
        ('"tab\there"', '"tab\\there"'),
        (r'"\\u0041 \u0041 \t"', r'"\\u0041 A \t"'),
        ("'''it's # no comment'''", '"it\'s # no comment"'),
        ('"""a"b\n"""', r'"a\"b\n"'),
        ('"!(^<urn:p>)"', '"!(^<urn:p>)"'),
    ],
)
def test_literals_keep_their_text(written: str, term: str) -> None:
    """The lexical form is never normalised, and strings arrive as they were written."""
    assert read_group(f"?s ?p {written}") == Bgp((Triple("?s", "?p", term),))


@pytest.mark.parametrize(
    ("written", "triples"),
    [
        ("a", [Triple("?s", RDF_TYPE, "?o")]),
        ("^<urn:p>", [Triple("?o", "<urn:p>", "?s")]),
        ("<urn:p>/^<urn:q>", [Triple("?s", "<urn:p>", "?.0"), Triple("?o", "<urn:q>", "?.0")]),
        ("^(<urn:p>/<urn:q>)", [Triple("?o", "<urn:p>", "?.0"), Triple("?.0", "<urn:q>", "?s")]),
        ("<urn:p>|<urn:q>", [Triple("?s", Alternative((Link("<urn:p>"), Link("<urn:q>"))), "?o")]),
        ("<urn:p> *", [Triple("?s", ZeroOrMore(Link("<urn:p>")), "?o")]),
        ("( ^ <urn:p> ) +", [Triple("?s", OneOrMore(Inverse(Link("<urn:p>"))), "?o")]),
        ("(<urn:p>/a) ?", [Triple("?s", ZeroOrOne(Sequence((Link("<urn:p>"), Link(RDF_TYPE)))), "?o")]),
        ("!<urn:p>", [Triple("?s", NegatedSet(("<urn:p>",), None), "?o")]),
        ("!^<urn:p>", [Triple("?s", NegatedSet(None, ("<urn:p>",)), "?o")]),
        ("!(<urn:p>| ^ a )", [Triple("?s", NegatedSet(("<urn:p>",), (RDF_TYPE,)), "?o")]),
    ],
)
def test_paths(written: str, triples: list[Triple]) -> None:
    """Links, inverses and sequences become triples; the rest stays a path, white space or not."""
    assert read_group(f"?s {written} ?o") == Bgp(tuple(triples))


def test_signed_number_after_a_predicate() -> None:
    """A plus sign that belongs to a number is not a path modifier."""
    assert read_group("?s <urn:p> +5") == Bgp((Triple("?s", "<urn:p>", integer("+5")),))


def test_optional_takes_the_filter_of_its_own_group_only() -> None:
    """The filter of an OPTIONAL group sees both sides; that of a group inside it does not."""
    assert read_group("?s ?p ?o OPTIONAL { ?s <urn:q> ?x FILTER(?o > 0) }") == LeftJoin(SPO, SQO, POSITIVE)
    nested = Join(EMPTY, Filter(SQO, POSITIVE))
    assert read_group("?s ?p ?o OPTIONAL { { ?s <urn:q> ?x FILTER(?o > 0) } }") == LeftJoin(SPO, nested)


def test_group_elements() -> None:
    """UNION, MINUS, BIND and VALUES apply to what stands before them."""
    assert read_group(
        "{ ?s ?p ?o } UNION { ?s <urn:q> ?x } MINUS { ?s ?p ?o } BIND(1 AS ?y) "
        'VALUES (?s ?z) { (<urn:a> UNDEF) ("b" 1) }'
    ) == Join(
        Extend(Minus(Union(SPO, SQO), SPO), "y", number("1")),
        Values(("s", "z"), (("<urn:a>", None), ('"b"', integer("1")))),
    )


def test_values_of_one_variable() -> None:
    """The short form of VALUES has one entry to a row."""
    assert read_group('VALUES ?x { UNDEF "a" 1 }') == Values(("x",), ((None,), ('"a"',), (integer("1"),)))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        (
            "?a - 1 * 2 - 3",
            Arithmetic("-", Arithmetic("-", Variable("a"), Arithmetic("*", number("1"), number("2"))), number("3")),
        ),
        ("?a-1+?b2", Arithmetic("+", Arithmetic("-", Variable("a"), number("1")), Variable("b2"))),
        ("SHA256(?a) = 07", Compare("=", Call("SHA256", (Variable("a"),)), number("07"))),
        ("?a NOT IN (1, ?b)", Not(In(Variable("a"), (number("1"), Variable("b"))))),
        ("?a IN ( )", In(Variable("a"), ())),
        (
            "?o > 0 && regex(?a, 'b', \"i\")",
            And((POSITIVE, Call("REGEX", (Variable("a"), Constant('"b"'), Constant('"i"'))))),
        ),
        (
            "REPLACE(?a, 'b', 'c', 'i')",
            Call("REPLACE", (Variable("a"), Constant('"b"'), Constant('"c"'), Constant('"i"'))),
        ),
        ("CONCAT ( ?a , 'b' )", Call("CONCAT", (Variable("a"), Constant('"b"')))),
        (f"<{XSD}integer>(?a)", Call(XSD + "integer", (Variable("a"),))),
        ("NOT EXISTS { ?s ?p ?o FILTER(?o > 0) }", Not(Exists(Filter(SPO, POSITIVE)))),
    ],
)
def test_expressions(text: str, tree: Expr) -> None:
    """Operators associate to the left, and the filters inside EXISTS are kept."""
    assert read_expression(text) == tree


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("?s ?p ?o GRAPH ?g { }", "GRAPH is not allowed here", 9),
        ("SERVICE <urn:s> { }", "SERVICE is not allowed here", 0),
        ("{ SELECT * { ?s ?p ?o } }", "a subquery is not allowed here", 2),
        ("FILTER(NOW() > 1)", "NOW has a different value each time and is not allowed", 7),
        ("BIND(BNODE() AS ?x)", "BNODE has a different value each time and is not allowed", 5),
        ("FILTER(COUNT(?x) > 1)", "COUNT is an aggregate and not allowed here", 7),
        ("FILTER(<urn:f>(?x))", "the function <urn:f> is not known", 7),
        ("?s ex:p ?o", "'ex:p' is not written out as an IRI", 3),
        ("?s ?p ?o } UNION { ?s ?p ?o", "not valid SPARQL: '}' cannot stand here", 9),
        ("?s ?p ?o } VALUES ?x { 1", "not valid SPARQL: '}' cannot stand here", 9),
        ("BIND(1 AS ?x) BIND(2 AS ?x)", "not valid SPARQL: ?x already has a value here", 24),
        ("_:a ?p ?o { _:a ?p ?x }", "the blank node _:a is in two groups", 12),
        ("?s ?p 'é' .\n ?s bad ?o", "not valid SPARQL: 'bad' cannot stand here", 16),
        ("FILTER(BOUNDED(?x))", "not valid SPARQL: the function BOUNDED is not known", 7),
        ("FILTER(STRLEN(?x, 1))", "not valid SPARQL: STRLEN takes 1 arguments, not 2", 7),
        ("VALUES (?x ?y) { (1) }", "not valid SPARQL: a VALUES row with 1 values for 2 variables", 17),
    ],
)
def test_refusals(text: str, message: str, position: int) -> None:
    """What the language does not have is refused, with the place."""
    with pytest.raises(SubscriptionError) as caught:
        read_group(text)
    assert (caught.value.message, caught.value.position) == (message, position)


@pytest.mark.parametrize("text", ["", "1) FILTER(2", "1, 2", "?x >"])
def test_an_expression_is_one_expression(text: str) -> None:
    """Text that is no expression, or more than one, is refused."""
    with pytest.raises(SubscriptionError):
        read_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 2_000 + "}" * 2_000,
        "FILTER(" + "(" * 2_000 + "1" + ")" * 2_001,
        "FILTER(1" + " + 1" * 1_000 + ")",
        "{ } " * 2_000,
        " " * (MAX_LENGTH + 1),
    ],
)
def test_limits(text: str) -> None:
    """Size and depth are limited; the interpreter's stack is not at risk."""
    with pytest.raises(LimitError):
        read_group(text)


def test_scopes() -> None:
    """A variable may be bound, certainly bound, or only mentioned."""
    group = read_group(
        "{ ?s ?p ?o } UNION { ?s <urn:q> ?x } OPTIONAL { ?s <urn:r> ?y } BIND(?o AS ?z) MINUS { ?m ?m ?m }"
    )
    assert in_scope(group) == {"s", "p", "o", "x", "y", "z"}
    assert certainly_bound(group) == {"s"}
    assert mentioned(read_expression("IF(?a, -?b, BOUND(?c)) IN (?d) && EXISTS { ?e <urn:p> 1 }")) == set("abcde")
