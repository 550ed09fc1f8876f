"""Evaluating a SPARQL group graph pattern on one small graph, exactly.

This is the engine's evaluator for leaf bodies and the verifier of whatever an index has pre-selected. Given bindings
are *substituted*: their variables are constants in the whole pattern, inner groups, FILTER and MINUS included, as
SPARQL does for EXISTS. Groups are evaluated bottom-up as SPARQL defines; a right side is started from the solutions
of the left one only where that cannot change the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from motet.sparql.algebra import Algebra, Bgp, Expr, Extend, Filter, Join, LeftJoin, Minus, Union, Values, is_hidden
from motet.sparql.basic_patterns import Row, check_size, compile_bgp
from motet.sparql.expressions import ExpressionError, compile_expression, test
from motet.sparql.graph import Graph
from motet.sparql.scope import certainly_bound, has_exists, in_scope, mentioned

__all__ = ["Graph", "Solve", "compile_group", "solve"]

Solve = Callable[[Graph, Row], list[Row]]
_NOTHING: Mapping[str, str] = {}


def solve(algebra: Algebra, graph: Graph, initial: Mapping[str, str] = _NOTHING) -> Iterator[dict[str, str]]:
    """The solutions, as often as SPARQL has them; each contains the given bindings.

    >>> from motet.sparql.parse_cache import parse_group
    >>> graph = Graph([("<urn:e>", "<urn:level>", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>')])
    >>> [sorted(solution) for solution in solve(parse_group("?e <urn:level> ?l FILTER(?l > 3)"), graph)]
    [['e', 'l']]
    """
    yield from compile_group(algebra)(graph, dict(initial))


@lru_cache(maxsize=10_000)
def compile_group(algebra: Algebra) -> Solve:
    """A function from a graph and given bindings to the list of solutions, without hidden variables."""
    run = _compile(algebra)
    hidden = [name for name in in_scope(algebra) if is_hidden(name)]
    if not hidden:
        return run
    return lambda graph, given: [
        {name: term for name, term in row.items() if name not in hidden} for row in run(graph, given)
    ]


def _compile(pattern: Algebra) -> Solve:  # noqa: PLR0911  (one case for each kind of node)
    match pattern:
        case Bgp():
            return compile_bgp(pattern)
        case Join(left, right):
            return _join(_compile(left), _Right(right))
        case LeftJoin(left, right, condition):
            return _left_join(_compile(left), _Right(right), condition)
        case Union(left, right):
            left_solve, right_solve = _compile(left), _compile(right)
            return lambda graph, given: left_solve(graph, given) + right_solve(graph, given)
        case Minus(left, right):
            return _minus(_compile(left), _compile(right))
        case Filter(operand, condition):
            return _filter(_compile(operand), condition)
        case Extend(operand, variable, expression):
            return _extend(_compile(operand), variable, expression)
        case Values():
            return _values(pattern)


class _Right:
    """The right side of a join: started from each left solution if that is safe, else evaluated once and compared."""

    def __init__(self, pattern: Algebra) -> None:
        self._solve = _compile(pattern)
        self._correlated = _is_transparent(pattern)

    def matches(self, graph: Graph, given: Row) -> Callable[[Row], list[Row]]:
        """For given bindings, a function from a left solution to its joined solutions."""
        if self._correlated:
            return lambda left: self._solve(graph, left)
        rows = self._solve(graph, given)
        return lambda left: [{**left, **right} for right in rows if _compatible(left, right)]


def _is_transparent(pattern: Algebra) -> bool:
    """Whether bindings from outside only select among the pattern's solutions."""
    match pattern:
        case Bgp() | Values():
            return True
        case Join(left, right) | Union(left, right):
            return _is_transparent(left) and _is_transparent(right)
        case Filter(operand, condition):
            is_local = mentioned(condition) <= certainly_bound(operand) and not has_exists(condition)
            return is_local and _is_transparent(operand)
    return False


def _compatible(left: Row, right: Row) -> bool:
    """Equal wherever both are bound."""
    small, large = (left, right) if len(left) < len(right) else (right, left)
    return all(large.get(name, term) == term for name, term in small.items())


def _join(left: Solve, right: _Right) -> Solve:
    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        matches = right.matches(graph, given)
        result: list[Row] = []
        for row in lefts:
            result += matches(row)
            check_size(result)
        return result

    return run


def _left_join(left: Solve, right: _Right, condition: Expr | None) -> Solve:
    holds = test(condition, _exist) if condition is not None else None

    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        matches = right.matches(graph, given)
        result: list[Row] = []
        for row in lefts:
            joined = matches(row)
            if holds is not None:
                joined = [both for both in joined if holds(both, graph)]
            result += joined or [row]
            check_size(result)
        return result

    return run


def _minus(left: Solve, right: Solve) -> Solve:
    def run(graph: Graph, given: Row) -> list[Row]:
        lefts = left(graph, given)
        if not lefts:
            return []
        removed = [{name: term for name, term in row.items() if name not in given} for row in right(graph, given)]
        return [
            row
            for row in lefts
            if not any(_shares(row, right_row) and _compatible(row, right_row) for right_row in removed)
        ]

    return run


def _shares(left: Row, right: Row) -> bool:
    return not left.keys().isdisjoint(right)


def _filter(operand: Solve, condition: Expr) -> Solve:
    holds = test(condition, _exist)
    return lambda graph, given: [row for row in operand(graph, given) if holds(row, graph)]


def _extend(operand: Solve, variable: str, expression: Expr) -> Solve:
    compute = compile_expression(expression, _exist)

    def extended(row: Row, graph: Graph) -> Row | None:
        try:
            term = compute(row, graph)
        except ExpressionError:
            return row
        return {**row, variable: term} if row.get(variable, term) == term else None

    def run(graph: Graph, given: Row) -> list[Row]:
        return [new for row in operand(graph, given) if (new := extended(row, graph)) is not None]

    return run


def _values(pattern: Values) -> Solve:
    rows = [
        {name: term for name, term in zip(pattern.variables, row, strict=True) if term is not None}
        for row in pattern.rows
    ]
    return lambda graph, given: [{**given, **row} for row in rows if _compatible(given, row)]


def _exist(pattern: Algebra) -> Callable[[Mapping[str, str], Graph], bool]:
    run = _compile(pattern)
    return lambda bindings, graph: bool(run(graph, dict(bindings)))
