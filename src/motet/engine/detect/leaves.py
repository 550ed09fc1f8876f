"""Matches the leaves of a plan and makes tables of occurrences from their solutions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from motet.engine.detect.construct import member_times, times_term
from motet.engine.detect.dictionary import Dictionary, delivered_triples
from motet.engine.detect.occurrences import Occurrences, concatenate, member_array
from motet.engine.detect.table_kernels import (
    EMISSION_OFFSET,
    END,
    EVENT_BIT,
    FIRST_OFFSET,
    START,
    UNBOUND,
    VALUES,
    leaf_columns,
    plain_terms,
)
from motet.engine.match import index
from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import EncodedBatch, MatcherRegistry, SegmentMatches, Solutions, VerifiedSolutions
from motet.jit.compiled import Ints
from motet.language.syntax import Event
from motet.model.batches import Records, Triple
from motet.plan.builder import PlanBuilder
from motet.plan.graph import Kind, PlanNode
from motet.plan.leaves import EVENT_VARIABLE


@dataclass(frozen=True, slots=True)
class PlanLeaf:
    """A leaf of a plan with its EVENT and the names of its variables there."""

    node: PlanNode
    event: Event
    names: Mapping[str, str]  # canonical to those of the EVENT
    member_names: dict[str, str]  # canonical to those of the subscription that has members
    compares_terms: bool  # its event is compared with terms at some node, so that its IRI needs a term id


class LeafMatcher:
    """Matches the leaves of the active plan."""

    def __init__(self, background: frozenset[Triple], entailment: str) -> None:
        self._registry = MatcherRegistry(background, entailment)
        self._leaves: dict[str, PlanLeaf] = {}
        self._compared: dict[int, int] = {}  # by leaf: at how many nodes its event is compared with terms
        self._columns: dict[index.SegmentLeaves, _LeafColumns] = {}

    def reuse_compiled(self, other: LeafMatcher) -> None:
        """Start with the index of another leaf matcher."""
        self._registry.reuse(other._registry)

    def change(
        self,
        added: Sequence[PlanNode],
        removed: Sequence[PlanNode],
        builder: PlanBuilder,
        background: frozenset[Triple],
        entailment: str,
    ) -> None:
        """Add and remove the leaves among some nodes."""
        changed = self._compare(added, removed, builder.nodes)
        removed_names = [str(node.id) for node in removed if node.kind is Kind.LEAF]
        for name in removed_names:
            del self._leaves[name]
        new = [_plan_leaf(node, builder, node.id in self._compared) for node in added if node.kind is Kind.LEAF]
        self._registry.change(list(map(_query, new)), removed_names, background, entailment)
        self._leaves.update((str(leaf.node.id), leaf) for leaf in new)
        held = {segment.leaves for segment in self._registry.matcher.segments()}
        self._columns = {leaves: columns for leaves, columns in self._columns.items() if leaves in held}
        for leaf in (self._leaves[str(id_)] for id_ in changed if str(id_) in self._leaves):
            self._replace(replace(leaf, compares_terms=leaf.node.id in self._compared))

    def _compare(
        self, added: Iterable[PlanNode], removed: Iterable[PlanNode], nodes: Mapping[int, PlanNode]
    ) -> set[int]:
        """Count the nodes that compare a leaf's event with terms; returns the leaves whose count changed."""
        changed: set[int] = set()
        for changed_nodes, step in ((added, 1), (removed, -1)):
            for node in changed_nodes:
                for leaf in _compared_with_terms(node, nodes):
                    self._compared[leaf] = self._compared.get(leaf, 0) + step
                    changed.add(leaf)
        for leaf in changed:
            if not self._compared[leaf]:
                del self._compared[leaf]
        return changed

    def _replace(self, leaf: PlanLeaf) -> None:
        if self._leaves[str(leaf.node.id)] != leaf:
            self._leaves[str(leaf.node.id)] = leaf
            for columns in self._columns.values():
                columns.replace(leaf)

    def occurrences(
        self, events: Records, dictionary: Dictionary, only: Collection[int] | None = None
    ) -> dict[int, Occurrences]:
        """The occurrences of each leaf in some event records, by node; their events are added to the dictionary."""
        occurrences: dict[int, Occurrences] = {}
        matches = self._registry.matcher.solve(events) if self._leaves else []
        for part in matches:
            for leaf, table in self._tables(part, dictionary):
                if only is None or leaf.node.id in only:
                    occurrences[leaf.node.id] = (
                        _merge(occurrences[leaf.node.id], table) if leaf.node.id in occurrences else table
                    )
        if occurrences:
            _add_events(matches[0].batch, occurrences.values(), dictionary)
        return occurrences

    def _tables(self, matches: SegmentMatches, dictionary: Dictionary) -> Iterator[tuple[PlanLeaf, Occurrences]]:
        if matches.decided is not None:
            yield from self._columns_of(matches.segment).tables(matches.decided, dictionary)
        if matches.verified is not None:
            for index in np.unique(matches.verified.leaf).tolist():
                leaf = self._leaves[matches.segment.leaves.name(index)]
                rows = np.flatnonzero(matches.verified.leaf == index)
                yield leaf, _table(leaf, matches.verified, rows, matches.batch, dictionary)

    def _columns_of(self, segment: index.IndexSegment) -> _LeafColumns:
        leaves = segment.leaves
        columns = self._columns.get(leaves)
        if columns is None:
            is_live = zip(leaves.names.to_pylist(), segment.live, strict=True)
            plan_leaves = [self._leaves[name] if live else None for name, live in is_live]
            columns = self._columns[leaves] = _LeafColumns(plan_leaves, leaves, segment.projections)
        return columns


