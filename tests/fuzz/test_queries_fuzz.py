"""`motet fuzz --sparql` compares engines and oracles on random queries, and shows what differs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from motet.cli.main import main
from motet.fuzz import queries
from motet.fuzz.queries import fuzz_queries
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import Answer, SolutionSequence


def test_engines_and_oracles_agree() -> None:
    """The same seed gives the same queries, and known defects of oracles are counted by name."""
    report = fuzz_queries("duckdb", 150, 1)
    assert report.differences == []
    assert report.compared["duckdb"] == report.runs == 150
    assert report.compared["pyoxigraph"] > 50
    assert report.compared["rdflib"] > 10
    assert report.excepted["rdflib: computed values are written in other ways"] > 50
    assert fuzz_queries("duckdb", 3, 1).excepted == fuzz_queries("duckdb", 3, 1).excepted


def test_a_difference_is_shown_with_its_query_and_data(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An engine that answers nothing is found, and the case is saved."""

    def empty(query: Query, dataset: Dataset) -> Answer:
        return SolutionSequence((), [])

    monkeypatch.setattr(queries, "_duckdb_engine", lambda: empty)
    assert main(["fuzz", "--sparql", "--runs", "50", "--json", "--save", str(tmp_path)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["differences"] == 1
    assert set(report["found"][0]) == {"query.rq", "data.nq", "evaluator.txt", "duckdb.txt"}
    assert (tmp_path / "sparql-0-1" / "query.rq").read_text().startswith("SELECT")


def test_options_of_other_engines_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """DuckDB has no subscriptions, the kernel no queries."""
    assert main(["fuzz", "--sparql", "--engine", "kernel"]) == 2
    assert main(["fuzz", "--engine", "duckdb"]) == 2
    assert "Add --sparql" in capsys.readouterr().err


def test_solutions_are_counted() -> None:
    """Two bags with the same solutions in other numbers differ."""
    assert queries._lines(Counter({(("a", "<urn:x>"),): 2})) == "2 × ?a=<urn:x>\n"


def test_rdflib_binds_variables_of_a_subquery_from_outside() -> None:
    """The defect because of which its answers to subqueries are not compared; pyoxigraph has the right answer."""
    text = "SELECT * { ?d <urn:p1> ?b . { SELECT ?c ?a { ?b <urn:p0> ?d } } }"
    graphs: queries.QueryGraphs = {None: [("<urn:n>", "<urn:p1>", "<urn:x>"), ("<urn:m>", "<urn:p0>", "<urn:y>")]}
    assert queries.defect_of_rdflib(text, False) is not None
    assert sum(queries.solutions_of_pyoxigraph(text, graphs).values()) == 1
    assert not queries.solutions_of_rdflib(text, graphs)


def test_rdflib_repeats_the_start_of_a_path_that_a_cycle_leads_back_to() -> None:
    """The defect because of which its answers to paths of any length are not compared."""
    text = "SELECT ?d { <urn:n> (<urn:p1>)* ?d }"
    graphs: queries.QueryGraphs = {None: [("<urn:n>", "<urn:p1>", "<urn:n>")]}
    assert queries.defect_of_rdflib(text, False) is not None
    assert sum(queries.solutions_of_pyoxigraph(text, graphs).values()) == 1
    assert sum(queries.solutions_of_rdflib(text, graphs).values()) == 2
