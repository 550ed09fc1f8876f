"""The operator nodes of a plan with their state, advanced batch by batch.

A node runs when an operand has new occurrences or the frontier has passed its timer. Nodes that no subscription uses
are dropped with their state; new nodes start empty. A shared node emits for all its subscriptions; occurrences with
events from before a subscription are removed where a node of that subscription reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heappop, heappush

import numpy as np

from motet.engine.detect.absence import NegationOperator, NoOperator, XorOperator
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.iteration import RunOperator, TimesOperator
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import NO_TIMER, Deduplicator, Frontier, IncrementalOperator, OperatorEnv
from motet.engine.detect.pairing import PairingOperator
from motet.engine.detect.stateless import FilterOperator, OrOperator, WithinOperator
from motet.engine.detect.table_kernels import FIRST_OFFSET
from motet.jit.compiled import Ints
from motet.plan.finality import lag, may_duplicate
from motet.plan.graph import PAIRING, Edge, Kind, PlanNode, Start, pair_bound

NodeOccurrences = Mapping[int, Occurrences]  # by node


@dataclass
class OperatorNode:
    """A plan node at run time: its operator and the way its operands' occurrences reach it."""

    node: PlanNode
    operator: IncrementalOperator
    new_operator: Callable[[], IncrementalOperator]  # the same without state
    deduplicator: Deduplicator | None
    variable_maps: list[list[int]]  # for each operand: its variable for each variable of the node
    operand_widths: list[int]  # for each operand: its number of variables
    operand_starts: list[Start | None]  # for each operand: the first occurrences the node may see; None: all
    keeps_operand_variables: bool  # instead of operands being projected to the variables of the node
    lags: list[int] = field(default_factory=list)
    lag: int = 0
    next_timer: int = NO_TIMER

    def column_variables(self, table: str) -> list[str]:
        """The node's variables in the columns of a state table; an empty name for one that the node does not have."""
        if not self.keeps_operand_variables or table == "distinct":
            return list(self.node.variables)
        side = int(table.endswith("right"))
        variables = [""] * self.operand_widths[side]
        for variable, column in zip(self.node.variables, self.variable_maps[side], strict=True):
            if column >= 0:
                variables[column] = variable
        return variables

    def metadata(self) -> dict[str, object]:
        """What the operator computes, its lag, and the size of its state."""
        rows = {name: len(table) for name, table in self.snapshot().items()}
        return {**self.operator.metadata(), "lag": self.lag, "rows": rows}

    def snapshot(self) -> dict[str, Occurrences]:
        """The whole state, by table name."""
        emitted = {"distinct": self.deduplicator.emitted_before} if self.deduplicator else {}
        return {**self.operator.snapshot(), **emitted}

    def prune(self, env: OperatorEnv) -> None:
        """Drop the rows of state that can no longer contribute."""
        self.operator.prune(env)
        if self.deduplicator:
            self.deduplicator.prune(env)

    def copy(self) -> OperatorNode:
        """A node with the same state, which changes independently: tables are replaced, never changed."""
        node = replace(self, operator=self.new_operator(), deduplicator=copy(self.deduplicator))
        node.restore(self.snapshot())
        return node

    def restore(self, tables: Mapping[str, Occurrences]) -> None:
        self.operator.restore(tables)
        if self.deduplicator:
            self.deduplicator.emitted_before = tables["distinct"]


