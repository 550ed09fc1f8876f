"""An active subscription, and the backfill of one with SINCE."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.output import RootOutput
from motet.engine.detect.table_kernels import FIRST_OFFSET, START
from motet.language.parse import parse_stored
from motet.language.printer import to_text
from motet.language.syntax import Events, Subscription, xml_mappings
from motet.plan.graph import Root, Start


@dataclass
class ActiveSubscription:
    """A subscription between its subscribe and its unsubscribe record. A single-event subscription has no root."""

    subscription: Subscription
    offset: int
    start: Start
    is_unshared: bool  # its nodes serve no other subscription
    frontier: int  # at its subscribe record
    root: Root | None = None
    output: RootOutput | None = None
    templates: ConstructTemplates | None = None
    consumed_derived: dict[str, int] = field(default_factory=dict)  # derived events it has had, with their ends

    @property
    def has_only_bindings(self) -> bool:
        """Whether its notifications have neither graphs nor constructs."""
        return self.templates is None and not isinstance(self.subscription.delivery, Events)

    def has_consumed(self, ids: Iterable[str]) -> npt.NDArray[np.bool_]:
        """Which derived events it has had: an upstream subscription that returns with SINCE derives them again."""
        return np.array([id_ in self.consumed_derived for id_ in ids], np.bool_)

    def prune_consumed_derived(self, frontier: int) -> None:
        """Drop the derived events that would be late if they were derived again."""
        self.consumed_derived = {id_: end for id_, end in self.consumed_derived.items() if end >= frontier}


@dataclass(frozen=True)
class BackfillView:
    """What the backfill of a subscription sees: events that start at SINCE or later and are not retracted since."""

    active: ActiveSubscription
    since: int
    retractions: Mapping[str, int]  # by event: the offset of its retraction
    node_ids: frozenset[int]  # of the subscription
    included: Set[int]  # the offsets of the CONSTRUCT subscriptions that take part

    def visible(self, leaf: int, table: Occurrences, dictionary: Dictionary, *, always: bool = False) -> Occurrences:
        """The occurrences of a leaf that the subscription sees; leaves of other subscriptions see all."""
        if leaf not in self.node_ids and not always:
            return table
        is_visible = table.columns[START] >= self.since
        if self.retractions:
            iris = dictionary.events.iris(table.events).to_pylist()
            offsets = table.columns[FIRST_OFFSET].tolist()
            is_visible &= np.array(
                [self.retractions.get(iri, -1) < offset for iri, offset in zip(iris, offsets, strict=True)], np.bool_
            )
        return table.take(is_visible)


def snapshot_entry(active: ActiveSubscription) -> dict[str, object]:
    """The entry of a subscription in a state snapshot."""
    mappings = xml_mappings(active.subscription)
    return {
        "text": to_text(active.subscription),
        "offset": active.offset,
        "start": active.start.offset,
        "beginning": active.start.frontier,
        "is old": active.start.is_old,
        "is alone": active.is_unshared,
        "frontier": active.frontier,
        **({"mappings": list(mappings)} if mappings else {}),
    }


def from_snapshot_entry(name: str, entry: Mapping[str, Any]) -> ActiveSubscription:
    """The inverse of `snapshot_entry`."""
    subscription = subscription_of_entry(name, entry)
    start = Start(entry["start"], subscription.since, entry["beginning"], entry["is old"])
    return ActiveSubscription(subscription, entry["offset"], start, entry["is alone"], entry["frontier"])


def subscription_of_entry(name: str, entry: Mapping[str, Any]) -> Subscription:
    """The subscription of an entry in a state snapshot."""
    origin = f"subscription {name!r} in saved state"
    (subscription,) = parse_stored(entry["text"], origin, entry.get("mappings", ()))
    return subscription
