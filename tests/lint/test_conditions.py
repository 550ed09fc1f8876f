"""Conditions that cannot be true together are found; conditions that can be are left alone."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.lint.conditions import binds, contradiction, implied
from motet.lint.value_types import IRI, LITERAL, ZONED, TermTypes, TypeStatement, common_types, term_types
from motet.model.terms import XSD
from motet.sparql import expressions
from motet.sparql.parse_cache import parse_expression

LOCAL = '"2026-01-01T00:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
DATE = '"2026-01-0{}T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'


def conflict(*texts: str, bound: str = "", unbound: str = "") -> list[str]:
    """The texts of the contradicting conditions."""
    conditions = [parse_expression(text) for text in texts]
    found = contradiction(conditions, bound=frozenset(bound.split()), unbound=frozenset(unbound.split()))
    return [text for text, condition in zip(texts, conditions, strict=True) if condition in found]


@pytest.mark.parametrize(
    "texts",
    [
        ("?x > 5", "?x < 3"),
        ("?x > 5", "?x <= 5"),
        ("?x = 1", "?x = 2"),
        ("?x = 1", "?x != 1"),
        ("?x IN ( 1 , 2 )", "?x IN ( 3 , 4 )"),
        ("?x IN ( <urn:a> )", "?x = <urn:b>"),
        ("?x IN ( <urn:a> , 'a' )", "?x > 3"),
        ("?x > -3", "?x < -5"),
        ("?x > 'm'", "?x < 'c'"),
        ("?x = 'a'", "?x != 'a'"),
        ("STRSTARTS( ?x , 'ab' )", "?x = 'b'"),
        (f"?x > {DATE.format(3)}", f"?x < {DATE.format(1)}"),
        (f"?x > {DATE.format(3)}", "?x > 3"),
        ("?x < ?y", "?x > ?y"),
        ("?x < ?y", "?y < ?x"),
        ("?x = ?y", "?x < ?y"),
        ("! ( ?x > 3 )", "?x > 4"),
        ("BOUND( ?x )", "! BOUND( ?x )"),
        ("?x > 3", "! BOUND( ?x )"),
        (f"?x = {LOCAL}", f"?x = {DATE.format(1)}"),
        (f"?x > {LOCAL}", '?x < "2026-01-01T12:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'),
        ("ISIRI( ?x )", "?x > 3"),
        ("ISLITERAL( ?x )", "?x = <urn:a>"),
        ("ISNUMERIC( ?x )", "?x = 'a'"),
        ("CONTAINS( ?x , 'a' )", "?x > 3"),
        (f"DATATYPE( ?x ) = <{XSD}integer>", "?x = 'a'"),
    ],
)
def test_a_contradiction_is_found(texts: tuple[str, ...]) -> None:
    """Both conditions are named, and either alone can be true."""
    assert conflict(*texts) == list(texts)
    assert [conflict(text) for text in texts] == [[], []]


@pytest.mark.parametrize("texts", [("?x < ?y", "?y < ?z", "?z < ?x"), ("?x < ?y", "?y < 3", "?x > 5")])
def test_nothing_is_less_than_itself(texts: tuple[str, ...]) -> None:
    """A cycle of comparisons is a contradiction, also through constants; no part of it is."""
    assert conflict(*texts) == list(texts)
    assert [conflict(*(text for text in texts if text != one)) for one in texts] == [[], [], []]


@pytest.mark.parametrize("text", ["false", "1 > 2", "?x < ?x", "?x IN ( )", "'a' = 'b'", "! true", "?x > 5 && ?x < 5"])
def test_a_condition_can_contradict_itself(text: str) -> None:
    """Constants, a variable that is less than itself, an empty list."""
    assert conflict(text) == [text]


@pytest.mark.parametrize(
    "texts",
    [
        ("?x > 3", "?x < 5"),
        ("?x >= 5", "?x <= 5"),
        ("?x > 3", "?y < 2"),
        ("?x > 3 || ?y > 3", "?x < 2"),
        ("?x != 1", "?x != 2"),
        ("! ( ?x > 5 )", "! ( ?x <= 5 )"),  # NaN
        ("?x > 0.1", "?x <= 1e-1"),  # a decimal just above, rounded for the second
        ("?x = 0.1", "?x = 0.10000000000000001"),
        ("?x = 'a'@en", "?x = 'a'@fr"),  # not understood
        ("?x != ?x",),  # NaN
        ("?x <= ?y", "?x >= ?y"),
        ("?x < ?y", "?y < ?z", "?x < ?z"),
        ("?x < ?y", "?y < 5", "?x > 3"),
        ("?x < ?y", "?y <= ?z", "?z < ?x"),  # equal after rounding is not equal
        ("! BOUND( ?x )", "?y > 3"),
        ("REGEX( ?x , 'a' )", "! REGEX( ?x , 'a' )"),  # not understood
        (f"?x > {LOCAL}", f"?x < {DATE.format(3)}"),  # more than 14 hours apart
        ("STRSTARTS( STR( ?x ) , 'urn:' )", "ISIRI( ?x )"),
        (f"DATATYPE( ?x ) = <{XSD}integer>", "?x > 1.5"),
    ],
)
def test_conditions_that_may_be_true_are_not_reported(texts: tuple[str, ...]) -> None:
    """Numbers are compared after rounding, NaN is not ordered, and unknown expressions may be true."""
    assert conflict(*texts) == []


def test_a_variable_without_value_makes_comparisons_fail() -> None:
    """An error is not true; BOUND distinguishes them."""
    assert conflict("?x > 3", unbound="x") == ["?x > 3"]
    assert conflict("?x > 3 || ?y > 3", unbound="x") == []
    assert conflict("! BOUND( ?x )", bound="x") == ["! BOUND( ?x )"]


def test_what_a_condition_binds() -> None:
    """A comparison needs a value unless another part can be true without it."""
    assert binds([parse_expression("?x > 3 && ?y > 3")], "x")
    assert not binds([parse_expression("! BOUND( ?x ) || ?x > 3")], "x")


@pytest.mark.parametrize(
    ("given_", "follows", "expected"),
    [
        (["?x > 5"], "?x > 3", True),
        (["?x > 5"], "?x > 7", False),
        (["?x = 4"], "?x IN ( 3 , 4 )", True),
        (["?x = 'abc'"], "STRSTARTS( ?x , 'ab' )", True),
        (["?y > 5"], "?x > 3", False),
        ([], "BOUND( ?x )", True),
        (["?x > ?y"], "?x > ?y", True),
    ],
)
def test_implication(given_: list[str], follows: str, expected: bool) -> None:
    """A narrower condition implies a wider one."""
    found = implied([parse_expression(text) for text in given_], parse_expression(follows), bound=frozenset({"x"}))
    assert found is expected


_XSD = "http://www.w3.org/2001/XMLSchema#"
_TERMS = [
    *(f'"{n}"^^<{_XSD}{kind}>' for n, kind in product(("1", "2", "3"), ("integer", "decimal", "float", "double"))),
    f'"1.5"^^<{_XSD}decimal>', f'"NaN"^^<{_XSD}double>', f'"x"^^<{_XSD}integer>', f'"true"^^<{_XSD}boolean>',
    f'"2026-01-01T00:00:00Z"^^<{_XSD}dateTime>', f'"2026-01-02T00:00:00"^^<{_XSD}dateTime>',
    f'"2026-01-01T13:00:00Z"^^<{_XSD}dateTime>', f'"2026-01-01T14:00:00Z"^^<{_XSD}dateTime>',
    f'"2026-01-01T14:00:00.1Z"^^<{_XSD}dateTime>', f'"2026-01-01T00:00:00"^^<{_XSD}dateTime>',
    f'"2025-12-31T10:00:00Z"^^<{_XSD}dateTime>', f'"2025-12-31T09:00:00Z"^^<{_XSD}dateTime>',
    f'"2025-12-31T09:59:59"^^<{_XSD}dateTime>', f'"2026-01-01T14:00:00.1"^^<{_XSD}dateTime>',
    '"a"', '"b"', '"a"@en', "<urn:a>", "<urn:b>", None,
]  # fmt: skip
_CONSTANTS = ["1", "2", "1.5", "2.0e0", "'a'", "'b'", "<urn:a>", DATE.format(1), "true", "'a'@en", "?y", LOCAL]
_signs = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
_atoms = st.builds("?{} {} {}".format, st.sampled_from("xxy"), _signs, st.sampled_from(_CONSTANTS))
_others = st.sampled_from(
    ["BOUND( ?x )", "STRSTARTS( ?x , 'a' )", "?x IN ( 1 , 'a' )", "false", "?x", "ISIRI( ?x )", "ISLITERAL( ?x )",
     "ISNUMERIC( ?x )", "CONTAINS( ?x , 'a' )", "REGEX( ?x , 'a' )", f"DATATYPE( ?x ) = <{_XSD}integer>",
     f"DATATYPE( ?x ) = <{_XSD}dateTime>", "STRSTARTS( STR( ?x ) , 'urn' )"]
)  # fmt: skip
_trees = st.recursive(
    _atoms | _others,
    lambda inner: (
        st.builds("( {} ) && ( {} )".format, inner, inner)
        | st.builds("( {} ) || ( {} )".format, inner, inner)
        | st.builds("! ( {} )".format, inner)
    ),
    max_leaves=4,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_trees, min_size=1, max_size=4))
def test_contradictions_are_false_for_every_value(texts: list[str]) -> None:
    """The engine has no values for which all reported conditions are true."""
    conditions = [parse_expression(text) for text in texts]
    if contradiction(conditions):
        tests = [expressions.test(condition) for condition in conditions]
        for x, y in product(_TERMS, _TERMS):
            row = {name: term for name, term in (("x", x), ("y", y)) if term is not None}
            assert not all(holds(row) for holds in tests), (texts, row)


_TYPES = [
    {IRI}, {LITERAL}, {ZONED}, {XSD + "string"}, {XSD + "integer"}, {XSD + "decimal", XSD + "double"},
    {XSD + "dateTime", ZONED}, {XSD + "boolean", IRI}, {XSD + "string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"},
]  # fmt: skip
_types = st.sampled_from(_TYPES).map(frozenset)


@settings(max_examples=300, deadline=None)
@given(st.lists(_trees, max_size=3), _types, _types, _types)
def test_type_tests_contradict_for_every_value(
    texts: list[str], x_types: TermTypes, more_x_types: TermTypes, y_types: TermTypes
) -> None:
    """Where types and conditions contradict, the engine has no values of these types that fulfil the conditions."""
    conditions = [parse_expression(text) for text in texts]
    typed = [("x", x_types), ("x", more_x_types), ("y", y_types)]
    statements = [TypeStatement(name, types, "").test() for name, types in typed]
    if contradiction([*conditions, *statements], bound=frozenset({"x", "y"})):
        tests = [expressions.test(condition) for condition in conditions]
        for x, y in product(_TERMS[:-1], _TERMS[:-1]):
            row = {"x": str(x), "y": str(y)}
            if all(common_types(term_types(row[name]), types) for name, types in typed):
                assert not all(holds(row) for holds in tests), (texts, typed, row)


@settings(max_examples=200, deadline=None)
@given(st.lists(_trees, max_size=2), _trees)
def test_implications_hold_for_every_value(texts: list[str], conclusion: str) -> None:
    """An implied conclusion is true wherever the conditions are."""
    conditions, follows = [parse_expression(text) for text in texts], parse_expression(conclusion)
    if implied(conditions, follows, bound=frozenset({"x"})):
        tests, then = [expressions.test(condition) for condition in conditions], expressions.test(follows)
        for x, y in product(_TERMS[:-1], _TERMS[:-1]):
            row = {"x": str(x), "y": str(y)}
            if all(holds(row) for holds in tests):
                assert then(row), (texts, conclusion, row)
