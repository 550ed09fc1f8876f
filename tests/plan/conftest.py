"""A short way to write subscriptions: the body of an event is a list of ``property?variable``."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from motet.language.parse import parse
from motet.language.syntax import Subscription

Write = Callable[..., Subscription]


def subscription(
    events: str, when: str, context: str = "chronicle UNBOUNDED", deliver: str = "SIGNAL", name: str = "s"
) -> Subscription:
    """``subscription("a:A room?r; b:B room?r", "a BEFORE b")``; an optional property is written ``room~r``."""
    declared = " ".join(_event(event.strip()) for event in events.split(";"))
    text = f"PREFIX : <urn:> SUBSCRIPTION {name} {declared} WHEN {when} CONTEXT {context} {deliver}"
    return parse(text)[0]


def _event(text: str) -> str:
    head, *properties = text.split()
    name, _, class_ = head.partition(":")
    body = ""
    for item in properties:
        key, sign, variable = re.fullmatch(r"(\w+)([?~])(\w+)", item).groups()  # type: ignore[union-attr]
        triple = f"?{name} :{key} ?{variable}"
        body += f"{triple} . " if sign == "?" else f"OPTIONAL {{ {triple} }} "
    return f"EVENT {name} {f': :{class_}' if class_ else ''} {{ {body} }}"


@pytest.fixture
def write() -> Write:
    return subscription