class _LeafColumns:
    """Maps the bindings of a segment's leaves to columns of tables; removed leaves have none."""

    def __init__(
        self, plan_leaves: Sequence[PlanLeaf | None], leaves: index.SegmentLeaves, projections: index.ProjectionArrays
    ) -> None:
        self._leaves = list(plan_leaves)
        self._index_by_node = {leaf.node.id: position for position, leaf in enumerate(plan_leaves) if leaf}
        self._width = np.array([len(leaf.node.variables) if leaf else 0 for leaf in plan_leaves], np.int64)
        variables = projections.names.to_pylist()
        self._first = np.zeros(len(plan_leaves) + 1, np.int64)  # of each leaf: the start of its columns
        columns: list[int] = []  # of each binding of each leaf
        for position, leaf in enumerate(plan_leaves):
            projection = leaves.projection_ids[position]
            if leaf is not None and projection != index.VERIFIED:
                columns_by_name = {leaf.names[name]: column for column, name in enumerate(leaf.node.variables)}
                columns += (
                    columns_by_name[name]
                    for name in variables[projections.starts[projection] : projections.starts[projection + 1]]
                )
            self._first[position + 1] = len(columns)
        self._columns = np.array(columns, np.int64)
        self._event = np.array([_event_column(leaf) for leaf in plan_leaves], np.int64)

    def replace(self, leaf: PlanLeaf) -> None:
        """Use a leaf that differs only in what its event is compared with."""
        position = self._index_by_node.get(leaf.node.id)
        if position is not None:
            self._leaves[position] = leaf
            self._event[position] = _event_column(leaf)

    def tables(self, solutions: Solutions, dictionary: Dictionary) -> Iterator[tuple[PlanLeaf, Occurrences]]:
        """The occurrences of each leaf."""
        columns = self._first, self._columns, self._event
        terms = plain_terms(solutions.leaf, solutions.starts, solutions.term, *columns)
        term_ids = dictionary.terms.ids_at(solutions.strings(terms), terms)
        is_small = len(self._leaves) < 2**15  # integers of 16 bits are sorted several times faster
        order = np.argsort(solutions.leaf.astype(np.int16) if is_small else solutions.leaf, kind="stable")
        columns = leaf_columns(
            order,
            solutions.event,
            solutions.leaf,
            solutions.starts,
            term_ids,
            *solutions.batch.times,
            self._width,
            *columns,
        )
        return self._cut(columns, solutions.leaf[order], dictionary)

    def _cut(self, columns: Ints, leaf: Ints, dictionary: Dictionary) -> Iterator[tuple[PlanLeaf, Occurrences]]:
        cuts = [0, *(np.flatnonzero(np.diff(leaf)) + 1).tolist(), len(leaf)]
        begin = 0
        for first, last in pairwise(cuts):
            plan_leaf, width = self._leaves[leaf[first]], VALUES + int(self._width[leaf[first]])
            end = begin + (last - first) * width
            if plan_leaf is not None:
                rows = columns[begin:end].reshape(width, -1).copy()  # else a retained row would retain all of them
                members = _members(plan_leaf, rows, dictionary) if plan_leaf.node.with_members else None
                yield plan_leaf, Occurrences(rows, np.arange(last - first + 1), rows[FIRST_OFFSET].copy(), members)
            begin = end


def _add_events(batch: EncodedBatch, tables: Collection[Occurrences], dictionary: Dictionary) -> None:
    """Add the events of occurrences to the dictionary."""
    offsets, _, _ = batch.times
    is_used = np.zeros(len(offsets), np.bool_)
    is_dense = offsets[-1] - offsets[0] == len(offsets) - 1
    for table in tables:
        is_used[table.events - offsets[0] if is_dense else np.searchsorted(offsets, table.events)] = True
    rows, triples = np.flatnonzero(is_used), None
    if dictionary.events.with_triples:
        triples = delivered_triples(batch.events.columns.take(pa.array(rows)))
    dictionary.events.add(offsets[rows], batch.iris(rows), triples)


