"""Whether SPARQL conditions can be true together, and which of them contradict each other.

Conditions are evaluated on samples of one variable at a time, or of two that are compared with each other. The truth of
``?x > 5 && ?x < 3`` depends only on where ``?x`` lies between 3 and 5: for the constants of some conditions there are a
few *samples* such that every value compares like one of them. SPARQL compares numbers of different datatypes after
rounding; constants that rounding could confuse have no samples. An expression that this module does not understand may
be true, false or an error, so that only certain contradictions are reported.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise, product

from motet.model.terms import XSD, is_iri, literal_parts
from motet.model.times import parse_datetime
from motet.sparql.algebra import And, Bound, Call, Compare, Constant, Expr, In, Not, Or, Sign, Variable
from motet.sparql.scope import mentioned, operands

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_EXACT = frozenset(XSD + name for name in ("integer", "decimal", "int", "long", "short", "byte"))
_INEXACT = frozenset({XSD + "double"})
_INSTANT = re.compile(r"[0-9]{4}-[0-9T:-]*(?:\.[0-9]{1,6})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)


class Kind(Enum):
    """What can be compared with what."""

    NUMBER = "a number"
    INSTANT = "an instant"
    STRING = "a string"
    IRI = "an IRI"
    OTHER = "something else"
    NOT_A_NUMBER = "NaN"
    UNBOUND = "unbound"


@dataclass(frozen=True, slots=True)
class Value:
    """A sample, or the value of a constant; ``place`` orders values of one kind."""

    kind: Kind
    place: Fraction | str = ""
    exact: bool = True  # a number that is compared without rounding


UNBOUND = Value(Kind.UNBOUND)
_STRANGERS = (Value(Kind.OTHER), Value(Kind.NOT_A_NUMBER), Value(Kind.IRI, ""), UNBOUND)


def value_of(term: str) -> Value | None:
    """The value of a constant; None if nothing is known about how it compares.

    >>> value_of('"5"^^<http://www.w3.org/2001/XMLSchema#integer>') == value_of('"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    True
    """
    if is_iri(term):
        return Value(Kind.IRI, term)
    text, datatype, language = literal_parts(term)
    if language is not None:
        return None
    if datatype == XSD + "string":
        return Value(Kind.STRING, text)
    if datatype in _EXACT | _INEXACT and _NUMBER.fullmatch(text) and (datatype in _INEXACT or "e" not in text.lower()):
        return Value(Kind.NUMBER, Fraction(text), datatype in _EXACT)
    if datatype == XSD + "dateTime" and _INSTANT.fullmatch(text):
        return _instant(text)
    return None


def _instant(text: str) -> Value | None:
    try:
        return Value(Kind.INSTANT, Fraction(parse_datetime(text)))
    except ValueError:
        return None


def samples(constants: Iterable[Value]) -> tuple[Value, ...] | None:
    """Values such that every value compares with the constants as one of them does; None: nothing can be said.

    >>> [int(one.place * 2) for one in samples([Value(Kind.NUMBER, Fraction(5))]) if one.kind is Kind.NUMBER]
    [10, 8, 12]
    """
    constants = tuple(dict.fromkeys(constants))
    numbers = [one for one in constants if one.kind is Kind.NUMBER]
    if len({_single(one.place) for one in numbers}) < len(numbers):
        return None
    strings = [str(one.place) for one in constants if one.kind is Kind.STRING]
    following = ["", *(after for text in strings for after in (text + "\0", _following(text)))]
    between = [
        *(Value(kind, place) for kind in (Kind.NUMBER, Kind.INSTANT) for place in _around(_places(constants, kind))),
        *(Value(Kind.STRING, text) for text in following),
    ]
    return tuple(dict.fromkeys((*constants, *between, *_STRANGERS)))


def _places(constants: Iterable[Value], kind: Kind) -> list[Fraction]:
    return sorted({Fraction(one.place) for one in constants if one.kind is kind})


def _around(places: list[Fraction]) -> list[Fraction]:
    """One place below, one above and one between each two."""
    if not places:
        return [Fraction(0)]
    inner = [(low + high) / 2 for low, high in pairwise(places)]
    return [places[0] - 1, *inner, places[-1] + 1]


def _following(text: str) -> str:
    """The first string that does not begin with the text and comes after all that do."""
    stripped = text.rstrip("\U0010ffff")
    return stripped[:-1] + chr(ord(stripped[-1]) + 1) if stripped else text + "\0"


def _single(place: Fraction | str) -> float:
    """A number as xsd:float, the coarsest form in which numbers are compared."""
    try:
        found: float = struct.unpack("f", struct.pack("f", float(place)))[0]
    except OverflowError:
        return float("inf") if Fraction(place) > 0 else float("-inf")
    return found


#: What evaluating a condition may give: "T" true, "F" false, "E" an error.
Outcomes = frozenset[str]
TRUE, FALSE, ERROR = frozenset("T"), frozenset("F"), frozenset("E")
ANYTHING = TRUE | FALSE | ERROR
_ORDERED = (Kind.NUMBER, Kind.INSTANT, Kind.STRING)

Samples = Mapping[str, Value]  # for the variables on trial


def contradiction(
    conditions: Sequence[Expr], *, bound: frozenset[str] = frozenset(), unbound: frozenset[str] = frozenset()
) -> tuple[Expr, ...]:
    """Conditions that cannot be true together, none of them idle; empty when nothing is wrong.

    ``bound`` are the variables that have a value for sure, ``unbound`` those that have none.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> level = [parse_expression(text) for text in ("?level > 5", "?room = <urn:r>", "?level < 3")]
    >>> [one.operator for one in contradiction(level)]
    ['>', '<']
    """
    if _may_hold(conditions, bound, unbound):
        return ()
    needed = list(conditions)
    for condition in conditions:
        rest = [one for one in needed if one is not condition]
        if not _may_hold(rest, bound, unbound):
            needed = rest
    return tuple(needed)


def binds(conditions: Sequence[Expr], variable: str) -> bool:
    """Whether the conditions can only be true when the variable has a value.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> binds([parse_expression("?x > 5")], "x"), binds([parse_expression("?x > 5 || ?y > 5")], "x")
    (True, False)
    """
    return not _holds(conditions, {variable: UNBOUND})


def implied(conditions: Sequence[Expr], conclusion: Expr, *, bound: frozenset[str]) -> bool:
    """Whether the conclusion is true wherever the conditions are; no is not a proof.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> five, three = parse_expression("?x > 5"), parse_expression("?x > 3")
    >>> implied([five], three, bound=frozenset({"x"})), implied([three], five, bound=frozenset({"x"}))
    (True, False)
    """
    variables = sorted(mentioned(conclusion))
    if conclusion in conditions:
        return True
    if len(variables) != 1:
        return False
    tried = _samples([*conditions, conclusion], variables[0], bound)
    return tried is not None and all(
        outcomes(conclusion, {variables[0]: value}) == TRUE
        for value in tried
        if _holds(conditions, {variables[0]: value})
    )


def _may_hold(conditions: Sequence[Expr], bound: frozenset[str], unbound: frozenset[str]) -> bool:
    fixed = dict.fromkeys(unbound, UNBOUND)
    if not _holds(conditions, fixed):
        return False
    variables = sorted(frozenset().union(*map(mentioned, conditions)) - unbound)
    return (
        all(_holds_somewhere(conditions, name, bound, fixed) for name in variables)
        and all(_holds_in_some_order(conditions, pair, fixed) for pair in _compared_pairs(conditions))
        and not _goes_round(conditions)
    )


def _holds_somewhere(conditions: Sequence[Expr], name: str, bound: frozenset[str], fixed: Samples) -> bool:
    tried = _samples(conditions, name, bound)
    return tried is None or any(_holds(conditions, {**fixed, name: value}) for value in tried)


def _samples(conditions: Sequence[Expr], name: str, bound: frozenset[str]) -> Sequence[Value] | None:
    constants = [value for condition in conditions for value in _constants(condition, name)]
    known = [value for value in constants if value is not None]
    tried = samples(known) if len(known) == len(constants) else None
    return tried if tried is None or name not in bound else [value for value in tried if value != UNBOUND]


def _constants(expression: Expr, name: str) -> Iterator[Value | None]:
    """The constants a variable is compared with; None for one that is not understood."""
    match expression:
        case Compare(_, left, right) if name in (_name(left), _name(right)):
            yield from (_value(side, {}) for side in (left, right) if not mentioned(side))
        case In(operand, choices) if _name(operand) == name:
            yield from (_value(choice, {}) for choice in choices if not mentioned(choice))
        case Call("STRSTARTS", (_, Constant(term))) if name in mentioned(expression):
            yield value_of(term)
        case _:
            for operand in operands(expression):
                yield from _constants(operand, name)


def _compared_pairs(conditions: Iterable[Expr]) -> set[tuple[str, str]]:
    """The pairs of variables that are compared with each other; a variable may be compared with itself."""
    found: set[tuple[str, str]] = set()
    for condition in conditions:
        waiting = [condition]
        while waiting:
            expression = waiting.pop()
            waiting.extend(operands(expression))
            match expression:
                case Compare(_, Variable(left), Variable(right)):
                    found.add((min(left, right), max(left, right)))
    return found


def _holds_in_some_order(conditions: Sequence[Expr], pair: tuple[str, str], fixed: Samples) -> bool:
    """Whether the first may be less than, equal to or greater than the second, or not comparable with it."""
    first, second = pair
    strings = [("a", "a")] if first == second else [("a", "a"), ("a", "b"), ("b", "a")]
    trials = [(Value(Kind.STRING, a), Value(Kind.STRING, b)) for a, b in strings]
    trials.append((Value(Kind.OTHER), Value(Kind.OTHER)))
    only = [_between_variables(condition, {first, second}) for condition in conditions]
    return any(_holds([c for c in only if c is not None], {**fixed, first: a, second: b}) for a, b in trials)


def _goes_round(conditions: Iterable[Expr]) -> bool:
    """Whether something would be less than itself: ``?x < ?y``, ``?y < 3`` and ``?x > 5``.

    Only ``<`` and ``>`` count: what is less after rounding is less, but what is equal after rounding need not be.
    """
    greater: dict[object, set[object]] = {}
    for condition in conditions:
        match condition:
            case Compare("<", lesser, other) | Compare(">", other, lesser):
                one, two = _place(lesser), _place(other)
                if one is not None and two is not None:
                    greater.setdefault(one, set()).add(two)
    places = {*greater, *(two for above in greater.values() for two in above)}
    constants = [one for one in places if isinstance(one, Value)]
    for one, two in product(constants, constants):
        if one.kind is two.kind and _ordered("<", one, two):
            greater.setdefault(one, set()).add(two)
    while True:  # what has nothing greater lies on no cycle
        ends = [one for one, above in greater.items() if not any(two in greater for two in above)]
        if not ends:
            return bool(greater)
        for one in ends:
            del greater[one]


def _place(expression: Expr) -> object:
    """A variable's name, or the value of a constant that has a place among others."""
    if isinstance(expression, Variable):
        return expression.name
    value = _value(expression, {})
    return value if value is not None and value.kind in _ORDERED else None


def _between_variables(condition: Expr, pair: set[str]) -> Expr | None:
    """A condition that says nothing but how these variables compare; None if it says more."""
    waiting = [condition]
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Compare):
            if not (_name(expression.left) in pair and _name(expression.right) in pair):
                return None
        elif isinstance(expression, And | Or | Not):
            waiting.extend(operands(expression))
        else:
            return None
    return condition


