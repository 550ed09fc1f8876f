"""From occurrences of whole patterns to notifications: who may see them, in which variables, each once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.columns import EMISSION_OFFSET, END, FIRST_OFFSET, START, UNBOUND, VALUES, Ints
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Deduplicator, are_distinct
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import OperatorEnv
from motet.engine.detect.order import string_ranks
from motet.language.syntax import Select
from motet.language.visibility import delivered_names
from motet.model.schemas import BINDING, NOTIFICATIONS, TIME
from motet.plan.nodes import Node, Root

_EVER = np.iinfo(np.int64).min


@dataclass
class RootOutput:
    """A subscription's way out of the plan; ``offset`` is that of its subscribe record."""

    root: Root
    offset: int
    projected: tuple[str, ...]  # delivered, sorted
    variable_indexes: tuple[int, ...]  # their places among the node's variables
    is_filtered: bool  # the node also serves those that began earlier
    deduplicator: Deduplicator | None

    def advance(self, found: Occurrences, now: OperatorEnv) -> Occurrences:
        """What the subscription is to be told, in the variables of its delivery clause."""
        if not now.summary:
            now.summary.update(_facts(found, now))
        if self.is_filtered:
            found = found.take(found.columns[FIRST_OFFSET] > self.root.start.offset)
        found = found.project(self.variable_indexes)
        if now.summary["emitted"] < self.offset:
            found = found.with_column(EMISSION_OFFSET, np.maximum(found.columns[EMISSION_OFFSET], self.offset))
        if self.deduplicator is None or (now.summary["comes once"] and not len(self.deduplicator.emitted_before)):
            return found
        return self.deduplicator.advance(found, now)


def _facts(found: Occurrences, now: OperatorEnv) -> dict[str, int]:
    """When the first one was final, and since when one was seen; whether each can come only once, in whatever variables
    it is shown.
    """
    emitted = found.columns[EMISSION_OFFSET]
    is_over = now.frontier.has_passed(found.columns[END] + now.lag).all() and (emitted[1:] >= emitted[:-1]).all()
    return {
        "emitted": int(emitted.min(initial=np.iinfo(np.int64).max)),
        "first": int(found.columns[FIRST_OFFSET].min(initial=np.iinfo(np.int64).max)),
        "comes once": bool(is_over and are_distinct(found)),
    }


class OutputBatch(NamedTuple):
    """Occurrences, and who is told of all of them: each by the places its variables have in the table."""

    table: Occurrences
    outputs: Sequence[RootOutput]
    variable_indexes: Sequence[Sequence[int]]


def single_output(delivery: RootOutput, table: Occurrences) -> OutputBatch:
    """What one subscription is told, in its own variables."""
    return OutputBatch(table, (delivery,), (range(table.width),))


class SubscriberGroup:
    """Subscriptions at one node. Mostly all of them are told of all it finds: then nothing is done for each."""

    def __init__(self, deliveries: Sequence[RootOutput]) -> None:
        self._deliveries = deliveries
        self._sources = [one.variable_indexes for one in deliveries]
        self._offset = max(one.offset for one in deliveries)
        self._start = max((one.root.start.offset for one in deliveries if one.is_filtered), default=_EVER)
        self._distinct = [one.deduplicator for one in deliveries if one.deduplicator is not None]

    def shared_output(self, found: Occurrences, now: OperatorEnv) -> OutputBatch | None:
        """None if it depends on the subscription what it is told."""
        if not now.summary:
            now.summary.update(_facts(found, now))
        if now.summary["first"] <= self._start or now.summary["emitted"] < self._offset:
            return None
        if self._distinct and (not now.summary["comes once"] or any(len(one.emitted_before) for one in self._distinct)):
            return None
        return OutputBatch(found, self._deliveries, self._sources)


def sorted_output(found: Sequence[OutputBatch]) -> Sequence[OutputBatch]:
    """A single table in order, as several will be when they are put together: numbers are quicker to sort."""
    return found if len(found) > 1 else [told._replace(table=_in_order(told.table)) for told in found]


def _in_order(found: Occurrences) -> Occurrences:
    """By the records that made them final, as most are already."""
    emitted, end, start = keys = [found.columns[column] for column in (EMISSION_OFFSET, END, START)]
    if not (emitted[1:] >= emitted[:-1]).all():
        return found.take(np.lexsort(keys[::-1]))
    falls = (emitted[1:] == emitted[:-1]) & ~_rising(end, start)
    return found.take(_within(emitted, falls, lambda some: [start[some], end[some]])) if falls.any() else found


