"""Solutions as relations: a query with one column for each variable, and what is known about these columns.

NULL is an unbound variable. A relation may depend on *keys*: columns that say for which row of the surrounding query
(EXISTS) or for which graph (GRAPH with a variable) a solution is. A relation without a key has the same solutions for
all values of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.scan import Ranges

TYPED = ("kind", "num", "ts")
_MAX_DEPTH = 12  # of queries inside each other
_MAX_KEYS = 2  # variables for which a join makes keys


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


ColumnReader = Callable[[str], Node]  # the column with a name, of one table or of two that are joined


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
        return replace(relation, query=self.flat(relation.query))

    def flat(self, query: exp.Query) -> exp.Query:
        """The same query, under a name if it is nested deep."""
        if nodes.depth(query) < _MAX_DEPTH:
            return query
        return nodes.select([exp.Star()], nodes.table(self.share(query, materialized=False)))

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
        if variables is None and not distinct:
            items = [nodes.star(table)]
        else:
            kept = relation.variables if variables is None else relation.variables & frozenset(variables)
            items = self.columns_of(replace(relation, variables=kept, typed=relation.typed & kept), table)
            items += [column(table, name) for name, _ in relation.order] if keep_order else []
        items += extra(table) if extra else []
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
    ) -> tuple[SolutionRelation, list[Node], ColumnReader]:
        """A relation that describes joined solutions (without its query), its columns, and what each column is."""
        computed: dict[str, Node] = {key: column(right_table, key) for key in sorted(right.keys - left.keys)}
        replaced: list[str] = []  # columns of the left relation that are computed here
        typed = set(left.typed - right.variables)
        for name in sorted(right.variables):
            tables = self._sources(name, left, left_table, right, right_table)
            if all(name in relation.typed for _, relation in tables):
                typed.add(name)
            if tables == [(left_table, left)]:
                continue
            if name in left.variables:
                replaced += self._places(name, is_typed=name in left.typed)
            for place in self._places(name, is_typed=name in typed):
                computed[place] = nodes.coalesce(*(column(table, place) for table, _ in tables))
        relation = SolutionRelation(
            left.query,
            left.variables | right.variables,
            left.certain | right.certain,
            left.keys | right.keys,
            frozenset(typed),
        )
        items = [nodes.star(left_table, replaced), *(alias(node, place) for place, node in computed.items())]
        return relation, items, lambda place: computed[place].copy() if place in computed else column(left_table, place)

    def _places(self, variable: str, *, is_typed: bool) -> list[str]:
        """The columns of a variable."""
        return [self.names.column(variable), *(self.names.typed_columns(variable) if is_typed else [])]

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

    def lacks_key(self, left: SolutionRelation, right: SolutionRelation) -> bool:
        """Whether two relations share variables, none of them always bound on both sides: an engine would compare all
        pairs, because "equal or unbound" is no key of a join.
        """
        shared = left.variables & right.variables
        has_key = bool(shared & left.certain & right.certain) or bool(left.keys & right.keys)
        return not has_key and 1 <= len(shared) <= _MAX_KEYS

    def join(
        self,
        left: SolutionRelation,
        right: SolutionRelation,
        *,
        is_optional: bool = False,
        condition: Callable[[SolutionRelation, ColumnReader], Node] | None = None,
    ) -> SolutionRelation:
        """The compatible pairs of solutions; with an optional right side also the left solutions that are in no pair.

        A condition is made from what describes a pair. With an optional right side that `lacks_key`, its variables
        must be certain.
        """
        left_table, right_table = self.names.new("t"), self.names.new("t")
        found = replace(right, certain=frozenset()) if is_optional else right  # NULL where nothing joins
        merged, items, _ = self.merged(left, left_table, found, right_table)
        on = self.matching(left, left_table, right, right_table)
        sources = [left.query, right.query]
        if self.lacks_key(left, right):
            keys = {name: self.names.new("j") for name in sorted(left.variables & right.variables)}
            sources = [
                self._with_keys_of_join(left, right, keys),
                self._with_keys_of_join(right, left, keys, is_right=True),
            ]
            on = nodes.both(nodes.equals(column(left_table, key), column(right_table, key)) for key in keys.values())
        if condition is not None:
            pair, _, read = self.merged(left, left_table, right, right_table)
            on = nodes.both([*([on] if on else []), condition(pair, read)])
        query = nodes.select(
            items,
            derived(sources[0], left_table),
            [nodes.join(derived(sources[1], right_table), on, side="LEFT" if is_optional else None)],
        )
        certain = left.certain if is_optional else merged.certain
        return self.flattened(replace(merged, query=query, certain=certain))

    def _with_keys_of_join(
        self, relation: SolutionRelation, other: SolutionRelation, keys: dict[str, str], *, is_right: bool = False
    ) -> exp.Select:
        """The solutions with a key for each variable that both relations share: solutions agree on it if they have a
        key in common, and they have never two.

        The key is the term; an unbound variable has a key that every solution of the other side has as its second.
        """
        table = self.names.new("t")
        items: list[Node] = [nodes.star(table)]
        copies: list[exp.Join] = []
        for name, key in keys.items():
            term = column(table, self.names.column(name))
            first, second = _keys_of_join(term, name in relation.certain, name in other.certain, is_right=is_right)
            if second is not None:
                copy = self.names.new("c")
                copies.append(nodes.join(nodes.rows(copy, "second", [exp.false(), exp.true()])))
                first = nodes.case((column(copy, "second"), second), default=first)
            items.append(alias(first, key))
        return nodes.select(items, derived(relation.query, table), copies)

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


def _keys_of_join(
    term: Node, is_certain: bool, is_certain_elsewhere: bool, *, is_right: bool
) -> tuple[Node, Node | None]:
    """The keys of one variable on one side of a join, see `RelationCompiler.join`."""
    if is_certain or is_certain_elsewhere:
        unbound = nodes.text("")
        return (term, unbound) if is_certain else (nodes.coalesce(term, unbound), None)
    left, right = nodes.text("left"), nodes.text("right")
    if is_right:
        return nodes.coalesce(term, left), right
    return nodes.coalesce(term, right), nodes.case((nodes.is_bound(term.copy()), left))
