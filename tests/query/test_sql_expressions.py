"""Compiled expressions and aggregates have the values of the evaluator, for every pair of terms of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.query.expression_cases import AGGREGATES, DATA, GROUPS, OF_ONE, OF_TWO, expressions_query, filter_query

from motet.query.duckdb_engine import DuckDbEngine, connect, load_tables
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import SolutionSequence, answer
from motet.sparql.parse import read_query
from motet.sparql.term_columns import EXACT_NUMBERS, term_columns
from motet.sparql.values import order_key

Rows = Counter[tuple[tuple[str, str], ...]]


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDbEngine]:
    with connect() as connection:
        yield DuckDbEngine(connection)


def rows(found: object) -> Rows:
    assert isinstance(found, SolutionSequence)
    return Counter(tuple(sorted(row.items())) for row in found.rows)


def check(engine: DuckDbEngine, text: str, dataset: Dataset = DATA) -> None:
    query = read_query(text)
    found = rows(engine.answer(query, load_tables(engine.connection, dataset), now=dataset.now))
    expected = rows(answer(query, dataset))
    assert found - expected == expected - found


def test_expressions_have_the_values_of_the_evaluator(engine: DuckDbEngine) -> None:
    """An error is an unbound variable."""
    check(engine, expressions_query(OF_ONE).replace("?a, ?b }", "?a }"))
    check(engine, expressions_query(OF_TWO))


@pytest.mark.parametrize("expression", OF_ONE + OF_TWO)
def test_filters_keep_what_the_evaluator_keeps(engine: DuckDbEngine, expression: str) -> None:
    """An error is false, under a negation too."""
    for condition in (expression, f"!({expression})"):
        query = filter_query(condition)
        check(engine, query if "?b" in expression else query.replace("?a, ?b FILTER", "?a FILTER"))


@pytest.mark.parametrize("group", GROUPS)
def test_aggregates_have_the_values_of_the_evaluator(engine: DuckDbEngine, group: str) -> None:
    """Of SAMPLE and GROUP_CONCAT only whether they have one: any term and any order will do."""
    dataset = Dataset([("<urn:s>", "<urn:p>", term) for term in GROUPS[group]])
    for aggregate in AGGREGATES:
        query = read_query(f"SELECT ({aggregate} AS ?x) {{ <urn:s> <urn:p> ?a }}")
        found = rows(engine.answer(query, load_tables(engine.connection, dataset), now=dataset.now))
        expected = rows(answer(query, dataset))
        if aggregate.startswith(("GROUP_CONCAT", "SAMPLE")):
            assert [bool(row) for row in found] == [bool(row) for row in expected], aggregate
        else:
            assert found == expected, aggregate


@pytest.mark.parametrize("group", GROUPS)
def test_expressions_over_terms_of_some_kinds_have_the_values_of_the_evaluator(
    engine: DuckDbEngine, group: str
) -> None:
    """Branches for kinds that no term has are left out."""
    dataset = Dataset([("<urn:s>", "<urn:p>", term) for term in GROUPS[group]])
    check(engine, expressions_query(OF_ONE).replace("?a, ?b }", "?a }"), dataset)
    check(engine, expressions_query(OF_TWO), dataset)
    check_order(engine, "ASC", dataset)


@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_the_order_is_that_of_the_evaluator(engine: DuckDbEngine, direction: str) -> None:
    """Also where the key is written in SQL; terms of equal rank may be in any order."""
    check_order(engine, direction, DATA)


def check_order(engine: DuckDbEngine, direction: str, dataset: Dataset) -> None:
    query = read_query(f"SELECT ?a {{ <urn:s> <urn:p> ?a }} ORDER BY {direction}(?a)")
    found = engine.answer(query, load_tables(engine.connection, dataset), now=dataset.now)
    expected = answer(query, dataset)
    assert isinstance(found, SolutionSequence)
    assert isinstance(expected, SolutionSequence)
    assert [order_key(row["a"]) for row in found.rows] == [order_key(row["a"]) for row in expected.rows]


def test_kinds_of_numbers_are_exact_only_where_doubles_are() -> None:
    """Long decimals, large integers, NaN and floats are not."""
    exact = [term for term in GROUPS["all numbers"] if term_columns(term).okind in EXACT_NUMBERS]
    assert [term.split('"')[1] for term in exact] == [
        "1", "01", "-2", "1.0", "0.1", "-2.50", ".5", "1", "1e0", "0.1", "INF", "-1.5e-3",
    ]  # fmt: skip
