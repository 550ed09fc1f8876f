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
from motet.sparql.sql.evaluation import HIGH_PARTS, LOW_PARTS, MILLION, describe_aggregate
from motet.sparql.sql.expressions import ExpressionCompiler, TypedTerm
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.relation import PatternContext, SolutionRelation
from motet.sparql.term_columns import DECIMAL, DOUBLE, EXACT_NUMBERS, INEXACT_NUMBER, INSTANT, INTEGER, IRI
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

    Decimals are added as millionths, read from their doubles: with at most 15 digits a decimal is the one of its double
    that has a millionth as its last digit, if there is one. A double is divided into a multiple of 1/4096 and one of
    2⁻⁶⁴, both below 2⁵³. Numbers that do not fit are added from their texts.
    """
    value = typed.number
    half = nodes.case(
        (exp.LT(this=value.copy(), expression=nodes.integer(0)), exp.Literal.number("-0.5")),
        default=exp.Literal.number("0.5"),
    )
    millionths = _whole(_sum_of(_times(value, MILLION), nodes.cast(half, "DOUBLE")))
    is_exact = nodes.both([_is_below(value, 10**9), nodes.equals(_quotient(millionths, MILLION), value.copy())])
    decimals = nodes.cast(nodes.LexicalText(this=typed.term.copy()), "DECIMAL(38, 18)")
    high = _whole(_times(value, HIGH_PARTS))
    rest = _times(
        exp.Paren(this=exp.Sub(this=_times(value, HIGH_PARTS), expression=high.copy())), LOW_PARTS // HIGH_PARTS
    )
    is_divided = nodes.both([_is_below(value, 2**40), nodes.equals(_whole(rest), rest.copy())])
    is_double, is_decimal = _is_of(typed, DOUBLE), _is_of(typed, DECIMAL)
    is_other = nodes.either(
        [_is_of(typed, INEXACT_NUMBER), nodes.both([is_double.copy(), nodes.negation(is_divided.copy())])]
    )
    is_number = nodes.case((_is_of(typed, INTEGER, DECIMAL, DOUBLE, INEXACT_NUMBER), nodes.integer(1)))
    everything: Node = exp.Count(this=exp.Star())
    sums = [
        _sum(nodes.case((_is_of(typed, INTEGER), _units(value)))),
        _sum(nodes.case((nodes.both([is_decimal, is_exact]), _units(millionths)))),
        _sum(nodes.case((nodes.both([is_double, is_divided]), _units(high)))),
        _sum(nodes.case((nodes.both([is_double.copy(), is_divided.copy()]), _units(rest)))),
        _sum(nodes.case((nodes.both([is_decimal.copy(), nodes.negation(is_exact.copy())]), decimals))),
    ]
    return nodes.Total(
        expressions=[
            nodes.text(name),
            exp.Sub(this=everything, expression=exp.Count(this=is_number)),
            everything.copy(),
            nodes.ListOf(expressions=sums),
            nodes.TermsOf(this=nodes.case((is_other, typed.term.copy()))),
        ]
    )


def _sum(node: Node) -> Node:
    return nodes.cast(exp.Sum(this=node), "VARCHAR")


def _units(node: Node) -> Node:
    """A whole number below 2⁵³, as what is added exactly."""
    return nodes.cast(nodes.cast(node.copy(), "BIGINT"), "DECIMAL(18, 0)")


def _whole(node: Node) -> Node:
    return nodes.WholePart(this=node.copy())


def _times(node: Node, factor: int) -> Node:
    """A product of doubles."""
    return exp.Mul(this=node.copy(), expression=nodes.cast(nodes.integer(factor), "DOUBLE"))


def _quotient(node: Node, divisor: int) -> Node:
    return exp.Div(this=nodes.cast(node.copy(), "DOUBLE"), expression=nodes.cast(nodes.integer(divisor), "DOUBLE"))


def _sum_of(left: Node, right: Node) -> Node:
    return exp.Paren(this=exp.Add(this=left, expression=right))


def _is_below(node: Node, limit: int) -> Node:
    return exp.LT(this=exp.Abs(this=node.copy()), expression=nodes.integer(limit))


def extreme(name: str, term: Node, typed: TypedTerm | None) -> Node:
    """MIN or MAX: the best number, the best instant and the best of the others, compared by the evaluator. One error
    makes it an error.
    """
    greatest = name == "MAX"
    candidates: list[Node] = []
    rest: Node = nodes.OrderKey(this=term.copy())
    if typed is not None:
        for kinds, value in ((EXACT_NUMBERS, typed.number), ((INSTANT,), typed.instant)):
            candidates.append(_best(term, nodes.case((_is_of(typed, *kinds), value.copy())), greatest))
        is_other = nodes.negation(_is_of(typed, *EXACT_NUMBERS, INSTANT))
        rest = nodes.case((is_other, rest))
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
    otherwise = nodes.OrderKey(this=term)
    if typed is None:
        return otherwise
    assert isinstance(typed.kind, exp.Expression)
    decimal = nodes.cast(nodes.LexicalText(this=typed.term.copy()), "DECIMAL(38, 18)")
    instant = exp.GT(this=typed.instant.copy(), expression=nodes.integer(0))
    iri = exp.Substring(
        this=typed.term.copy(),
        start=nodes.integer(2),
        length=exp.Sub(this=exp.Length(this=typed.term.copy()), expression=nodes.integer(2)),
    )
    return nodes.case(
        (nodes.is_null(typed.term.copy()), nodes.text("0")),
        (nodes.equals(typed.kind.copy(), nodes.integer(IRI)), nodes.concat(nodes.text("2"), iri)),
        (
            nodes.one_of(typed.kind.copy(), [nodes.integer(INTEGER), nodes.integer(DECIMAL)]),
            nodes.concat(nodes.text("302"), _number(decimal, 18)),
        ),
        (
            nodes.both([nodes.equals(typed.kind.copy(), nodes.integer(INSTANT)), instant]),
            # In units of 10⁻¹⁸ seconds: twelve more digits than microseconds; the last one says that it has a zone.
            nodes.concat(nodes.text("310"), _number(typed.instant.copy(), -12), nodes.text("1")),
        ),
        default=otherwise,
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
