"""Verification: recompute the notifications of a log and compare the hash chain of both tables.

Two machines can compare the last link of a chain instead of two tables. Its form is in docs/operations.md.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.runtime.processor import Processor
from motet.jobs.replay import OnProgress
from motet.lake import Snapshot
from motet.model.batches import Records
from motet.model.notification_lines import json_lines
from motet.model.records import Subscribe, Unsubscribe
from motet.model.timeline import FrontierTimeline, LogRecords

LINK_OFFSETS = 4096  # of the log in one link
CHAIN_START = b"motet notifications 1\n"

TableRow = tuple[int, str]  # emission offset and line of a notification


@dataclass(frozen=True)
class TableDifference:
    """The first difference of two tables: a row that one of them lacks, or two rows for one notification."""

    recomputed: TableRow | None
    stored: TableRow | None

    @property
    def kind(self) -> str:
        if self.stored is None:
            return "missing"
        return "extra" if self.recomputed is None else "different"

    @property
    def offset(self) -> int:
        return min(row[0] for row in (self.recomputed, self.stored) if row is not None)

    @property
    def subscription(self) -> str:
        row = self.recomputed or self.stored
        assert row is not None
        return str(json.loads(row[1])["subscription"])


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two tables; ``head`` is the last link on which they agree."""

    links: int
    agreed_to: int  # offset
    head: str
    difference: TableDifference | None


class NotificationTable(Protocol):
    """The notifications of a table by link."""

    def digests(self, stop: int) -> Iterator[str]:
        """The digest of each link of the records ``[0, stop)``."""
        ...

    def rows(self, link: int) -> list[TableRow]:
        """The rows of the link whose digest was returned last."""
        ...


class StreamedTable:
    """A table that is read once, in offset order."""

    def __init__(self, rows: Iterable[TableRow]) -> None:
        self._rows = rows
        self._current: list[TableRow] = []

    def digests(self, stop: int) -> Iterator[str]:
        last = link_count(stop) - 1
        link = 0
        for row in self._rows:
            while link < min(row[0] // LINK_OFFSETS, last):
                yield digest(self._current)
                self._current, link = [], link + 1
            self._current.append(row)
        for _ in range(link, last + 1):
            yield digest(self._current)
            self._current = []

    def rows(self, link: int) -> list[TableRow]:
        return sorted(self._current)


def link_count(stop: int) -> int:
    """The number of links of the records ``[0, stop)``."""
    return -(-stop // LINK_OFFSETS)


def digest(rows: Iterable[TableRow]) -> str:
    """The digest of the rows of a link, in sorted order.

    >>> digest([]) == sha256(b"").hexdigest()
    True
    """
    hasher = sha256()
    for offset, text in sorted(rows):
        hasher.update(f"{offset} {text}\n".encode())
    return hasher.hexdigest()


def next_link(head: str, first: int, stop: int, rows_digest: str) -> str:
    """The link that follows ``head``, for the offsets ``[first, stop)``."""
    return sha256(f"{head} {first} {stop} {rows_digest}\n".encode()).hexdigest()


def compare(recomputed: NotificationTable, stored: NotificationTable, stop: int) -> Comparison:
    """Compare two tables of the records ``[0, stop)``, up to the first difference."""
    head, agreed_to = sha256(CHAIN_START).hexdigest(), 0
    pairs = zip(recomputed.digests(stop), stored.digests(stop), strict=True)
    for link, (recomputed_digest, stored_digest) in enumerate(pairs):
        if recomputed_digest != stored_digest:
            difference = first_difference(recomputed.rows(link), stored.rows(link))
            return Comparison(link, agreed_to, head, difference)
        end = min(stop, agreed_to + LINK_OFFSETS)
        head, agreed_to = next_link(head, agreed_to, end, stored_digest), end
    return Comparison(link_count(stop), agreed_to, head, None)


def first_difference(recomputed: list[TableRow], stored: list[TableRow]) -> TableDifference:
    """The first difference between the rows of a link.

    >>> early, late = (7, '{"id": "1", "subscription": "s"}'), (9, '{"id": "2", "subscription": "s"}')
    >>> first_difference([early], [early, late]).kind, first_difference([early], [late]).kind
    ('extra', 'missing')
    """
    missing = sorted((Counter(recomputed) - Counter(stored)).elements())
    extra = sorted((Counter(stored) - Counter(recomputed)).elements())
    if not missing or (extra and extra[0][0] < missing[0][0]):
        changed = next((row for row in missing if _is_same_notification(extra[0], row)), None)
        return TableDifference(changed, extra[0])
    return TableDifference(missing[0], next((row for row in extra if _is_same_notification(row, missing[0])), None))


def _is_same_notification(stored: TableRow, recomputed: TableRow) -> bool:
    """Whether two rows seem to be versions of one notification: the same id, or the same offset and subscription."""
    left, right = json.loads(stored[1]), json.loads(recomputed[1])
    has_same_offset = (stored[0], left["subscription"]) == (recomputed[0], right["subscription"])
    return bool(left["id"] == right["id"]) or has_same_offset


def verify_embedded(snapshot: Snapshot, on_progress: OnProgress = lambda _: None) -> Comparison:
    """Recompute the notifications of the processed records and compare them with the table."""
    stop = snapshot.notifications_end
    recomputed = recompute(snapshot, on_progress=on_progress)
    return compare(StreamedTable(recomputed), StreamedTable(stored_rows(snapshot)), stop)


def recompute(
    snapshot: Snapshot,
    names: Collection[str] | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Iterator[TableRow]:
    """The notifications of the log with its control records; with ``names``, of these subscriptions only."""

    def records(stop: int) -> Iterator[LogRecords]:
        for batch, frontier in snapshot.log_records(0, stop):
            yield (batch, frontier) if names is None else drop_other_subscriptions(batch, frontier, names)

    processor = Processor(earlier_records=records)
    for batch, frontier in records(snapshot.notifications_end):
        yield from table_rows(processor.advance(Records(columns=batch), frontier).columns)
        on_progress(len(batch))


def stored_rows(snapshot: Snapshot) -> Iterator[TableRow]:
    """The rows of the notification table."""
    for batch in snapshot.notifications():
        yield from table_rows(batch)


def table_rows(notifications: pa.RecordBatch) -> Iterator[TableRow]:
    """NOTIFICATIONS as rows of the hash chain."""
    yield from zip(notifications.column("offset").to_pylist(), json_lines(notifications).to_pylist(), strict=True)


def drop_other_subscriptions(records: pa.RecordBatch, frontier: int | None, names: Collection[str]) -> LogRecords:
    """The records without those that register or end other subscriptions, with the timeline of all of them: a commit
    that ends with another subscription moves the frontier there.
    """
    is_subscription = pc.is_in(records.column("kind"), pa.array([Subscribe.kind, Unsubscribe.kind]))
    if not is_subscription.true_count:
        return records, frontier
    is_requested = pc.is_in(records.column("id"), pa.array(sorted(names), pa.string()))
    timeline = FrontierTimeline.from_records(records, frontier)
    return records.filter(pc.or_(pc.invert(is_subscription), is_requested)), timeline
