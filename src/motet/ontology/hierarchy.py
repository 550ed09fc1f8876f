"""How do the named classes of an ontology lie above and below each other?

The classified hierarchy: one node per group of equivalent classes, with its direct parents. A class lies below another
if an individual of which nothing but the first is known belongs to the second, by the same reasoner that closes events:
codes made from this hierarchy therefore say what matching says. An unsatisfiable class keeps its place and is marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms
from motet.ontology.clashes import Clash, Clashes
from motet.ontology.entailment import Entailment, Reasoner
from motet.ontology.explain import explain
from motet.ontology.load import Ontology
from motet.ontology.schema import close_schema
from motet.ontology.vocabulary import TYPE, Triple

#: An individual of which nothing is known but its class.
_SOMEONE = "<urn:motet:someone>"


@dataclass(frozen=True)
class Hierarchy:
    """A DAG of groups of equivalent classes; a node's number is greater than those of all nodes above it."""

    groups: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    unsatisfiable: frozenset[str] = field(default=frozenset())

    @cached_property
    def node_of(self) -> Mapping[str, int]:
        return {name: node for node, group in enumerate(self.groups) for name in group}

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.groups]
        for node, parents in enumerate(self.parents):
            for parent in parents:
                below[parent].append(node)
        return tuple(map(tuple, below))

    @cached_property
    def ancestors(self) -> tuple[frozenset[int], ...]:
        """All nodes above each node, itself not among them."""
        found: list[frozenset[int]] = []
        for parents in self.parents:
            found.append(frozenset(parents).union(*(found[parent] for parent in parents)))
        return tuple(found)

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(node for node, parents in enumerate(self.parents) if not parents)

    def subsumes(self, upper: str, lower: str) -> bool:
        """Whether every member of ``lower`` is one of ``upper``."""
        above, below = self.node_of[upper], self.node_of[lower]
        return above == below or above in self.ancestors[below]


def classify(
    ontology: Ontology, mode: Entailment = Entailment.OWL_RL, *, reasoner: Reasoner | None = None
) -> Hierarchy:
    """
    >>> pets = Ontology((("<urn:Cat>", v.SUBCLASS, "<urn:Pet>"), ("<urn:Dog>", v.SUBCLASS, "<urn:Pet>")))
    >>> classify(pets).groups
    (('<urn:Pet>',), ('<urn:Cat>',), ('<urn:Dog>',))
    """
    reasoner = reasoner or Reasoner(ontology.triples, mode)
    above = {c: _classes_of(reasoner, c) for c in ontology.classes()}
    for name in {c for found in above.values() for c in found} - above.keys():
        above[name] = _classes_of(reasoner, name)
    clashes = Clashes(reasoner)
    unsatisfiable = frozenset(c for c in above if clashes.in_event([(_SOMEONE, TYPE, c)]))
    return hierarchy_of(above, unsatisfiable)


def hierarchy_of(above: Mapping[str, Iterable[str]], unsatisfiable: frozenset[str] = frozenset()) -> Hierarchy:
    """The hierarchy in which each class lies below those listed with it; the lists must be transitively closed."""
    closed = {c: frozenset(found) | {c} for c, found in above.items()}
    group_of = {c: tuple(sorted(d for d in found if c in closed[d])) for c, found in closed.items()}
    groups = sorted(set(group_of.values()), key=lambda group: (len(closed[group[0]]) - len(group), group))
    node_of = {group: node for node, group in enumerate(groups)}
    strictly = [frozenset(node_of[group_of[d]] for d in closed[group[0]]) - {node_of[group]} for group in groups]
    parents = (tuple(sorted(found.difference(*(strictly[node] for node in found)))) for found in strictly)
    return Hierarchy(tuple(groups), tuple(parents), unsatisfiable)


def hierarchy_from_parents(parents: Mapping[str, Iterable[str]]) -> Hierarchy:
    """The hierarchy in which each class has at least the given parents, by RDFS alone."""
    pairs = tuple((c, parent) for c, found in parents.items() for parent in found)
    above = close_schema(Axioms(subclasses=pairs)).superclasses
    names = set(parents) | {parent for found in parents.values() for parent in found}
    return hierarchy_of({c: above.get(c, ()) for c in names})


def explain_unsatisfiable(ontology: Ontology, name: str) -> tuple[str, ...]:
    """The axioms that leave a class without any possible member."""

    def without_members(triples: Iterable[Triple]) -> bool:
        return bool(Clashes(Reasoner(triples)).in_event([(_SOMEONE, TYPE, name)]))

    return explain(ontology.triples, without_members, [name])


def explain_inconsistency(ontology: Ontology) -> tuple[str, ...]:
    """The axioms and facts by which the ontology contradicts itself; empty if it does not."""
    clashes = Clashes(Reasoner(ontology.triples)).in_background()
    return explain_clash(ontology, clashes[0]) if clashes else ()


def explain_clash(ontology: Ontology, clash: Clash) -> tuple[str, ...]:
    """The axioms and facts behind one contradiction of the ontology with its own individuals."""

    def recurs(triples: Iterable[Triple]) -> bool:
        return clash in Clashes(Reasoner(triples)).in_background()

    return explain(ontology.triples, recurs, [clash.subject])


def _classes_of(reasoner: Reasoner, name: str) -> set[str]:
    found = reasoner.close([(_SOMEONE, TYPE, name)])
    return {o for s, p, o in found if s == _SOMEONE and p == TYPE and not v.is_literal(o)}
