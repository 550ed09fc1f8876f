"""The `jtang` surface: the symbols of JTangCSPS to syntax trees and back (language page, section 9).

``(S)_T`` gives the operator directly inside the parentheses its T: a bound, a window, a duration or a gap. Two leaves
of the same class are two events. Events are consumed on detection, which is the chronicle context. A conjunction with
exactly one negated operand is a difference: ``(A & B & (-S)_T)`` is ``(A AND B) UNLESS S WITHIN T``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lark import Token, Transformer_NonRecursive, v_args

from motet.language import syntax
from motet.language.check import check_depth, operator_text
from motet.language.surface_shared import (
    ClassLeaves,
    SurfaceWriter,
    chain,
    is_unbounded,
    negated_operand,
    read_count,
    read_duration,
    read_xsd_duration,
    transform,
)
from motet.model.intervals import Relation
from motet.model.times import format_duration
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

    def and_(self, left: _Open, sign: Token, right: _Open) -> _Conjunction:
        first = left if isinstance(left, _Conjunction) else _Conjunction((left(None),), (_position(sign),))
        return _Conjunction((*first.operands, right(None)), (*first.positions, _position(sign)))

    def grouped(self, expression: _Open) -> _Open:
        """``(S)``: a conjunction in parentheses is one operand of the conjunction around it."""

        def complete(duration: int | None) -> syntax.Pattern:
            return expression(duration)

        return complete

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


@dataclass(frozen=True, slots=True)
class _Conjunction:
    """``A & B & C`` without parentheses: an `_Open` to which operands can be added."""

    operands: tuple[syntax.Pattern, ...]
    positions: tuple[int, ...]  # of the sign before each operand

    def __call__(self, bound: int | None) -> syntax.Pattern:
        """“A conjunction with exactly one negated operand, on either side, is a difference.”"""
        negated = negated_operand(self.operands)
        placed = zip(self.operands, self.positions, strict=True)
        (pattern, _), *others = (pair for pair in placed if pair[0] is not negated)
        for operand, position in others:
            pattern = syntax.And(pattern, operand, position)
        if negated is not None:
            pattern = syntax.Unless(pattern, negated.operand, negated.duration, negated.position)
        return _bounded(pattern)(bound)


def _bounded(pattern: syntax.Pattern) -> _Open:
    return lambda bound: pattern if bound is None else syntax.Within(pattern, bound, pattern.position)


def _position(token: Token) -> int:
    return token.start_pos or 0


_OR, _DIFFERENCE, _AND, _ALONGSIDE, _TIMED, _NEGATION, _POWER, _PRIMARY = range(8)  # how tightly each rule binds
_RELATIONS = {"BEFORE", "MEETS", "OVERLAPS", "FINISHES", "INCLUDES", "STARTS", "EQUALS"}


def to_jtang(subscriptions: Iterable[syntax.Subscription], prefixes: Mapping[str, str]) -> str:
    """The text of subscriptions; a UsageError names what JTangCSPS cannot express.

    >>> events = (syntax.Event("A", "urn:A"), syntax.Event("B", "urn:B"))
    >>> pair = syntax.Within(syntax.And(syntax.Leaf("A"), syntax.Leaf("B")), 5_000_000)
    >>> print(to_jtang([syntax.Subscription("s", events, pair, syntax.Context.CHRONICLE)], {}), end="")
    SUBSCRIPTION s
      (<urn:A> & <urn:B>)_5 s
    """
    writer = SurfaceWriter("jtang", syntax.Context.CHRONICLE, prefixes)
    return writer.document(
        subscriptions, _Writer(writer).pattern, lambda text: parse_jtang(Document(text, None), "query")
    )


class _Writer:
    """Writes patterns."""

    def __init__(self, shared: SurfaceWriter) -> None:
        self._shared = shared

    def pattern(self, node: syntax.Pattern, needed: int = _OR) -> str:
        text, binding = self._written(node)
        return text if binding >= needed else f"({text})"

    def _written(self, node: syntax.Pattern) -> tuple[str, int]:
        """The text of a node, and how tightly it binds."""
        match node:
            case syntax.Leaf():
                written = self._shared.leaf(node), _PRIMARY
            case syntax.Or():
                written = f"{self.pattern(node.left, _OR)} | {self.pattern(node.right, _DIFFERENCE)}", _OR
            case syntax.And():
                operands = chain(node)
                self._shared.refuse_negation(operands, node)
                written = " & ".join(self.pattern(operand, _ALONGSIDE) for operand in operands), _AND
            case syntax.Alongside():
                written = f"{self.pattern(node.left, _ALONGSIDE)} || {self.pattern(node.right, _TIMED)}", _ALONGSIDE
            case syntax.Timed() if node.relation.value in _RELATIONS:
                left, right = self.pattern(node.left, _TIMED), self.pattern(node.right, _NEGATION)
                written = f"{left} {node.relation.value.lower()} {right}", _TIMED
            case syntax.Times(gap=None):
                written = f"{self.pattern(node.operand, _POWER)}^{node.count}", _POWER
            case _:
                written = self._limited(node), _PRIMARY
        return written

    def _limited(self, node: syntax.Pattern) -> str:
        """``(S)_T``."""
        match node:
            case syntax.Within(operand=syntax.Times(gap=None)):
                raise self._shared.lacking(node, "WITHIN over an iteration without EVERY")
            case syntax.Within():
                inside, duration = self.pattern(node.operand), node.bound
            case syntax.Unless():
                inside = f"{self.pattern(node.operand, _AND)} - {self.pattern(node.absent, _AND)}"
                duration = node.window
            case syntax.No():
                inside, duration = f"-{self.pattern(node.operand, _NEGATION)}", node.duration
            case syntax.Times(gap=int(gap)):
                inside, duration = f"{self.pattern(node.operand, _POWER)}^{node.count}", gap
            case syntax.Run():
                inside, duration = f"{self.pattern(node.operand, _POWER)}^*", node.gap
            case _:
                raise self._shared.lacking(node, operator_text(node))
        return f"({inside})_{format_duration(duration)}"
