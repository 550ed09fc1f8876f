"""Parses the text of any surface to checked subscriptions, and texts that a log stores."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from motet.language.check import check, check_names
from motet.language.motet_lexer import is_subscription_name
from motet.language.syntax import Subscription, with_mappings
from motet.model.errors import SubscriptionError, UsageError, check_type
from motet.sparql.tokens import Document

if TYPE_CHECKING:
    from motet.model.control import SubscriptionRange

SYNTAXES = ("motet", "sparql", "jtang", "cecube", "exmlql", "xml-ql")


def parse(
    text: str, *, syntax: str = "motet", source: str | None = None, name: str = "query"
) -> tuple[Subscription, ...]:
    """The subscriptions of a document; a SubscriptionError says where and why there are none.

    ``name`` is for a surface whose text names no subscription: sparql, and the others but motet without a header.

    >>> [subscription.name for subscription in parse("SUBSCRIPTION any EVENT e WHEN e")]
    ['any']
    """
    check_type("the text", text, str)
    if not is_subscription_name(name):
        raise UsageError(f"'{name}' cannot name a subscription", advice="use letters, digits, '_' and '-', no keyword")
    text = text.removeprefix("\ufeff")  # a byte order mark
    document = Document(text, source)
    subscriptions = _surface(document, syntax, name)
    check_names(subscriptions, text, source)
    for subscription in subscriptions:
        check(subscription, text, source)
    return subscriptions


def parse_stored(text: str, origin: str, mappings: Sequence[str] = ()) -> tuple[Subscription, ...]:
    """Parse the text of a subscription from a log or a state snapshot; ``origin`` is for the error message.

    ``mappings`` are those of XML documents that were in force when it was registered.
    """
    try:
        subscriptions = _parse_cached(text)
    except SubscriptionError:
        return parse(text, source=origin)
    return tuple(with_mappings(each, tuple(mappings)) for each in subscriptions) if mappings else subscriptions


def parse_registered(registration: SubscriptionRange) -> tuple[Subscription, ...]:
    """The subscriptions of a registration in a log."""
    record = registration.subscribe
    return parse_stored(record.text, f"subscription {record.name!r} in the log", registration.mappings)


@lru_cache(maxsize=10_000)
def _parse_cached(text: str) -> tuple[Subscription, ...]:
    """Parsing takes milliseconds, and each backfill reads the same records again."""
    return parse(text)


def _surface(document: Document, syntax: str, name: str) -> tuple[Subscription, ...]:
    # Only the requested surface imports Lark.
    match syntax:
        case "motet":
            from motet.language.motet_surface import parse_motet

            return parse_motet(document)
        case "sparql":
            from motet.language.sparql_surface import parse_sparql

            return parse_sparql(document, name)
        case "jtang":
            from motet.language.jtang_surface import parse_jtang

            return parse_jtang(document, name)
        case "cecube":
            from motet.language.cecube_surface import parse_cecube

            return parse_cecube(document, name)
        case "exmlql" | "xml-ql":
            from motet.language.exmlql_surface import parse_exmlql

            return parse_exmlql(document, name, is_xml_ql=syntax == "xml-ql")
    raise UsageError(f"'{syntax}' is not a syntax", advice=f"use one of {', '.join(SYNTAXES)}")
