"""Matches the leaves of a plan and makes tables of occurrences from their solutions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import EMISSION_OFFSET, END, EVENT_BIT, FIRST_OFFSET, START, UNBOUND, VALUES, Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.leaf_kernels import leaf_columns, plain_terms
from motet.engine.detect.occurrences import Occurrences, concatenate, member_array
from motet.engine.match import index
from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import SegmentMatches
from motet.engine.match.registered import Registered
from motet.engine.match.solutions import Batch, Solutions, Sources, VerifiedSolutions
from motet.engine.match.texts import frozen
from motet.language.syntax import Event
from motet.model.batches import Triple
from motet.plan.builder import PlanBuilder
from motet.plan.graph import Kind, PlanNode
from motet.plan.leaves import EVENT_VARIABLE


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A leaf of a plan with the event it was written as, and what that calls the leaf's variables."""

    node: PlanNode
    event: Event
    names: Mapping[str, str]  # canonical to own
    own_names: dict[str, str]  # canonical to those of the subscription that has members
    is_plain: bool  # its event is compared with plain terms somewhere, so that it needs a number of that kind


class Leaves:
    """The leaves in use, indexed."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self._registered = Registered(background, entailment)
        self._leaves: dict[str, LeafNode] = {}
        self._compared: dict[int, int] = {}  # by leaf: at how many nodes its event is compared with plain terms
        self._ways: dict[int, tuple[index.Leaves, _Ways]] = {}  # by identity of a group's leaves

    def compile_as(self, other: Leaves) -> None:
        """Begin with what another one has compiled."""
        self._registered.borrow(other._registered)

    def change(
        self,
        come: Sequence[PlanNode],
        gone: Sequence[PlanNode],
        builder: PlanBuilder,
        background: frozenset[Triple],
        entailment: str,
    ) -> None:
        """Match the leaves among some more nodes, and among some no longer."""
        changed = self._compare(come, gone, builder.nodes)
        lost = [str(node.id) for node in gone if node.kind is Kind.LEAF]
        for name in lost:
            del self._leaves[name]
        new = [_leaf_node(node, builder, node.id in self._compared) for node in come if node.kind is Kind.LEAF]
        self._registered.change(list(map(_query, new)), lost, background, entailment)
        self._leaves.update((str(leaf.node.id), leaf) for leaf in new)
        held = {id(group.leaves) for group in self._registered.matcher.groups()}
        self._ways = {key: ways for key, ways in self._ways.items() if key in held}
        for leaf in (self._leaves[str(id_)] for id_ in changed if str(id_) in self._leaves):
            self._replace(replace(leaf, is_plain=leaf.node.id in self._compared))

    def _compare(self, come: Iterable[PlanNode], gone: Iterable[PlanNode], nodes: Mapping[int, PlanNode]) -> set[int]:
        """Take note of what is compared at nodes; the leaves that this may concern."""
        changed: set[int] = set()
        for some, step in ((come, 1), (gone, -1)):
            for node in some:
                for leaf in _compared_with_terms(node, nodes):
                    self._compared[leaf] = self._compared.get(leaf, 0) + step
                    changed.add(leaf)
        for leaf in changed:
            if not self._compared[leaf]:
                del self._compared[leaf]
        return changed

    def _replace(self, leaf: LeafNode) -> None:
        if self._leaves[str(leaf.node.id)] != leaf:
            self._leaves[str(leaf.node.id)] = leaf
            for _, ways in self._ways.values():
                ways.replace(leaf)

    def occurrences(
        self, events: pa.RecordBatch, names: Dictionary, only: Collection[int] | None = None
    ) -> dict[int, Occurrences]:
        """What each leaf matches of some event records, by node; the dictionary learns the names of these events."""
        if not self._leaves or not len(events):
            return {}
        found: dict[int, Occurrences] = {}
        for matches in self._registered.matcher.solve(events):
            for leaf, table in self._tables(matches, names):
                if only is None or leaf.node.id in only:
                    found[leaf.node.id] = _both(found[leaf.node.id], table) if leaf.node.id in found else table
        _learn(events, found.values(), names)
        return found

    def _tables(self, matches: SegmentMatches, names: Dictionary) -> Iterator[tuple[LeafNode, Occurrences]]:
        if matches.decided is not None:
            yield from self._ways_of(matches.group, matches.decided).tables(matches.decided, names)
        if matches.verified is not None:
            for index in np.unique(matches.verified.leaf).tolist():
                leaf = self._leaves[matches.group.leaves.name(index)]
                rows = np.flatnonzero(matches.verified.leaf == index)
                yield leaf, _table(leaf, matches.verified, rows, matches.batch, names)

    def _ways_of(self, group: index.Group, found: Solutions) -> _Ways:
        leaves = group.leaves
        known = self._ways.get(id(leaves))
        if known is None:
            named = zip(leaves.names.to_pylist(), group.alive, strict=True)
            own = [self._leaves[name] if is_alive else None for name, is_alive in named]
            known = self._ways[id(leaves)] = leaves, _Ways(own, leaves, found.sources)
        return known[1]


class _Ways:
    """The way from solutions to tables for the leaves of a group; those that are gone have none."""

    def __init__(self, own: Sequence[LeafNode | None], leaves: index.Leaves, sources: Sources) -> None:
        self._own = list(own)
        self._numbers = {leaf.node.id: number for number, leaf in enumerate(own) if leaf}
        self._width = np.array([len(leaf.node.variables) if leaf else 0 for leaf in own], np.int64)
        labels = sources.names.to_pylist()
        self._first = np.zeros(len(own) + 1, np.int64)  # of each leaf: where its columns begin
        columns: list[int] = []  # of each binding of each leaf
        for number, leaf in enumerate(own):
            form = leaves.form[number]
            if leaf is not None and form != index.VERIFIED:
                places = {leaf.names[name]: place for place, name in enumerate(leaf.node.variables)}
                columns += (places[label] for label in labels[sources.starts[form] : sources.starts[form + 1]])
            self._first[number + 1] = len(columns)
        self._columns = np.array(columns, np.int64)
        self._event = np.array([_event_column(leaf) for leaf in own], np.int64)

    def replace(self, leaf: LeafNode) -> None:
        """Go by a leaf that is the same but for what its event is compared with."""
        number = self._numbers.get(leaf.node.id)
        if number is not None:
            self._own[number] = leaf
            self._event[number] = _event_column(leaf)

    def tables(self, found: Solutions, names: Dictionary) -> Iterator[tuple[LeafNode, Occurrences]]:
        """By leaf."""
        ways = self._first, self._columns, self._event
        terms = plain_terms(found.leaf, found.starts, found.term, *ways)
        numbers = names.terms.ids(found.terms(terms), terms)
        times = (frozen(np.asarray(column.cast(pa.int64()))) for column in _times(found.batch))
        small = found.leaf.astype(np.int16) if len(self._own) < 2**15 else found.leaf  # sorted several times faster
        order = np.argsort(small, kind="stable")
        columns = leaf_columns(order, found.event, found.leaf, found.starts, numbers, *times, self._width, *ways)
        return self._cut(columns, found.leaf[order])

    def _cut(self, columns: Ints, leaf: Ints) -> Iterator[tuple[LeafNode, Occurrences]]:
        cuts = [0, *(np.flatnonzero(np.diff(leaf)) + 1).tolist(), len(leaf)]
        begin = 0
        for first, last in pairwise(cuts):
            own, width = self._own[leaf[first]], VALUES + int(self._width[leaf[first]])
            end = begin + (last - first) * width
            if own is not None:
                part = columns[begin:end].reshape(width, -1).copy()  # else a row that stays would keep all of them
                members = member_array([_member(own, row) for row in part.T]) if own.node.with_members else None
                yield own, Occurrences(part, np.arange(last - first + 1), part[FIRST_OFFSET].copy(), members)
            begin = end


def _times(batch: Batch) -> tuple[pa.Array, pa.Array, pa.Array]:
    return batch.offsets, batch.events.column("start"), batch.events.column("end")


def _learn(events: pa.RecordBatch, found: Collection[Occurrences], names: Dictionary) -> None:
    """Only events that somebody found can be asked for."""
    offsets = np.asarray(events.column("offset"), np.int64)
    is_found = np.zeros(len(offsets), np.bool_)
    is_dense = len(offsets) > 0 and offsets[-1] - offsets[0] == len(offsets) - 1
    for table in found:
        is_found[table.events - offsets[0] if is_dense else np.searchsorted(offsets, table.events)] = True
    ids, triples = events.column("id"), events.column("triples") if names.events.with_triples else None
    if not is_found.all():
        places = pa.array(np.flatnonzero(is_found))
        ids, triples = ids.take(places), None if triples is None else triples.take(places)
    names.events.add(offsets[is_found], ids, triples)


def _event_column(leaf: LeafNode | None) -> int:
    """Where the leaf has its event as such."""
    if leaf is None or leaf.is_plain or EVENT_VARIABLE not in leaf.node.variables:
        return -1
    return leaf.node.variables.index(EVENT_VARIABLE)


def _both(one: Occurrences, other: Occurrences) -> Occurrences:
    """In the order of the events."""
    table = concatenate([one, other])
    return table.take(np.argsort(table.columns[FIRST_OFFSET], kind="stable"))


def _leaf_node(node: PlanNode, builder: PlanBuilder, is_plain: bool) -> LeafNode:
    assert node.operator.leaf_id is not None, "it is a leaf"
    leaf = builder.leaves[node.operator.leaf_id]
    return LeafNode(node, leaf.event, leaf.variable_names, builder.variable_names[node.id], is_plain)


def _query(leaf: LeafNode) -> LeafQuery:
    variables = tuple(sorted(leaf.names[name] for name in leaf.node.variables))
    return LeafQuery(str(leaf.node.id), leaf.event, variables)


def _table(leaf: LeafNode, solutions: VerifiedSolutions, rows: Ints, batch: Batch, names: Dictionary) -> Occurrences:
    """The occurrences of one leaf, from its rows among the verified solutions."""
    count, variables = len(rows), leaf.node.variables
    events = pa.array(solutions.event[rows])
    offsets, start, end = (np.asarray(column.take(events).cast(pa.int64())) for column in _times(batch))
    columns = np.full((VALUES + len(variables), count), UNBOUND, np.int64)
    columns[START], columns[END] = start, end
    columns[EMISSION_OFFSET] = columns[FIRST_OFFSET] = offsets
    bindings = [dict(solutions.bindings[row]) for row in rows.tolist()]
    for place, canonical in enumerate(variables):
        if canonical == EVENT_VARIABLE and not leaf.is_plain:
            columns[VALUES + place] = offsets | EVENT_BIT
        else:
            columns[VALUES + place] = _term_ids(leaf.names[canonical], bindings, names)
    members = member_array([_member(leaf, row) for row in columns.T]) if leaf.node.with_members else None
    return Occurrences(columns, np.arange(count + 1), offsets, members)


def _term_ids(name: str, bindings: Sequence[Mapping[str, str]], names: Dictionary) -> Ints:
    """The terms of a variable by row; UNBOUND where it has none."""
    is_bound = np.array([name in row for row in bindings], np.bool_)
    ids = np.full(len(bindings), UNBOUND, np.int64)
    ids[is_bound] = names.terms.ids(pa.array([row[name] for row in bindings if name in row], pa.string()))
    return ids


def _member(leaf: LeafNode, row: Ints) -> frozenset[tuple[tuple[str, int], ...]]:
    """One solution, with the event's own name even where it is hidden."""
    shown = {leaf.own_names[name]: int(row[VALUES + place]) for place, name in enumerate(leaf.node.variables)}
    shown.setdefault(leaf.own_names[EVENT_VARIABLE], int(row[FIRST_OFFSET]) | EVENT_BIT)
    return frozenset({tuple(sorted((name, value) for name, value in shown.items() if value != UNBOUND))})


def _compared_with_terms(node: PlanNode, nodes: Mapping[int, PlanNode]) -> set[int]:
    """The leaves whose event meets, in a variable of a node, what is not an event of a leaf."""
    if node.kind is Kind.LEAF:
        return set()
    return {leaf for leaves, others in _sources(node, nodes).values() if others for leaf in leaves}


def _sources(node: PlanNode, nodes: Mapping[int, PlanNode]) -> dict[str, tuple[frozenset[int], bool]]:
    """By variable: the leaves whose event it is, and whether it may be something else."""
    if node.kind is Kind.LEAF:
        return {
            name: (frozenset({node.id}), False) if name == EVENT_VARIABLE else (frozenset(), True)
            for name in node.variables
        }
    found: dict[str, tuple[frozenset[int], bool]] = {}
    for edge in node.children:
        below = _sources(nodes[edge.child], nodes)
        for child, parent in edge.renaming:
            (leaves, others), known = below[child], found.get(parent, (frozenset(), False))
            found[parent] = (known[0] | leaves, known[1] or others)
    return found
