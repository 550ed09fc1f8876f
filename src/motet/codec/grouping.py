"""Groups quads by graph into events: all quads of a source at once, or the consecutive quads of a stream.

In a small source the quads of an event may be anywhere. In a stream they must be consecutive; quads of a graph that
ended earlier are rejected. The content of the triples is not examined here.
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
from motet.codec.rejections import CONTENT_BYTES, Problem, nquads_lines, truncate
from motet.model import terms
from motet.model.batches import QUADS

if TYPE_CHECKING:
    from motet.codec.rejections import BadLine

RejectedGraphs = dict[str, list[Problem]]  # by graph term
NOT_CONSECUTIVE = "its quads are not consecutive; those after quads of other events are rejected"
SORT_ADVICE = "in a source this large the quads of an event must be consecutive: sort the file by graph"
GRAPH_ADVICE = "in a source this large write the event's graph as the fourth term of each line"
NO_QUADS = pa.RecordBatch.from_arrays([pa.nulls(0, column.type) for column in QUADS], schema=QUADS)


class GroupedQuads(NamedTuple):
    """Quads of complete events, the graphs to reject, and problems that belong to no event."""

    quads: pa.RecordBatch
    starts: Int64s  # index of each event's first quad
    rejected: RejectedGraphs
    unattributed: list[Problem]


def group_all(batches: Sequence[pa.RecordBatch], bad_lines: Iterable[BadLine]) -> GroupedQuads | None:
    """Group all quads of a source by graph, in the order of their first quads.

    None if a quad is in the default graph, or in one that is named by a blank node: the source is then a document.
    """
    if any(quads.column("graph").null_count for quads in batches):
        return None
    quads = _concat(batches)
    rejected, unattributed = _attribute_bad_lines(quads, bad_lines)
    quads, starts = _sort_by_graph(quads)
    if pc.any(pc.starts_with(quads.column("graph").take(pa.array(starts)), "_:")).as_py():
        return None
    return GroupedQuads(quads, starts, rejected, unattributed)


class StreamGrouper:
    """Groups a stream in bounded memory; the last event stays open until a quad of another graph follows."""

    def __init__(self, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._open = NO_QUADS
        self._pending: list[BadLine] = []  # bad lines after the last quad
        self._rejected: RejectedGraphs = {}
        self._closed = GraphHashSet()

    def feed(self, batch: pa.RecordBatch, bad_lines: Sequence[BadLine]) -> GroupedQuads:
        """Add a batch of quads; returns the events it completes."""
        batch, default_graph = _without_default_graph(batch)
        quads = _concat([self._open, batch])
        if not quads.num_rows:
            self._pending += bad_lines
            return GroupedQuads(quads, run_starts(quads), {}, default_graph)
        last_line = quads.column("line")[-1].as_py()
        bad = [*self._pending, *bad_lines]
        self._pending = [line for line in bad if line.line > last_line]
        unattributed = self._attribute(quads, (line for line in bad if line.line < last_line))
        starts = run_starts(quads)
        self._set_open(quads.slice(starts[-1]))
        grouped = self._close(quads.slice(0, starts[-1]), starts[:-1], quads.column("graph")[-1].as_py())
        return grouped._replace(unattributed=default_graph + unattributed + grouped.unattributed)

    def finish(self) -> GroupedQuads:
        """Close the event that is open at the end of the stream and return it."""
        unattributed = self._attribute(self._open, self._pending)
        grouped = self._close(self._open, run_starts(self._open), None)
        return grouped._replace(unattributed=unattributed + grouped.unattributed)

    def reject_open(self, problem: Problem) -> None:
        """Reject the open event, whose last quads may be missing because the stream broke off."""
        if self._open.num_rows:
            self._rejected.setdefault(self._open.column("graph")[0].as_py(), []).append(problem)

    def _attribute(self, quads: pa.RecordBatch, bad_lines: Iterable[BadLine]) -> list[Problem]:
        rejected, unattributed = _attribute_bad_lines(quads, bad_lines)
        for graph, problems in rejected.items():
            self._rejected.setdefault(graph, []).extend(problems)
        return unattributed

    def _set_open(self, run: pa.RecordBatch) -> None:
        """Retain the quads of the open event; of one that is too large, only those its rejection quotes."""
        self._open = run
        if int(quad_bytes(run).sum()) > self._max_event_bytes:
            problems = self._rejected.setdefault(run.column("graph")[0].as_py(), [])
            problems += (
                []
                if too_large_problem(self._max_event_bytes) in problems
                else [too_large_problem(self._max_event_bytes)]
            )
            self._open = run.slice(0, int(np.searchsorted(quad_bytes(run).cumsum(), CONTENT_BYTES)) + 1)

    def _close(self, quads: pa.RecordBatch, starts: Int64s, open_graph: str | None) -> GroupedQuads:
        """Return complete events, without the quads of graphs that were closed before."""
        graphs = quads.column("graph").take(pa.array(starts))
        rejected = {graph: problems for graph, problems in self._rejected.items() if graph != open_graph}
        self._rejected = {graph: problems for graph, problems in self._rejected.items() if graph == open_graph}
        reopened = self._closed.add(graphs)
        if rejected:  # graphs that have only bad lines are closed as well
            self._closed.add(pa.array(sorted(rejected.keys() - set(graphs.to_pylist())), pa.string()))
        unattributed = [_reopened_problem(quads, starts, int(event)) for event in np.flatnonzero(reopened)]
        if unattributed:
            lengths = np.diff(np.append(starts, quads.num_rows))
            quads = quads.filter(pa.array(np.repeat(~reopened, lengths)))
            starts = _starts_of(lengths[~reopened])
        return GroupedQuads(quads, starts, rejected, unattributed)


def run_starts(quads: pa.RecordBatch) -> Int64s:
    """The indexes of the rows whose graph differs from that of the previous row."""
    if not quads.num_rows:
        return np.zeros(0, np.int64)
    graph = quads.column("graph")
    changes = pc.not_equal(graph[1:], graph[:-1]).to_numpy(zero_copy_only=False)
    return np.concatenate([[0], np.flatnonzero(changes) + 1])


def quad_bytes(quads: pa.RecordBatch) -> Int64s:
    """The length of each quad as an N-Quads line, in bytes."""
    lengths = [pc.binary_length(quads.column(i)).to_numpy(zero_copy_only=False).astype(np.int64) for i in range(4)]
    return np.sum(lengths, axis=0) + 6  # four spaces, the dot and the newline


def too_large_problem(limit: int) -> Problem:
    return Problem(f"the event is larger than {limit} bytes", advice="publish it in several events")


def _concat(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    nonempty = [batch for batch in batches if batch.num_rows]
    if len(nonempty) < 2:
        return nonempty[0] if nonempty else NO_QUADS
    return pa.concat_batches(nonempty)


def _starts_of(lengths: Int64s) -> Int64s:
    return np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64) if len(lengths) else lengths


def _sort_by_graph(quads: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    starts = run_starts(quads)
    runs = quads.column("graph").take(pa.array(starts)).dictionary_encode()
    if len(runs.dictionary) == len(starts):
        return quads, starts
    # Arrow's dictionary has the graphs in the order of their first quads, which is the order of the events.
    event = np.repeat(runs.indices.to_numpy(), np.diff(np.append(starts, quads.num_rows)))
    quads = quads.take(pa.array(np.argsort(event, kind="stable")))
    return quads, _starts_of(np.bincount(event))


def _without_default_graph(quads: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Problem]]:
    graph = quads.column("graph")
    if not graph.null_count:
        return quads, []
    default_graph = quads.filter(graph.is_null())
    line, count = default_graph.column("line")[0].as_py(), default_graph.num_rows
    content = truncate("\n".join(nquads_lines(default_graph.slice(0, CONTENT_BYTES // 8))))
    reason = f"{count} triple{'s' if count > 1 else ''} outside any graph, and therefore in no event"
    return quads.filter(graph.is_valid()), [Problem(reason, advice=GRAPH_ADVICE, line=line, content=content)]


def _attribute_bad_lines(quads: pa.RecordBatch, bad_lines: Iterable[BadLine]) -> tuple[RejectedGraphs, list[Problem]]:
    """The graphs to which bad lines belong; a line of an unknown graph is rejected alone.

    A line without a graph that is about the event of a neighbouring line, as the last line of a truncated file, belongs
    to that event.
    """
    rejected: RejectedGraphs = defaultdict(list)
    unattributed: list[Problem] = []
    lines = quads.column("line").to_numpy()
    for bad in bad_lines:
        graph = None if bad.graph is None else terms.iri(bad.graph)
        if graph is None and bad.subject in _neighbours(quads, lines, bad.line):
            graph = bad.subject
        if graph is None:
            unattributed.append(bad.problem)
        else:
            rejected[graph].append(bad.problem)
    return dict(rejected), unattributed


def _neighbours(quads: pa.RecordBatch, lines: npt.NDArray[np.int64], line: int) -> list[str | None]:
    """The graphs of the quads before and after a line."""
    after = int(np.searchsorted(lines, line))
    return [quads.column("graph")[row].as_py() for row in (after - 1, after) if 0 <= row < len(lines)]


def _reopened_problem(quads: pa.RecordBatch, starts: Int64s, event: int) -> Problem:
    end = starts[event + 1] if event + 1 < len(starts) else quads.num_rows
    run = quads.slice(starts[event], end - starts[event])
    graph = run.column("graph")[0].as_py()
    return Problem(
        NOT_CONSECUTIVE,
        advice=SORT_ADVICE,
        line=run.column("line")[0].as_py(),
        content=truncate("\n".join(nquads_lines(run.slice(0, CONTENT_BYTES // 8)))),
        event=terms.iri_value(graph) if terms.is_iri(graph) else None,
    )


class GraphHashSet:
    """A growing set of graph names, stored as 64-bit hashes.

    The hashes are kept in sorted runs, and runs of the same size are merged, so that adding is cheap and a lookup
    searches few runs. Two graphs with equal hashes count as one: among 100 million graphs that happens once in some
    3 000 streams.

    >>> closed = GraphHashSet()
    >>> closed.add(pa.array(["<urn:a>", "<urn:b>", "<urn:a>"]))
    array([False, False,  True])
    >>> closed.add(pa.array(["<urn:b>"]))
    array([ True])
    """

    def __init__(self) -> None:
        self._runs: list[npt.NDArray[np.int64]] = []

    def add(self, graphs: pa.StringArray) -> npt.NDArray[np.bool_]:
        """Add graphs; the mask is true for those already in the set or earlier in the same array."""
        hashes = np.fromiter(map(hash, graphs.to_pylist()), np.int64, len(graphs))
        existing = np.ones(len(hashes), np.bool_)
        unique, first = np.unique(hashes, return_index=True)
        existing[first] = self._contains(unique)
        self._append(np.sort(hashes[~existing]))
        return existing

    def _contains(self, hashes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        contained = np.zeros(len(hashes), np.bool_)
        for run in self._runs:
            index = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            contained |= run[index] == hashes
        return contained

    def _append(self, run: npt.NDArray[np.int64]) -> None:
        while self._runs and len(self._runs[-1]) <= len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]), kind="stable")  # merges sorted runs in one pass
        if len(run):
            self._runs.append(run)
