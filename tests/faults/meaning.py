"""What a lake's log means, by the reference engine, and what its notification table says: as lines with offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from motet.fuzz.oracle import emission_lines
from motet.lake import Lake
from motet.language.parse import parse
from motet.model.batches import notification_rows
from motet.reference import (
    BackgroundRecord,
    EventRecord,
    Record,
    RetractRecord,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    evaluate_emissions,
)


def meant(lake: Lake) -> list[str]:
    """By the reference engine, which knows nothing of batches, buckets and checkpoints."""
    records = list(_records(lake))
    found = evaluate_emissions(records, lateness=lake.snapshot().settings.lateness)
    return emission_lines(list(found), offsets=True)


def stored(lake: Lake) -> list[str]:
    rows = (row for batch in lake.notifications() for row in notification_rows(batch))
    return emission_lines([(offset, notification) for notification, offset in rows], offsets=True)


def _records(lake: Lake) -> Iterator[Record]:
    for batch in lake.snapshot().records():
        yield from map(_record, batch.to_pylist())


def _record(row: dict[str, Any]) -> Record:
    offset, name = row["offset"], row["id"]
    triples = frozenset((triple["subject"], triple["predicate"], triple["object"]) for triple in row["triples"])
    match row["kind"]:
        case "event":
            return EventRecord(offset, name, _instant(row["start"]), _instant(row["end"]), triples)
        case "tick":
            return TickRecord(offset, _instant(row["end"]))
        case "subscribe":
            return SubscribeRecord(offset, *parse(row["text"]))
        case "unsubscribe":
            return UnsubscribeRecord(offset, name)
        case "background":
            removes = row["text"] == "remove"
            return BackgroundRecord(offset, **{"removed" if removes else "added": triples})
    return RetractRecord(offset, name)


def _instant(time: Any) -> int:
    return round(time.timestamp() * 1_000_000)
