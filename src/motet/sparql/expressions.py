"""Evaluating SPARQL expressions: an expression is compiled once into a function of bindings.

Bindings map variable names to terms. A SPARQL error is an `ExpressionError`; `test` makes it false. EXISTS needs a
graph and a solver, which `motet.sparql.evaluate` passes in; without them it is refused. NOW and the functions that
differ each time need the graph of a dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from motet.model.errors import UsageError
from motet.model.intervals import Interval
from motet.model.terms import XSD, literal_parts
from motet.sparql import algebra
from motet.sparql.dataset import Dataset, DatasetGraph, Graph
from motet.sparql.functions import CHANGING, FUNCTIONS, RELATIONS
from motet.sparql.operators import CASTS, arithmetic, compare, equal, sign
from motet.sparql.regex import RegexError, translate
from motet.sparql.values import (
    FALSE,
    TRUE,
    ExpressionError,
    Value,
    boolean,
    decode,
    effective_boolean_value,
    simple_text,
)

__all__ = ["ExpressionError", "compile_expression", "effective_boolean_value", "test"]

Bindings = Mapping[str, str]
Evaluate = Callable[[Bindings, Graph], Value]
Exist = Callable[[algebra.Algebra], Callable[[Bindings, Graph], bool]]

_NO_GRAPH = Graph(())


class Solution(dict[str, str]):
    """Bindings that know the blank nodes BNODE has made for them: equal arguments give equal ones in one solution."""

    __slots__ = ("blank_nodes",)

    def __init__(self, bindings: Bindings) -> None:
        super().__init__(bindings)
        self.blank_nodes: dict[str, Value] = {}


class Condition(Protocol):
    def __call__(self, bindings: Bindings, graph: Graph = ...) -> bool: ...


class Compute(Protocol):
    def __call__(self, bindings: Bindings, graph: Graph = ...) -> str: ...


def compile_expression(expression: algebra.Expr, exist: Exist | None = None) -> Compute:
    """A function from bindings to the expression's term; it raises ExpressionError where SPARQL has an error.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> compile_expression(parse_expression("STRLEN(?x) + 0.5"))({"x": '"four"'})
    '"4.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
    """
    evaluate = _Compiler(exist).compile(expression)

    def compute(bindings: Bindings, graph: Graph = _NO_GRAPH) -> str:
        return evaluate(bindings, graph).term

    return compute


def test(expression: algebra.Expr, exist: Exist | None = None) -> Condition:
    """A function that says whether the expression is true; an error is false.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> test(parse_expression("?level > 3"))({"level": '"04"^^<http://www.w3.org/2001/XMLSchema#integer>'})
    True
    """
    evaluate = _Compiler(exist).compile(expression)

    def holds(bindings: Bindings, graph: Graph = _NO_GRAPH) -> bool:
        try:
            value = evaluate(bindings, graph)
            return value is TRUE or (value is not FALSE and effective_boolean_value(value))
        except ExpressionError:
            return False

    return holds


class _Compiler:
    def __init__(self, exist: Exist | None) -> None:
        self._exist = exist

    def compile(self, node: algebra.Expr) -> Evaluate:  # noqa: PLR0911, PLR0912  (one case for each kind of node)
        match node:
            case algebra.Variable(name):
                return _variable(name)
            case algebra.Constant(term):
                constant = decode(term)
                return lambda bindings, graph: constant
            case algebra.And(parts):
                return _every([self.compile(part) for part in parts])
            case algebra.Or(parts):
                return _any_operand([self.compile(part) for part in parts])
            case algebra.Not(operand):
                return _negation(self.compile(operand))
            case algebra.Compare(operator, left, right):
                return _comparison(operator, self.compile(left), self.compile(right))
            case algebra.Arithmetic(operator, left, right):
                return _arithmetic(operator, self.compile(left), self.compile(right))
            case algebra.Sign(operator, operand):
                signed = self.compile(operand)
                return lambda bindings, graph: sign(operator, signed(bindings, graph))
            case algebra.In(operand, choices):
                return _membership(self.compile(operand), [self.compile(choice) for choice in choices])
            case algebra.If(condition, then, otherwise):
                return _choice(self.compile(condition), self.compile(then), self.compile(otherwise))
            case algebra.Coalesce(parts):
                return _first([self.compile(part) for part in parts])
            case algebra.Bound(name):
                return lambda bindings, graph: boolean(name in bindings)
            case algebra.Call(name, arguments):
                return self._call(name, arguments)
            case algebra.Exists(pattern):
                return self._exists(pattern)

    def _call(self, name: str, arguments: tuple[algebra.Expr, ...]) -> Evaluate:
        if name in CHANGING:
            return _blank_node(self.compile(arguments[0])) if arguments else _changing(name)
        if name in RELATIONS:
            return self._relation(name, arguments)
        function = FUNCTIONS.get(name) or CASTS.get(name)
        if function is None:
            raise UsageError(
                f"the function <{name}> is not known",
                advice="functions by IRI are casts to XSD datatypes and the relations of time, such as motet:before",
            )
        if name in ("REGEX", "REPLACE"):
            _check_pattern(name, arguments)
        parts = [self.compile(argument) for argument in arguments]
        if len(parts) == 1:
            only = parts[0]
            return lambda bindings, graph: function(only(bindings, graph))
        return lambda bindings, graph: function(*[part(bindings, graph) for part in parts])

    def _relation(self, name: str, arguments: tuple[algebra.Expr, ...]) -> Evaluate:
        relation = RELATIONS[name]
        first, second = map(self.compile, arguments)

        def evaluate(bindings: Bindings, graph: Graph) -> Value:
            intervals = _dataset(graph).intervals
            return boolean(relation.holds(*(_interval(side(bindings, graph), intervals) for side in (first, second))))

        return evaluate

    def _exists(self, pattern: algebra.Algebra) -> Evaluate:
        if self._exist is None:
            raise UsageError("EXISTS needs a graph", advice="a condition across events has none; write it in an EVENT")
        exists = self._exist(pattern)
        return lambda bindings, graph: boolean(exists(bindings, graph))


def _changing(name: str) -> Evaluate:
    function = CHANGING[name]
    return lambda bindings, graph: function(_dataset(graph))


def _blank_node(argument: Evaluate) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        text = simple_text(argument(bindings, graph))
        if not isinstance(bindings, Solution):
            return decode(_dataset(graph).blank_node())
        if text not in bindings.blank_nodes:
            bindings.blank_nodes[text] = decode(_dataset(graph).blank_node())
        return bindings.blank_nodes[text]

    return evaluate


def _dataset(graph: Graph) -> Dataset:
    if not isinstance(graph, DatasetGraph):
        raise UsageError("a function with a different value each time needs a query")
    return graph.dataset


def _interval(event: Value, intervals: Mapping[str, Interval]) -> Interval:
    found = intervals.get(event.term)
    if found is None:
        raise ExpressionError(f"{event.term} is not an event of the dataset")
    return found


def _variable(name: str) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        term = bindings.get(name)
        if term is None:
            raise ExpressionError(f"?{name} is not bound")
        return decode(term)

    return evaluate


def _truth(evaluate: Evaluate, bindings: Bindings, graph: Graph) -> bool | None:
    """True, false, or None for an error."""
    try:
        return effective_boolean_value(evaluate(bindings, graph))
    except ExpressionError:
        return None


def _every(parts: list[Evaluate]) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        unknown = False
        for part in parts:
            truth = _truth(part, bindings, graph)
            if truth is False:
                return FALSE
            unknown |= truth is None
        if unknown:
            raise ExpressionError("an operand of && is an error")
        return TRUE

    return evaluate


def _any_operand(parts: list[Evaluate]) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        unknown = False
        for part in parts:
            truth = _truth(part, bindings, graph)
            if truth:
                return TRUE
            unknown |= truth is None
        if unknown:
            raise ExpressionError("an operand of || is an error")
        return FALSE

    return evaluate


def _negation(operand: Evaluate) -> Evaluate:
    return lambda bindings, graph: boolean(not effective_boolean_value(operand(bindings, graph)))


def _comparison(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if operator == "=":
        return lambda bindings, graph: boolean(equal(left(bindings, graph), right(bindings, graph)))
    if operator == "!=":
        return lambda bindings, graph: boolean(not equal(left(bindings, graph), right(bindings, graph)))
    required = {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (1, 0)}[operator]
    return lambda bindings, graph: TRUE if compare(left(bindings, graph), right(bindings, graph)) in required else FALSE


def _arithmetic(operator: str, left: Evaluate, right: Evaluate) -> Evaluate:
    return lambda bindings, graph: arithmetic(operator, left(bindings, graph), right(bindings, graph))


def _membership(operand: Evaluate, choices: list[Evaluate]) -> Evaluate:
    """``x = a || x = b || …``, errors included."""
    return _any_operand([_comparison("=", operand, choice) for choice in choices])


def _choice(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        chosen = then if effective_boolean_value(condition(bindings, graph)) else otherwise
        return chosen(bindings, graph)

    return evaluate


def _first(parts: list[Evaluate]) -> Evaluate:
    def evaluate(bindings: Bindings, graph: Graph) -> Value:
        for part in parts:
            try:
                return part(bindings, graph)
            except ExpressionError:
                continue
        raise ExpressionError("no operand of COALESCE has a value")

    return evaluate


def _check_pattern(name: str, arguments: tuple[algebra.Expr, ...]) -> None:
    """Refuse a constant pattern that can never match, instead of an error for each event."""
    pattern = _constant_text(arguments[1])
    flags = _constant_text(arguments[-1]) if len(arguments) == (3 if name == "REGEX" else 4) else ""
    if pattern is None or flags is None:
        return
    try:
        translate(pattern, flags)
    except RegexError as problem:
        raise UsageError(f"{name}: the regular expression {pattern[:100]!r} cannot be used: {problem}") from problem


def _constant_text(node: algebra.Expr) -> str | None:
    if not isinstance(node, algebra.Constant) or not node.term.startswith('"'):
        return None
    text, datatype, _ = literal_parts(node.term)
    return text if datatype == XSD + "string" else None
