"""Computes the closures of events that the index needs.

The encoder applies the hierarchy of classes and properties. An event's triples are replaced by its closure where the
background has triples about the event, and where one of its triples can trigger a rule that infers what a leaf refers
to. An event also needs its closure when so much may follow that the limit could be exceeded: then it matches nothing.
All this is decided for the distinct terms of a batch. Graphs for the verifier are computed on demand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.index import IndexSegment, LeafTable
from motet.engine.match.leaf import LeafShape, prefix_key_named
from motet.jit.compiled import Bools, Ints
from motet.model.batches import EventRow, Records, Triple, event_rows
from motet.model.errors import LimitError
from motet.model.terms import RDF_TYPE, iri, iri_value, is_iri
from motet.ontology.consequences import ConsequenceBound, Consequences
from motet.ontology.entailment import INFERRED_PER_TRIPLE, Entailment, Reasoner
from motet.sparql.dataset import Graph


@dataclass(frozen=True)
class ReferencedTerms:
    """The classes and properties that live leaves refer to in the index.

    >>> from motet.engine.match.index import LeafIndex
    >>> from motet.engine.match.leaf import LeafQuery
    >>> from motet.language.syntax import Event
    >>> index = LeafIndex().with_leaves([LeafQuery("s", Event("e", "urn:A"), ("e",))])
    >>> ReferencedTerms(index.segments).classes
    frozenset({'<urn:A>'})
    """

    segments: Sequence[IndexSegment] = ()

    def includes(self, consequences: Consequences) -> bool:
        """Whether a leaf refers to one of the consequences."""
        if not self.properties.isdisjoint(consequences.properties):
            return True
        return not self.classes.isdisjoint(consequences.classes) or (self.every_class and bool(consequences.classes))

    @property
    def properties(self) -> frozenset[str]:
        return self._terms[0]

    @property
    def classes(self) -> frozenset[str]:
        """The classes that leaves name."""
        return self._terms[1]

    @property
    def every_class(self) -> bool:
        """Whether a leaf reads the classes of an event."""
        return self._terms[2]

    @cached_property
    def _terms(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """Computed on demand: entailment without rules does not need it."""
        properties: set[str] = set()
        classes: set[str] = set()
        every_class = False
        for table in (table for segment in self.segments for table in _live_tables(segment)):
            properties.update(map(_property, table.shape.predicates()))
            every_class |= _reads_classes(table.shape)
            for column in _class_columns(table):
                classes.update(pc.unique(column).to_pylist())
        return frozenset(properties), frozenset(classes), every_class


def _live_tables(segment: IndexSegment) -> Iterator[LeafTable]:
    for table in segment.arrays.leaf_tables():
        live = segment.live[table.leaf]
        if live.all():
            yield table
        elif live.any():
            rows = pa.array(np.flatnonzero(live))
            terms = tuple(column.take(rows) for column in table.terms)
            yield LeafTable(table.shape, terms, table.intervals, table.leaf)


def _class_columns(table: LeafTable) -> Iterator[pa.Array]:
    return (terms for predicate, terms in zip(table.shape.constants, table.terms, strict=True) if predicate == RDF_TYPE)


def _reads_classes(shape: LeafShape) -> bool:
    constants = (predicate for predicate in shape.constants if predicate != RDF_TYPE)
    tested = (*shape.reads, *(name for name, _ in shape.ranges), *constants)
    return any(_property(name) == RDF_TYPE for name in tested)


def _property(name: str) -> str:
    key = prefix_key_named(name)
    return name if key is None else key.predicate


def hierarchy_suffices(reasoner: Reasoner) -> bool:
    """Whether no rule beyond the hierarchy applies to events."""
    return reasoner.is_hierarchy_only and reasoner.mode is not Entailment.OWL_RL


def events_needing_closure(events: pa.RecordBatch, reasoner: Reasoner, referenced: ReferencedTerms) -> Bools:
    """For each event, whether the index needs its closure."""
    none = np.zeros(len(events), np.bool_)
    if hierarchy_suffices(reasoner):
        return none
    bound = reasoner.consequence_bound
    if not referenced.properties:
        return none
    return ~none if bound is None else _Triples(events, bound, referenced).needing(reasoner.limit)


class _Triples:
    """All triples of a batch, each with the id of its possible consequences."""

    def __init__(self, events: pa.RecordBatch, bound: ConsequenceBound, referenced: ReferencedTerms) -> None:
        lists = events.column("triples")
        _, predicates, self._objects = lists.flatten().flatten()
        offsets = np.asarray(lists.offsets, np.int64)
        self._lengths = offsets[1:] - offsets[:-1]
        self._bound = bound
        encoded = predicates.dictionary_encode()
        self._names: list[str] = encoded.dictionary.to_pylist()
        self._consequence_id = np.array(encoded.indices, np.int64)
        consequences = [*self._of_predicates(), *self._of_classes()]
        self._is_referenced = np.array([each.may_merge or referenced.includes(each) for each in consequences], np.bool_)
        self._affects_others = np.array([each.affects_others for each in consequences], np.bool_)
        self._excess = np.array([max(each.size - 1 - INFERRED_PER_TRIPLE, 0) for each in consequences], np.int64)

    def needing(self, limit: int) -> Bools:
        """The events from which a referenced term can follow, or more triples than the limit allows."""
        if not (self._is_referenced.any() or self._affects_others.any() or self._max_excess() > limit):
            return np.zeros(len(self._lengths), np.bool_)
        event = np.repeat(np.arange(len(self._lengths)), self._lengths)
        columns = (self._is_referenced, self._affects_others, self._excess)
        referenced, others, excess = (self._by_event(event, column) for column in columns)
        return (referenced > 0) | (excess + np.where(others > 0, self._on_other_nodes(limit), 0) > limit)

    def _by_event(self, event: Ints, values: Bools | Ints) -> npt.NDArray[np.float64]:
        return np.asarray(np.bincount(event, values[self._consequence_id], len(self._lengths)), np.float64)

    def _max_excess(self) -> int:
        return int(self._lengths.max(initial=0)) * int(self._excess.max(initial=0))

    def _on_other_nodes(self, limit: int) -> Ints:
        """The number of triples about other subjects that can follow from each event, capped above the limit."""
        lengths, index = np.unique(self._lengths, return_inverse=True)
        counts = [min(self._bound.max_on_other_nodes(length), limit + 1) for length in lengths.tolist()]
        return np.array(counts, np.int64)[index]

    def _of_predicates(self) -> list[Consequences]:
        """By predicate for objects that are not literals, then by predicate for literals."""
        nodes = [self._bound.of_property(name, literal=False) for name in self._names]
        literals = [self._bound.of_property(name, literal=True) for name in self._names]
        differ = np.array(
            [of_node != of_literal for of_node, of_literal in zip(nodes, literals, strict=True)], np.bool_
        )
        if differ.any():
            is_literal = np.asarray(pc.starts_with(self._objects, '"'))
            self._consequence_id += len(nodes) * (is_literal & differ[self._consequence_id])
        return nodes + literals

    def _of_classes(self) -> list[Consequences]:
        """By class, following those of the predicates."""
        if RDF_TYPE not in self._names:
            return []
        rows = np.flatnonzero(self._consequence_id % len(self._names) == self._names.index(RDF_TYPE))
        classes = self._objects.take(pa.array(rows)).dictionary_encode()
        self._consequence_id[rows] = 2 * len(self._names) + np.asarray(classes.indices)
        return [self._bound.of_class(name) for name in classes.dictionary.to_pylist()]


class ClosedBackground:
    """The closed background, with its reasoner."""

    def __init__(self, triples: frozenset[Triple], entailment: str) -> None:
        self.reasoner = Reasoner(triples, Entailment(entailment))
        self.graph = Graph(self.reasoner.background)
        subjects = {iri_value(s) for s, _, _ in self.reasoner.background if is_iri(s)}
        self.subjects = pa.array(sorted(subjects), pa.string())

    def over(self, row: EventRow) -> Graph | None:
        """The event's closure with the background; None when it exceeds the limits."""
        triples = self.closed(row)
        return None if triples is None else Graph.over(self.graph, triples)

    def closed(self, row: EventRow) -> set[Triple] | None:
        """The event's triples and what follows from them and the background; None when they exceed the limits."""
        try:
            return self.reasoner.close(row.triples)
        except LimitError:
            return None


