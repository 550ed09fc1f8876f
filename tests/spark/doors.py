"""A small lake for the pipeline: doors that open and shut, and subscriptions that combine that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from motet.engine.runtime.processor import Processor
from motet.lake import Lake
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.batches import EventRow, Records, notification_rows

SECOND = 1_000_000
EVENTS = 60
RECORDS = 65  # with the settings, three subscriptions and a tick
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
SUBSCRIPTIONS = """
PREFIX ex: <http://example.org/>
SUBSCRIPTION pair EVENT a { ?a ex:kind "open" . ?a ex:door ?d } EVENT b { ?b ex:kind "shut" . ?b ex:door ?d }
  WHEN a BEFORE b WITHIN 5 s SELECT ?d
SUBSCRIPTION left-open EVENT a { ?a ex:kind "open" . ?a ex:door ?d } EVENT b { ?b ex:kind "shut" . ?b ex:door ?d }
  WHEN a UNLESS b WITHIN 5 s SELECT ?d
SUBSCRIPTION third EVENT a { ?a ex:door 3 } WHEN a
"""


def fill(lake: Lake) -> None:
    """Subscriptions in the middle of the events, and time that goes on behind them."""
    append(lake, range(5))
    for subscription in parse(SUBSCRIPTIONS):
        lake.subscribe(subscription.name, to_text(subscription))
    append(lake, range(5, EVENTS))
    lake.tick(1_000 * SECOND)


def append(lake: Lake, numbers: Sequence[int]) -> None:
    """Event after event, a second each."""
    lake.append([_event(number) for number in numbers])


def expected(lake: Lake) -> list[str]:
    """What the log means, by one kernel in this process."""
    processor = Processor()
    pairs = lake.snapshot().log_records()
    return lines([processor.advance(Records(columns=records), frontier).columns for records, frontier in pairs])


def lines(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """Notifications as text, each with its offset."""
    rows = [row for batch in batches for row in notification_rows(batch)]
    return sorted(f"{offset} {notification.to_line()}" for notification, offset in rows)


def _event(number: int) -> EventRow:
    iri = f"<urn:e:{number}>"
    kind, door = "open" if number % 3 else "shut", number % 4
    triples = (
        (iri, "<http://example.org/kind>", f'"{kind}"'),
        (iri, "<http://example.org/door>", f'"{door}"^^<{INTEGER}>'),
    )
    return EventRow(f"urn:e:{number}", number * SECOND, number * SECOND, triples)
