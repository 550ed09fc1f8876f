"""Which events of a batch must be closed because a leaf might see a difference?

The hierarchy is not asked about here: the encoder has it. An event needs its closure when one of its triples can set
off a rule that derives what a leaf looks for. It also needs it when so much may follow that the limit could be passed,
which no leaf may overlook: then the event matches nothing. Everything is decided for the distinct terms of a batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.asked import Asked
from motet.engine.match.texts import Ints
from motet.model.terms import RDF_TYPE
from motet.ontology.consequences import ConsequenceBound, Consequences
from motet.ontology.entailment import INFERRED_PER_TRIPLE, Entailment, Reasoner

Flags = npt.NDArray[np.bool_]


def needs_nobody(reasoner: Reasoner) -> bool:
    """Whether there are no rules beyond the hierarchy that an event could set off."""
    return reasoner.is_hierarchy_only and reasoner.mode is not Entailment.OWL_RL


def needs_rules(events: pa.RecordBatch, reasoner: Reasoner, asked: Asked) -> Flags:
    """For each event, whether it must be closed."""
    nobody = np.zeros(len(events), np.bool_)
    if needs_nobody(reasoner):
        return nobody
    reach = reasoner.consequence_bound
    if not asked.properties:
        return nobody
    return ~nobody if reach is None else _Triples(events, reach, asked).needing(reasoner.limit)


class _Triples:
    """All triples of a batch, each with the number of what it can lead to."""

    def __init__(self, events: pa.RecordBatch, reach: ConsequenceBound, asked: Asked) -> None:
        lists = events.column("triples")
        _, predicates, self._objects = lists.flatten().flatten()
        offsets = np.asarray(lists.offsets, np.int64)
        self._lengths = offsets[1:] - offsets[:-1]
        self._reach = reach
        encoded = predicates.dictionary_encode()
        self._names: list[str] = encoded.dictionary.to_pylist()
        self._number = np.array(encoded.indices, np.int64)
        found = [*self._of_predicates(), *self._of_classes()]
        self._is_seen = np.array([one.may_merge or asked.sees(one) for one in found], np.bool_)
        self._is_far = np.array([one.affects_others for one in found], np.bool_)
        self._excess = np.array([max(one.size - 1 - INFERRED_PER_TRIPLE, 0) for one in found], np.int64)

    def needing(self, limit: int) -> Flags:
        """Which events can lead to what is asked for, or to more than the limit allows."""
        if not (self._is_seen.any() or self._is_far.any() or self._most_excess() > limit):
            return np.zeros(len(self._lengths), np.bool_)
        event = np.repeat(np.arange(len(self._lengths)), self._lengths)
        seen, far, excess = (self._by_event(event, of) for of in (self._is_seen, self._is_far, self._excess))
        return (seen > 0) | (excess + np.where(far > 0, self._elsewhere(limit), 0) > limit)

    def _by_event(self, event: Ints, values: Flags | Ints) -> npt.NDArray[np.float64]:
        return np.asarray(np.bincount(event, values[self._number], len(self._lengths)), np.float64)

    def _most_excess(self) -> int:
        return int(self._lengths.max(initial=0)) * int(self._excess.max(initial=0))

    def _elsewhere(self, limit: int) -> Ints:
        """How many triples about others can follow from each event; more than the limit is as good as any."""
        lengths, place = np.unique(self._lengths, return_inverse=True)
        most = [min(self._reach.max_elsewhere(length), limit + 1) for length in lengths.tolist()]
        return np.array(most, np.int64)[place]

    def _of_predicates(self) -> list[Consequences]:
        """By predicate when the object is no literal, then by predicate when it is one."""
        things = [self._reach.of_property(name, literal=False) for name in self._names]
        literals = [self._reach.of_property(name, literal=True) for name in self._names]
        differ = np.array([one != other for one, other in zip(things, literals, strict=True)], np.bool_)
        if differ.any():
            is_literal = np.asarray(pc.starts_with(self._objects, '"'))
            self._number += len(things) * (is_literal & differ[self._number])
        return things + literals

    def _of_classes(self) -> list[Consequences]:
        """By class; behind the predicates."""
        if RDF_TYPE not in self._names:
            return []
        rows = np.flatnonzero(self._number % len(self._names) == self._names.index(RDF_TYPE))
        classes = self._objects.take(pa.array(rows)).dictionary_encode()
        self._number[rows] = 2 * len(self._names) + np.asarray(classes.indices)
        return [self._reach.of_class(name) for name in classes.dictionary.to_pylist()]
