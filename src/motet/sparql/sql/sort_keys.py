"""The key of ORDER BY in SQL, for terms whose kind and value are in columns: the text that `sparql_order` returns."""

from __future__ import annotations

from sqlglot import exp

from motet.sparql.sql import nodes
from motet.sparql.sql.expressions import TypedTerm
from motet.sparql.sql.nodes import Node
from motet.sparql.term_columns import DECIMAL, INSTANT, INTEGER, IRI


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
