"""The operators of a plan with their state, driven batch by batch: `detect` in the design.

A node is advanced when an operand has found something or the frontier has passed what it waits for. Nodes that nobody
uses any more are dropped with their state; new ones begin empty. Occurrences of nodes that serve every subscription are
kept from those that began after one of their events.
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
from motet.engine.detect.operator import NO_TIMER, Operator, OperatorEnv
from motet.engine.detect.pairing import PairingOperator
from motet.engine.detect.stateless import FilterOperator, OrOperator, WithinOperator
from motet.engine.detect.timers import TimerQueue
from motet.plan.lags import lag
from motet.plan.nodes import PAIRING, Edge, Kind, Node, Start, pair_bound
from motet.plan.repeats import repeats

NodeOccurrences = Mapping[int, Occurrences]  # by node


@dataclass
class OperatorNode:
    """A node with its operator."""

    node: Node
    operator: Operator
    deduplicator: Deduplicator | None
    variable_maps: list[list[int]]  # for each operand: its variable, for each of the node's
    operand_widths: list[int]  # for each operand: how many variables it has
    operand_starts: list[Start | None]  # for each operand: which occurrences the node may see; None: all
    lags: list[int] = field(default_factory=list)
    lag: int = 0
    next_timer: int = NO_TIMER

    @property
    def keeps_operand_variables(self) -> bool:
        """Operands come in their own variables, not in the node's."""
        return self.node.kind in PAIRING

    def column_variables(self, table: str) -> list[str]:
        """The node's variables that the columns of a table hold; empty names for what the node does not know."""
        if not self.keeps_operand_variables or table == "distinct":
            return list(self.node.variables)
        side = int(table.endswith("right"))
        found = [""] * self.operand_widths[side]
        for variable, source in zip(self.node.variables, self.variable_maps[side], strict=True):
            if source >= 0:
                found[source] = variable
        return found

    def tables(self) -> dict[str, Occurrences]:
        """All that is remembered."""
        seen = {"distinct": self.deduplicator.emitted_before} if self.deduplicator else {}
        return {**self.operator.tables(), **seen}

    def restore(self, tables: Mapping[str, Occurrences]) -> None:
        self.operator.load(tables)
        if self.deduplicator:
            self.deduplicator.emitted_before = tables["distinct"]


class Detector:
    """Nodes of leaves are not run but fed. Nodes run in the order of their numbers, unless they are ranked."""

    def __init__(self, names: Dictionary) -> None:
        self.dictionary = names
        self.operator_nodes: dict[int, OperatorNode] = {}
        self._above: dict[int, set[int]] = {}  # by node, leaves included: those it is an operand of
        self._lags: dict[int, int] = {}
        self._ranks: Mapping[int, int] = {}
        self._agenda = TimerQueue()

    def update(self, come: Iterable[Node], gone: Iterable[Node], nodes: Mapping[int, Node]) -> None:
        """Run some more nodes, whose operands come first, and some no longer; ``nodes`` are all there are."""
        for node in gone:
            self.operator_nodes.pop(node.id, None)
            del self._above[node.id], self._lags[node.id]
            for edge in node.children:
                if edge.child in self._above:
                    self._above[edge.child].discard(node.id)
        for node in come:
            self._above[node.id] = set()
            self._lags[node.id] = 0 if node.kind is Kind.LEAF else lag(node, self._below(node))
            if node.kind is not Kind.LEAF:
                self._run(node, nodes)

    def _run(self, node: Node, nodes: Mapping[int, Node]) -> None:
        running = self.operator_nodes.get(node.id)
        if running is None:
            running = self.operator_nodes[node.id] = _started(node, nodes)
        for edge in node.children:
            self._above[edge.child].add(node.id)
        self._agenda.put(node.id, running.next_timer)
        self._wait(running)

    def set_order(self, nodes: Sequence[Node], lags: Mapping[int, int]) -> None:
        """Let all nodes have these lags, and run them in this order or, without one, in that of their numbers.

        Those that come later run behind them.
        """
        self._ranks = {node.id: rank for rank, node in enumerate(nodes)}
        self._lags = {**lags}
        for id_ in lags:
            if id_ in self.operator_nodes:
                self._wait(self.operator_nodes[id_])

    def _wait(self, running: OperatorNode) -> None:
        """Wait as long as the lags say."""
        below, own = self._below(running.node), self._lags[running.node.id]
        if (running.lags, running.lag) != (below, own):
            running.lags, running.lag = below, own
            running.next_timer = -NO_TIMER  # something else may be due now
            self._agenda.put(running.node.id, running.next_timer)

    def _below(self, node: Node) -> list[int]:
        return [self._lags[edge.child] for edge in node.children]

    def advance(
        self, leaves: NodeOccurrences, frontier: Frontier, at: Callable[[int, Occurrences], NodeOccurrences]
    ) -> None:
        """Given what the leaves have newly found, find what follows.

        ``at`` is told of every node that has found something, leaves included, before the next one is run; it returns
        what that adds to leaves further on.
        """
        found = dict(leaves)
        turns = ReadyQueue(self._ranks, [*leaves, *self._due(frontier)])
        for id_ in turns:
            if id_ in self.operator_nodes:
                found[id_] = self._advanced(self.operator_nodes[id_], found, frontier)
            if len(found[id_]):
                for leaf, more in at(id_, found[id_]).items():
                    found[leaf] = concatenate([found[leaf], more]) if leaf in found else more
                    turns.add(leaf)
                for above in self._above[id_]:
                    turns.add(above)

    def _due(self, frontier: Frontier) -> Iterator[int]:
        """The nodes that have something to do without input."""
        for id_ in self._agenda.pop_due(frontier.current):
            running = self.operator_nodes.get(id_)
            if running is not None and frontier.current > running.next_timer:
                yield id_
            elif running is not None:
                self._agenda.put(id_, running.next_timer)

    def prune(self, frontier: Frontier) -> None:
        """Let nodes that have nothing to do forget what cannot matter any more; the others will when they are run."""
        for running in self.operator_nodes.values():
            if frontier.current <= running.next_timer:
                self._advanced(running, {}, frontier)

    def lag_of(self, id_: int) -> int:
        return self._lags[id_]

    def _advanced(self, running: OperatorNode, found: NodeOccurrences, frontier: Frontier) -> Occurrences:
        now = OperatorEnv(frontier, self.dictionary, running.lags, running.lag)
        result = running.operator.advance([*self._inputs(running, found)], now)
        if running.deduplicator is not None:
            result = running.deduplicator.advance(result, now)
        running.next_timer = running.operator.due(now)
        self._agenda.put(running.node.id, running.next_timer)
        return result

    def _inputs(self, running: OperatorNode, found: NodeOccurrences) -> Iterable[Occurrences]:
        for place, edge in enumerate(running.node.children):
            mapping, start = running.variable_maps[place], running.operand_starts[place]
            if edge.child in found:
                table = found[edge.child]
                seen = table if start is None else table.take(table.columns[FIRST_OFFSET] > start.offset)
                yield seen if running.keeps_operand_variables else seen.project(mapping)
            else:
                width = running.operand_widths[place] if running.keeps_operand_variables else len(mapping)
                yield empty_table(width, with_members=running.node.with_members)


