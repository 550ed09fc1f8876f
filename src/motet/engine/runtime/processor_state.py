"""The state of a processor, the plan and dictionary it shares with its backfills, and both as a state snapshot."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from motet.engine.detect.detector import Detector
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Deduplicator
from motet.engine.detect.occurrences import Occurrences
from motet.engine.runtime.active_subscription import ActiveSubscription, Backfill, from_snapshot_entry, snapshot_entry
from motet.engine.runtime.backgrounds import Backgrounds
from motet.engine.state.format import state_error
from motet.engine.state.restore import fill_dictionary, restore_order, state_rows
from motet.engine.state.rows import canonical_rows
from motet.engine.state.snapshot import StateSnapshot, table_name
from motet.model.control import ControlState
from motet.model.settings import Settings
from motet.model.timeline import NO_FRONTIER
from motet.plan.builder import PlanBuilder
from motet.plan.graph import Root
from motet.plan.partitioning import BucketLayout

Digests = Mapping[int, str]  # by node

_DELIVERED = "delivered"


@dataclass(eq=False)
class ProcessorState:
    """All state of a processor. The names of its tables do not depend on node ids."""

    detector: Detector
    controls: ControlState  # without subscriptions: those are `active`
    active: dict[str, ActiveSubscription] = field(default_factory=dict)  # by name
    backfill: Backfill | None = None  # that this processor runs
    construct_offsets: set[int] = field(default_factory=set)  # of all CONSTRUCT subscriptions so far
    frontier: int = NO_FRONTIER
    last_offset: int = -1  # of the last record that is not just a subscribe record
    has_events: bool = False

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
            for name, table in operator_node.tables().items()
        }
        emitted = {table_name(name, _DELIVERED): each.emitted_before for name, each in self.deduplicators().items()}
        return tables | emitted

    def restore_tables(self, tables: Mapping[str, Occurrences], digests: Digests, dictionary: Dictionary) -> None:
        """Replace all tables; they have to be those of the same plan."""
        if set(tables) != set(self.tables(digests)):
            raise state_error("belongs to another plan of the same subscriptions")
        for node_id, operator_node in self.detector.operator_nodes.items():
            stored = {name: tables[table_name(digests[node_id], name)] for name in operator_node.tables()}
            operator_node.restore(
                {name: restore_order(operator_node, name, table, dictionary) for name, table in stored.items()}
            )
        for name, deduplicator in self.deduplicators().items():
            deduplicator.emitted_before = tables[table_name(name, _DELIVERED)]

    def variables_by_table(self, digests: Digests) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each table, its node, and the node's variables in its columns."""
        for node_id, operator_node in self.detector.operator_nodes.items():
            for name in operator_node.tables():
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
    """The plan and the dictionary of a processor and of the backfills that run for it, and the states that use them."""

    builder: PlanBuilder = field(default_factory=PlanBuilder)
    dictionary: Dictionary = field(default_factory=Dictionary)
    states: list[ProcessorState] = field(default_factory=list)
    derived_count: int = 0  # of derived events so far
    _roots: dict[str, tuple[Hashable, Root]] = field(default_factory=dict)  # by name: what it was built for, the root
    _new_roots: set[str] = field(default_factory=set)  # names, since the last `remove_unused`

    @property
    def is_backfilling(self) -> bool:
        """Whether a second processor runs a backfill."""
        return len(self.states) > 1

    def copy_plan(self) -> SharedPlan:
        """The same plan with an empty dictionary, for a processor that is restored."""
        return SharedPlan(self.builder.copy(), _roots=dict(self._roots), _new_roots=set(self._roots))

    def root(self, active: ActiveSubscription, layout: BucketLayout | None) -> Root:
        """The root of a subscription's plan; an existing one is used again."""
        routes = layout.routes(active.subscription) if layout else None
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
        deduplicators = {id(each): each for state in self.states for each in state.deduplicators().values()}.values()
        backfills = [state.backfill for state in self.states if state.backfill]
        all_active = {id(active): active for state in self.states for active in state.active.values()}.values()
        results = [(active, active.backfill_result) for active in all_active if active.backfill_result is not None]
        tables = [table for node in operator_nodes for table in node.tables().values()]
        tables += [each.emitted_before for each in deduplicators]
        tables += [table for backfill in backfills for table in backfill.results]
        renumber = self.dictionary.compact([*tables, *(table for _, table in results)])
        for node in operator_nodes:
            node.restore({name: renumber(table) for name, table in node.tables().items()})
        for deduplicator in deduplicators:
            deduplicator.emitted_before = renumber(deduplicator.emitted_before)
        for backfill in backfills:
            backfill.results = list(map(renumber, backfill.results))
        for active, table in results:
            active.backfill_result = renumber(table)


def capture(state: ProcessorState, shared: SharedPlan, backgrounds: Backgrounds) -> StateSnapshot:
    """The state as a snapshot; equal states are equal bytes, whatever was planned before."""
    consumed = {
        name: dict(sorted(active.consumed_derived.items()))
        for name, active in state.active.items()
        if active.consumed_derived
    }
    header = {
        "settings": None if state.controls.settings is None else state.controls.settings.to_json(),
        "entailment": backgrounds.requested_entailment,
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
    return StateSnapshot(header, subscriptions, dict(state.controls.retractions), backgrounds.graphs(), rows)


def restore_header(snapshot: StateSnapshot, state: ProcessorState, shared: SharedPlan) -> None:
    """Restore everything but subscriptions and tables, which depend on the plan, into an empty state."""
    header = snapshot.header
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
