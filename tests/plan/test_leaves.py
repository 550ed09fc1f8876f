"""Leaves as predicates and a residue."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.language.syntax import Event, GroupPattern
from motet.model.terms import RDF_TYPE, XSD
from motet.plan.leaves import Choice, Equality, LeafPredicates, Prefix, PropertyRead, Range, normalise
from motet.sparql.algebra import EMPTY, Bgp, Filter, Triple, ZeroOrMore
from motet.sparql.dataset import Graph
from motet.sparql.evaluate import compile_group
from motet.sparql.parse_cache import parse_group
from motet.sparql.scope import in_scope


def number(value: object, kind: str = "integer") -> str:
    return f'"{value}"^^<{XSD}{kind}>'


def declared(body: str, name: str = "e", class_iri: str | None = None, times: tuple[str, str] | None = None) -> Event:
    return Event(name, class_iri, GroupPattern(body, in_scope(parse_group(body))), times=times)


def leaf(body: str) -> LeafPredicates:
    return normalise(declared(body))[0]


def test_an_event_without_class_and_body_has_no_predicates() -> None:
    """Every event matches, and only the event itself is bound."""
    assert normalise(Event("e")) == (LeafPredicates(), {"v0": "e"})
    assert (LeafPredicates().variables(), LeafPredicates().certain_variables()) == (
        frozenset({"v0"}),
        frozenset({"v0"}),
    )


def test_triples_about_the_event_become_classes_equalities_and_reads() -> None:
    """Each required triple with the event as subject is one predicate, by the kind of its object."""
    found, names = normalise(declared("?e a <urn:D> ; <urn:room> <urn:r1> ; <urn:level> ?l", class_iri="urn:C"))
    assert found == LeafPredicates(
        classes=("<urn:C>", "<urn:D>"),
        equalities=(Equality("<urn:room>", "<urn:r1>"),),
        reads=(PropertyRead("<urn:level>", "v1"),),
    )
    assert names == {"v0": "e", "v1": "l"}


def test_other_required_triples_are_joins_inside_the_event() -> None:
    """Other subjects, the event as object and variable predicates keep their triples."""
    found = leaf("?e <urn:obs> ?o . ?o <urn:value> ?v . ?x ?p ?e")
    assert found == LeafPredicates(
        reads=(PropertyRead("<urn:obs>", "v1"),),
        joins=(Triple("?v1", "<urn:value>", "?v2"), Triple("?v3", "?v4", "?v0")),
    )


def test_comparisons_with_numbers_and_zoned_times_are_ranges() -> None:
    """On either side, with a sign, and as conjuncts of one FILTER or of several."""
    noon = f'"2026-11-15T12:00:00Z"^^<{XSD}dateTime>'
    found = leaf(f"?e <urn:p> ?x ; <urn:t> ?t FILTER ( ?x > -3 && 2.5 >= ?x ) FILTER ( ?t < {noon} && ?x = 1 )")
    assert found.ranges == (
        Range("v1", "<=", number("2.5", "decimal")),
        Range("v1", "=", number(1)),
        Range("v1", ">", number(-3)),
        Range("v2", "<", noon),
    )
    assert found.residue == EMPTY


def test_choices_are_terms_and_prefixes_are_strings() -> None:
    """IN and = over IRIs and plain strings, and STRSTARTS, are evaluated by an index."""
    found = leaf("?e <urn:p> ?x FILTER ( ?x IN ( <urn:b> , 'a' ) && ?x = <urn:b> && STRSTARTS( STR( ?x ) , 'urn' ) )")
    assert found.choices == (Choice("v1", ('"a"', "<urn:b>")), Choice("v1", ("<urn:b>",)))
    assert found.prefixes == (Prefix("v1", '"urn"', through_str=True),)
    assert leaf("?e <urn:p> ?x FILTER ( STRSTARTS( ?x , 'a' ) )").prefixes == (Prefix("v1", '"a"', through_str=False),)


@pytest.mark.parametrize(
    "condition",
    [
        "?x != 3",  # also true of what is no number
        "?x = 'a'@en",
        "?x IN ( 1 , 2 )",  # equal numbers may be different terms
        "?x IN ( )",
        f"?x > 'ten'^^<{XSD}integer>",
        f"?x > '2026-11-15T12:00:00'^^<{XSD}dateTime>",  # without a zone the order is not certain
        "?x + 1 > 3",
        "?x > ?e",
        "?x > 1 || ?x < 0",
        "REGEX( ?x , 'a' )",
        "BOUND( ?x )",
    ],
)
def test_every_other_filter_is_residue(condition: str) -> None:
    """A FILTER that an index would evaluate differently from SPARQL is left to SPARQL."""
    found = leaf(f"?e <urn:p> ?x FILTER ( {condition} )")
    assert isinstance(found.residue, Filter) and found.residue.operand == EMPTY
    assert found.tests() == ()


def test_a_filter_over_an_optional_variable_is_residue() -> None:
    """Only variables that a required triple binds can be tested by an index."""
    found = leaf("?e a <urn:C> OPTIONAL { ?e <urn:p> ?x } FILTER ( ?x > 3 )")
    assert found.ranges == ()
    assert found.residue_text == f"OPTIONAL {{ ?v0 <urn:p> ?v1 }} FILTER ( ?v1 > {number(3)} )"
    assert found.certain_variables() == frozenset({"v0"})
    assert found.variables() == frozenset({"v0", "v1"})


def test_a_nested_group_is_not_the_group_without_its_braces() -> None:
    """The event is not in scope of a FILTER in a nested group, so the leaves have different matches."""
    nested = "OPTIONAL { ?e <urn:q> ?y } FILTER ( ?e = <urn:e> )"
    assert leaf(f"?e <urn:p> ?x {{ {nested} }}") != leaf(f"?e <urn:p> ?x {nested}")
    assert leaf(f"?e <urn:p> ?x {{ {nested} }}").residue_text == f"{{ {nested} }}".replace("?e", "?v0").replace(
        "?y", "?v2"
    )


def test_triples_behind_an_optional_stay_there() -> None:
    """Moving them before the OPTIONAL would change which solutions it extends."""
    found = leaf("?e <urn:p> ?x OPTIONAL { ?e <urn:q> ?y } ?e <urn:r> ?y")
    assert found.reads == (PropertyRead("<urn:p>", "v1"),)
    assert found.residue_text == "OPTIONAL { ?v0 <urn:q> ?v2 } { ?v0 <urn:r> ?v2 }"


def test_triples_around_a_union_and_paths_are_taken_apart() -> None:
    """Joins may be reordered; property paths are residue."""
    found = leaf("{ ?e <urn:p> ?x } UNION { ?e <urn:q> ?x } ?e <urn:r> 5 ; <urn:s>* ?x")
    assert found.equalities == (Equality("<urn:r>", number(5)),)
    assert found.residue_text == "{ ?v0 <urn:p> ?v1 } UNION { ?v0 <urn:q> ?v1 } { ?v0 (<urn:s>)* ?v1 }"
    assert leaf("?e <urn:s>* ?x").residue == Bgp((Triple("?v0", leaf_path(), "?v1"),))


def leaf_path() -> ZeroOrMore:
    path = parse_group("?e <urn:s>* ?x")
    assert isinstance(path, Bgp) and isinstance(path.triples[0].predicate, ZeroOrMore)
    return path.triples[0].predicate


def test_an_interval_binds_two_more_variables() -> None:
    """DURING is part of the leaf and certain."""
    found, names = normalise(Event("e", times=("from", "to")))
    assert (found.during, names) == (("v1", "v2"), {"v0": "e", "v1": "from", "v2": "to"})
    assert found.certain_variables() == found.event_variables() == frozenset({"v0", "v1", "v2"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("?e <urn:p> ?x ; <urn:q> ?y", "?e <urn:q> ?a . ?e <urn:p> ?b"),
        (
            "?e <urn:p> ?x ; <urn:q> ?y FILTER ( ?x > 1 && 2 < ?y )",
            "?e <urn:q> ?x ; <urn:p> ?z FILTER ( ?x > 2 && ?z > 1 )",
        ),
        ("?e <urn:p> ?x , ?y . ?x <urn:q> 1 . ?y <urn:q> 2", "?e <urn:p> ?m , ?l . ?l <urn:q> 1 . ?m <urn:q> 2"),
        ("?e <urn:p> ?x . ?e <urn:p> ?x", "?e <urn:p> ?x"),
        ("?e a <urn:C> OPTIONAL { ?e <urn:p> ?x }", "?e a <urn:C> . OPTIONAL { ?e <urn:p> ?other }"),
    ],
)
def test_names_and_order_do_not_matter(one: str, other: str) -> None:
    """Leaves with the same meaning are equal."""
    assert leaf(one) == leaf(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("?e <urn:p> ?x ; <urn:q> ?x", "?e <urn:p> ?x ; <urn:q> ?y"),
        ("?e <urn:p> ?x , ?y . ?x <urn:q> 1 . ?y <urn:q> 2", "?e <urn:p> ?x , ?y . ?x <urn:q> 1 . ?x <urn:q> 2"),
        ("?e <urn:p> 1", "?e <urn:p> 1.0"),
        ("?e <urn:p> ?x FILTER ( ?x > 1 )", "?e <urn:p> ?x FILTER ( ?x >= 1 )"),
        ("?e <urn:p> ?x", "?x <urn:p> ?e"),
    ],
)
def test_leaves_that_differ_are_different(one: str, other: str) -> None:
    """Different leaves are never equal."""
    assert leaf(one) != leaf(other)


NODES = ("<urn:e>", "<urn:n>", number(1), number(3), '"a"')
TRIPLES = st.tuples(
    st.sampled_from(NODES[:2]), st.sampled_from(("<urn:p>", "<urn:q>", RDF_TYPE)), st.sampled_from(NODES)
)
BODIES = (
    "?e <urn:p> ?x ; <urn:q> ?y FILTER ( ?x > 1 && ?y != 3 )",
    "?e <urn:p> ?x OPTIONAL { ?x <urn:q> ?y FILTER ( ?y > 1 ) } FILTER ( ! BOUND( ?y ) || ?x = <urn:n> )",
    "{ ?e <urn:p> ?x } UNION { ?e <urn:q> ?y } ?e <urn:p> ?z FILTER ( ?z IN ( 'a' , <urn:n> ) )",
    "?e <urn:p> ?x OPTIONAL { ?e <urn:q> ?y } ?n <urn:p> ?y",
    "?e <urn:p> ?x MINUS { ?e <urn:q> ?x } BIND ( ?x + 1 AS ?y ) FILTER ( 3 >= ?x )",
    "?e <urn:p>* ?x . ?x <urn:q> [ ] FILTER ( STRSTARTS( STR( ?x ) , 'urn' ) )",
    "VALUES ?x { 1 'a' } ?e <urn:q> ?x , ?y",
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BODIES), st.frozensets(TRIPLES, max_size=8))
def test_predicates_and_residue_together_are_the_leaf(body: str, triples: frozenset[tuple[str, str, str]]) -> None:
    """Combined, they have the solutions of the body on any graph."""
    found, names = normalise(declared(body))
    graph = Graph(triples)
    again = compile_group(found.algebra())(graph, {"v0": "<urn:e>"})
    own = compile_group(parse_group(body))(graph, {"e": "<urn:e>"})
    assert {frozenset((names[n], term) for n, term in row.items()) for row in again} == {
        frozenset(row.items()) for row in own
    }
