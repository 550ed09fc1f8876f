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
from motet.engine.match.matcher import MatcherRegistry, SegmentMatches
from motet.engine.match.solutions import EncodedBatch, ProjectionArrays, Solutions, VerifiedSolutions
from motet.engine.match.string_column import frozen
from motet.language.syntax import Event
from motet.model.batches import Triple
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
        self._columns: dict[int, tuple[index.SegmentLeaves, _LeafColumns]] = {}  # by identity of a segment's leaves

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
        held = {id(segment.leaves) for segment in self._registry.matcher.segments()}
        self._columns = {key: columns for key, columns in self._columns.items() if key in held}
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
            for _, columns in self._columns.values():
                columns.replace(leaf)

    def occurrences(
        self, events: pa.RecordBatch, names: Dictionary, only: Collection[int] | None = None
    ) -> dict[int, Occurrences]:
        """The occurrences of each leaf in some event records, by node; their events are added to the dictionary."""
        if not self._leaves or not len(events):
            return {}
        found: dict[int, Occurrences] = {}
        for matches in self._registry.matcher.solve(events):
            for leaf, table in self._tables(matches, names):
                if only is None or leaf.node.id in only:
                    found[leaf.node.id] = _merge(found[leaf.node.id], table) if leaf.node.id in found else table
        _add_events(events, found.values(), names)
        return found

    def _tables(self, matches: SegmentMatches, names: Dictionary) -> Iterator[tuple[PlanLeaf, Occurrences]]:
        if matches.decided is not None:
            yield from self._columns_of(matches.segment, matches.decided).tables(matches.decided, names)
        if matches.verified is not None:
            for index in np.unique(matches.verified.leaf).tolist():
                leaf = self._leaves[matches.segment.leaves.name(index)]
                rows = np.flatnonzero(matches.verified.leaf == index)
                yield leaf, _table(leaf, matches.verified, rows, matches.batch, names)

    def _columns_of(self, segment: index.IndexSegment, found: Solutions) -> _LeafColumns:
        leaves = segment.leaves
        known = self._columns.get(id(leaves))
        if known is None:
            named = zip(leaves.names.to_pylist(), segment.live, strict=True)
            own = [self._leaves[name] if is_alive else None for name, is_alive in named]
            known = self._columns[id(leaves)] = leaves, _LeafColumns(own, leaves, found.projections)
        return known[1]


class _LeafColumns:
    """Maps the bindings of a segment's leaves to columns of tables; removed leaves have none."""

    def __init__(self, own: Sequence[PlanLeaf | None], leaves: index.SegmentLeaves, sources: ProjectionArrays) -> None:
        self._own = list(own)
        self._numbers = {leaf.node.id: number for number, leaf in enumerate(own) if leaf}
        self._width = np.array([len(leaf.node.variables) if leaf else 0 for leaf in own], np.int64)
        labels = sources.names.to_pylist()
        self._first = np.zeros(len(own) + 1, np.int64)  # of each leaf: where its columns begin
        columns: list[int] = []  # of each binding of each leaf
        for number, leaf in enumerate(own):
            form = leaves.projection_ids[number]
            if leaf is not None and form != index.VERIFIED:
                places = {leaf.names[name]: place for place, name in enumerate(leaf.node.variables)}
                columns += (places[label] for label in labels[sources.starts[form] : sources.starts[form + 1]])
            self._first[number + 1] = len(columns)
        self._columns = np.array(columns, np.int64)
        self._event = np.array([_event_column(leaf) for leaf in own], np.int64)

    def replace(self, leaf: PlanLeaf) -> None:
        """Use a leaf that differs only in what its event is compared with."""
        number = self._numbers.get(leaf.node.id)
        if number is not None:
            self._own[number] = leaf
            self._event[number] = _event_column(leaf)

    def tables(self, found: Solutions, names: Dictionary) -> Iterator[tuple[PlanLeaf, Occurrences]]:
        """By leaf."""
        columns = self._first, self._columns, self._event
        terms = plain_terms(found.leaf, found.starts, found.term, *columns)
        numbers = names.terms.ids(found.terms(terms), terms)
        times = (frozen(np.asarray(column.cast(pa.int64()))) for column in _times(found.batch))
        small = found.leaf.astype(np.int16) if len(self._own) < 2**15 else found.leaf  # sorted several times faster
        order = np.argsort(small, kind="stable")
        columns = leaf_columns(order, found.event, found.leaf, found.starts, numbers, *times, self._width, *columns)
        return self._cut(columns, found.leaf[order])

    def _cut(self, columns: Ints, leaf: Ints) -> Iterator[tuple[PlanLeaf, Occurrences]]:
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


def _times(batch: EncodedBatch) -> tuple[pa.Array, pa.Array, pa.Array]:
    return batch.offsets, batch.events.column("start"), batch.events.column("end")


def _add_events(events: pa.RecordBatch, found: Collection[Occurrences], names: Dictionary) -> None:
    """Adds the events of occurrences to the dictionary."""
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


def _event_column(leaf: PlanLeaf | None) -> int:
    """The column of the event as such; -1 when it has none or is compared with terms."""
    if leaf is None or leaf.compares_terms or EVENT_VARIABLE not in leaf.node.variables:
        return -1
    return leaf.node.variables.index(EVENT_VARIABLE)


def _merge(one: Occurrences, other: Occurrences) -> Occurrences:
    """In the order of the events."""
    table = concatenate([one, other])
    return table.take(np.argsort(table.columns[FIRST_OFFSET], kind="stable"))


def _plan_leaf(node: PlanNode, builder: PlanBuilder, is_plain: bool) -> PlanLeaf:
    assert node.operator.leaf_id is not None, "it is a leaf"
    leaf = builder.leaves[node.operator.leaf_id]
    return PlanLeaf(node, leaf.event, leaf.variable_names, builder.variable_names[node.id], is_plain)


def _query(leaf: PlanLeaf) -> LeafQuery:
    variables = tuple(sorted(leaf.names[name] for name in leaf.node.variables))
    return LeafQuery(str(leaf.node.id), leaf.event, variables)


def _table(
    leaf: PlanLeaf, solutions: VerifiedSolutions, rows: Ints, batch: EncodedBatch, names: Dictionary
) -> Occurrences:
    """The occurrences of one leaf, from its rows among the verified solutions."""
    count, variables = len(rows), leaf.node.variables
    events = pa.array(solutions.event[rows])
    offsets, start, end = (np.asarray(column.take(events).cast(pa.int64())) for column in _times(batch))
    columns = np.full((VALUES + len(variables), count), UNBOUND, np.int64)
    columns[START], columns[END] = start, end
    columns[EMISSION_OFFSET] = columns[FIRST_OFFSET] = offsets
    bindings = [dict(solutions.bindings[row]) for row in rows.tolist()]
    for place, canonical in enumerate(variables):
        if canonical == EVENT_VARIABLE and not leaf.compares_terms:
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


def _member(leaf: PlanLeaf, row: Ints) -> frozenset[tuple[tuple[str, int], ...]]:
    """One solution as a member, with the event's variable even where it is not projected."""
    shown = {leaf.member_names[name]: int(row[VALUES + place]) for place, name in enumerate(leaf.node.variables)}
    shown.setdefault(leaf.member_names[EVENT_VARIABLE], int(row[FIRST_OFFSET]) | EVENT_BIT)
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
