"""Writes the RDF form of a subscription (see rdf.py for the vocabulary)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from motet.language.syntax import Construct, Delivery, Event, Expression, Pattern, Select, Subscription
from motet.model.intervals import Relation
from motet.model.terms import RDF, RDF_TYPE, XSD, iri, literal
from motet.model.times import format_datetime

NAMESPACE = "urn:motet:ns#"
SUBSCRIPTIONS = "urn:motet:subscription:"
FIRST, REST, NIL = iri(RDF + "first"), iri(RDF + "rest"), iri(RDF + "nil")

Triple = tuple[str, str, str]


def to_rdf(subscription: Subscription) -> list[Triple]:
    """The triples of a subscription, as N-Triples terms.

    >>> from motet.language.syntax import Leaf
    >>> to_rdf(Subscription("any", (Event("e"),), Leaf("e")))[0]
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

    def subscription(self, subscription: Subscription) -> list[Triple]:
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

    def _event(self, event: Event) -> str:
        subject = self._node(f"event-{event.name}")
        self._add(subject, "Event", name=literal(event.name))
        if event.class_iri is not None:
            self._add(subject, None, **{"class": iri(event.class_iri)})
        if event.body is not None:
            self._add(subject, None, body=literal(event.body.text))
        if event.times is not None:
            self._add(subject, None, startVariable=literal(event.times[0]), endVariable=literal(event.times[1]))
        return subject

    def _pattern(self, node: Pattern, place: str) -> str:
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
            case Expression():
                return literal(value.text)
            case int():
                return literal(str(value), datatype=XSD + "integer") if name == "count" else _duration(value)
            case _:
                return self._pattern(value, f"{place}-{name}")  # type: ignore[arg-type]  # only patterns are left

    def _delivery(self, delivery: Delivery) -> str:
        subject = self._node("delivery")
        self._add(subject, type(delivery).__name__)
        if isinstance(delivery, Select) and delivery.variables is not None:
            self._add(subject, None, variables=self._list("variables", [literal(name) for name in delivery.variables]))
        if isinstance(delivery, Construct):
            templates = [literal(template.text) for template in delivery.templates]
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


def _boolean(value: bool) -> str:
    return literal("true" if value else "false", datatype=XSD + "boolean")


def _duration(micros: int) -> str:
    seconds, rest = divmod(micros, 1_000_000)
    fraction = f".{rest:06}".rstrip("0") if rest else ""
    return literal(f"PT{seconds}{fraction}S", datatype=XSD + "dayTimeDuration")
