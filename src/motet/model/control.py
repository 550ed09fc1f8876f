"""The state that the control records of a log add up to: subscriptions, background, settings, retractions.

This is the only fold of control records in the engines. The reference engine has its own, on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from motet.model.batches import Triple
from motet.model.records import BackgroundChange, ControlRecord, Retraction, SettingsChange, Subscribe, Unsubscribe
from motet.model.settings import Settings

REASONING, NO_REASONING = "owl-rl", "none"


def entailment_of(background: frozenset[Triple], requested: str | None = None) -> str:
    """The entailment of events read with a background graph (language page, section 2).

    Without a requested one it is OWL RL if the graph has a triple, and none otherwise.

    >>> entailment_of(frozenset()), entailment_of(frozenset({("<urn:s>", "<urn:p>", "<urn:o>")}))
    ('none', 'owl-rl')
    """
    return requested or (REASONING if background else NO_REASONING)


@dataclass
class ControlState:
    """What holds after the control records applied so far.

    >>> state = ControlState().apply_all([Subscribe("s", "…", 0), Subscribe("t", "…", 1), Unsubscribe("s", 2)])
    >>> list(state.subscriptions), state.entailment
    (['t'], 'none')
    """

    background: frozenset[Triple] = frozenset()
    requested_entailment: str | None = None
    settings: Settings | None = None  # None before the first settings record: subscriptions there are of format 1
    subscriptions: dict[str, Subscribe] = field(default_factory=dict)  # active ones by name, the newest last
    retractions: dict[str, int] = field(default_factory=dict)  # by event: the offset of its last retraction
    edge_background: frozenset[Triple] | None = None  # at the first subscription: fixes derivation edges

    @property
    def entailment(self) -> str:
        """The entailment of the next event."""
        return entailment_of(self.background, self.requested_entailment)

    @property
    def mappings(self) -> tuple[str, ...]:
        """The mappings of XML documents that a subscription registered now has."""
        return () if self.settings is None else self.settings.mappings

    @property
    def edge_entailment(self) -> str:
        """The entailment that decides derivation edges."""
        return entailment_of(self.edge_background or frozenset(), self.requested_entailment)

    def apply(self, record: ControlRecord) -> None:
        """Take in the next control record; ticks change nothing here."""
        match record:
            case Subscribe():
                self.fix_edge_background()
                self.subscriptions.pop(record.name, None)
                self.subscriptions[record.name] = record
            case Unsubscribe():
                self.subscriptions.pop(record.name, None)
            case BackgroundChange():
                self.background = record.after(self.background)
            case Retraction():
                self.retractions[record.event_id] = record.offset
            case SettingsChange():
                self.settings = record.settings
                self.requested_entailment = record.settings.entailment

    def apply_all(self, records: Iterable[ControlRecord]) -> Self:
        for record in records:
            self.apply(record)
        return self

    def fix_edge_background(self) -> frozenset[Triple]:
        """The background that decides derivation edges: the one in force at the first subscription."""
        if self.edge_background is None:
            self.edge_background = self.background
        return self.edge_background


class SubscriptionRange(NamedTuple):
    """A subscription from its subscribe record to the record that ends it."""

    subscribe: Subscribe
    stop: int | None  # offset of the record that ends it; None: it is active
    mappings: tuple[str, ...] = ()  # of XML documents, in force at its subscribe record


def registrations(records: Iterable[ControlRecord]) -> list[SubscriptionRange]:
    """All registrations of a log, also those that have ended, by the offset of their subscribe record."""
    state, ended, mappings = ControlState(), [], dict[str, tuple[str, ...]]()
    for record in records:
        if isinstance(record, Subscribe | Unsubscribe) and record.name in state.subscriptions:
            ended.append(SubscriptionRange(state.subscriptions[record.name], record.offset, mappings[record.name]))
        if isinstance(record, Subscribe):
            mappings[record.name] = state.mappings
        state.apply(record)
    active = (SubscriptionRange(record, None, mappings[name]) for name, record in state.subscriptions.items())
    return sorted([*ended, *active], key=lambda range_: range_.subscribe.offset)
