"""The operator nodes of a plan with their state, advanced batch by batch.

A node runs when an operand has new occurrences or the frontier has passed its timer. Nodes that no subscription uses
are dropped with their state; new nodes start empty. A shared node emits for all its subscriptions; occurrences with
events from before a subscription are removed where a node of that subscription reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from motet.engine.detect.absence import NegationOperator, NoOperator, XorOperator
from motet.engine.detect.columns import FIRST_OFFSET
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Deduplicator
from motet.engine.detect.frontier import Frontier
from motet.engine.detect.iteration import RunOperator, TimesOperator
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.operator import NO_TIMER, IncrementalOperator, OperatorEnv
from motet.engine.detect.pairing import PairingOperator
from motet.engine.detect.stateless import FilterOperator, OrOperator, WithinOperator
from motet.engine.detect.timers import TimerQueue
from motet.jit.compiled import Ints
from motet.plan.finality import lag, may_duplicate
from motet.plan.graph import PAIRING, Edge, Kind, PlanNode, Start, pair_bound

NodeOccurrences = Mapping[int, Occurrences]  # by node


@dataclass
class OperatorNode:
    """A plan node at run time: its operator and the way its operands' occurrences reach it."""

    node: PlanNode
    operator: IncrementalOperator
    deduplicator: Deduplicator | None
    variable_maps: list[list[int]]  # for each operand: its variable for each variable of the node
    operand_widths: list[int]  # for each operand: its number of variables
    operand_starts: list[Start | None]  # for each operand: the first occurrences the node may see; None: all
    lags: list[int] = field(default_factory=list)
    lag: int = 0
    next_timer: int = NO_TIMER

    @property
    def keeps_operand_variables(self) -> bool:
        """Whether operands keep their variables instead of being projected to those of the node."""
        return self.node.kind in PAIRING

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

    def tables(self) -> dict[str, Occurrences]:
        """The whole state, by table name."""
        emitted = {"distinct": self.deduplicator.emitted_before} if self.deduplicator else {}
        return {**self.operator.tables(), **emitted}

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

    def advance(
        self, leaves: NodeOccurrences, frontier: Frontier, on_occurrences: Callable[[int, Occurrences], NodeOccurrences]
    ) -> None:
        """Run the nodes that follow from new occurrences of leaves and from the frontier.

        ``on_occurrences`` is called for every node with new occurrences, leaves included, before the next one runs. It
        returns the occurrences of other leaves that derived events add.
        """
        ready = ReadyQueue(self._order, [*leaves, *self._due_nodes(frontier)])
        self._run_ready(ready, dict(leaves), frontier, on_occurrences)

    def _run_ready(
        self,
        ready: ReadyQueue,
        occurrences: dict[int, Occurrences],
        frontier: Frontier,
        on_occurrences: Callable[[int, Occurrences], NodeOccurrences],
    ) -> None:
        for node_id in ready:
            if node_id in self.operator_nodes:
                occurrences[node_id] = self._run(self.operator_nodes[node_id], occurrences, frontier)
            if len(occurrences[node_id]):
                for leaf, table in on_occurrences(node_id, occurrences[node_id]).items():
                    occurrences[leaf] = concatenate([occurrences[leaf], table]) if leaf in occurrences else table
                    ready.add(leaf)
                for parent in self._parents[node_id]:
                    ready.add(parent)

    def see_ends(self, ends: Ints) -> None:
        """Take in the ends of the visible published events of the next batch, matched or not."""
        if not self._without_beginning or not len(ends):
            return
        least = int(ends.min())
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
        """Let the nodes that are not due drop state that can no longer contribute; the others do so when they run."""
        for operator_node in self.operator_nodes.values():
            if frontier.current <= operator_node.next_timer:
                self._run(operator_node, {}, frontier)

    @property
    def earliest_timer(self) -> int:
        """An instant that the frontier must pass before a node runs without input."""
        return self._timers.earliest

    def probe(self, frontier: Frontier, on_occurrences: Callable[[int, Occurrences], NodeOccurrences]) -> None:
        """As `advance` without new occurrences, for all nodes; the state is afterwards as before."""
        saved = [(node, node.tables(), node.next_timer) for node in self.operator_nodes.values()]
        occurrences: dict[int, Occurrences] = {}
        ready = ReadyQueue(self._order, self.operator_nodes)
        try:
            self._run_ready(ready, occurrences, frontier, on_occurrences)
        finally:
            for operator_node, tables, next_timer in saved:
                operator_node.restore(tables)
                operator_node.next_timer = next_timer

    def lag_of(self, node_id: int) -> int:
        return self._lags[node_id]

    def _run(self, operator_node: OperatorNode, occurrences: NodeOccurrences, frontier: Frontier) -> Occurrences:
        env = OperatorEnv(frontier, self.dictionary, operator_node.lags, operator_node.lag)
        result = operator_node.operator.advance([*self._inputs(operator_node, occurrences)], env)
        if operator_node.deduplicator is not None:
            result = operator_node.deduplicator.advance(result, env)
        operator_node.next_timer = operator_node.operator.next_timer(env)
        self._timers.put(operator_node.node.id, operator_node.next_timer)
        return result

    def _inputs(self, operator_node: OperatorNode, occurrences: NodeOccurrences) -> Iterable[Occurrences]:
        for operand, edge in enumerate(operator_node.node.children):
            variable_map, start = operator_node.variable_maps[operand], operator_node.operand_starts[operand]
            if edge.child in occurrences:
                table = occurrences[edge.child]
                visible = table if start is None else table.take(table.columns[FIRST_OFFSET] > start.offset)
                yield visible if operator_node.keeps_operand_variables else visible.project(variable_map)
            else:
                keeps_variables = operator_node.keeps_operand_variables
                width = operator_node.operand_widths[operand] if keeps_variables else len(variable_map)
                yield empty_table(width, with_members=operator_node.node.with_members)


class ReadyQueue:
    """Nodes to run, each once, by their rank and then, without a rank, by id; more can be added during iteration.

    >>> list(ReadyQueue({7: 0, 2: 1}, [1, 2, 7]))
    [7, 2, 1]
    """

    def __init__(self, order: Mapping[int, int], node_ids: Iterable[int]) -> None:
        self._order = order
        self._added: set[int] = set()
        self._queue: list[tuple[int, int]] = []
        for node_id in node_ids:
            self.add(node_id)

    def add(self, node_id: int) -> None:
        if node_id not in self._added:
            self._added.add(node_id)
            heappush(self._queue, (self._order.get(node_id, len(self._order) + node_id), node_id))

    def __iter__(self) -> Iterator[int]:
        while self._queue:
            yield heappop(self._queue)[1]


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
    operator = PairingOperator(node, variable_maps, widths) if node.kind in PAIRING else _operator(node, nodes)
    return OperatorNode(node, operator, deduplicator, variable_maps, widths, starts)


def _may_predate(node: PlanNode) -> bool:
    """Whether its new occurrences may have older events; those of a leaf have only the newest one."""
    return node.start is None and node.kind is not Kind.LEAF


def _operator(node: PlanNode, nodes: Mapping[int, PlanNode]) -> IncrementalOperator:
    if node.kind in (Kind.UNLESS, Kind.WITHOUT):
        return NegationOperator(node, pair_bound(node, nodes))
    operator = _OPERATORS.get(node.kind)
    return operator(node) if operator else OrOperator()


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
