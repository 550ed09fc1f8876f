"""Rows behind the shuffle as records for a kernel, and its notifications as rows of matches. Arrow in, Arrow out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.kernel import Kernel
from motet.language.printer import to_text
from motet.model.schemas import RECORDS, TIME, TRIPLE
from motet.model.tables import event_records
from motet.model.terms import RDF_TYPE, iri
from motet.spark.frames.question import ROW, Question, column_iri
from motet.spark.frames.values import NULL, terms, value

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
class Work:
    """All that tasks have to know. Picklable."""

    question: Question
    datatypes: tuple[str, ...]  # of the question's columns

    @property
    def text(self) -> str:
        """The question in words: equal ones mean the same."""
        columns = map(" ".join, zip(self.question.columns, self.datatypes, strict=True))
        return "\n".join([*map(to_text, self.question.subscriptions), *columns])

    def kernel(self, lateness: int | None) -> Kernel:
        """One that has read nothing."""
        kernel = Kernel(lateness=lateness)
        kernel.begin(self.question.subscriptions)
        return kernel

    def records(self, rows: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        """Rows as events, from an offset on."""
        times = [rows.column(name).cast(TIME) for name in ("start", "end")]
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
            for number, role in enumerate(self.question.roles)
        ]

    def _properties(self, rows: pa.RecordBatch) -> Sequence[tuple[str, pa.Array]]:
        found = []
        for number, (name, datatype) in enumerate(zip(self.question.columns, self.datatypes, strict=True)):
            objects = terms(rows.column(f"text{number}"), datatype)
            if name in self.question.filled and objects.null_count:
                objects = pc.coalesce(objects, terms(rows.column("id"), NULL))
            found.append((iri(column_iri(name)), objects))
        return found

    def _ids(self, events: pa.ListArray) -> pa.ListArray:
        ids = _each(pc.binary_join_element_wise("<", events.flatten(), ">", ""))
        return pa.ListArray.from_arrays(_offsets(pc.list_value_length(events)), ids)

    def _values(self, bindings: pa.ListArray) -> pa.ListArray:
        """The values of all variables of the question, for each match."""
        shown = pa.array([one.name for one in self.question.shown], pa.string())
        pairs = bindings.flatten()
        row = np.repeat(np.arange(len(bindings)), np.asarray(pc.list_value_length(bindings)))
        place = np.asarray(pc.index_in(pairs.field("variable"), value_set=shown))
        found = np.full(len(bindings) * len(shown), -1)
        found[row * len(shown) + place] = np.arange(len(row))
        texts = _each(pairs.field("term")).take(pa.array(found, mask=found < 0))
        return pa.ListArray.from_arrays(_offsets(np.full(len(bindings), len(shown))), texts)


def _each(terms_: pa.Array) -> pa.Array:
    """The texts behind terms. Most are rows with plain ids; of the others each distinct one is looked at once."""
    others = pc.invert(pc.match_substring_regex(terms_, _PLAIN_ROW))
    cut = pc.utf8_slice_codeunits(terms_, len(f"<{ROW}"), -1)
    encoded = terms_.filter(others).dictionary_encode()
    texts = pa.array(map(value, encoded.dictionary.to_pylist()), pa.string()).take(encoded.indices)
    return pc.replace_with_mask(cut, others, texts)


def _offsets(lengths: pa.Array | np.ndarray) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(np.asarray(lengths))]), pa.int32())
