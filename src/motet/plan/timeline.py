"""Cutting the log at its control records into stretches of events that see one registry.

A subscription with SINCE also gets the earlier events: those are stretches of the past, made when its record is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from motet.language.syntax import Subscription
from motet.model.tables import Triple
from motet.plan.registry import Registry


class Control(NamedTuple):
    """A record of the log that is not an event."""

    offset: int
    kind: str
    id: str | None
    text: str | None
    triples: tuple[Triple, ...]


@dataclass(frozen=True)
class Stretch:
    """The events with offsets in `[first, stop)`, and what is in force for them."""

    registry: Registry
    first: int
    stop: int
    since: int | None = None  # of the past: only events that start at this instant or later
    hidden: frozenset[str] = frozenset()  # of the past: events retracted before the subscription began
    emitted_at: int | None = None  # of the past: the subscription's own offset, where its notifications belong


class Timeline:
    """Reads control records once, in order, and knows what is in force after the last one."""

    def __init__(self) -> None:
        self.offset = 0
        self.registry = Registry()
        self._backgrounds: list[tuple[int, frozenset[Triple]]] = [(0, frozenset())]
        self._retracted: set[str] = set()

    def advance(self, controls: Iterable[Control], stop: int) -> Iterator[Stretch]:
        """The stretches from where the timeline stands up to `stop`, given all control records in between."""
        for control in controls:
            yield from self._stretch_to(control.offset)
            self.offset = control.offset + 1
            self._apply(control)
            if control.kind == "subscribe":
                yield from self._past(self.registry.subscriptions[-1], control.offset)
        yield from self._stretch_to(stop)
        self.offset = max(self.offset, stop)

    def _stretch_to(self, stop: int) -> Iterator[Stretch]:
        if self.offset < stop and self.registry.subscriptions:
            yield Stretch(self.registry, self.offset, stop)

    def _apply(self, control: Control) -> None:
        before = self.registry
        self.registry = before.after(control.kind, control.id, control.text, control.triples)
        if self.registry.background is not before.background:
            self._backgrounds.append((control.offset, self.registry.background))
        if control.kind == "retract" and control.id is not None:
            self._retracted.add(control.id)

    def _past(self, subscription: Subscription, offset: int) -> Iterator[Stretch]:
        """What a SINCE subscription sees of the events before it, each with the background of its own time."""
        if subscription.since is None:
            return
        past = Stretch(Registry((subscription,)), 0, 0, subscription.since, frozenset(self._retracted), offset)
        ends = [begin for begin, _ in self._backgrounds[1:]] + [offset]
        for (begin, background), end in zip(self._backgrounds, ends, strict=True):
            if begin < end:
                yield replace(past, registry=replace(past.registry, background=background), first=begin, stop=end)
