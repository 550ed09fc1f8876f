"""The state of a dataflow, the plan and dictionary it shares with its backfills, and both as a state snapshot.

The tables of a snapshot are sorted so that equal states are equal bytes, or come from several buckets. The open rows of
a pairing operator and the counted members of an iteration have to be in completion order; other tables in any order.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.engine.detect.detector import Detector, OperatorNode
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Deduplicator
from motet.engine.detect.order import Sides, break_ties
from motet.engine.detect.table_kernels import END, START
from motet.engine.match.closure import closed_background
from motet.engine.runtime.active_subscription import ActiveSubscription, from_snapshot_entry, snapshot_entry
from motet.engine.state.format import state_error
from motet.engine.state.rows import EventContent, StateRows, canonical_rows
from motet.engine.state.snapshot import StateSnapshot, table_name
from motet.jit.compiled import Ints
from motet.language.syntax import Context
from motet.model.batches import RECORDS, Triple
from motet.model.control import ControlState
from motet.model.settings import Settings
from motet.model.timeline import NO_FRONTIER
from motet.ontology.entailment import Reasoner
from motet.plan.builder import PlanBuilder
from motet.plan.graph import PAIRING, Kind, Root, variable_index
from motet.plan.partitioning import BucketLayout

Digests = Mapping[int, str]  # by node

_DELIVERED = "delivered"


class Backgrounds:
    """The graphs of a `ControlState`, which has the current one, with the reasoner for derivation edges."""

    def __init__(self, controls: ControlState) -> None:
        self.controls = controls
        self.initial = controls.background
        self._edge_reasoner: Reasoner | None = None

    @property
    def current(self) -> frozenset[Triple]:
        return self.controls.background

    @property
    def entailment(self) -> str:
        """The entailment of the next event."""
        return self.controls.entailment

    @property
    def requested_entailment(self) -> str | None:
        return self.controls.requested_entailment

    @property
    def edge_reasoner(self) -> Reasoner | None:
        """The reasoner that decides derivation edges; None before the first subscription."""
        if self._edge_reasoner is None and self.controls.edge_background is not None:
            background = closed_background(self.controls.edge_background, self.controls.edge_entailment)
            self._edge_reasoner = background.reasoner
        return self._edge_reasoner

    @property
    def likely_edge_reasoner(self) -> Reasoner:
        """The reasoner that decides derivation edges, or would if a subscription were registered now."""
        return self.edge_reasoner or closed_background(self.current, self.entailment).reasoner

    def fix_edge_background(self) -> Reasoner:
        """Let the current graph decide derivation edges, unless an earlier one does; its reasoner."""
        self.controls.fix_edge_background()
        reasoner = self.edge_reasoner
        assert reasoner is not None
        return reasoner

    def restart(self) -> Backgrounds:
        """The graphs at the beginning of the log, for a dataflow that reads it again."""
        backgrounds = Backgrounds(ControlState(self.initial, self.requested_entailment))
        backgrounds.take_edges(self)
        return backgrounds

    def take_edges(self, other: Backgrounds) -> None:
        """Decide derivation edges as another processor does."""
        self.controls.edge_background = other.controls.edge_background
        self._edge_reasoner = other.edge_reasoner

    def graphs(self) -> dict[str, frozenset[Triple]]:
        """The graphs as they are stored in a state snapshot."""
        edges = self.controls.edge_background
        return {"given": self.initial, "current": self.current, **({} if edges is None else {"feeding": edges})}

    def restore(self, graphs: Mapping[str, frozenset[Triple]]) -> None:
        """The inverse of `graphs`."""
        self.initial, self.controls.background = graphs["given"], graphs["current"]
        self.controls.edge_background = graphs.get("feeding")


class BackfillResult(NamedTuple):
    """The occurrences of a subscription with SINCE in the earlier records, to be emitted with its subscribe record."""

    active: ActiveSubscription
    occurrences: Occurrences


@dataclass(eq=False)
class ProcessorState:
    """All state of a dataflow, which owns it. The names of its tables do not depend on node ids."""

    detector: Detector
    backgrounds: Backgrounds
    active: dict[str, ActiveSubscription] = field(default_factory=dict)  # by name, the newest last
    changed: dict[str, None] = field(default_factory=dict)  # names added or removed since the plan's last update
    has_changes: bool = False  # of subscriptions or background, since then
    backfill_results: list[BackfillResult] = field(default_factory=list)
    detected: list[Occurrences] = field(default_factory=list)  # in a backfill: those of its subscription
    construct_offsets: set[int] = field(default_factory=set)  # of all CONSTRUCT subscriptions so far
    # Active CONSTRUCT subscriptions with SINCE: an event they derive can be late for one downstream subscription and
    # on time for another.
    backfilled_upstreams: set[str] = field(default_factory=set)
    frontier: int = NO_FRONTIER
    last_offset: int = -1  # of the last record that is not just a subscribe record
    has_events: bool = False

    @property
    def controls(self) -> ControlState:
        """What holds after the control records so far, without subscriptions: those are `active`."""
        return self.backgrounds.controls

    def put(self, active: ActiveSubscription) -> None:
        """Make a subscription the last of the active ones."""
        name = active.subscription.name
        self.active.pop(name, None)
        self.active[name] = active
        self._mark_changed(name)

    def remove(self, name: str) -> None:
        """Remove a subscription, if it is active."""
        self.active.pop(name, None)
        self.backfilled_upstreams.discard(name)
        self._mark_changed(name)

    def _mark_changed(self, name: str) -> None:
        self.changed.pop(name, None)
        self.changed[name] = None
        self.has_changes = True

    def take_changes(self) -> list[str]:
        """The names of the subscriptions that were added or removed since the last call, the latest last."""
        changed = list(self.changed)
        self.changed.clear()
        self.has_changes = False
        return changed

    def take_backfill_results(self) -> list[BackfillResult]:
        """The results that are still to be emitted; they are not returned again."""
        results, self.backfill_results = self.backfill_results, []
        return results

    def deduplicators(self) -> dict[str, Deduplicator]:
        """The deduplicators of outputs, by composite subscription that has one."""
        return {
            name: active.output.deduplicator
            for name, active in self.active.items()
            if active.root and active.output and active.output.deduplicator
        }

    def tables(self, digests: Digests) -> dict[str, Occurrences]:
        """All tables by name."""
        tables = {
            table_name(digests[node_id], name): table
            for node_id, operator_node in self.detector.operator_nodes.items()
            for name, table in operator_node.snapshot().items()
        }
        emitted = {table_name(name, _DELIVERED): each.emitted_before for name, each in self.deduplicators().items()}
        return tables | emitted

    def restore_tables(self, tables: Mapping[str, Occurrences], digests: Digests, dictionary: Dictionary) -> None:
        """Replace all tables; they have to be those of the same plan."""
        if set(tables) != set(self.tables(digests)):
            raise state_error("belongs to another plan of the same subscriptions")
        for node_id, operator_node in self.detector.operator_nodes.items():
            stored = {name: tables[table_name(digests[node_id], name)] for name in operator_node.snapshot()}
            operator_node.restore(
                {name: restore_order(operator_node, name, table, dictionary) for name, table in stored.items()}
            )
        for name, deduplicator in self.deduplicators().items():
            deduplicator.emitted_before = tables[table_name(name, _DELIVERED)]

    def variables_by_table(self, digests: Digests) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each table, its node, and the node's variables in its columns."""
        for node_id, operator_node in self.detector.operator_nodes.items():
            for name in operator_node.snapshot():
                yield table_name(digests[node_id], name), node_id, operator_node.column_variables(name)
        for name in self.deduplicators():
            output = self.active[name].output
            assert output is not None
            variables = {projected: variable for variable, projected in output.root.renaming}
            columns = [variables[projected] for projected in output.projected]
            yield table_name(name, _DELIVERED), output.root.node, columns

    def prune_consumed_derived(self) -> None:
        """Drop the derived events that would be late if they were derived again."""
        for active in self.active.values():
            if active.consumed_derived:
                active.prune_consumed_derived(self.frontier)


