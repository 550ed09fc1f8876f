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

# Relations whose left operand always completes before the right one, so that only that has to be remembered.
LEFT_FIRST = frozenset(
    {Relation.BEFORE, Relation.MEETS, Relation.OVERLAPS, Relation.STARTS, Relation.DURING, Relation.FINISHED_BY}
)


@dataclass(frozen=True, slots=True)
class Operator:
    """What a node does. Durations are microseconds."""

    kind: Kind
    relation: Relation | None = None  # of TIMED
    window: int | None = None  # of WITHIN, UNLESS, XOR and NO
    count: int | None = None  # of TIMES
    gap: int | None = None  # of TIMES and RUN
    leaf_id: int | None = None  # of a leaf: its place among the plan's leaves


@dataclass(frozen=True, slots=True)
class Start:
    """Which events a subscription sees: those after its offset and, with SINCE, earlier ones from that instant on."""

    offset: int
    since: int | None = None


class RouteKind(Enum):
    """What decides about the bucket in which an occurrence of a leaf meets others."""

    KEY = "key"
    EVENT = "event"
    SINGLE = "home"


@dataclass(frozen=True, slots=True)
class Route:
    """Where occurrences of a leaf go when the work is spread over buckets. ``names`` are the leaf's variables that make
    up the key, or the label of a home.
    """

    kind: RouteKind
    key: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """An operand. ``names`` are pairs (variable of the child, variable of the parent)."""

    child: int
    renaming: Renaming


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One operator, computed once for everyone who needs it.

    ``context`` is set where it matters: on pairing operators and counted iterations. ``start`` is set where results
    depend on where the subscription began; a node without it serves every start, and whoever has one keeps only the
    occurrences all of whose events it sees. ``order`` gives, for each operand of a pairing operator, the variables by
    which occurrences with equal intervals and events are compared; the names in the subscription decide it.
    """

    id: int
    operator: Operator
    children: tuple[Edge, ...] = ()
    variables: tuple[str, ...] = ()
    bound: int | None = None  # of pairing operators and iterations, own or inherited
    condition: Expr | None = None  # of FILTER, or carried by a pairing operator
    context: Context | None = None
    start: Start | None = None
    order: tuple[tuple[str, ...], ...] = ()
    key_variables: tuple[str, ...] = ()  # of the joined variables those that every occurrence of either operand binds
    keeps_sides: bool = False  # WITHOUT looks between the sides of its occurrences
    with_members: bool = False  # a CONSTRUCT template is filled once for every member
    owner: str | None = None  # the only subscription it serves; None: whoever has an equal one
    route: Route | None = None  # of a leaf, where the work is spread: leaves with different ones are different

    @property
    def kind(self) -> Kind:
        return self.operator.kind

    @property
    def title(self) -> str:
        """The operator's name in the pattern language."""
        return self.operator.relation.value if self.operator.relation is not None else self.kind.value

    @property
    def joined_variables(self) -> tuple[str, ...]:
        """The variables that both operands bind, on which they must agree."""
        if len(self.children) != 2:
            return ()
        left, right = ({parent for _, parent in edge.renaming} for edge in self.children)
        return tuple(sorted(left & right, key=variable_index))


@dataclass(frozen=True, slots=True)
class Root:
    """Where a subscription's notifications come from. ``names`` are pairs (variable of the node, own variable)."""

    subscription: Subscription
    node: int
    renaming: Renaming
    start: Start


@dataclass(frozen=True)
class Plan:
    """Children come before parents, so that the ids are a topological order.

    What follows the roots is for people: the subscriptions that use each node, and the names its variables had where
    it was first seen, of leaves also those that are not visible.
    """

    leaves: tuple[LeafPredicates, ...]
    nodes: tuple[PlanNode, ...]
    roots: tuple[Root, ...]
    events: tuple[Event, ...] = ()  # of each leaf, as it was first written
    users: Mapping[int, tuple[str, ...]] = field(compare=False, default_factory=dict)
    variable_names: tuple[Mapping[str, str], ...] = field(compare=False, default=())
    leaf_names: tuple[Mapping[str, str], ...] = field(compare=False, default=())
    builder_ids: tuple[int, ...] = field(
        compare=False, default=()
    )  # of each node, the number it has where it was built


def pair_bound(node: PlanNode, nodes: Mapping[int, PlanNode] | Sequence[PlanNode]) -> int | None:
    """The bound of the pairs a WITHOUT looks into, through the guards and bounds between."""
    bounds = []
    while node.kind not in PAIRING and node.children:
        if node.kind is Kind.WITHIN:
            bounds.append(node.operator.window)
        node = nodes[node.children[0].child]
    return min((bound for bound in (*bounds, node.bound) if bound is not None), default=None)


def variable_index(name: str) -> int:
    """
    >>> variable_index("v12")
    12
    """
    return int(name[1:])
