"""Builds notifications: from the solutions of single-event subscriptions, and from the occurrences of root nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.construct import ConstructedEvent, template_solutions
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.order import string_ranks
from motet.engine.detect.output import OutputBatch, single_output
from motet.engine.detect.table_kernels import EMISSION_OFFSET, END, START, UNBOUND, VALUES
from motet.engine.match.index import SegmentLeaves
from motet.engine.match.matcher import SegmentMatches, Solutions, VerifiedSolutions
from motet.engine.match.string_column import string_array, take_rows
from motet.engine.runtime.active_subscription import ActiveSubscription
from motet.jit.compiled import Ints
from motet.language.syntax import Events
from motet.model.batches import (
    BINDING,
    NOTIFICATIONS,
    TIME,
    EventRow,
    NotificationBatch,
    RecordRow,
    notification_batch,
    notification_rows,
)
from motet.model.notifications import Notification
from motet.model.terms import iri
from motet.model.xml_document import canonical_document

MAX_SMALL = 32  # notifications as rows


class NotificationBuilder:
    """Collects the notifications of one record slice.

    The outputs whose notifications have only bindings are converted together, at the end.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._finished: list[NotificationBatch] = []
        self._outputs: list[OutputBatch] = []  # with bindings only

    def add(self, notifications: NotificationBatch) -> None:
        """Emit finished notifications."""
        self._finished.append(notifications)

    def add_output(self, output: OutputBatch) -> None:
        """Emit occurrences to subscriptions whose notifications have only bindings."""
        self._outputs.append(output)

    def add_occurrences(self, active: ActiveSubscription, table: Occurrences) -> list[list[ConstructedEvent]]:
        """Emit the occurrences of one subscription; returns the derived events of each, if it has CONSTRUCT."""
        assert active.output is not None
        output, dictionary = single_output(active.output, table), self._dictionary
        if active.has_only_bindings:
            self._outputs.append(output)
            return []
        graphs = _graphs(table, dictionary) if isinstance(active.subscription.delivery, Events) else None
        batch = emit_occurrences([output], dictionary, graphs)
        if active.templates is None:
            self._finished.append(NotificationBatch(columns=batch))
            return []
        derived = [
            active.templates.derive(
                notification.id, template_solutions(active.output.projected, table, row, dictionary)
            )
            for row, (notification, _) in enumerate(notification_rows(batch))
        ]
        lines = [sorted({line for event in events for line in event.lines}) for events in derived]
        index = NOTIFICATIONS.get_field_index("construct")
        field = NOTIFICATIONS.field(index)
        batch = batch.set_column(index, field, pa.array(lines, field.type))
        self._finished.append(NotificationBatch(columns=batch))
        return derived

    def notifications(self) -> list[NotificationBatch]:
        """All notifications so far."""
        if not self._outputs:
            return self._finished
        occurrences = emit_occurrences(_sorted_outputs(self._outputs), self._dictionary)
        return [*self._finished, NotificationBatch(columns=occurrences)]


def emit_solutions(matches: Sequence[SegmentMatches]) -> NotificationBatch:
    """The notifications of single-event subscriptions, in the order of the events.

    Those of a few events are rows, unless they are many.
    """
    if not matches:
        return NotificationBatch(rows=[])
    if matches[0].batch.events.is_small:
        count = 0
        for part in matches:
            count += 0 if part.decided is None else len(part.decided.event)
            count += 0 if part.verified is None else len(part.verified.event)
        if count <= MAX_SMALL:
            return _small_notifications(matches, matches[0].batch.rows)
    parts: list[tuple[pa.RecordBatch, Ints]] = []
    for part in matches:
        if part.decided is not None:
            parts.append((decided_notifications(part.decided, part.segment.leaves.names), part.decided.event))
        if part.verified is not None:
            offsets = part.batch.offsets
            verified = (
                (notification, offsets[event].as_py()) for event, notification in _verified_rows(part, part.verified)
            )
            parts.append((notification_batch(verified), part.verified.event))
    if len(parts) == 1:  # is in order
        return NotificationBatch(columns=parts[0][0])
    tables = [notification_batch(()), *(notifications for notifications, _ in parts)]
    table = pa.Table.from_batches(tables).combine_chunks()
    order = np.argsort(np.concatenate([np.empty(0, np.int64), *(event for _, event in parts)]), kind="stable")
    (ordered,) = table.take(pa.array(order)).combine_chunks().to_batches() or [notification_batch(())]
    return NotificationBatch(columns=ordered)


