"""Grouped quads to events: blank nodes named, times read, repetitions dropped, what cannot be taken set aside.

The columns stay columns: Python touches single quads only in events with blank nodes or problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.assemble import Grouped, Spoiled, quad_bytes, too_large
from motet.codec.blank_nodes import name_blank_nodes
from motet.codec.event_times import NO_TIME, EventTimes, Int64s, event_times
from motet.codec.limits import Source
from motet.codec.rejections import Problem, rejection
from motet.codec.repeated_triples import drop_repeated_triples
from motet.model import terms
from motet.model.errors import DecodeError
from motet.model.schemas import EVENTS, TIME, TRIPLE

BATCH_QUADS = 64 * 1024
BATCH_BYTES = 8 << 20
NO_EVENTS = pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in EVENTS], schema=EVENTS)

Problems = dict[int, list[Problem]]  # by the event's place in its batch


@dataclass(frozen=True)
class Decoded:
    """A batch of events (schema ``EVENTS``) and what was rejected on the way to it."""

    events: pa.RecordBatch
    rejected: list[DecodeError]


def build(grouped: Grouped, source: Source) -> Iterator[Decoded]:
    """The events of grouped quads, in batches of bounded size."""
    present = set()
    for quads, starts in _windows(grouped):
        graphs = quads.column("graph").take(pa.array(starts))
        if grouped.spoiled:
            present |= grouped.spoiled.keys() & set(graphs.to_pylist())
        yield _build_batch(quads, starts, graphs, grouped.spoiled, source)
    without_quads = {graph: grouped.spoiled[graph] for graph in grouped.spoiled if graph not in present}
    rejected = [rejection(source.name, _event_name(graph), problems) for graph, problems in without_quads.items()]
    rejected += [rejection(source.name, problem.event, [problem]) for problem in grouped.loose]
    if rejected:
        yield Decoded(NO_EVENTS, rejected)


def _windows(grouped: Grouped) -> Iterator[tuple[pa.RecordBatch, Int64s]]:
    """Stretches of whole events, each about as large as a batch may be."""
    if not len(grouped.starts):
        return
    share = np.maximum(1 / BATCH_QUADS, quad_bytes(grouped.quads) / BATCH_BYTES)
    window = np.cumsum(np.add.reduceat(share, grouped.starts)).astype(np.int64)
    first_events = np.concatenate([[0], np.flatnonzero(np.diff(window)) + 1, [len(window)]])
    rows = np.append(grouped.starts, grouped.quads.num_rows)
    for first, last in pairwise(first_events):
        yield grouped.quads.slice(rows[first], rows[last] - rows[first]), grouped.starts[first:last] - rows[first]


def _build_batch(
    quads: pa.RecordBatch, starts: Int64s, graphs: pa.StringArray, spoiled: Spoiled, source: Source
) -> Decoded:
    quads, starts = drop_repeated_triples(quads, starts)
    problems: Problems = defaultdict(list)
    _merge(problems, _spoiled_events(graphs, spoiled))
    _merge(problems, _unnameable(graphs))
    _merge(problems, _oversized(quads, starts, source.limits.max_event_bytes))
    named, unlabelled = name_blank_nodes(quads, starts, max_work=source.limits.max_blank_node_work)
    _merge(problems, unlabelled)
    times = event_times(named, starts, source.time_properties)
    _merge(problems, times.problems)
    events = _to_events(named, starts, graphs, times)
    if not problems:
        return Decoded(events, [])
    good = np.ones(len(starts), np.bool_)
    good[list(problems)] = False
    ends = np.append(starts[1:], quads.num_rows)
    rejected = [
        rejection(source.name, _event_name(graphs[i].as_py()), problems[i], quads.slice(starts[i], ends[i] - starts[i]))
        for i in sorted(problems)
    ]
    return Decoded(events.filter(pa.array(good)), rejected)


def _merge(problems: Problems, more: Mapping[int, list[Problem]]) -> None:
    for event, found in more.items():
        problems[event] += found


def _spoiled_events(graphs: pa.StringArray, spoiled: Spoiled) -> Problems:
    if not spoiled:
        return {}
    found = pc.is_in(graphs, value_set=pa.array(list(spoiled), pa.string())).to_numpy(zero_copy_only=False)
    return {int(event): spoiled[graphs[int(event)].as_py()] for event in np.flatnonzero(found)}


def _unnameable(graphs: pa.StringArray) -> Problems:
    blank = pc.starts_with(graphs, "_:").to_numpy(zero_copy_only=False)
    problem = Problem(
        "its graph is named by a blank node", advice="name the graph with an IRI: it is the event's identity"
    )
    return {int(event): [problem] for event in np.flatnonzero(blank)}


def _oversized(quads: pa.RecordBatch, starts: Int64s, limit: int) -> Problems:
    sizes = np.add.reduceat(quad_bytes(quads), starts)
    return {int(event): [too_large(limit)] for event in np.flatnonzero(sizes > limit)}


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
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENTS)


def _timestamps(micros: Int64s) -> pa.TimestampArray:
    return pa.array(micros, pa.int64(), mask=micros == NO_TIME).cast(TIME)


def _event_name(graph: str) -> str | None:
    return terms.iri_value(graph) if terms.is_iri(graph) else None
