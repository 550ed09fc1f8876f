"""From text to checked subscriptions: the one way in for every surface."""

from __future__ import annotations

from motet.language.check import check, check_names
from motet.language.document import Document
from motet.language.syntax import Subscription
from motet.model.errors import UsageError

SYNTAXES = ("motet", "sparql", "jtang", "cecube")


def parse(text: str, *, syntax: str = "motet", source: str | None = None) -> tuple[Subscription, ...]:
    """The subscriptions of a document; a SubscriptionError says where and why there are none.

    >>> [subscription.name for subscription in parse("SUBSCRIPTION any EVENT e WHEN e")]
    ['any']
    """
    document = Document(text, source)
    subscriptions = _surface(document, syntax)
    check_names(subscriptions, text, source)
    for subscription in subscriptions:
        check(subscription, text, source)
    return subscriptions


def _surface(document: Document, syntax: str) -> tuple[Subscription, ...]:
    if syntax == "motet":
        from motet.language.motet_surface import parse_motet  # noqa: PLC0415  (Lark is needed only to parse)

        return parse_motet(document)
    raise UsageError(f"'{syntax}' is not a syntax", advice=f"use one of {', '.join(SYNTAXES)}")
