"""Conversion between a processor's tables and the rows of a state snapshot: strings, and the order operators rely on.

The tables of a snapshot are sorted so that equal states are equal bytes, or come from several buckets. The open rows of
a pairing operator and the counted members of an iteration have to be in completion order; other tables in any order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from motet.engine.detect.columns import END, START
from motet.engine.detect.detector import OperatorNode
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.order import Sides, break_ties
from motet.engine.state.rows import EventContent, StateRows
from motet.jit.compiled import Ints
from motet.language.syntax import Context
from motet.model.batches import RECORDS
from motet.plan.graph import PAIRING, Kind, variable_index

_FIELDS = ("subject", "predicate", "object")
_SIDES = {"open left": 0, "open right": 1}


def state_rows(tables: Mapping[str, Occurrences], dictionary: Dictionary) -> StateRows:
    """Tables with the strings of a dictionary, not yet canonical."""
    offsets, iris, triples = dictionary.events.table()
    graphs = [None] * len(offsets) if triples is None else triples.to_pylist()
    events = {
        offset: EventContent(iri, None if graph is None else tuple(tuple(map(triple.get, _FIELDS)) for triple in graph))
        for offset, iri, graph in zip(offsets.tolist(), iris.to_pylist(), graphs, strict=True)
    }
    return StateRows(dictionary.terms.strings().to_pylist(), events, tables)


def fill_dictionary(dictionary: Dictionary, rows: StateRows, *, with_triples: bool) -> None:
    """Add the strings of a snapshot's rows to an empty dictionary."""
    dictionary.terms.ids(pa.array(rows.terms, pa.string()))
    for has_triples in (False, True):  # apart, so that the triples of an event can still be added
        dictionary.events.with_triples = has_triples
        events = {offset: event for offset, event in rows.events.items() if (event.triples is not None) is has_triples}
        graphs = [
            [dict(zip(_FIELDS, triple, strict=True)) for triple in event.triples or ()] for event in events.values()
        ]
        iris = pa.array([event.id for event in events.values()], pa.string())
        dictionary.events.add(np.fromiter(events, np.int64), iris, pa.array(graphs, RECORDS.field("triples").type))
    dictionary.events.with_triples = with_triples
    dictionary.reset_threshold()


def restore_order(operator_node: OperatorNode, name: str, table: Occurrences, dictionary: Dictionary) -> Occurrences:
    """A table of a node in the order that its operator relies on."""
    node = operator_node.node
    if node.context is Context.UNRESTRICTED and node.kind in PAIRING:
        return table  # it pairs in any order
    if node.kind in PAIRING and name in _SIDES:
        side = _SIDES[name]
        variables = [variable_index(variable) for variable in node.order[side]] if node.order else []
        projected = table.project(operator_node.variable_maps[side])
        return table.take(_completion_order(table, projected, dictionary, variables))
    if node.kind is Kind.TIMES and name == "counted":
        counted = table.take(_completion_order(table, table, dictionary, []))
        return counted.take(np.lexsort([np.arange(len(counted)), *counted.values.T]))
    return table


def _completion_order(table: Occurrences, projected: Occurrences, dictionary: Dictionary, variables: list[int]) -> Ints:
    """The rows of a table in completion order; ``projected`` has the variables that are compared."""
    start, end = table.columns[START], table.columns[END]

    def take_tied(rows: Ints) -> tuple[Occurrences, Sides]:
        return projected.take(rows), np.zeros(len(rows), np.bool_)

    order = np.lexsort([start, end])
    return break_ties(order, start, end, take_tied, dictionary, (variables, variables)).rows