def _small_notifications(matches: Sequence[SegmentMatches], records: Sequence[RecordRow]) -> NotificationBatch:
    """The notifications of a few records, as rows."""
    rows: list[tuple[Notification, int]] = []
    for part in matches:
        if part.decided is not None:
            _add_decided_rows(rows, part.decided, part.segment.leaves, records)
        if part.verified is not None:
            verified = _verified_rows(part, part.verified)
            rows += [(notification, records[event].offset) for event, notification in verified]
    if len(rows) > 1:
        rows.sort(key=itemgetter(1))
    return NotificationBatch(rows=rows)


def _add_decided_rows(
    rows: list[tuple[Notification, int]], solutions: Solutions, leaves: SegmentLeaves, records: Sequence[RecordRow]
) -> None:
    labels, starts = solutions.projections.labels, solutions.starts.tolist()
    variables = map(labels.__getitem__, solutions.binding.tolist())
    pairs = list(zip(variables, solutions.batch.term_texts(solutions.term), strict=True))
    for index, (event, leaf) in enumerate(zip(solutions.event.tolist(), solutions.leaf.tolist(), strict=True)):
        record = records[event]
        assert record.id is not None and record.start is not None and record.end is not None, "it is a stamped event"
        bindings = tuple(pairs[starts[index] : starts[index + 1]])
        notification = Notification(leaves.name(leaf), record.start, record.end, (record.id,), bindings)
        rows.append((notification, record.offset))


def decided_notifications(solutions: Solutions, names: pa.Array) -> pa.RecordBatch:
    """Column by column; ``names`` are those of the segment's leaves."""
    batch, event = solutions.batch, solutions.event
    events = batch.events.columns
    variables = take_rows(solutions.projections.names, solutions.binding)
    start, end = (take_rows(events.column(name), event) for name in ("start", "end"))
    assert start.null_count == end.null_count == 0, "events are stamped before they are matched"
    return _notifications(
        take_rows(names, solutions.leaf),
        start,
        end,
        _lists(np.arange(len(event) + 1), take_rows(string_array(events.column("id")), event)),
        _bindings(solutions.starts, variables, take_rows(solutions.terms(), solutions.term)),
        take_rows(batch.offsets, event),
    )


def _verified_rows(matches: SegmentMatches, solutions: VerifiedSolutions) -> Iterator[tuple[int, Notification]]:
    columns = (solutions.event.tolist(), solutions.leaf.tolist(), solutions.bindings, solutions.rows)
    for event, leaf_index, bindings, row in zip(*columns, strict=True):
        leaf = matches.segment.leaves.leaf(leaf_index)
        assert row.start is not None and row.end is not None, "events are stamped before they are matched"
        graphs = _graph_lines(row) if leaf.with_triples else None
        yield event, Notification(leaf.name, row.start, row.end, (row.id,), bindings, graphs)


def _graph_lines(row: EventRow) -> tuple[str, ...]:
    """The N-Quads of an event, and the canonical document of an XML event."""
    lines = {f"{s} {p} {o} {iri(row.id)} ." for s, p, o in row.triples}
    return tuple(sorted(lines if row.payload is None else {*lines, canonical_document(row.payload).decode()}))


def emit_occurrences(
    batches: Sequence[OutputBatch], dictionary: Dictionary, graphs: list[list[str]] | None = None
) -> pa.RecordBatch:
    """The notifications of several outputs, by emission offset; those of a single output in the given order."""
    table = _stack([batch.table for batch in batches])
    row, output = _sorted_cells(batches, table)
    events = _event_lists(table, dictionary)
    names = pa.array([output.root.subscription.name for batch in batches for output in batch.outputs], pa.string())
    return _notifications(
        names.take(pa.array(output)),
        pa.array(table.columns[START][row]).cast(TIME),
        pa.array(table.columns[END][row]).cast(TIME),
        events.take(pa.array(row)) if len(names) > 1 else events,
        _binding_lists(table, batches, row, output, dictionary),
        pa.array(table.columns[EMISSION_OFFSET][row]),
        graphs,
    )


