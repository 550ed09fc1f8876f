"""The simple FILTERs of a leaf that an index can answer: ranges, choices and prefixes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from motet.model.terms import XSD, is_iri, literal, literal_parts
from motet.model.times import parse_datetime
from motet.sparql.algebra import Call, Compare, Constant, Expr, In, Sign, Variable

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NUMBERS = {
    XSD + "integer": re.compile(r"[+-]?[0-9]+"),
    XSD + "decimal": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"),
    XSD + "double": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
}
_ZONED = re.compile(r".*(?:Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """``FILTER(?variable operator constant)`` on a number or an xsd:dateTime with a zone; SPARQL's own comparison."""

    variable: str
    operator: str  # one of = < <= > >=
    constant: str  # a term


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """``FILTER(?variable IN (…))`` over IRIs and plain strings: the variable is one of these very terms."""

    variable: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Prefix:
    """``FILTER(STRSTARTS(STR(?variable), "text"))``, or without STR: then only strings match."""

    variable: str
    text: str  # a term
    through_str: bool


Test = Range | Choice | Prefix


def recognised(condition: Expr, objects: set[str | None]) -> Test | None:
    """The test a condition is, if it is one over a variable that a required triple binds."""
    match condition:
        case Compare(operator, Variable(name), constant) if name in objects and operator in _MIRRORED:
            return _comparison(name, operator, constant)
        case Compare(operator, constant, Variable(name)) if name in objects and operator in _MIRRORED:
            return _comparison(name, _MIRRORED[operator], constant)
        case In(Variable(name), choices) if name in objects and choices:
            return _choice(name, choices)
        case Call("STRSTARTS", (Call("STR", (Variable(name),)), Constant(text))) if name in objects and _plain(text):
            return Prefix(name, text, through_str=True)
        case Call("STRSTARTS", (Variable(name), Constant(text))) if name in objects and _plain(text):
            return Prefix(name, text, through_str=False)
    return None


def filter_of(test: Test) -> Expr:
    """The FILTER a test stands for."""
    variable = Variable(test.variable)
    match test:
        case Range(_, operator, constant):
            return Compare(operator, variable, Constant(constant))
        case Choice(_, terms):
            return In(variable, tuple(map(Constant, terms)))
        case Prefix(_, text, through_str):
            return Call("STRSTARTS", (Call("STR", (variable,)) if through_str else variable, Constant(text)))


def named(test: Test, names: Mapping[str, str]) -> Test:
    match test:
        case Range(variable, operator, constant):
            return Range(names[variable], operator, constant)
        case Choice(variable, terms):
            return Choice(names[variable], terms)
        case Prefix(variable, text, through_str):
            return Prefix(names[variable], text, through_str)


def _comparison(name: str, operator: str, constant: Expr) -> Test | None:
    term = _signed(constant)
    if term is None:
        return None
    if _is_ordered(term):
        return Range(name, operator, term)
    return _choice(name, (constant,)) if operator == "=" else None


def _choice(name: str, choices: tuple[Expr, ...]) -> Choice | None:
    terms = tuple(sorted({choice.term for choice in choices if isinstance(choice, Constant)}))
    every = all(isinstance(choice, Constant) for choice in choices)
    return Choice(name, terms) if every and all(is_iri(term) or _plain(term) for term in terms) else None


def _signed(constant: Expr) -> str | None:
    """A constant, or a number with its sign apart, as one term."""
    match constant:
        case Constant(term):
            return term
        case Sign(sign, Constant(term)) if not is_iri(term):
            text, datatype, _ = literal_parts(term)
            return literal(sign + text, datatype=datatype) if datatype in _NUMBERS and text[0] not in "+-" else None
    return None


def _is_ordered(term: str) -> bool:
    """Whether comparing with the constant is comparing numbers, or instants that are certain."""
    if is_iri(term):
        return False
    text, datatype, _ = literal_parts(term)
    if datatype in _NUMBERS:
        return _NUMBERS[datatype].fullmatch(text) is not None
    if datatype != XSD + "dateTime" or not _ZONED.fullmatch(text):
        return False
    try:
        parse_datetime(text)
    except ValueError:
        return False
    return True


def _plain(term: str) -> bool:
    return term.startswith('"') and term.endswith('"')
