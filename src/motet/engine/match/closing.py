"""What holds because of each event of a batch: the part of the closure that the encoder cannot compute.

The encoder knows the hierarchy. An event's triples are replaced by its closure where the background speaks of the event
itself, and where one of them can set off a rule whose consequences a leaf asks for. Graphs are made when asked for.
"""

from __future__ import annotations

from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.asked import Asked
from motet.engine.match.needs import needs_nobody, needs_rules
from motet.model.batches import EventRow, Triple, event_rows
from motet.model.errors import LimitError
from motet.model.terms import iri, iri_value, is_iri
from motet.ontology.entailment import Entailment, Reasoner
from motet.sparql.graph import Graph


class Background:
    """The closed background, with its reasoner."""

    def __init__(self, triples: frozenset[Triple], entailment: str) -> None:
        self.reasoner = Reasoner(triples, Entailment(entailment))
        self.graph = Graph(self.reasoner.background)
        subjects = {iri_value(s) for s, _, _ in self.reasoner.background if is_iri(s)}
        self.subjects = pa.array(sorted(subjects), pa.string())

    def over(self, row: EventRow) -> Graph | None:
        """The event with the background and all that follows; None when that is more than the limits allow."""
        found = self.closed(row)
        return None if found is None else Graph.over(self.graph, found)

    def closed(self, row: EventRow) -> set[Triple] | None:
        """The event and what it adds to the background; None beyond the limits."""
        try:
            return self.reasoner.close(row.triples)
        except LimitError:
            return None


@lru_cache(maxsize=8)
def background_of(triples: frozenset[Triple], entailment: str) -> Background:
    """The closed background of a graph; whoever has the same graph has the same one."""
    return Background(triples, entailment)


class Closing:
    """A batch of events over a background."""

    def __init__(self, events: pa.RecordBatch, background: Background, asked: Asked) -> None:
        self.events = events
        self._background = background
        self._asked = asked
        self._rows: dict[int, EventRow] = {}
        self._graphs: dict[int, Graph | None] = {}
        self.knows_none = not len(background.subjects)  # then the background speaks of no event

    def row(self, event: int) -> EventRow:
        if event not in self._rows:
            (self._rows[event],) = event_rows(self.events.slice(event, 1))
        return self._rows[event]

    def graph(self, event: int) -> Graph | None:
        """All that holds about one event; None beyond the limits."""
        if event not in self._graphs:
            self._graphs[event] = self._background.over(self.row(event))
        return self._graphs[event]

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which events the background speaks of, so that some of their solutions may come from it alone."""
        if self.knows_none:
            return np.zeros(len(self.events), np.bool_)
        return np.asarray(pc.is_in(self.events.column("id"), self._background.subjects))

    @cached_property
    def closed(self) -> pa.RecordBatch:
        """The events with all triples that the hierarchy does not give."""
        if self.knows_none and needs_nobody(self._background.reasoner):
            return self.events
        special = np.flatnonzero(self.known | needs_rules(self.events, self._background.reasoner, self._asked))
        if not len(special):
            return self.events
        rows = event_rows(self.events.take(pa.array(special)))
        self._rows |= zip(special.tolist(), rows, strict=True)
        place = self.events.schema.get_field_index("triples")
        lists = self.events.column(place)
        replaced = _lists([self._about(event) for event in special.tolist()], lists.type)
        order = np.arange(len(self.events))
        order[special] = len(self.events) + np.arange(len(special))
        chosen = pa.concat_arrays([lists, replaced]).take(pa.array(order))
        return self.events.set_column(place, self.events.schema.field(place), chosen)

    def _about(self, event: int) -> list[Triple]:
        """What holds about the event itself."""
        row = self.row(event)
        found = self._background.closed(row)
        if found is None:
            return []
        own = iri(row.id)
        more = self._background.graph.match(own, None, None) if self.known[event] else []
        return [*(triple for triple in found if triple[0] == own), *more]


def _lists(found: list[list[Triple]], kind: pa.ListType) -> pa.ListArray:
    """Lists of triples as a column; column by column, which is quicker than row by row."""
    offsets = np.cumsum([0, *map(len, found)])
    parts = zip(*(triple for triples in found for triple in triples), strict=True)
    columns = [pa.array(part, pa.string()) for part in parts] or [pa.array([], pa.string())] * 3
    triples = pa.StructArray.from_arrays(columns, fields=list(kind.value_type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), triples, type=kind)
