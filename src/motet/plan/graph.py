"""The data of a plan: the operators of all subscriptions as an acyclic graph; ``builder`` makes it.

Every node has variables of its own, ``v0``, ``v1``, …; an edge maps variables of the child to variables of the parent,
and a root maps them to names of the subscription. A variable without an entry ends at the edge: an iteration projects
it away, or it occurs only on the right side of UNLESS, WITHOUT or below NO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from motet.language.syntax import Context, Event, Subscription
from motet.model.intervals import Relation
from motet.plan.leaves import LeafPredicates
from motet.sparql.algebra import Expr

Renaming = tuple[tuple[str, str], ...]


class Kind(Enum):
    LEAF = "EVENT"
    AND = "AND"
    OR = "OR"
    XOR = "XOR"
    TIMED = "TIMED"
    ALONGSIDE = "ALONGSIDE"
    WITHIN = "WITHIN"
    UNLESS = "UNLESS"
    WITHOUT = "WITHOUT"
    FILTER = "FILTER"
    NO = "NO"
    TIMES = "TIMES"
    RUN = "RUN"


PAIRING = frozenset({Kind.AND, Kind.TIMED, Kind.ALONGSIDE})
ITERATION = frozenset({Kind.TIMES, Kind.RUN})
NEGATION = frozenset({Kind.UNLESS, Kind.WITHOUT})

# Relations whose left operand always completes before the right one, so that only the left one is kept.
LEFT_FIRST = frozenset(
    {Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.STARTS, Relation.DURING, Relation.FINISHED_BY}
)


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of a node. Durations are microseconds."""

    kind: Kind
    relation: Relation | None = None  # of TIMED
    window: int | None = None  # of WITHIN, UNLESS, XOR and NO
    count: int | None = None  # of TIMES
    gap: int | None = None  # of TIMES and RUN
    leaf_id: int | None = None  # of a leaf: its index among the plan's leaves


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a subscription: events after the offset are visible, with SINCE also earlier ones.

    Its beginning (language page, section 5) is SINCE; otherwise the frontier at its registration; otherwise the least
    end of the visible events. A subscription older than the first settings record of its log has only SINCE.
    """

    offset: int
    since: int | None = None
    frontier: int | None = None  # that the subscribe record stores
    is_old: bool = False  # registered before the first settings record of an upgraded log

    @property
    def beginning(self) -> int | None:
        """The beginning, if it is known at the registration."""
        return self.frontier if self.since is None and not self.is_old else self.since

    @property
    def begins_with_event(self) -> bool:
        """Whether the beginning is the least end of the visible events.

        >>> Start(4).begins_with_event, Start(4, frontier=9).begins_with_event, Start(4, is_old=True).begins_with_event
        (True, False, False)
        """
        return self.since is None and self.frontier is None and not self.is_old


class RouteKind(Enum):
    """What decides the bucket of a leaf's occurrence: its key, its event, or nothing."""

    KEY = "key"
    EVENT = "event"
    SINGLE = "home"


@dataclass(frozen=True, slots=True)
class Route:
    """Where occurrences of a leaf go when detection is partitioned into buckets. ``key`` has the leaf's variables that
    make up the key, or the label of the single bucket. With ``may_repeat`` several buckets may compute the same
    notification.
    """

    kind: RouteKind
    key: tuple[str, ...] = ()
    may_repeat: bool = field(default=False, repr=False)  # digests are of the repr


@dataclass(frozen=True, slots=True)
class Edge:
    """An operand. ``renaming`` has pairs (variable of the child, variable of the parent)."""

    child: int
    renaming: Renaming


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One operator, computed once for all subscriptions that use it.

    ``context`` is set where it matters: on pairing operators and counted iterations. ``start`` is set where results
    depend on the start of the subscription; a node without it serves every start, and a subscription uses only the
    occurrences all of whose events are visible to it. ``order`` gives, for each operand of a pairing operator, the
    variables by which occurrences with equal intervals and events are compared, in the order of the subscription.
    """

    id: int
    operator: Operator
    children: tuple[Edge, ...] = ()
    variables: tuple[str, ...] = ()
    bound: int | None = None  # of pairing operators and iterations, carried or inherited
    condition: Expr | None = None  # of FILTER, or carried by a pairing operator
    context: Context | None = None
    start: Start | None = None
    order: tuple[tuple[str, ...], ...] = ()
    key_variables: tuple[str, ...] = ()  # joined variables that every occurrence of both operands binds
    keeps_sides: bool = False  # a WITHOUT above needs the two sides of its pairs
    with_members: bool = False  # CONSTRUCT templates are instantiated for every member
    owner: str | None = None  # the only subscription it serves; None: all with an equal node
    route: Route | None = None  # of a leaf, when partitioned; leaves with different routes differ

    @property
    def kind(self) -> Kind:
        return self.operator.kind

    @property
    def title(self) -> str:
        """The operator's name in the pattern language."""
        return self.operator.relation.value if self.operator.relation is not None else self.kind.value

    @property
    def joined_variables(self) -> tuple[str, ...]:
        """The variables that both operands may bind and on which they must agree."""
        if len(self.children) != 2:
            return ()
        left, right = ({parent for _, parent in edge.renaming} for edge in self.children)
        return tuple(sorted(left & right, key=variable_index))


@dataclass(frozen=True, slots=True)
class Root:
    """The root node of a subscription. ``renaming`` has pairs (variable of the node, name in the subscription)."""

    subscription: Subscription
    node: int
    renaming: Renaming
    start: Start


@dataclass(frozen=True)
class Plan:
    """The nodes and roots of some subscriptions. Children come before parents: ids are a topological order.

    ``users`` and the names serve explanations: the subscriptions that use each node, and the names of its variables in
    the first of them; for leaves also the names of variables that are not visible.
    """

    leaves: tuple[LeafPredicates, ...]
    nodes: tuple[PlanNode, ...]
    roots: tuple[Root, ...]
    events: tuple[Event, ...] = ()  # by leaf, as first written
    users: Mapping[int, tuple[str, ...]] = field(compare=False, default_factory=dict)
    variable_names: tuple[Mapping[str, str], ...] = field(compare=False, default=())
    leaf_names: tuple[Mapping[str, str], ...] = field(compare=False, default=())
    builder_ids: tuple[int, ...] = field(compare=False, default=())  # by node: its id in the builder


def pair_bound(node: PlanNode, nodes: Mapping[int, PlanNode] | Sequence[PlanNode]) -> int | None:
    """The bound of the pairs below a WITHOUT, with the negations and WITHINs between."""
    bounds = []
    while node.kind not in PAIRING and node.children:
        if node.kind is Kind.WITHIN:
            bounds.append(node.operator.window)
        node = nodes[node.children[0].child]
    return min((bound for bound in (*bounds, node.bound) if bound is not None), default=None)


def variable_index(name: str) -> int:
    """The index in a canonical variable name.

    >>> variable_index("v12")
    12
    """
    return int(name[1:])
