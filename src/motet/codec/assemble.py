"""Which quads make one event: those of one graph, brought together from a whole source or from runs of a stream.

A small source is regrouped whole, wherever its quads stand. In a stream an event's quads must stand together; a graph
that comes back after its run ended is set aside. Nothing here looks at what the triples say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.event_times import Int64s
from motet.codec.graph_hashes import GraphHashes
from motet.codec.rejections import CONTENT_BYTES, Problem, cut, nquads_lines
from motet.model import terms
from motet.model.schemas import QUADS

if TYPE_CHECKING:
    from motet.codec.nquads import BadLine

Spoiled = dict[str, list[Problem]]  # by graph term
NO_QUADS = pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in QUADS], schema=QUADS)


class Grouped(NamedTuple):
    """Quads of whole events, the graphs that must not pass, and problems that belong to no event."""

    quads: pa.RecordBatch
    starts: Int64s  # row of each event's first quad
    spoiled: Spoiled
    loose: list[Problem]


def group_whole(batches: Sequence[pa.RecordBatch], bad_lines: Iterable[BadLine]) -> Grouped:
    """All events of a source, in the order of their first quads."""
    quads = _concat(batches)
    spoiled, loose = _blame(quads, bad_lines)
    quads, outside = _without_default_graph(quads)
    quads, starts = _bring_together(quads)
    return Grouped(quads, starts, spoiled, loose + outside)


class RunAssembler:
    """Events of a stream too large to hold: the last run is kept back until something else follows it."""

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._open = NO_QUADS
        self._pending: list[BadLine] = []  # what follows them has not been seen
        self._spoiled: Spoiled = {}
        self._closed = GraphHashes()

    def feed(self, batch: pa.RecordBatch, bad_lines: Sequence[BadLine]) -> Grouped:
        """The events that this batch completes."""
        batch, outside = _without_default_graph(batch)
        quads = _concat([self._open, batch])
        if not quads.num_rows:
            self._pending += bad_lines
            return Grouped(quads, run_starts(quads), {}, outside)
        last_line = quads.column("line")[-1].as_py()
        bad = [*self._pending, *bad_lines]
        self._pending = [line for line in bad if line.line > last_line]
        loose = self._blame(quads, (line for line in bad if line.line < last_line))
        starts = run_starts(quads)
        self._hold_back(quads.slice(starts[-1]))
        grouped = self._release(quads.slice(0, starts[-1]), starts[:-1], quads.column("graph")[-1].as_py())
        return grouped._replace(loose=outside + loose + grouped.loose)

    def finish(self) -> Grouped:
        """The events still open at the end of the stream."""
        loose = self._blame(self._open, self._pending)
        grouped = self._release(self._open, run_starts(self._open), None)
        return grouped._replace(loose=loose + grouped.loose)

    def spoil_open(self, problem: Problem) -> None:
        """Set the event aside whose quads may go on where the stream broke off."""
        if self._open.num_rows:
            self._spoiled.setdefault(self._open.column("graph")[0].as_py(), []).append(problem)

    def _blame(self, quads: pa.RecordBatch, bad_lines: Iterable[BadLine]) -> list[Problem]:
        spoiled, loose = _blame(quads, bad_lines)
        for graph, problems in spoiled.items():
            self._spoiled.setdefault(graph, []).extend(problems)
        return loose

    def _hold_back(self, run: pa.RecordBatch) -> None:
        """Keep an unfinished event, or of one that grew too large only what will be shown of it."""
        self._open = run
        if int(quad_bytes(run).sum()) > self._max_event_bytes:
            problems = self._spoiled.setdefault(run.column("graph")[0].as_py(), [])
            problems += [] if too_large(self._max_event_bytes) in problems else [too_large(self._max_event_bytes)]
            self._open = run.slice(0, int(np.searchsorted(quad_bytes(run).cumsum(), CONTENT_BYTES)) + 1)

    def _release(self, quads: pa.RecordBatch, starts: Int64s, held: str | None) -> Grouped:
        graphs = quads.column("graph").take(pa.array(starts))
        spoiled = {graph: problems for graph, problems in self._spoiled.items() if graph != held}
        self._spoiled = {graph: problems for graph, problems in self._spoiled.items() if graph == held}
        back = self._closed.add(graphs)
        if spoiled:  # graphs of which only bad lines were seen are closed as well
            self._closed.add(pa.array(sorted(spoiled.keys() - set(graphs.to_pylist())), pa.string()))
        loose = [_come_back(quads, starts, int(event)) for event in np.flatnonzero(back)]
        if loose:
            lengths = np.diff(np.append(starts, quads.num_rows))
            quads = quads.filter(pa.array(np.repeat(~back, lengths)))
            starts = _starts_of(lengths[~back])
        return Grouped(quads, starts, spoiled, loose)


def run_starts(quads: pa.RecordBatch) -> Int64s:
    """The rows where the graph differs from the row before."""
    if not quads.num_rows:
        return np.zeros(0, np.int64)
    graph = quads.column("graph")
    changes = pc.not_equal(graph[1:], graph[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def quad_bytes(quads: pa.RecordBatch) -> Int64s:
    """How long each quad is as an N-Quads line."""
    lengths = [pc.binary_length(quads.column(i)).to_numpy(zero_copy_only=False).astype(np.int64) for i in range(4)]
    return np.sum(lengths, axis=0) + 6  # four spaces, the dot and the newline


def too_large(limit: int) -> Problem:
    return Problem(f"the event is larger than {limit} bytes", advice="publish it in several events")


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows]
    if len(filled) < 2:
        return filled[0] if filled else NO_QUADS
    return pa.concat_batches(filled)


def _starts_of(lengths: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) if len(lengths) else lengths


def _bring_together(quads: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    starts = run_starts(quads)
    runs = quads.column("graph").take(pa.array(starts)).dictionary_encode()
    if len(runs.dictionary) == len(starts):
        return quads, starts
    # A dictionary numbers its values in the order they first appear: the order events are emitted in.
    event = np.repeat(runs.indices.to_numpy(), np.diff(np.append(starts, quads.num_rows)))
    quads = quads.take(pa.array(np.argsort(event, kind="stable")))
    return quads, _starts_of(np.bincount(event))


def _without_default_graph(quads: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Problem]]:
    graph = quads.column("graph")
    if not graph.null_count:
        return quads, []
    outside = quads.filter(graph.is_null())
    line, count = outside.column("line")[0].as_py(), outside.num_rows
    content = cut("\n".join(nquads_lines(outside.slice(0, CONTENT_BYTES // 8))))
    advice = "write the event's graph as the fourth term of each line"
    if count == quads.num_rows:
        advice += ", or name the file .nt (application/n-triples), where the whole file is one event"
    reason = f"{count} triple{'s' if count > 1 else ''} outside any graph, so of no event"
    return quads.filter(graph.is_valid()), [Problem(reason, advice=advice, line=line, content=content)]


def _blame(quads: pa.RecordBatch, bad_lines: Iterable[BadLine]) -> tuple[Spoiled, list[Problem]]:
    """The events that bad lines spoil; a line whose graph cannot be told spoils both of its neighbours."""
    spoiled: Spoiled = defaultdict(list)
    loose: list[Problem] = []
    lines = quads.column("line").to_numpy()
    for bad in bad_lines:
        advice = "mend the line and publish the event again"
        problem = Problem(f"not N-Quads: {bad.reason}", advice, bad.line, bad.column, bad.content)
        owners = [terms.iri(bad.graph)] if bad.graph else _neighbours(quads, lines, bad.line)
        for graph in owners:
            spoiled[graph].append(problem)
        if not owners:
            loose.append(problem)
    return dict(spoiled), loose


def _neighbours(quads: pa.RecordBatch, lines: npt.NDArray[np.int64], line: int) -> list[str]:
    after = int(np.searchsorted(lines, line))
    around = [quads.column("graph")[row].as_py() for row in (after - 1, after) if 0 <= row < len(lines)]
    return list(dict.fromkeys(graph for graph in around if graph is not None))


def _come_back(quads: pa.RecordBatch, starts: Int64s, event: int) -> Problem:
    end = starts[event + 1] if event + 1 < len(starts) else quads.num_rows
    run = quads.slice(starts[event], end - starts[event])
    graph = run.column("graph")[0].as_py()
    return Problem(
        "it comes back after other events; these later quads of it are set aside",
        advice="in a source this large an event's quads must stand together: sort the file by graph",
        line=run.column("line")[0].as_py(),
        content=cut("\n".join(nquads_lines(run.slice(0, CONTENT_BYTES // 8)))),
        event=terms.iri_value(graph) if terms.is_iri(graph) else None,
    )