class Detector:
    """Runs operator nodes by the order that `set_order` gives, or by node id. Leaves get their occurrences as input."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.operator_nodes: dict[int, OperatorNode] = {}
        self._parents: dict[int, set[int]] = {}  # by node, leaves included: the nodes it is an operand of
        self._lags: dict[int, int] = {}
        self._order: Mapping[int, int] = {}
        self._timers = TimerQueue()
        self._without_beginning: set[int] = set()  # the NO nodes whose beginning is the least end of the events

    def update(self, added: Iterable[PlanNode], removed: Iterable[PlanNode], nodes: Mapping[int, PlanNode]) -> None:
        """Add nodes, operands first, and remove others; ``nodes`` are all nodes of the plan."""
        for node in removed:
            self.operator_nodes.pop(node.id, None)
            self._without_beginning.discard(node.id)
            del self._parents[node.id], self._lags[node.id]
            for edge in node.children:
                if edge.child in self._parents:
                    self._parents[edge.child].discard(node.id)
        for node in added:
            self._parents[node.id] = set()
            self._lags[node.id] = 0 if node.kind is Kind.LEAF else lag(node, self._operand_lags(node))
            if node.kind is not Kind.LEAF:
                self._add(node, nodes)

    def _add(self, node: PlanNode, nodes: Mapping[int, PlanNode]) -> None:
        operator_node = self.operator_nodes.get(node.id)
        if operator_node is None:
            operator_node = self.operator_nodes[node.id] = _operator_node(node, nodes)
        for edge in node.children:
            self._parents[edge.child].add(node.id)
        if isinstance(operator_node.operator, NoOperator) and operator_node.operator.begins_with_event:
            self._without_beginning.add(node.id)
        self._timers.put(node.id, operator_node.next_timer)
        self._apply_lags(operator_node)

    def adopt(self, other: Detector, node_ids: Collection[int]) -> None:
        """Take over some operator nodes with their state, before `update` adds them here."""
        adopted = {node_id: node for node_id, node in other.operator_nodes.items() if node_id in node_ids}
        self.operator_nodes.update(adopted)

    def set_order(self, nodes: Sequence[PlanNode], lags: Mapping[int, int]) -> None:
        """Set the lags of all nodes, and the order in which they run: by node id if ``nodes`` is empty.

        Nodes that are added later run after these.
        """
        self._order = {node.id: rank for rank, node in enumerate(nodes)}
        self._lags = {**lags}
        for node_id in lags:
            if node_id in self.operator_nodes:
                self._apply_lags(self.operator_nodes[node_id])

    def _apply_lags(self, operator_node: OperatorNode) -> None:
        lags, lag_ = self._operand_lags(operator_node.node), self._lags[operator_node.node.id]
        if (operator_node.lags, operator_node.lag) != (lags, lag_):
            operator_node.lags, operator_node.lag = lags, lag_
            operator_node.next_timer = -NO_TIMER  # run it once: with other lags more can be final
            self._timers.put(operator_node.node.id, operator_node.next_timer)

    def _operand_lags(self, node: PlanNode) -> list[int]:
        return [self._lags[edge.child] for edge in node.children]

    def advance(self, leaves: NodeOccurrences, frontier: Frontier, roots: Container[int]) -> DetectorRun:
        """Run the nodes that follow from new occurrences of leaves and from the frontier, while the result is read."""
        return DetectorRun(self, frontier, roots, dict(leaves), [*leaves, *self._due_nodes(frontier)])

    def see_ends(self, ends: Sequence[int | None] | Ints) -> None:
        """Take in the ends of the visible published events of the next batch, matched or not."""
        if not self._without_beginning or not len(ends):
            return
        least = int(np.asarray(ends, np.int64).min())
        for node_id in self._without_beginning:
            operator_node = self.operator_nodes[node_id]
            assert isinstance(operator_node.operator, NoOperator)
            operator_node.operator.see_end(least)
            operator_node.next_timer = min(operator_node.next_timer, least)
            self._timers.put(node_id, operator_node.next_timer)

    def _due_nodes(self, frontier: Frontier) -> Iterator[int]:
        """The nodes whose timer the frontier has passed."""
        for node_id in self._timers.pop_due(frontier.current):
            operator_node = self.operator_nodes.get(node_id)
            if operator_node is not None and frontier.current > operator_node.next_timer:
                yield node_id
            elif operator_node is not None:
                self._timers.put(node_id, operator_node.next_timer)

    def prune(self, frontier: Frontier) -> None:
        """Drop the state of nodes that can no longer contribute; nodes that are due do so when they run."""
        for node in self.operator_nodes.values():
            if frontier.current <= node.next_timer:
                node.prune(OperatorEnv(frontier, self.dictionary, node.lags, node.lag))

    @property
    def earliest_timer(self) -> int:
        """An instant that the frontier must pass before a node runs without input."""
        return self._timers.earliest

    def probe(self, frontier: Frontier, roots: Container[int]) -> DetectorRun:
        """As `advance` without new occurrences, for copies of all nodes: the state stays as it is."""
        detector = Detector(self.dictionary)
        detector.operator_nodes = {node_id: node.copy() for node_id, node in self.operator_nodes.items()}
        detector._parents, detector._lags, detector._order = self._parents, self._lags, self._order
        return DetectorRun(detector, frontier, roots, {}, self.operator_nodes)

    def lag_of(self, node_id: int) -> int:
        return self._lags[node_id]

    def ranked(self, node_id: int) -> tuple[int, int]:
        """The position of a node in the order of running, and its id."""
        return self._order.get(node_id, len(self._order) + node_id), node_id

    def parents(self, node_id: int) -> Iterable[int]:
        """The nodes that a node is an operand of."""
        return self._parents[node_id]

    def run(self, operator_node: OperatorNode, occurrences: NodeOccurrences, frontier: Frontier) -> Occurrences:
        """The new occurrences of a node, from those of its operands."""
        env = OperatorEnv(frontier, self.dictionary, operator_node.lags, operator_node.lag)
        result = operator_node.operator.advance(_inputs(operator_node, occurrences), env)
        if operator_node.deduplicator is not None:
            result = operator_node.deduplicator.advance(result, env)
        operator_node.next_timer = operator_node.operator.next_timer(env)
        self._timers.put(operator_node.node.id, operator_node.next_timer)
        return result


class DetectorRun:
    """The root nodes with new occurrences, in the order of running: nodes run until the next one is reached.

    Before the next one is requested, occurrences of leaves that follow from those of the last one can be added.
    """

    def __init__(
        self,
        detector: Detector,
        frontier: Frontier,
        roots: Container[int],
        leaves: dict[int, Occurrences],
        node_ids: Iterable[int],
    ) -> None:
        self._detector = detector
        self._frontier = frontier
        self._roots = roots
        self._occurrences = leaves
        self._scheduled: set[int] = set()
        self._queue: list[tuple[int, int]] = []
        for node_id in node_ids:
            self._schedule(node_id)

    def add(self, leaves: NodeOccurrences) -> None:
        """Add occurrences of leaves that have not run yet."""
        add_occurrences(self._occurrences, leaves)
        for leaf in leaves:
            self._schedule(leaf)

    def _schedule(self, node_id: int) -> None:
        if node_id not in self._scheduled:
            self._scheduled.add(node_id)
            heappush(self._queue, self._detector.ranked(node_id))

    def __iter__(self) -> Iterator[tuple[int, Occurrences]]:
        detector, occurrences = self._detector, self._occurrences
        while self._queue:
            node_id = heappop(self._queue)[1]
            operator_node = detector.operator_nodes.get(node_id)
            if operator_node is not None:
                occurrences[node_id] = detector.run(operator_node, occurrences, self._frontier)
            if len(occurrences[node_id]):
                if node_id in self._roots:
                    yield node_id, occurrences[node_id]
                for parent in detector.parents(node_id):
                    self._schedule(parent)


def add_occurrences(leaves: dict[int, Occurrences], added: NodeOccurrences) -> None:
    """Append occurrences, by leaf, to those that are there."""
    for leaf, table in added.items():
        leaves[leaf] = concatenate([leaves[leaf], table]) if leaf in leaves else table


def _inputs(operator_node: OperatorNode, occurrences: NodeOccurrences) -> list[Occurrences]:
    """The new occurrences of each operand."""
    keeps_variables, inputs = operator_node.keeps_operand_variables, []
    for operand, edge in enumerate(operator_node.node.children):
        variable_map, start = operator_node.variable_maps[operand], operator_node.operand_starts[operand]
        if edge.child in occurrences:
            table = occurrences[edge.child]
            visible = table if start is None else table.take(table.columns[FIRST_OFFSET] > start.offset)
            inputs.append(visible if keeps_variables else visible.project(variable_map))
        else:
            width = operator_node.operand_widths[operand] if keeps_variables else len(variable_map)
            inputs.append(empty_table(width, with_members=operator_node.node.with_members))
    return inputs


class TimerQueue:
    """The nodes that have to run without input once the frontier has passed an instant.

    At most one valid entry for each node, with its earliest instant; later entries of the node are ignored.

    >>> timers = TimerQueue()
    >>> for node_id, instant in ((1, 30), (2, 10), (1, 20), (2, 40)):
    ...     timers.put(node_id, instant)
    >>> timers.pop_due(20), timers.pop_due(21), timers.pop_due(50)
    ([2], [1], [])
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # (instant, node), a heap
        self._earliest: dict[int, int] = {}  # by node: the instant of its valid entry

    def put(self, node_id: int, instant: int) -> None:
        """Set a node's timer, unless it has an earlier one."""
        if instant < self._earliest.get(node_id, NO_TIMER):
            self._earliest[node_id] = instant
            heappush(self._entries, (instant, node_id))

    @property
    def earliest(self) -> int:
        """An instant that no timer is before; NO_TIMER without any."""
        return self._entries[0][0] if self._entries else NO_TIMER

    def pop_due(self, frontier: int) -> list[int]:
        """Remove the timers that the frontier has passed and return their nodes."""
        due = []
        while self._entries and self._entries[0][0] < frontier:
            instant, node_id = heappop(self._entries)
            if self._earliest.get(node_id) == instant:
                del self._earliest[node_id]
                due.append(node_id)
        return due