class ReadyQueue:
    """Nodes, each once and in the order of their ranks, some of which come up on the way; then those without a rank.

    >>> list(ReadyQueue({7: 0, 2: 1}, [1, 2, 7]))
    [7, 2, 1]
    """

    def __init__(self, ranks: Mapping[int, int], ids: Iterable[int]) -> None:
        self._ranks = ranks
        self._known: set[int] = set()
        self._waiting: list[tuple[int, int]] = []
        for id_ in ids:
            self.add(id_)

    def add(self, id_: int) -> None:
        if id_ not in self._known:
            self._known.add(id_)
            heappush(self._waiting, (self._ranks.get(id_, len(self._ranks) + id_), id_))

    def __iter__(self) -> Iterator[int]:
        while self._waiting:
            yield heappop(self._waiting)[1]


def _started(node: Node, known: Mapping[int, Node]) -> OperatorNode:
    width = len(node.variables)
    distinct = Deduplicator(width, pairs=node.pairs, with_members=node.with_members) if repeats(node, known) else None
    children = [known[edge.child] for edge in node.children]
    mappings = [_mapping(node, edge, child) for edge, child in zip(node.children, children, strict=True)]
    starts = [node.start if _may_reach_back(child) and node.owner is None else None for child in children]
    widths = [len(child.variables) for child in children]
    operator = PairingOperator(node, mappings, widths) if node.kind in PAIRING else _operator(node, known)
    return OperatorNode(node, operator, distinct, mappings, widths, starts)


def _may_reach_back(node: Node) -> bool:
    """Whether what it finds now may contain events from before now; a leaf finds what has just come."""
    return node.start is None and node.kind is not Kind.LEAF


def _operator(node: Node, known: Mapping[int, Node]) -> Operator:  # noqa: PLR0911  (one return for each kind)
    match node.kind:
        case Kind.UNLESS | Kind.WITHOUT:
            return NegationOperator(node, pair_bound(node, known))
        case Kind.XOR:
            return XorOperator(node)
        case Kind.NO:
            return NoOperator(node)
        case Kind.TIMES:
            return TimesOperator(node)
        case Kind.RUN:
            return RunOperator(node)
        case Kind.WITHIN:
            return WithinOperator(node)
        case Kind.FILTER:
            return FilterOperator(node)
    return OrOperator()


def _mapping(node: Node, edge: Edge, child: Node) -> list[int]:
    """For each of the node's variables its place among the operand's; -1 for those the operand does not bind."""
    source = {parent: child.variables.index(name) for name, parent in edge.names}
    return [source.get(name, -1) for name in node.variables]
