"""Compiles groups with aggregates, and the solution modifiers: ORDER BY, projection, DISTINCT, LIMIT and OFFSET.

SQL adds whole numbers, which is exact; a function adds up these sums and the few other numbers, rounds once, and says
what is an error. The key of ORDER BY is the text that `evaluation.sparql_order` returns, in SQL where kinds and values
are in columns.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from motet.model.terms import XSD
from motet.sparql import algebra
from motet.sparql.aggregates import aggregate
from motet.sparql.sql import nodes
from motet.sparql.sql.conditions import ConditionCompiler
from motet.sparql.sql.evaluation import MILLION, PART, PARTS, describe_aggregate
from motet.sparql.sql.expressions import ExpressionCompiler, TypedTerm
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.relation import PatternContext, SolutionRelation
from motet.sparql.term_columns import (
    DECIMAL,
    DOUBLE,
    EXACT_NUMBERS,
    FIXED_DOUBLE,
    INEXACT_NUMBER,
    INSTANT,
    INTEGER,
    IRI,
    MILLIONTHS,
    NUMBERS,
)
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


def total(name: str, typed: TypedTerm) -> Node:
    """SUM or AVG of a variable with columns of its value.

    Numbers are added as integers: what stands before the point, of decimals the millionths after it, of doubles the
    three parts of 32 bits after it. Other numbers are added from their texts.
    """
    value = typed.number
    millionths = _rounded(_times(nodes.Fraction(this=value.copy()), MILLION))
    shifted = (_times(value, PART**part) if part else value.copy() for part in range(PARTS))
    fractions = [nodes.WholePart(this=_times(nodes.Fraction(this=node), PART)) for node in shifted]
    decimals = nodes.cast(nodes.LexicalText(this=typed.term.copy()), "DECIMAL(38, 18)")
    sums = [
        _sum_where(typed, (INTEGER, MILLIONTHS, FIXED_DOUBLE), nodes.WholePart(this=value.copy()), nodes.WholeSum),
        _sum_where(typed, (MILLIONTHS,), millionths),
        *(_sum_where(typed, (FIXED_DOUBLE,), part) for part in fractions),
        _sum_where(typed, (DECIMAL,), decimals),
    ]
    others = _where(typed, (DOUBLE, INEXACT_NUMBER), typed.term)
    assert isinstance(typed.kind, exp.Expression)
    everything, numbers = exp.Count(this=exp.Star()), exp.Count(this=_where(typed, NUMBERS, typed.kind) or nodes.null())
    return nodes.Total(
        expressions=[
            nodes.text(name),
            exp.Sub(this=everything, expression=numbers),
            everything.copy(),
            nodes.ListOf(expressions=sums),
            nodes.cast(exp.Null(), "VARCHAR[]") if others is None else nodes.TermsOf(this=others),
        ]
    )


def _sum_where(typed: TypedTerm, kinds: tuple[int, ...], number: Node, function: type[Node] = exp.Sum) -> Node:
    """The sum over the numbers of some kinds, as a text; NULL if there can be none."""
    counted = _where(typed, kinds, number)
    return nodes.null() if counted is None else nodes.cast(function(this=counted), "VARCHAR")


def _where(typed: TypedTerm, kinds: tuple[int, ...], value: Node) -> Node | None:
    """A value, which is NULL with its term, where the term is of some kinds; None if it never is."""
    if typed.kinds.issubset(kinds):
        return value.copy()
    possible = sorted(typed.kinds.intersection(kinds))
    return nodes.case((_is_of(typed, *possible), value.copy())) if possible else None


def _rounded(number: Node) -> Node:
    half = exp.Literal.number("0.5")
    return nodes.WholePart(this=exp.Floor(this=exp.Add(this=number, expression=nodes.cast(half, "DOUBLE"))))


def _times(node: Node, factor: int) -> Node:
    """A product of doubles."""
    return exp.Mul(this=node.copy(), expression=nodes.cast(nodes.integer(factor), "DOUBLE"))


def extreme(name: str, term: Node, typed: TypedTerm | None) -> Node:
    """MIN or MAX: the best number, the best instant and the best of the others, compared by the evaluator. One error
    makes it an error.
    """
    greatest = name == "MAX"
    candidates: list[Node] = []
    rest: Node = nodes.OrderKey(this=term.copy())
    if typed is not None:
        for kinds, value in ((EXACT_NUMBERS, typed.number), ((INSTANT,), typed.instant)):
            if (key := _where(typed, kinds, value)) is not None:
                candidates.append(_best(term, key, greatest))
        is_other = nodes.negation(_is_of(typed, *EXACT_NUMBERS, INSTANT))
        rest = nodes.case((is_other, rest))
    if typed is None or not typed.kinds.issubset((*EXACT_NUMBERS, INSTANT)):
        candidates.append(_best(term, rest, greatest))
    errors = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Count(this=term.copy()))
    best = nodes.Extreme(name=nodes.text(name), expressions=candidates)
    return nodes.case((nodes.negation(errors), best), default=nodes.null())


def _best(term: Node, key: Node, greatest: bool) -> Node:
    return nodes.LeastBy(this=term.copy(), expression=key, greatest=greatest)


def _is_of(typed: TypedTerm, *kinds: int) -> Node:
    assert isinstance(typed.kind, exp.Expression)
    return nodes.one_of(typed.kind.copy(), [nodes.integer(kind) for kind in kinds])


def sort_key(term: Node, typed: TypedTerm | None) -> Node:
    """A text whose order is that of the term; what SQL cannot write is left to the function."""
    if typed is None:
        return nodes.OrderKey(this=term)
    is_covered = typed.kinds.issubset((IRI, INTEGER, DECIMAL, MILLIONTHS, INSTANT))
    assert isinstance(typed.kind, exp.Expression)
    decimal = nodes.cast(nodes.LexicalText(this=typed.term.copy()), "DECIMAL(38, 18)")
    iri = exp.Substring(
        this=typed.term.copy(),
        start=nodes.integer(2),
        length=exp.Sub(this=exp.Length(this=typed.term.copy()), expression=nodes.integer(2)),
    )
    return nodes.case(
        (nodes.is_null(typed.term.copy()), nodes.text("0")),
        (nodes.equals(typed.kind.copy(), nodes.integer(IRI)), nodes.concat(nodes.text("2"), iri)),
        (
            _is_of(typed, INTEGER, DECIMAL, MILLIONTHS),
            nodes.concat(nodes.text("302"), _number(decimal, 18)),
        ),
        (
            _is_of(typed, INSTANT),
            # In units of 10⁻¹⁸ seconds: twelve more digits than microseconds; the last one says that it has a zone.
            nodes.concat(nodes.text("310"), _number(typed.instant.copy(), -12), nodes.text("1")),
        ),
        default=None if is_covered else nodes.OrderKey(this=term),
    )


def _number(number: Node, fraction_digits: int) -> Node:
    """A sign, an exponent and digits, as `evaluation.sparql_order` writes them."""
    text = nodes.cast(number, "VARCHAR")
    digits = _replaced(_replaced(text, "[-.]", "", everywhere=True), "^0+", "")
    exponent = nodes.cast(
        exp.Add(this=exp.Length(this=digits.copy()), expression=nodes.integer(5000 - fraction_digits)), "VARCHAR"
    )
    key = nodes.concat(exponent, _replaced(digits, "0+$", ""))
    complement = nodes.translate(key.copy(), "0123456789", "9876543210")
    zero = nodes.integer(0)
    return nodes.case(
        (exp.GT(this=number.copy(), expression=zero), nodes.concat(nodes.text("2"), key)),
        (
            exp.LT(this=number.copy(), expression=zero.copy()),
            nodes.concat(nodes.text("0"), complement, nodes.text("~")),
        ),
        default=nodes.text("1"),
    )


def _replaced(text: Node, pattern: str, by: str, *, everywhere: bool = False) -> Node:
    return nodes.RegexReplace(this=text, pattern=nodes.text(pattern), expression=nodes.text(by), everywhere=everywhere)
