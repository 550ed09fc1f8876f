"""Builds events from grouped quads: names blank nodes, reads times, drops repeated triples, rejects bad events.

All steps work on Arrow columns; Python code handles single quads only for events with blank nodes or problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.blank_nodes import name_blank_nodes
from motet.codec.event_times import NO_TIME, EventTimes, Int64s, event_times
from motet.codec.grouping import GroupedQuads, RejectedGraphs, quad_bytes, too_large_problem
from motet.codec.identity import DERIVED, MINTED_IRI, RESERVED
from motet.codec.options import DecodeOptions
from motet.codec.rejections import Problem, conflict_problem, rejection, truncate
from motet.model import terms
from motet.model.batches import EVENTS, TIME, TRIPLE, content_digests, event_rows
from motet.model.errors import DecodeError

BATCH_QUADS = 64 * 1024
BATCH_BYTES = 8 << 20
NO_EVENTS = pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in EVENTS], schema=EVENTS)

Problems = dict[int, list[Problem]]  # by the event's index in its batch


@dataclass(frozen=True)
class Decoded:
    """A batch of events (schema ``EVENTS``), the errors of rejected ones, and counts of what is left out."""

    events: pa.RecordBatch
    rejected: list[DecodeError]
    repeated: int = 0  # events that the input has twice, with equal content
    dropped: int = 0  # triples that belong to no event, with rest=drop
    derived: int = 0  # graphs of derived events, which are derived again

    @property
    def has_counts(self) -> bool:
        """Whether anything is left out."""
        return bool(self.repeated or self.dropped or self.derived)


def join_batches(batches: Sequence[Decoded]) -> Decoded:
    """Several results as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches([decoded.events for decoded in batches], EVENTS)
    (events,) = table.combine_chunks().to_batches() if table.num_rows else (NO_EVENTS,)
    rejected = [error for decoded in batches for error in decoded.rejected]
    counts = {name: sum(getattr(decoded, name) for decoded in batches) for name in COUNTS}
    return Decoded(events, rejected, **counts)


COUNTS = ("repeated", "dropped", "derived")  # of Decoded


