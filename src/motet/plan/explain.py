"""The explanation of a plan, as text for people and as JSON for programs: its nodes, their state, and the delay.

The text shows each subscription as a tree of numbered nodes. A node that was displayed before is only named.

The state of a node is bounded in event time, behind the frontier: older occurrences can no longer contribute to a
result. In every context but unrestricted, occurrences also stay pending until the frontier has passed their end,
because pairs are made in completion order. The delay is how long after its last event a notification comes: that of its
pattern and the lateness of the lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from motet.language import syntax
from motet.language.syntax import Construct, Context, Pattern, Subscription
from motet.model.intervals import Relation
from motet.model.settings import Settings
from motet.model.times import format_duration
from motet.ontology.entailment import Reasoner
from motet.plan import text
from motet.plan.derivation_edges import derivation_edges
from motet.plan.graph import ITERATION, LEFT_FIRST, PAIRING, Kind, Plan, PlanNode, Root, pair_bound
from motet.plan.leaves import EVENT_VARIABLE, LeafPredicates
from motet.plan.partitioning import Component, components
from motet.sparql.algebra import Bgp
from motet.sparql.write import expression_text, group_text


class Explanation:
    """A plan with its derivation edges, state bounds and components."""

    def __init__(self, plan: Plan, reasoner: Reasoner | None = None) -> None:
        self.plan = plan
        self.derivation_edges = derivation_edges(plan, reasoner)
        self.state_bounds = state_bounds(plan)
        self.components = components(plan)

    def title(self, node_id: int, names: Mapping[str, str] | None = None) -> str:
        """One line: id, operator, context, number of users; ``names`` are those of the displayed subscription."""
        node = self.plan.nodes[node_id]
        if node.operator.leaf_id is not None:
            name = {**self.plan.variable_names[node_id], **(names or {})}[EVENT_VARIABLE]
            return f"[{node_id}] EVENT {name}{self._sharing(node_id)}"
        context = f", {node.context.value}" if node.context else ""
        return f"[{node_id}] {text.operator_text(node)}{context}{self._sharing(node_id)}"

    def details(self, node_id: int) -> list[str]:
        """The joins, filters, state and index predicates of a node, in the names of its first subscription."""
        node, names = self.plan.nodes[node_id], self.plan.variable_names[node_id]
        if node.operator.leaf_id is not None:
            return [*text.matching_text(self.plan.leaves[node.operator.leaf_id], names), *self._derivations(node_id)]
        joins = (
            [f"joins on {text.variables_text(node.joined_variables, names)}"]
            if node.joined_variables and node.kind is not Kind.OR
            else []
        )
        filters = [f"filter {text.condition_text(node, names)}"] if node.condition else []
        starts = [text.start_text(node.start)] if node.start and node.start.offset else []
        lag = self._lag(node_id)
        return [*joins, *filters, f"keeps {self.state_bounds[node_id].text(names)}", *lag, *starts]

    def placement(self, component: Component) -> str:
        """How a component is partitioned over workers."""
        last = component.nodes[-1]
        if component.is_stateless:
            return f"by event: {component.reason}"
        if not component.keys:
            return f"all on one worker: {component.reason}"
        names = text.variables_text(component.key(last), self.plan.variable_names[last])
        return f"by {names}: {component.reason}"

    def readers(self, producer: str, clause: int) -> list[str]:
        """The leaves that the derived events of a clause feed."""
        return [
            f"[{edge.node}] of {edge.consumer}"
            for edge in self.derivation_edges
            if (edge.producer, edge.clause) == (producer, clause)
        ]

    def shared_nodes(self) -> list[int]:
        """The ids of the nodes that several subscriptions use."""
        return [node_id for node_id, users in self.plan.users.items() if len(users) > 1]

    def _sharing(self, node_id: int) -> str:
        users = len(self.plan.users[node_id])
        return f", shared by {users} subscriptions" if users > 1 else ""

    def _derivations(self, node_id: int) -> list[str]:
        producers = dict.fromkeys(
            (edge.producer, edge.clause) for edge in self.derivation_edges if edge.node == node_id
        )
        return [f"also matches events derived by {name} (clause {clause})" for name, clause in producers]

    def _lag(self, node_id: int) -> list[str]:
        lag = self.state_bounds[node_id].lag
        below = max((self.state_bounds[edge.child].lag for edge in self.plan.nodes[node_id].children), default=0)
        return [f"final {format_duration(lag)} after its end"] if lag > below else []


def explain_text(plan: Plan, reasoner: Reasoner | None = None, *, settings: Settings | None = None) -> str:
    """The plan as text; with the reasoner of an ontology, derivation edges take its inferences into account.

    With the settings of a lake it says how long after its last event a notification comes.
    """
    explanation = Explanation(plan, reasoner)
    lines: list[str] = []
    displayed: set[int] = set()
    for root in plan.roots:
        lines += [*_subscription(explanation, root, displayed)]
        lines += [f"   {notified_text(root.subscription, settings.lateness)}"] if settings else []
        lines += [""]
    lines += [*_partitioning(explanation), "", _summary(explanation)]
    return "\n".join(lines) + "\n"


def _subscription(explanation: Explanation, root: Root, displayed: set[int]) -> Iterator[str]:
    subscription = root.subscription
    since = f", {text.start_text(root.start)}" if root.start.offset or root.start.since is not None else ""
    yield f"{subscription.name}: {subscription.context.value}, {text.delivery_text(subscription.delivery)}{since}"
    indent = ""
    if isinstance(subscription.delivery, Construct):
        yield "└─ CONSTRUCT"
        for clause, template in enumerate(subscription.delivery.templates, 1):
            yield f"   │     {text.template_text(template)}"
            yield from (f"   │     feeds {reader}" for reader in explanation.readers(subscription.name, clause))
        indent = "   "
    yield from _tree(explanation, root.node, dict(root.renaming), indent, displayed, is_last=True)


def _tree(
    explanation: Explanation, node_id: int, names: Mapping[str, str], indent: str, displayed: set[int], *, is_last: bool
) -> Iterator[str]:
    head = f"{indent}{'└─ ' if is_last else '├─ '}{explanation.title(node_id, names)}"
    if node_id in displayed:
        yield f"{head}, see above"
        return
    yield head
    displayed.add(node_id)
    node = explanation.plan.nodes[node_id]
    inner = f"{indent}{'   ' if is_last else '│  '}"
    for detail in explanation.details(node_id):
        yield f"{inner}{'│' if node.children else ' '}     {detail}"
    for index, edge in enumerate(node.children):
        below = {child: names[parent] for child, parent in edge.renaming if parent in names}
        last = index == len(node.children) - 1
        yield from _tree(explanation, edge.child, below, inner, displayed, is_last=last)


def _partitioning(explanation: Explanation) -> Iterator[str]:
    yield "partitioning"
    for component in explanation.components:
        nodes = " ".join(f"[{node_id}]" for node_id in component.nodes)
        yield f"  {nodes} of {', '.join(component.subscriptions)}"
        yield f"    {explanation.placement(component)}"


def _summary(explanation: Explanation) -> str:
    plan = explanation.plan
    return (
        f"{_count(len(plan.roots), 'subscription')}, {_count(len(plan.nodes), 'node')} "
        f"({len(explanation.shared_nodes())} shared), {_count(len(plan.leaves), 'distinct event pattern')}"
    )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def explain_json(
    plan: Plan, reasoner: Reasoner | None = None, *, settings: Settings | None = None
) -> dict[str, object]:
    """The plan as values for JSON; durations in microseconds, terms as N-Triples, conditions as SPARQL."""
    explanation = Explanation(plan, reasoner)
    return {
        "subscriptions": [_root_json(root, settings) for root in plan.roots],
        "nodes": [_node_json(explanation, node) for node in plan.nodes],
        "leaves": [_leaf_json(plan, leaf_id) for leaf_id in range(len(plan.leaves))],
        "feeds": [asdict(edge) for edge in explanation.derivation_edges],
        "components": [_component_json(explanation, component) for component in explanation.components],
    }


def _root_json(root: Root, settings: Settings | None) -> dict[str, object]:
    notified = {} if settings is None else {"notified_after": notified_after(root.subscription, settings.lateness)}
    return notified | {
        "name": root.subscription.name,
        "node": root.node,
        "context": root.subscription.context.value,
        "delivery": text.delivery_text(root.subscription.delivery),
        "names": dict(root.renaming),
        "start": asdict(root.start),
    }


def _node_json(explanation: Explanation, node: PlanNode) -> dict[str, object]:
    names = explanation.plan.variable_names[node.id]
    return {
        "id": node.id,
        "operator": node.title,
        "window": node.operator.window,
        "count": node.operator.count,
        "gap": node.operator.gap,
        "leaf": node.operator.leaf_id,
        "children": [{"node": edge.child, "names": dict(edge.renaming)} for edge in node.children],
        "variables": list(node.variables),
        "joined": list(node.joined_variables),
        "order": [list(side) for side in node.order],
        "bound": node.bound,
        "condition": None if node.condition is None else expression_text(node.condition),
        "context": node.context.value if node.context else None,
        "start": asdict(node.start) if node.start else None,
        "state": _state_json(explanation.state_bounds[node.id], names),
        "subscriptions": list(explanation.plan.users[node.id]),
    }


def _state_json(state: StateBound, names: Mapping[str, str]) -> dict[str, object]:
    is_unlimited = state.duration is None and not state.is_empty
    return {
        "words": state.text(names),
        "per": list(state.per),
        "span": state.duration,
        "unlimited": is_unlimited,
        "delay": state.lag,
    }


def _leaf_json(plan: Plan, leaf_id: int) -> dict[str, object]:
    leaf: LeafPredicates = plan.leaves[leaf_id]
    return {
        "id": leaf_id,
        "classes": list(leaf.classes),
        "equalities": [asdict(equality) for equality in leaf.equalities],
        "reads": [asdict(read) for read in leaf.reads],
        "joins": group_text(Bgp(leaf.joins)),
        "ranges": [asdict(test) for test in leaf.ranges],
        "choices": [asdict(test) for test in leaf.choices],
        "prefixes": [asdict(test) for test in leaf.prefixes],
        "during": list(leaf.during) if leaf.during else None,
        "residue": leaf.residue_text,
        "matching": text.matching_text(leaf, plan.leaf_names[leaf_id]),
    }


def _component_json(explanation: Explanation, component: Component) -> dict[str, object]:
    return {
        "nodes": list(component.nodes),
        "subscriptions": list(component.subscriptions),
        "keys": {str(node_id): list(key) for node_id, key in component.keys},
        "stateless": component.is_stateless,
        "placement": explanation.placement(component),
    }


# State


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


# Delay


def notified_after(subscription: Subscription, lateness: int | None) -> int | None:
    """The longest time, in microseconds, from the last event until the frontier makes an occurrence final.

    It is that of a log whose events come one after another and move the frontier. None: only a tick makes it final.

    >>> from motet.language.parse import parse
    >>> [s] = parse("SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a UNLESS b WITHIN 5 s")
    >>> notified_after(s, 2_000_000)
    7000000
    """
    if is_immediate(subscription.pattern, subscription.context):
        return 0
    return None if lateness is None else delay(subscription.pattern) + lateness


def notified_text(subscription: Subscription, lateness: int | None) -> str:
    """The same as a sentence."""
    after = notified_after(subscription, lateness)
    if after == 0:
        return "notified at once, with its last event"
    own = delay(subscription.pattern)
    if after is None:
        return f"notified when a tick has passed its last event{f' by {format_duration(own)}' if own else ''}"
    parts = [f"{format_duration(own)} of the pattern"] if own else []
    parts += [f"{format_duration(lateness)} lateness"] if lateness else []
    return f"notified {format_duration(after)} after its last event: {' and '.join(parts)}"


def is_immediate(pattern: Pattern, context: Context) -> bool:
    """Whether occurrences are final at once (language page, section 11)."""
    match pattern:
        case syntax.Leaf():
            return True
        case syntax.Within(operand) | syntax.Filter(operand):
            return is_immediate(operand, context)
        case syntax.Or(left, right):
            return is_immediate(left, context) and is_immediate(right, context)
        case syntax.And(left, right) | syntax.Timed(left=left, right=right) | syntax.Alongside(left, right):
            is_free = context is Context.UNRESTRICTED
            return is_free and is_immediate(left, context) and is_immediate(right, context)
    return False


def delay(pattern: Pattern) -> int:  # noqa: PLR0911  (a table)
    """How far after its last event the frontier must have passed before an occurrence is final.

    It is the lag of the pattern, and for NO the time it takes as well: its last event is its start point.
    """
    match pattern:
        case syntax.Xor(left, right, window):
            return max(delay(left), delay(right)) + window
        case syntax.Unless(operand, absent, window):
            return max(delay(operand), delay(absent) + window)
        case syntax.No(operand, window):
            return delay(operand) + window
        case syntax.Run(operand, gap):
            return delay(operand) + gap
        case syntax.Without(operand, absent):
            return max(delay(operand), delay(absent))
        case syntax.Within(operand) | syntax.Filter(operand) | syntax.Times(operand):
            return delay(operand)
        case (
            syntax.And(left, right) | syntax.Or(left, right) | syntax.Alongside(left, right)
            | syntax.Timed(left=left, right=right)
        ):  # fmt: skip
            return max(delay(left), delay(right))
    return 0
