"""What waits for the frontier of a lake: how many notifications, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from motet.model.times import END_OF_TIME, format_datetime

if TYPE_CHECKING:
    from motet.lake import Lake, Snapshot

PendingCount = tuple[int, int | None]  # notifications, and the greatest instant they wait for
MAX_RECORDS = 50_000  # that are processed to count what is pending, in a command that only shows a lake


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
