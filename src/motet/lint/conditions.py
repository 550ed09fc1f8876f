"""Whether SPARQL conditions can be true together, and which of them contradict each other.

Conditions are evaluated on samples of one variable at a time, or of two that are compared with each other. The truth of
``?x > 5 && ?x < 3`` depends only on where ``?x`` lies between 3 and 5: for the constants of some conditions there are a
few *samples* such that every value compares like one of them. SPARQL compares numbers of different datatypes after
rounding; constants that rounding could confuse have no samples. A time with a zone and one without are compared only
when they are more than 14 hours apart. An expression that this module does not understand may be true, false or an
error, so that only certain contradictions are reported.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import pairwise, product

from motet.lint.value_types import IRI, LITERAL, ZONED, TermTypes, common_types, type_test
from motet.model.terms import XSD, is_iri, literal_parts
from motet.model.times import parse_datetime
from motet.sparql.algebra import And, Bound, Call, Compare, Constant, Expr, In, Not, Or, Sign, Variable
from motet.sparql.scope import mentioned, operands

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_EXACT = frozenset(XSD + name for name in ("integer", "decimal", "int", "long", "short", "byte"))
_INEXACT = frozenset({XSD + "double"})
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]*(?:\.[0-9]{1,6})?(?P<zone>Z|[+-]\d\d:\d\d)?", re.ASCII)
_MAX_ZONE = Fraction(14 * 3_600_000_000)  # the largest offset of a zone: a missing zone decides within it


class ValueKind(Enum):
    """The kind of a value; only values of the same kind can be compared."""

    NUMBER = "a number"
    INSTANT = "an instant"
    LOCAL_TIME = "a time without a zone"
    STRING = "a string"
    IRI = "an IRI"
    OTHER = "something else"
    NOT_A_NUMBER = "NaN"
    UNBOUND = "unbound"


@dataclass(frozen=True, slots=True)
class SampleValue:
    """A sample, or the value of a constant; ``order_key`` orders values of one kind."""

    kind: ValueKind
    order_key: Fraction | str = ""
    exact: bool = True  # a number that is compared without rounding


UNBOUND = SampleValue(ValueKind.UNBOUND)
_INCOMPARABLE = (
    SampleValue(ValueKind.OTHER),
    SampleValue(ValueKind.NOT_A_NUMBER),
    SampleValue(ValueKind.IRI, ""),
    UNBOUND,
)


def value_of(term: str) -> SampleValue | None:
    """The value of a constant; None if its comparisons are not understood.

    >>> value_of('"5"^^<http://www.w3.org/2001/XMLSchema#integer>') == value_of('"5.0"^^<http://www.w3.org/2001/XMLSchema#decimal>')
    True
    """
    if is_iri(term):
        return SampleValue(ValueKind.IRI, term)
    text, datatype, language = literal_parts(term)
    if language is not None:
        return None
    if datatype == XSD + "string":
        return SampleValue(ValueKind.STRING, text)
    if datatype in _EXACT | _INEXACT and _NUMBER.fullmatch(text) and (datatype in _INEXACT or "e" not in text.lower()):
        return SampleValue(ValueKind.NUMBER, Fraction(text), datatype in _EXACT)
    if datatype == XSD + "dateTime" and (match := _TIME.fullmatch(text)):
        return _time(text, ValueKind.INSTANT if match["zone"] else ValueKind.LOCAL_TIME)
    return None


def _time(text: str, kind: ValueKind) -> SampleValue | None:
    try:
        return SampleValue(kind, Fraction(parse_datetime(text)))
    except ValueError:
        return None


def sample_values(constants: Iterable[SampleValue]) -> tuple[SampleValue, ...] | None:
    """Values such that every value compares with the constants as one of them does; None if there are no such samples.

    >>> values = sample_values([SampleValue(ValueKind.NUMBER, Fraction(5))])
    >>> [int(value.order_key * 2) for value in values if value.kind is ValueKind.NUMBER]
    [10, 8, 12]
    """
    constants = tuple(dict.fromkeys(constants))
    numbers = [value for value in constants if value.kind is ValueKind.NUMBER]
    if len({_single(value.order_key) for value in numbers}) < len(numbers):
        return None
    strings = [str(value.order_key) for value in constants if value.kind is ValueKind.STRING]
    following = ["", *(after for text in strings for after in (text + "\0", _following(text)))]
    instants, local_times = (_order_keys(constants, kind) for kind in (ValueKind.INSTANT, ValueKind.LOCAL_TIME))
    order_keys = {
        ValueKind.NUMBER: _order_keys(constants, ValueKind.NUMBER),
        ValueKind.INSTANT: [*instants, *_in_other_zones(local_times)],
        ValueKind.LOCAL_TIME: [*local_times, *_in_other_zones(instants)],
    }
    between = [
        *(SampleValue(kind, key) for kind, keys in order_keys.items() for key in _around(sorted(set(keys)))),
        *(SampleValue(ValueKind.STRING, text) for text in following),
    ]
    return tuple(dict.fromkeys((*constants, *between, *_INCOMPARABLE)))


def _order_keys(constants: Iterable[SampleValue], kind: ValueKind) -> list[Fraction]:
    return sorted({Fraction(value.order_key) for value in constants if value.kind is kind})


def _in_other_zones(keys: list[Fraction]) -> Iterator[Fraction]:
    """Where times begin and end to be comparable with times that have, or lack, a zone."""
    return (key + shift for key in keys for shift in (-_MAX_ZONE, _MAX_ZONE))


def _around(keys: list[Fraction]) -> list[Fraction]:
    """A key below, a key above and one between each two."""
    if not keys:
        return [Fraction(0)]
    inner = [(low + high) / 2 for low, high in pairwise(keys)]
    return [keys[0] - 1, *inner, keys[-1] + 1]


def _following(text: str) -> str:
    """The first string after all strings that begin with the text."""
    stripped = text.rstrip("\U0010ffff")
    return stripped[:-1] + chr(ord(stripped[-1]) + 1) if stripped else text + "\0"


def _single(order_key: Fraction | str) -> float:
    """A number as xsd:float, the coarsest form in which numbers are compared."""
    try:
        single: float = struct.unpack("f", struct.pack("f", float(order_key)))[0]
    except OverflowError:
        return float("inf") if Fraction(order_key) > 0 else float("-inf")
    return single


#: The possible outcomes of a condition: "T" true, "F" false, "E" an error.
Outcomes = frozenset[str]
TRUE, FALSE, ERROR = frozenset("T"), frozenset("F"), frozenset("E")
ANYTHING = TRUE | FALSE | ERROR
_ORDERED = (ValueKind.NUMBER, ValueKind.INSTANT, ValueKind.LOCAL_TIME, ValueKind.STRING)
_TIMES = frozenset({ValueKind.INSTANT, ValueKind.LOCAL_TIME})
_LITERALS = frozenset(ValueKind) - {ValueKind.IRI, ValueKind.UNBOUND}
_NUMBERS = frozenset({ValueKind.NUMBER, ValueKind.NOT_A_NUMBER, ValueKind.OTHER})  # other: one that is not well formed
_TEXT_FUNCTIONS = frozenset({"STRSTARTS", "STRENDS", "CONTAINS", "REGEX"})  # an error unless the first one is a string
_KIND_FUNCTIONS = {
    "ISIRI": frozenset({ValueKind.IRI}),
    "ISLITERAL": _LITERALS,
    "ISNUMERIC": frozenset({ValueKind.NUMBER, ValueKind.NOT_A_NUMBER}),
}

Samples = Mapping[str, SampleValue]  # by variable


def contradiction(
    conditions: Sequence[Expr], *, bound: frozenset[str] = frozenset(), unbound: frozenset[str] = frozenset()
) -> tuple[Expr, ...]:
    """A minimal set of conditions that cannot be true together; empty when all can.

    ``bound`` are the variables that certainly have a value, ``unbound`` those that have none.

    >>> from motet.sparql.parse_cache import parse_expression
    >>> level = [parse_expression(text) for text in ("?level > 5", "?room = <urn:r>", "?level < 3")]
    >>> [condition.operator for condition in contradiction(level)]
    ['>', '<']
    """
    if _may_hold(conditions, bound, unbound):
        return ()
    needed = list(conditions)
    for condition in conditions:
        rest = [other for other in needed if other is not condition]
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
    """Whether the conclusion is true wherever the conditions are; False proves nothing.

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
        possible_outcomes(conclusion, {variables[0]: value}) == TRUE
        for value in tried
        if _holds(conditions, {variables[0]: value})
    )


