"""Solutions as relations: a query with one column for each variable, and what is known about these columns.

NULL is an unbound variable. A relation may depend on *keys*: columns that say for which row of the surrounding query
(EXISTS) or for which graph (GRAPH with a variable) a solution is. A relation without a key has the same solutions for
all values of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.scan import Ranges

TYPED = ("kind", "num", "ts")
_MAX_DEPTH = 12  # of queries inside each other
_MAX_SPLIT = 2  # variables by which a join is split


@dataclass(frozen=True, slots=True)
class SolutionRelation:
    """``certain`` are the variables bound in every solution, ``typed`` those with columns of their kind and value,
    ``flags`` truth values, ``order`` the columns that sort the solutions, each with whether it descends.
    """

    query: exp.Query
    variables: frozenset[str]
    certain: frozenset[str]
    keys: frozenset[str] = frozenset()
    typed: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    order: tuple[tuple[str, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """The values that some keys have together. ``query`` makes a new tree each time."""

    keys: frozenset[str]
    query: Callable[[], exp.Query]


@dataclass(frozen=True, slots=True)
class PatternContext:
    """Where a pattern is evaluated.

    ``place`` is that of its scans, ``graph_key`` the key that is the graph if there are several. ``given`` maps
    variables that are substituted to the keys with their terms; those in ``certain`` are never NULL. ``is_set`` is
    False where a solution may as well come twice. ``ranges`` are those of useful values of variables.
    """

    place: str = "default"
    graph_key: str | None = None
    given: dict[str, str] = field(default_factory=dict)
    certain: frozenset[str] = frozenset()
    domains: tuple[Domain, ...] = ()
    is_set: bool = True
    ranges: Ranges = field(default_factory=dict)


class Names:
    """The columns of variables, and new names. SQL does not distinguish upper and lower case; variables do."""

    def __init__(self) -> None:
        self._columns: dict[str, str] = {}
        self._used = 0

    def column(self, variable: str) -> str:
        return self._columns.setdefault(variable, f"v{len(self._columns)}")

    def typed_columns(self, variable: str) -> list[str]:
        return [f"{self.column(variable)}_{suffix}" for suffix in TYPED]

    def new(self, prefix: str) -> str:
        self._used += 1
        return f"{prefix}{self._used}"


class RelationCompiler:
    """Operations on relations that several kinds of patterns need."""

    def __init__(self) -> None:
        self.names = Names()
        self.shared: list[exp.CTE] = []

    def unit(self) -> SolutionRelation:
        """The one solution that binds nothing."""
        return SolutionRelation(nodes.select([]), frozenset(), frozenset())

    def share(self, query: exp.Query, *, materialized: bool = True) -> str:
        """A name under which a query can be used several times."""
        name = self.names.new("w")
        self.shared.append(
            exp.CTE(this=query, alias=exp.TableAlias(this=exp.Identifier(this=name)), materialized=materialized)
        )
        return name

    def reusable(self, relation: SolutionRelation, *, materialized: bool = True) -> SolutionRelation:
        """The same relation under a name; it is computed once, if it is materialized."""
        name = self.share(relation.query, materialized=materialized)
        return replace(relation, query=nodes.select([exp.Star()], nodes.table(name)))

    def flattened(self, relation: SolutionRelation) -> SolutionRelation:
        """The same relation, under a name if its queries are nested deep."""
        if nodes.depth(relation.query) < _MAX_DEPTH:
            return relation
        return self.reusable(relation, materialized=False)

    def outputs(self, relation: SolutionRelation) -> list[str]:
        """The columns that carry solutions, in a fixed order: keys, variables, typed columns."""
        variables = sorted(relation.variables)
        typed = [name for variable in sorted(relation.typed) for name in self.names.typed_columns(variable)]
        return [*sorted(relation.keys), *map(self.names.column, variables), *typed]

    def columns_of(self, relation: SolutionRelation, table: str) -> list[Node]:
        return [column(table, name) for name in self.outputs(relation)]

    def project(
        self,
        relation: SolutionRelation,
        *,
        variables: Iterable[str] | None = None,
        extra: Callable[[str], list[Node]] | None = None,
        where: Callable[[str], Node] | None = None,
        keep_order: bool = False,
        distinct: bool = False,
    ) -> exp.Select:
        """A query over a relation with some of its columns and more, which are made from its table's name."""
        table = self.names.new("t")
        kept = relation.variables if variables is None else relation.variables & frozenset(variables)
        chosen = replace(relation, variables=kept, typed=relation.typed & kept)
        items = self.columns_of(chosen, table) + (extra(table) if extra else [])
        items += [column(table, name) for name, _ in relation.order] if keep_order else []
        condition = where(table) if where else None
        return nodes.select(items, derived(relation.query, table), where=condition, distinct=distinct)

    # Keys.

    def expand(self, relation: SolutionRelation, keys: Iterable[str], context: PatternContext) -> SolutionRelation:
        """The relation with more keys: its solutions for each of their values."""
        missing = set(keys) - relation.keys
        while missing:
            domain = max(reversed(context.domains), key=lambda domain: len(domain.keys & missing))
            wanted = domain.keys & (missing | relation.keys)
            relation = self._with_keys(relation, domain, wanted)
            missing -= relation.keys
        return relation

    def _with_keys(self, relation: SolutionRelation, domain: Domain, wanted: frozenset[str]) -> SolutionRelation:
        left, right = self.names.new("t"), self.names.new("t")
        common = sorted(wanted & relation.keys)
        on = nodes.both(nodes.SameOrNull(this=column(left, key), expression=column(right, key)) for key in common)
        items = self.columns_of(relation, left) + [column(right, key) for key in sorted(wanted - relation.keys)]
        items += [column(left, self.names.column(flag)) for flag in sorted(relation.flags)]
        query = nodes.select(
            items,
            derived(relation.query, left),
            [nodes.join(derived(self.key_values(domain, wanted), right), on if common else None)],
        )
        return replace(relation, query=query, keys=relation.keys | wanted, order=())

    def key_values(self, domain: Domain, keys: Iterable[str]) -> exp.Query:
        """The distinct values of some keys of a domain."""
        name = self.names.new("t")
        return nodes.select([column(name, key) for key in sorted(keys)], derived(domain.query(), name), distinct=True)

    def constrain(self, relation: SolutionRelation, context: PatternContext) -> SolutionRelation:
        """The relation of a triple pattern or of VALUES under the given bindings of its variables."""
        names = sorted(relation.variables & context.given.keys())
        if not names:
            return relation
        keys = {context.given[name] for name in names}
        domain = max(reversed(context.domains), key=lambda domain: len(domain.keys & keys))
        wanted = keys | (domain.keys & relation.keys)
        left, right = self.names.new("t"), self.names.new("t")
        on = [nodes.equals(column(left, key), column(right, key)) for key in sorted(wanted - keys)]
        on += [
            self.compatible(
                column(left, self.names.column(name)),
                column(right, context.given[name]),
                name in relation.certain,
                name in context.certain,
            )
            for name in names
        ]
        query = nodes.select(
            self.columns_of(relation, left) + [column(right, key) for key in sorted(keys - relation.keys)],
            derived(relation.query, left),
            [nodes.join(derived(self.key_values(domain, wanted), right), nodes.both(on))],
        )
        return replace(relation, query=query, keys=relation.keys | keys)

    @staticmethod
    def compatible(left: Node, right: Node, left_certain: bool, right_certain: bool) -> Node:
        """Equal where both are bound."""
        conditions = [nodes.equals(left, right)]
        conditions += [] if left_certain else [nodes.is_null(left.copy())]
        conditions += [] if right_certain else [nodes.is_null(right.copy())]
        return nodes.either(conditions)

    # Joins.

    def matching(
        self, left: SolutionRelation, left_table: str, right: SolutionRelation, right_table: str
    ) -> Node | None:
        """The condition under which solutions of two relations join; None if all do."""
        on = [self.same_key(left_table, right_table, key) for key in sorted(left.keys & right.keys)]
        for name in sorted(left.variables & right.variables):
            place = self.names.column(name)
            on.append(
                self.compatible(
                    column(left_table, place), column(right_table, place), name in left.certain, name in right.certain
                )
            )
        return nodes.both(on) if on else None

    @staticmethod
    def same_key(left: str, right: str, key: str) -> Node:
        return nodes.SameOrNull(this=column(left, key), expression=column(right, key))

    def merged(
        self, left: SolutionRelation, left_table: str, right: SolutionRelation, right_table: str
    ) -> tuple[list[Node], SolutionRelation]:
        """The columns of joined solutions, and a relation that describes them (without its query)."""
        items = [column(left_table if key in left.keys else right_table, key) for key in sorted(left.keys | right.keys)]
        typed: list[Node] = []
        typed_names: set[str] = set()
        for name in sorted(left.variables | right.variables):
            tables = self._sources(name, left, left_table, right, right_table)
            place = self.names.column(name)
            items.append(alias(nodes.coalesce(*(column(table, place) for table, _ in tables)), place))
            if all(name in relation.typed for _, relation in tables):
                typed_names.add(name)
                for typed_place in self.names.typed_columns(name):
                    typed.append(
                        alias(nodes.coalesce(*(column(table, typed_place) for table, _ in tables)), typed_place)
                    )
        description = SolutionRelation(
            left.query,
            left.variables | right.variables,
            left.certain | right.certain,
            left.keys | right.keys,
            frozenset(typed_names),
        )
        return items + typed, description

    @staticmethod
    def _sources(
        name: str, left: SolutionRelation, left_table: str, right: SolutionRelation, right_table: str
    ) -> list[tuple[str, SolutionRelation]]:
        """The tables whose columns a variable is taken from."""
        sources = [(left_table, left)] if name in left.variables else []
        sources += [(right_table, right)] if name in right.variables else []
        certain = [(table, relation) for table, relation in sources if name in relation.certain]
        if not certain:
            return sources
        return [next((source for source in certain if name in source[1].typed), certain[0])]

    def is_split(self, left: SolutionRelation, right: SolutionRelation) -> bool:
        """Whether a join is done in parts: when both sides share variables, none of them always bound on both sides.
        Engines then compare all pairs, because "equal or unbound" is no key.
        """
        shared = left.variables & right.variables
        has_key = bool(shared & left.certain & right.certain) or bool(left.keys & right.keys)
        return not has_key and 1 <= len(shared) <= _MAX_SPLIT

    def join(self, left: SolutionRelation, right: SolutionRelation) -> SolutionRelation:
        """The compatible pairs of solutions."""
        if not self.is_split(left, right):
            return self._joined(left, right)
        left, right = self.reusable(left), self.reusable(right)
        cases = [self._bindings_of(name, left, right) for name in sorted(left.variables & right.variables)]
        parts = [
            self._joined(self._bound(left, dict(own)), self._bound(right, dict(other)))
            for chosen in product(*cases)
            for own, other in [(((name, a) for name, a, _ in chosen), ((name, b) for name, _, b in chosen))]
        ]
        return replace(self.union(parts), certain=left.certain | right.certain)

    @staticmethod
    def _bindings_of(name: str, left: SolutionRelation, right: SolutionRelation) -> list[tuple[str, bool, bool]]:
        """Whether a variable is bound on the left and on the right, in each of the cases that exist."""
        own = (True,) if name in left.certain else (True, False)
        other = (True,) if name in right.certain else (True, False)
        return [(name, a, b) for a in own for b in other]

    def _bound(self, relation: SolutionRelation, bound: dict[str, bool]) -> SolutionRelation:
        """The solutions that bind some variables and leave others unbound."""

        def where(table: str) -> Node:
            return nodes.both(
                (nodes.is_bound if is_bound else nodes.is_null)(column(table, self.names.column(name)))
                for name, is_bound in bound.items()
            )

        unbound = {name for name, is_bound in bound.items() if not is_bound}
        copied = replace(relation, query=relation.query.copy())
        return replace(
            relation,
            query=self.project(copied, variables=relation.variables - unbound, where=where),
            variables=relation.variables - unbound,
            certain=relation.certain | {name for name, is_bound in bound.items() if is_bound},
            typed=relation.typed - unbound,
            order=(),
            flags=frozenset(),
        )

    def _joined(self, left: SolutionRelation, right: SolutionRelation) -> SolutionRelation:
        left_table, right_table = self.names.new("t"), self.names.new("t")
        items, description = self.merged(left, left_table, right, right_table)
        query = nodes.select(
            items,
            derived(left.query, left_table),
            [nodes.join(derived(right.query, right_table), self.matching(left, left_table, right, right_table))],
        )
        return replace(description, query=query)

    def union(self, parts: list[SolutionRelation]) -> SolutionRelation:
        """All solutions of relations that have the same keys."""
        variables = frozenset().union(*(part.variables for part in parts))
        typed = frozenset(
            name for name in variables if all(name in part.typed or name not in part.variables for part in parts)
        )
        queries = [self._widened(part, variables, typed) for part in parts]
        certain = frozenset.intersection(*(part.certain for part in parts))
        return SolutionRelation(nodes.union_all(queries), variables, certain, parts[0].keys, typed)

    def _widened(self, part: SolutionRelation, variables: frozenset[str], typed: frozenset[str]) -> exp.Select:
        table = self.names.new("t")
        items: list[Node] = [column(table, key) for key in sorted(part.keys)]
        for name in sorted(variables):
            place = self.names.column(name)
            items.append(column(table, place) if name in part.variables else alias(nodes.null(), place))
        for name in sorted(typed):
            for place, kind in zip(self.names.typed_columns(name), ("TINYINT", "DOUBLE", "BIGINT"), strict=True):
                missing = alias(nodes.cast(exp.Null(), kind), place)
                items.append(column(table, place) if name in part.variables else missing)
        return nodes.select(items, derived(part.query, table))
