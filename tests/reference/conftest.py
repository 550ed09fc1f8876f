"""A short way to write events, subscriptions and logs for the reference engine's examples.

Events are written ``a1@3`` (a point), ``b1@5-9`` (an interval), ``ab1@3`` (of both classes), ``a1@3 k=1 room=hall``
(with properties), several separated by semicolons. The letters of an id are its classes: the leaf ``a`` matches ``a1``
and ``ab1``. Keywords are in capitals, event names are not. Times are microseconds. Notifications are shown as their
event ids and bindings, those of NO as their interval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE, XSD, iri, is_iri, literal, literal_parts
from motet.model.times import END_OF_TIME, format_datetime
from motet.reference import (
    EventRecord,
    Record,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    evaluate,
    evaluate_emissions,
)

EX = "http://example.org/"
EVENT = re.compile(r"([a-z]+)(\d*)@(\d+)(?:-(\d+))?((?: \w+=\S+)*)")


class Story:
    """What the examples are written with."""

    ex = EX

    def event(self, text: str, offset: int = 0) -> EventRecord:
        match = EVENT.fullmatch(text.strip())
        assert match is not None, text
        letters, number, start, end, properties = match.groups()
        name = f"urn:{letters}{number}"
        triples = {(iri(name), RDF_TYPE, iri(EX + letter.upper())) for letter in letters}
        for item in properties.split():
            key, _, value = item.partition("=")
            triples |= {(iri(name), iri(EX + key), self.term(part)) for part in value.split("|")}
        return EventRecord(offset, name, int(start), int(end or start), frozenset(triples))

    def term(self, text: str) -> str:
        return literal(text, datatype=XSD + "integer") if text.isdigit() else iri(EX + text)

    def subscription(
        self,
        when: str,
        *,
        context: str = "unrestricted UNBOUNDED",
        deliver: str = "SIGNAL",
        since: int | None = None,
        name: str = "s",
        **bodies: str,
    ) -> Subscription:
        """``bodies`` are the EVENT bodies by event name; the class of the event ``a`` is ``ex:A``."""
        used = re.sub(r"\?\w+|FILTER\(.*?\)", "", when)
        names = dict.fromkeys(word for word in re.findall(r"\b[a-z]\w*", used) if word != "us")
        events = " ".join(f"EVENT {n} : ex:{n[0].upper()} {{ {bodies.get(n, '')} }}" for n in names)
        start = f'SINCE "{format_datetime(since)}"' if since is not None else ""
        text = f"PREFIX ex: <{EX}> SUBSCRIPTION {name} {start} {events} WHEN {when} CONTEXT {context} {deliver}"
        (subscription,) = parse(text)
        return subscription

    def log(self, *steps: str | int | Subscription | Record) -> list[Record]:
        """Records from offset 1: an event's text, a tick's instant, a subscription, ``-name`` to unsubscribe."""
        records: list[Record] = []
        for offset, step in enumerate(steps, 1):
            match step:
                case str() if step.startswith("-"):
                    records.append(UnsubscribeRecord(offset, step[1:]))
                case str():
                    records.append(self.event(step, offset))
                case int():
                    records.append(TickRecord(offset, step))
                case Subscription():
                    records.append(SubscribeRecord(offset, step))
                case _:
                    records.append(type(step)(**{**vars(step), "offset": offset}))
        return records

    def run(self, subscriptions: Iterable[Subscription], events: str, **options: Any) -> list[Notification]:
        """As ``motet run``: subscriptions, events in the given order, a tick at the end of time."""
        given = [event for event in events.split(";") if event.strip()]
        return evaluate(self.log(*subscriptions, *given, END_OF_TIME), lateness=None, **options)

    def detect(self, when: str, events: str, **options: Any) -> list[str]:
        """The notifications of one subscription, shown and sorted."""
        return sorted(self.show(found) for found in self.run([self.subscription(when, **options)], events))

    def emitted(self, *steps: str | int | Subscription | Record, lateness: int | None = 0) -> list[tuple[int, str]]:
        """Offsets and notifications of a log."""
        found = evaluate_emissions(self.log(*steps), lateness=lateness)
        return sorted((offset, self.show(notification)) for offset, notification in found)

    def show(self, notification: Notification) -> str:
        events = " ".join(event.removeprefix("urn:") for event in notification.events)
        return " ".join(
            [
                events or f"[{notification.start_micros},{notification.end_micros}]",
                *self.shown(dict(notification.bindings)),
            ]
        )

    def shown(self, bindings: Mapping[str, str]) -> list[str]:
        return [f"{name}={self.short(term)}" for name, term in sorted(bindings.items())]

    def short(self, term: str) -> str:
        return term[1:-1].removeprefix(EX).removeprefix("urn:") if is_iri(term) else literal_parts(term)[0]


@pytest.fixture(scope="session")
def story() -> Story:
    return Story()
