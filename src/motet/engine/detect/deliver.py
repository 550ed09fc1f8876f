"""From occurrences of whole patterns to notifications: who may see them, in which variables, each once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Distinct, are_apart
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
        if not now.facts:
            now.facts.update(_facts(found, now))
        if self.is_filtered:
            found = found.take(found.rows[:, FIRST] > self.root.start.offset)
        found = found.renamed(self.sources)
        if now.facts["emitted"] < self.offset:
            found = found.with_column(EMITTED, np.maximum(found.rows[:, EMITTED], self.offset))
        if self.distinct is None or (now.facts["comes once"] and not len(self.distinct.seen)):
            return found
        return self.distinct.advance(found, now)


def _facts(found: Occurrences, now: Now) -> dict[str, int]:
    """When the first one was final; whether each can come only once, in whatever variables it is shown."""
    emitted = found.rows[:, EMITTED]
    is_over = now.frontier.passed(found.rows[:, END] + now.lag).all() and (emitted[1:] >= emitted[:-1]).all()
    comes_once = is_over and are_apart(found)
    return {"emitted": int(emitted.min(initial=np.iinfo(np.int64).max)), "comes once": bool(comes_once)}


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
    """The NOTIFICATIONS of some subscriptions, by the records that made them final; those of a single one as given.

    They have no graphs and constructs yet: those are added row by row.
    """
    table, which = _together([table for _, table in found])
    subscriptions = pa.array([delivery.root.subscription.name for delivery, _ in found], pa.string())
    columns = [
        subscriptions.take(pa.array(which)),
        pa.array(table.rows[:, START]).cast(TIME),
        pa.array(table.rows[:, END]).cast(TIME),
        _events(table, names),
        _bindings(table, [delivery.names for delivery, _ in found], which, names),
        pa.nulls(len(table), NOTIFICATIONS.field("graphs").type),
        pa.nulls(len(table), NOTIFICATIONS.field("construct").type),
        pa.array(table.rows[:, EMITTED]),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTIFICATIONS)


def _together(tables: Sequence[Occurrences]) -> tuple[Occurrences, Ints]:
    """One table of several in order, and which one each row is of: sorting numbers costs less than sorting strings."""
    lengths = np.array([len(table) for table in tables], np.int64)
    ends = np.cumsum(lengths)
    rows = np.full((lengths.sum(), max(table.rows.shape[1] for table in tables)), UNBOUND, np.int64)
    for table, end in zip(tables, ends.tolist(), strict=True):
        rows[end - len(table) : end, : table.rows.shape[1]] = table.rows
    sizes = np.diff(np.concatenate([table.starts for table in tables]))
    sizes = np.delete(sizes, (ends + np.arange(len(ends)))[:-1])  # from a table to the next one
    starts = np.concatenate([[0], np.cumsum(sizes)])
    whole = Occurrences(rows, starts, np.concatenate([table.events for table in tables]))
    which = np.repeat(np.arange(len(tables)), lengths)
    times = (rows[:, EMITTED], rows[:, END], rows[:, START])
    if len(tables) == 1 or _rise(*times):
        return whole, which
    order = np.lexsort(times[::-1])
    return whole.take(order), which[order]


def _events(table: Occurrences, names: Dictionary) -> pa.ListArray:
    """The ids of each row's events, sorted."""
    sizes, ids = np.diff(table.starts), names.events.ids(table.events)
    if np.any(sizes > 1):
        ids = _sorted_within(ids, np.repeat(np.arange(len(sizes)), sizes))
    return pa.ListArray.from_arrays(pa.array(table.starts, pa.int32()), ids, type=NOTIFICATIONS.field("events").type)


def _sorted_within(ids: pa.Array, row: Ints) -> pa.Array:
    """In the order of the strings in each row; most are already, since ids often come in order."""
    falls = np.asarray(pc.greater(ids.slice(0, len(ids) - 1), ids.slice(1))) & (row[1:] == row[:-1])
    if not falls.any():
        return ids
    some = np.flatnonzero(np.isin(row, row[1:][falls]))
    places = np.arange(len(ids))
    places[some] = some[np.lexsort([ranks(ids.take(pa.array(some))), row[some]])]
    return ids.take(pa.array(places))


def _bindings(table: Occurrences, shown: Sequence[Sequence[str]], which: Ints, names: Dictionary) -> pa.ListArray:
    """Variables in the order of their names, which are given for each of those told; unbound ones are left out."""
    values = table.rows[:, VALUES:]
    bound = values != UNBOUND
    labels = pa.array([name for some in shown for name in some], pa.string())
    first_label = np.cumsum([0, *map(len, shown)])[which]
    labelled = labels.take(pa.array((first_label[:, None] + np.arange(table.width))[bound]))
    pairs = pa.StructArray.from_arrays([labelled, names.strings(values[bound])], fields=list(BINDING))
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
    return _rise(*(np.asarray(batch.column(name).cast(pa.int64())) for name in ("offset", "end", "start")))


def _rise(*keys: Ints) -> bool:
    """Whether rows are in the order of some columns."""
    rises = np.ones(max(0, len(keys[0]) - 1), np.bool_)
    for key in reversed(keys):
        rises = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & rises)
    return bool(rises.all())


_NOTHING = pa.RecordBatch.from_pylist([], schema=NOTIFICATIONS)
