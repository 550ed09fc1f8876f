"""The interval of an event or notification as triples, motet:start and motet:end (language page, section 13)."""

from __future__ import annotations

from motet.model.terms import XSD, literal
from motet.model.times import format_datetime
from motet.sparql.graph import Triple

START, END = "<urn:motet:ns#start>", "<urn:motet:ns#end>"


def time_literal(instant: int) -> str:
    """An instant as DURING writes it."""
    return literal(format_datetime(instant), datatype=XSD + "dateTime")


def interval_triples(subject: str, start: int, end: int) -> list[Triple]:
    """
    >>> interval_triples("<urn:e:1>", 0, 0)[0]
    ('<urn:e:1>', '<urn:motet:ns#start>', '"1970-01-01T00:00:00.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>')
    """
    return [(subject, START, time_literal(start)), (subject, END, time_literal(end))]
