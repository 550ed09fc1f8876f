"""Which variables a pattern may bind, must bind, and which ones an expression mentions. Names, hidden ones included."""

from __future__ import annotations

from motet.language.algebra import (
    Algebra,
    And,
    Arithmetic,
    Bgp,
    Bound,
    Call,
    Coalesce,
    Compare,
    Constant,
    Exists,
    Expr,
    Extend,
    Filter,
    If,
    In,
    Join,
    LeftJoin,
    Minus,
    Not,
    Or,
    Sign,
    Union,
    Values,
    Variable,
)

_NONE: frozenset[str] = frozenset()


def in_scope(pattern: Algebra) -> frozenset[str]:
    """The variables a solution of the pattern may bind.

    >>> from motet.language.sparql_algebra import parse_group
    >>> sorted(in_scope(parse_group("?s <urn:p> ?o MINUS { ?s <urn:q> ?x }")))
    ['o', 's']
    """
    match pattern:
        case Bgp(triples):
            return _NONE.union(*(triple.variables() for triple in triples))
        case Join(left, right) | LeftJoin(left, right) | Union(left, right):
            return in_scope(left) | in_scope(right)
        case Minus(operand, _) | Filter(operand, _):
            return in_scope(operand)
        case Extend(operand, variable, _):
            return in_scope(operand) | {variable}
        case Values(variables, _):
            return frozenset(variables)


def certainly_bound(pattern: Algebra) -> frozenset[str]:
    """The variables every solution of the pattern binds.

    >>> from motet.language.sparql_algebra import parse_group
    >>> sorted(certainly_bound(parse_group("?s <urn:p> ?o OPTIONAL { ?s <urn:q> ?x }")))
    ['o', 's']
    """
    match pattern:
        case Bgp():
            return in_scope(pattern)
        case Join(left, right):
            return certainly_bound(left) | certainly_bound(right)
        case Union(left, right):
            return certainly_bound(left) & certainly_bound(right)
        case LeftJoin(operand, _) | Minus(operand, _) | Filter(operand, _) | Extend(operand, _, _):
            return certainly_bound(operand)
        case Values(variables, rows):
            columns = zip(variables, zip(*rows, strict=True), strict=False)
            return frozenset(name for name, column in columns if None not in column)


def mentioned(expression: Expr) -> frozenset[str]:
    """The variables an expression mentions, those inside EXISTS too, as far as its pattern may bind them.

    >>> from motet.language.sparql_algebra import parse_expression
    >>> sorted(mentioned(parse_expression("?a > ABS(?b) && BOUND(?c)")))
    ['a', 'b', 'c']
    """
    match expression:
        case Variable(name) | Bound(name):
            return frozenset({name})
        case Exists(pattern):
            return in_scope(pattern)
    return _NONE.union(*map(mentioned, operands(expression)))


def has_exists(expression: Expr) -> bool:
    """Whether EXISTS occurs in the expression."""
    return isinstance(expression, Exists) or any(map(has_exists, operands(expression)))


def operands(expression: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside an expression."""
    match expression:
        case And(parts) | Or(parts) | Coalesce(parts) | Call(_, parts):
            return parts
        case Not(operand) | Sign(_, operand):
            return (operand,)
        case Compare(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case In(operand, choices):
            return (operand, *choices)
        case If(condition, then, otherwise):
            return (condition, then, otherwise)
        case Variable() | Constant() | Bound() | Exists():
            return ()
