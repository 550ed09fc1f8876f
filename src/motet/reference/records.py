"""The records of a log and the frontier after each of them (language page, section 11).

> The **frontier** at an offset is the greatest of: earlier ticks, and earlier events' `end` minus the log's allowed
> lateness. A record stores the frontier in force when it was committed. An event whose `end` is below it is **late**:
> stored, counted, queryable, never matched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from motet.language.syntax import Subscription
from motet.model.times import END_OF_TIME
from motet.reference.sparql import Triple


@dataclass(frozen=True)
class EventRecord:
    offset: int
    id: str
    start: int
    end: int
    triples: frozenset[Triple]
    frontier: int | None = None
    late: bool | None = None  # None: not decided yet


@dataclass(frozen=True)
class TickRecord:
    offset: int
    instant: int


@dataclass(frozen=True)
class SubscribeRecord:
    offset: int
    subscription: Subscription


@dataclass(frozen=True)
class UnsubscribeRecord:
    offset: int
    name: str


@dataclass(frozen=True)
class BackgroundRecord:
    offset: int
    added: frozenset[Triple] = frozenset()
    removed: frozenset[Triple] = frozenset()


@dataclass(frozen=True)
class RetractRecord:
    offset: int
    event: str


Record = EventRecord | TickRecord | SubscribeRecord | UnsubscribeRecord | BackgroundRecord | RetractRecord


def assign_frontiers(records: Sequence[Record], lateness: int | None) -> list[Record]:
    """The records in log order, each event once and with its frontier and lateness; None is unlimited lateness.

    “publishing the same IRI again is the same event and is accepted once: the first accepted content wins.”

    >>> first, second = (EventRecord(i, f"urn:e:{i}", 9 - i, 9 - i, frozenset()) for i in (1, 2))
    >>> [(event.frontier, event.late) for event in assign_frontiers([first, second], 0)]
    [(None, False), (8, True)]
    """
    result: list[Record] = []
    accepted: set[str] = set()
    frontier = None
    for record in sorted(records, key=lambda record: record.offset):
        if isinstance(record, EventRecord):
            if record.id in accepted:
                continue
            accepted.add(record.id)
            result.append(record if record.late is not None else _with_frontier(record, frontier))
        else:
            result.append(record)
        frontier = frontier_after(frontier, result[-1], lateness)
    return result


def frontier_after(frontier: int | None, record: Record, lateness: int | None) -> int | None:
    """The frontier after a record; None while no record has moved it."""
    instants = [frontier]
    match record:
        case TickRecord():
            instants.append(record.instant)
        case EventRecord():
            instants.append(record.frontier)
            instants.append(record.end - lateness if lateness is not None else None)
    return max((instant for instant in instants if instant is not None), default=None)


def _with_frontier(event: EventRecord, frontier: int | None) -> EventRecord:
    """After a tick at the end of time everything is late."""
    late = frontier is not None and (event.end < frontier or frontier >= END_OF_TIME)
    return replace(event, frontier=frontier, late=late)