def _event_column(leaf: PlanLeaf | None) -> int:
    """The column of the event as such; -1 when it has none or is compared with terms."""
    if leaf is None or leaf.compares_terms or EVENT_VARIABLE not in leaf.node.variables:
        return -1
    return leaf.node.variables.index(EVENT_VARIABLE)


def _merge(first: Occurrences, second: Occurrences) -> Occurrences:
    """The rows of two tables, in the order of their events."""
    table = concatenate([first, second])
    return table.take(np.argsort(table.columns[FIRST_OFFSET], kind="stable"))


def _plan_leaf(node: PlanNode, builder: PlanBuilder, compares_terms: bool) -> PlanLeaf:
    assert node.operator.leaf_id is not None, "it is a leaf"
    leaf = builder.leaves[node.operator.leaf_id]
    return PlanLeaf(node, leaf.event, leaf.variable_names, builder.variable_names[node.id], compares_terms)


def _query(leaf: PlanLeaf) -> LeafQuery:
    variables = tuple(sorted(leaf.names[name] for name in leaf.node.variables))
    return LeafQuery(str(leaf.node.id), leaf.event, variables)


def _table(
    leaf: PlanLeaf, solutions: VerifiedSolutions, rows: Ints, batch: EncodedBatch, dictionary: Dictionary
) -> Occurrences:
    """The occurrences of one leaf, from its rows among the verified solutions."""
    count, variables = len(rows), leaf.node.variables
    offsets, start, end = (column[solutions.event[rows]] for column in batch.times)
    columns = np.full((VALUES + len(variables), count), UNBOUND, np.int64)
    columns[START], columns[END] = start, end
    columns[EMISSION_OFFSET] = columns[FIRST_OFFSET] = offsets
    bindings = [dict(solutions.bindings[row]) for row in rows.tolist()]
    for column, canonical in enumerate(variables):
        if canonical == EVENT_VARIABLE and not leaf.compares_terms:
            columns[VALUES + column] = offsets | EVENT_BIT
        else:
            columns[VALUES + column] = _term_ids(leaf.names[canonical], bindings, dictionary)
    members = _members(leaf, columns, dictionary) if leaf.node.with_members else None
    return Occurrences(columns, np.arange(count + 1), offsets, members)


def _term_ids(name: str, bindings: Sequence[Mapping[str, str]], dictionary: Dictionary) -> Ints:
    """The terms of a variable by row; UNBOUND where it has none."""
    is_bound = np.array([name in row for row in bindings], np.bool_)
    ids = np.full(len(bindings), UNBOUND, np.int64)
    ids[is_bound] = dictionary.terms.ids(pa.array([row[name] for row in bindings if name in row], pa.string()))
    return ids


def _members(leaf: PlanLeaf, columns: Ints, dictionary: Dictionary) -> npt.NDArray[Any]:
    """The solutions as members, each with the times of its event, which say in which order members complete."""
    times = [times_term(start, end) for start, end in columns[[START, END]].T.tolist()]
    ids = dictionary.terms.ids(pa.array(times, pa.string())).tolist()
    return member_array([_member(leaf, row, id_) for row, id_ in zip(columns.T, ids, strict=True)])


def _member(leaf: PlanLeaf, row: Ints, times: int) -> frozenset[tuple[tuple[str, int], ...]]:
    """One solution as a member, with the event's variable even where it is not projected."""
    bindings = {leaf.member_names[name]: int(row[VALUES + column]) for column, name in enumerate(leaf.node.variables)}
    bindings.setdefault(leaf.member_names[EVENT_VARIABLE], int(row[FIRST_OFFSET]) | EVENT_BIT)
    bindings[member_times(leaf.member_names[EVENT_VARIABLE])] = times
    return frozenset({tuple(sorted((name, value) for name, value in bindings.items() if value != UNBOUND))})


def _compared_with_terms(node: PlanNode, nodes: Mapping[int, PlanNode]) -> set[int]:
    """The leaves whose event is compared, in a variable of a node, with what is not an event of a leaf."""
    if node.kind is Kind.LEAF:
        return set()
    return {leaf for leaves, may_be_term in _event_origins(node, nodes).values() if may_be_term for leaf in leaves}


def _event_origins(node: PlanNode, nodes: Mapping[int, PlanNode]) -> dict[str, tuple[frozenset[int], bool]]:
    """By variable: the leaves whose event it is, and whether it may be another term."""
    if node.kind is Kind.LEAF:
        return {
            name: (frozenset({node.id}), False) if name == EVENT_VARIABLE else (frozenset(), True)
            for name in node.variables
        }
    origins: dict[str, tuple[frozenset[int], bool]] = {}
    for edge in node.children:
        operand_origins = _event_origins(nodes[edge.child], nodes)
        for child, parent in edge.renaming:
            (leaves, may_be_term), existing = operand_origins[child], origins.get(parent, (frozenset(), False))
            origins[parent] = (existing[0] | leaves, existing[1] or may_be_term)
    return origins
