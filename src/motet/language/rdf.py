"""Subscriptions as RDF, so that they can be stored, queried and exchanged like any other data.

The vocabulary is ``urn:motet:ns#`` (prefix ``m:``); docs/vocabulary.md explains it. In short::

    <urn:motet:subscription:real-fire> a m:Subscription ; m:name "real-fire" ; m:context "chronicle" ;
        m:events ( [ a m:Event ; m:name "smoke" ; m:class ex:SmokeAlarm ; m:body "…" ] … ) ;
        m:pattern [ a m:Unless ; m:operand […] ; m:absent […] ; m:window "PT600S"^^xsd:dayTimeDuration ] ;
        m:delivery [ a m:Select ; m:variables ( "room" "level" ) ] .

Each kind of pattern node is a class of the name it has in the syntax tree, its fields are properties. Nodes have IRIs
below the subscription's own, never blank nodes, so that equal subscriptions have equal triples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import TypeVar

from motet.language import syntax
from motet.language.motet_lexer import is_event_name, is_subscription_name
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.errors import UsageError
from motet.model.intervals import Relation
from motet.model.terms import RDF, RDF_TYPE, XSD, iri, iri_value, is_iri, literal, literal_parts
from motet.model.times import format_datetime, parse_datetime, parse_duration
from motet.sparql.tokens import MAX_DEPTH

__all__ = ["from_rdf", "to_rdf"]


NAMESPACE = "urn:motet:ns#"
SUBSCRIPTIONS = "urn:motet:subscription:"
FIRST, REST, NIL = iri(RDF + "first"), iri(RDF + "rest"), iri(RDF + "nil")

Triple = tuple[str, str, str]
_XML_LITERAL = RDF + "XMLLiteral"


def to_rdf(subscription: syntax.Subscription) -> list[Triple]:
    """The triples of a subscription, as N-Triples terms.

    >>> from motet.language.syntax import Leaf
    >>> to_rdf(syntax.Subscription("any", (syntax.Event("e"),), Leaf("e")))[0]
    ('<urn:motet:subscription:any>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<urn:motet:ns#Subscription>')
    """
    return _Writer(SUBSCRIPTIONS + subscription.name).subscription(subscription)


def term(name: str) -> str:
    """A name of the vocabulary as an N-Triples term."""
    return iri(NAMESPACE + name)


class _Writer:
    def __init__(self, base: str) -> None:
        self._base = base
        self._triples: list[Triple] = []

    def subscription(self, subscription: syntax.Subscription) -> list[Triple]:
        subject = iri(self._base)
        self._add(subject, "Subscription", name=literal(subscription.name))
        self._add(
            subject, None, context=literal(subscription.context.value), unbounded=_boolean(subscription.unbounded)
        )
        if subscription.since is not None:
            self._add(subject, None, since=literal(format_datetime(subscription.since), datatype=XSD + "dateTime"))
        events = [self._event(event) for event in subscription.events]
        self._add(subject, None, events=self._list("events", events))
        self._add(subject, None, pattern=self._pattern(subscription.pattern, "pattern"))
        self._add(subject, None, delivery=self._delivery(subscription.delivery))
        return self._triples

    def _event(self, event: syntax.Event) -> str:
        subject = self._node(f"event-{event.name}")
        self._add(subject, "Event", name=literal(event.name))
        if event.class_iri is not None:
            self._add(subject, None, **{"class": iri(event.class_iri)})
        if event.body is not None:
            self._add(subject, None, body=literal(event.body.text))
        if event.xml is not None:
            self._add(subject, None, block=literal(event.xml.text))
        if event.times is not None:
            self._add(subject, None, startVariable=literal(event.times[0]), endVariable=literal(event.times[1]))
        return subject

    def _pattern(self, node: syntax.Pattern, place: str) -> str:
        subject = self._node(place)
        self._add(subject, type(node).__name__)
        for field in fields(node):
            value = getattr(node, field.name)
            if field.compare and value is not None:
                self._add(subject, None, **{field.name: self._value(field.name, value, place)})
        return subject

    def _value(self, name: str, value: object, place: str) -> str:
        match value:
            case str():
                return literal(value)
            case Relation():
                return literal(value.value)
            case syntax.Expression():
                return literal(value.text)
            case int():
                return literal(str(value), datatype=XSD + "integer") if name == "count" else _duration(value)
            case _:
                return self._pattern(value, f"{place}-{name}")  # type: ignore[arg-type]  # only patterns are left

    def _delivery(self, delivery: syntax.Delivery) -> str:
        subject = self._node("delivery")
        self._add(subject, type(delivery).__name__)
        if isinstance(delivery, syntax.Select) and delivery.variables is not None:
            self._add(subject, None, variables=self._list("variables", [literal(name) for name in delivery.variables]))
        if isinstance(delivery, syntax.Construct):
            templates = [_template(template) for template in delivery.templates]
            self._add(subject, None, templates=self._list("templates", templates))
        return subject

    def _list(self, place: str, items: Sequence[str]) -> str:
        cells = [self._node(f"{place}-{index}") for index in range(len(items))]
        for cell, item, following in zip(cells, items, [*cells[1:], NIL], strict=True):
            self._triples += [(cell, FIRST, item), (cell, REST, following)]
        return cells[0] if cells else NIL

    def _node(self, place: str) -> str:
        return iri(f"{self._base}#{place}")

    def _add(self, subject: str, kind: str | None, **properties: str) -> None:
        if kind is not None:
            self._triples.append((subject, RDF_TYPE, term(kind)))
        self._triples += [(subject, term(name), value) for name, value in properties.items()]


def _template(template: syntax.Template | syntax.XmlTemplate) -> str:
    """The text of a template; that of an XML document has the datatype rdf:XMLLiteral."""
    return literal(template.text, datatype=_XML_LITERAL if isinstance(template, syntax.XmlTemplate) else None)


def _boolean(value: bool) -> str:
    return literal("true" if value else "false", datatype=XSD + "boolean")


def _duration(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return literal(f"PT{seconds}{fraction}S", datatype=XSD + "dayTimeDuration")


_PATTERNS: dict[str, type] = {kind.__name__: kind for kind in syntax.Pattern.__args__}
_OPERANDS = frozenset({"left", "right", "operand", "absent"})
_NOTHING: frozenset[str] = frozenset()
_T = TypeVar("_T")


def from_rdf(triples: Iterable[Triple]) -> syntax.Subscription:
    """The checked subscription that triples describe; there must be exactly one.

    >>> from motet.language.rdf import to_rdf
    >>> (any_event,) = parse("SUBSCRIPTION any EVENT e WHEN e")
    >>> from_rdf(to_rdf(any_event)) == any_event
    True
    """
    tree = _Reader(triples).subscription()
    parsed = parse(to_text(tree), source=f"the RDF of {tree.name}")
    if len(parsed) != 1:
        raise UsageError(f"the RDF of {tree.name} describes {len(parsed)} subscriptions", advice="describe one")
    return parsed[0]


class _Reader:
    def __init__(self, triples: Iterable[Triple]) -> None:
        self._objects: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for subject, predicate, value in dict.fromkeys(triples):
            self._objects[subject][predicate].append(value)
        self._seen: set[str] = set()

    def subscription(self) -> syntax.Subscription:
        kind = term("Subscription")
        subjects = [subject for subject, properties in self._objects.items() if kind in properties.get(RDF_TYPE, ())]
        if len(subjects) != 1:
            raise UsageError(f"there are {len(subjects)} subscriptions in these triples", advice="give exactly one")
        (subject,) = subjects
        name = self._text(subject, "name")
        if not is_subscription_name(name):
            raise UsageError(f"{name!r} cannot name a subscription", advice="use letters, digits, '_' and '-'")
        since = self._optional(subject, "since")
        return syntax.Subscription(
            name,
            tuple(self._event(node) for node in self._list(self._one(subject, "events"))),
            self._pattern(self._one(subject, "pattern"), 1),
            self._context(subject),
            self._text(subject, "unbounded", "false") in ("true", "1"),
            self._delivery(self._one(subject, "delivery")),
            None if since is None else self._read(subject, "since", since, parse_datetime),
        )

    def _context(self, subject: str) -> syntax.Context:
        try:
            return syntax.Context(self._text(subject, "context", syntax.Context.RECENT.value))
        except ValueError as error:
            raise UsageError(f"{subject}: {error}") from None

    def _event(self, subject: str) -> syntax.Event:
        name = self._text(subject, "name")
        class_term, body = self._optional(subject, "class"), self._optional(subject, "body")
        if not is_event_name(name) or (class_term is not None and not is_iri(class_term)):
            raise UsageError(f"{subject} is not an event with a name and the IRI of a class", advice="see rdf.py")
        block = self._optional(subject, "block")
        if body is not None and block is not None:
            raise UsageError(f"{subject} has a body and a block", advice="an event has one of them")
        times = None
        if self._optional(subject, "startVariable") is not None:
            times = self._text(subject, "startVariable"), self._text(subject, "endVariable")
        return syntax.Event(
            name,
            None if class_term is None else iri_value(class_term),
            None if body is None else syntax.GroupPattern(_text(body), _NOTHING),
            times=times,
            xml=None if block is None else syntax.XmlBlock(_text(block), _NOTHING),
        )

    def _pattern(self, subject: str, depth: int) -> syntax.Pattern:
        if depth > MAX_DEPTH or subject in self._seen:
            raise UsageError(f"{subject} is used twice, or too deep in a pattern", advice="a pattern is a tree")
        self._seen.add(subject)
        kind = self._kind(subject)
        if kind not in _PATTERNS:
            raise UsageError(f"{subject} is a {kind}, not a pattern", advice=f"use one of {', '.join(_PATTERNS)}")
        values = {}
        for field in fields(_PATTERNS[kind]):
            if field.compare and not (field.name == "gap" and self._optional(subject, "gap") is None):
                values[field.name] = self._value(subject, field.name, depth)
        pattern: syntax.Pattern = _PATTERNS[kind](**values)
        return pattern

    def _value(self, subject: str, name: str, depth: int) -> object:
        value = self._one(subject, name)
        match name:
            case "name":
                return self._text(subject, name)
            case "relation":
                return self._read(subject, name, value, Relation)
            case "condition":
                return syntax.Expression(_text(value), _NOTHING)
            case "count":
                return self._read(subject, name, value, _count)
            case _ if name in _OPERANDS:
                return self._pattern(value, depth + 1)
            case _:
                return self._read(subject, name, value, parse_duration)

    def _delivery(self, subject: str) -> syntax.Delivery:
        match self._kind(subject):
            case "Select":
                variables = self._optional(subject, "variables")
                return syntax.Select(
                    None if variables is None else tuple(_text(item) for item in self._list(variables))
                )
            case "Construct":
                templates = self._list(self._one(subject, "templates"))
                return syntax.Construct(tuple(map(_read_template, templates)))
            case "Signal":
                return syntax.Signal()
            case "Events":
                return syntax.Events()
            case kind:
                raise UsageError(f"{subject} is a {kind}", advice="deliver Select, Construct, Signal or Events")

    def _list(self, cell: str) -> list[str]:
        items: list[str] = []
        visited: set[str] = set()
        while cell != NIL:
            if cell in visited:
                raise UsageError(f"the list at {cell} has no end")
            visited.add(cell)
            items.append(self._single(cell, FIRST))
            cell = self._single(cell, REST)
        return items

    def _kind(self, subject: str) -> str:
        return iri_value(self._single(subject, RDF_TYPE)).removeprefix(NAMESPACE)

    def _text(self, subject: str, name: str, default: str | None = None) -> str:
        value = self._optional(subject, name)
        if value is None and default is not None:
            return default
        return _text(self._one(subject, name))

    def _one(self, subject: str, name: str) -> str:
        return self._single(subject, term(name))

    def _optional(self, subject: str, name: str) -> str | None:
        return self._one(subject, name) if self._objects[subject].get(term(name)) else None

    def _single(self, subject: str, predicate: str) -> str:
        values = self._objects[subject].get(predicate, [])
        if len(values) != 1:
            raise UsageError(f"{subject} has {len(values)} values for {predicate}, not one")
        return values[0]

    def _read(self, subject: str, name: str, value: str, read: Callable[[str], _T]) -> _T:
        try:
            return read(_text(value))
        except ValueError as error:
            raise UsageError(f"{subject}, {name}: {error}") from None


def _read_template(item: str) -> syntax.Template | syntax.XmlTemplate:
    kind = syntax.XmlTemplate if item.endswith(f"^^<{_XML_LITERAL}>") else syntax.Template
    return kind(_text(item), _NOTHING)


def _text(value: str) -> str:
    try:
        return literal_parts(value)[0]
    except ValueError as error:
        raise UsageError(str(error)) from None


def _count(lexical: str) -> int:
    if not (lexical.isascii() and lexical.isdigit() and len(lexical) < 20):
        raise ValueError(f"{lexical!r} is not a count")
    return int(lexical)
