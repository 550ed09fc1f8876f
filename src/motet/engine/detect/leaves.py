"""From events to the occurrences of a plan's leaves: the way from matching into detection.

Each leaf is matched as a subscription of its own that delivers the variables the plan wants of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import (
    EMITTED,
    END,
    EVENT,
    FIRST,
    START,
    UNBOUND,
    VALUES,
    Ints,
    Occurrences,
    member_sets,
)
from motet.engine.match.matcher import Matcher
from motet.language.syntax import Event, Leaf, Select, Subscription
from motet.model.tables import Triple
from motet.plan.dag import Builder
from motet.plan.leaf_predicates import EVENT as EVENT_VARIABLE
from motet.plan.nodes import Kind, Node


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A leaf of a plan with the event it was written as, and what that calls the leaf's variables."""

    node: Node
    event: Event
    names: dict[str, str]  # canonical to own
    own_names: dict[str, str]  # canonical to those of the subscription that has members
    is_plain: bool  # its event is compared with plain terms somewhere, so that it needs a number of that kind


class Leaves:
    """The leaves in use, indexed."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self._matcher = Matcher((), background, entailment)
        self._leaves: dict[str, LeafNode] = {}

    def change(self, leaves: Sequence[LeafNode], background: frozenset[Triple], entailment: str) -> None:
        """Match these from now on."""
        self._leaves = {str(leaf.node.id): leaf for leaf in leaves}
        wanted = tuple(map(_subscription, leaves))
        if (background, entailment) == (self._matcher.background, self._matcher.entailment):
            if wanted != self._matcher.subscriptions:
                self._matcher = self._matcher.changed(wanted)
        else:
            self._matcher = Matcher(wanted, background, entailment)

    def occurrences(
        self, events: pa.RecordBatch, names: Dictionary, only: Collection[int] | None = None
    ) -> dict[int, Occurrences]:
        """What each leaf matches of some event records, by node; the events are known to the dictionary by offset."""
        if not self._leaves or not len(events):
            return {}
        matched = self._matcher.notify(events)
        by_leaf = matched.column("subscription").dictionary_encode()
        numbers = np.asarray(by_leaf.indices)
        found = {}
        for number, name in enumerate(by_leaf.dictionary.to_pylist()):
            leaf = self._leaves[name]
            if only is None or leaf.node.id in only:
                rows = np.flatnonzero(numbers == number)
                found[leaf.node.id] = _table(leaf, matched.take(pa.array(rows)), names)
        return found


def leaf_nodes(nodes: Sequence[Node], builder: Builder) -> list[LeafNode]:
    """The leaves among some nodes."""
    plain = _compared_with_terms(nodes)
    return [
        LeafNode(node, builder.events[match], builder.leaf_names[match], builder.names[node.id], node.id in plain)
        for node in nodes
        if node.kind is Kind.LEAF and (match := node.operator.match) is not None
    ]


def _subscription(leaf: LeafNode) -> Subscription:
    wanted = tuple(leaf.names[name] for name in leaf.node.variables)
    return Subscription(str(leaf.node.id), (leaf.event,), Leaf(leaf.event.name), delivery=Select(wanted))


def _table(leaf: LeafNode, matched: pa.RecordBatch, names: Dictionary) -> Occurrences:
    count, width = len(matched), len(leaf.node.variables)
    offsets = np.asarray(matched.column("offset"), np.int64)
    rows = np.full((count, VALUES + width), UNBOUND, np.int64)
    rows[:, START] = np.asarray(matched.column("start").cast(pa.int64()))
    rows[:, END] = np.asarray(matched.column("end").cast(pa.int64()))
    rows[:, EMITTED] = rows[:, FIRST] = offsets
    _fill(rows[:, VALUES:], leaf, matched.column("bindings"), names)
    if EVENT_VARIABLE in leaf.node.variables and not leaf.is_plain:
        rows[:, VALUES + leaf.node.variables.index(EVENT_VARIABLE)] = offsets | EVENT
    members = member_sets([_member(leaf, row) for row in rows]) if leaf.node.with_members else None
    return Occurrences(rows, np.arange(count + 1), offsets, members)


def _fill(values: Ints, leaf: LeafNode, bindings: pa.ListArray, names: Dictionary) -> None:
    """The terms of all variables but the event's own, unless that is wanted as a term."""
    pairs = bindings.flatten()
    variables = pairs.field("variable").dictionary_encode()
    row_of = np.repeat(np.arange(len(bindings)), np.diff(np.asarray(bindings.offsets)))
    numbers = np.asarray(variables.indices)
    for number, own in enumerate(variables.dictionary.to_pylist()):
        for place, canonical in enumerate(leaf.node.variables):
            if leaf.names[canonical] == own and (leaf.is_plain or canonical != EVENT_VARIABLE):
                chosen = np.flatnonzero(numbers == number)
                values[row_of[chosen], place] = names.terms.numbers(pairs.field("term").take(pa.array(chosen)))


def _member(leaf: LeafNode, row: Ints) -> frozenset[tuple[tuple[str, int], ...]]:
    """One solution, with the event's own name even where it is hidden."""
    shown = {leaf.own_names[name]: int(row[VALUES + place]) for place, name in enumerate(leaf.node.variables)}
    shown.setdefault(leaf.own_names[EVENT_VARIABLE], int(row[FIRST]) | EVENT)
    return frozenset({tuple(sorted((name, value) for name, value in shown.items() if value != UNBOUND))})


def _compared_with_terms(nodes: Sequence[Node]) -> set[int]:
    """The leaves whose event meets, in some variable above, what is not an event of a leaf."""
    sources: dict[int, dict[str, tuple[frozenset[int], bool]]] = {}  # by node and variable: leaves, and whether others
    plain: set[int] = set()
    for node in nodes:
        if node.kind is Kind.LEAF:
            sources[node.id] = {
                name: (frozenset({node.id}), False) if name == EVENT_VARIABLE else (frozenset(), True)
                for name in node.variables
            }
            continue
        found: dict[str, tuple[frozenset[int], bool]] = {}
        for edge in node.children:
            for child, parent in edge.names:
                leaves, others = sources[edge.child][child]
                known = found.get(parent, (frozenset(), False))
                found[parent] = (known[0] | leaves, known[1] or others)
        sources[node.id] = found
        plain |= {leaf for leaves, others in found.values() if others for leaf in leaves}
    return plain
