"""The plan of a batch job: which subscriptions a task matches event by event, and which are detected together.

Single-event subscriptions are matched where their events are decoded. The others form detection groups, one for each
component; subscriptions that are linked by derivation edges are one group, single-event ones included. The events of a
group with a partition key are routed to buckets by its values, those of a stateless group by their ids; the events of
any other group go to a single bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from motet.engine.detect.output import root_output
from motet.engine.match.single_events import is_single_event
from motet.engine.runtime.processor import Processor
from motet.language.syntax import Construct, Subscription
from motet.model.batches import Triple
from motet.model.control import entailment_of
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges
from motet.plan.graph import Kind, Plan, RouteKind
from motet.plan.partitioning import Component, components

LeafKeys = Mapping[int, tuple[str, ...]]  # by leaf, the variables of the partition key


@dataclass(frozen=True)
class DetectionGroup:
    """Subscriptions that are detected together."""

    subscriptions: tuple[Subscription, ...]
    route_kind: RouteKind
    keys: LeafKeys  # empty unless events are routed by key
    may_duplicate: bool = False  # several buckets may compute the same notification
    has_no: bool = False  # the least end of all events can be the beginning of a NO


@dataclass(frozen=True)
class JobPlan:
    """The subscriptions of a batch job by the way they are processed. Picklable."""

    single_event: tuple[Subscription, ...]
    groups: tuple[DetectionGroup, ...]
    background: frozenset[Triple]
    entailment: str | None  # None: the default for the background

    @property
    def resolved_entailment(self) -> str:
        return entailment_of(self.background, self.entailment)

    @cached_property
    def prototype(self) -> Processor:
        """A processor without subscriptions, from which others are made: the background is closed once."""
        return Processor(background=self.background, entailment=self.entailment)

    def __reduce__(self) -> tuple[type[JobPlan], tuple[object, ...]]:
        return JobPlan, (self.single_event, self.groups, self.background, self.entailment)


def plan_job(subscriptions: Sequence[Subscription], background: frozenset[Triple], entailment: str | None) -> JobPlan:
    """
    >>> from motet.language.parse import parse
    >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
    >>> one = f"SUBSCRIPTION one {leaf('a')} WHEN a "
    >>> two = f"SUBSCRIPTION two {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s "
    >>> plan = plan_job(parse(one + two), frozenset(), "none")
    >>> [subscription.name for subscription in plan.single_event], [group.route_kind.value for group in plan.groups]
    (['one'], ['key'])
    """
    edges = _derivation_edges(JobPlan(tuple(subscriptions), (), background, entailment))
    linked = {name for edge in edges for name in edge}
    by_name = {
        subscription.name: subscription
        for subscription in subscriptions
        if not is_single_event(subscription) or subscription.name in linked
    }
    single_event = tuple(subscription for subscription in subscriptions if subscription.name not in by_name)
    ungrouped = JobPlan(single_event, (), background, entailment)
    if not by_name:
        return ungrouped
    plan = ungrouped.prototype.spawn(list(by_name.values())).plan()
    connected = _connected([*(component.subscriptions for component in components(plan)), *edges])
    groups = [_group([by_name[name] for name in names], ungrouped.prototype, linked) for names in connected]
    return JobPlan(single_event, tuple(groups), background, entailment)


def _derivation_edges(ungrouped: JobPlan) -> list[tuple[str, str]]:
    """The names of upstream and downstream subscriptions; cycles are refused."""
    subscriptions = ungrouped.single_event
    if not any(isinstance(subscription.delivery, Construct) for subscription in subscriptions):
        return []
    reasoner = Reasoner(ungrouped.background, Entailment(ungrouped.resolved_entailment))
    return sorted({(edge.producer, edge.consumer) for edge in derivation_edges(build_plan(subscriptions), reasoner)})


def _connected(edges: Iterable[Sequence[str]]) -> list[list[str]]:
    """The connected components of a graph of names, given by sets of names that belong together."""
    component_of: dict[str, list[str]] = {}
    for edge in edges:
        merged = list(dict.fromkeys(member for name in edge for member in component_of.get(name, [name])))
        component_of.update(dict.fromkeys(merged, merged))
    return list({id(component): component for component in component_of.values()}.values())


def _group(subscriptions: Sequence[Subscription], prototype: Processor, linked: set[str]) -> DetectionGroup:
    members = tuple(subscriptions)
    plan = prototype.spawn(members).plan()
    plan_components = components(plan)
    if len(plan_components) == 1 and not linked.intersection(subscription.name for subscription in members):
        (component,) = plan_components
        if component.is_stateless:
            return DetectionGroup(members, RouteKind.EVENT, {})
        keys = _leaf_keys(plan, component)
        hidden = [root.node for root in plan.roots if not _projects_key(plan, component, root.subscription.name)]
        if keys and not any(plan.nodes[node].with_members for node in hidden):
            return DetectionGroup(members, RouteKind.KEY, keys, may_duplicate=bool(hidden))
    return DetectionGroup(members, RouteKind.SINGLE, {}, has_no=any(node.kind is Kind.NO for node in plan.nodes))


def _leaf_keys(plan: Plan, component: Component) -> LeafKeys:
    """The partition key in the variables of each leaf; empty if a leaf would need two keys."""
    keys: dict[int, tuple[str, ...]] = {}
    for node in component.nodes if component.keys else ():
        for edge in plan.nodes[node].children:
            if plan.nodes[edge.child].kind is Kind.LEAF:
                child_names = {parent: child for child, parent in edge.renaming}
                key = tuple(child_names[name] for name in component.key(node))
                if keys.setdefault(edge.child, key) != key:
                    return {}
    return keys


def _projects_key(plan: Plan, component: Component, name: str) -> bool:
    """Whether notifications of a subscription contain the key, so that those of different keys differ."""
    (root,) = (root for root in plan.roots if root.subscription.name == name)
    node = plan.nodes[root.node]
    output = root_output(root, node, root.start.offset)
    projected = {node.variables[index] for index in output.variable_indexes}
    return projected.issuperset(component.key(root.node))