def _operator_node(node: PlanNode, nodes: Mapping[int, PlanNode]) -> OperatorNode:
    width = len(node.variables)
    with_members = node.with_members
    deduplicator = (
        Deduplicator(width, pairs=node.keeps_sides, with_members=with_members) if may_duplicate(node, nodes) else None
    )
    children = [nodes[edge.child] for edge in node.children]
    variable_maps = [_variable_map(node, edge, child) for edge, child in zip(node.children, children, strict=True)]
    starts = [node.start if _may_predate(child) and node.owner is None else None for child in children]
    widths = [len(child.variables) for child in children]
    is_pairing = node.kind in PAIRING
    if is_pairing:
        new_operator: Callable[[], IncrementalOperator] = partial(PairingOperator, node, variable_maps, widths)
    else:
        new_operator = partial(_operator, node, nodes)
    return OperatorNode(node, new_operator(), new_operator, deduplicator, variable_maps, widths, starts, is_pairing)


def _may_predate(node: PlanNode) -> bool:
    """Whether its new occurrences may have older events; those of a leaf have only the newest one."""
    return node.start is None and node.kind is not Kind.LEAF


def _operator(node: PlanNode, nodes: Mapping[int, PlanNode]) -> IncrementalOperator:
    if node.kind in (Kind.UNLESS, Kind.WITHOUT):
        return NegationOperator(node, pair_bound(node, nodes))
    operator = _OPERATORS.get(node.kind)
    return operator(node) if operator else OrOperator(node)


_OPERATORS: Mapping[Kind, Callable[[PlanNode], IncrementalOperator]] = {
    Kind.XOR: XorOperator,
    Kind.NO: NoOperator,
    Kind.TIMES: TimesOperator,
    Kind.RUN: RunOperator,
    Kind.WITHIN: WithinOperator,
    Kind.FILTER: FilterOperator,
}


def _variable_map(node: PlanNode, edge: Edge, child: PlanNode) -> list[int]:
    """For each variable of the node its index among the operand's variables; -1 for one that the operand lacks."""
    indexes = {parent: child.variables.index(name) for name, parent in edge.renaming}
    return [indexes.get(name, -1) for name in node.variables]
