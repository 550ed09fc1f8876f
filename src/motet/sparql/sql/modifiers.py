"""Compiles groups with aggregates, and the solution modifiers: ORDER BY, projection, DISTINCT, LIMIT and OFFSET."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from motet.model.terms import XSD
from motet.sparql import algebra
from motet.sparql.aggregates import aggregate
from motet.sparql.sql import nodes
from motet.sparql.sql.aggregates import extreme, total
from motet.sparql.sql.conditions import ConditionCompiler
from motet.sparql.sql.evaluation import describe_aggregate
from motet.sparql.sql.expressions import ExpressionCompiler
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.relation import PatternContext, SolutionRelation
from motet.sparql.sql.sort_keys import sort_key
from motet.sparql.values import ExpressionError

_OF_SETS = frozenset({"MIN", "MAX", "SAMPLE"})  # aggregates for which a repeated value makes no difference


class ModifierCompiler(ConditionCompiler):
    """Compiles the nodes of subqueries and of whole queries."""

    def _group(self, pattern: algebra.Group, context: PatternContext) -> SolutionRelation:
        if not pattern.keys and not pattern.aggregates:
            return self.unit()
        is_set = any(node.name not in _OF_SETS and not node.distinct for _, node in pattern.aggregates)
        relation = self.compile(pattern.operand, replace(context, is_set=is_set, ranges={}))
        arguments = [node.argument for _, node in pattern.aggregates if node.argument is not None]
        relation, arguments = self.prepared(relation, arguments, context)
        table = self.names.new("t")
        scope = self.scope(relation, table, context)
        keys = [name for name in pattern.keys if name in relation.variables]
        grouping = [column(table, key) for key in sorted(relation.keys)]
        grouping += [column(table, self.names.column(name)) for name in keys]
        remaining = iter(arguments)
        items = [node.copy() for node in grouping]
        items += [alias(nodes.null(), self.names.column(name)) for name in pattern.keys if name not in keys]
        for name, node in pattern.aggregates:
            argument = None if node.argument is None else next(remaining)
            items.append(alias(self._aggregate(node, argument, relation, table, scope), self.names.column(name)))
        query = nodes.select(items, derived(relation.query, table), group=grouping)
        if pattern.keys and not grouping:  # by variables that are never bound: one group, if there are solutions
            some = exp.GT(this=exp.Count(this=exp.Star()), expression=nodes.integer(0))
            query.set("having", exp.Having(this=some))
        counted = frozenset(name for name, node in pattern.aggregates if node.name == "COUNT")
        grouped = SolutionRelation(
            query,
            frozenset(pattern.keys) | {name for name, _ in pattern.aggregates},
            (relation.certain & frozenset(pattern.keys)) | counted,
            relation.keys,
        )
        return self._with_empty_groups(grouped, pattern, context) if not pattern.keys and relation.keys else grouped

    def _aggregate(
        self,
        node: algebra.Aggregate,
        argument: algebra.Expr | None,
        relation: SolutionRelation,
        table: str,
        scope: ExpressionCompiler,
    ) -> Node:
        if node.name == "COUNT":
            return _integer_term(self._count(node, argument, relation, table, scope))
        assert argument is not None
        if node.name == "SAMPLE":
            return exp.Min(this=scope.term(argument))  # the same one on every engine
        typed = scope.typed(argument.name) if isinstance(argument, algebra.Variable) and not node.distinct else None
        if typed is not None and node.name in ("SUM", "AVG"):
            return total(node.name, typed)
        if node.name in ("MIN", "MAX"):
            return extreme(node.name, scope.term(argument), typed)
        return nodes.AggregateTerms(
            this=scope.term(argument),
            description=nodes.text(describe_aggregate(node.name, node.distinct, node.separator)),
        )

    def _count(
        self,
        node: algebra.Aggregate,
        argument: algebra.Expr | None,
        relation: SolutionRelation,
        table: str,
        scope: ExpressionCompiler,
    ) -> Node:
        if argument is not None:
            counted = scope.term(argument)
        elif node.distinct:
            visible = [name for name in sorted(relation.variables) if not algebra.is_hidden(name)]
            counted = nodes.ListOf(
                expressions=[column(table, self.names.column(name)) for name in visible] or [nodes.text("")]
            )
        else:
            return exp.Count(this=exp.Star())
        return exp.Count(this=exp.Distinct(expressions=[counted]) if node.distinct else counted)

    def _with_empty_groups(
        self, grouped: SolutionRelation, pattern: algebra.Group, context: PatternContext
    ) -> SolutionRelation:
        """A group for each value of the keys, also where it has no solutions."""
        every = self.expand(self.unit(), grouped.keys, context)
        outer, inner = self.names.new("t"), self.names.new("t")
        items = [column(outer, key) for key in sorted(grouped.keys)]
        marked = self.project(grouped, extra=lambda _: [alias(exp.true(), "found")])
        for name, node in pattern.aggregates:
            place = self.names.column(name)
            items.append(
                alias(
                    nodes.case(
                        (nodes.is_null(column(inner, "found")), _of_nothing(node)), default=column(inner, place)
                    ),
                    place,
                )
            )
        on = nodes.both(self.same_key(outer, inner, key) for key in sorted(grouped.keys))
        query = nodes.select(items, derived(every.query, outer), [nodes.join(derived(marked, inner), on, side="LEFT")])
        return replace(grouped, query=query)

    # Solution modifiers.

    def _order_by(
        self, relation: SolutionRelation, conditions: tuple[algebra.OrderCondition, ...], context: PatternContext
    ) -> SolutionRelation:
        relation, expressions = self.prepared(relation, [condition.expression for condition in conditions], context)
        order = [(self.names.new("o"), condition.descending) for condition in conditions]

        def sort_keys(table: str) -> list[Node]:
            scope = self.scope(relation, table, context)
            keys = [
                sort_key(
                    scope.term(expression),
                    scope.typed(expression.name) if isinstance(expression, algebra.Variable) else None,
                )
                for expression in expressions
            ]
            return [alias(key, name) for key, (name, _) in zip(keys, order, strict=True)]

        query = self.project(relation, extra=sort_keys)
        return replace(relation, query=query, order=tuple(order), flags=frozenset())

    def _project(
        self, operand: algebra.Algebra, variables: tuple[str, ...], context: PatternContext
    ) -> SolutionRelation:
        given = {name: key for name, key in context.given.items() if name in variables}
        ranges = {name: limits for name, limits in context.ranges.items() if name in variables}
        relation = self.compile(operand, replace(context, given=given, ranges=ranges))
        query = self.project(relation, variables=variables, keep_order=True)
        kept = relation.variables & frozenset(variables)
        return replace(
            relation, query=query, variables=kept, certain=relation.certain & kept, typed=relation.typed & kept,
            flags=frozenset(),
        )  # fmt: skip

    def _distinct(self, relation: SolutionRelation) -> SolutionRelation:
        """Each solution once; where they are sorted, at the place of the first."""
        plain = replace(relation, typed=frozenset(), flags=frozenset())
        if not relation.order:
            return replace(plain, query=self.project(plain, distinct=True))
        rank, table, outer = self.names.new("o"), self.names.new("t"), self.names.new("t")
        ranked = nodes.select(
            [*self.columns_of(plain, table), alias(_row_number([], self.sorting(relation, table)), rank)],
            derived(relation.query, table),
        )
        columns = self.columns_of(plain, outer)
        query = nodes.select(
            [*columns, alias(exp.Min(this=column(outer, rank)), rank)],
            derived(ranked, outer),
            group=[node.copy() for node in columns],
        )
        return replace(plain, query=query, order=((rank, False),))

    def sorting(self, relation: SolutionRelation, table: str) -> list[exp.Ordered]:
        return [exp.Ordered(this=column(table, name), desc=descending) for name, descending in relation.order]

    def sliced(self, relation: SolutionRelation, offset: int, limit: int | None) -> SolutionRelation:
        table = self.names.new("t")
        order = [column(table, name) for name, _ in relation.order]
        items = [*self.columns_of(relation, table), *order]
        if relation.keys:
            return self._slice_each(relation, offset, limit)
        query = nodes.select(items, derived(relation.query, table))
        if order:
            query.set("order", exp.Order(expressions=self.sorting(relation, table)))
        if limit is not None:
            query.set("limit", exp.Limit(expression=nodes.integer(limit)))
        if offset:
            query.set("offset", exp.Offset(expression=nodes.integer(offset)))
        return replace(relation, query=query, flags=frozenset())

    def _slice_each(self, relation: SolutionRelation, offset: int, limit: int | None) -> SolutionRelation:
        """The slice for each value of the keys."""
        table, outer, rank = self.names.new("t"), self.names.new("t"), self.names.new("o")
        partition = [column(table, key) for key in sorted(relation.keys)]
        number = _row_number(partition, self.sorting(relation, table))
        ranked = nodes.select([*self.columns_of(relation, table), alias(number, rank)], derived(relation.query, table))
        conditions: list[Node] = [exp.GT(this=column(outer, rank), expression=nodes.integer(offset))]
        if limit is not None:
            conditions.append(exp.LTE(this=column(outer, rank), expression=nodes.integer(offset + limit)))
        query = nodes.select(
            [*self.columns_of(relation, outer), column(outer, rank)],
            derived(ranked, outer),
            where=nodes.both(conditions),
        )
        return replace(relation, query=query, order=((rank, False),), flags=frozenset())


def _row_number(partition: list[Node], order: list[exp.Ordered]) -> Node:
    sorting = exp.Order(expressions=order or [exp.Ordered(this=nodes.integer(1), desc=False)])
    return exp.Window(this=exp.RowNumber(), partition_by=partition, order=sorting)


def _integer_term(number: Node) -> Node:
    return nodes.concat(nodes.text('"'), nodes.cast(number, "VARCHAR"), nodes.text(f'"^^<{XSD}integer>'))


def _of_nothing(node: algebra.Aggregate) -> Node:
    try:
        return nodes.text(aggregate(node.name, [], node.distinct, node.separator))
    except ExpressionError:
        return nodes.null()
