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
    """``what`` is kept for at most ``duration`` microseconds (None: forever), separately for each value of ``per``.

    ``lag`` is the longest time from the end of an occurrence until it is final, apart from lateness.
    """

    what: str = ""
    per: tuple[str, ...] = ()
    duration: int | None = 0
    lag: int = 0
    gap: int | None = None  # a longer gap ends it earlier

    @property
    def is_empty(self) -> bool:
        return not self.what

    def text(self, names: Mapping[str, str]) -> str:
        """The state bound as text.

        >>> StateBound("the open run", ("v1",), 300_000_000).text({"v1": "room"})
        'the open run per ?room, for 5 min'
        """
        if self.is_empty:
            return "nothing"
        key = "".join(f" ?{names.get(variable, variable)}" for variable in self.per)
        return f"{self.what}{' per' + key if key else ''}, {self._duration_text()}"

    def _duration_text(self) -> str:
        if self.gap is not None:
            limit = "without a limit" if self.duration is None else f"at most {format_duration(self.duration)}"
            return f"until a gap of {format_duration(self.gap)}, {limit}"
        return "forever" if self.duration is None else f"for {format_duration(self.duration)}"


def state_bounds(plan: Plan) -> tuple[StateBound, ...]:
    """The state bound of every node, by id.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> text = "SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a BEFORE b WITHIN 5 s CONTEXT chronicle"
    >>> state_bounds(build_plan(parse(text)))[2].text({})
    'open occurrences of the left side, for 5 s'
    """
    bounds: list[StateBound] = []
    for node in plan.nodes:
        bounds.append(_state_bound(plan, node, [bounds[edge.child] for edge in node.children]))
    return tuple(bounds)


def _state_bound(plan: Plan, node: PlanNode, children: list[StateBound]) -> StateBound:
    lag = max((child.lag for child in children), default=0)
    if node.kind in PAIRING:
        return _pairing(node, lag)
    if node.kind in ITERATION:
        return _iteration(node, lag)
    return _windowed(plan, node, children, lag)


def _windowed(plan: Plan, node: PlanNode, children: list[StateBound], lag: int) -> StateBound:
    window = node.operator.window or 0
    match node.kind:
        case Kind.XOR:
            return StateBound("occurrences of both sides", node.joined_variables, window + lag, window + lag)
        case Kind.UNLESS:
            lag = max(children[0].lag, window + children[1].lag)
            return StateBound(
                "pending occurrences and the occurrences that contradict them", node.joined_variables, lag, lag
            )
        case Kind.WITHOUT:
            duration = _longer(pair_bound(node, plan.nodes), lag)
            return StateBound("occurrences of the right side", node.joined_variables, duration, lag)
        case Kind.NO:
            return StateBound("start points and the occurrences of the operand", (), window + lag, lag)
    return StateBound(lag=lag)


def _pairing(node: PlanNode, lag: int) -> StateBound:
    duration = _longer(node.bound, lag)
    match node.context:
        case Context.UNRESTRICTED:  # results are final before the frontier passes them, so either side may be first
            return StateBound("every occurrence of both sides", node.joined_variables, duration, lag)
        case Context.RECENT:
            return StateBound(
                f"the latest occurrence of {_sides(node, 'each side')}", node.joined_variables, duration, lag
            )
    return StateBound(f"open occurrences of {_sides(node, 'both sides')}", node.joined_variables, duration, lag)


def _sides(node: PlanNode, both: str) -> str:
    relation = node.operator.relation
    if relation is None or relation is Relation.EQUALS:
        return both
    return "the left side" if relation in LEFT_FIRST else "the right side"


def _iteration(node: PlanNode, lag: int) -> StateBound:
    gap = node.operator.gap
    if node.kind is Kind.RUN:
        tail = _shorter(gap, node.bound) or 0
        return StateBound("the open run", node.variables, _longer(node.bound, lag), tail + lag, gap)
    missing = (node.operator.count or 1) - 1
    if not missing:
        return StateBound(lag=lag)
    sliding = node.context in (Context.UNRESTRICTED, Context.RECENT)
    what = f"the last {missing}" if sliding else f"up to {missing} counted"
    duration = _shorter(node.bound, None if gap is None else gap * missing)
    return StateBound(what, node.variables, _longer(duration, lag), lag)


def _longer(duration: int | None, lag: int) -> int | None:
    return None if duration is None else duration + lag


def _shorter(first: int | None, second: int | None) -> int | None:
    durations = [duration for duration in (first, second) if duration is not None]
    return min(durations, default=None)
