"""Advice of commands about a lake: subscriptions that match nothing yet, and notifications that are pending."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from motet.cli import output
from motet.model.times import END_OF_TIME, format_datetime

if TYPE_CHECKING:
    from motet.lake import Lake, Snapshot
    from motet.language.syntax import Subscription

CHECKED_SUBSCRIPTIONS = 1_000  # the newest active ones, whose names are looked for in the newest records
CHECKED_RECORDS = 50_000
NAMED_SUBSCRIPTIONS = 5
MAX_RECORDS = 50_000  # that are processed to count what is pending, in a command that only shows a lake

PendingCount = tuple[int, int | None]  # notifications that wait for the frontier, and the greatest instant of these


def warn_of_unknown_names(snapshot: Snapshot, subscriptions: Iterable[Subscription] | None = None) -> None:
    """Name the classes and properties of subscriptions that neither the background nor an event of a lake has.

    Without subscriptions those that are active are looked at.
    """
    from motet.language.parse import parse
    from motet.language.syntax import with_mappings
    from motet.lint.ontology_rules import UnknownNames
    from motet.model.control import ControlState
    from motet.model.records import EVENT

    if not snapshot.count(EVENT):  # nothing to compare names with yet
        return
    state = ControlState().apply_all(snapshot.control_records())
    newest = list(state.subscriptions.values())[-CHECKED_SUBSCRIPTIONS:]
    requested = [each for record in newest for each in parse(record.text)] if subscriptions is None else subscriptions
    names = UnknownNames((with_mappings(each, state.mappings) for each in requested), state.background)
    first = max(0, snapshot.next_offset - CHECKED_RECORDS)
    for records in snapshot.records(first, columns=["triples"]) if names.is_open else ():
        names.observe(records)
    for unknown in names.found():
        output.warn(f"warning: {unknown}")


def events_before_text(snapshot: Snapshot, names: Sequence[str], offset: int) -> str | None:
    """Says that subscriptions without SINCE, registered at an offset, do not see the events before it, if any."""
    segments = [segment for segment in snapshot.segments if segment.first < offset and segment.kinds.get("event")]
    starts = [segment.start for segment in segments if segment.start is not None]
    if not starts or not names:
        return None
    count = sum(segment.kinds["event"] for segment in segments)
    listed = ", ".join(map(repr, names[:NAMED_SUBSCRIPTIONS]))
    more = f" and {len(names) - NAMED_SUBSCRIPTIONS} more" if len(names) > NAMED_SUBSCRIPTIONS else ""
    begin = "subscription {} begins" if len(names) == 1 else "subscriptions {} begin"
    earlier = f"the {count} events that are there, which are" if count > 1 else "the event that is there, which is"
    return (
        f"{begin.format(listed + more)} after {earlier} not matched.\n"
        f'  To match them, too, unsubscribe and write SINCE "{format_datetime(min(starts))}" after the name.'
    )


def warn_of_no_subscription(snapshot: Snapshot, lake: str) -> bool:
    """Say that a lake has no subscription, if so; True then."""
    if snapshot.subscriptions():
        return False
    output.warn(
        f"{lake} has no active subscription, so there is nothing to notify of.\n"
        f"  `motet subscribe --lake {lake} FILE` registers one; with SINCE it also sees the events that are there."
    )
    return True


def warn_of_earlier_events(snapshot: Snapshot) -> None:
    """Say which active subscriptions without SINCE begin after all events that are there."""
    from motet.language.parse import parse

    last_event = max((segment.stop for segment in snapshot.segments if segment.kinds.get("event")), default=0)
    newest = list(snapshot.subscriptions().values())[-CHECKED_SUBSCRIPTIONS:]
    names = [each.name for each in newest if each.offset >= last_event and parse(each.text)[0].since is None]
    if text := events_before_text(snapshot, names, snapshot.next_offset):
        output.warn(text)


def pending_text(pending: PendingCount, lake: str) -> str | None:
    """Says how many notifications wait for the frontier, and what makes them final; None if none does."""
    count, until = pending
    if not count or until is None:
        return None
    instant = "the end of time" if until >= END_OF_TIME else format_datetime(until)
    return (
        f"{count} notification{'' if count == 1 else 's'} pending: final when the frontier reaches {instant}.\n"
        f"  Later events move it, or `motet tick --lake {lake}`, which decides everything that is there."
    )


def pending_json(pending: PendingCount | None) -> dict[str, object] | None:
    """The same as JSON; None if it is not known."""
    if pending is None:
        return None
    count, until = pending
    return {"notifications": count, "until": None if until is None else format_datetime(min(until, END_OF_TIME))}


def find_pending(lake: Lake, snapshot: Snapshot) -> PendingCount | None:
    """What is pending at the end of a log, computed without writing anything.

    None if too many records would have to be processed: the pipeline on Spark stores it, and so do state snapshots.
    """
    from motet.lake.progress import greatest_waiting, pending_count

    end = snapshot.next_offset
    if not snapshot.subscriptions():
        return 0, None
    if (count := pending_count(lake.store, end)) and (until := greatest_waiting(lake.store, end, None)) is not None:
        return count, until
    stored = next((offset for offset, _ in lake.state_snapshots(end)), 0)
    if end - stored > MAX_RECORDS:
        return None
    from motet.embedded.backend import InProcessBackend

    backend = InProcessBackend(lake)
    backend.restore(snapshot, end)
    return backend.pending()