def _stack(tables: Sequence[Occurrences]) -> Occurrences:
    """The rows of several tables; the variables that a table lacks are unbound in its rows."""
    if len(tables) == 1:
        return tables[0]
    ends = np.cumsum([len(table) for table in tables])
    columns = np.full((max(len(table.columns) for table in tables), ends[-1]), UNBOUND, np.int64)
    for table, end in zip(tables, ends.tolist(), strict=True):
        columns[: len(table.columns), end - len(table) : end] = table.columns
    sizes = np.diff(np.concatenate([table.starts for table in tables]))
    sizes = np.delete(sizes, (ends + np.arange(len(ends)))[:-1])  # the differences between two tables
    return Occurrences(columns, _starts(sizes), np.concatenate([table.events for table in tables]))


def _sorted_cells(batches: Sequence[OutputBatch], table: Occurrences) -> tuple[Ints, Ints]:
    """The row and the output of each notification, sorted: sorting integers costs less than sorting strings."""
    lengths, outputs = np.array([(len(batch.table), len(batch.outputs)) for batch in batches], np.int64).T
    first, sizes = np.repeat(np.cumsum(lengths) - lengths, outputs), np.repeat(lengths, outputs)
    output = np.repeat(np.arange(len(sizes)), sizes)
    row = np.arange(len(output)) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
    if len(sizes) == 1:
        return row, output
    times = table.columns[[EMISSION_OFFSET, END, START]]
    order = np.lexsort(times[::-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.concatenate([[0], np.cumsum((times[:, order[1:]] != times[:, order[:-1]]).any(axis=0))])
    order = np.sort(rank[row] * len(row) + np.arange(len(row))) % len(row)
    return row[order], output[order]


def _starts(sizes: Ints) -> Ints:
    """The start of each list, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _event_lists(table: Occurrences, dictionary: Dictionary) -> pa.ListArray:
    """The event IRIs of each row, sorted."""
    sizes, iris = np.diff(table.starts), dictionary.events.iris(table.events)
    if np.any(sizes > 1):
        iris = _sort_strings_within(iris, np.repeat(np.arange(len(sizes)), sizes))
    return _lists(table.starts, iris)


def _sort_strings_within(strings: pa.Array, row: Ints) -> pa.Array:
    """Sort the strings of each row; most are sorted already, since IRIs often ascend with the offset."""
    descends = np.asarray(pc.greater(strings.slice(0, len(strings) - 1), strings.slice(1))) & (row[1:] == row[:-1])
    if not descends.any():
        return strings
    order = _sort_within(row, descends, lambda indexes: [string_ranks(strings.take(pa.array(indexes)))])
    return strings.take(pa.array(order))


def _sort_within(group: Ints, descends: npt.NDArray[np.bool_], sort_keys: Callable[[Ints], Sequence[Ints]]) -> Ints:
    """The order of rows that are sorted by group, with the groups in which a row ``descends`` sorted by their keys."""
    group_index = np.cumsum(np.append(False, group[1:] != group[:-1]))
    is_unsorted = np.zeros(len(group), np.bool_)
    is_unsorted[group_index[1:][descends]] = True
    rows = np.flatnonzero(is_unsorted[group_index])
    order = np.arange(len(group))
    order[rows] = rows[np.lexsort([*sort_keys(rows), group_index[rows]])]
    return order


def _binding_lists(
    table: Occurrences, batches: Sequence[OutputBatch], row: Ints, output: Ints, dictionary: Dictionary
) -> pa.ListArray:
    """The bindings of each notification, in the order of their variables' names; unbound variables are left out."""
    projected = [output.projected for batch in batches for output in batch.outputs]
    names = pa.array([name for variables in projected for name in variables], pa.string())
    columns = np.array(
        [column for batch in batches for indexes in batch.variable_indexes for column in indexes], np.int64
    )
    counts = np.array([len(variables) for variables in projected], np.int64)
    starts = _starts(counts[output])
    name = np.arange(starts[-1]) + np.repeat((np.cumsum(counts) - counts)[output] - starts[:-1], counts[output])
    cell = columns[name] * len(table) + np.repeat(row, counts[output])
    values = table.columns[VALUES:].ravel()
    is_bound = values[cell] != UNBOUND
    if not is_bound.all():
        starts = _starts(is_bound)[starts]
        name, cell = name[is_bound], cell[is_bound]
    return _bindings(starts, names.take(pa.array(name)), _cell_terms(values, cell, dictionary))


def _cell_terms(values: Ints, cell: Ints, dictionary: Dictionary) -> pa.Array:
    """The terms in the given cells; a cell of many outputs is looked up once."""
    if len(cell) <= len(values):
        return dictionary.strings(values[cell])
    is_used = np.zeros(len(values), np.bool_)
    is_used[cell] = True
    return dictionary.strings(values[is_used]).take(pa.array((np.cumsum(is_used) - 1)[cell]))


def _sorted_outputs(batches: Sequence[OutputBatch]) -> Sequence[OutputBatch]:
    """Sort the rows of a single batch; several batches are sorted when they are combined."""
    return batches if len(batches) > 1 else [batch._replace(table=_sort(batch.table)) for batch in batches]


def _sort(table: Occurrences) -> Occurrences:
    """Rows by emission offset, end and start; most are sorted by the first already."""
    emitted, end, start = keys = [table.columns[column] for column in (EMISSION_OFFSET, END, START)]
    if not (emitted[1:] >= emitted[:-1]).all():
        return table.take(np.lexsort(keys[::-1]))
    descends = (emitted[1:] == emitted[:-1]) & ~_ascends(end, start)
    if not descends.any():
        return table
    return table.take(_sort_within(emitted, descends, lambda rows: [start[rows], end[rows]]))


def _graphs(table: Occurrences, dictionary: Dictionary) -> list[list[str]]:
    """For each occurrence the N-Quads of its events, and the documents of XML events."""
    distinct, indexes = np.unique(table.events, return_inverse=True)
    iris = dictionary.events.iris(distinct).to_pylist()
    lines = [
        [f"{t['subject']} {t['predicate']} {t['object']} <{iri}> ." if t["subject"] else t["object"] for t in graph]
        for iri, graph in zip(iris, dictionary.events.graphs(distinct), strict=True)
    ]
    bounds = table.starts.tolist()
    return [sorted({line for index in indexes[begin:end] for line in lines[index]}) for begin, end in pairwise(bounds)]


def _notifications(
    subscription: pa.Array,
    start: pa.Array,
    end: pa.Array,
    events: pa.Array,
    bindings: pa.Array,
    offset: pa.Array,
    graphs: list[list[str]] | None = None,
) -> pa.RecordBatch:
    """NOTIFICATIONS of columns, without constructs."""
    constructs, field = (
        pa.nulls(len(subscription), NOTIFICATIONS.field("construct").type),
        NOTIFICATIONS.field("graphs"),
    )
    lines = pa.nulls(len(subscription), field.type) if graphs is None else pa.array(graphs, field.type)
    columns = [subscription, start, end, events, bindings, lines, constructs, offset]
    return pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS)


def _lists(starts: Ints, iris: pa.Array) -> pa.ListArray:
    """The events of each notification."""
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), iris, type=NOTIFICATIONS.field("events").type)


