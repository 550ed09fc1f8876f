"""RDF terms as Python programs use them: IRIs, literals, and the Python values of literals.

Inside Motet a term is its canonical N-Triples text (``model.terms``); these are made where a user reads a term.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from motet.model import terms
from motet.model.terms import XSD
from motet.model.times import parse_datetime, to_datetime


class IRI(str):
    """An IRI: a text whose type says that it is no literal.

    >>> IRI("urn:room:1"), IRI("urn:room:1") == "urn:room:1", IRI("urn:room:1").n3
    (IRI('urn:room:1'), True, '<urn:room:1>')
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"IRI({str(self)!r})"

    @property
    def n3(self) -> str:
        """The canonical N-Triples text."""
        return terms.iri(self)


_STRING = IRI(XSD + "string")


@dataclass(frozen=True)
class Literal:
    """A literal: its text with its datatype, and its language if it has one.

    >>> Literal("chat", language="fr").n3
    '"chat"@fr'
    """

    text: str
    datatype: IRI = _STRING
    language: str | None = None

    def __post_init__(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "datatype", IRI(terms.RDF + "langString"))

    def __str__(self) -> str:
        return self.text

    @property
    def n3(self) -> str:
        """The canonical N-Triples text."""
        return terms.literal(self.text, datatype=self.datatype, language=self.language)


Term: TypeAlias = IRI | Literal
PythonValue: TypeAlias = IRI | Literal | str | int | float | bool | Decimal | datetime


def term_of(text: str) -> Term:
    """The term of a canonical N-Triples text.

    >>> term_of("<urn:x>"), term_of('"5"^^<urn:kelvin>')
    (IRI('urn:x'), Literal(text='5', datatype=IRI('urn:kelvin'), language=None))
    """
    if terms.is_iri(text):
        return IRI(terms.iri_value(text))
    lexical, datatype, language = terms.literal_parts(text)
    return Literal(lexical, IRI(datatype), language)


def python_value(text: str) -> PythonValue:
    """The Python value of a term, from its canonical N-Triples text.

    Integers, decimals, doubles, booleans, dateTimes and plain strings have one; a dateTime without a zone is a datetime
    without one. Every other literal, also one whose text its datatype does not allow, is a `Literal`.

    >>> python_value(f'"35.5"^^<{XSD}decimal>'), python_value('"hot"'), python_value(f'"x"^^<{XSD}integer>').text
    (Decimal('35.5'), 'hot', 'x')
    """
    term = term_of(text)
    if isinstance(term, IRI) or term.language is not None:
        return term
    convert = _CONVERSIONS.get(term.datatype)
    try:
        return term if convert is None else convert(term.text)
    except ValueError:  # the text is not one of the datatype, or too long for Python
        return term


_SPACE = " \t\r\n"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?INF|NaN", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGERS = (
    "integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger",
    "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
)  # fmt: skip


def _matching(text: str, form: re.Pattern[str]) -> str:
    stripped = text.strip(_SPACE)
    if not form.fullmatch(stripped):
        raise ValueError(f"{text!r} is not a text of the datatype")
    return stripped


def _boolean(text: str) -> bool:
    value = _BOOLEANS.get(text.strip(_SPACE))
    if value is None:
        raise ValueError(f"{text!r} is not a boolean")
    return value


def _datetime(text: str) -> datetime:
    value = to_datetime(parse_datetime(text))
    has_zone = re.search(r"(?:Z|[+-]\d\d:\d\d)$", text.strip(_SPACE))
    return value if has_zone else value.replace(tzinfo=None)


_CONVERSIONS: dict[str, Callable[[str], PythonValue]] = {
    XSD + "string": str,
    XSD + "boolean": _boolean,
    XSD + "decimal": lambda text: Decimal(_matching(text, _DECIMAL)),
    XSD + "double": lambda text: float(_matching(text, _DOUBLE)),
    XSD + "float": lambda text: float(_matching(text, _DOUBLE)),
    XSD + "dateTime": _datetime,
    XSD + "dateTimeStamp": _datetime,
    **{XSD + name: lambda text: int(_matching(text, _INTEGER)) for name in _INTEGERS},
}
