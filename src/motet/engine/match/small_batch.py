"""Matches a small batch of events as Python values, because columns would cost more than the search.

The index and its kernels are the same as for columns; a test compares both. Batches that need the verifier are left to
the columnar path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from motet.engine.match.encode import SLOW, EncodedEvents, fill_slow_values
from motet.engine.match.encode_kernels import EncodingTables, encode_rows
from motet.engine.match.index import IndexSegment
from motet.engine.match.search_kernels import IS_OPEN, KIND
from motet.engine.match.solutions import SolutionArrays, solution_arrays
from motet.engine.match.string_column import StringColumn
from motet.engine.match.verifier import instant
from motet.model.batches import RecordRow
from motet.model.terms import iri

MAX_HITS = 32


class SmallMatches(NamedTuple):
    """The solutions of a segment's leaves on a few events."""

    segment: IndexSegment
    solutions: SolutionArrays
    objects: Sequence[str]

    def term(self, index: int, records: Sequence[RecordRow]) -> str:
        """The term of an index, which counts objects, then events, starts and ends."""
        if index < len(self.objects):
            return self.objects[index]
        column, event = divmod(index - len(self.objects), len(records))
        record = records[event]
        return iri(record.id or "") if column == 0 else instant((record.start if column == 1 else record.end) or 0)


def solve_small(
    records: Sequence[RecordRow],
    segments: Sequence[IndexSegment],
    tables: EncodingTables,
    predicates: Mapping[str, int],
) -> list[SmallMatches] | None:
    """The solutions on stamped events; None when columns are needed.

    Only without classes in the encoding tables, since their terms are not among those of the events.
    """
    encoded = encode_small(records, tables)
    matches: list[SmallMatches] = []
    for segment in segments:
        hits = segment.arrays.search(encoded)
        if not len(hits.table):
            continue
        if len(hits.table) > MAX_HITS or not segment.is_index_decided or any(hits.table[:, IS_OPEN].tolist()):
            return None
        decided = solution_arrays(encoded, hits, segment.leaves, predicates)
        matches.append(SmallMatches(segment, decided, encoded.terms))
    return matches


def encode_small(records: Sequence[RecordRow], tables: EncodingTables) -> EncodedEvents:
    """As `encode`; the terms are a list."""
    triples = [triple for record in records for triple in record.triples]
    count = len(triples)
    subjects, predicates, objects = zip(*triples, strict=True) if triples else ((), (), ())
    strings = [*subjects, *predicates, *objects, *[record.id or "" for record in records]]
    text = "".join(strings)
    sizes = map(len, strings) if text.isascii() else [len(string.encode()) for string in strings]
    offsets = np.array([0, *accumulate(sizes)], np.int32)
    starts = np.array([0, *accumulate([len(record.triples) for record in records])], np.int64)
    offsets.setflags(write=False)
    starts.setflags(write=False)
    data = np.frombuffer(text.encode(), np.uint8)
    values = StringColumn(offsets[2 * count : 3 * count + 1], data)
    columns = (offsets[3 * count :], data, offsets[: count + 1], data, offsets[count : 2 * count + 1], data, *values)
    begins, row, code, value = encode_rows(starts, *columns, *tables)
    if SLOW in row[:, KIND].tolist():
        fill_slow_values(row, value, objects.__getitem__)
    return EncodedEvents(begins, row, code, value, objects, values)
