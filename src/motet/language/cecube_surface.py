"""The `cecube` surface: ``[and(E3/T1, [and(E1/T1, E2/T2)])]`` to syntax trees (language page, section 9).

What T means: an instant or ``t1..t2`` limits every event below it, a name makes its leaves share an instant, a duration
is the operator's bound (the window of xor, the duration of not), ``*`` says nothing. Limits and shared instants become
FILTERs over the events' start and end, which the leaves bind with DURING.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer_NonRecursive, v_args

from motet.language import quantities
from motet.language.cecube_compile import Composite, Length, Moment, Primitive, Span, Time, compile_composite
from motet.language.grammars import transformed
from motet.language.syntax import Subscription
from motet.sparql.prologue import Names, read_prologue
from motet.sparql.tokens import MAX_DEPTH, Document

_FAULT = (
    "this is not a composite event of CECube",
    "write for instance [before(Smoke/T1, [and(Heat/T1, Door/*)])]/5 min",
)


def parse_cecube(document: Document, name: str) -> tuple[Subscription, ...]:
    """The subscriptions of a document; one without a SUBSCRIPTION header is called ``name``."""
    names, text = read_prologue(document)
    _refuse_depth(document, text)
    subscriptions: tuple[Subscription, ...] = transformed("cecube.lark", document, text, _Builder(names, name), _FAULT)
    return subscriptions


def _refuse_depth(document: Document, text: str) -> None:
    depth = 0
    for position, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if depth > MAX_DEPTH // 2:  # a composite may become two levels of the tree: its operator and a FILTER
            raise document.refusal(f"composites nested more than {MAX_DEPTH // 2} deep", position)


@v_args(inline=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method per rule or alias of cecube.lark."""

    def __init__(self, names: Names, name: str) -> None:
        super().__init__()
        self._names = names
        self._name = name

    def document(self, *parts: Any) -> tuple[Subscription, ...]:
        if isinstance(parts[0], Subscription):
            return parts
        return (compile_composite(self._names, self._name, 0, parts[0]),)

    def named(self, _keyword: Token, name: Token, composite: Composite) -> Subscription:
        return compile_composite(self._names, str(name), _place(name), composite)

    def composite(self, operator: Token, *rest: Any) -> Composite:
        *parts, time = rest
        return Composite(str(operator), _place(operator), tuple(parts), time)

    def primitive(self, written: Token, time: Time | None) -> Primitive:
        return Primitive(str(written), _place(written), time)

    def instant(self, written: Token) -> Span:
        moment = self._instant(written)
        return Span(moment, moment, _place(written))

    def span(self, first: Token, last: Token) -> Span:
        begin, end = self._instant(first), self._instant(last)
        if end < begin:
            raise self._names.document.refusal("the time ends before it begins", _place(first))
        return Span(begin, end, _place(first))

    def any_time(self) -> None:
        return None

    def shared(self, name: Token) -> Moment:
        return Moment(str(name), _place(name))

    def measured(self, number: Token, unit: Token) -> Length:
        document, position = self._names.document, _place(number)
        micros = quantities.measured_duration(document, str(number), position, str(unit), _place(unit))
        return Length(micros, position)

    def lexical(self, string: Token, _datatype: Token | None) -> Length:
        return Length(quantities.lexical_duration(self._names.document, str(string), _place(string)), _place(string))

    def _instant(self, written: Token) -> int:
        return quantities.instant(self._names.document, f"'{written}'", _place(written))


def _place(token: Token) -> int:
    return token.start_pos or 0