def root_output(root: Root, node: Node, offset: int) -> RootOutput:
    whole = root.subscription.delivery == Select()
    wanted = delivered_names(root.subscription)
    places = {own: node.variables.index(name) for name, own in root.names if whole or own in wanted}
    names = tuple(sorted(places))
    distinct = None if whole else Deduplicator(len(names), with_members=node.with_members)
    return RootOutput(root, offset, names, tuple(map(places.__getitem__, names)), _serves_all(node), distinct)


def _serves_all(node: Node) -> bool:
    return node.start is None and node.owner is None


def notification_batch(found: Sequence[OutputBatch], names: Dictionary) -> pa.RecordBatch:
    """The NOTIFICATIONS of some subscriptions, by the records that made them final; those of a single one as given.

    They have no graphs and constructs yet: those are added row by row.
    """
    table = _stacked([one.table for one in found])
    row, which = _placed(found, table)
    events = _events(table, names)
    subscriptions = pa.array([one.root.subscription.name for told in found for one in told.outputs], pa.string())
    columns = [
        subscriptions.take(pa.array(which)),
        pa.array(table.columns[START][row]).cast(TIME),
        pa.array(table.columns[END][row]).cast(TIME),
        events.take(pa.array(row)) if len(subscriptions) > 1 else events,
        _bindings(table, found, row, which, names),
        pa.nulls(len(row), NOTIFICATIONS.field("graphs").type),
        pa.nulls(len(row), NOTIFICATIONS.field("construct").type),
        pa.array(table.columns[EMISSION_OFFSET][row]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS)


def _stacked(tables: Sequence[Occurrences]) -> Occurrences:
    """One table of several; variables that some do not have are unbound there."""
    if len(tables) == 1:
        return tables[0]
    ends = np.cumsum([len(table) for table in tables])
    columns = np.full((max(len(table.columns) for table in tables), ends[-1]), UNBOUND, np.int64)
    for table, end in zip(tables, ends.tolist(), strict=True):
        columns[: len(table.columns), end - len(table) : end] = table.columns
    sizes = np.diff(np.concatenate([table.starts for table in tables]))
    sizes = np.delete(sizes, (ends + np.arange(len(ends)))[:-1])  # from a table to the next one
    return Occurrences(columns, _from_sizes(sizes), np.concatenate([table.events for table in tables]))


def _placed(found: Sequence[OutputBatch], table: Occurrences) -> tuple[Ints, Ints]:
    """The rows and the deliveries of all notifications, in order: sorting numbers costs less than sorting strings."""
    lengths, listeners = np.array([(len(one.table), len(one.outputs)) for one in found], np.int64).T
    first, sizes = np.repeat(np.cumsum(lengths) - lengths, listeners), np.repeat(lengths, listeners)
    which = np.repeat(np.arange(len(sizes)), sizes)
    row = np.arange(len(which)) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
    if len(sizes) == 1:
        return row, which
    times = table.columns[[EMISSION_OFFSET, END, START]]
    order = np.lexsort(times[::-1])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.concatenate([[0], np.cumsum((times[:, order[1:]] != times[:, order[:-1]]).any(axis=0))])
    order = np.sort(rank[row] * len(row) + np.arange(len(row))) % len(row)
    return row[order], which[order]


def _from_sizes(sizes: Ints) -> Ints:
    """Where lists begin and the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _events(table: Occurrences, names: Dictionary) -> pa.ListArray:
    """The ids of each row's events, sorted."""
    sizes, ids = np.diff(table.starts), names.events.iris(table.events)
    if np.any(sizes > 1):
        ids = _sorted_within(ids, np.repeat(np.arange(len(sizes)), sizes))
    return pa.ListArray.from_arrays(pa.array(table.starts, pa.int32()), ids, type=NOTIFICATIONS.field("events").type)


def _sorted_within(ids: pa.Array, row: Ints) -> pa.Array:
    """In the order of the strings in each row; most are already, since ids often come in order."""
    falls = np.asarray(pc.greater(ids.slice(0, len(ids) - 1), ids.slice(1))) & (row[1:] == row[:-1])
    if not falls.any():
        return ids
    return ids.take(pa.array(_within(row, falls, lambda some: [string_ranks(ids.take(pa.array(some)))])))


def _within(group: Ints, falls: npt.NDArray[np.bool_], keys: Callable[[Ints], Sequence[Ints]]) -> Ints:
    """The places of rows that come by group; a group in which one ``falls`` behind the next is sorted by some keys."""
    number = np.cumsum(np.append(False, group[1:] != group[:-1]))
    is_mixed = np.zeros(len(group), np.bool_)
    is_mixed[number[1:][falls]] = True
    some = np.flatnonzero(is_mixed[number])
    places = np.arange(len(group))
    places[some] = some[np.lexsort([*keys(some), number[some]])]
    return places


def _bindings(
    table: Occurrences, found: Sequence[OutputBatch], row: Ints, which: Ints, names: Dictionary
) -> pa.ListArray:
    """Variables in the order of their names, which are given for each of those told; unbound ones are left out."""
    shown = [one.projected for told in found for one in told.outputs]
    labels = pa.array([name for some in shown for name in some], pa.string())
    sources = np.array([place for told in found for some in told.variable_indexes for place in some], np.int64)
    counts = np.array([len(some) for some in shown], np.int64)
    starts = _from_sizes(counts[which])
    label = np.arange(starts[-1]) + np.repeat((np.cumsum(counts) - counts)[which] - starts[:-1], counts[which])
    cell = sources[label] * len(table) + np.repeat(row, counts[which])
    values = table.columns[VALUES:].ravel()
    bound = values[cell] != UNBOUND
    if not bound.all():
        starts = _from_sizes(bound)[starts]
        label, cell = label[bound], cell[bound]
    pairs = pa.StructArray.from_arrays(
        [labels.take(pa.array(label)), _strings(values, cell, names)], fields=list(BINDING)
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs, type=NOTIFICATIONS.field("bindings").type)


def _strings(values: Ints, cell: Ints, names: Dictionary) -> pa.Array:
    """The terms in some cells; one that many are told is looked up once."""
    if len(cell) <= len(values):
        return names.strings(values[cell])
    is_shown = np.zeros(len(values), np.bool_)
    is_shown[cell] = True
    return names.strings(values[is_shown]).take(pa.array((np.cumsum(is_shown) - 1)[cell]))


def add_graphs(batch: pa.RecordBatch, table: Occurrences, names: Dictionary) -> pa.RecordBatch:
    """EVENTS delivery: the N-Quads of each notification's events."""
    distinct, places = np.unique(table.events, return_inverse=True)
    ids = names.events.iris(distinct).to_pylist()
    lines = [
        [f"{t['subject']} {t['predicate']} {t['object']} <{id_}> ." for t in graph]
        for id_, graph in zip(ids, names.events.graphs(distinct), strict=True)
    ]
    bounds = table.starts.tolist()
    graphs = [sorted({line for place in places[begin:end] for line in lines[place]}) for begin, end in pairwise(bounds)]
    return _with(batch, "graphs", graphs)


def add_constructs(batch: pa.RecordBatch, lines: Sequence[Sequence[str]]) -> pa.RecordBatch:
    """CONSTRUCT delivery: the N-Triples of each notification's derived events."""
    return _with(batch, "construct", [list(one) for one in lines])


def _with(batch: pa.RecordBatch, name: str, lines: list[list[str]]) -> pa.RecordBatch:
    index = NOTIFICATIONS.get_field_index(name)
    field = NOTIFICATIONS.field(index)
    return batch.set_column(index, field, pa.array(lines, field.type))


def merge_notifications(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Together, by the records that made them final."""
    filled = [batch for batch in batches if len(batch)]
    if not filled:
        return _NOTHING
    if len(filled) == 1 and (len(filled[0]) == 1 or _is_sorted(filled[0])):
        return filled[0]
    table = pa.Table.from_batches(filled, schema=NOTIFICATIONS).combine_chunks()
    order = pc.sort_indices(table, sort_keys=[("offset", "ascending"), ("end", "ascending"), ("start", "ascending")])
    (ordered,) = table.take(order).combine_chunks().to_batches()
    return ordered


def _is_sorted(batch: pa.RecordBatch) -> bool:
    keys = (np.asarray(batch.column(name).cast(pa.int64())) for name in ("offset", "end", "start"))
    return bool(_rising(*keys).all())


def _rising(*keys: Ints) -> npt.NDArray[np.bool_]:
    """Which rows do not come after the next one, by some columns."""
    rises = np.ones(max(0, len(keys[0]) - 1), np.bool_)
    for key in reversed(keys):
        rises = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & rises)
    return rises


_NOTHING = pa.RecordBatch.from_pylist([], schema=NOTIFICATIONS)
