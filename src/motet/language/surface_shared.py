"""What several surfaces share: running a Lark grammar, leaves written as classes, durations, counts and instants, and
what the writers of these surfaces refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from lark import Lark, Transformer_NonRecursive, UnexpectedInput, UnexpectedToken
from lark import Token as LarkToken
from lark.exceptions import VisitError

from motet.language.motet_lexer import KEYWORDS
from motet.language.printer import ShortIris, pattern_text
from motet.language.scope import PAIRING, bounds
from motet.language.syntax import And, Context, Event, Leaf, No, Or, Pattern, Run, Select, Subscription
from motet.model.errors import UsageError
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


def negated_operand(operands: Sequence[Pattern]) -> No | None:
    """The only negated operand of a conjunction, which makes it a difference; None if there is none, or several.

    >>> negated_operand([Leaf("a"), No(Leaf("s"), 5)]), negated_operand([No(Leaf("r"), 5), No(Leaf("s"), 5)])
    (No(operand=Leaf(name='s', position=0), duration=5, position=0), None)
    """
    negations = [operand for operand in operands if isinstance(operand, No)]
    return negations[0] if len(negations) == 1 else None


def chain(node: And | Or) -> list[Pattern]:
    """The operands of ``a AND b AND c``, which is read from left to right.

    >>> [leaf.name for leaf in chain(And(And(Leaf("a"), Leaf("b")), Leaf("c")))]
    ['a', 'b', 'c']
    """
    operands: list[Pattern] = [node.right]
    left = node.left
    while isinstance(left, type(node)):
        operands.append(left.right)
        left = left.left
    return [left, *reversed(operands)]


class SurfaceWriter:
    """Writes subscriptions in a surface whose leaves are classes; refuses by name what the surface lacks."""

    def __init__(self, surface: str, context: Context, prefixes: Mapping[str, str]) -> None:
        self._surface = surface
        self._context = context
        self._iris = ShortIris(prefixes)
        self._subscription: Subscription

    def document(
        self,
        subscriptions: Iterable[Subscription],
        write: Callable[[Pattern], str],
        read: Callable[[str], tuple[Subscription, ...]],
    ) -> str:
        """The text of subscriptions, written by ``write``; ``read`` must give the same subscriptions back."""
        blocks, written = [], []
        for subscription in subscriptions:
            self._subscription = subscription
            self._refuse_clauses(subscription)
            blocks.append(f"SUBSCRIPTION {subscription.name}\n  {write(subscription.pattern)}\n")
            written.append(subscription)
        text = self._iris.document(blocks)
        for self._subscription, back in zip(written, read(text), strict=True):
            self._refuse_other_names(back)
        return text

    def leaf(self, leaf: Leaf, *, has_times: bool = False) -> str:
        """The class of a leaf; ``has_times`` says that the surface limits its time."""
        event = self._subscription.event(leaf.name)
        if event.class_iri is None or event.body is not None or (event.times is not None and not has_times):
            raise self.refusal(f"EVENT {event.name} is more than a class", "Use motet or turtle.")
        return self._iris.write(event.class_iri)

    def lacking(self, node: Pattern, operator: str) -> UsageError:
        """The refusal of an operator that the surface does not have."""
        return self.refusal(f"{self._surface} has no {operator}, as in `{pattern_text(node)}`", "Use motet or turtle.")

    def refuse_negation(self, operands: Sequence[Pattern], node: Pattern) -> None:
        """“`A AND NO S FOR T` cannot be written in them and is refused by `translate`.”"""
        if negated_operand(operands) is not None:
            raise self.refusal(
                f"`{pattern_text(node)}` has no form: there a conjunction with one negated operand is a difference",
                "Use UNLESS, if the absence is to begin where the other operand ends; otherwise motet or turtle.",
            )

    def refusal(self, reason: str, advice: str) -> UsageError:
        message = f"subscription {self._subscription.name!r} cannot be written in {self._surface}: {reason}"
        return UsageError(message, advice=advice)

    def _refuse_clauses(self, subscription: Subscription) -> None:
        if subscription.context is not self._context:
            raise self.refusal(f"its context is always {self._context.value}", "Use motet or turtle.")
        if subscription.delivery != Select() and not any(event.times for event in subscription.events):
            raise self.refusal("it delivers every variable (SELECT *)", "Use motet or turtle.")
        if subscription.since is not None:
            raise self.refusal(f"{self._surface} has no SINCE", "Use motet or turtle.")

    def _refuse_other_names(self, back: Subscription) -> None:
        """Events are named after their classes: another name would be another variable in notifications."""
        names = [event.name for event in self._subscription.events]
        for event in back.events:
            if event.name not in names:
                raise self.refusal(
                    f"it would name an event of class <{event.class_iri}> '{event.name}'",
                    f"Rename that event to '{event.name}', once for each place where it is used.",
                )
        if back.pattern != self._subscription.pattern:
            raise self.refusal(f"it would be read as `{pattern_text(back.pattern)}`", "Use motet or turtle.")
        if set(back.events) != set(self._subscription.events):
            raise self.refusal("it has other times of events (DURING)", "Use motet or turtle.")
        if back.delivery != self._subscription.delivery:
            raise self.refusal("where it limits times, it delivers the events (SELECT)", "Use motet or turtle.")


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
