"""The functions that compiled queries call in Python: expressions, aggregates and sort keys over terms.

They are the evaluator of leaf bodies; every engine registers these functions under the same names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from motet.sparql import algebra
from motet.sparql.aggregates import ExactSum, aggregate, average
from motet.sparql.expressions import ExpressionError, compile_expression
from motet.sparql.scope import operands
from motet.sparql.temporal import SCALE
from motet.sparql.values import NUMERIC_RANK, decode, effective_boolean_value, order_key

UNIT_SEPARATOR = "\x1f"
MILLION = 1_000_000
PART, PARTS = 1 << 32, 3  # the fraction of a double is divided by 2^32 so many times


def sparql_term(text: str, *terms: str | None) -> str | None:
    """The term of an expression over ``?x0``, ``?x1``, …; None for an error.

    >>> sparql_term('["STRLEN", "?x0"]', '"four"')
    '"4"^^<http://www.w3.org/2001/XMLSchema#integer>'
    """
    try:
        return _compiled(text)({f"x{index}": term for index, term in enumerate(terms) if term is not None})
    except ExpressionError:
        return None


def sparql_truth(text: str, *terms: str | None) -> bool | None:
    """The effective boolean value of an expression; None for an error.

    >>> sparql_truth('["<", "?x0", "?x1"]', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', None)
    """
    try:
        bindings = {f"x{index}": term for index, term in enumerate(terms) if term is not None}
        return effective_boolean_value(decode(_compiled(text)(bindings)))
    except ExpressionError:
        return None


def sparql_aggregate(description: str, terms: Sequence[str] | None) -> str | None:
    """An aggregate over the terms of a group, of which an error is the empty text; None for an error, and for no terms.

    The description is the aggregate's name, ``distinct`` or nothing, and the separator.

    >>> sparql_aggregate(describe_aggregate("GROUP_CONCAT", False, ","), ['"a"', '"b"'])
    '"a,b"'
    """
    name, distinct, separator = description.split(UNIT_SEPARATOR, 2)
    try:
        return aggregate(name, [term or None for term in terms or ()], bool(distinct), separator)
    except ExpressionError:
        return None


def sparql_extreme(name: str, terms: Sequence[str | None]) -> str | None:
    """MIN or MAX of some terms; None is left out.

    >>> sparql_extreme("MIN", [None, '"b"', "<urn:a>"])
    '<urn:a>'
    """
    known = [term for term in terms if term is not None]
    if not known:
        return None
    return min(known, key=order_key) if name == "MIN" else max(known, key=order_key)


def sparql_total(
    name: str,
    errors: int,
    count: int,
    sums: Sequence[str | None],
    others: Sequence[str] | None,
) -> str | None:
    """SUM or AVG of a group; None for an error.

    ``errors`` counts the values that are no numbers, ``count`` all of them. The sums are exact, each None if it has no
    numbers: of what stands before the point, of the millionths of decimals, of the parts of doubles, each 2^-32 of the
    one before it, and of the other decimals. ``others`` are the terms of the numbers that are in none of these.

    >>> sparql_total("AVG", 0, 2, ["3", None, None, None, None, None], [])
    '"1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    if errors:
        return None
    total = ExactSum()
    *whole, decimals = sums
    for (kind, denominator), part in zip(_SUMS, whole, strict=True):
        if part is not None:
            total.add_ratio(kind, int(part), denominator)
    if decimals is not None:
        total.add_ratio("decimal", int(Decimal(decimals).scaleb(18)), SCALE)
    try:
        for term in others or ():
            total.add(decode(term))
        value = total.value()
        return (average(value, count) if name == "AVG" else value).term
    except ExpressionError:
        return None


_SUMS = (("integer", 1), ("decimal", MILLION), *(("double", PART ** (n + 1)) for n in range(PARTS)))


def describe_aggregate(name: str, distinct: bool, separator: str) -> str:
    return UNIT_SEPARATOR.join((name, "distinct" if distinct else "", separator))


def sparql_order(term: str | None) -> str:
    """A text whose order, by code points, is that of the term. `motet.sparql.sql.modifiers` writes the same in SQL.

    >>> [sparql_order(None), sparql_order("<urn:a>"), sparql_order('"-12"^^<http://www.w3.org/2001/XMLSchema#integer>')]
    ['0', '2urn:a', '3020499787~']
    """
    if term is None:
        return "0"
    value = decode(term)
    if value.kind in NUMERIC_RANK and math.isfinite(value.value):
        return "302" + _sortable_number(*_decimal_digits(value.kind, value.value))
    flat = _flat(order_key(term))
    return "".join(_sortable(part, index) for index, part in enumerate(flat))


def _flat(key: Any) -> list[Any]:
    return [part for element in key for part in (_flat(element) if isinstance(element, tuple) else [element])]


def _sortable(part: Any, index: int) -> str:
    """The ranks that a key begins with, and truth values, have one digit; a text before a language ends with NUL."""
    if isinstance(part, str):
        return part + ("\x00" if index == 2 else "")
    if isinstance(part, bool) or index < 3:
        return str(int(part))
    return _sortable_number(part < 0, str(abs(part)), len(str(abs(part))))


def _sortable_number(is_negative: bool, digits: str, exponent: int) -> str:
    """A sign, an exponent and digits; those of a negative number are complements, which end above every digit."""
    digits = digits.strip("0")
    if not digits:
        return "1"
    text = f"{exponent + 5000}{digits}"
    return "0" + text.translate(_COMPLEMENTS) + "~" if is_negative else "2" + text


def _decimal_digits(kind: str, value: Any) -> tuple[bool, str, int]:
    """The sign and all digits of a number, and how many of them stand before its decimal point."""
    if kind in ("float", "double"):
        sign, digits, exponent = Decimal(value).as_tuple()
        assert isinstance(exponent, int)
        return bool(sign), "".join(map(str, digits)), len(digits) + exponent
    digits_of_units = str(abs(value))
    return value < 0, digits_of_units, len(digits_of_units) - (18 if kind == "decimal" else 0)


_COMPLEMENTS = str.maketrans("0123456789", "9876543210")


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Callable[[dict[str, str]], str]:
    return compile_expression(decode_expression(text))


def encode_expression(expression: algebra.Expr) -> str:
    """An expression as JSON: ``[name, operand, …]``; variables and constants are texts.

    >>> encode_expression(algebra.Compare(">", algebra.Variable("x0"), algebra.Constant("<urn:a>")))
    '[">", "?x0", "<urn:a>"]'
    """
    return json.dumps(_encoded(expression), ensure_ascii=False)


def _encoded(expression: algebra.Expr) -> Any:
    match expression:
        case algebra.Variable(name):
            return f"?{name}"
        case algebra.Constant(term):
            return term
        case algebra.Bound(name):
            return ["BOUND", f"?{name}"]
        case algebra.Compare(operator, _, _) | algebra.Arithmetic(operator, _, _):
            name = operator
        case algebra.Sign(operator, _):
            name = f"sign {operator}"
        case algebra.Call(name, _):
            pass
        case _:
            name = type(expression).__name__
    return [name, *map(_encoded, operands(expression))]


def decode_expression(text: str) -> algebra.Expr:
    """The expression that a text of `encode_expression` stands for."""
    return _decoded(json.loads(text))


def _decoded(node: Any) -> algebra.Expr:  # noqa: PLR0911  (one return for each kind)
    if isinstance(node, str):
        return algebra.Variable(node[1:]) if node.startswith("?") else algebra.Constant(node)
    name, *parts = node
    inner = tuple(map(_decoded, parts))
    if name == "BOUND":
        return algebra.Bound(parts[0][1:])
    if name in ("=", "!=", "<", "<=", ">", ">="):
        return algebra.Compare(name, *inner)
    if name in ("+", "-", "*", "/"):
        return algebra.Arithmetic(name, *inner)
    if name.startswith("sign "):
        return algebra.Sign(name[5:], *inner)
    if name == "In":
        return algebra.In(inner[0], inner[1:])
    if name in _OF_OPERANDS:
        return _OF_OPERANDS[name](inner)
    return algebra.Call(name, inner)


_OF_OPERANDS: dict[str, Callable[[tuple[algebra.Expr, ...]], algebra.Expr]] = {
    "And": algebra.And,
    "Or": algebra.Or,
    "Coalesce": algebra.Coalesce,
    "Not": lambda parts: algebra.Not(*parts),
    "If": lambda parts: algebra.If(*parts),
}


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sparql_term": sparql_term,
    "sparql_truth": sparql_truth,
    "sparql_aggregate": sparql_aggregate,
    "sparql_order": sparql_order,
    "sparql_total": sparql_total,
    "sparql_extreme": sparql_extreme,
}