def _may_hold(conditions: Sequence[Expr], bound: frozenset[str], unbound: frozenset[str]) -> bool:
    fixed = dict.fromkeys(unbound, UNBOUND)
    if not _holds(conditions, fixed) or _has_type_clash(conditions, bound):
        return False
    variables = sorted(frozenset().union(*map(mentioned, conditions)) - unbound)
    return (
        all(_holds_somewhere(conditions, name, bound, fixed) for name in variables)
        and all(_holds_in_some_order(conditions, pair, fixed) for pair in _compared_pairs(conditions))
        and not _has_order_cycle(conditions)
    )


def _holds_somewhere(conditions: Sequence[Expr], name: str, bound: frozenset[str], fixed: Samples) -> bool:
    tried = _samples(conditions, name, bound)
    return tried is None or any(_holds(conditions, {**fixed, name: value}) for value in tried)


def _samples(conditions: Sequence[Expr], name: str, bound: frozenset[str]) -> Sequence[SampleValue] | None:
    constants = [value for condition in conditions for value in _constants(condition, name)]
    understood = [value for value in constants if value is not None]
    tried = sample_values(understood) if len(understood) == len(constants) else None
    return tried if tried is None or name not in bound else [value for value in tried if value != UNBOUND]


def _constants(expression: Expr, name: str) -> Iterator[SampleValue | None]:
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
    pairs: set[tuple[str, str]] = set()
    for condition in conditions:
        stack = [condition]
        while stack:
            expression = stack.pop()
            stack.extend(operands(expression))
            match expression:
                case Compare(_, Variable(left), Variable(right)):
                    pairs.add((min(left, right), max(left, right)))
    return pairs


