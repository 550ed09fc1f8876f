"""Whole queries: what they mean on a small dataset, on every engine."""

from __future__ import annotations

import sys

import pytest
from tests.query.engines import ENGINES, Engine

from motet.model.errors import UsageError
from motet.model.intervals import Interval
from motet.model.terms import XSD, literal, literal_parts
from motet.sparql import functions, operators, parse_patterns
from motet.sparql.dataset import Dataset, Graph
from motet.sparql.evaluate import SolutionSequence
from motet.sparql.functions import RELATIONS
from motet.sparql.parse import read_query


def integer(value: int | str) -> str:
    return literal(str(value), datatype=XSD + "integer")


def decimal(text: str) -> str:
    return literal(text, datatype=XSD + "decimal")


ROOMS = Dataset(
    [
        ("<urn:a>", "<urn:level>", integer(1)),
        ("<urn:b>", "<urn:level>", integer(2)),
        ("<urn:c>", "<urn:level>", integer("02")),
        ("<urn:d>", "<urn:level>", '"high"'),
        ("<urn:a>", "<urn:in>", "_:b0"),
        ("_:b0", "<urn:floor>", integer(3)),
    ],
    {
        "<urn:g>": [("<urn:a>", "<urn:near>", "<urn:b>")],
        "<urn:h>": [("<urn:a>", "<urn:near>", "<urn:b>"), ("<urn:b>", "<urn:near>", "<urn:c>")],
        "<urn:empty>": [],
    },
    now="2026-11-16T12:00:00Z",
)


@pytest.fixture(params=sorted(ENGINES), autouse=True)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "answer", ENGINES[request.param])


answer: Engine = ENGINES["memory"]  # replaced by the engine of the test that runs


def rows(text: str, dataset: Dataset = ROOMS) -> list[dict[str, str]]:
    result = answer(read_query(text), dataset)
    assert isinstance(result, SolutionSequence)
    return result.rows


def values(text: str, dataset: Dataset = ROOMS) -> list[str | None]:
    """The column ``x`` of a query."""
    return [row.get("x") for row in rows(text, dataset)]


def triples(text: str) -> list[tuple[str, str, str]]:
    result = answer(read_query(text), ROOMS)
    assert isinstance(result, Graph)
    return list(result)


def test_order_puts_kinds_of_terms_one_after_the_other() -> None:
    """Unbound, blank nodes, IRIs, numbers by value, other literals; equal values leave it to the next condition."""
    query = "SELECT ?x { VALUES (?x ?y) { ('b' 1) (1.5 1) (<urn:z> 1) (UNDEF 1) (01 2) (1 1) ('a' 1) } } ORDER BY ?x ?y"
    assert values(query) == [None, "<urn:z>", integer(1), integer("01"), decimal("1.5"), '"a"', '"b"']
    assert values("SELECT ?x { ?s <urn:level> ?x } ORDER BY DESC(?x) LIMIT 1 OFFSET 1")[0] in (
        integer(2),
        integer("02"),
    )


def test_distinct_compares_terms_and_aggregates_compute_values() -> None:
    """``2`` and ``02`` are two terms of one value."""
    assert values("SELECT (COUNT(DISTINCT ?l) AS ?x) { ?s <urn:level> ?l }") == [integer(4)]
    assert values("SELECT (SUM(?l) AS ?x) { ?s <urn:level> ?l FILTER(ISNUMERIC(?l)) }") == [integer(5)]
    assert values("SELECT (AVG(?l) AS ?x) { ?s <urn:level> ?l FILTER(ISNUMERIC(?l)) } HAVING (COUNT(*) = 3)")[0] == (
        decimal("1.666666666666666666")
    )


def test_distinct_keeps_the_first_of_each() -> None:
    """The order of ORDER BY remains, also when it is by something that is not projected."""
    query = "SELECT DISTINCT ?x { VALUES (?x ?y) { ('a' 1) ('b' 2) ('a' 3) } } ORDER BY ?y"
    assert values(query) == ['"a"', '"b"']


def test_groups_are_ordered_by_aggregates_that_are_not_projected() -> None:
    """ORDER BY and HAVING have aggregates of their own; EXISTS has variables of its own."""
    data = "VALUES (?x ?y) { ('a' 1) ('b' 2) ('b' 3) }"
    assert values(f"SELECT ?x {{ {data} }} GROUP BY ?x ORDER BY DESC(COUNT(*))") == ['"b"', '"a"']
    assert values(f"SELECT ?x {{ {data} }} GROUP BY ?x HAVING (MAX(?y) = 1)") == ['"a"']
    exists = "SELECT ?s (EXISTS { ?s <urn:in> ?z } AS ?x) { ?s <urn:level> ?l } GROUP BY ?s ORDER BY ?s LIMIT 2"
    assert [literal_parts(value or "")[0] for value in values(exists)] == ["true", "false"]


