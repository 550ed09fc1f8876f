"""The `cecube` surface: ``[and(E3/T1, [and(E1/T1, E2/T2)])]`` to syntax trees and back (language page, section 9).

What T means: an instant or ``t1..t2`` limits every event inside it, a name makes its leaves share an instant, a
duration is the operator's bound (the window of xor, the duration of not), ``*`` says nothing. Limits and shared
instants become FILTERs over the events' start and end, which the leaves bind with DURING. A conjunction with exactly
one negated operand is a difference: ``[and(A, [not(S)]/T)]`` is ``A UNLESS S WITHIN T``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from lark import Token, Transformer_NonRecursive, v_args

from motet.language import syntax
from motet.language.check import operator_text
from motet.language.scope import children, nodes
from motet.language.surface_shared import (
    ClassLeaves,
    SurfaceWriter,
    chain,
    is_unbounded,
    negated_operand,
    read_duration,
    read_instant,
    read_xsd_duration,
    transform,
)
from motet.model.errors import SubscriptionError
from motet.model.intervals import Relation
from motet.model.terms import XSD, literal
from motet.model.times import END_OF_TIME, START_OF_TIME, format_datetime, format_duration
from motet.sparql.prologue import Prologue, read_prologue
from motet.sparql.tokens import MAX_DEPTH, Document

_FAULT = (
    "this is not a composite event of CECube",
    "write for instance [before(Smoke/T1, [and(Heat/T1, Door/*)])]/5 min",
)


def parse_cecube(document: Document, name: str) -> tuple[syntax.Subscription, ...]:
    """The subscriptions of a document; one without a SUBSCRIPTION header is called ``name``."""
    prologue, text = read_prologue(document)
    _refuse_depth(document, text)
    subscriptions: tuple[syntax.Subscription, ...] = transform(
        "cecube.lark", document, text, _Builder(prologue, name), _FAULT
    )
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

    def __init__(self, prologue: Prologue, name: str) -> None:
        super().__init__()
        self._prologue = prologue
        self._name = name

    def document(self, *parts: Any) -> tuple[syntax.Subscription, ...]:
        if isinstance(parts[0], syntax.Subscription):
            return parts
        return (compile_composite(self._prologue, self._name, 0, parts[0]),)

    def named(self, _keyword: Token, name: Token, composite: Composite) -> syntax.Subscription:
        return compile_composite(self._prologue, str(name), _position(name), composite)

    def composite(self, operator: Token, *rest: Any) -> Composite:
        *parts, time = rest
        return Composite(str(operator), _position(operator), tuple(parts), time)

    def primitive(self, written: Token, time: Time | None) -> Primitive:
        return Primitive(str(written), _position(written), time)

    def instant(self, written: Token) -> TimeSpan:
        moment = self._instant(written)
        return TimeSpan(moment, moment, _position(written))

    def span(self, first: Token, last: Token) -> TimeSpan:
        begin, end = self._instant(first), self._instant(last)
        if end < begin:
            raise self._prologue.document.refusal("the time ends before it begins", _position(first))
        return TimeSpan(begin, end, _position(first))

    def any_time(self) -> None:
        return None

    def shared(self, name: Token) -> NamedTime:
        return NamedTime(str(name), _position(name))

    def measured(self, digits: Token, unit: Token) -> Length:
        document, position = self._prologue.document, _position(digits)
        micros = read_duration(document, str(digits), position, str(unit), _position(unit))
        return Length(micros, position)

    def lexical(self, string: Token, _datatype: Token | None) -> Length:
        return Length(read_xsd_duration(self._prologue.document, str(string), _position(string)), _position(string))

    def _instant(self, written: Token) -> int:
        return read_instant(self._prologue.document, f"'{written}'", _position(written))


def _position(token: Token) -> int:
    return token.start_pos or 0


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """``t1..t2``: the event lies inside; an instant is a span of length 0."""

    first: int
    last: int
    position: int


@dataclass(frozen=True, slots=True)
class NamedTime:
    """A named time: leaves with the same name share an instant."""

    name: str
    position: int


@dataclass(frozen=True, slots=True)
class Length:
    """A duration, in microseconds."""

    micros: int
    position: int


Time = TimeSpan | NamedTime | Length


@dataclass(frozen=True, slots=True)
class Primitive:
    written: str
    position: int
    time: Time | None


@dataclass(frozen=True, slots=True)
class Composite:
    operator: str
    position: int
    parts: tuple[CompositePart, ...]
    time: Time | None


CompositePart = Primitive | Composite


def compile_composite(prologue: Prologue, name: str, position: int, composite: Composite) -> syntax.Subscription:
    """The subscription of one composite event."""
    compiler = _Compiler(prologue)
    pattern = compiler.compile(composite, TimeSpan(START_OF_TIME, END_OF_TIME, position)).pattern
    events = compiler.leaves.events
    delivered = _delivered_names(pattern) if any(event.times for event in events) else ()
    delivery = syntax.Select(delivered, position) if delivered else syntax.Select()
    return syntax.Subscription(
        name, events, pattern, unbounded=is_unbounded(pattern), delivery=delivery, position=position
    )


def _delivered_names(pattern: syntax.Pattern) -> tuple[str, ...]:
    """The events that an occurrence can have, which are all but those of negations."""
    match pattern:
        case syntax.Leaf():
            return (pattern.name,)
        case syntax.No():
            return ()
        case syntax.Unless():
            return _delivered_names(pattern.operand)
        case _:
            return tuple(name for operand in children(pattern) for name in _delivered_names(operand))


@dataclass(frozen=True, slots=True)
class _NamedLeaf:
    """A leaf with a named time; ``certain`` unless an or or xor may leave it out."""

    moment: str
    leaf: syntax.Leaf
    certain: bool


@dataclass(frozen=True, slots=True)
class _Compiled:
    pattern: syntax.Pattern
    named: tuple[_NamedLeaf, ...] = ()


class _Compiler:
    """Compiles one composite; ``span`` is the limit that encloses an element."""

    def __init__(self, prologue: Prologue) -> None:
        self.leaves = ClassLeaves(prologue)
        self._document = prologue.document

    def compile(self, element: CompositePart, span: TimeSpan) -> _Compiled:
        if isinstance(element.time, TimeSpan):
            span = TimeSpan(
                max(span.first, element.time.first), min(span.last, element.time.last), element.time.position
            )
        if isinstance(element, Primitive):
            return self._primitive(element, span)
        if isinstance(element.time, NamedTime):
            raise self._refusal("a name limits leaves, not composites", element.time.position, "move it to the events")
        match element.operator.lower():
            case "not":
                return self._absence(element, span)
            case "xor":
                return self._exclusive(element, span)
            case _:
                return self._combined(element, span)

    def _primitive(self, element: Primitive, span: TimeSpan) -> _Compiled:
        leaf = self.leaves.declare(element.written, element.position)
        pattern: syntax.Pattern = leaf
        if (span.first, span.last) != (START_OF_TIME, END_OF_TIME):
            pattern = syntax.Filter(
                pattern, _inside(*self.leaves.bind_times(leaf), span, element.position), element.position
            )
        if isinstance(element.time, Length):
            pattern = syntax.Within(pattern, element.time.micros, element.time.position)
        if isinstance(element.time, NamedTime):
            return _Compiled(pattern, (_NamedLeaf(element.time.name, leaf, certain=True),))
        return _Compiled(pattern)

    def _absence(self, element: Composite, span: TimeSpan) -> _Compiled:
        self._expect(element, 1)
        (absent,) = element.parts
        length = element.time or absent.time
        if not isinstance(length, Length):
            raise self._refusal("'not' needs a duration", element.position, "write [not(E)]/5 min")
        if (span.first, span.last) != (START_OF_TIME, END_OF_TIME):
            raise self._refusal("an absence has no event that a time could limit", span.position, "limit other parts")
        timed = absent if element.time else _without_time(absent)
        return _Compiled(syntax.No(self.compile(timed, span).pattern, length.micros, element.position))

    def _exclusive(self, element: Composite, span: TimeSpan) -> _Compiled:
        self._expect(element, 2)
        if not isinstance(element.time, Length):
            raise self._refusal("'xor' needs a duration", element.position, "write [xor(E1, E2)]/5 min")
        left, right = (self.compile(inner, span) for inner in element.parts)
        pattern = syntax.Xor(left.pattern, right.pattern, element.time.micros, element.position)
        return _Compiled(pattern, _uncertain(left.named + right.named))

    def _combined(self, element: Composite, span: TimeSpan) -> _Compiled:
        operator = re.sub(r"[ _-]|(?<=\w)(?=by$)", " ", element.operator.lower()).replace("  ", " ").upper()
        if operator not in ("AND", "OR") or len(element.parts) < 2:
            self._expect(element, 2)
        operands = [self.compile(inner, span) for inner in element.parts]
        negated = negated_operand([operand.pattern for operand in operands]) if operator == "AND" else None
        result, *others = (operand for operand in operands if operand.pattern is not negated)
        for operand in others:
            result = self._combine(operator, result, operand, element.position)
        if negated is not None:  # “a conjunction with exactly one negated operand […] is a difference”
            difference = syntax.Unless(result.pattern, negated.operand, negated.duration, negated.position)
            result = _Compiled(difference, result.named)
        if isinstance(element.time, Length):
            return _Compiled(syntax.Within(result.pattern, element.time.micros, element.time.position), result.named)
        return result

    def _combine(self, operator: str, left: _Compiled, right: _Compiled, position: int) -> _Compiled:
        named = left.named + right.named
        if operator == "OR":
            return _Compiled(syntax.Or(left.pattern, right.pattern, position), _uncertain(named))
        pattern: syntax.Pattern
        if operator == "AND":
            pattern = syntax.And(left.pattern, right.pattern, position)
        else:
            pattern = syntax.Timed(Relation(operator), left.pattern, right.pattern, position)
        meetings = [self._meeting(x, y) for x, y in product(left.named, right.named) if x.moment == y.moment]
        if meetings:  # on a line, intervals that meet two by two have one instant in common
            variables = frozenset(name for _, names in meetings for name in names)
            condition = syntax.Expression(" && ".join(text for text, _ in meetings), variables, position)
            pattern = syntax.Filter(pattern, condition, position)
        return _Compiled(pattern, named)

    def _meeting(self, x: _NamedLeaf, y: _NamedLeaf) -> tuple[str, tuple[str, ...]]:
        """The condition that two leaves share an instant, if both are there, and its variables."""
        (x_start, x_end), (y_start, y_end) = self.leaves.bind_times(x.leaf), self.leaves.bind_times(y.leaf)
        meeting = f"?{x_start} <= ?{y_end} && ?{y_start} <= ?{x_end}"
        absent = [f"! BOUND( ?{start} )" for leaf, start in ((x, x_start), (y, y_start)) if not leaf.certain]
        text = f"( {' || '.join([*absent, meeting])} )" if absent else meeting
        return text, (x_start, x_end, y_start, y_end)

    def _expect(self, element: Composite, count: int) -> None:
        if len(element.parts) != count:
            message = f"'{element.operator}' takes {count} event{'s' if count > 1 else ''}, not {len(element.parts)}"
            raise self._refusal(message, element.position, "nest composites: [and(E1, [and(E2, E3)])]")

    def _refusal(self, message: str, position: int, advice: str) -> SubscriptionError:
        return self._document.refusal(message, position, advice)


def _inside(start: str, end: str, span: TimeSpan, position: int) -> syntax.Expression:
    first, last = (literal(format_datetime(t), datatype=XSD + "dateTime") for t in (span.first, span.last))
    return syntax.Expression(f"?{start} >= {first} && ?{end} <= {last}", frozenset({start, end}), position)


def _uncertain(named: tuple[_NamedLeaf, ...]) -> tuple[_NamedLeaf, ...]:
    return tuple(replace(leaf, certain=False) for leaf in named)


def _without_time(element: CompositePart) -> CompositePart:
    return replace(element, time=None)


def to_cecube(subscriptions: Iterable[syntax.Subscription], prefixes: Mapping[str, str]) -> str:
    """The text of subscriptions; a UsageError names what CECube cannot express.

    >>> events = (syntax.Event("A", "urn:A"), syntax.Event("B", "urn:B"))
    >>> pair = syntax.Within(syntax.And(syntax.Leaf("A"), syntax.Leaf("B")), 5_000_000)
    >>> print(to_cecube([syntax.Subscription("s", events, pair)], {}), end="")
    SUBSCRIPTION s
      [and(<urn:A>, <urn:B>)]/5 s
    """
    writer = SurfaceWriter("cecube", syntax.Context.RECENT, prefixes)
    return writer.document(
        subscriptions, _Writer(writer).composite, lambda text: parse_cecube(Document(text, None), "query")
    )


_TIME = r'"([^"]*)"\^\^<http://www\.w3\.org/2001/XMLSchema#dateTime>'
_SPAN = re.compile(rf"\?\w+_start >= {_TIME} && \?\w+_end <= {_TIME}")
_MEETING = re.compile(r"\?(\w+)_start <= \?(\w+)_end && \?\2_start <= \?\1_end")


class _Writer:
    """Writes patterns. The times of events are FILTERs in the tree: of a leaf for a span, of a pair for a name."""

    def __init__(self, shared: SurfaceWriter) -> None:
        self._shared = shared
        self._moments: dict[str, str] = {}  # the named time of a leaf

    def composite(self, node: syntax.Pattern) -> str:
        """A whole pattern, which needs an operator."""
        inner = node
        while isinstance(inner, syntax.Within | syntax.Filter):
            inner = inner.operand
        if isinstance(inner, syntax.Leaf):
            raise self._shared.refusal("cecube has no pattern of a single event", "Use motet or jtang.")
        self._moments = _moments(node)
        return self._element(node)

    def _element(self, node: syntax.Pattern) -> str:
        match node:
            case syntax.Leaf() | syntax.Filter() | syntax.Within():
                written = self._limited(node)
            case syntax.And():
                operands = chain(node)
                self._shared.refuse_negation(operands, node)
                written = self._function("and", *operands)
            case syntax.Or():
                written = self._function("or", *chain(node))
            case syntax.Timed():
                written = self._function(node.relation.value.lower(), node.left, node.right)
            case syntax.Xor():
                written = f"{self._function('xor', node.left, node.right)}/{format_duration(node.window)}"
            case syntax.No():
                written = f"{self._function('not', node.operand)}/{format_duration(node.duration)}"
            case syntax.Unless(operand=syntax.No()):
                raise self._shared.lacking(node, "UNLESS over NO: two negations stay AND")
            case syntax.Unless():
                written = self._function("and", node.operand, syntax.No(node.absent, node.window))
            case _:
                raise self._shared.lacking(node, operator_text(node))
        return written

    def _limited(self, node: syntax.Leaf | syntax.Filter | syntax.Within) -> str:
        """An event or a composite with its time."""
        match node:
            case syntax.Leaf(name=name):
                moment = self._moments.get(name)
                return self._shared.leaf(node, has_times=moment is not None) + (f"/{moment}" if moment else "")
            case syntax.Filter(operand=syntax.Leaf() as leaf) if leaf.name not in self._moments:
                return f"{self._shared.leaf(leaf, has_times=True)}/{self._span(node)}"
            case syntax.Filter(operand=syntax.And() | syntax.Timed()) if _meetings(node):
                return self._element(node.operand)
            case syntax.Filter():
                raise self._shared.lacking(node, operator_text(node))
        operand = node.operand
        if isinstance(operand, syntax.Within | syntax.Xor | syntax.No):
            raise self._shared.lacking(node, f"WITHIN over {operator_text(operand)}")
        is_timed_leaf = isinstance(operand, syntax.Leaf) and operand.name in self._moments
        if is_timed_leaf or (isinstance(operand, syntax.Filter) and isinstance(operand.operand, syntax.Leaf)):
            raise self._shared.lacking(node, "two times of one event")
        return f"{self._element(operand)}/{format_duration(node.bound)}"

    def _span(self, node: syntax.Filter) -> str:
        match = _SPAN.fullmatch(node.condition.text)
        if match is None:
            raise self._shared.lacking(node, "FILTER other than the limits of a time")
        return match[1] if match[1] == match[2] else f"{match[1]}..{match[2]}"

    def _function(self, name: str, *operands: syntax.Pattern) -> str:
        return f"[{name}({', '.join(map(self._element, operands))})]"


def _meetings(node: syntax.Filter) -> list[tuple[str, str]]:
    """The pairs of leaves that must share an instant."""
    return _MEETING.findall(node.condition.text)


def _moments(pattern: syntax.Pattern) -> dict[str, str]:
    """A name for each set of leaves that must share an instant, by leaf."""
    sets: list[set[str]] = []
    for node, _ in nodes(pattern):
        for pair in _meetings(node) if isinstance(node, syntax.Filter) else ():
            touched = [each for each in sets if each & set(pair)]
            sets = [each for each in sets if each not in touched]
            sets.append(set(pair).union(*touched))
    return {name: f"T{number}" for number, names in enumerate(sets, 1) for name in names}