def _bindings(starts: Ints, variables: pa.Array, terms: pa.Array) -> pa.ListArray:
    """The bindings of each notification."""
    pairs = pa.StructArray.from_arrays([variables, terms], fields=list(BINDING))
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pairs, type=NOTIFICATIONS.field("bindings").type)


def merge_batches(batches: Sequence[NotificationBatch]) -> NotificationBatch:
    """As `merge_notifications`; without batches there are no columns to make."""
    if not batches:
        return NotificationBatch(rows=[])
    return NotificationBatch(columns=merge_notifications([batch.columns for batch in batches]))


def merge_notifications(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The notifications of several batches, by emission offset, end and start."""
    filled = [batch for batch in batches if len(batch)]
    if not filled:
        return _NO_NOTIFICATIONS
    if len(filled) == 1 and (len(filled[0]) == 1 or _is_sorted(filled[0])):
        return filled[0]
    table = pa.Table.from_batches(filled, schema=NOTIFICATIONS).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[("offset", "ascending"), ("end", "ascending"), ("start", "ascending")])
    (ordered,) = table.take(order).combine_chunks().to_batches()
    return ordered


def _is_sorted(batch: pa.RecordBatch) -> bool:
    keys = (np.asarray(batch.column(name).cast(pa.int64())) for name in ("offset", "end", "start"))
    return bool(_ascends(*keys).all())


def _ascends(*keys: Ints) -> npt.NDArray[np.bool_]:
    """Which rows are not greater than the next one, by the given columns."""
    ascends = np.ones(max(0, len(keys[0]) - 1), np.bool_)
    for key in reversed(keys):
        ascends = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & ascends)
    return ascends


_NO_NOTIFICATIONS = pa.RecordBatch.from_pylist([], schema=NOTIFICATIONS)