def test_count_of_solutions() -> None:
    """COUNT(*) counts solutions, empty ones too; with DISTINCT it compares their visible variables."""
    assert values("SELECT (COUNT(*) AS ?x) { VALUES ?v { UNDEF 1 1 } }") == [integer(3)]
    assert values("SELECT (COUNT(DISTINCT *) AS ?x) { VALUES ?v { UNDEF 1 1 } }") == [integer(2)]
    assert values("SELECT (COUNT(DISTINCT *) AS ?x) { ?r <urn:level> [] }") == [integer(4)]


def test_an_error_in_an_aggregate_leaves_it_unbound() -> None:
    """SUM over a value that is no number is an error; COUNT only counts what has a value; SAMPLE needs one."""
    assert rows("SELECT (SUM(?l) AS ?s) (COUNT(ABS(?l)) AS ?n) (SAMPLE(ABS(?l)) AS ?x) { ?r <urn:level> ?l }") == [
        {"n": integer(3), "x": integer(1)}
    ]


def test_the_empty_group() -> None:
    """Without GROUP BY there is one group, even an empty one; with it there is none."""
    nothing = "{ ?s <urn:none> ?o }"
    assert rows(f"SELECT (COUNT(*) AS ?n) (SUM(?o) AS ?s) (AVG(?o) AS ?a) (MIN(?o) AS ?m) {nothing}") == [
        {"n": integer(0), "s": integer(0), "a": integer(0)}
    ]
    assert values(f"SELECT (GROUP_CONCAT(?o) AS ?x) {nothing}") == ['""']
    assert rows(f"SELECT ?s (COUNT(*) AS ?n) {nothing} GROUP BY ?s") == []


def test_group_concat_has_a_separator() -> None:
    """The separator stands between the texts of the values."""
    query = "SELECT (GROUP_CONCAT(DISTINCT ?v ; SEPARATOR = '; ') AS ?x) { VALUES ?v { 'a' 'b' 'a' } }"
    assert values(query) == ['"a; b"']


def test_group_keys_are_terms_and_may_be_errors() -> None:
    """A key that is an error is a key of its own."""
    query = "SELECT ?k (COUNT(*) AS ?n) { ?s <urn:level> ?l } GROUP BY (?l + 0 AS ?k) ORDER BY ?k"
    assert rows(query) == [{"n": integer(1)}, {"k": integer(1), "n": integer(1)}, {"k": integer(2), "n": integer(2)}]


def test_graph_ranges_over_named_graphs() -> None:
    """GRAPH with a variable gives each named graph its own evaluation, a subquery's aggregates included."""
    query = "SELECT ?g ?x { GRAPH ?g { SELECT (COUNT(*) AS ?x) { ?s <urn:near> ?o } } } ORDER BY ?g"
    assert values(query) == [integer(0), integer(1), integer(2)]
    assert values("SELECT ?x { GRAPH <urn:none> { VALUES ?x { 1 } } }") == []
    assert values("SELECT ?x { GRAPH <urn:empty> { VALUES ?x { 1 } } }") == [integer(1)]
    assert values("SELECT ?x { GRAPH ?x { ?x ?p ?o } }") == []


def test_from_makes_a_set_and_hides_the_rest() -> None:
    """The default graph of FROM is a set; graphs without FROM NAMED are not there."""
    assert values("SELECT (COUNT(*) AS ?x) FROM <urn:g> FROM <urn:h> { ?s ?p ?o }") == [integer(2)]
    assert values("SELECT ?x FROM <urn:g> { GRAPH ?x { ?s ?p ?o } }") == []
    assert values("SELECT DISTINCT ?x FROM NAMED <urn:h> { GRAPH ?x { ?s ?p ?o } }") == ["<urn:h>"]


def test_a_subquery_hides_its_own_variables() -> None:
    """Only projected variables join; LIMIT belongs to the subquery."""
    query = "SELECT ?x { ?x <urn:level> ?l { SELECT ?x { ?x <urn:in> ?l } LIMIT 1 } }"
    assert values(query) == ["<urn:a>"]


def test_exists_with_a_subquery_substitutes_projected_variables() -> None:
    """The other variables of the subquery are its own."""
    query = "SELECT ?x { ?x <urn:level> ?l FILTER EXISTS { SELECT ?x { ?x <urn:in> ?l } } }"
    assert values(query) == ["<urn:a>"]


def test_construct_makes_blank_nodes_for_each_solution() -> None:
    """What is no triple of RDF is left out; duplicates are one triple."""
    made = triples(
        "CONSTRUCT { ?s <urn:has> [ <urn:of> ?l ] . ?l <urn:x> ?s . <urn:k> <urn:k> <urn:k> } { ?s <urn:level> ?l }"
    )
    nodes = {obj for _, predicate, obj in made if predicate == "<urn:has>"}
    assert (len(nodes), all(node.startswith("_:") for node in nodes), len(made)) == (4, True, 9)


def test_describe_follows_blank_nodes() -> None:
    """A concise bounded description: the triples of a node and of the blank nodes they lead to."""
    assert {predicate for _, predicate, _ in triples("DESCRIBE <urn:a>")} == {"<urn:level>", "<urn:in>", "<urn:floor>"}
    assert triples("DESCRIBE ?s { ?s <urn:level> 'high' }") == [("<urn:d>", "<urn:level>", '"high"')]


