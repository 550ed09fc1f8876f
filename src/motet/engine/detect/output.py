"""Notifications of root nodes: the occurrences that each subscription may see, projected, deduplicated and sorted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.columns import EMISSION_OFFSET, END, FIRST_OFFSET, START, UNBOUND, VALUES
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Deduplicator, are_distinct
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.order import string_ranks
from motet.jit.compiled import Ints
from motet.language.scope import delivered_names
from motet.language.syntax import Select
from motet.model.batches import BINDING, NOTIFICATIONS, TIME
from motet.plan.graph import PlanNode, Root

_NO_START = np.iinfo(np.int64).min
_MAX_OFFSET = np.iinfo(np.int64).max


@dataclass
class RootOutput:
    """The output of a root node for one subscription; ``offset`` is that of its subscribe record."""

    root: Root
    offset: int
    projected: tuple[str, ...]  # the delivered variables, sorted
    variable_indexes: tuple[int, ...]  # of the projected variables among those of the node
    is_filtered: bool  # the node also serves subscriptions that started earlier
    deduplicator: Deduplicator | None

    def advance(self, table: Occurrences, env: OperatorEnv) -> Occurrences:
        """The occurrences to emit for the subscription, in its projected variables."""
        if not env.summary:
            env.summary.update(_summarise(table, env))
        if self.is_filtered:
            table = table.take(table.columns[FIRST_OFFSET] > self.root.start.offset)
        table = table.project(self.variable_indexes)
        if env.summary["emission offset"] < self.offset:
            offsets = np.maximum(table.columns[EMISSION_OFFSET], self.offset)
            table = table.with_column(EMISSION_OFFSET, offsets)
        if self.deduplicator is None or (env.summary["is distinct"] and not len(self.deduplicator.emitted_before)):
            return table
        return self.deduplicator.advance(table, env)


def _summarise(table: Occurrences, env: OperatorEnv) -> dict[str, int]:
    """The least emission offset and the least first offset; and whether no row can be repeated in any projection."""
    emitted = table.columns[EMISSION_OFFSET]
    is_over = env.frontier.has_passed(table.columns[END] + env.lag).all() and (emitted[1:] >= emitted[:-1]).all()
    return {
        "emission offset": int(emitted.min(initial=_MAX_OFFSET)),
        "first offset": int(table.columns[FIRST_OFFSET].min(initial=_MAX_OFFSET)),
        "is distinct": bool(is_over and are_distinct(table)),
    }


class OutputBatch(NamedTuple):
    """Occurrences that are emitted to several outputs, with the indexes of each output's variables in the table."""

    table: Occurrences
    outputs: Sequence[RootOutput]
    variable_indexes: Sequence[Sequence[int]]


def single_output(output: RootOutput, table: Occurrences) -> OutputBatch:
    """The occurrences of one output, in its projected variables."""
    return OutputBatch(table, (output,), (range(table.width),))


class SubscriberGroup:
    """The outputs of one root node. Mostly all of them get all its occurrences, without work for each."""

    def __init__(self, outputs: Sequence[RootOutput]) -> None:
        self._outputs = outputs
        self._variable_indexes = [output.variable_indexes for output in outputs]
        self._offset = max(output.offset for output in outputs)
        self._start = max((output.root.start.offset for output in outputs if output.is_filtered), default=_NO_START)
        self._deduplicators = [output.deduplicator for output in outputs if output.deduplicator is not None]

    def shared_output(self, table: Occurrences, env: OperatorEnv) -> OutputBatch | None:
        """All occurrences for all outputs; None if the outputs get different ones."""
        if not env.summary:
            env.summary.update(_summarise(table, env))
        if env.summary["first offset"] <= self._start or env.summary["emission offset"] < self._offset:
            return None
        if self._deduplicators and (
            not env.summary["is distinct"] or any(len(each.emitted_before) for each in self._deduplicators)
        ):
            return None
        return OutputBatch(table, self._outputs, self._variable_indexes)


def sorted_output(batches: Sequence[OutputBatch]) -> Sequence[OutputBatch]:
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


