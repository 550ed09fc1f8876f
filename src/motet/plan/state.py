"""Bounds on the state of each node: which occurrences it keeps, per which variables, and for how long.

Durations are measured in event time, behind the frontier: older occurrences can no longer contribute to a result. In
every context but unrestricted, occurrences also stay pending until the frontier has passed their end, because pairs are
made in completion order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from motet.language.syntax import Context
from motet.model.intervals import Relation
from motet.model.times import format_duration
from motet.plan.graph import ITERATION, LEFT_FIRST, PAIRING, Kind, Plan, PlanNode, pair_bound


@dataclass(frozen=True, slots=True)
class StateBound:
    """``what`` is kept for at most ``span`` microseconds (None: without end), apart for each value of ``per``.

    ``delay`` is how long after its end an occurrence of the node is known at the latest, apart from lateness.
    """

    what: str = ""
    per: tuple[str, ...] = ()
    duration: int | None = 0
    lag: int = 0
    gap: int | None = None  # that ends it before

    @property
    def is_empty(self) -> bool:
        return not self.what

    def text(self, names: Mapping[str, str]) -> str:
        """
        >>> StateBound("the open run", ("v1",), 300_000_000).text({"v1": "room"})
        'the open run per ?room, for 5 min'
        """
        if self.is_empty:
            return "nothing"
        key = "".join(f" ?{names.get(variable, variable)}" for variable in self.per)
        return f"{self.what}{' per' + key if key else ''}, {self._lasting()}"

    def _lasting(self) -> str:
        if self.gap is not None:
            most = "however long" if self.duration is None else f"at most {format_duration(self.duration)}"
            return f"until {format_duration(self.gap)} of silence, {most}"
        return "never forgotten" if self.duration is None else f"for {format_duration(self.duration)}"


def state_bounds(plan: Plan) -> tuple[StateBound, ...]:
    """The state of every node, by its id.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a BEFORE b WITHIN 5 s CONTEXT chronicle"
    >>> state_bounds(build_plan(parse(text)))[2].text({})
    'open occurrences of the left side, for 5 s'
    """
    found: list[StateBound] = []
    for node in plan.nodes:
        found.append(_state(plan, node, [found[edge.child] for edge in node.children]))
    return tuple(found)


def _state(plan: Plan, node: PlanNode, children: list[StateBound]) -> StateBound:
    delay = max((child.lag for child in children), default=0)
    if node.kind in PAIRING:
        return _pairing(node, delay)
    if node.kind in ITERATION:
        return _iteration(node, delay)
    return _windowed(plan, node, children, delay)


def _windowed(plan: Plan, node: PlanNode, children: list[StateBound], delay: int) -> StateBound:
    window = node.operator.window or 0
    match node.kind:
        case Kind.XOR:
            return StateBound("occurrences of both sides", node.joined_variables, window + delay, window + delay)
        case Kind.UNLESS:
            delay = max(children[0].lag, window + children[1].lag)
            return StateBound("undecided occurrences and what contradicts them", node.joined_variables, delay, delay)
        case Kind.WITHOUT:
            span = _longer(pair_bound(node, plan.nodes), delay)
            return StateBound("occurrences of the right side", node.joined_variables, span, delay)
        case Kind.NO:
            return StateBound("start points and what ends the silence", (), window + delay, delay)
    return StateBound(lag=delay)


def _pairing(node: PlanNode, delay: int) -> StateBound:
    span = _longer(node.bound, delay)
    match node.context:
        case Context.UNRESTRICTED:  # results do not wait for the frontier, so either side may come first
            return StateBound("every occurrence of both sides", node.joined_variables, span, delay)
        case Context.RECENT:
            return StateBound(
                f"the latest occurrence of {_sides(node, 'each side')}", node.joined_variables, span, delay
            )
    return StateBound(f"open occurrences of {_sides(node, 'both sides')}", node.joined_variables, span, delay)


def _sides(node: PlanNode, both: str) -> str:
    relation = node.operator.relation
    if relation is None or relation is Relation.EQUALS:
        return both
    return "the left side" if relation in LEFT_FIRST else "the right side"


def _iteration(node: PlanNode, delay: int) -> StateBound:
    gap = node.operator.gap
    if node.kind is Kind.RUN:
        last = _shorter(gap, node.bound) or 0
        return StateBound("the open run", node.variables, _longer(node.bound, delay), last + delay, gap)
    missing = (node.operator.count or 1) - 1
    if not missing:
        return StateBound(lag=delay)
    sliding = node.context in (Context.UNRESTRICTED, Context.RECENT)
    what = f"the last {missing}" if sliding else f"up to {missing} counted"
    span = _shorter(node.bound, None if gap is None else gap * missing)
    return StateBound(what, node.variables, _longer(span, delay), delay)


def _longer(span: int | None, delay: int) -> int | None:
    return None if span is None else span + delay


def _shorter(one: int | None, other: int | None) -> int | None:
    spans = [span for span in (one, other) if span is not None]
    return min(spans, default=None)