def _holds_in_some_order(conditions: Sequence[Expr], pair: tuple[str, str], fixed: Samples) -> bool:
    """Whether the first may be less than, equal to or greater than the second, or not comparable with it."""
    first, second = pair
    kinds, other_kinds = _kinds(conditions, first), _kinds(conditions, second)
    equal, different = [("a", "a")], [] if first == second else [("a", "b"), ("b", "a")]
    if not kinds & other_kinds:  # a time with a zone and one without may be before, but never equal to each other
        equal, different = [], different if kinds & _TIMES and other_kinds & _TIMES else []
    trials = [(SampleValue(ValueKind.STRING, a), SampleValue(ValueKind.STRING, b)) for a, b in [*equal, *different]]
    trials.append((SampleValue(ValueKind.OTHER), SampleValue(ValueKind.OTHER)))
    only = [_between_variables(condition, {first, second}) for condition in conditions]
    return any(_holds([c for c in only if c is not None], {**fixed, first: a, second: b}) for a, b in trials)


def _has_order_cycle(conditions: Iterable[Expr]) -> bool:
    """Whether a value would be less than itself: ``?x < ?y``, ``?y < 3`` and ``?x > 5``.

    Only ``<`` and ``>`` count: a value that is less after rounding is less, but equal values after rounding may differ.
    """
    greater: dict[object, set[object]] = {}
    for condition in conditions:
        match condition:
            case Compare("<", less, more) | Compare(">", more, less):
                low, high = _order_node(less), _order_node(more)
                if low is not None and high is not None:
                    greater.setdefault(low, set()).add(high)
    nodes = {*greater, *(high for above in greater.values() for high in above)}
    constants = [node for node in nodes if isinstance(node, SampleValue)]
    for lesser, larger in product(constants, constants):
        if lesser.kind is larger.kind and _ordered("<", lesser, larger):
            greater.setdefault(lesser, set()).add(larger)
    while True:  # a node without a greater one is on no cycle
        ends = [node for node, above in greater.items() if not any(high in greater for high in above)]
        if not ends:
            return bool(greater)
        for node in ends:
            del greater[node]