@dataclass
class SharedPlan:
    """What a dataflow shares with the backfills that run for it: plan, dictionary and partition.

    With a ``layout`` detection is partitioned: a dataflow with a ``bucket`` detects in that bucket.
    """

    builder: PlanBuilder = field(default_factory=PlanBuilder)
    dictionary: Dictionary = field(default_factory=Dictionary)
    layout: BucketLayout | None = None
    bucket: int | None = None
    states: list[ProcessorState] = field(default_factory=list)  # that use the dictionary: the live one, then backfills
    derived_count: int = 0  # of derived events so far
    _roots: dict[str, tuple[Hashable, Root]] = field(default_factory=dict)  # by name: what it was built for, the root
    _new_roots: set[str] = field(default_factory=set)  # names, since the last `remove_unused`

    @property
    def is_backfilling(self) -> bool:
        """Whether a backfill is running."""
        return len(self.states) > 1

    @contextmanager
    def used_by(self, state: ProcessorState) -> Iterator[None]:
        """A backfill with a state of its own."""
        self.states.append(state)
        try:
            yield
        finally:
            self.states.remove(state)

    def copy_plan(self, layout: BucketLayout | None, bucket: int | None) -> SharedPlan:
        """The same plan with an empty dictionary."""
        builder, roots = self.builder.copy(), dict(self._roots)
        return SharedPlan(builder, layout=layout, bucket=bucket, _roots=roots, _new_roots=set(roots))

    def root(self, active: ActiveSubscription) -> Root:
        """The root of a subscription's plan; an existing one is used again."""
        routes = self.layout.routes(active.subscription) if self.layout else None
        key = active.subscription, active.start, active.is_unshared, frozenset(routes.items()) if routes else None
        existing_key, root = self._roots.get(active.subscription.name, (None, None))
        if root is None or existing_key != key:
            root = self.builder.add(active.subscription, active.start, isolated=active.is_unshared, routes=routes)
            self._roots[active.subscription.name] = key, root
            self._new_roots.add(active.subscription.name)
        return root

    def remove_unused(
        self,
        names: Iterable[str],
        active: Mapping[str, ActiveSubscription],
        removed_nodes: Iterable[int],
        used: Container[int],
    ) -> None:
        """Drop removed nodes, and the roots that the active subscriptions do not have.

        Only the roots of the given names, and those built since the last call, are examined.
        """
        self.builder.remove_unused(removed_nodes, used)
        for name in self._new_roots.union(names):
            subscription, (_, root) = active.get(name), self._roots.get(name, (None, None))
            if root is not None and (subscription is None or subscription.root is not root):
                del self._roots[name]
        self._new_roots.clear()

    def compact_dictionary(self) -> None:
        """Drop the strings that no table uses, and renumber the others."""
        operator_nodes = [node for state in self.states for node in state.detector.operator_nodes.values()]
        deduplicators = {each for state in self.states for each in state.deduplicators().values()}
        tables = [table for node in operator_nodes for table in node.snapshot().values()]
        tables += [each.emitted_before for each in deduplicators]
        tables += [result.occurrences for state in self.states for result in state.backfill_results]
        tables += [table for state in self.states for table in state.detected]
        renumber = self.dictionary.compact(tables)
        for node in operator_nodes:
            node.restore({name: renumber(table) for name, table in node.snapshot().items()})
        for deduplicator in deduplicators:
            deduplicator.emitted_before = renumber(deduplicator.emitted_before)
        for state in self.states:
            state.detected = list(map(renumber, state.detected))
            state.backfill_results = [
                result._replace(occurrences=renumber(result.occurrences)) for result in state.backfill_results
            ]


