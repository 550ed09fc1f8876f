"""What a lake's log means, by the reference engine, and what its notification table says: as lines with offsets."""

from __future__ import annotations

from tests.builders import stored_log

from motet.fuzz.case import emission_lines
from motet.lake import Lake
from motet.model.batches import notification_rows
from motet.reference import evaluate_written


def meant(lake: Lake) -> list[str]:
    """By the reference engine, which knows nothing of batches, buckets and checkpoints."""
    return emission_lines(evaluate_written(stored_log(lake.snapshot())), offsets=True)


def stored(lake: Lake) -> list[str]:
    rows = (row for batch in lake.notifications() for row in notification_rows(batch))
    return emission_lines([(offset, notification) for notification, offset in rows], offsets=True)