def _order_node(expression: Expr) -> object:
    """A variable's name, or the value of a constant that can be ordered."""
    if isinstance(expression, Variable):
        return expression.name
    value = _value(expression, {})
    return value if value is not None and value.kind in _ORDERED else None


def _between_variables(condition: Expr, pair: set[str]) -> Expr | None:
    """A condition that only compares these two variables; None for other conditions."""
    stack = [condition]
    while stack:
        expression = stack.pop()
        if isinstance(expression, Compare):
            if not (_name(expression.left) in pair and _name(expression.right) in pair):
                return None
        elif isinstance(expression, And | Or | Not):
            stack.extend(operands(expression))
        else:
            return None
    return condition


def _has_type_clash(conditions: Iterable[Expr], bound: frozenset[str]) -> bool:
    """Whether a variable that has a value would need two types: joins compare terms, not values."""
    types: dict[str, TermTypes] = {}
    for test in map(type_test, conditions):
        if test is not None and test.variable in bound:
            types[test.variable] = common_types(types.get(test.variable, test.types), test.types)
    return not all(types.values())


def _kinds(conditions: Iterable[Expr], name: str) -> frozenset[ValueKind]:
    """The kinds of values that the type tests of a variable allow."""
    kinds = frozenset(ValueKind)
    for test in map(type_test, conditions):
        if test is not None and test.variable == name:
            kinds &= _kinds_of(test.types)
    return kinds


def _kinds_of(types: TermTypes) -> frozenset[ValueKind]:
    return frozenset().union(*map(_kinds_of_type, types))


def _kinds_of_type(type_: str) -> frozenset[ValueKind]:
    if type_ in _EXACT | _INEXACT or type_ == XSD + "float":
        return _NUMBERS
    exact = {
        IRI: frozenset({ValueKind.IRI}),
        LITERAL: _LITERALS,
        ZONED: frozenset({ValueKind.INSTANT}),
        XSD + "string": frozenset({ValueKind.STRING}),
        XSD + "dateTime": frozenset({ValueKind.LOCAL_TIME, ValueKind.OTHER}),
    }
    return exact.get(type_, frozenset({ValueKind.OTHER, ValueKind.NUMBER, ValueKind.NOT_A_NUMBER}))


def _holds(conditions: Sequence[Expr], trial: Samples) -> bool:
    return all("T" in possible_outcomes(condition, trial) for condition in conditions)


def possible_outcomes(expression: Expr, trial: Samples) -> Outcomes:  # noqa: PLR0911  (one return for each kind)
    """The possible outcomes of an expression when the variables have these sample values."""
    match expression:
        case And(parts):
            return _combined(parts, trial, TRUE, "F")
        case Or(parts):
            return _combined(parts, trial, FALSE, "T")
        case Not(operand):
            return frozenset({"T": "F", "F": "T", "E": "E"}[outcome] for outcome in possible_outcomes(operand, trial))
        case Compare():
            return _comparison(expression, trial)
        case In(operand, choices):
            equal = [Compare("=", operand, choice) for choice in choices]
            return _combined(equal, trial, FALSE, "T")
        case Bound(name) if name in trial:
            return FALSE if trial[name] == UNBOUND else TRUE
        case Call():
            return _called(expression, trial)
        case Constant(term):
            return _truth(term)
        case Variable(name) if trial.get(name) == UNBOUND:
            return ERROR
    return ANYTHING


def _called(call: Call, trial: Samples) -> Outcomes:
    match call:
        case _ if type_test(call) is not None:
            return _typed(call, trial)
        case Call(name, (Variable(variable),)) if name in _KIND_FUNCTIONS and variable in trial:
            return _of_kind(trial[variable], _KIND_FUNCTIONS[name])
        case Call(name, (Variable(variable), *_)) if name in _TEXT_FUNCTIONS and not _may_be_text(trial.get(variable)):
            return ERROR
        case Call("STRSTARTS", (operand, Constant(term))):
            return _starts_with(operand, term, trial)
    return ANYTHING


def _typed(expression: Expr, trial: Samples) -> Outcomes:
    """A type test that the ontology or the body states is true of an unbound variable, one by DATATYPE an error."""
    test, stated = type_test(expression), isinstance(expression, Call)
    if test is None or test.variable not in trial:
        return ANYTHING
    if trial[test.variable] == UNBOUND:
        return TRUE if stated else ERROR
    if trial[test.variable].kind in _kinds_of(test.types):
        return TRUE if stated else ANYTHING
    return FALSE if stated else FALSE | ERROR


