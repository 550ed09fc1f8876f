"""Every class code agrees with the hierarchy it was made from, for every pair of classes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.model.errors import LimitError, UsageError
from motet.ontology.codes import digit, interval, prime
from motet.ontology.codes.class_codes import ClassCodes
from motet.ontology.hierarchy import Hierarchy, hierarchy_from_parents


def random_hierarchy(count: int, max_parents: int, seed: int) -> Hierarchy:
    rng = random.Random(seed)
    parents = {f"c{i}": [f"c{rng.randrange(i)}" for _ in range(rng.randint(1, max_parents))] for i in range(1, count)}
    return hierarchy_from_parents(parents)


def expected(hierarchy: Hierarchy) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """The subsumptions of the hierarchy as a matrix: row subsumes column."""
    matrix = np.eye(len(hierarchy.groups), dtype=np.bool_)
    for node, ancestors in enumerate(hierarchy.ancestors):
        matrix[list(ancestors), node] = True
    return matrix


def answers(codes: ClassCodes) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    nodes = np.arange(len(codes.hierarchy.groups))
    return codes.subsumes(nodes[:, None], nodes[None, :])


def encode_all(hierarchy: Hierarchy) -> list[ClassCodes]:
    return [
        interval.encode(hierarchy),
        prime.encode(hierarchy),
        digit.encode(hierarchy),
        digit.encode(hierarchy, b=2, length=1),
    ]


statements = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)), max_size=40)


@given(statements)
def test_every_code_agrees_with_the_hierarchy(pairs: list[tuple[int, int]]) -> None:
    """For any DAG, with several parents, equivalences and several roots, every code agrees with the hierarchy."""
    hierarchy = hierarchy_from_parents({f"c{i}": [f"c{b}" for a, b in pairs if a == i] for i in range(16)})
    truth = expected(hierarchy)
    assert [bool((answers(codes) == truth).all()) for codes in encode_all(hierarchy)] == [True] * 4


def test_every_code_agrees_on_a_thousand_classes() -> None:
    """On every pair of a random DAG of 1 000 classes with up to three parents, every code agrees."""
    hierarchy = random_hierarchy(1000, 3, seed=4)
    truth = expected(hierarchy)
    assert [bool((answers(codes) == truth).all()) for codes in encode_all(hierarchy)] == [True] * 4


def test_every_code_agrees_on_ten_thousand_classes() -> None:
    """On a generated hierarchy of 10 500 classes, one in twenty with two parents, every code agrees on every pair."""
    rng = random.Random(6)
    parents = {f"c{i}": [f"c{i // 3}", *[f"c{rng.randrange(i)}"] * (rng.random() < 0.05)] for i in range(1, 10_500)}
    hierarchy = hierarchy_from_parents(parents)
    assert [wrong_pairs(codes) for codes in encode_all(hierarchy)[:3]] == [0, 0, 0]


def wrong_pairs(codes: ClassCodes) -> int:
    """The number of pairs on which codes and hierarchy differ, computed some rows at a time to save memory."""
    descendants: list[list[int]] = [[node] for node in range(len(codes.hierarchy.groups))]
    for node, ancestors in enumerate(codes.hierarchy.ancestors):
        for ancestor in ancestors:
            descendants[ancestor].append(node)
    nodes = np.arange(len(descendants))
    wrong = 0
    for upper in np.array_split(nodes, 50):
        truth = np.zeros((len(upper), len(nodes)), np.bool_)
        for row, node in enumerate(upper):
            truth[row, descendants[node]] = True
        wrong += int((codes.subsumes(upper[:, None], nodes[None, :]) != truth).sum())
    return wrong


def test_a_tree_needs_one_interval_per_class() -> None:
    """In a tree every class has exactly one interval."""
    codes = interval.encode(random_hierarchy(300, 1, seed=1))
    assert codes.cover.max_intervals == 1


def test_one_class_is_compared_with_many_numbers() -> None:
    """Comparing one class with many numbers, as matching does, agrees with the hierarchy."""
    codes = interval.encode(random_hierarchy(200, 2, seed=2))
    found = np.array([codes.below(node, codes.cover.points) for node in range(200)])
    assert (found == expected(codes.hierarchy)).all()


@given(statements, st.lists(st.lists(st.integers(0, 15), max_size=3), max_size=30))
def test_classes_can_be_added_without_renumbering(pairs: list[tuple[int, int]], added: list[list[int]]) -> None:
    """The codes of added classes agree with the hierarchy, and the numbers of other classes do not change."""
    codes = interval.encode(hierarchy_from_parents({f"c{i}": [f"c{b}" for a, b in pairs if a == i] for i in range(16)}))
    before = codes.tree_intervals
    for number, parents in enumerate(added):
        names = [f"new{number - 1}" if number and parent == 0 else f"c{parent}" for parent in parents]
        codes = codes.add(f"new{number}", names)
    assert codes.tree_intervals[: len(before)] == before
    assert (answers(codes) == expected(codes.hierarchy)).all()


def test_a_class_is_added_when_the_gap_is_full() -> None:
    """A class whose parents have no gap left gets a number outside their intervals."""
    codes = interval.encode(hierarchy_from_parents({"b": ["a"]}))
    for number in range(80):
        codes = codes.add(f"n{number}", [f"n{number - 1}" if number else "b"])
    assert (answers(codes) == expected(codes.hierarchy)).all()
    assert codes.cover.max_intervals > 1


def test_a_class_is_added_once() -> None:
    """Adding a class that has a code is refused."""
    with pytest.raises(UsageError, match="already has a code"):
        interval.encode(hierarchy_from_parents({"b": ["a"]})).add("b", ["a"])


def test_factors_are_superclasses() -> None:
    """The primes that divide a class's code are those of the class and its superclasses."""
    hierarchy = random_hierarchy(200, 3, seed=3)
    codes = prime.encode(hierarchy)
    found = [set(codes.generalisations(code)) for code in codes.codes]
    assert found == [ancestors | {node} for node, ancestors in enumerate(hierarchy.ancestors)]


