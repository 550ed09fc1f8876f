"""How derived notifications are kept: one table per range of log offsets, each range exactly once."""

from __future__ import annotations

import pyarrow as pa

from motet.lake.manifest import Commit, Manifest
from motet.lake.segments import new_name, write_rows
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.errors import UsageError
from motet.model.schemas import NOTIFICATIONS


def commit_notifications(
    store: Store, manifest: Manifest, notifications: pa.RecordBatch | pa.Table, first: int, stop: int
) -> bool:
    """Commit what the records ``[first, stop)`` gave rise to; False when that range is not the next one any more."""
    table = _sorted(notifications)
    offsets = table["offset"].to_numpy()
    if first >= stop or (len(offsets) and not first <= offsets[0] <= offsets[-1] < stop):
        raise UsageError(
            f"these notifications are not those of the records {first} to {stop}",
            advice="Commit them under the range of offsets that made them final.",
        )

    def propose(newest: Snapshot) -> Commit | None:
        if stop > newest.next_offset:
            raise UsageError(f"the log ends at offset {newest.next_offset}, before {stop}")
        if newest.notified_to != first:
            return None
        return Commit(newest.frontier, stop, add=_write(store, table, first, stop, newest.version + 1))

    return manifest.commit(propose) is not None


def _write(store: Store, table: pa.Table, first: int, stop: int, version: int) -> tuple[DataFile, ...]:
    if not table.num_rows:
        return ()
    name = new_name("notifications", first, version)
    return (DataFile(name, first, stop, table.num_rows, write_rows(store, name, NOTIFICATIONS, [table])),)


def _sorted(notifications: pa.RecordBatch | pa.Table) -> pa.Table:
    """By offset, otherwise as given, since readers cut files by offset."""
    table = pa.Table.from_batches([notifications]) if isinstance(notifications, pa.RecordBatch) else notifications
    table = table.cast(NOTIFICATIONS)
    return table.take(pa.array(table["offset"].to_numpy().argsort(kind="stable")))
