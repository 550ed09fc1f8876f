"""Putting saved rows back to work: the strings of a dictionary, and tables in the order their operators count on.

Saved tables are sorted for the sake of equal bytes, or come from several buckets. What is open in a pairing operator or
counted in an iteration stands in completion order; all other tables may stand in any.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import END, START, Ints
from motet.engine.detect.detector import OperatorNode
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.order import break_ties
from motet.engine.detect.saving_rows import EventText, Rows
from motet.language.syntax import Context
from motet.model.schemas import RECORDS
from motet.plan.nodes import PAIRING, Kind, variable_number

_FIELDS = ("subject", "predicate", "object")
_SIDES = {"open left": 0, "open right": 1}


def saved_rows(tables: Mapping[str, Occurrences], names: Dictionary) -> Rows:
    """Tables with the strings of a dictionary, not yet canonical."""
    numbers, ids, triples = names.events.table()
    graphs = [None] * len(numbers) if triples is None else triples.to_pylist()
    events = {
        number: EventText(id_, None if graph is None else tuple(tuple(map(triple.get, _FIELDS)) for triple in graph))
        for number, id_, graph in zip(numbers.tolist(), ids.to_pylist(), graphs, strict=True)
    }
    return Rows(names.terms.strings().to_pylist(), events, tables)


def fill(names: Dictionary, rows: Rows, *, with_triples: bool) -> None:
    """Let an empty dictionary know the strings of saved rows."""
    names.terms.ids(pa.array(rows.terms, pa.string()))
    for kept in (False, True):  # apart, so that an event without triples can still be told what they are
        names.events.with_triples = kept
        some = {number: event for number, event in rows.events.items() if (event.triples is not None) is kept}
        graphs = [
            [dict(zip(_FIELDS, triple, strict=True)) for triple in event.triples or ()] for event in some.values()
        ]
        ids = pa.array([event.id for event in some.values()], pa.string())
        names.events.add(np.fromiter(some, np.int64), ids, pa.array(graphs, RECORDS.field("triples").type))
    names.events.with_triples = with_triples
    names.reset_threshold()


def in_working_order(running: OperatorNode, name: str, table: Occurrences, names: Dictionary) -> Occurrences:
    """A node's table as its operator wants it."""
    if running.node.context is Context.UNRESTRICTED and running.node.kind in PAIRING:
        return table  # which pairs in any order
    if running.node.kind in PAIRING and name in _SIDES:
        side = _SIDES[name]
        order = [variable_number(variable) for variable in running.node.order[side]] if running.node.order else []
        return table.take(_completion_order(table, table.project(running.variable_maps[side]), names, order))
    if running.node.kind is Kind.TIMES and name == "counted":
        counted = table.take(_completion_order(table, table, names, []))
        return counted.take(np.lexsort([np.arange(len(counted)), *counted.values.T]))
    return table


def _completion_order(table: Occurrences, shown: Occurrences, names: Dictionary, order: list[int]) -> Ints:
    """The places of a table's rows; ``shown`` has the variables that are compared."""
    start, end = table.columns[START], table.columns[END]

    def tied(rows: Ints) -> tuple[Occurrences, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        return shown.take(rows), np.zeros(len(rows), np.bool_)

    return break_ties(np.lexsort([start, end]), start, end, tied, names, (order, order)).rows
