"""Topics of described individuals, with the example of the paper, and weights of classes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.model.errors import UsageError
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import NO_PARENT, classify, hierarchy_from_parents
from motet.ontology.load import Ontology, parse_ontology
from motet.ontology.topics import (
    WeightedTree,
    assign,
    broker_weight,
    class_weights,
    combine,
    described_individuals,
    find_topics,
    most_specific,
    subscription_for,
    weighted_tree,
)

PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
"""
FILMS = Ontology(
    parse_ontology(
        (
            PREFIXES
            + """
:Film rdfs:subClassOf :Video . :English owl:equivalentClass [ owl:onProperty :language ; owl:hasValue "en" ] .
:Action owl:equivalentClass [ owl:intersectionOf ( :Film :Fast ) ] .
:Fast owl:equivalentClass [ owl:onProperty :genre ; owl:someValuesFrom :ActionGenre ] .
:chase a :ActionGenre .
"""
        ).encode()
    ).triples
)
DESCRIPTION = parse_ontology(
    (PREFIXES + ':it a :Film ; :genre :chase ; :language "en" . :chase :by :me .').encode()
).triples


def test_topics_of_a_description() -> None:
    """A film with an action genre in English is an action film, a film, a video and something English."""
    found = find_topics(Reasoner(FILMS.triples), classify(FILMS), DESCRIPTION, "<urn:x:it>")
    assert found == ("<urn:x:Action>", "<urn:x:Film>", "<urn:x:English>", "<urn:x:Fast>", "<urn:x:Video>")


def test_the_most_specific_topics_have_no_subclass_among_them() -> None:
    """Film and Video are omitted because Action is their subclass."""
    hierarchy = classify(FILMS)
    found = find_topics(Reasoner(FILMS.triples), hierarchy, DESCRIPTION, "<urn:x:it>")
    assert most_specific(hierarchy, found) == ("<urn:x:Action>", "<urn:x:English>")


def test_described_individuals_are_not_objects() -> None:
    """The described individuals are the subjects that are not objects; in a cycle, all subjects are."""
    assert described_individuals(DESCRIPTION) == ("<urn:x:it>",)
    assert described_individuals([("<a>", "<p>", "<b>"), ("<b>", "<p>", "<a>")]) == ("<a>", "<b>")


def test_a_subscription_is_named_after_its_topic() -> None:
    """The name of the subscription is that of the topic, with invalid characters replaced."""
    assert subscription_for("<urn:x:été/>").splitlines() == [
        "SUBSCRIPTION topic-t",
        "  EVENT item : <urn:x:été/>",
        "  WHEN item",
    ]


@st.composite
def trees(draw: st.DrawFn) -> WeightedTree:
    size = draw(st.integers(1, 25))
    parents = tuple(draw(st.integers(NO_PARENT, node - 1)) if node else NO_PARENT for node in range(size))
    weights = tuple(float(draw(st.integers(0, 50))) for _ in range(size))
    return WeightedTree(tuple((node,) for node in range(size)), parents, weights)


def children(tree: WeightedTree, parent: int) -> set[int]:
    return {node for node, above in enumerate(tree.parents) if above == parent}


@given(trees(), st.integers(1, 30))
def test_each_class_is_in_one_node(tree: WeightedTree, brokers: int) -> None:
    """Combining keeps each class once, and leaves as many nodes as brokers, or as classes if these are fewer."""
    combined = combine(tree, brokers)
    assert sorted(node for found in combined.members for node in found) == list(range(len(tree.weights)))
    assert len(combined.members) == min(brokers, len(tree.weights))


@given(trees(), st.integers(1, 30))
def test_weights_add_up(tree: WeightedTree, brokers: int) -> None:
    """The weight of a combined node is the sum of the weights of its classes."""
    combined = combine(tree, brokers)
    assert combined.weights == tuple(sum(tree.weights[node] for node in found) for found in combined.members)