def root_output(root: Root, node: PlanNode, offset: int) -> RootOutput:
    selects_all = root.subscription.delivery == Select()
    delivered = delivered_names(root.subscription)
    indexes = {
        name: node.variables.index(variable) for variable, name in root.renaming if selects_all or name in delivered
    }
    projected = tuple(sorted(indexes))
    deduplicator = None if selects_all else Deduplicator(len(projected), with_members=node.with_members)
    variable_indexes = tuple(map(indexes.__getitem__, projected))
    return RootOutput(root, offset, projected, variable_indexes, _serves_all(node), deduplicator)


def _serves_all(node: PlanNode) -> bool:
    """Whether a node serves all subscriptions with its pattern, whenever they started."""
    return node.start is None and node.owner is None


def notification_batch(batches: Sequence[OutputBatch], dictionary: Dictionary) -> pa.RecordBatch:
    """The NOTIFICATIONS of several batches, by emission offset; those of a single output in the given order.

    Graphs and constructs are null; `add_graphs` and `add_constructs` set them.
    """
    table = _stack([batch.table for batch in batches])
    row, output = _sorted_cells(batches, table)
    events = _event_lists(table, dictionary)
    names = [output.root.subscription.name for batch in batches for output in batch.outputs]
    subscriptions = pa.array(names, pa.string())
    columns = [
        subscriptions.take(pa.array(output)),
        pa.array(table.columns[START][row]).cast(TIME),
        pa.array(table.columns[END][row]).cast(TIME),
        events.take(pa.array(row)) if len(subscriptions) > 1 else events,
        _binding_lists(table, batches, row, output, dictionary),
        pa.nulls(len(row), NOTIFICATIONS.field("graphs").type),
        pa.nulls(len(row), NOTIFICATIONS.field("construct").type),
        pa.array(table.columns[EMISSION_OFFSET][row]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS)


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
    return pa.ListArray.from_arrays(pa.array(table.starts, pa.int32()), iris, type=NOTIFICATIONS.field("events").type)


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
    pairs = pa.StructArray.from_arrays(
        [names.take(pa.array(name)), _cell_terms(values, cell, dictionary)], fields=list(BINDING)
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs, type=NOTIFICATIONS.field("bindings").type)


def _cell_terms(values: Ints, cell: Ints, dictionary: Dictionary) -> pa.Array:
    """The terms in the given cells; a cell of many outputs is looked up once."""
    if len(cell) <= len(values):
        return dictionary.strings(values[cell])
    is_used = np.zeros(len(values), np.bool_)
    is_used[cell] = True
    return dictionary.strings(values[is_used]).take(pa.array((np.cumsum(is_used) - 1)[cell]))


def add_graphs(batch: pa.RecordBatch, table: Occurrences, dictionary: Dictionary) -> pa.RecordBatch:
    """Set the graphs of an EVENTS delivery: the N-Quads of each notification's events."""
    distinct, indexes = np.unique(table.events, return_inverse=True)
    iris = dictionary.events.iris(distinct).to_pylist()
    lines = [
        [f"{t['subject']} {t['predicate']} {t['object']} <{iri}> ." for t in graph]
        for iri, graph in zip(iris, dictionary.events.graphs(distinct), strict=True)
    ]
    bounds = table.starts.tolist()
    graphs = [
        sorted({line for index in indexes[begin:end] for line in lines[index]}) for begin, end in pairwise(bounds)
    ]
    return _with_column(batch, "graphs", graphs)


def add_constructs(batch: pa.RecordBatch, lines: Sequence[Sequence[str]]) -> pa.RecordBatch:
    """Set the constructs of a CONSTRUCT delivery: the N-Triples of each notification's derived events."""
    return _with_column(batch, "construct", [list(triples) for triples in lines])


def _with_column(batch: pa.RecordBatch, name: str, lines: list[list[str]]) -> pa.RecordBatch:
    index = NOTIFICATIONS.get_field_index(name)
    field = NOTIFICATIONS.field(index)
    return batch.set_column(index, field, pa.array(lines, field.type))


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
