"""What is in force at one place in the log: the active subscriptions and the background graph.

Subscriptions are data and travel in the log, so a registry is the result of reading control records in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.tables import Triple


@dataclass(frozen=True)
class Registry:
    """Immutable; equal registries give equal notifications for the same event."""

    subscriptions: tuple[Subscription, ...] = ()
    background: frozenset[Triple] = frozenset()

    def after(self, kind: str, id_: str | None, text: str | None, triples: Iterable[Triple]) -> Registry:
        """The registry after one control record. Records of other kinds change nothing."""
        if kind == "subscribe":
            (subscription,) = parse(text or "", source=f"subscription {id_!r} in the log")
            return replace(self, subscriptions=(*self.without(subscription.name), subscription))
        if kind == "unsubscribe":
            return replace(self, subscriptions=self.without(id_))
        if kind == "background":
            change = frozenset(triples)
            return replace(self, background=self.background - change if text == "remove" else self.background | change)
        return self

    def without(self, name: str | None) -> tuple[Subscription, ...]:
        return tuple(subscription for subscription in self.subscriptions if subscription.name != name)
