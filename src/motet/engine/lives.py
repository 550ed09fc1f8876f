"""The subscriptions in force, as the kernel keeps them; and one of them while it is shown the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.columns import FIRST_OFFSET, START
from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.output import RootOutput
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Events, Subscription
from motet.model.errors import SubscriptionError
from motet.plan.graph import Root, Start


@dataclass
class Life:
    """A subscription in force. ``root`` is None while it is only matched."""

    subscription: Subscription
    offset: int
    start: Start
    is_alone: bool
    frontier: int  # where it stood when the subscription began
    root: Root | None = None
    delivery: RootOutput | None = None
    templates: ConstructTemplates | None = None
    told: Occurrences | None = None  # of the past, to be delivered with the subscribe record
    shown: dict[str, int] = field(default_factory=dict)  # derived events and their ends; see `has_seen`

    @property
    def is_plain(self) -> bool:
        """Notifications have neither graphs nor constructs."""
        return self.templates is None and not isinstance(self.subscription.delivery, Events)

    def has_seen(self, ids: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which derived events are no news: when their subscription comes back with SINCE, it derives them again."""
        return np.array([id_ in self.shown for id_ in ids], np.bool_)

    def forget(self, frontier: int) -> None:
        """Those that would be late if they were derived again."""
        self.shown = {id_: end for id_, end in self.shown.items() if end >= frontier}


@dataclass
class Past:
    """A subscription that is shown the events before it, from an instant on, without those retracted since."""

    life: Life
    since: int
    retracted: dict[str, int]  # by event: the offset of its retraction
    own: set[int] = field(default_factory=set)  # its nodes
    found: list[Occurrences] = field(default_factory=list)

    def visible(self, id_: int, table: Occurrences, names: Dictionary, *, always: bool = False) -> Occurrences:
        """Of a leaf's occurrences those the subscription sees; other leaves see all."""
        if id_ not in self.own and not always:
            return table
        seen = table.columns[START] >= self.since
        if self.retracted:
            ids = names.events.iris(table.events).to_pylist()
            offsets = table.columns[FIRST_OFFSET].tolist()
            seen &= np.array([self.retracted.get(i, -1) < at for i, at in zip(ids, offsets, strict=True)], np.bool_)
        return table.take(seen)


def parsed(text: str, source: str) -> tuple[Subscription, ...]:
    """A subscription as it is written in a log or a saved state; ``source`` is for whom it is wrong."""
    try:
        return _parsed(text)
    except SubscriptionError:
        return parse(text, source=source)


@lru_cache(maxsize=10_000)
def _parsed(text: str) -> tuple[Subscription, ...]:
    """Reading a subscription takes milliseconds, and the past is read again and again."""
    return parse(text)


def facts_of(life: Life) -> dict[str, object]:
    """What is saved of a subscription."""
    return {
        "text": to_text(life.subscription),
        "offset": life.offset,
        "start": life.start.offset,
        "is alone": life.is_alone,
        "frontier": life.frontier,
    }


def life_of(name: str, facts: Mapping[str, Any]) -> Life:
    (subscription,) = parsed(facts["text"], f"subscription {name!r} in saved state")
    start = Start(facts["start"], subscription.since)
    return Life(subscription, facts["offset"], start, facts["is alone"], facts["frontier"])
