"""Who is matched, as they come and go."""

from __future__ import annotations

from tests.engine.match.random_leaves import leaves_of

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import MatcherRegistry
from motet.model.batches import Triple

NOTHING: frozenset[Triple] = frozenset()


def on(class_iri: str, name: str) -> LeafQuery:
    (found,) = leaves_of(f"SUBSCRIPTION {name} EVENT e : <urn:{class_iri}> WHEN e")
    return found


def test_who_comes_again_is_another_one() -> None:
    """A name that is gone can be taken at once."""
    registered = MatcherRegistry(NOTHING, "none")
    registered.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.change([on("B", "one")], {"one"}, NOTHING, "none")
    assert (len(registered), registered.matcher.leaves) == (2, (on("A", "two"), on("B", "one")))


def test_what_is_borrowed_is_for_those_who_come() -> None:
    """Of another one's matcher remains what is asked for here, and the other one keeps all."""
    other, registered = MatcherRegistry(NOTHING, "none"), MatcherRegistry(NOTHING, "none")
    other.change([on("A", "one"), on("A", "two")], (), NOTHING, "none")
    registered.reuse(other)
    registered.change([on("A", "two"), on("B", "three")], (), NOTHING, "none")
    assert registered.matcher.leaves == (on("A", "two"), on("B", "three"))
    assert other.matcher.leaves == (on("A", "one"), on("A", "two"))


def test_another_background_is_for_all() -> None:
    """All who are there are matched over the graph in force."""
    registered, background = MatcherRegistry(NOTHING, "none"), frozenset({("<urn:s>", "<urn:p>", "<urn:o>")})
    registered.change([on("A", "one")], (), NOTHING, "none")
    registered.change([on("B", "two")], (), background, "owl-rl")
    matcher = registered.matcher
    assert (matcher.leaves, matcher.background) == ((on("A", "one"), on("B", "two")), background)
