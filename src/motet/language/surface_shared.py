"""What several surfaces share: running a Lark grammar, leaves written as classes, durations, counts and instants."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from lark import Lark, Transformer_NonRecursive, UnexpectedInput, UnexpectedToken
from lark import Token as LarkToken
from lark.exceptions import VisitError

from motet.language.motet_lexer import KEYWORDS
from motet.language.scope import PAIRING, bounds
from motet.language.syntax import Event, Leaf, Pattern, Run
from motet.model.times import UNITS, parse_datetime, parse_duration
from motet.sparql.prologue import Prologue, resolve
from motet.sparql.tokens import MAX_COUNT, MAX_DURATION, MAX_EXPRESSION, Document, Token, string_value


def transform(
    grammar: str,
    document: Document,
    text: str,
    builder: Transformer_NonRecursive[LarkToken, Any],
    fault: tuple[str, str],
) -> Any:
    """The result of a builder for a text; ``fault`` is the message and advice for a text outside the grammar.

    ``text`` is the document's, with the prologue blanked.
    """
    if len(text.strip()) > MAX_EXPRESSION:
        message = f"a document of this syntax may have {MAX_EXPRESSION} characters"
        raise document.refusal(message, MAX_EXPRESSION, "split it into several documents")
    try:
        return builder.transform(_parser(grammar).parse(text))
    except VisitError as error:  # Lark wraps what a rule's method raises
        raise error.orig_exc from None
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        position = len(document.text.rstrip()) if at_end else error.pos_in_stream
        raise document.refusal(fault[0], position or 0, fault[1]) from None


@cache
def _parser(grammar: str) -> Lark:
    return Lark.open(grammar, rel_to=__file__, parser="lalr", start="document")


_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


class ClassLeaves:
    """Declares one event per leaf of a pattern, in the order of declaration."""

    def __init__(self, prologue: Prologue) -> None:
        self._prologue = prologue
        self._events: dict[str, Event] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self._events.values())

    def declare(self, written: str, position: int) -> Leaf:
        """A new leaf for a class given as a bare name, a prefixed name or an IRI."""
        class_iri = self._class_iri(written, position)
        name = self._free_name(class_iri)
        self._events[name] = Event(name, class_iri, None, position)
        return Leaf(name, position)

    def bind_times(self, leaf: Leaf) -> tuple[str, str]:
        """The variables of a leaf's start and end."""
        times = f"{leaf.name}_start", f"{leaf.name}_end"
        self._events[leaf.name] = replace(self._events[leaf.name], times=times)
        return times

    def _class_iri(self, written: str, position: int) -> str:
        if not _BARE.fullmatch(written):
            return self._prologue.expand(Token("IRIREF" if written.startswith("<") else "PNAME", written, position))
        if "" in self._prologue.prefixes:
            return self._prologue.prefixes[""] + written
        if self._prologue.base is not None:
            return resolve(self._prologue.base, written)
        raise self._prologue.document.refusal(
            f"'{written}' is not an IRI", position, "declare PREFIX : <…> or BASE <…>, or write the whole IRI"
        )

    def _free_name(self, class_iri: str) -> str:
        local = re.sub(r"\W", "_", re.split(r"[#/:]", class_iri)[-1], flags=re.ASCII)
        stem = local if re.match(r"[A-Za-z_]", local) else f"e{local}"
        taken = {name for event in self.events for name in (event.name, f"{event.name}_start", f"{event.name}_end")}
        candidates = (stem if number == 1 else f"{stem}_{number}" for number in range(1, len(taken) + 3))
        return next(name for name in candidates if name not in taken and name.upper() not in KEYWORDS)


def is_unbounded(pattern: Pattern) -> bool:
    """Whether a pairing operator or a run has no bound, so that the subscription needs UNBOUNDED."""
    stack = [bounds(pattern)]
    while stack:
        bounded = stack.pop()
        if bounded.bound is None and isinstance(bounded.node, (*PAIRING, Run)):
            return True
        stack.extend(bounded.children)
    return False


_MAX_DIGITS = 40  # digits; more cannot be a duration or a count


def read_duration(document: Document, number: str, position: int, unit: str, unit_position: int) -> int:
    """``5 min`` in microseconds."""
    if unit.lower() not in UNITS:
        raise document.refusal(f"'{unit}' is not a unit of time", unit_position, f"use one of {', '.join(UNITS)}")
    if len(number) > _MAX_DIGITS or "e" in number.lower():
        raise document.refusal(f"{number[:_MAX_DIGITS]} is not a number for a duration", position, "write plain digits")
    micros = Decimal(number) * UNITS[unit.lower()]
    if micros != micros.to_integral_value():
        raise document.refusal(f"{number} {unit} is not a whole number of microseconds", position)
    return _bounded(document, int(micros), position)


def read_xsd_duration(document: Document, string: str, position: int) -> int:
    """``"PT5M"^^xsd:dayTimeDuration`` in microseconds."""
    lexical = string_value(string)
    try:
        micros = parse_duration(lexical[: _MAX_DIGITS * 4])
    except ValueError as error:
        raise document.refusal(str(error), position) from None
    return _bounded(document, micros, position)


def read_count(document: Document, number: str, position: int) -> int:
    """The ``n`` of ``A{n}``."""
    value = int(number) if len(number) <= _MAX_DIGITS else MAX_COUNT + 1
    if not 1 <= value <= MAX_COUNT:
        raise document.refusal(f"an iteration takes 1 to {MAX_COUNT} members", position)
    return value


def read_instant(document: Document, string: str, position: int) -> int:
    """An xsd:dateTime in microseconds."""
    try:
        return parse_datetime(string_value(string)[: _MAX_DIGITS * 2])
    except ValueError as error:
        raise document.refusal(str(error), position) from None


def _bounded(document: Document, micros: int, position: int) -> int:
    if micros <= 0:
        raise document.refusal("a duration must be longer than zero", position)
    if micros > MAX_DURATION:
        raise document.refusal("a duration of more than a hundred years", position)
    return micros