class UniqueEvents:
    """The first event of each IRI in one input: repetitions are counted, conflicts are rejected."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}

    def filter(self, decoded: Decoded, source: str) -> Decoded:
        """The events with new IRIs; ``source`` is the name of the input in errors."""
        ids = decoded.events.column("id").to_pylist()
        digests = content_digests(decoded.events)
        first = [self._digests.setdefault(id_, digest) is digest for id_, digest in zip(ids, digests, strict=True)]
        if all(first):
            return decoded
        others = [row for row, is_first in enumerate(first) if not is_first]
        conflicts = [row for row in others if self._digests[ids[row]] != digests[row]]
        rejected = [self._conflict(decoded.events.slice(row, 1), source) for row in conflicts]
        return replace(
            decoded,
            events=decoded.events.filter(pa.array(first, pa.bool_())),
            rejected=[*decoded.rejected, *rejected],
            repeated=decoded.repeated + len(others) - len(conflicts),
        )

    @property
    def count(self) -> int:
        """The number of events so far."""
        return len(self._digests)

    def _conflict(self, event: pa.RecordBatch, source: str) -> DecodeError:
        [(id_, _, _, triples, payload)] = event_rows(event)
        lines = "\n".join(f"{s} {p} {o} {terms.iri(id_)} ." for s, p, o in triples)
        text = lines if payload is None else payload.decode("utf-8", "replace")
        problem = conflict_problem(event.column("line")[0].as_py())
        return rejection(source, id_, [replace(problem, content=truncate(text))])


OnRejected = Callable[[Sequence[DecodeError]], object]  # reports rejected events, or writes dead letters


def build_events(grouped: GroupedQuads, options: DecodeOptions) -> Iterator[Decoded]:
    """The events of grouped quads, in batches of bounded size."""
    graphs_with_quads = set()
    for quads, starts in _slices(grouped):
        graphs = quads.column("graph").take(pa.array(starts))
        if grouped.rejected:
            graphs_with_quads |= grouped.rejected.keys() & set(graphs.to_pylist())
        yield _build_batch(quads, starts, graphs, grouped.rejected, options)
    without_quads = {graph: grouped.rejected[graph] for graph in grouped.rejected if graph not in graphs_with_quads}
    rejected = [rejection(options.name, _event_name(graph), problems) for graph, problems in without_quads.items()]
    rejected += [rejection(options.name, problem.event, [problem]) for problem in grouped.unattributed]
    if rejected:
        yield Decoded(NO_EVENTS, rejected)


def _slices(grouped: GroupedQuads) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    """Split grouped quads between events into slices of about the size of a batch."""
    if not len(grouped.starts):
        return
    share = np.maximum(1 / BATCH_QUADS, quad_bytes(grouped.quads) / BATCH_BYTES)
    slice_index = np.cumsum(np.add.reduceat(share, grouped.starts)).astype(np.int64)
    first_events = np.concatenate([[0], np.flatnonzero(np.diff(slice_index)) + 1, [len(slice_index)]])
    rows = np.append(grouped.starts, grouped.quads.num_rows)
    for first, last in pairwise(first_events):
        yield grouped.quads.slice(rows[first], rows[last] - rows[first]), grouped.starts[first:last] - rows[first]


def _build_batch(
    quads: pa.RecordBatch, starts: Int64s, graphs: pa.StringArray, rejected: RejectedGraphs, options: DecodeOptions
) -> Decoded:
    quads, starts = drop_repeated_triples(quads, starts)
    problems: Problems = defaultdict(list)
    _merge(problems, _rejected_events(graphs, rejected))
    _merge(problems, _blank_graph_names(graphs))
    reserved = _Reserved(quads, starts, graphs)
    _merge(problems, reserved.problems)
    _merge(problems, _oversized(quads, starts, options.limits.max_event_bytes))
    named, unlabelled = name_blank_nodes(quads, starts, max_work=options.limits.max_blank_node_work)
    _merge(problems, unlabelled)
    times = event_times(named, starts, options.time_properties, is_document=options.id is not None)
    _merge(problems, times.problems)
    events = _to_events(named, starts, graphs, times)
    if not problems and not len(reserved.derived):
        return Decoded(events, [])
    good = np.ones(len(starts), np.bool_)
    good[list(problems)] = False
    good[reserved.derived] = False
    ends = np.append(starts[1:], quads.num_rows)
    errors = [
        rejection(
            options.name, _event_name(graphs[i].as_py()), problems[i], quads.slice(starts[i], ends[i] - starts[i])
        )
        for i in sorted(problems.keys() - set(reserved.derived.tolist()))
    ]
    return Decoded(events.filter(pa.array(good)), errors, derived=len(reserved.derived))


def _merge(problems: Problems, more: Mapping[int, list[Problem]]) -> None:
    for event, event_problems in more.items():
        problems[event] += event_problems


def _rejected_events(graphs: pa.StringArray, rejected: RejectedGraphs) -> Problems:
    if not rejected:
        return {}
    mask = pc.is_in(graphs, value_set=pa.array(list(rejected), pa.string())).to_numpy(zero_copy_only=False)
    return {int(event): rejected[graphs[int(event)].as_py()] for event in np.flatnonzero(mask)}


def _blank_graph_names(graphs: pa.StringArray) -> Problems:
    blank = pc.starts_with(graphs, "_:").to_numpy(zero_copy_only=False)
    advice = "in a source this large, which is read as a stream, name every graph with an IRI"
    problem = Problem("its graph is named by a blank node", advice)
    return {int(event): [problem] for event in np.flatnonzero(blank)}


class _Reserved:
    """The events of a batch with reserved IRIs: those of derived events, and the problems of others."""

    def __init__(self, quads: pa.RecordBatch, starts: Int64s, graphs: pa.StringArray) -> None:
        self.problems: Problems = defaultdict(list)
        self.derived = np.zeros(0, np.int64)
        if _any_starts_with(graphs, RESERVED):
            is_derived = pc.starts_with(graphs, f"<{DERIVED}")
            self.derived = np.flatnonzero(is_derived.to_numpy(zero_copy_only=False))
            is_accepted = pc.or_(is_derived, pc.match_substring_regex(graphs, f"^<{MINTED_IRI}>$"))
            is_reserved = pc.and_not(pc.starts_with(graphs, f"<{RESERVED}"), is_accepted)
            problem = Problem(f"IRIs under {RESERVED} are reserved", "give the event another IRI, or none")
            self.problems |= {int(i): [problem] for i in np.flatnonzero(is_reserved.to_numpy(zero_copy_only=False))}
        predicates = quads.column("predicate")
        if _any_starts_with(predicates, RESERVED):
            rows = np.flatnonzero(pc.starts_with(predicates, f"<{RESERVED}").to_numpy(zero_copy_only=False))
            for row, event in zip(rows, np.searchsorted(starts, rows, side="right") - 1, strict=True):
                reason = f"the predicate {predicates[int(row)]} is under {RESERVED}, which is reserved"
                line = quads.column("line")[int(row)].as_py()
                self.problems.setdefault(int(event), []).append(Problem(reason, "use another predicate", line))


def _any_starts_with(iris: pa.StringArray, prefix: str) -> bool:
    return bool(pc.any(pc.starts_with(iris, f"<{prefix}")).as_py())


def _oversized(quads: pa.RecordBatch, starts: Int64s, limit: int) -> Problems:
    sizes = np.add.reduceat(quad_bytes(quads), starts)
    return {int(event): [too_large_problem(limit)] for event in np.flatnonzero(sizes > limit)}


def _to_events(quads: pa.RecordBatch, starts: Int64s, graphs: pa.StringArray, times: EventTimes) -> pa.RecordBatch:
    fields = [TRIPLE.field(i) for i in range(TRIPLE.num_fields)]
    triples = pa.StructArray.from_arrays([quads.column(field.name) for field in fields], fields=fields)
    offsets = pa.array(np.append(starts, quads.num_rows).astype(np.int32))
    columns = [
        pc.utf8_slice_codeunits(graphs, 1, -1),
        _timestamps(times.start),
        _timestamps(times.end),
        pa.ListArray.from_arrays(offsets, triples, type=EVENTS.field("triples").type),
        quads.column("line").take(pa.array(starts)),
        pa.nulls(len(starts), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def _timestamps(micros: Int64s) -> pa.TimestampArray:
    return pa.array(micros, pa.int64(), mask=micros == NO_TIME).cast(TIME)


def _event_name(graph: str) -> str | None:
    return terms.iri_value(graph) if terms.is_iri(graph) else None


_COLUMNS = ("subject", "predicate", "object")
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)


def drop_repeated_triples(quads: pa.RecordBatch, starts: Int64s) -> tuple[pa.RecordBatch, Int64s]:
    """The quads without the triples that an event states twice, and the new starts of the events.

    Candidates are found by a fingerprint of whole columns; only events with a candidate are compared term by term.
    """
    lengths = np.diff(np.append(starts, quads.num_rows))
    candidates = _repeat_candidates(quads, starts, lengths)
    if not len(candidates):
        return quads, starts
    keep = np.ones(quads.num_rows, np.bool_)
    for event in candidates:
        event_quads = quads.slice(starts[event], lengths[event])
        distinct: set[tuple[str, ...]] = set()
        for row, triple in enumerate(zip(*(event_quads.column(name).to_pylist() for name in _COLUMNS), strict=True)):
            keep[starts[event] + row] = triple not in distinct
            distinct.add(triple)
    kept = np.add.reduceat(keep, starts, dtype=np.int64)
    return quads.filter(pa.array(keep)), np.concatenate([[0], np.cumsum(kept)[:-1]])


def _repeat_candidates(quads: pa.RecordBatch, starts: Int64s, lengths: Int64s) -> Int64s:
    """Events with two triples of the same fingerprint."""
    event = np.repeat(np.arange(len(starts), dtype=np.uint64), lengths)
    key = event * _MIX[3]
    for name in _COLUMNS:
        key = (key ^ _fingerprint(quads.column(name))) * _MIX[0]
        key ^= key >> np.uint64(29)
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if not len(repeated):
        return np.zeros(0, np.int64)
    return np.unique(event[np.isin(key, repeated)]).astype(np.int64)


def _fingerprint(strings: pa.StringArray) -> npt.NDArray[np.uint64]:
    """A hash of the length, the first eight and the last eight bytes of each string."""
    _, offsets_buffer, data_buffer = strings.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[strings.offset : strings.offset + len(strings) + 1]
    first_byte, last_byte = int(offsets[0]), int(offsets[-1])
    data = np.zeros(8 + last_byte - first_byte, np.uint8)  # eight zero bytes in front, so that words end at all bytes
    data[8:] = np.frombuffer(data_buffer, np.uint8)[first_byte:last_byte]
    words = np.ndarray(len(data) - 7, np.dtype("<u8"), data, strides=(1,))
    bounds = offsets.astype(np.int64) - first_byte + 8
    lengths = np.diff(bounds).astype(np.uint64)
    foreign_bits = np.uint64(8) * (np.uint64(8) - np.minimum(lengths, np.uint64(8)))
    last = words[bounds[1:] - 8] >> foreign_bits
    first = np.where(lengths >= np.uint64(8), words[np.minimum(bounds[:-1], len(words) - 1)], np.uint64(0))
    return (lengths * _MIX[0]) ^ (first * _MIX[1]) ^ (last * _MIX[2])