def test_the_papers_product_is_the_same_in_a_tree_and_longer_in_a_lattice() -> None:
    """Counting shared primes once changes nothing with one parent each, and keeps codes short with several."""
    tree = random_hierarchy(50, 1, seed=5)
    lattice = hierarchy_from_parents({f"{side}{i}": [f"l{i - 1}", f"r{i - 1}"] for i in range(1, 11) for side in "lr"})
    assert prime.encode(tree, literal=True).codes == prime.encode(tree).codes
    assert prime.encode(lattice, literal=True, bits_limit=2**30).bits > 20 * prime.encode(lattice).bits


def test_prime_codes_have_a_maximum_length() -> None:
    """A hierarchy whose codes exceed the limit is refused with advice."""
    chain = hierarchy_from_parents({f"c{i}": [f"c{i - 1}"] for i in range(1, 100)})
    with pytest.raises(LimitError, match="needs more than 64 bits\n  use interval codes"):
        prime.encode(chain, bits_limit=64)


def test_a_child_copies_its_parents_digits_and_sets_the_next() -> None:
    """In a tree with few siblings, a class's digits are its parent's and one more, and all codes differ."""
    hierarchy = hierarchy_from_parents({f"c{i}": [f"c{(i - 1) // 3}"] for i in range(1, 40)})
    codes = digit.encode(hierarchy, b=3, length=4)
    copied = [
        codes.digits[node][:-1] == codes.digits[above[0]] for node, above in enumerate(hierarchy.parents) if above
    ]
    assert (all(copied), codes.length, len(set(codes.digits))) == (True, 4, 40)
    assert codes.number(0) == 0o1000


def test_heavier_classes_have_larger_gaps() -> None:
    """The gap after the digit of a sibling grows with its weight."""
    hierarchy = hierarchy_from_parents({"light": ["top"], "heavy": ["top"]})
    weights = [1.0 if group == ("light",) else 9.0 for group in hierarchy.groups]
    codes = digit.encode(hierarchy, b=4, weights=weights)
    assert {group[0]: digits for group, digits in zip(hierarchy.groups, codes.digits, strict=True)} == {
        "top": (1,),
        "heavy": (1, 1),
        "light": (1, 13),
    }


def test_similar_siblings_have_neighbouring_digits() -> None:
    """Siblings that share another parent get neighbouring digits."""
    parents = {
        "a": ["top", "x"],
        "b": ["top", "y"],
        "c": ["top", "x"],
        "d": ["top", "y"],
        "top": ["all"],
        "x": [],
        "y": [],
    }
    hierarchy = hierarchy_from_parents(parents)
    codes = digit.encode(hierarchy, b=4)
    order = sorted("abcd", key=lambda name: codes.digits[hierarchy.node_of[name]])
    assert "".join(order) in ("acbd", "acdb", "cabd", "cadb", "bdac", "bdca", "dbac", "dbca")


def test_too_many_siblings_take_another_digit() -> None:
    """A hundred siblings do not fit one digit of three bits: they get longer codes, all different."""
    hierarchy = hierarchy_from_parents({f"c{i}": ["top"] for i in range(100)})
    codes = digit.encode(hierarchy, b=3, length=2)
    assert (codes.length, len(set(codes.digits))) == (4, 101)


def test_an_empty_hierarchy_has_codes() -> None:
    """Encoding a hierarchy without classes gives no codes and no error."""
    assert [codes.hierarchy.groups for codes in encode_all(hierarchy_from_parents({}))] == [()] * 4
