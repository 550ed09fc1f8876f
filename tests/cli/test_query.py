"""`motet query` over files and lakes."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import motet
from motet.cli.main import main
from motet.sparql import basic_patterns

DATA = "<urn:a> <urn:level> 1 , 2 . <urn:g> { <urn:b> <urn:level> 3 }"


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "data.trig"
    path.write_text(DATA)
    return str(path)


def test_a_table_is_printed(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The table on standard output, the number of rows beside it."""
    assert main(["query", "SELECT ?l { ?s <urn:level> ?l } ORDER BY ?l", "--data", data]) == 0
    printed = capsys.readouterr()
    assert ([line.strip() for line in printed.out.splitlines()], printed.err) == (["?l", "1", "2"], "2 rows\n")


@pytest.mark.parametrize(
    ("query", "syntax", "expected"),
    [
        ("SELECT ?x { GRAPH ?x { } }", "csv", "x\r\nurn:g\r\n"),
        ("SELECT ?x { GRAPH ?x { } }", "tsv", "?x\n<urn:g>\n"),
        ("ASK { }", "json", '{"head": {}, "boolean": true}\n'),
        ("CONSTRUCT { ?s <urn:p> ?s } { ?s ?p 1 }", "nt", "<urn:a> <urn:p> <urn:a> .\n"),
        ("DESCRIBE <urn:a> FROM <urn:g>", "nt", ""),
        ("ASK { }", "table", "true\n"),
    ],
)
def test_formats(query: str, syntax: str, expected: str, data: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """Each kind of answer in a format it has."""
    assert main(["query", query, "--data", data, "--format", syntax]) == 0
    assert capfdbinary.readouterr().out.decode() == expected


def test_a_query_is_read_from_a_file(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or from standard input; the answer can go to a file."""
    query, target = tmp_path / "q.rq", tmp_path / "out.csv"
    query.write_text("SELECT (COUNT(*) AS ?n) { ?s ?p ?o }")
    assert main(["query", "--file", str(query), "--data", data, "--format", "csv", "--output", str(target)]) == 0
    assert target.read_bytes() == b"n\r\n2\r\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("ASK { }"))
    assert main(["query", "--file", "-", "--data", data]) == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["SELECT ?x {\n ?x }"], 2, "line 2, column 5: not valid SPARQL: '}' cannot stand here"),
        (["INSERT DATA { }"], 2, "INSERT is an update, and updates are not supported"),
        (["ASK { }", "--file", "q.rq"], 2, "a query is needed, once"),
        ([], 2, "a query is needed, once"),
        (["--file", "none.rq"], 2, "none.rq: cannot be read"),
        (["SELECT * { ?s ?p ?o }", "--max-rows", "1"], 1, "the answer has more than 1 rows"),
        (["SELECT * { }", "--format", "ttl"], 2, "a table of solutions cannot be written as 'ttl'"),
        (["SELECT * { }", "--output", "x"], 2, "a table is for the terminal"),
    ],
)
def test_errors(arguments: list[str], status: int, message: str, data: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An error names the place and says what to do."""
    assert main(["query", *arguments, "--data", data]) == status
    assert message in capsys.readouterr().err


def test_a_graph_that_is_in_no_file_is_named(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is taken as empty, with a warning."""
    assert main(["query", "ASK FROM <urn:g> FROM <urn:other> { }", "--data", data]) == 0
    assert capsys.readouterr().err == "the graph <urn:other> is in none of the files; it is taken as empty\n"


def test_a_query_that_takes_too_long_is_given_up(
    data: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the seconds that --timeout allows."""
    monkeypatch.setattr(basic_patterns, "MAX_ROWS", 10**9)
    triples = " . ".join(f"?s{i} ?p{i} ?o{i}" for i in range(40))
    assert main(["query", f"SELECT * {{ {triples} }}", "--data", data, "--timeout", "1"]) == 1
    assert "no answer after 1 s" in capsys.readouterr().err


@pytest.fixture
def lake(tmp_path: Path) -> str:
    with motet.open(tmp_path / "lake", durable=False) as cloud:
        cloud.publish("<urn:a> <urn:p> <urn:b> <urn:e:1> .")
        cloud.publish("<urn:a> <urn:p> <urn:c> <urn:e:2> .")
    return str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "?o\n<urn:b>\n<urn:c>\n"),
        (["--as-of", "1"], "?o\n<urn:b>\n"),
        (["--to", "1990-01-01T00:00:00Z"], "?o\n"),
        (["--entailment", "rdfs"], "?o\n<urn:b>\n<urn:c>\n"),
    ],
)
def test_a_lake_is_queried(options: list[str], expected: str, lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    query = "SELECT ?o { <urn:a> <urn:p> ?o } ORDER BY ?o"
    assert main(["query", query, "--lake", lake, "--format", "tsv", *options]) == 0
    assert capfd.readouterr().out == expected


def test_a_query_of_notifications_computes_them_first(lake: str, capfd: pytest.CaptureFixture[str]) -> None:
    text = 'SUBSCRIPTION any SINCE "2000-01-01T00:00:00Z" EVENT e WHEN e SIGNAL'
    motet.Lake.open(lake).subscribe("any", text)
    query = "SELECT (COUNT(*) AS ?n) FROM <urn:motet:notifications> { ?n <urn:motet:ns#subscription> 'any' }"
    assert main(["query", query, "--lake", lake, "--format", "csv"]) == 0
    assert capfd.readouterr().out == "n\r\n2\r\n"


def test_what_is_for_lakes_is_refused_for_files(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "ASK {}", "--data", data, "--as-of", "1"]) == 2
    assert "--as-of is for lakes" in capsys.readouterr().err


def test_files_are_closed_together(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A class of one file is a subclass in another one; an individual may be a blank node."""
    (tmp_path / "a.ttl").write_text("<urn:D> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:A> .")
    (tmp_path / "b.ttl").write_text("[] a <urn:D> .")
    files = [str(tmp_path / name) for name in ("a.ttl", "b.ttl")]
    for entailment, answer in (("none", "false\n"), ("rdfs", "true\n")):
        assert main(["query", "ASK { ?x a <urn:A> }", "--data", *files, "--entailment", entailment]) == 0
        assert capfd.readouterr().out == answer
