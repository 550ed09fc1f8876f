"""Which variables a pattern may bind, must bind, and which ones an expression mentions. Hidden variables are
included. Also renames variables and replaces terms in a tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from motet.sparql import algebra

_NONE: frozenset[str] = frozenset()


def in_scope(pattern: algebra.Algebra) -> frozenset[str]:  # noqa: PLR0911  (one return for each kind of node)
    """The variables a solution of the pattern may bind.

    >>> from motet.sparql.parse_cache import parse_group
    >>> sorted(in_scope(parse_group("?s <urn:p> ?o MINUS { ?s <urn:q> ?x }")))
    ['o', 's']
    """
    match pattern:
        case algebra.Bgp(triples):
            return _NONE.union(*(triple.variables() for triple in triples))
        case algebra.Join(left, right) | algebra.LeftJoin(left, right) | algebra.Union(left, right):
            return in_scope(left) | in_scope(right)
        case (
            algebra.Minus(operand, _)
            | algebra.Filter(operand, _)
            | algebra.OrderBy(operand, _)
            | algebra.Distinct(operand)
            | algebra.Reduced(operand)
            | algebra.Slice(operand)
        ):
            return in_scope(operand)
        case algebra.Extend(operand, variable, _):
            return in_scope(operand) | {variable}
        case algebra.Values(variables, _) | algebra.Project(_, variables):
            return frozenset(variables)
        case algebra.NamedGraph(name, inner):
            return in_scope(inner) | _variable_of(name)
        case algebra.Group(_, keys, aggregates):
            return frozenset(keys) | {name for name, _ in aggregates}


def _variable_of(term: str) -> frozenset[str]:
    name = algebra.variable_name(term)
    return _NONE if name is None else frozenset({name})


def certainly_bound(pattern: algebra.Algebra) -> frozenset[str]:  # noqa: PLR0911  (one return for each kind of node)
    """The variables every solution of the pattern binds.

    >>> from motet.sparql.parse_cache import parse_group
    >>> sorted(certainly_bound(parse_group("?s <urn:p> ?o OPTIONAL { ?s <urn:q> ?x }")))
    ['o', 's']
    """
    match pattern:
        case algebra.Bgp():
            return in_scope(pattern)
        case algebra.Join(left, right):
            return certainly_bound(left) | certainly_bound(right)
        case algebra.Union(left, right):
            return certainly_bound(left) & certainly_bound(right)
        case (
            algebra.LeftJoin(operand, _)
            | algebra.Minus(operand, _)
            | algebra.Filter(operand, _)
            | algebra.Extend(operand, _, _)
            | algebra.OrderBy(operand, _)
            | algebra.Distinct(operand)
            | algebra.Reduced(operand)
            | algebra.Slice(operand)
        ):
            return certainly_bound(operand)
        case algebra.Project(operand, variables):
            return certainly_bound(operand) & frozenset(variables)
        case algebra.NamedGraph(name, inner):
            return certainly_bound(inner) | _variable_of(name)
        case algebra.Group(operand, keys, _):
            return certainly_bound(operand) & frozenset(keys)
        case algebra.Values(variables, rows):
            columns = zip(variables, zip(*rows, strict=True), strict=False)
            return frozenset(name for name, column in columns if None not in column)


def mentioned(expression: algebra.Expr) -> frozenset[str]:
    """The variables an expression mentions, those inside EXISTS too, as far as its pattern may bind them.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> sorted(mentioned(parse_expression("?a > ABS(?b) && BOUND(?c)")))
    ['a', 'b', 'c']
    """
    match expression:
        case algebra.Variable(name) | algebra.Bound(name):
            return frozenset({name})
        case algebra.Exists(pattern):
            return in_scope(pattern)
    return _NONE.union(*map(mentioned, operands(expression)))


def has_exists(expression: algebra.Expr) -> bool:
    """Whether EXISTS occurs in the expression."""
    return isinstance(expression, algebra.Exists) or any(map(has_exists, operands(expression)))


def operands(expression: algebra.Expr) -> tuple[algebra.Expr, ...]:
    """The expressions directly inside an expression."""
    match expression:
        case algebra.And(parts) | algebra.Or(parts) | algebra.Coalesce(parts) | algebra.Call(_, parts):
            return parts
        case algebra.Not(operand) | algebra.Sign(_, operand):
            return (operand,)
        case algebra.Compare(_, left, right) | algebra.Arithmetic(_, left, right):
            return (left, right)
        case algebra.In(operand, choices):
            return (operand, *choices)
        case algebra.If(condition, then, otherwise):
            return (condition, then, otherwise)
        case algebra.Variable() | algebra.Constant() | algebra.Bound() | algebra.Exists():
            return ()


Tree = TypeVar("Tree", bound=algebra.Algebra | algebra.Expr | algebra.Triple)
Change = Callable[[str], str]


def renamed(tree: Tree, variable: Change, term: Change = str) -> Tree:
    """The tree with every variable's name (hidden ones too) and every term put through a function.

    >>> renamed(algebra.Triple("?x", "<urn:p>", "?y"), str.upper)
    Triple(subject='?X', predicate='<urn:p>', object='?Y')
    """
    return _Renaming(variable, term).of(tree)


def variables_in_order(*trees: algebra.Algebra | algebra.Expr | algebra.Triple) -> list[str]:
    """The names of the variables, hidden ones included, each once, as they occur.

    >>> variables_in_order(algebra.Triple("?y", "?p", "<urn:o>"), algebra.Variable("x"), algebra.Variable("y"))
    ['y', 'p', 'x']
    """
    names: dict[str, None] = {}

    def add(name: str) -> str:
        names[name] = None
        return name

    for tree in trees:
        renamed(tree, add)
    return list(names)


class _Renaming:
    """One walk; every kind of node that holds a name or a term has its case, all others only hold nodes."""

    def __init__(self, variable: Change, term: Change) -> None:
        self.variable = variable
        self.term = term

    def of(self, tree: Any) -> Any:  # noqa: PLR0911  (one return for each kind)
        match tree:
            case algebra.Triple(subject, predicate, obj):
                return algebra.Triple(self.triple_term(subject), self.triple_term(predicate), self.triple_term(obj))
            case algebra.Variable(name) | algebra.Bound(name):
                return type(tree)(self.variable(name))
            case algebra.Constant(term):
                return algebra.Constant(self.term(term))
            case algebra.Link(iri):
                return algebra.Link(self.term(iri))
            case algebra.NegatedSet(forward, backward):
                return algebra.NegatedSet(self._terms(forward), self._terms(backward))
            case algebra.Extend(operand, name, expression):
                return algebra.Extend(self.of(operand), self.variable(name), self.of(expression))
            case algebra.Values(names, rows):
                return algebra.Values(tuple(map(self.variable, names)), tuple(map(self._cells, rows)))
            case algebra.NamedGraph(name, pattern):
                return algebra.NamedGraph(self.triple_term(name), self.of(pattern))
            case algebra.Project(operand, names):
                return algebra.Project(self.of(operand), tuple(map(self.variable, names)))
            case algebra.Group(operand, keys, aggregates):
                return self._group(operand, keys, aggregates)
            case tuple():
                return tuple(map(self.of, tree))
            case str() | int() | None:  # the name of an operator or function, a number of solutions
                return tree
        return type(tree)(*(self.of(getattr(tree, name)) for name in tree.__match_args__))

    def triple_term(self, term: Any) -> Any:
        if not isinstance(term, str):
            return self.of(term)
        name = algebra.variable_name(term)
        return self.term(term) if name is None else f"?{self.variable(name)}"

    def _group(
        self, operand: algebra.Algebra, keys: tuple[str, ...], aggregates: tuple[tuple[str, algebra.Aggregate], ...]
    ) -> algebra.Group:
        pairs = tuple((self.variable(name), self.of(aggregate)) for name, aggregate in aggregates)
        return algebra.Group(self.of(operand), tuple(map(self.variable, keys)), pairs)

    def _terms(self, terms: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if terms is None else tuple(map(self.term, terms))

    def _cells(self, row: tuple[str | None, ...]) -> tuple[str | None, ...]:
        return tuple(None if cell is None else self.term(cell) for cell in row)