def _holds(conditions: Sequence[Expr], trial: Samples) -> bool:
    return all("T" in outcomes(condition, trial) for condition in conditions)


def outcomes(expression: Expr, trial: Samples) -> Outcomes:  # noqa: PLR0911  (one return for each kind)
    """What evaluating the expression may give when the variables on trial have these values."""
    match expression:
        case And(parts):
            return _combined(parts, trial, TRUE, "F")
        case Or(parts):
            return _combined(parts, trial, FALSE, "T")
        case Not(operand):
            return frozenset({"T": "F", "F": "T", "E": "E"}[one] for one in outcomes(operand, trial))
        case Compare(operator, left, right):
            return _compared(operator, _value(left, trial), _value(right, trial))
        case In(operand, choices):
            equal = [Compare("=", operand, choice) for choice in choices]
            return _combined(equal, trial, FALSE, "T")
        case Bound(name) if name in trial:
            return FALSE if trial[name] == UNBOUND else TRUE
        case Call("STRSTARTS", (operand, Constant(term))):
            return _begins(operand, term, trial)
        case Constant(term):
            return _truth(term)
        case Variable(name) if trial.get(name) == UNBOUND:
            return ERROR
    return ANYTHING


def _combined(parts: Sequence[Expr], trial: Samples, neutral: Outcomes, decisive: str) -> Outcomes:
    """Three-valued AND or OR: the decisive outcome of one part is the outcome of all, then comes an error."""
    found = neutral
    for part in parts:
        pairs = product(found, outcomes(part, trial))
        found = frozenset(
            decisive if decisive in pair else "E" if "E" in pair else next(iter(neutral)) for pair in pairs
        )
    return found


