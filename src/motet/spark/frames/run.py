"""The tasks of a pattern over a DataFrame: rows to events, a processor per bucket, notifications to rows of matches.

In batch each bucket is sorted by time and read once, then time ends: no row is late, and the processor prunes its state
however long the table is. In a stream the state of each bucket's processor is that of the query, and its frontier is
Spark's watermark: Spark drops late rows, the watermark of a batch follows its rows, and a bucket with pending state has
a timer for the next watermark.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain, groupby, pairwise
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
from motet.language.scope import has_no
from motet.model.batches import RECORDS, TRIPLE, Records, event_records, micros, tick_record
from motet.model.batches import TIME as TIME_TYPE
from motet.model.errors import DecodeError, EngineError
from motet.model.terms import RDF_TYPE, iri
from motet.model.times import END_OF_TIME
from motet.model.xml_document import encode_document, parse_xml
from motet.spark.encoding import Batches, list_offsets
from motet.spark.frames.query import ROW, FrameQuery, column_iri
from motet.spark.frames.rows import BUCKET, DOCUMENT, END, ID, NULL, START, TIME, role_name, terms, text_name, value
from motet.spark.stream.state_store import CachedProcessor, StateHeader, StateStore, cache, take_cached

if TYPE_CHECKING:
    import pandas as pd

MATCHES = pa.schema(
    [
        pa.field("subscription", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),  # microseconds, as the end
        pa.field("end", pa.int64(), nullable=False),
        pa.field("events", pa.list_(pa.string()), nullable=False),  # ids
        pa.field("values", pa.list_(pa.string()), nullable=False),  # of the output variables, as texts
    ]
)
MILLISECOND = 1000  # microseconds
_LOGGER = logging.getLogger(__name__)

_UNESCAPED_ROW = f"^<{ROW}[^%+]*>$"


@dataclass(frozen=True)
class TaskSpec:
    """What the tasks of a query need. Picklable."""

    query: FrameQuery
    datatypes: tuple[str, ...]  # of the query's columns
    beginning: int | None = None  # of NO; None: the least time of the rows

    @property
    def text(self) -> str:
        """The query as text: equal texts have equal results."""
        columns = map(" ".join, zip(self.query.columns, self.datatypes, strict=True))
        return "\n".join([*map(to_text, self.query.subscriptions), *columns, str(self.beginning or "")])

    def processor(self, bucket: int, beginning: int | None = None) -> Processor:
        """A processor in its initial state; ``beginning`` is the least time of the rows.

        Patterns with NO are in the first bucket only: an absence in another one would say nothing.
        """
        processor = Processor()
        subscriptions = [each for each in self.query.subscriptions if not bucket or not has_no(each.pattern)]
        processor.activate(subscriptions, beginning if self.beginning is None else self.beginning)
        return processor

    def records(self, rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        """Rows as event records from an offset on."""
        times = [rows.column(name).cast(TIME_TYPE) for name in ("start", "end")]
        lines = pa.nulls(len(rows), pa.int64())
        columns = [rows.column("id"), *times, self._triples(rows), lines]
        names = ["id", "start", "end", "triples", "line"]
        if self.query.has_blocks:
            columns, names = [*columns, _documents(rows.column(DOCUMENT))], [*names, "payload"]
        return event_records(pa.RecordBatch.from_arrays(columns, names), offset)

    def matches(self, notifications: pa.RecordBatch) -> pa.RecordBatch:
        """NOTIFICATIONS as rows of MATCHES."""
        columns = [
            notifications.column("subscription"),
            *(notifications.column(name).cast(pa.int64()) for name in ("start", "end")),
            self._ids(notifications.column("events")),
            self._values(notifications.column("bindings")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=MATCHES)

    def _triples(self, rows: pa.RecordBatch) -> pa.ListArray:
        """The triples of each row: its roles, and its values that are not null."""
        properties = [*self._roles(rows), *self._properties(rows)]
        is_valid = np.stack([np.asarray(objects.is_valid()) for _, objects in properties])
        row, property_ = np.nonzero(is_valid.T)
        cells = pa.array(property_ * len(rows) + row)
        predicates = pa.array([predicate for predicate, _ in properties], pa.string()).take(pa.array(property_))
        objects = pa.concat_arrays([objects for _, objects in properties]).take(cells)
        subjects = pc.binary_join_element_wise("<", rows.column("id"), ">", "").take(pa.array(row))
        triples = pa.StructArray.from_arrays([subjects, predicates, objects], fields=list(TRIPLE))
        return pa.ListArray.from_arrays(list_offsets(is_valid.sum(axis=0)), triples, type=RECORDS.field("triples").type)

    def _roles(self, rows: pa.RecordBatch) -> Sequence[tuple[str, pa.Array]]:
        null = pa.scalar(None, pa.string())
        return [
            (RDF_TYPE, pc.if_else(rows.column(role_name(index)), iri(role.class_iri), null))
            for index, role in enumerate(self.query.roles)
        ]

    def _properties(self, rows: pa.RecordBatch) -> Sequence[tuple[str, pa.Array]]:
        properties = []
        for index, (name, datatype) in enumerate(zip(self.query.columns, self.datatypes, strict=True)):
            objects = terms(rows.column(text_name(index)).cast(pa.string()), datatype)  # pandas: null without values
            if name in self.query.non_null and objects.null_count:
                objects = pc.coalesce(objects, terms(rows.column("id"), NULL))
            properties.append((iri(column_iri(name)), objects))
        return properties

    def _ids(self, events: pa.ListArray) -> pa.ListArray:
        ids = _term_texts(pc.binary_join_element_wise("<", events.flatten(), ">", ""))
        return pa.ListArray.from_arrays(list_offsets(pc.list_value_length(events)), ids)

    def _values(self, bindings: pa.ListArray) -> pa.ListArray:
        """The values of all output variables, for each match."""
        variables = pa.array([variable.name for variable in self.query.output], pa.string())
        pairs = bindings.flatten()
        row = np.repeat(np.arange(len(bindings)), np.asarray(pc.list_value_length(bindings)))
        column = np.asarray(pc.index_in(pairs.field("variable"), value_set=variables))
        pair_indices = np.full(len(bindings) * len(variables), -1)
        pair_indices[row * len(variables) + column] = np.arange(len(row))
        texts = _term_texts(pairs.field("term")).take(pa.array(pair_indices, mask=pair_indices < 0))
        return pa.ListArray.from_arrays(list_offsets(np.full(len(bindings), len(variables))), texts)


def _documents(column: pa.Array) -> pa.Array:
    """The documents of rows; null where one is refused, which is in the log of the task: that row matches no block."""
    documents: list[bytes | None] = []
    refused: list[DecodeError] = []
    for cell in column.to_pylist():
        try:
            data = encode_document(cell) if isinstance(cell, str) else cell
            if data is not None:
                parse_xml(data)
            documents.append(data)
        except DecodeError as error:
            documents.append(None)
            refused.append(error)
    if refused:
        _LOGGER.warning("%d rows have no XML document that is read, the first: %s", len(refused), refused[0])
    return pa.array(documents, pa.binary())


def _term_texts(terms_: pa.Array) -> pa.Array:
    """The texts of terms. Most are rows whose ids have no escapes; each distinct other term is decoded once."""
    needs_decoding = pc.invert(pc.match_substring_regex(terms_, _UNESCAPED_ROW))
    ids = pc.utf8_slice_codeunits(terms_, len(f"<{ROW}"), -1)
    encoded = terms_.filter(needs_decoding).dictionary_encode()
    texts = pa.array(map(value, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)
    return pc.replace_with_mask(ids, needs_decoding, texts)


@dataclass(frozen=True)
class BatchDetect:
    """Rows sorted by bucket and time to rows of MATCHES."""

    spec: TaskSpec

    def __call__(self, batches: Batches) -> Batches:
        slices = (slice_ for rows in batches for slice_ in _bucket_slices(rows))
        for bucket, bucket_slices in groupby(slices, key=lambda slice_: slice_.column(BUCKET)[0].as_py()):
            beginning, first = _least_time(next(bucket_slices))
            yield from detect_sorted(self.spec, bucket, beginning, chain([first], bucket_slices))  # noqa: B031  (once)


def detect_sorted(spec: TaskSpec, bucket: int, beginning: int | None, slices: Iterable[pa.RecordBatch]) -> Batches:
    """Rows of MATCHES for all rows of a bucket, which are sorted by time; NO begins at the instant ``beginning``."""
    processor, offset = spec.processor(bucket, beginning), 0
    for rows in filter(len, slices):
        records = spec.records(rows, offset)
        last_end = micros(records.column("end"))[-1]  # rows are sorted: no later one ends before it
        yield spec.matches(processor.advance(Records(columns=records), last_end).columns)
        offset += len(rows)
    end = Records(columns=tick_record(END_OF_TIME, offset))
    yield spec.matches(processor.advance(end, END_OF_TIME).columns)


def _least_time(rows: pa.RecordBatch) -> tuple[int | None, pa.RecordBatch]:
    """The least time of all rows, if the first row of a bucket has it instead of an event, and the other rows."""
    if rows.column(END)[0].is_valid:
        return None, rows
    return rows.column(START)[0].as_py(), rows.slice(1)


def detect_batch(rows: DataFrame, spec: TaskSpec, buckets: int) -> DataFrame:
    """The matches in the rows of a batch DataFrame, in rows of MATCHES."""
    by_bucket = rows.drop(TIME).repartitionById(buckets, BUCKET)
    sorted_rows = by_bucket.sortWithinPartitions(BUCKET, END, START, ID)
    return sorted_rows.mapInArrow(BatchDetect(spec), from_arrow_schema(MATCHES))


def _bucket_slices(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Slices of rows with equal bucket."""
    buckets = np.asarray(rows.column(BUCKET))
    cuts = (np.flatnonzero(np.diff(buckets)) + 1).tolist()
    for begin, end in pairwise([0, *cuts, len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


def query_hash(spec: TaskSpec, buckets: int) -> str:
    """What the states of one query have in common."""
    return blake2b(f"{spec.text}\n{buckets}".encode(), digest_size=8).hexdigest()


class StreamDetect(StatefulProcessor):
    """Rows of buckets, as they arrive, to rows of MATCHES."""

    def __init__(self, spec: TaskSpec, buckets: int) -> None:
        self._spec = spec
        self._query_hash = query_hash(spec, buckets)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._store = StateStore(handle)

    def handleInputRows(  # noqa: N802  (Spark's name)
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        batches = [pa.RecordBatch.from_pandas(frame, preserve_index=False) for frame in rows]
        yield from self._advance(int(key[0]), batches, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: object,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        yield from self._advance(int(key[0]), [], timerValues.getCurrentWatermarkInMs())

    def _advance(self, bucket: int, batches: list[pa.RecordBatch], watermark: int) -> Iterator[pd.DataFrame]:
        cached = self._current(bucket)
        processor, offset = cached.processor, cached.header.processed_to
        for rows in batches:
            records = Records(columns=self._spec.records(rows, offset))
            yield from self._matches(processor.advance(records, None).columns)
            offset += len(rows)
        instant = watermark * MILLISECOND
        tick = Records(columns=tick_record(instant, offset))
        yield from self._matches(processor.advance(tick, instant).columns)
        mark = f"{self._query_hash} {uuid4().hex}"
        cache((self._query_hash, bucket), self._store.persist(cached, offset + 1, mark))
        if not processor.is_idle:
            self._handle.registerTimer(watermark + 1)

    def _matches(self, notifications: pa.RecordBatch) -> Iterator[pd.DataFrame]:
        if len(notifications):
            yield self._spec.matches(notifications).to_pandas()

    def _current(self, bucket: int) -> CachedProcessor:
        """The bucket's processor at the stored state; each stored state has a unique mark."""
        header = self._store.header()
        if not header.base_bytes:
            processor = self._spec.processor(bucket)
            return CachedProcessor(header, processor, processor.snapshot())
        if header.mark.split()[0] != self._query_hash:
            raise EngineError(
                "the checkpoint of this query belongs to another pattern, other columns or other buckets",
                advice="start the changed query with a new checkpointLocation",
            )
        cached = take_cached((self._query_hash, bucket))
        return cached if cached and cached.header == header else self._restore(header)

    def _restore(self, header: StateHeader) -> CachedProcessor:
        snapshot = self._store.read_snapshot(header)
        return CachedProcessor(header, Processor.restore(snapshot), snapshot)


def detect_stream(rows: DataFrame, spec: TaskSpec, buckets: int) -> DataFrame:
    """The matches in the rows of a streaming DataFrame with a watermark, in rows of MATCHES."""
    processor = StreamDetect(spec, buckets)
    return rows.groupBy(BUCKET).transformWithStateInPandas(processor, from_arrow_schema(MATCHES), "Append", "EventTime")
