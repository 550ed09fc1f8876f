"""Arguments of wrong types: an error of Motet with advice, never one of Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.model.errors import MotetError

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:c> ?c } WHEN e SELECT ?c"
QUAD = "<urn:s> <urn:p> <urn:o> <urn:g> ."
ASK = "ASK { ?s ?p ?o }"
CLOUDEVENT = {"ce-source": "urn:s", "ce-type": "t", "ce-specversion": "1.0"}
WRONG: list[Any] = [5, None, 1.5, b"x", [], {}, object(), True, datetime(2026, 1, 1), "x y"]
E = motet.event("e")

CALLS: dict[str, Callable[[motet.Cloud, Any], object]] = {
    "publish": lambda cloud, value: cloud.publish(value),
    "publish content_type": lambda cloud, value: cloud.publish(QUAD, content_type=value),
    "publish id": lambda cloud, value: cloud.publish(QUAD, id=value),
    "publish base": lambda cloud, value: cloud.publish("<urn:s> a <urn:o> .", base=value),
    "publish rest": lambda cloud, value: cloud.publish("<urn:s> a <urn:o> .", rest=value),
    "publish headers": lambda cloud, value: cloud.publish(QUAD, headers=value),
    "publish header": lambda cloud, value: cloud.publish(QUAD, headers={"ce-id": value, **CLOUDEVENT}),
    "publish_rows": lambda cloud, value: cloud.publish_rows(value, {"properties": {"c": "urn:c"}}),
    "publish_rows mapping": lambda cloud, value: cloud.publish_rows([{"c": 1}], value),
    "subscribe": lambda cloud, value: cloud.subscribe(value, print),
    "subscribe listener": lambda cloud, value: cloud.subscribe(HOT, value),
    "subscribe consumer": lambda cloud, value: cloud.subscribe(HOT, print, consumer=value),
    "subscribe syntax": lambda cloud, value: cloud.subscribe(HOT, print, syntax=value),
    "on": lambda cloud, value: cloud.on(value)(print),
    "unsubscribe": lambda cloud, value: cloud.unsubscribe(value),
    "disconnect": lambda cloud, value: cloud.disconnect(value),
    "disconnect consumer": lambda cloud, value: cloud.disconnect("hot", consumer=value),
    "notifications": lambda cloud, value: list(cloud.notifications(value)),
    "notifications since": lambda cloud, value: list(cloud.notifications(since=value)),
    "retract": lambda cloud, value: cloud.retract(value),
    "tick": lambda cloud, value: cloud.tick(value),
    "background add": lambda cloud, value: cloud.background.add(value),
    "background content_type": lambda cloud, value: cloud.background.add("<urn:a> a <urn:b> .", content_type=value),
    "background remove": lambda cloud, value: cloud.background.remove(value),
    "background triple": lambda cloud, value: cloud.background.add([value]),
    "query": lambda cloud, value: cloud.query(value),
    "query bindings": lambda cloud, value: cloud.query(ASK, bindings=value),
    "query as_of": lambda cloud, value: cloud.query(ASK, as_of=value),
    "query span": lambda cloud, value: cloud.query(ASK, span=value),
    "query entailment": lambda cloud, value: cloud.query(ASK, entailment=value),
    "query timeout": lambda cloud, value: cloud.query(ASK, timeout=value),
    "query max_rows": lambda cloud, value: cloud.query(ASK, max_rows=value),
    "event": lambda _, value: motet.event(value),
    "event class": lambda _, value: motet.event("e", value),
    "event body": lambda _, value: motet.event("e", None, value),
    "pattern": lambda _, value: E.before(value),
    "within": lambda _, value: E.within(value),
    "no": lambda _, value: motet.no(value, "5 s"),
    "no duration": lambda _, value: motet.no(E, value),
    "subscription name": lambda _, value: motet.subscription(value, E),
    "subscription pattern": lambda _, value: motet.subscription("s", value),
    "subscription select": lambda _, value: motet.subscription("s", E, select=value),
    "subscription prefixes": lambda _, value: motet.subscription("s", E, prefixes=value),
    "subscription context": lambda _, value: motet.subscription("s", E, context=value),
    "subscription since": lambda _, value: motet.subscription("s", E, since=value),
    "parse": lambda _, value: motet.parse(value),
    "to_text": lambda _, value: motet.to_text(value),
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with motet.open(tmp_path_factory.mktemp("lake"), durable=False) as opened:
        yield opened


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_refused_in_a_sentence(cloud: motet.Cloud, name: str) -> None:
    """Every call with every kind of value: it is done, or refused with advice."""
    refused = 0
    for value in WRONG:
        try:
            CALLS[name](cloud, value)
        except motet.SubscriptionError:  # it shows the position
            refused += 1
        except MotetError as error:
            refused += 1
            assert error.advice, (value, error)
    assert refused


def test_a_flag_is_no_offset(tmp_path: Path) -> None:
    with motet.open(tmp_path) as cloud, pytest.raises(motet.UsageError, match="True is not a time"):
        cloud.notifications(since=True)
