"""Compiles SPARQL expressions: to SQL where SQL says exactly the same, otherwise to a call of the evaluator.

An error is NULL, and SQL's three-valued logic is that of ``&&``, ``||`` and ``!``. What has no exact SQL becomes
`EvaluateTerm` or `EvaluateTruth` with the expression's text: the function behind them is that of leaf bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

from sqlglot import exp

from motet.sparql import algebra
from motet.sparql.expressions import compile_expression
from motet.sparql.scope import renamed, variables_in_order
from motet.sparql.sql import nodes
from motet.sparql.sql.evaluation import encode_expression
from motet.sparql.sql.nodes import Node
from motet.sparql.sql.text_functions import annotation_equality, language_match, text_comparison, text_test
from motet.sparql.term_columns import (
    ALL_KINDS,
    BLANK,
    EXACT_NUMBERS,
    INSTANT,
    IRI,
    LANGUAGE_STRING,
    STRING,
    term_columns,
)
from motet.sparql.values import ExpressionError, decode, effective_boolean_value

_COMPARISONS: dict[str, Callable[..., Any]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FIRST_CHARACTERS = {"ISIRI": "<", "ISBLANK": "_", "ISLITERAL": '"'}


@dataclass(frozen=True, slots=True)
class TypedTerm:
    """A term with its kind and value; the kind of a constant is known. ``kinds`` are those it may have."""

    term: Node
    kind: Node | int
    number: Node
    instant: Node
    kinds: frozenset[int] = ALL_KINDS


@dataclass(frozen=True, slots=True)
class ExpressionCompiler:
    """Compiles expressions over columns: ``value`` gives the column of a variable, ``typed`` the columns of its value,
    ``flag`` a column that is true or false; each None where there is no such column.
    """

    value: Callable[[str], Node | None]
    typed: Callable[[str], TypedTerm | None]
    flag: Callable[[str], Node | None]

    def term(self, expression: algebra.Expr) -> Node:  # noqa: PLR0911  (one return for each kind of node)
        """The term of an expression; NULL for an error."""
        match expression:
            case algebra.Variable(name):
                return self._term_of(name)
            case algebra.Constant(term):
                return nodes.text(term)
            case algebra.Coalesce(parts):
                return nodes.coalesce(*map(self.term, parts)) if parts else nodes.null()
            case algebra.If(condition, then, otherwise):
                return nodes.case(
                    (self.truth(condition), self.term(then)),
                    (nodes.negation(self.truth(condition)), self.term(otherwise)),
                    default=nodes.null(),
                )
            case algebra.Call("BNODE", (label, algebra.Variable(row))):
                return self._labelled_node(label, row)
            case algebra.And() | algebra.Or() | algebra.Not() | algebra.Compare() | algebra.In() | algebra.Bound():
                return _boolean_term(self.truth(expression))
        return nodes.EvaluateTerm(**self._call(expression))

    def truth(self, expression: algebra.Expr, *, positive: bool = False) -> Node:  # noqa: PLR0911, PLR0912  (one case for each kind)
        """The truth of an expression; NULL for an error. ``positive``: an error may as well be false."""
        match expression:
            case algebra.Variable(name) if (flag := self.flag(name)) is not None:
                return flag
            case algebra.Constant(term):
                return _constant_truth(term)
            case algebra.And(parts):
                return nodes.both(self.truth(part, positive=positive) for part in parts)
            case algebra.Or(parts):
                return nodes.either(self.truth(part, positive=positive) for part in parts)
            case algebra.Not(operand):
                return nodes.negation(self.truth(operand))
            case algebra.Bound(name):
                column = self.value(name)
                return exp.false() if column is None else nodes.is_bound(column)
            case algebra.In(operand, choices):
                equalities = [algebra.Compare("=", operand, choice) for choice in choices]
                return nodes.either(self.truth(equality, positive=positive) for equality in equalities)
            case algebra.Call("SAMETERM", (left, right)):
                return nodes.equals(self.term(left), self.term(right))
            case algebra.Call(name, (operand,)) if name in _FIRST_CHARACTERS:
                first = exp.Substring(this=self.term(operand), start=nodes.integer(1), length=nodes.integer(1))
                return nodes.equals(first, nodes.text(_FIRST_CHARACTERS[name]))
            case algebra.Call("CONTAINS" | "STRSTARTS" | "STRENDS" | "REGEX") if (
                tested := text_test(expression, self._term_of, self._kinds_of)
            ) is not None:
                return tested
            case algebra.Call("LANGMATCHES") if (matched := language_match(expression, self._term_of)) is not None:
                return matched
            case algebra.Compare(operator, left, right):
                compared = self._comparison(expression, operator, left, right, positive)
                if compared is not None:
                    return compared
        return nodes.EvaluateTruth(**self._call(expression))

    def _term_of(self, name: str) -> Node:
        flag = self.flag(name)
        if flag is not None:
            return _boolean_term(flag)
        column = self.value(name)
        return nodes.null() if column is None else column

    def _kinds_of(self, name: str) -> frozenset[int]:
        typed = self.typed(name)
        return ALL_KINDS if typed is None else typed.kinds

    def _labelled_node(self, label: algebra.Expr, row: str) -> Node:
        """The blank node of a simple string in the solution with this number."""
        text, number = self.term(label), self.value(row)
        assert number is not None
        is_string = nodes.both(
            [self.truth(algebra.Call("ISLITERAL", (label,))), exp.Like(this=text, expression=nodes.text('%"'))]
        )
        return nodes.case((is_string, nodes.concat(nodes.text("_:q"), exp.MD5(this=nodes.concat(number, text.copy())))))

    def _call(self, expression: algebra.Expr) -> dict[str, object]:
        """The arguments of a call of the evaluator: a text with the variables ``x0``, ``x1``, and their terms."""
        compile_expression(expression)  # refuses what cannot be evaluated
        names = variables_in_order(expression)
        numbered = {name: f"x{index}" for index, name in enumerate(names)}
        text = encode_expression(renamed(expression, numbered.__getitem__))
        return {"this": nodes.text(text), "expressions": [self._term_of(name) for name in names]}

    # Comparison.

    def _comparison(
        self, whole: algebra.Expr, operator: str, left: algebra.Expr, right: algebra.Expr, positive: bool
    ) -> Node | None:
        """A comparison on values, or on terms where that is the same; None if only the evaluator can tell."""
        if operator in ("=", "!=") and (same := self._same_term(left, right, positive and operator == "=")) is not None:
            return same if operator == "=" else nodes.negation(same)
        if (compared := self._text_comparison(whole, operator, left, right)) is not None:
            return compared
        first, second = self._typed(left), self._typed(right)
        if first is None or second is None:
            return None
        return self._by_kind(whole, operator, first, second)

    def _text_comparison(
        self, whole: algebra.Expr, operator: str, left: algebra.Expr, right: algebra.Expr
    ) -> Node | None:
        """STR, LANG or DATATYPE of a variable beside a constant."""
        for first, second, sign in ((left, right, operator), (right, left, _MIRRORED[operator])):
            if operator in ("=", "!=") and (same := annotation_equality(first, second, self._term_of)) is not None:
                return same if operator == "=" else nodes.negation(same)
            if isinstance(first, algebra.Call) and first.name == "STR":
                otherwise = nodes.EvaluateTruth(**self._call(whole))
                return text_comparison(first, second, _COMPARISONS[sign], self._term_of, self._kinds_of, otherwise)
        return None

    def _same_term(self, left: algebra.Expr, right: algebra.Expr, positive: bool) -> Node | None:
        """Equality as that of terms: exact beside an IRI or a text with a language; beside a plain string it only
        differs in which terms are errors.
        """
        for constant, other in ((left, right), (right, left)):
            if isinstance(constant, algebra.Constant) and isinstance(other, algebra.Variable):
                kind = term_columns(constant.term).okind
                if kind in (IRI, LANGUAGE_STRING) or (positive and kind == STRING):
                    return nodes.equals(self.term(other), self.term(constant))
        return None

    def _typed(self, expression: algebra.Expr) -> TypedTerm | None:
        if isinstance(expression, algebra.Variable):
            return self.typed(expression.name)
        if not isinstance(expression, algebra.Constant):
            return None
        kind, number, instant = term_columns(expression.term)
        return TypedTerm(
            nodes.text(expression.term),
            kind,
            nodes.cast(exp.Literal.string(repr(number)), "DOUBLE") if number is not None else exp.Null(),
            nodes.integer(instant) if instant is not None else exp.Null(),
            frozenset({kind}),
        )

    def _by_kind(self, whole: algebra.Expr, operator: str, left: TypedTerm, right: TypedTerm) -> Node:
        """A branch for each pair of kinds that SQL compares exactly; everything else is left to the evaluator."""
        compare: Callable[..., Node] = _COMPARISONS[operator]
        comparable = [
            (EXACT_NUMBERS, left.number, right.number),
            ((INSTANT,), left.instant, right.instant),
        ]
        if operator in ("=", "!="):
            comparable.append(((IRI, BLANK, STRING, LANGUAGE_STRING), left.term, right.term))
        branches: list[tuple[Node, Node]] = []
        pairs = set(product(left.kinds, right.kinds))
        for kinds, first, second in comparable:
            same = set(product(left.kinds.intersection(kinds), right.kinds.intersection(kinds)))
            comparison = compare(this=first.copy(), expression=second.copy())
            if same == pairs:
                return exp.Paren(this=comparison)
            if same:
                branches.append((nodes.both([*_is_of(left, kinds), *_is_of(right, kinds)]), comparison))
                pairs -= same
        if not pairs:
            return nodes.case(*branches)
        unbound = [nodes.is_null(side.term.copy()) for side in (left, right) if isinstance(side.kind, exp.Expression)]
        branches = [(nodes.either(unbound), exp.Null()), *branches] if unbound else branches
        return nodes.case(*branches, default=nodes.EvaluateTruth(**self._call(whole)))


def _is_of(side: TypedTerm, kinds: Iterable[int]) -> list[Node]:
    """The condition that a kind is one of some; none where it always is."""
    if side.kinds.issubset(kinds):
        return []
    assert isinstance(side.kind, exp.Expression)
    return [nodes.one_of(side.kind.copy(), [nodes.integer(kind) for kind in sorted(side.kinds.intersection(kinds))])]


def _boolean_term(truth: Node) -> Node:
    boolean = "http://www.w3.org/2001/XMLSchema#boolean"
    return nodes.case(
        (truth, nodes.text(f'"true"^^<{boolean}>')),
        (nodes.negation(truth.copy()), nodes.text(f'"false"^^<{boolean}>')),
        default=nodes.null(),
    )


def _constant_truth(term: str) -> Node:
    try:
        return exp.true() if effective_boolean_value(decode(term)) else exp.false()
    except ExpressionError:
        return nodes.cast(exp.Null(), "BOOLEAN")


_Part = TypeVar("_Part", bound=algebra.Expr)


def replaced(expression: _Part, values: dict[algebra.Expr, algebra.Expr]) -> _Part:
    """The expression with other expressions in the place of some."""
    if expression in values:
        return values[expression]  # type: ignore[return-value]  # a part of an expression may be any other
    return mapped(expression, lambda operand: replaced(operand, values))  # type: ignore[return-value]


def mapped(expression: algebra.Expr, change: Callable[[algebra.Expr], algebra.Expr]) -> algebra.Expr:  # noqa: PLR0911
    """The expression with the expressions directly inside it changed."""
    match expression:
        case algebra.And(parts) | algebra.Or(parts) | algebra.Coalesce(parts):
            return type(expression)(tuple(map(change, parts)))
        case algebra.Call(name, arguments):
            return algebra.Call(name, tuple(map(change, arguments)))
        case algebra.Not(operand):
            return algebra.Not(change(operand))
        case algebra.Sign(operator, operand):
            return algebra.Sign(operator, change(operand))
        case algebra.Compare(operator, left, right) | algebra.Arithmetic(operator, left, right):
            return type(expression)(operator, change(left), change(right))
        case algebra.In(operand, choices):
            return algebra.In(change(operand), tuple(map(change, choices)))
        case algebra.If(condition, then, otherwise):
            return algebra.If(change(condition), change(then), change(otherwise))
    return expression
