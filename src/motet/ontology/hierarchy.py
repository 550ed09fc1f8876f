"""The classified hierarchy of an ontology's named classes.

It has one node per group of equivalent classes, with its direct parents. A class is below another if an individual with
only the first class belongs to the second, by the reasoner that closes events: class codes made from this hierarchy
therefore agree with matching. Unsatisfiable classes are included and marked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms
from motet.ontology.entailment import Entailment, Reasoner
from motet.ontology.inconsistencies import InconsistencyChecker
from motet.ontology.load import Ontology
from motet.ontology.owl_names import TYPE
from motet.ontology.schema import close_schema

#: An individual with a class and no other properties.
INSTANCE = "<urn:motet:instance>"


#: The parent of a root in a tree.
NO_PARENT = -1


@dataclass(frozen=True)
class Hierarchy:
    """A DAG of groups of equivalent classes; the id of a node is greater than those of its ancestors."""

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
        """The ancestors of each node, without the node itself."""
        ancestors: list[frozenset[int]] = []
        for parents in self.parents:
            ancestors.append(frozenset(parents).union(*(ancestors[parent] for parent in parents)))
        return tuple(ancestors)

    @property
    def roots(self) -> tuple[int, ...]:
        return tuple(node for node, parents in enumerate(self.parents) if not parents)

    def subsumes(self, upper: str, lower: str) -> bool:
        """Whether every member of ``lower`` is a member of ``upper``."""
        above, below = self.node_of[upper], self.node_of[lower]
        return above == below or above in self.ancestors[below]


def classify(
    ontology: Ontology, mode: Entailment = Entailment.OWL_RL, *, reasoner: Reasoner | None = None
) -> Hierarchy:
    """The hierarchy of an ontology's named classes.

    >>> pets = Ontology((("<urn:Cat>", v.SUBCLASS, "<urn:Pet>"), ("<urn:Dog>", v.SUBCLASS, "<urn:Pet>")))
    >>> classify(pets).groups
    (('<urn:Pet>',), ('<urn:Cat>',), ('<urn:Dog>',))
    """
    reasoner = reasoner or Reasoner(ontology.triples, mode)
    above = {c: _classes_of(reasoner, c) for c in ontology.classes()}
    for name in {c for ancestors in above.values() for c in ancestors} - above.keys():
        above[name] = _classes_of(reasoner, name)
    checker = InconsistencyChecker(reasoner)
    unsatisfiable = frozenset(c for c in above if checker.check_event([(INSTANCE, TYPE, c)]))
    return hierarchy_from_ancestors(above, unsatisfiable)


def hierarchy_from_ancestors(
    above: Mapping[str, Iterable[str]], unsatisfiable: frozenset[str] = frozenset()
) -> Hierarchy:
    """The hierarchy of classes with their ancestors; these must be transitively closed."""
    closed = {c: frozenset(ancestors) | {c} for c, ancestors in above.items()}
    group_of = {c: tuple(sorted(d for d in ancestors if c in closed[d])) for c, ancestors in closed.items()}
    groups = sorted(set(group_of.values()), key=lambda group: (len(closed[group[0]]) - len(group), group))
    node_of = {group: node for node, group in enumerate(groups)}
    proper = [frozenset(node_of[group_of[d]] for d in closed[group[0]]) - {node_of[group]} for group in groups]
    parents = (tuple(sorted(nodes.difference(*(proper[node] for node in nodes)))) for nodes in proper)
    return Hierarchy(tuple(groups), tuple(parents), unsatisfiable)


def hierarchy_from_parents(parents: Mapping[str, Iterable[str]]) -> Hierarchy:
    """The hierarchy of classes with their parents, closed by RDFS."""
    pairs = tuple((c, parent) for c, direct in parents.items() for parent in direct)
    above = close_schema(Axioms(subclasses=pairs)).superclasses
    names = set(parents) | {parent for direct in parents.values() for parent in direct}
    return hierarchy_from_ancestors({c: above.get(c, ()) for c in names})


def tree_parents(hierarchy: Hierarchy) -> list[int]:
    """The parent of each node in a spanning tree: the one with most ancestors."""
    ancestors = hierarchy.ancestors
    return [
        max(parents, key=lambda parent: (len(ancestors[parent]), -parent)) if parents else NO_PARENT
        for parents in hierarchy.parents
    ]


def tree_children(hierarchy: Hierarchy) -> tuple[list[int], list[list[int]]]:
    """The roots of the spanning tree, and the children of each node in it."""
    roots: list[int] = []
    children: list[list[int]] = [[] for _ in hierarchy.groups]
    for node, parent in enumerate(tree_parents(hierarchy)):
        (roots if parent == NO_PARENT else children[parent]).append(node)
    return roots, children


def _classes_of(reasoner: Reasoner, name: str) -> set[str]:
    closure = reasoner.close([(INSTANCE, TYPE, name)])
    return {o for s, p, o in closure if s == INSTANCE and p == TYPE and not v.is_literal(o)}