def _compared(operator: str, left: Value | None, right: Value | None) -> Outcomes:
    if UNBOUND in (left, right):
        return ERROR
    if left is None or right is None:
        return ANYTHING
    if left.kind is right.kind and left.kind in _ORDERED:
        return _of(_ordered(operator, left, right))
    if left.kind is right.kind is Kind.IRI and operator in ("=", "!="):
        return _of((left == right) == (operator == "="))
    if Kind.NOT_A_NUMBER in (left.kind, right.kind) and {left.kind, right.kind} <= {Kind.NUMBER, Kind.NOT_A_NUMBER}:
        return _of(operator == "!=")
    return ANYTHING if operator == "!=" else FALSE | ERROR


def _ordered(operator: str, left: Value, right: Value) -> bool:
    less, equal = left.place < right.place, left.place == right.place  # type: ignore[operator]  # of one kind
    return {"<": less, "<=": less or equal, "=": equal, "!=": not equal, ">=": not less, ">": not (less or equal)}[
        operator
    ]


def _begins(operand: Expr, term: str, trial: Samples) -> Outcomes:
    name = _name(operand.arguments[0] if isinstance(operand, Call) and operand.name == "STR" else operand)
    value, text = trial.get(name or ""), value_of(term)
    if value == UNBOUND:
        return ERROR
    if value is None or text is None or value.kind is not Kind.STRING or text.kind is not Kind.STRING:
        return ANYTHING
    return _of(str(value.place).startswith(str(text.place)))


def _value(expression: Expr, trial: Samples) -> Value | None:
    match expression:
        case Variable(name):
            return trial.get(name)
        case Constant(term):
            return value_of(term)
        case Sign("+", operand):
            return _value(operand, {})
        case Sign("-", Constant(term)):
            value = value_of(term)
            if value is not None and value.kind is Kind.NUMBER and not isinstance(value.place, str):
                return Value(Kind.NUMBER, -value.place, value.exact)
    return None


def _truth(term: str) -> Outcomes:
    """The truth of a constant by itself."""
    if is_iri(term):
        return ERROR
    text, datatype, _ = literal_parts(term)
    if datatype == XSD + "boolean" and text in ("true", "1", "false", "0"):
        return _of(text in ("true", "1"))
    value = value_of(term)
    if value is None or value.kind is Kind.INSTANT:
        return ANYTHING
    return _of(bool(value.place))


def _of(truth: bool) -> Outcomes:
    return TRUE if truth else FALSE


def _name(expression: Expr) -> str | None:
    return expression.name if isinstance(expression, Variable) else None