def test_ask() -> None:
    """ASK says whether there is a solution."""
    assert answer(read_query("ASK { ?s <urn:level> 1 }"), ROOMS) is True
    assert answer(read_query("ASK { ?s <urn:level> 7 }"), ROOMS) is False


def test_functions_that_differ_each_time_come_from_the_dataset() -> None:
    """NOW is one instant for the query; equal arguments of BNODE are one node in a solution, two in two."""
    now = literal("2026-11-16T12:00:00Z", datatype=XSD + "dateTime")
    assert values("SELECT (NOW() AS ?x) { }") == [now]
    nodes = rows("SELECT (BNODE(?v) AS ?p) (BNODE(?v) AS ?q) { VALUES ?v { 'a' 'a' } }")
    assert (nodes[0]["p"] == nodes[0]["q"], nodes[0]["p"] == nodes[1]["p"]) == (True, False)
    (row,) = rows("SELECT (UUID() AS ?u) (STRUUID() AS ?s) (RAND() AS ?r) { FILTER(RAND() < 1) }")
    assert (row["u"][:10], len(row["s"]), row["u"][10:-1] == row["s"][1:-1]) == ("<urn:uuid:", 38, False)


def test_iri_is_resolved_against_the_base() -> None:
    """A relative IRI needs the query's BASE."""
    assert values("BASE <http://a/b/> SELECT (IRI('c') AS ?x) { }") == ["<http://a/b/c>"]
    assert values("SELECT (IRI('c') AS ?x) { }") == [None]


def test_escapes_of_code_points_are_read_everywhere() -> None:
    """Outside strings and IRIs too (SPARQL 1.1, section 19.2)."""
    assert values(r"SELECT (STR('\u0041') AS ?\u0078) { }") == ['"A"']


def test_an_unknown_function_is_refused_by_name() -> None:
    """It parses, since engines may have functions of their own; this one has none."""
    with pytest.raises(UsageError, match="<urn:f> is not known"):
        rows("SELECT * { FILTER(<urn:f>(1)) }")


def test_every_function_has_a_number_of_arguments_and_a_meaning() -> None:
    """The parser and the evaluator know the same functions, casts and aggregates."""
    assert parse_patterns.FUNCTIONS.keys() == functions.FUNCTIONS.keys()
    assert parse_patterns.CHANGING.keys() == functions.CHANGING.keys()
    assert operators.CASTS.keys() == parse_patterns.CASTS
    for name in parse_patterns.AGGREGATES:
        assert len(rows(f"SELECT ({name}(1) AS ?x) {{ }}")) == 1


def test_what_the_limits_allow_is_evaluated() -> None:
    """The deepest tree that is accepted is also evaluated, and a long list of values is no deep tree."""
    deep = "SELECT ?v198 { " + " ".join(f"BIND({i} AS ?v{i})" for i in range(199)) + " }"
    assert rows(deep) == [{"v198": integer(198)}]
    optional = "SELECT (COUNT(*) AS ?x) { " + " ".join(f"OPTIONAL {{ ?s <urn:p{i}> ?o{i} }}" for i in range(199)) + " }"
    assert values(optional) == [integer(1)]
    assert rows("SELECT * { ?s " + "/".join(f"<urn:p{i}>" for i in range(199)) + " ?o }") == []
    assert rows("SELECT * { " + " ".join(f"?s{i} <urn:p>+ ?s{i + 1} ." for i in range(80)) + " }") == []
    assert rows("SELECT * { " + " ".join(f"?s <urn:p{i}> ?o{i} ." for i in range(80)) + " }") == []
    assert values("SELECT (1" + " + 1" * 199 + " AS ?x) { }") == [integer(200)]
    assert values("SELECT (SUM(?v) AS ?x) { VALUES (?v) { " + "(1) " * 20_000 + "} }") == [integer(20_000)]


@pytest.mark.parametrize("name", RELATIONS)
def test_relations_of_time_hold_between_events(name: str) -> None:
    """Between all pairs of a few intervals, points included; of anything but two events they are an error."""
    intervals = {f"<urn:e{a}{b}>": Interval(a, b) for a in range(4) for b in range(a, 4)}
    dataset = Dataset([], {event: [] for event in [*intervals, "<urn:none>"]}, intervals=intervals)
    text = f"SELECT ?a ?b {{ GRAPH ?a {{ }} GRAPH ?b {{ }} FILTER(<{name}>(?a, ?b)) }}"
    pairs = {(row["a"], row["b"]) for row in rows(text, dataset)}
    holds = RELATIONS[name].holds
    assert pairs == {(a, b) for a in intervals for b in intervals if holds(intervals[a], intervals[b])}
    errors = f"SELECT ?a {{ GRAPH ?a {{ }} BIND(<{name}>(?a, ?a) AS ?x) FILTER(!BOUND(?x)) }}"
    assert [row["a"] for row in rows(errors, dataset)] == ["<urn:none>"]
