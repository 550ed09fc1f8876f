"""From occurrences of whole patterns to notifications: who may see them, in which variables, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Distinct
from motet.engine.detect.occurrences import EMITTED, END, FIRST, START, UNBOUND, VALUES, Ints, Occurrences
from motet.engine.detect.operator import Now
from motet.engine.detect.order import ranks
from motet.language.syntax import Select
from motet.language.visibility import delivered_names
from motet.model.schemas import BINDING, NOTIFICATIONS, TIME
from motet.plan.nodes import Node, Root


@dataclass
class Delivery:
    """A subscription's way out of the plan; ``offset`` is that of its subscribe record."""

    root: Root
    offset: int
    names: tuple[str, ...]  # delivered, sorted
    sources: tuple[int, ...]  # their places among the node's variables
    is_filtered: bool  # the node also serves those that began earlier
    distinct: Distinct | None

    def advance(self, found: Occurrences, now: Now) -> Occurrences:
        """What the subscription is to be told, in the variables of its delivery clause."""
        if self.is_filtered:
            found = found.take(found.rows[:, FIRST] > self.root.start.offset)
        found = found.renamed(self.sources)
        if len(found) and found.rows[:, EMITTED].min() < self.offset:
            found = found.with_column(EMITTED, np.maximum(found.rows[:, EMITTED], self.offset))
        return found if self.distinct is None else self.distinct.advance(found, now)


def delivery(root: Root, node: Node, offset: int) -> Delivery:
    whole = root.subscription.delivery == Select()
    wanted = delivered_names(root.subscription)
    places = {own: node.variables.index(name) for name, own in root.names if whole or own in wanted}
    names = tuple(sorted(places))
    distinct = None if whole else Distinct(len(names), with_members=node.with_members)
    return Delivery(root, offset, names, tuple(map(places.__getitem__, names)), _serves_all(node), distinct)


def _serves_all(node: Node) -> bool:
    return node.start is None and node.owner is None


def notifications(found: Sequence[tuple[Delivery, Occurrences]], names: Dictionary) -> pa.RecordBatch:
    """The NOTIFICATIONS of some subscriptions, without graphs and constructs, in the order given."""
    tables = [table for _, table in found]
    rows = np.concatenate([np.empty((0, VALUES), np.int64), *(table.rows[:, :VALUES] for table in tables)])
    subscriptions = pa.array([delivery.root.subscription.name for delivery, _ in found], pa.string())
    which = np.repeat(np.arange(len(found)), [len(table) for table in tables])
    columns = [
        subscriptions.take(pa.array(which)),
        pa.array(rows[:, START]).cast(TIME),
        pa.array(rows[:, END]).cast(TIME),
        _events(tables, names),
        _bindings(found, names),
        pa.nulls(len(rows), NOTIFICATIONS.field("graphs").type),
        pa.nulls(len(rows), NOTIFICATIONS.field("construct").type),
        pa.array(rows[:, EMITTED]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS)


def _events(tables: Sequence[Occurrences], names: Dictionary) -> pa.ListArray:
    """The ids of each row's events, sorted."""
    sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(table.starts) for table in tables)])
    ids = names.events.ids(np.concatenate([np.empty(0, np.int64), *(table.events for table in tables)]))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    if np.any(sizes > 1):
        ids = _sorted_within(ids, np.repeat(np.arange(len(sizes)), sizes))
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), ids, type=NOTIFICATIONS.field("events").type)


def _sorted_within(ids: pa.Array, row: Ints) -> pa.Array:
    """In the order of the strings in each row; most are already, since ids often come in order."""
    falls = np.asarray(pc.greater(ids.slice(0, len(ids) - 1), ids.slice(1))) & (row[1:] == row[:-1])
    if not falls.any():
        return ids
    some = np.flatnonzero(np.isin(row, row[1:][falls]))
    places = np.arange(len(ids))
    places[some] = some[np.lexsort([ranks(ids.take(pa.array(some))), row[some]])]
    return ids.take(pa.array(places))


def _bindings(found: Sequence[tuple[Delivery, Occurrences]], names: Dictionary) -> pa.ListArray:
    """Variables in the order of their names; unbound ones are left out."""
    lengths = [len(table) for _, table in found]
    widths = [table.width for _, table in found]
    values = np.full((sum(lengths), max(widths, default=0)), UNBOUND, np.int64)
    first = 0
    for _, table in found:
        values[first : first + len(table), : table.width] = table.rows[:, VALUES:]
        first += len(table)
    bound = values != UNBOUND
    labels = pa.array([name for delivery, _ in found for name in delivery.names], pa.string())
    first_label = np.repeat(np.cumsum([0, *widths])[:-1], lengths)
    labelled = labels.take(pa.array((first_label[:, None] + np.arange(values.shape[1]))[bound]))
    terms = names.strings(values[bound])
    pairs = pa.StructArray.from_arrays([labelled, terms], fields=list(BINDING))
    starts = np.concatenate([[0], np.cumsum(bound.sum(axis=1))])
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pairs, type=NOTIFICATIONS.field("bindings").type)


def with_graphs(batch: pa.RecordBatch, table: Occurrences, names: Dictionary) -> pa.RecordBatch:
    """EVENTS delivery: the N-Quads of each notification's events."""
    distinct, places = np.unique(table.events, return_inverse=True)
    ids = names.events.ids(distinct).to_pylist()
    lines = [
        [f"{t['subject']} {t['predicate']} {t['object']} <{id_}> ." for t in graph]
        for id_, graph in zip(ids, names.events.graphs(distinct), strict=True)
    ]
    bounds = table.starts.tolist()
    graphs = [sorted({line for place in places[begin:end] for line in lines[place]}) for begin, end in pairwise(bounds)]
    return _with(batch, "graphs", graphs)


def with_constructs(batch: pa.RecordBatch, lines: Sequence[Sequence[str]]) -> pa.RecordBatch:
    """CONSTRUCT delivery: the N-Triples of each notification's derived events."""
    return _with(batch, "construct", [list(one) for one in lines])


def _with(batch: pa.RecordBatch, name: str, lines: list[list[str]]) -> pa.RecordBatch:
    index = NOTIFICATIONS.get_field_index(name)
    field = NOTIFICATIONS.field(index)
    return batch.set_column(index, field, pa.array(lines, field.type))


def in_order(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
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
    offset, end, start = (np.asarray(batch.column(name).view(pa.int64())) for name in ("offset", "end", "start"))
    rises = start[:-1] <= start[1:]
    for key in (end, offset):
        rises = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & rises)
    return bool(rises.all())


_NOTHING = pa.RecordBatch.from_pylist([], schema=NOTIFICATIONS)