@lru_cache(maxsize=8)
def closed_background(triples: frozenset[Triple], entailment: str) -> ClosedBackground:
    """The closed background of a graph, cached."""
    return ClosedBackground(triples, entailment)


class EventClosures:
    """A batch of events over a background."""

    def __init__(self, events: Records, background: ClosedBackground, referenced: ReferencedTerms) -> None:
        self._batch = events
        self._background = background
        self._referenced = referenced
        self._rows: dict[int, EventRow] = {}
        self._graphs: dict[int, Graph | None] = {}
        self.none_in_background = not len(background.subjects)  # the background has no triples about any event

    @property
    def events(self) -> pa.RecordBatch:
        return self._batch.columns

    def row(self, event: int) -> EventRow:
        if event not in self._rows:
            (self._rows[event],) = event_rows(self.events.slice(event, 1))
        return self._rows[event]

    def graph(self, event: int) -> Graph | None:
        """The closure of one event with the background; None when it exceeds the limits."""
        if event not in self._graphs:
            self._graphs[event] = self._background.over(self.row(event))
        return self._graphs[event]

    @cached_property
    def is_in_background(self) -> npt.NDArray[np.bool_]:
        """Whether the background has triples about each event; then some solutions may come from it alone."""
        if self.none_in_background:
            return np.zeros(len(self._batch), np.bool_)
        return np.asarray(pc.is_in(self.events.column("id"), self._background.subjects))

    @cached_property
    def closed(self) -> pa.RecordBatch:
        """The events with all inferred triples that the encoder does not add."""
        if self.none_in_background and hierarchy_suffices(self._background.reasoner):
            return self.events
        closed_events = np.flatnonzero(
            self.is_in_background | events_needing_closure(self.events, self._background.reasoner, self._referenced)
        )
        if not len(closed_events):
            return self.events
        rows = event_rows(self.events.take(pa.array(closed_events)))
        self._rows |= zip(closed_events.tolist(), rows, strict=True)
        column = self.events.schema.get_field_index("triples")
        lists = self.events.column(column)
        replaced = _lists([self._about(event) for event in closed_events.tolist()], lists.type)
        order = np.arange(len(self.events))
        order[closed_events] = len(self.events) + np.arange(len(closed_events))
        chosen = pa.concat_arrays([lists, replaced]).take(pa.array(order))
        return self.events.set_column(column, self.events.schema.field(column), chosen)

    def _about(self, event: int) -> list[Triple]:
        """The triples of the closure that have the event as subject."""
        row = self.row(event)
        triples = self._background.closed(row)
        if triples is None:
            return []
        subject = iri(row.id)
        more = self._background.graph.match(subject, None, None) if self.is_in_background[event] else []
        return [*(triple for triple in triples if triple[0] == subject), *more]


def _lists(rows: list[list[Triple]], kind: pa.ListType) -> pa.ListArray:
    """Lists of triples as a column, built column by column, which is quicker than row by row."""
    offsets = np.cumsum([0, *map(len, rows)])
    parts = zip(*(triple for triples in rows for triple in triples), strict=True)
    columns = [pa.array(part, pa.string()) for part in parts] or [pa.array([], pa.string())] * 3
    triples = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), triples, type=kind)
