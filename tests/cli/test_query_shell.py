"""The shell of `motet query`."""

from __future__ import annotations

from pathlib import Path

import pytest

import motet
from motet.cli.query import CANCEL, QueryShell, _completer
from motet.lake import Lake
from motet.model.errors import UsageError


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    with motet.open(tmp_path / "lake", durable=False) as cloud:
        cloud.publish(
            "<urn:e:1> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x.org/Smoke> <urn:e:1> .\n"
            '<urn:e:1> <http://x.org/level> "5" <urn:e:1> .\n'
        )
    return Lake.open(tmp_path / "lake", create=False)


def typed(lake: Lake, *lines: str) -> list[str]:
    """The queries that are answered when these lines are typed."""
    answered: list[str] = []
    QueryShell(lake, answered.append).run(lines)
    return answered


def test_a_query_ends_with_an_empty_line_or_a_semicolon(lake: Lake) -> None:
    assert typed(lake, "ASK", "{}", "", "", "ASK { ?s ?p ?o };", "SELECT *") == [
        "ASK\n{}\n",
        "ASK { ?s ?p ?o }",
        "SELECT *",
    ]


def test_known_prefixes_are_declared(lake: Lake) -> None:
    """Those of a query before, and those that everybody knows; an IRI is no prefix."""
    first = "PREFIX x: <http://x.org/> ASK { ?e a x:Smoke };"
    second = "ASK { ?e x:level ?l ; motet:start ?t ; <http://x.org/a:b> 'c:d' };"
    assert typed(lake, first, second)[1].startswith("PREFIX x: <http://x.org/> PREFIX motet: <urn:motet:ns#> ASK")


def test_an_error_and_a_cancelled_query_do_not_end_the_shell(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: str) -> None:
        raise UsageError("no such thing")

    QueryShell(lake, fail).run(["ASK {};", "ASK {};"])
    assert capsys.readouterr().err.count("no such thing") == 2
    assert typed(lake, "SELECT", CANCEL, "ASK {};") == ["ASK {}"]


def test_commands(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(lake, ".help", ".prefixes", ".topics", ".quit", "ASK {};") == []
    printed = capsys.readouterr().out
    for expected in (".quit", "urn:motet:ns#", "http://x.org/Smoke: 1 event"):
        assert expected in printed


def test_names_of_the_lake_are_completed(lake: Lake) -> None:
    shell = QueryShell(lake, lambda _: None)
    assert shell.completions("<http://x.org/S") == ["<http://x.org/Smoke>"]
    assert shell.completions("SEL") == ["SELECT"]
    assert shell.completions("rdfs") == ["rdfs:"]
    assert shell.completions("<http://x") == ["<http://x.org/>", "<http://x.org/Smoke>", "<http://x.org/level>"]
    shell.prefixes["x"] = "http://x.org/"
    assert shell.completions("x:") == ["x:", "x:Smoke", "x:level"]


def test_prefixes_of_the_query_being_typed_are_completed(lake: Lake) -> None:
    """Those of its earlier lines, and of the line of the cursor."""
    shell = QueryShell(lake, lambda _: None)
    shell.run(iter(["PREFIX x: <http://x.org/>", CANCEL]))
    assert shell.completions("x:S") == ["x:Smoke"]
    complete = _completer(QueryShell(lake, lambda _: None), lambda: "PREFIX y: <http://x.org/> SELECT * { ?e a y:")
    assert [complete("y:", state) for state in range(4)] == ["y:", "y:Smoke", "y:level", None]
