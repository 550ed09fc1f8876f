"""Compiles a whole query to one SQL query, whose columns are the variables of the answer.

Each node of the algebra becomes a relation. Given bindings (of EXISTS) and graphs (of GRAPH with a variable) are keys
of relations, see `relation`: nothing is evaluated row by row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from motet.sparql import algebra
from motet.sparql.scope import certainly_bound, in_scope, variables_in_order
from motet.sparql.sql import nodes
from motet.sparql.sql.dialects import DialectName, write_sql
from motet.sparql.sql.modifiers import ModifierCompiler
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.paths import Closure, PathCompiler
from motet.sparql.sql.relation import Domain, PatternContext, SolutionRelation
from motet.sparql.sql.scan import QuadColumn, QuadScan, SqlDataset, with_ranges


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """``variables`` names the variable of each column of the tree; ASK has none and at most one row."""

    tree: exp.Query
    variables: tuple[str, ...]
    _texts: dict[tuple[str, bool], str] = field(default_factory=dict, compare=False, repr=False)

    def sql(self, dialect: DialectName, *, pretty: bool = False) -> str:
        """The text, which is written once."""
        if (dialect, pretty) not in self._texts:
            self._texts[dialect, pretty] = write_sql(self.tree, dialect, pretty=pretty)
        return self._texts[dialect, pretty]

    def with_names(self) -> CompiledQuery:
        """The same query with columns that have the names of the variables; it must not be sorted."""
        tree = self.tree.copy()
        named = [
            exp.Alias(this=item.unalias(), alias=exp.Identifier(this=name, quoted=True))
            for item, name in zip(tree.expressions, self.variables, strict=True)
        ]
        tree.set("expressions", named)
        return CompiledQuery(tree, self.variables)


def compile_query(
    query: algebra.Query, dataset: SqlDataset, closure: Closure, *, now: str, joins_call_python: bool = True
) -> CompiledQuery:
    """The SQL of a query's solutions: of SELECT its rows, of CONSTRUCT and DESCRIBE those their triples come from."""
    chosen = dataset.selected(query.dataset)
    compiler = PatternCompiler(
        chosen, closure, now, compared_variables(query.pattern), joins_call_python=joins_call_python
    )
    if isinstance(query, algebra.AskQuery):
        relation = compiler.sliced(compiler.compile(query.pattern, PatternContext(is_set=False)), 0, 1)
    else:
        relation = compiler.compile(query.pattern, PatternContext())
    return _finished(compiler, relation, _answered(query))


def _answered(query: algebra.Query) -> tuple[str, ...]:
    """The variables an answer needs."""
    match query:
        case algebra.SelectQuery(variables=variables):
            return variables
        case algebra.AskQuery():
            return ()
        case algebra.ConstructQuery(template=template):
            names = [triple.variables() for triple in template]
            return tuple(sorted(name for name in frozenset().union(*names) if not algebra.is_hidden(name)))
        case algebra.DescribeQuery(targets=targets):
            return tuple(
                dict.fromkeys(name for target in targets if (name := algebra.variable_name(target)) is not None)
            )


def _finished(compiler: PatternCompiler, relation: SolutionRelation, variables: tuple[str, ...]) -> CompiledQuery:
    table = compiler.names.new("t")
    places = [
        column(table, compiler.names.column(name))
        if name in relation.variables
        else alias(nodes.null(), compiler.names.column(name))
        for name in variables
    ]
    tree = nodes.select(places, derived(relation.query, table))
    if relation.order:
        tree.set("order", exp.Order(expressions=compiler.sorting(relation, table)))
    if compiler.shared:
        tree.set("with_", exp.With(expressions=compiler.shared, recursive=_is_recursive(compiler)))
    return CompiledQuery(tree, variables)


def _is_recursive(compiler: PatternCompiler) -> bool:
    return any(isinstance(shared.this, exp.Union) and shared.this.args.get("distinct") for shared in compiler.shared)


def compared_variables(tree: object) -> frozenset[str]:  # noqa: PLR0911  (one return for each kind)
    """The variables that are compared, sorted, added up or searched somewhere: their values are read beside their
    terms.
    """
    match tree:
        case algebra.Compare(_, left, right):
            sides = (left, right)
            own = frozenset(side.name for side in sides if isinstance(side, algebra.Variable))
            return own.union(*map(compared_variables, sides))
        case algebra.In(operand, choices):
            own = frozenset({operand.name}) if isinstance(operand, algebra.Variable) else frozenset()
            return own.union(*map(compared_variables, choices))
        case algebra.Call("CONTAINS" | "STRSTARTS" | "STRENDS" | "REGEX" | "STR", (algebra.Variable(name), *others)):
            return frozenset({name}).union(*map(compared_variables, others))
        case algebra.OrderCondition(algebra.Variable(name), _):
            return frozenset({name})
        case algebra.Aggregate("SUM" | "AVG" | "MIN" | "MAX", algebra.Variable(name)):
            return frozenset({name})
        case tuple():
            return frozenset().union(*map(compared_variables, tree))
        case str() | int() | None:
            return frozenset()
    return frozenset().union(*(compared_variables(getattr(tree, name)) for name in getattr(tree, "__match_args__", ())))


