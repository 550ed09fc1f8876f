"""The `jtang` surface: the symbols of JTangCSPS to syntax trees (language page, section 9).

``(S)_T`` gives the operator directly inside the parentheses its T: a bound, a window, a duration or a gap. Two leaves
of the same class are two events. Events are consumed on detection, which is the chronicle context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lark import Token, Transformer_NonRecursive, v_args

from motet.language import syntax
from motet.language.check import check_depth
from motet.language.surface_shared import (
    ClassLeaves,
    is_unbounded,
    read_count,
    read_duration,
    read_xsd_duration,
    transform,
)
from motet.model.intervals import Relation
from motet.sparql.prologue import Prologue, read_prologue
from motet.sparql.tokens import Document

# A pattern that still waits for the T of the parentheses around it; None says that there is none.
_Open = Callable[[int | None], syntax.Pattern]


_FAULT = (
    "this is not an expression of JTangCSPS",
    "write for instance (Smoke before Heat)_5min, (A & B)_1h, (A - B)_10s, (-A)_1h, A^3 or (A^*)_1min",
)


def parse_jtang(document: Document, name: str) -> tuple[syntax.Subscription, ...]:
    """The subscriptions of a document; one without a SUBSCRIPTION header is called ``name``."""
    prologue, text = read_prologue(document)
    subscriptions: tuple[syntax.Subscription, ...] = transform(
        "jtang.lark", document, text, _Builder(prologue, name), _FAULT
    )
    return subscriptions


@v_args(inline=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method per rule or alias of jtang.lark."""

    def __init__(self, prologue: Prologue, name: str) -> None:
        super().__init__()
        self._prologue = prologue
        self._name = name
        self._leaves = ClassLeaves(prologue)

    def document(self, *parts: Any) -> tuple[syntax.Subscription, ...]:
        if isinstance(parts[0], syntax.Subscription):
            return parts
        return (self._subscription(self._name, 0, parts[0]),)

    def named(self, _keyword: Token, name: Token, expression: _Open) -> syntax.Subscription:
        return self._subscription(str(name), _position(name), expression)

    def _subscription(self, name: str, position: int, expression: _Open) -> syntax.Subscription:
        pattern, events = expression(None), self._leaves.events
        self._leaves = ClassLeaves(self._prologue)
        check_depth(pattern, self._prologue.document)
        return syntax.Subscription(
            name, events, pattern, syntax.Context.CHRONICLE, is_unbounded(pattern), position=position
        )

    def limited(self, expression: _Open, duration: int) -> _Open:
        pattern = expression(duration)
        return _bounded(pattern)

    def or_(self, left: _Open, right: _Open) -> _Open:
        return _bounded(syntax.Or(left(None), right(None)))

    def unless(self, left: _Open, sign: Token, right: _Open) -> _Open:
        operand, absent = left(None), right(None)
        return self._needing(
            sign, "(S1 - S2)_T", lambda window: syntax.Unless(operand, absent, window, _position(sign))
        )

    def and_(self, left: _Open, sign: Token, right: _Open) -> _Open:
        return _bounded(syntax.And(left(None), right(None), _position(sign)))

    def alongside(self, left: _Open, sign: Token, right: _Open) -> _Open:
        return _bounded(syntax.Alongside(left(None), right(None), _position(sign)))

    def timed(self, left: _Open, sign: Token, right: _Open) -> _Open:
        return _bounded(syntax.Timed(Relation(sign.upper()), left(None), right(None), _position(sign)))

    def no(self, sign: Token, operand: _Open) -> _Open:
        pattern = operand(None)
        return self._needing(sign, "(-S1)_T", lambda duration: syntax.No(pattern, duration, _position(sign)))

    def times(self, operand: _Open, sign: Token, digits: Token) -> _Open:
        pattern, count = operand(None), read_count(self._prologue.document, str(digits), _position(digits))
        return lambda gap: syntax.Times(pattern, count, gap, _position(sign))

    def run(self, operand: _Open, sign: Token) -> _Open:
        pattern = operand(None)
        return self._needing(sign, "(S1^*)_T", lambda gap: syntax.Run(pattern, gap, _position(sign)))

    def leaf(self, written: Token) -> _Open:
        return _bounded(self._leaves.declare(str(written), _position(written)))

    def measured(self, digits: Token, unit: Token) -> int:
        document = self._prologue.document
        return read_duration(document, str(digits), _position(digits), str(unit), _position(unit))

    def lexical(self, string: Token, _datatype: Token | None) -> int:
        return read_xsd_duration(self._prologue.document, str(string), _position(string))

    def _needing(self, sign: Token, form: str, build: Callable[[int], syntax.Pattern]) -> _Open:
        def complete(duration: int | None) -> syntax.Pattern:
            if duration is None:
                raise self._prologue.document.refusal(f"'{sign}' needs a T", _position(sign), f"write {form}")
            return build(duration)

        return complete


def _bounded(pattern: syntax.Pattern) -> _Open:
    return lambda bound: pattern if bound is None else syntax.Within(pattern, bound, pattern.position)


def _position(token: Token) -> int:
    return token.start_pos or 0