def _of_kind(value: SampleValue, kinds: frozenset[ValueKind]) -> Outcomes:
    return ERROR if value == UNBOUND else _of(value.kind in kinds)


def _may_be_text(value: SampleValue | None) -> bool:
    """Whether a value may be a string; other literals may have a language."""
    return value is None or value.kind in (ValueKind.STRING, ValueKind.OTHER)


def _combined(parts: Sequence[Expr], trial: Samples, neutral: Outcomes, decisive: str) -> Outcomes:
    """Three-valued AND or OR: the decisive outcome of one operand decides, then an error."""
    combined = neutral
    for part in parts:
        pairs = product(combined, possible_outcomes(part, trial))
        combined = frozenset(
            decisive if decisive in pair else "E" if "E" in pair else next(iter(neutral)) for pair in pairs
        )
    return combined


def _comparison(expression: Compare, trial: Samples) -> Outcomes:
    if type_test(expression) is not None:
        return _typed(expression, trial)
    left, right = _value(expression.left, trial), _value(expression.right, trial)
    if UNBOUND in (left, right):
        return ERROR
    return ANYTHING if left is None or right is None else _compared(expression.operator, left, right)


def _compared(operator: str, left: SampleValue, right: SampleValue) -> Outcomes:
    kinds = {left.kind, right.kind}
    if kinds == _TIMES and abs(Fraction(left.order_key) - Fraction(right.order_key)) <= _MAX_ZONE:
        return ERROR
    if kinds == _TIMES or (left.kind is right.kind and left.kind in _ORDERED):
        return _of(_ordered(operator, left, right))
    if left.kind is right.kind is ValueKind.IRI and operator in ("=", "!="):
        return _of((left == right) == (operator == "="))
    if ValueKind.NOT_A_NUMBER in kinds and kinds <= {ValueKind.NUMBER, ValueKind.NOT_A_NUMBER}:
        return _of(operator == "!=")
    return ANYTHING if operator == "!=" else FALSE | ERROR


def _ordered(operator: str, left: SampleValue, right: SampleValue) -> bool:
    less, equal = left.order_key < right.order_key, left.order_key == right.order_key  # type: ignore[operator]  # of one kind
    return {"<": less, "<=": less or equal, "=": equal, "!=": not equal, ">=": not less, ">": not (less or equal)}[
        operator
    ]


def _starts_with(operand: Expr, term: str, trial: Samples) -> Outcomes:
    name = _name(operand.arguments[0] if isinstance(operand, Call) and operand.name == "STR" else operand)
    value, text = trial.get(name or ""), value_of(term)
    if value == UNBOUND:
        return ERROR
    if value is None or text is None or value.kind is not ValueKind.STRING or text.kind is not ValueKind.STRING:
        return ANYTHING
    return _of(str(value.order_key).startswith(str(text.order_key)))


def _value(expression: Expr, trial: Samples) -> SampleValue | None:
    match expression:
        case Variable(name):
            return trial.get(name)
        case Constant(term):
            return value_of(term)
        case Sign("+", operand):
            return _value(operand, {})
        case Sign("-", Constant(term)):
            value = value_of(term)
            if value is not None and value.kind is ValueKind.NUMBER and not isinstance(value.order_key, str):
                return SampleValue(ValueKind.NUMBER, -value.order_key, value.exact)
    return None


def _truth(term: str) -> Outcomes:
    """The truth of a constant by itself."""
    if is_iri(term):
        return ERROR
    text, datatype, _ = literal_parts(term)
    if datatype == XSD + "boolean" and text in ("true", "1", "false", "0"):
        return _of(text in ("true", "1"))
    value = value_of(term)
    if value is None or value.kind in _TIMES:
        return ANYTHING
    return _of(bool(value.order_key))


def _of(truth: bool) -> Outcomes:
    return TRUE if truth else FALSE


def _name(expression: Expr) -> str | None:
    return expression.name if isinstance(expression, Variable) else None