# Patterns


class PatternCompiler(ModifierCompiler):
    """Compiles the patterns of one query over one dataset. ``now`` is the xsd:dateTime of NOW().

    ``joins_call_python`` says whether the engine's outer joins may call Python in their conditions.
    """

    def __init__(
        self, dataset: SqlDataset, closure: Closure, now: str, compared: frozenset[str], *, joins_call_python: bool
    ) -> None:
        super().__init__(dataset, now)
        self.compared = compared
        self.joins_call_python = joins_call_python
        self.paths = PathCompiler(self, dataset, closure)

    def compile(self, pattern: algebra.Algebra, context: PatternContext) -> SolutionRelation:
        """The solutions of a pattern."""
        return self.flattened(self._compiled(pattern, context))

    def _compiled(self, pattern: algebra.Algebra, context: PatternContext) -> SolutionRelation:  # noqa: PLR0911, PLR0912  (one case for each kind of node)
        match pattern:
            case algebra.Bgp(triples):
                return self._bgp(triples, context)
            case algebra.Join(left, right):
                return self.join(self.compile(left, context), self.compile(right, context))
            case algebra.LeftJoin(left, right, condition) if condition is not None and _is_of_right(
                left, right, condition
            ):
                return self._compiled(algebra.LeftJoin(left, algebra.Filter(right, condition)), context)
            case algebra.LeftJoin(left, right, condition):
                return self._left_join(self.compile(left, context), self.compile(right, context), condition, context)
            case algebra.Union():
                return self._union([self.compile(part, context) for part in _alternatives(pattern)], context)
            case algebra.Minus(left, right):
                removed = self.compile(right, replace(context, is_set=False, ranges={}))
                return self._minus(self.compile(left, context), removed, context)
            case algebra.Filter(operand, condition):
                narrowed = replace(context, ranges=with_ranges(context.ranges, condition))
                return self.filter(self.compile(operand, narrowed), condition, context)
            case algebra.Extend():
                return self._extend(pattern, context)
            case algebra.Values(variables, rows):
                return self.constrain(self.values(variables, rows), context)
            case algebra.NamedGraph(name, inner):
                return self._named_graph(name, inner, context)
            case algebra.Group():
                return self._group(pattern, context)
            case algebra.OrderBy(operand, conditions):
                return self._order_by(self.compile(operand, context), conditions, context)
            case algebra.Project(operand, variables):
                return self._project(operand, variables, context)
            case algebra.Distinct(operand):
                return self._distinct(self.compile(operand, replace(context, is_set=False)))
            case algebra.Reduced(operand):
                return self.compile(operand, context)
            case algebra.Slice(operand, offset, limit):
                return self.sliced(self.compile(operand, replace(context, is_set=True, ranges={})), offset, limit)

    # Triples.

    def _bgp(self, triples: tuple[algebra.Triple, ...], context: PatternContext) -> SolutionRelation:
        """Triples joined in an order in which each shares a variable with those before it, if there is one."""
        remaining = [triple for triple in triples if isinstance(triple.predicate, str)]
        result: SolutionRelation | None = None
        while remaining:
            seen = result.variables if result else frozenset()
            best = max(remaining, key=lambda triple: (bool(triple.variables() & seen), -len(triple.variables() - seen)))
            remaining.remove(best)
            scanned = self._triple(best, context)
            result = scanned if result is None else self.join(result, scanned)
        for triple in triples:
            if not isinstance(triple.predicate, str):
                result = self.paths.join(result, triple, _nodes_of(triples), context)
        return self.unit() if result is None else self.constrain(result, context)

    def _triple(self, triple: algebra.Triple, context: PatternContext) -> SolutionRelation:
        assert isinstance(triple.predicate, str)
        terms: dict[QuadColumn, str] = {"s": triple.subject, "p": triple.predicate, "o": triple.object}
        fixed = {place: (term,) for place, term in terms.items() if algebra.variable_name(term) is None}
        places = {place: name for place, term in terms.items() if (name := algebra.variable_name(term)) is not None}
        typed = places.get("o") in self.compared and "o" in places
        wanted: set[QuadColumn] = set(places)
        wanted |= {"okind", "onum", "ots"} if typed else set()
        wanted |= {"off"} if context.graph_key else set()
        scan = QuadScan(
            context.place,
            frozenset(wanted),
            subjects=fixed.get("s"),
            predicates=fixed.get("p"),
            objects=fixed.get("o"),
            ranges=context.ranges.get(places.get("o", ""), ()),
            is_set=context.is_set,
        )
        if typed:
            name = places["o"]
            self.kinds[name] = self.kinds.get(name, frozenset()) | self.dataset.kinds(scan)
        return self._scanned(self.dataset.scan(scan), places, typed, context)

    def _scanned(
        self, query: exp.Query, places: dict[QuadColumn, str], typed: bool, context: PatternContext
    ) -> SolutionRelation:
        """A scan under the names of variables; a variable that stands twice has one term."""
        table = self.names.new("t")
        first: dict[str, QuadColumn] = {}
        repeated = [(place, first.setdefault(name, place)) for place, name in places.items()]
        where = [nodes.equals(column(table, a), column(table, b)) for a, b in repeated if a != b]
        items: list[Node] = []
        if context.graph_key:
            items.append(alias(column(table, "off"), context.graph_key))
        items += [alias(column(table, place), self.names.column(name)) for name, place in sorted(first.items())]
        if typed:
            own = zip(("okind", "onum", "ots"), self.names.typed_columns(places["o"]), strict=True)
            items += [alias(column(table, source), target) for source, target in own]
        variables = frozenset(first)
        return SolutionRelation(
            nodes.select(items, derived(query, table), where=nodes.both(where) if where else None),
            variables,
            variables,
            frozenset({context.graph_key}) if context.graph_key else frozenset(),
            frozenset({places["o"]}) if typed else frozenset(),
        )

    def values(self, variables: tuple[str, ...], rows: Iterable[tuple[str | None, ...]]) -> SolutionRelation:
        """Solutions written out."""
        listed = list(rows)
        if not variables:
            return replace(self.unit(), query=self._repeated(len(listed)))
        places = [self.names.column(name) for name in variables]
        table = self.names.new("t")
        if not listed:
            query = nodes.select([alias(nodes.null(), place) for place in places], where=exp.false())
        else:
            tuples = [
                exp.Tuple(expressions=[nodes.null() if term is None else nodes.text(term) for term in row])
                for row in listed
            ]
            source = exp.Values(
                expressions=tuples,
                alias=exp.TableAlias(
                    this=exp.Identifier(this=table), columns=[exp.Identifier(this=place) for place in places]
                ),
            )
            query = nodes.select([column(table, place) for place in places], source)
        certain = frozenset(name for index, name in enumerate(variables) if all(row[index] for row in listed))
        return SolutionRelation(query, frozenset(variables), certain)

    def _repeated(self, times: int) -> exp.Query:
        if not times:
            return nodes.select([], where=exp.false())
        return nodes.union_all([nodes.select([]) for _ in range(times)])

    # Joins.

    def _left_join(
        self, left: SolutionRelation, right: SolutionRelation, condition: algebra.Expr | None, context: PatternContext
    ) -> SolutionRelation:
        left = self.expand(left, right.keys, context)
        if condition is not None:
            left = self.expand(left, self._given_keys(condition, context), context)
        if not self.lacks_key(left, right) or left.variables & right.variables <= right.certain:
            if condition is None:
                return self.join(left, right, is_optional=True)
            alone = self.alone(condition) if self.joins_call_python else None
            if alone is not None:
                return self.join(
                    left, right, is_optional=True,
                    condition=lambda pair, read: self.scope(pair, read, context).truth(alone, positive=True),
                )  # fmt: skip
        return self._left_join_in_parts(left, right, condition, context)

    def _left_join_in_parts(
        self, left: SolutionRelation, right: SolutionRelation, condition: algebra.Expr | None, context: PatternContext
    ) -> SolutionRelation:
        """The joined solutions that fulfil the condition, and the left ones that have none of these."""
        doubtful = sorted((left.variables & right.variables) - left.certain)
        copies = {name: f".left{self.names.new('')}" for name in doubtful}  # the right side may bind them
        if copies:
            own = {copy: algebra.Variable(name) for name, copy in copies.items()}
            left = self.extended(left, dict(own), PatternContext())
        left = self.reusable(left)
        joined = self.join(left, right)
        joined = self.reusable(joined if condition is None else self.filter(joined, condition, context))
        outer, inner = self.names.new("t"), self.names.new("t")
        same = [self.same_key(outer, inner, key) for key in sorted(left.keys)]
        for name in sorted(left.variables - copies.keys()):
            place = self.names.column(name)
            is_certain = name in left.certain
            same.append(
                nodes.equals(column(outer, place), column(inner, place))
                if is_certain
                else self.same_key(outer, inner, place)
            )
        matched = exp.Exists(this=nodes.select([], derived(joined.query.copy(), inner), where=nodes.both(same)))
        unmatched = nodes.select([nodes.star(outer)], derived(left.query.copy(), outer), where=exp.Not(this=matched))
        result = self.union([joined, replace(left, query=unmatched)])
        visible = result.variables - frozenset(copies.values())
        return replace(result, query=self.project(result, variables=visible), variables=visible)

    def _union(self, parts: list[SolutionRelation], context: PatternContext) -> SolutionRelation:
        keys = frozenset().union(*(part.keys for part in parts))
        return self.union([self.expand(part, keys, context) for part in parts])

    def _minus(self, left: SolutionRelation, right: SolutionRelation, context: PatternContext) -> SolutionRelation:
        """Left solutions without those that agree with a right one, on at least one variable that both bind."""
        shared = sorted(left.variables & right.variables)
        if not shared:
            return left
        left = self.expand(
            left, right.keys | {context.given[name] for name in shared if name in context.given}, context
        )
        outer, inner = self.names.new("t"), self.names.new("t")
        overlaps = []
        for name in shared:
            place = self.names.column(name)
            bound = [nodes.is_bound(column(outer, place))] if name not in left.certain else []
            bound += [nodes.is_bound(column(inner, place))] if name not in right.certain else []
            bound += [nodes.is_null(column(outer, context.given[name]))] if name in context.given else []
            overlaps.append(nodes.both(bound))
        conditions = [self.matching(left, outer, right, inner) or exp.true(), nodes.either(overlaps)]
        removed = exp.Exists(this=nodes.select([], derived(right.query, inner), where=nodes.both(conditions)))
        query = nodes.select([nodes.star(outer)], derived(left.query, outer), where=exp.Not(this=removed))
        return replace(left, query=query, order=(), flags=frozenset())

    # Graphs.

    def _named_graph(self, name: str, inner: algebra.Algebra, context: PatternContext) -> SolutionRelation:
        variable = algebra.variable_name(name)
        if variable is None:
            relation = self.compile(inner, replace(context, place=name, graph_key=None))
            table = self.names.new("t")
            there = nodes.select(
                [], derived(self.dataset.graphs(), table), where=nodes.equals(column(table, "g"), nodes.text(name))
            )
            query = self.project(relation, where=lambda _: exp.Exists(this=there))
            return replace(relation, query=query, order=(), flags=frozenset())
        key = self.names.new("g")
        domain = Domain(frozenset({key}), lambda: self._graph_keys(key))
        inside = replace(context, place="named", graph_key=key, domains=(*context.domains, domain))
        relation = self.expand(self.compile(inner, inside), {key}, inside)
        return self.constrain(self._with_graph_name(relation, key, variable), context)

    def _graph_keys(self, key: str) -> exp.Query:
        table = self.names.new("t")
        return nodes.select([alias(column(table, "off"), key)], derived(self.dataset.graphs(), table))

    def _with_graph_name(self, relation: SolutionRelation, key: str, variable: str) -> SolutionRelation:
        table, graphs = self.names.new("t"), self.names.new("t")
        on = [nodes.equals(column(table, key), column(graphs, "off"))]
        place = self.names.column(variable)
        if variable in relation.variables:
            is_certain = variable in relation.certain
            on.append(self.compatible(column(table, place), column(graphs, "g"), is_certain, True))
        others = replace(
            relation,
            keys=relation.keys - {key},
            variables=relation.variables - {variable},
            typed=relation.typed - {variable},
        )
        query = nodes.select(
            [*self.columns_of(others, table), alias(column(graphs, "g"), place)],
            derived(relation.query, table),
            [nodes.join(derived(self.dataset.graphs(), graphs), nodes.both(on))],
        )
        return replace(
            others,
            query=query,
            variables=others.variables | {variable},
            certain=others.certain | {variable},
            order=(),
            flags=frozenset(),
        )


def _alternatives(pattern: algebra.Algebra) -> list[algebra.Algebra]:
    """The parts of a chain of UNIONs."""
    parts: list[algebra.Algebra] = []
    pending = [pattern]
    while pending:
        part = pending.pop()
        if isinstance(part, algebra.Union):
            pending += [part.right, part.left]
        else:
            parts.append(part)
    return parts


def _is_of_right(left: algebra.Algebra, right: algebra.Algebra, condition: algebra.Expr) -> bool:
    """Whether a condition of OPTIONAL has the same value for a solution of the right side alone."""
    others = frozenset(variables_in_order(condition)) - certainly_bound(right)
    return not others or others.isdisjoint(in_scope(left))


def _nodes_of(triples: tuple[algebra.Triple, ...]) -> frozenset[str]:
    """The variables that triples without paths bind to nodes of the graph."""
    places = [
        place for triple in triples if isinstance(triple.predicate, str) for place in (triple.subject, triple.object)
    ]
    return frozenset(name for place in places if (name := algebra.variable_name(place)) is not None)