def capture(state: ProcessorState, shared: SharedPlan) -> StateSnapshot:
    """The state as a snapshot; equal states are equal bytes, whatever was planned before."""
    consumed = {
        name: dict(sorted(active.consumed_derived.items()))
        for name, active in state.active.items()
        if active.consumed_derived
    }
    header = {
        "settings": None if state.controls.settings is None else state.controls.settings.to_json(),
        "entailment": state.backgrounds.requested_entailment,
        "frontier": state.frontier,
        "last": state.last_offset,
        "has events": state.has_events,
        "derived": shared.derived_count,
        "deriving": sorted(state.construct_offsets),
        "with triples": shared.dictionary.events.with_triples,
        "shown": consumed,
    }
    subscriptions = {name: snapshot_entry(active) for name, active in state.active.items()}
    rows = canonical_rows(state_rows(state.tables(shared.builder.digests), shared.dictionary))
    return StateSnapshot(header, subscriptions, dict(state.controls.retractions), state.backgrounds.graphs(), rows)


def restore_header(snapshot: StateSnapshot, state: ProcessorState, shared: SharedPlan) -> None:
    """Restore everything but subscriptions and tables, which depend on the plan, into an empty state."""
    header = snapshot.header
    state.backgrounds.restore(snapshot.graphs)
    state.frontier, state.last_offset, state.has_events = header["frontier"], header["last"], header["has events"]
    if header["settings"] is not None:
        state.controls.settings = Settings.from_json(header["settings"])
    state.construct_offsets, state.controls.retractions = set(header["deriving"]), dict(snapshot.retractions)
    shared.derived_count = header["derived"]
    fill_dictionary(shared.dictionary, snapshot.rows, with_triples=header["with triples"])


def restored_subscriptions(snapshot: StateSnapshot) -> Iterator[ActiveSubscription]:
    """The active subscriptions of a snapshot, in the order of their registration."""
    consumed = snapshot.header.get("shown", {})
    for name, entry in sorted(snapshot.subscriptions.items(), key=lambda item: item[1]["offset"]):
        active = from_snapshot_entry(name, entry)
        active.consumed_derived = dict(consumed.get(name, {}))
        yield active


# Rows of a snapshot


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