@given(trees(), st.integers(1, 30))
def test_a_combined_tree_is_a_tree_over_the_same_edges(tree: WeightedTree, brokers: int) -> None:
    """Every class's parent is in the same combined node or in its parent, and there is no cycle."""
    combined = combine(tree, brokers)
    home = {node: place for place, found in enumerate(combined.members) for node in found}
    home[NO_PARENT] = NO_PARENT
    for node, parent in enumerate(tree.parents):
        assert home[parent] in (home[node], combined.parents[home[node]])
    assert sum(total for place, total in enumerate(combined.totals) if combined.parents[place] == NO_PARENT) == sum(
        tree.weights
    )


@given(trees())
def test_the_lightest_are_combined_first(tree: WeightedTree) -> None:
    """One step combines, of all childless siblings and only children, those with the least total weight."""
    if len(tree.weights) < 2:
        return
    prices = []
    for parent in range(NO_PARENT, len(tree.weights)):
        below = children(tree, parent)
        leaves = sorted(tree.weights[node] for node in below if not children(tree, node))
        if len(leaves) > 1:
            prices.append(leaves[0] + leaves[1])
        elif parent != NO_PARENT and len(below) == len(leaves) == 1:
            prices.append(leaves[0] + tree.weights[parent])
    combined = combine(tree, len(tree.weights) - 1)
    together = [weight for weight, found in zip(combined.weights, combined.members, strict=True) if len(found) == 2]
    assert together == [min(prices)]


@given(trees(), st.lists(st.floats(0, 100), min_size=25, max_size=40))
def test_the_heaviest_node_is_assigned_to_the_heaviest_broker(tree: WeightedTree, brokers: list[float]) -> None:
    """Nodes and brokers are paired in the order of their weights."""
    placed = assign(tree, brokers)
    order = sorted(placed, key=lambda node: -tree.weights[node])
    heavy = sorted(brokers, reverse=True)[: len(order)]
    assert sorted((brokers[placed[node]] for node in order), reverse=True) == heavy
    assert len(set(placed.values())) == len(tree.weights)
    assert all(
        brokers[placed[a]] >= brokers[placed[b]] for a in placed for b in placed if tree.weights[a] > tree.weights[b]
    )


def test_too_few_brokers_are_refused() -> None:
    """Assigning needs a broker per node; combining needs at least one."""
    tree = WeightedTree(((0,), (1,)), (NO_PARENT, 0), (1.0, 1.0))
    with pytest.raises(UsageError, match="2 nodes for 1 brokers"):
        assign(tree, [1.0])
    with pytest.raises(UsageError, match="number of brokers is 0"):
        combine(tree, 0)


@given(
    st.dictionaries(st.sampled_from("abcdz"), st.integers(0, 1000)),
    st.dictionaries(st.sampled_from("abcdz"), st.integers(0, 1000)),
    st.floats(0, 1),
)
def test_class_weights_are_shares(events: dict[str, int], subscriptions: dict[str, int], share: float) -> None:
    """Weights add up to one, none is zero, more events never lower a weight, and unknown names are ignored."""
    hierarchy = hierarchy_from_parents({"b": ["a"], "c": ["a"], "d": ["b", "c"]})
    weights = class_weights(hierarchy, events, subscriptions, event_share=share)
    assert math.isclose(sum(weights), 1)
    assert min(weights) > 0
    more = class_weights(hierarchy, {**events, "a": events.get("a", 0) + 10}, subscriptions, event_share=share)
    assert more[hierarchy.node_of["a"]] >= weights[hierarchy.node_of["a"]]


def test_a_class_with_two_parents_is_in_the_tree_once() -> None:
    """The weighted tree has every node of a hierarchy once, below one of its parents."""
    hierarchy = hierarchy_from_parents({"b": ["a"], "c": ["a"], "d": ["b", "c"]})
    tree = weighted_tree(hierarchy, [1, 2, 3, 4])
    assert (tree.members, tree.parents) == (((0,), (1,), (2,), (3,)), (NO_PARENT, 0, 0, 1))
    assert tree.totals == (10.0, 6.0, 3.0, 4.0)


def test_broker_weight_is_the_formula_of_the_paper() -> None:
    """The weight is the sum of bandwidth, compute and online time, each times its factor."""
    assert broker_weight(10, 2, 5, factors=(1, 10, 0.5)) == 32.5
