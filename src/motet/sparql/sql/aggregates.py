"""Aggregates over columns: sums of each kind of number, and the least and greatest terms.

Numbers that SQL adds exactly are added by SQL; a function adds up the sums, the few others, and says what is an error.
"""

from __future__ import annotations

from sqlglot import exp

from motet.sparql.sql import nodes
from motet.sparql.sql.expressions import TypedTerm
from motet.sparql.sql.nodes import Node
from motet.sparql.term_columns import DECIMAL, DOUBLE, EXACT_NUMBERS, INEXACT_NUMBER, INSTANT, INTEGER


def total(name: str, typed: TypedTerm) -> Node:
    """SUM or AVG of a variable with columns of its value."""
    number = nodes.case((_is_of(typed, INTEGER, DECIMAL, DOUBLE, INEXACT_NUMBER), nodes.integer(1)))
    integers = nodes.cast(typed.number.copy(), "DECIMAL(38, 0)")
    decimals = nodes.cast(nodes.LexicalText(this=typed.term.copy()), "DECIMAL(38, 18)")
    everything: Node = exp.Count(this=exp.Star())
    return nodes.Total(
        expressions=[
            nodes.text(name),
            exp.Sub(this=everything, expression=exp.Count(this=number)),
            everything.copy(),
            nodes.cast(exp.Sum(this=nodes.case((_is_of(typed, INTEGER), integers))), "VARCHAR"),
            nodes.cast(exp.Sum(this=nodes.case((_is_of(typed, DECIMAL), decimals))), "VARCHAR"),
            exp.Sum(this=nodes.case((_is_of(typed, DOUBLE), typed.number.copy()))),
            nodes.TermsOf(this=nodes.case((_is_of(typed, INEXACT_NUMBER), typed.term.copy()))),
        ]
    )


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
