"""Rows behind the shuffle as records for a kernel, and its notifications as rows of matches. Arrow in, Arrow out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from motet.engine.runtime.processor import Processor
from motet.language.printer import to_text
from motet.model.batches import RECORDS, TRIPLE, event_records, tick_record
from motet.model.batches import TIME as TIME_TYPE
from motet.model.errors import EngineError
from motet.model.terms import RDF_TYPE, iri
from motet.model.times import END_OF_TIME
from motet.spark.encoding import list_offsets
from motet.spark.frames.query import ROW, FrameQuery, column_iri
from motet.spark.frames.rows import BUCKET, END, ID, START, TIME
from motet.spark.frames.values import NULL, terms, value
from motet.spark.stream.state_store import CachedProcessor, StateHeader, StateStore, cache, take_cached

if TYPE_CHECKING:
    import pandas as pd

MATCHED = pa.schema(
    [
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),  # microseconds, as the end
        pa.field("end", pa.int64(), nullable=False),
        pa.field("events", pa.list_(pa.string()), nullable=False),  # ids
        pa.field("values", pa.list_(pa.string()), nullable=False),  # of the question's variables, as texts
    ]
)

_PLAIN_ROW = f"^<{ROW}[^%+]*>$"


@dataclass(frozen=True)
class TaskSpec:
    """All that tasks have to know. Picklable."""

    query: FrameQuery
    datatypes: tuple[str, ...]  # of the question's columns

    @property
    def text(self) -> str:
        """The question in words: equal ones mean the same."""
        columns = map(" ".join, zip(self.query.columns, self.datatypes, strict=True))
        return "\n".join([*map(to_text, self.query.subscriptions), *columns])

    def kernel(self, lateness: int | None) -> Processor:
        """One that has read nothing."""
        kernel = Processor(lateness=lateness)
        kernel.activate(self.query.subscriptions)
        return kernel

    def records(self, rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        """Rows as events, from an offset on."""
        times = [rows.column(name).cast(TIME_TYPE) for name in ("start", "end")]
        lines = pa.nulls(len(rows), pa.int64())
        columns = [rows.column("id"), *times, self._triples(rows), lines]
        return event_records(pa.RecordBatch.from_arrays(columns, ["id", "start", "end", "triples", "line"]), offset)

    def matches(self, told: pa.RecordBatch) -> pa.RecordBatch:
        """NOTIFICATIONS as rows of MATCHED."""
        columns = [
            told.column("subscription"),
            *(told.column(name).cast(pa.int64()) for name in ("start", "end")),
            self._ids(told.column("events")),
            self._values(told.column("bindings")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=MATCHED)

    def _triples(self, rows: pa.RecordBatch) -> pa.ListArray:
        """For each row its roles, and its values that are not null."""
        slots = [*self._roles(rows), *self._properties(rows)]
        valid = np.stack([np.asarray(objects.is_valid()) for _, objects in slots])
        row, slot = np.nonzero(valid.T)
        places = pa.array(slot * len(rows) + row)
        predicates = pa.array([predicate for predicate, _ in slots], pa.string()).take(pa.array(slot))
        objects = pa.concat_arrays([objects for _, objects in slots]).take(places)
        subjects = pc.binary_join_element_wise("<", rows.column("id"), ">", "").take(pa.array(row))
        offsets = np.concatenate([[0], np.cumsum(valid.sum(axis=0))])
        triples = pa.StructArray.from_arrays([subjects, predicates, objects], fields=list(TRIPLE))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), triples, type=RECORDS.field("triples").type)

    def _roles(self, rows: pa.RecordBatch) -> Sequence[tuple[str, pa.Array]]:
        nothing = pa.scalar(None, pa.string())
        return [
            (RDF_TYPE, pc.if_else(rows.column(f"role{number}"), iri(role.class_iri), nothing))
            for number, role in enumerate(self.query.roles)
        ]

    def _properties(self, rows: pa.RecordBatch) -> Sequence[tuple[str, pa.Array]]:
        found = []
        for number, (name, datatype) in enumerate(zip(self.query.columns, self.datatypes, strict=True)):
            objects = terms(rows.column(f"text{number}"), datatype)
            if name in self.query.filled and objects.null_count:
                objects = pc.coalesce(objects, terms(rows.column("id"), NULL))
            found.append((iri(column_iri(name)), objects))
        return found

    def _ids(self, events: pa.ListArray) -> pa.ListArray:
        ids = _each(pc.binary_join_element_wise("<", events.flatten(), ">", ""))
        return pa.ListArray.from_arrays(list_offsets(pc.list_value_length(events)), ids)

    def _values(self, bindings: pa.ListArray) -> pa.ListArray:
        """The values of all variables of the question, for each match."""
        shown = pa.array([one.name for one in self.query.output], pa.string())
        pairs = bindings.flatten()
        row = np.repeat(np.arange(len(bindings)), np.asarray(pc.list_value_length(bindings)))
        place = np.asarray(pc.index_in(pairs.field("variable"), value_set=shown))
        found = np.full(len(bindings) * len(shown), -1)
        found[row * len(shown) + place] = np.arange(len(row))
        texts = _each(pairs.field("term")).take(pa.array(found, mask=found < 0))
        return pa.ListArray.from_arrays(list_offsets(np.full(len(bindings), len(shown))), texts)


def _each(terms_: pa.Array) -> pa.Array:
    """The texts behind terms. Most are rows with plain ids; of the others each distinct one is looked at once."""
    others = pc.invert(pc.match_substring_regex(terms_, _PLAIN_ROW))
    cut = pc.utf8_slice_codeunits(terms_, len(f"<{ROW}"), -1)
    encoded = terms_.filter(others).dictionary_encode()
    texts = pa.array(map(value, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)
    return pc.replace_with_mask(cut, others, texts)


Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class DetectSorted:
    """Rows of buckets, one after the other, each by time, to rows of MATCHED."""

    work: TaskSpec

    def __call__(self, batches: Batches) -> Batches:
        parts = (part for rows in batches for part in _bucket_slices(rows))
        for _, bucket in groupby(parts, key=lambda part: part.column(BUCKET)[0].as_py()):
            kernel, offset = self.work.kernel(lateness=0), 0
            for part in bucket:
                yield self.work.matches(kernel.advance(self.work.records(part, offset)))
                offset += len(part)
            yield self.work.matches(kernel.advance(tick_record(END_OF_TIME, offset)))


def detect_sorted(rows: DataFrame, work: TaskSpec, buckets: int) -> DataFrame:
    """What rows mean, in rows of MATCHED."""
    placed = rows.drop(TIME).repartitionById(buckets, BUCKET)
    sorted_ = placed.sortWithinPartitions(BUCKET, END, START, ID)
    return sorted_.mapInArrow(DetectSorted(work), from_arrow_schema(MATCHED))


def _bucket_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of one bucket at a time."""
    numbers = np.asarray(rows.column(BUCKET))
    cuts = (np.flatnonzero(np.diff(numbers)) + 1).tolist()
    for begin, end in pairwise([0, *cuts, len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


MILLISECOND = 1000  # microseconds


class DetectArriving(StatefulProcessor):
    """Rows of buckets, as they come, to rows of MATCHED."""

    def __init__(self, work: TaskSpec, buckets: int) -> None:
        self._work = work
        self._asked = blake2b(f"{work.text}\n{buckets}".encode(), digest_size=8).hexdigest()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._keeping = StateStore(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        batches = [pa.RecordBatch.from_pandas(frame, preserve_index=False) for frame in rows]
        yield from self._advanced(int(key[0]), batches, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        yield from self._advanced(int(key[0]), [], timerValues.getCurrentWatermarkInMs())

    def _advanced(self, bucket: int, batches: list[pa.RecordBatch], watermark: int) -> Iterator[pd.DataFrame]:
        running = self._current(bucket)
        kernel, offset = running.kernel, running.header.processed_to
        for rows in batches:
            yield from self._told(kernel.advance(self._work.records(rows, offset)))
            offset += len(rows)
        yield from self._told(kernel.advance(tick_record(watermark * MILLISECOND, offset)))
        cache((self._asked, bucket), self._keeping.persist(running, offset + 1, f"{self._asked} {uuid4().hex}"))
        if not kernel.is_idle:
            self._handle.registerTimer(watermark + 1)

    def _told(self, notifications: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if len(notifications):
            yield self._work.matches(notifications).to_pandas()

    def _current(self, bucket: int) -> CachedProcessor:
        """The bucket's kernel as the state says. Every state has a mark of its own, so that none is mistaken."""
        place = self._keeping.header()
        if not place.base_bytes:
            kernel = self._work.kernel(lateness=None)
            return CachedProcessor(place, kernel, kernel.snapshot())
        if place.mark.split()[0] != self._asked:
            raise EngineError(
                "the checkpoint of this query belongs to another pattern, other columns or other buckets",
                advice="start the changed query with a new checkpointLocation",
            )
        running = take_cached((self._asked, bucket))
        return running if running and running.header == place else self._loaded(place)

    def _loaded(self, place: StateHeader) -> CachedProcessor:
        saved = self._keeping.saved(place)
        return CachedProcessor(place, Processor.restore(saved), saved)


def detect_arriving(rows: DataFrame, work: TaskSpec, buckets: int) -> DataFrame:
    """What rows mean, in rows of MATCHED; their time has a watermark."""
    processor = DetectArriving(work, buckets)
    return rows.groupBy(BUCKET).transformWithStateInPandas(processor, from_arrow_schema(MATCHED), "Append", "EventTime")
