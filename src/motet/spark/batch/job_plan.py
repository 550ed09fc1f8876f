"""How the work of a run is divided: what any task can match, and what has to meet in one place to be detected.

Subscriptions of a single EVENT are matched wherever their events are decoded. The others form components; those that
feed each other by CONSTRUCT are one component, with the subscriptions of a single EVENT among them. The events of a
component with a key are spread over buckets by its values, those of a stateless one by their ids; without either, all
events of a component meet in one bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from motet.engine.detect.output import root_output
from motet.engine.kernel import Kernel
from motet.engine.match.verify import is_single
from motet.language.syntax import Construct, Subscription
from motet.model.batches import Triple
from motet.model.control import entailment_of
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.builder import build
from motet.plan.derivation_edges import feeds
from motet.plan.graph import Kind, Plan
from motet.plan.partitioning import Component as Part
from motet.plan.partitioning import components

LeafKeys = Mapping[int, tuple[str, ...]]  # by leaf, the variables of the key


class Spread(Enum):
    """What decides about the bucket of an event."""

    KEY = "key"
    EVENT = "event"
    NOTHING = "nothing"


@dataclass(frozen=True)
class DetectionGroup:
    """Subscriptions that are detected together."""

    subscriptions: tuple[Subscription, ...]
    route_kind: Spread
    keys: LeafKeys  # empty unless spread by key
    may_duplicate: bool = False  # several buckets may find the same notification
    may_occur_without_events: bool = False  # it has something to say even if no event comes


@dataclass(frozen=True)
class JobPlan:
    """A run's subscriptions, divided. Picklable."""

    single_event: tuple[Subscription, ...]
    groups: tuple[DetectionGroup, ...]
    background: frozenset[Triple]
    entailment: str | None  # None: as the background in force asks for

    @property
    def resolved_entailment(self) -> str:
        return entailment_of(self.background, self.entailment)

    @cached_property
    def prototype(self) -> Kernel:
        """Without subscriptions, to begin others from: what the background means is found out once."""
        return Kernel(lateness=None, background=self.background, entailment=self.entailment)

    def __reduce__(self) -> tuple[type[JobPlan], tuple[object, ...]]:
        return JobPlan, (self.single_event, self.groups, self.background, self.entailment)


def plan_job(subscriptions: Sequence[Subscription], background: frozenset[Triple], entailment: str | None) -> JobPlan:
    """
    >>> from motet.language.parse import parse
    >>> leaf = "EVENT {0} {{ ?{0} <urn:room> ?room }}".format
    >>> one = f"SUBSCRIPTION one {leaf('a')} WHEN a "
    >>> two = f"SUBSCRIPTION two {leaf('a')} {leaf('b')} WHEN a BEFORE b WITHIN 5 s "
    >>> division = divide(parse(one + two), frozenset(), "none")
    >>> [single.name for single in division.singles], [part.spread.value for part in division.components]
    (['one'], ['key'])
    """
    edges = _feeding(JobPlan(tuple(subscriptions), (), background, entailment))
    fed = {name for edge in edges for name in edge}
    detected = [one for one in subscriptions if not is_single(one) or one.name in fed]
    singles = tuple(one for one in subscriptions if is_single(one) and one.name not in fed)
    empty = JobPlan(singles, (), background, entailment)
    if not detected:
        return empty
    whole = empty.prototype.anew(detected).plan()
    together = _groups([*(part.subscriptions for part in components(whole)), *edges])
    named = {one.name: one for one in detected}
    found = [_component([named[name] for name in names], empty.prototype, fed) for names in together]
    return JobPlan(singles, tuple(found), background, entailment)


def _feeding(undivided: JobPlan) -> list[tuple[str, str]]:
    """Who feeds whom; circles are refused."""
    if not any(isinstance(one.delivery, Construct) for one in undivided.single_event):
        return []
    found = feeds(
        build(undivided.single_event), Reasoner(undivided.background, Entailment(undivided.resolved_entailment))
    )
    return sorted({(feed.producer, feed.consumer) for feed in found})


def _groups(edges: Iterable[Sequence[str]]) -> list[list[str]]:
    """Names that are connected, directly or through others."""
    home: dict[str, list[str]] = {}
    for edge in edges:
        group = list(dict.fromkeys(name for one in edge for name in home.get(one, [one])))
        home.update(dict.fromkeys(group, group))
    return list({id(group): group for group in home.values()}.values())


def _component(subscriptions: Sequence[Subscription], kernel: Kernel, fed: set[str]) -> DetectionGroup:
    plan = kernel.anew(subscriptions).plan()
    parts = components(plan)
    mine = tuple(subscriptions)
    if len(parts) == 1 and not fed.intersection(one.name for one in mine):
        (part,) = parts
        if part.stateless:
            return DetectionGroup(mine, Spread.EVENT, {})
        keys = _leaf_keys(plan, part)
        lost = [root.node for root in plan.roots if not _is_told(plan, part, root.subscription.name)]
        if keys and not any(plan.nodes[node].with_members for node in lost):
            return DetectionGroup(mine, Spread.KEY, keys, may_duplicate=bool(lost))
    silent = any(node.kind is Kind.NO for node in plan.nodes) and any(one.since is not None for one in mine)
    return DetectionGroup(mine, Spread.NOTHING, {}, may_occur_without_events=silent)


def _leaf_keys(plan: Plan, part: Part) -> LeafKeys:
    """The key in the variables of each leaf; none if a leaf would have to be spread in two ways."""
    found: dict[int, tuple[str, ...]] = {}
    for number in part.nodes if part.keys else ():
        for edge in plan.nodes[number].children:
            if plan.nodes[edge.child].kind is Kind.LEAF:
                below = {parent: child for child, parent in edge.names}
                key = tuple(below[name] for name in part.key(number))
                if found.setdefault(edge.child, key) != key:
                    return {}
    return found


def _is_told(plan: Plan, part: Part, name: str) -> bool:
    """Whether notifications of a subscription show the key, so that those of different keys differ."""
    (root,) = (root for root in plan.roots if root.subscription.name == name)
    node = plan.nodes[root.node]
    shown = {node.variables[source] for source in root_output(root, node, root.start.offset).variable_indexes}
    return shown.issuperset(part.key(root.node))
