"""Compiles property paths: a path becomes a relation of pairs of nodes, ``a`` and ``b``.

Links keep their multiplicities; ``?``, ``*`` and ``+`` give each pair once. A closure starts from the end of the path
that is bound: a constant, or a variable of the triples beside it. Closing the edges is the engine's part (`Closure`):
not every SQL has the recursion that it needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from sqlglot import exp

from motet.sparql import algebra
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.relation import PatternContext, RelationCompiler, SolutionRelation
from motet.sparql.sql.scan import QuadColumn, QuadScan, SqlDataset


class Closure(Protocol):
    def __call__(
        self, relations: RelationCompiler, edges: exp.Query, seeds: exp.Query | None, graph_key: str | None
    ) -> exp.Query:
        """The pairs ``a``, ``b`` joined by one or more edges, each once, in each graph; with seeds (the column ``a``),
        only those that begin there.
        """


class PathCompiler:
    def __init__(self, relations: RelationCompiler, dataset: SqlDataset, closure: Closure) -> None:
        self.relations = relations
        self.names = relations.names
        self.dataset = dataset
        self.closure = closure
        self._constants: list[str] = []  # the ends of the path in hand, where a path of length zero may stay

    def join(
        self,
        relation: SolutionRelation | None,
        triple: algebra.Triple,
        nodes_known: frozenset[str],
        context: PatternContext,
    ) -> SolutionRelation:
        """The solutions of a path pattern, joined with those of the patterns before it, whose variables in
        ``nodes_known`` are bound to nodes of the graph.
        """
        assert not isinstance(triple.predicate, str)
        path, ends = triple.predicate, (triple.subject, triple.object)
        names = tuple(algebra.variable_name(end) for end in ends)
        self._constants = [end for end, name in zip(ends, names, strict=True) if name is None]
        start, end = (None if name else end for end, name in zip(ends, names, strict=True))
        if relation is not None and isinstance(path, algebra.ZeroOrMore | algebra.OneOrMore) and not self._constants:
            bound = [name in relation.variables and name in nodes_known for name in names]
            if any(bound):
                relation = self.relations.reusable(relation)
                pairs = self._seeded(path, relation, names, backwards=not bound[0], context=context)
                return self.relations.join(_copy(relation), self._named(pairs, names, context))
        found = self._named(self.pairs(path, start, end, context), names, context)
        return found if relation is None else self.relations.join(relation, found)

    def _named(self, pairs: exp.Query, names: tuple[str | None, ...], context: PatternContext) -> SolutionRelation:
        """Pairs under the names of variables."""
        table = self.names.new("t")
        own = {name: place for name, place in zip(names, ("a", "b"), strict=True) if name is not None}
        items: list[Node] = self._graph(table, context)
        items += [alias(column(table, place), self.names.column(name)) for name, place in own.items()]
        is_loop = names[0] is not None and names[0] == names[1]
        where = nodes.equals(column(table, "a"), column(table, "b")) if is_loop else None
        return SolutionRelation(
            nodes.select(items, derived(pairs, table), where=where),
            frozenset(own),
            frozenset(own),
            frozenset({context.graph_key}) if context.graph_key else frozenset(),
        )

    def _graph(self, table: str, context: PatternContext) -> list[Node]:
        return [column(table, context.graph_key)] if context.graph_key else []

    # Pairs of nodes.

    def pairs(  # noqa: PLR0911  (one case for each kind of path)
        self, path: algebra.Path, start: str | None, end: str | None, context: PatternContext
    ) -> exp.Query:
        """The pairs a path joins, with the graph if there are several; only those with the given ends."""
        match path:
            case algebra.Link(iri):
                return self._links(context, start, end, predicates=(iri,))
            case algebra.Inverse(inner):
                return self._swapped(self.pairs(inner, end, start, context), context)
            case algebra.Sequence(parts):
                return self._sequence(parts, start, end, context)
            case algebra.Alternative(parts):
                return nodes.union_all([self.pairs(part, start, end, context) for part in parts])
            case algebra.NegatedSet(forward, backward):
                found = [] if forward is None else [self._links(context, start, end, excluded=forward)]
                if backward is not None:
                    found.append(self._swapped(self._links(context, end, start, excluded=backward), context))
                return nodes.union_all(found)
            case algebra.ZeroOrOne(inner):
                return self._distinct(
                    [self._zero(start, end, context), self.pairs(inner, start, end, context)], context
                )
            case algebra.OneOrMore(inner):
                return self._closed(inner, start, end, context)
            case algebra.ZeroOrMore(inner):
                return self._distinct(
                    [self._zero(start, end, context), self._closed(inner, start, end, context)], context
                )

    def _links(
        self,
        context: PatternContext,
        start: str | None,
        end: str | None,
        predicates: tuple[str, ...] | None = None,
        excluded: tuple[str, ...] = (),
    ) -> exp.Query:
        wanted: set[QuadColumn] = {"s", "o"}
        wanted |= {"off"} if context.graph_key else set()
        if predicates is None:
            wanted.add("p")  # two predicates between the same nodes are two links
        scan = QuadScan(
            context.place,
            frozenset(wanted),
            subjects=(start,) if start else None,
            predicates=predicates,
            objects=(end,) if end else None,
            not_predicates=excluded,
            is_set=context.is_set,
        )
        table = self.names.new("t")
        items = [alias(column(table, "off"), context.graph_key)] if context.graph_key else []
        items += [alias(column(table, "s"), "a"), alias(column(table, "o"), "b")]
        return nodes.select(items, derived(self.dataset.scan(scan), table))

    def _swapped(self, pairs: exp.Query, context: PatternContext) -> exp.Query:
        table = self.names.new("t")
        items = [*self._graph(table, context), alias(column(table, "b"), "a"), alias(column(table, "a"), "b")]
        return nodes.select(items, derived(pairs, table))

    def _sequence(
        self, parts: tuple[algebra.Path, ...], start: str | None, end: str | None, context: PatternContext
    ) -> exp.Query:
        last = len(parts) - 1
        result = self.pairs(parts[0], start, end if last == 0 else None, context)
        for index, part in enumerate(parts[1:], 1):
            left, right = self.names.new("t"), self.names.new("t")
            on = [nodes.equals(column(left, "b"), column(right, "a"))]
            if context.graph_key:
                on.append(nodes.equals(column(left, context.graph_key), column(right, context.graph_key)))
            following = self.pairs(part, None, end if index == last else None, context)
            items = [*self._graph(left, context), column(left, "a"), column(right, "b")]
            joins = [nodes.join(derived(following, right), nodes.both(on))]
            result = self.relations.flat(nodes.select(items, derived(result, left), joins))
        return result

    def _distinct(self, parts: list[exp.Query], context: PatternContext) -> exp.Query:
        table = self.names.new("t")
        items = [*self._graph(table, context), column(table, "a"), column(table, "b")]
        return nodes.select(items, derived(nodes.union_all(parts), table), distinct=True)

    def _zero(self, start: str | None, end: str | None, context: PatternContext) -> exp.Query:
        """Paths of length zero: of the given end, or of every node of the graph."""
        if start is not None and end is not None and start != end:
            return self._stay([], context)
        given = start or end
        if given is not None:
            return self._stay([given], context)
        return nodes.union_all(
            [*self._nodes(context), *([self._stay(self._constants, context)] if self._constants else [])]
        )

    def _stay(self, terms: list[str], context: PatternContext) -> exp.Query:
        """The pairs of some terms with themselves, in every graph."""
        table = self.names.new("t")
        graphs = [derived(self.dataset.graphs(), table)] if context.graph_key else []
        queries = []
        for term in terms or [""]:
            items = [alias(column(table, "off"), context.graph_key)] if context.graph_key else []
            items += [alias(nodes.text(term), "a"), alias(nodes.text(term), "b")]
            where = None if terms else exp.false()
            queries.append(nodes.select(items, graphs[0].copy() if graphs else None, where=where))
        return nodes.union_all(queries)

    def _nodes(self, context: PatternContext) -> list[exp.Query]:
        """Every subject and every object with itself."""
        return [self._nodes_at(place, context) for place in ("s", "o")]

    def _nodes_at(self, place: QuadColumn, context: PatternContext) -> exp.Query:
        wanted: set[QuadColumn] = {place}
        wanted |= {"off"} if context.graph_key else set()
        table = self.names.new("t")
        items = [alias(column(table, "off"), context.graph_key)] if context.graph_key else []
        items += [alias(column(table, place), "a"), alias(column(table, place), "b")]
        return nodes.select(
            items, derived(self.dataset.scan(QuadScan(context.place, frozenset(wanted), is_set=False)), table)
        )

    def _closed(self, inner: algebra.Path, start: str | None, end: str | None, context: PatternContext) -> exp.Query:
        """One or more steps, from the end that is given."""
        if start is None and end is not None:
            backwards = self._swapped(self.pairs(inner, None, None, context), context)
            return self._swapped(self._from_constant(backwards, end, None, context), context)
        return self._from_constant(self.pairs(inner, None, None, context), start, end, context)

    def _from_constant(
        self, edges: exp.Query, start: str | None, end: str | None, context: PatternContext
    ) -> exp.Query:
        seeds = nodes.select([alias(nodes.text(start), "a")]) if start is not None else None
        closed = self.closure(self.relations, edges, seeds, context.graph_key)
        if end is None:
            return closed
        table = self.names.new("t")
        items = [*self._graph(table, context), column(table, "a"), column(table, "b")]
        return nodes.select(items, derived(closed, table), where=nodes.equals(column(table, "b"), nodes.text(end)))

    def _seeded(
        self,
        path: algebra.ZeroOrMore | algebra.OneOrMore,
        relation: SolutionRelation,
        names: tuple[str | None, ...],
        *,
        backwards: bool,
        context: PatternContext,
    ) -> exp.Query:
        """The pairs of a closure that begin (or end) at a bound variable of a relation."""
        name = names[1] if backwards else names[0]
        assert name is not None

        def seeds() -> exp.Query:
            table = self.names.new("t")
            items = [alias(column(table, self.names.column(name)), "a")]
            return nodes.select(items, derived(relation.query.copy(), table), distinct=True)

        edges = self.pairs(path.path, None, None, context)
        closed = self.closure(
            self.relations, self._swapped(edges, context) if backwards else edges, seeds(), context.graph_key
        )
        if isinstance(path, algebra.ZeroOrMore):
            table = self.names.new("t")
            items = self._graph(table, context)
            place = self.names.column(name)
            items += [alias(column(table, place), "a"), alias(column(table, place), "b")]
            stay = nodes.select(items, derived(relation.query.copy(), table), distinct=True)
            closed = self._distinct([stay, closed], context)
        return self._swapped(closed, context) if backwards else closed


def _copy(relation: SolutionRelation) -> SolutionRelation:
    return replace(relation, query=relation.query.copy())


def recursive_closure(
    relations: RelationCompiler, edges: exp.Query, seeds: exp.Query | None, graph_key: str | None
) -> exp.Query:
    """A closure by SQL's own recursion, for engines whose recursion removes duplicates and so ends on cycles.

    The edges are computed once: a recursion would read them again at each level.
    """
    names, edge_table, closed = relations.names, relations.share(edges), relations.names.new("w")
    start, step, more = names.new("t"), names.new("t"), names.new("t")
    graph = [graph_key] if graph_key else []
    joins = []
    if seeds is not None:
        seed = names.new("t")
        joins.append(nodes.join(derived(seeds, seed), nodes.equals(column(start, "a"), column(seed, "a"))))
    first = nodes.select([column(start, name) for name in (*graph, "a", "b")], nodes.table(edge_table, start), joins)
    first.set("distinct", exp.Distinct())
    on = [nodes.equals(column(step, "b"), column(more, "a"))]
    on += [nodes.equals(column(step, name), column(more, name)) for name in graph]
    following = nodes.select(
        [*(column(step, name) for name in graph), column(step, "a"), column(more, "b")],
        nodes.table(closed, step),
        [nodes.join(nodes.table(edge_table, more), nodes.both(on))],
    )
    recursion = exp.Union(this=first, expression=following, distinct=True)
    relations.shared.append(exp.CTE(this=recursion, alias=exp.TableAlias(this=exp.Identifier(this=closed))))
    return nodes.select([exp.Star()], nodes.table(closed))
