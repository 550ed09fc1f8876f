"""A few events matched in Python values: making columns of them, and of what is found, costs more than the search.

The index and its kernels are those for any number of events; a test holds the two ways together. What the index cannot
decide alone is left to the way through columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from motet.engine.match.encode import SLOW, Encoded, settle_slow
from motet.engine.match.encode_kernels import Vocabulary, encode_rows
from motet.engine.match.index import Group
from motet.engine.match.search_kernels import KIND
from motet.engine.match.solutions import Bound, bound
from motet.engine.match.texts import Texts
from motet.engine.match.verify import instant
from motet.model.batches import RecordRow
from motet.model.terms import iri

MOST_HITS = 32


class SmallMatches(NamedTuple):
    """The solutions of a group's leaves on a few events."""

    group: Group
    solutions: Bound
    objects: Sequence[str]

    def term(self, number: int, records: Sequence[RecordRow]) -> str:
        """Terms are numbered: objects, then events, starts and ends."""
        if number < len(self.objects):
            return self.objects[number]
        column, event = divmod(number - len(self.objects), len(records))
        record = records[event]
        return iri(record.id or "") if column == 0 else instant((record.start if column == 1 else record.end) or 0)


def solve_few(
    records: Sequence[RecordRow], groups: Sequence[Group], known: Vocabulary, predicates: Mapping[str, int]
) -> list[SmallMatches] | None:
    """The solutions on stamped events; None when columns are needed.

    Only over a vocabulary without classes, since their terms are not among the events'.
    """
    encoded = encode_few(records, known)
    matches: list[SmallMatches] = []
    for group in groups:
        hits = group.segment.search(encoded)
        if not len(hits.table):
            continue
        if len(hits.table) > MOST_HITS or not group.is_plain or hits.is_open.any():
            return None
        decided = bound(encoded, hits, group.leaves.forms, group.leaves.form, predicates)
        matches.append(SmallMatches(group, decided, encoded.terms))
    return matches


def encode_few(records: Sequence[RecordRow], known: Vocabulary) -> Encoded:
    """As `encode`; the terms are a list."""
    triples = [triple for record in records for triple in record.triples]
    count = len(triples)
    subjects, predicates, objects = zip(*triples, strict=True) if triples else ((), (), ())
    strings = [*subjects, *predicates, *objects, *[record.id or "" for record in records]]
    text = "".join(strings)
    sizes = map(len, strings) if text.isascii() else [len(string.encode()) for string in strings]
    places = np.array([0, *accumulate(sizes)], np.int32)
    starts = np.array([0, *accumulate([len(record.triples) for record in records])], np.int64)
    places.setflags(write=False)
    starts.setflags(write=False)
    data = np.frombuffer(text.encode(), np.uint8)
    values = Texts(places[2 * count : 3 * count + 1], data)
    columns = (places[3 * count :], data, places[: count + 1], data, places[count : 2 * count + 1], data, *values)
    begins, row, code, value = encode_rows(starts, *columns, *known)
    if SLOW in row[:, KIND].tolist():
        settle_slow(row, value, objects.__getitem__)
    return Encoded(begins, row, code, value, objects, values)
