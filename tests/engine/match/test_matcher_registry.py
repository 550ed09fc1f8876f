"""The matcher registry as leaves are added and removed."""

from __future__ import annotations

from tests.engine.match.random_leaves import leaves_of

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import MatcherRegistry
from motet.model.batches import Triple

NOTHING: frozenset[Triple] = frozenset()


def on(class_iri: str, name: str) -> LeafQuery:
    (found,) = leaves_of(f"SUBSCRIPTION {name} EVENT e : <urn:{class_iri}> WHEN e")
    return found


def test_a_name_can_be_used_again() -> None:
    """The name of a removed leaf can be used at once."""
    registered = MatcherRegistry(NOTHING, "none")
    registered.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.change([on("B", "one")], {"one"}, NOTHING, "none")
    assert (len(registered), registered.matcher.leaves) == (2, (on("A", "two"), on("B", "one")))


def test_a_reused_index_serves_the_added_leaves_only() -> None:
    """Of a reused index only the leaves added here are matched; the other registry is not changed."""
    other, registered = MatcherRegistry(NOTHING, "none"), MatcherRegistry(NOTHING, "none")
    other.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.reuse(other)
    registered.change([on("A", "two"), on("B", "three")], (), NOTHING, "none")
    assert registered.matcher.leaves == (on("A", "two"), on("B", "three"))
    assert other.matcher.leaves == (on("A", "one"), on("A", "two"))


def test_a_new_background_applies_to_all_leaves() -> None:
    """All leaves are matched over the current graph."""
    registered, background = MatcherRegistry(NOTHING, "none"), frozenset({("<urn:s>", "<urn:p>", "<urn:o>")})
    registered.change([on("A", "one")], (), NOTHING, "none")
    registered.change([on("B", "two")], (), background, "owl-rl")
    matcher = registered.matcher
    assert (matcher.leaves, matcher.background) == ((on("A", "one"), on("B", "two")), background)
