"""Class weights from the log of a lake and its active subscriptions.

An event counts for the most specific classes that the ontology infers for it, a subscription for the classes of its
EVENTs. Tasks close and count events; only counts are collected. ``motet.ontology.topics`` says what weights are for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from motet.lake import Lake, Snapshot
from motet.language.parse import parse
from motet.model.batches import event_rows
from motet.model.control import entailment_of
from motet.model.terms import iri
from motet.ontology.entailment import Entailment, Reasoner
from motet.ontology.hierarchy import Hierarchy, classify
from motet.ontology.load import Ontology
from motet.ontology.owl_names import TYPE, Triple
from motet.ontology.topics import WeightedTree, class_weights, most_specific, weighted_tree
from motet.spark.tables import read_lake

CLASS_COUNTS = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("count", pa.int64(), nullable=False)])


def weigh_classes(
    spark: SparkSession,
    lake: str | Path,
    ontology: Ontology,
    *,
    first: int = 0,
    event_share: float = 0.5,
    smoothing: float = 1.0,
) -> tuple[Hierarchy, WeightedTree]:
    """The ontology's classes and their weighted tree (OCWT), from the events at or after the offset ``first``.

    ``event_share`` is the share of events in a weight, the rest is that of subscriptions; ``smoothing`` is added to
    every count, so that a class without events has some weight.
    """
    hierarchy = classify(ontology)
    events = count_events(spark, lake, ontology, hierarchy, first=first)
    subscriptions = count_subscriptions(Lake.open(lake, create=False).snapshot())
    weights = class_weights(hierarchy, events, subscriptions, event_share=event_share, smoothing=smoothing)
    return hierarchy, weighted_tree(hierarchy, weights)


def count_events(
    spark: SparkSession, lake: str | Path, ontology: Ontology, hierarchy: Hierarchy, *, first: int = 0
) -> dict[str, int]:
    """The number of events that have each class among their most specific ones."""
    count_classes = CountClasses(ontology.triples, hierarchy)
    records = read_lake(spark, lake, first).where("kind = 'event'")
    counts = records.mapInArrow(count_classes, from_arrow_schema(CLASS_COUNTS)).groupBy("name").agg(f.sum("count"))
    return {name: int(count) for name, count in counts.collect()}


def count_subscriptions(snapshot: Snapshot) -> dict[str, int]:
    """The number of EVENTs of the active subscriptions with each class."""
    texts = (record.text for record in snapshot.subscriptions().values())
    classes = (event.class_iri for text in texts for subscription in parse(text) for event in subscription.events)
    return dict(Counter(iri(name) for name in classes if name is not None))


@dataclass(frozen=True)
class CountClasses:
    """Batches of records to batches of CLASS_COUNTS. Pickled as fields; each worker closes the ontology once."""

    ontology: Sequence[Triple]
    hierarchy: Hierarchy

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counter(
            name for batch in batches for row in event_rows(batch) for name in self._classes(row.id, row.triples)
        )
        yield pa.RecordBatch.from_pydict({"name": list(counts), "count": list(counts.values())}, schema=CLASS_COUNTS)

    def _classes(self, event: str, triples: Sequence[Triple]) -> tuple[str, ...]:
        subject = iri(event)
        classes = (o for s, p, o in self._reasoner.close(triples) if s == subject and p == TYPE)
        return most_specific(self.hierarchy, classes)

    @cached_property
    def _reasoner(self) -> Reasoner:
        return Reasoner(self.ontology, Entailment(entailment_of(frozenset(self.ontology))))
