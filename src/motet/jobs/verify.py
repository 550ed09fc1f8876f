"""The hash chain of a notification table: one short text that two machines compare instead of two tables.

The form is in docs/operations.md, so that anyone can compute it with other tools.
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
from motet.engine.runtime.warm_up import ensure_compiled
from motet.jobs.replay import OnProgress
from motet.lake import Lake, Snapshot
from motet.model.batches import notification_rows
from motet.model.records import Subscribe, Unsubscribe

LINK_OFFSETS = 4096  # of the log that a link covers
CHAIN_START = b"motet notifications 1\n"

TableRow = tuple[int, str]  # the offset of the record that made a notification final, and the notification's line


@dataclass(frozen=True)
class TableDifference:
    """Where two tables part: what one of them lacks. Both are given when one stands for the other."""

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
    """How far two tables agree; ``head`` is the chain's last link up to there."""

    links: int
    agreed_to: int  # the offset up to which they do
    head: str
    difference: TableDifference | None


class NotificationTable(Protocol):
    """Notifications by links."""

    def digests(self, stop: int) -> Iterator[str]:
        """Of each link of the records ``[0, stop)``."""
        ...

    def rows(self, number: int) -> list[TableRow]:
        """Of the link whose digest came last."""
        ...


class StreamedTable:
    """A table that is read once, in the order of its offsets."""

    def __init__(self, rows: Iterable[TableRow]) -> None:
        self._given = rows
        self._current: list[TableRow] = []

    def digests(self, stop: int) -> Iterator[str]:
        last = link_count(stop) - 1
        number = 0
        for row in self._given:
            while number < min(row[0] // LINK_OFFSETS, last):
                yield digest(self._current)
                self._current, number = [], number + 1
            self._current.append(row)
        for _ in range(number, last + 1):
            yield digest(self._current)
            self._current = []

    def rows(self, number: int) -> list[TableRow]:
        return sorted(self._current)


def link_count(stop: int) -> int:
    """How many links cover the records ``[0, stop)``."""
    return -(-stop // LINK_OFFSETS)


def digest(rows: Iterable[TableRow]) -> str:
    """
    >>> digest([]) == sha256(b"").hexdigest()
    True
    """
    whole = sha256()
    for offset, text in sorted(rows):
        whole.update(f"{offset} {text}\n".encode())
    return whole.hexdigest()


def next_link(head: str, first: int, stop: int, own: str) -> str:
    """The next link of a chain."""
    return sha256(f"{head} {first} {stop} {own}\n".encode()).hexdigest()


def compare(derived: NotificationTable, stored: NotificationTable, stop: int) -> Comparison:
    """Two tables of the records ``[0, stop)``, up to the first difference."""
    head, agreed = sha256(CHAIN_START).hexdigest(), 0
    pairs = zip(derived.digests(stop), stored.digests(stop), strict=True)
    for number, (mine, theirs) in enumerate(pairs):
        if mine != theirs:
            return Comparison(number, agreed, head, first_difference(derived.rows(number), stored.rows(number)))
        end = min(stop, agreed + LINK_OFFSETS)
        head, agreed = next_link(head, agreed, end, theirs), end
    return Comparison(link_count(stop), agreed, head, None)


def first_difference(derived: list[TableRow], stored: list[TableRow]) -> TableDifference:
    """The first one between the rows of a link.

    >>> mine, theirs = (7, '{"id": "1", "subscription": "s"}'), (9, '{"id": "2", "subscription": "s"}')
    >>> first_difference([mine], [mine, theirs]).kind, first_difference([mine], [theirs]).kind
    ('extra', 'missing')
    """
    missing = sorted((Counter(derived) - Counter(stored)).elements())
    extra = sorted((Counter(stored) - Counter(derived)).elements())
    if not missing or (extra and extra[0][0] < missing[0][0]):
        instead = next((row for row in missing if _stands_for(extra[0], row)), None)
        return TableDifference(instead, extra[0])
    return TableDifference(missing[0], next((row for row in extra if _stands_for(row, missing[0])), None))


def _stands_for(stored: TableRow, derived: TableRow) -> bool:
    """Whether one notification was changed into the other, as far as one can tell."""
    one, other = json.loads(stored[1]), json.loads(derived[1])
    same_place = (stored[0], one["subscription"]) == (derived[0], other["subscription"])
    return bool(one["id"] == other["id"]) or same_place


def verify_embedded(lake: Lake, snapshot: Snapshot, on_progress: OnProgress = lambda _: None) -> Comparison:
    """The records that notifications were derived from, against these notifications."""
    stop = snapshot.notifications_end
    derived = recompute(snapshot, lake.lateness, on_progress=on_progress)
    return compare(StreamedTable(derived), StreamedTable(stored_rows(snapshot)), stop)


def recompute(
    snapshot: Snapshot,
    lateness: int | None,
    names: Collection[str] | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Iterator[TableRow]:
    """What the log says, with all its control records at their places; with ``names``, to these subscriptions alone."""

    def records(stop: int) -> Iterator[pa.RecordBatch]:
        for batch in snapshot.records(0, stop):
            yield batch if names is None else drop_other_subscriptions(batch, names)

    ensure_compiled()
    kernel = Processor(lateness=lateness, earlier_records=records)
    for batch in records(snapshot.notifications_end):
        yield from table_rows(kernel.advance(batch))
        on_progress(len(batch))


def stored_rows(snapshot: Snapshot) -> Iterator[TableRow]:
    """The notification table."""
    for batch in snapshot.notifications():
        yield from table_rows(batch)


def table_rows(notifications: pa.RecordBatch) -> Iterator[TableRow]:
    for notification, offset in notification_rows(notifications):
        yield offset, notification.to_line()


def drop_other_subscriptions(records: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """All records but those that begin or end other subscriptions."""
    is_life = pc.is_in(records.column("kind"), pa.array([Subscribe.kind, Unsubscribe.kind]))
    if not is_life.true_count:
        return records
    is_known = pc.is_in(records.column("id"), pa.array(sorted(names), pa.string()))
    return records.filter(pc.or_(pc.invert(is_life), is_known))
