"""Durations, counts and instants as they are written in a subscription, within their limits."""

from __future__ import annotations

from decimal import Decimal

from motet.model.times import UNITS, parse_datetime, parse_duration
from motet.sparql.tokens import MAX_COUNT, MAX_DURATION, Document, string_value

_LONGEST_NUMBER = 40  # digits; more cannot be a duration or a count


def measured_duration(document: Document, number: str, position: int, unit: str, unit_position: int) -> int:
    """``5 min`` in microseconds."""
    if unit.lower() not in UNITS:
        raise document.refusal(f"'{unit}' is not a unit of time", unit_position, f"use one of {', '.join(UNITS)}")
    if len(number) > _LONGEST_NUMBER or "e" in number.lower():
        raise document.refusal(
            f"{number[:_LONGEST_NUMBER]} is not a number for a duration", position, "write plain digits"
        )
    micros = Decimal(number) * UNITS[unit.lower()]
    if micros != micros.to_integral_value():
        raise document.refusal(f"{number} {unit} is not a whole number of microseconds", position)
    return _bounded(document, int(micros), position)


def lexical_duration(document: Document, string: str, position: int) -> int:
    """``"PT5M"^^xsd:dayTimeDuration`` in microseconds."""
    lexical = string_value(string)
    try:
        micros = parse_duration(lexical[: _LONGEST_NUMBER * 4])
    except ValueError as error:
        raise document.refusal(str(error), position) from None
    return _bounded(document, micros, position)


def count(document: Document, number: str, position: int) -> int:
    """The ``n`` of ``A{n}``."""
    value = int(number) if len(number) <= _LONGEST_NUMBER else MAX_COUNT + 1
    if not 1 <= value <= MAX_COUNT:
        raise document.refusal(f"an iteration takes 1 to {MAX_COUNT} members", position)
    return value


def instant(document: Document, string: str, position: int) -> int:
    """An xsd:dateTime in microseconds."""
    try:
        return parse_datetime(string_value(string)[: _LONGEST_NUMBER * 2])
    except ValueError as error:
        raise document.refusal(str(error), position) from None


def _bounded(document: Document, micros: int, position: int) -> int:
    if micros <= 0:
        raise document.refusal("a duration must be longer than zero", position)
    if micros > MAX_DURATION:
        raise document.refusal("a duration of more than a hundred years", position)
    return micros
