"""`motet verify` inside one process: everything derived again from the log, compared with the table in the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from motet.embedded.chain import Compared, Row, Streamed, compare
from motet.embedded.readiness import get_ready
from motet.embedded.replay import Watch
from motet.engine.kernel import Kernel
from motet.lake import Lake, Snapshot
from motet.model.tables import notification_rows


def verify_embedded(lake: Lake, snapshot: Snapshot, watch: Watch = lambda _: None) -> Compared:
    """The records that notifications were derived from, against these notifications."""
    stop = snapshot.notified_to
    derived = derived_again(snapshot, lake.lateness, watch=watch)
    return compare(Streamed(derived), Streamed(stored(snapshot)), stop)


def derived_again(
    snapshot: Snapshot,
    lateness: int | None,
    names: Collection[str] | None = None,
    watch: Watch = lambda _: None,
) -> Iterator[Row]:
    """What the log says, with all its control records at their places; with ``names``, to these subscriptions alone."""

    def records(stop: int) -> Iterator[pa.RecordBatch]:
        for batch in snapshot.records(0, stop):
            yield batch if names is None else of_concern(batch, names)

    get_ready()
    kernel = Kernel(lateness=lateness, history=records)
    for batch in records(snapshot.notified_to):
        yield from rows(kernel.advance(batch))
        watch(len(batch))


def stored(snapshot: Snapshot) -> Iterator[Row]:
    """The notification table."""
    for batch in snapshot.notifications():
        yield from rows(batch)


def rows(notifications: pa.RecordBatch) -> Iterator[Row]:
    for notification, offset in notification_rows(notifications):
        yield offset, notification.to_line()


def of_concern(records: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """All records but those that begin or end other subscriptions."""
    is_life = pc.is_in(records.column("kind"), pa.array(["subscribe", "unsubscribe"]))
    if not is_life.true_count:
        return records
    is_known = pc.is_in(records.column("id"), pa.array(sorted(names), pa.string()))
    return records.filter(pc.or_(pc.invert(is_life), is_known))
