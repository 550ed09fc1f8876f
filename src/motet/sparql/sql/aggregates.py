"""Aggregates over columns: sums of each kind of number, and the least and greatest terms.

SQL adds whole numbers, which is exact; a function adds up these sums and the few other numbers, rounds once, and says
what is an error.
"""

from __future__ import annotations

from sqlglot import exp

from motet.sparql.sql import nodes
from motet.sparql.sql.evaluation import HIGH_PARTS, LOW_PARTS, MILLION
from motet.sparql.sql.expressions import TypedTerm
from motet.sparql.sql.nodes import Node
from motet.sparql.term_columns import DECIMAL, DOUBLE, EXACT_NUMBERS, INEXACT_NUMBER, INSTANT, INTEGER


def total(name: str, typed: TypedTerm) -> Node:
    """SUM or AVG of a variable with columns of its value.

    Decimals are added as millionths, read from their doubles: with at most 15 digits a decimal is the one of its double
    that has a millionth as its last digit, if there is one. A double is divided into a multiple of 1/4096 and one of
    2⁻⁶⁴, both below 2⁵³. Numbers that do not fit are added from their texts.
    """
    value = typed.number
    millionths = _whole(_sum_of(_times(value, MILLION), exp.Literal.number("0.5")))
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
    return exp.Floor(this=node)


def _times(node: Node, factor: int) -> Node:
    """A product of doubles."""
    return exp.Mul(this=node.copy(), expression=nodes.cast(nodes.integer(factor), "DOUBLE"))


def _quotient(node: Node, divisor: int) -> Node:
    return exp.Div(this=nodes.cast(node.copy(), "DOUBLE"), expression=nodes.cast(nodes.integer(divisor), "DOUBLE"))


def _sum_of(left: Node, right: Node) -> Node:
    return exp.Add(this=left, expression=right)


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
