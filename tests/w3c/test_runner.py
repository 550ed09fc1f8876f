"""The runner of the W3C suites finds what is wrong: shown on a small suite of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.w3c.run import main

MANIFEST = """
@prefix mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#> .
@prefix qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#> .
<> a mf:Manifest ; mf:entries ( <#right> <#wrong> <#order> <#blank> <#graph> <#good> <#bad> <#accepted> <#update> ) .
<#right> a mf:QueryEvaluationTest ; mf:action [ qt:query <all.rq> ; qt:data <d.ttl> ] ; mf:result <right.csv> .
<#wrong> a mf:QueryEvaluationTest ; mf:action [ qt:query <all.rq> ; qt:data <d.ttl> ] ; mf:result <wrong.tsv> .
<#order> a mf:QueryEvaluationTest ; mf:action [ qt:query <order.rq> ; qt:data <d.ttl> ] ; mf:result <order.tsv> .
<#blank> a mf:QueryEvaluationTest ; mf:action [ qt:query <blank.rq> ; qt:data <d.ttl> ] ; mf:result <blank.tsv> .
<#graph> a mf:QueryEvaluationTest ; mf:action [ qt:query <graph.rq> ; qt:graphData <d.ttl> ] ; mf:result <graph.ttl> .
<#good> a mf:PositiveSyntaxTest11 ; mf:action <all.rq> .
<#bad> a mf:NegativeSyntaxTest11 ; mf:action <bad.rq> .
<#accepted> a mf:NegativeSyntaxTest11 ; mf:action <all.rq> .
<#update> a mf:UpdateEvaluationTest ; mf:action <bad.rq> .
"""
FILES = {
    "manifest.ttl": MANIFEST,
    "d.ttl": "<urn:a> <urn:p> 1 , 2 ; <urn:q> [] , [] .",
    "all.rq": "SELECT ?x { ?s <urn:p> ?x }",
    "order.rq": "SELECT ?x { ?s <urn:p> ?x } ORDER BY ?x",
    "blank.rq": "SELECT ?x ?y { ?s <urn:q> ?x , ?y }",
    "graph.rq": "CONSTRUCT { [] <urn:in> ?x } { GRAPH ?g { ?s <urn:p> ?x } }",
    "bad.rq": "SELECT ?x",
    "right.csv": "x\r\n2\r\n1\r\n",
    "wrong.tsv": "?x\n1\n1\n",
    "order.tsv": "?x\n2\n1\n",
    "blank.tsv": "?x\t?y\n_:a\t_:a\n_:a\t_:b\n_:b\t_:a\n_:b\t_:b\n",
    "graph.ttl": "[] <urn:in> 1 . [] <urn:in> 2 .",
}
ENTAILMENT = {
    "manifest.ttl": """
@prefix mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#> .
@prefix qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#> .
@prefix sd: <http://www.w3.org/ns/sparql-service-description#> .
@prefix ent: <http://www.w3.org/ns/entailment/> .
<> a mf:Manifest ; mf:entries ( <#rdfs> <#rif> ) .
<#rdfs> a mf:QueryEvaluationTest ; mf:result <class.tsv> ;
    mf:action [ qt:query <class.rq> ; qt:data <class.ttl> ; sd:entailmentRegime ( ent:OWL-Direct ent:RDFS ) ] .
<#rif> a mf:QueryEvaluationTest ; mf:result <class.tsv> ;
    mf:action [ qt:query <class.rq> ; qt:data <class.ttl> ; sd:entailmentRegime ent:RIF ] .
""",
    "class.ttl": "<urn:A> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:B> . <urn:a> a <urn:A> .",
    "class.rq": "SELECT ?x { ?x a <urn:B> }",
    "class.tsv": "?x\n<urn:a>\n",
}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    directory = tmp_path / "sparql11" / "own"
    directory.mkdir(parents=True)
    for name, text in FILES.items():
        (directory / name).write_bytes(text.encode())
    return tmp_path


def test_failures_are_named_with_their_reasons(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong row, a wrong order and an accepted error fail; blank nodes may have other names."""
    assert main(["--path", str(suite), "--json", "--engine", "memory"]) == 1
    (report,) = json.loads(capsys.readouterr().out)
    assert sorted(report["failures"]) == [f"sparql11/own/{name}" for name in ("accepted", "order", "wrong")]
    assert {count["kind"]: (count["passed"], count["total"]) for count in report["counts"]} == {
        "evaluation": (3, 5),
        "positive syntax": (1, 1),
        "negative syntax": (1, 2),
    }


def test_the_table_has_a_line_for_each_category(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the counts, and no status 1 when all chosen tests pass."""
    assert main(["--path", str(suite), "--engine", "memory", "--engine", "duckdb", "right"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "sparql11 evaluation: 1 of 1 on memory",
        "sparql11 evaluation: 1 of 1 on duckdb",
    ]


def test_entailment_is_reported_and_fails_nothing(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reasoner on, for the entailment that a test asks for."""
    directory = suite / "sparql11" / "entailment"
    directory.mkdir()
    for name, text in {**FILES, **ENTAILMENT}.items():
        (directory / name).write_bytes(text.encode())
    assert main(["--path", str(suite), "--engine", "memory", "/entailment/"]) == 0
    assert "sparql11 entailment: 1 of 2 on memory" in capsys.readouterr().out
