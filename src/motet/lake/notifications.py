"""The notification table of a lake: files that cover offset ranges of the log, each range committed once.

Any process may write the files; they are read once a commit has added them.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from motet.lake.manifest import Commit, Manifest
from motet.lake.segments import new_name, write_rows
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store
from motet.model.batches import NOTIFICATIONS
from motet.model.errors import UsageError


def write_table(store: Store, notifications: pa.RecordBatch | pa.Table, version: int) -> DataFile:
    """Write notifications, at least one, as a durable file that a commit after ``version`` may add."""
    table = _sorted(notifications)
    first, last = table["offset"][0].as_py(), table["offset"][-1].as_py()
    name = new_name("notifications", first, version + 1)
    return DataFile(name, first, last + 1, table.num_rows, write_rows(store, name, NOTIFICATIONS, [table]))


def commit_tables(store: Store, manifest: Manifest, tables: Sequence[DataFile], first: int, stop: int) -> bool:
    """Commit the notifications of the records ``[first, stop)``; False if that range is no longer the next one."""
    if first >= stop or any(not first <= table.first < table.stop <= stop for table in tables):
        raise UsageError(
            f"these notifications are not those of the records {first} to {stop}",
            advice="Commit them under the range of offsets that made them final.",
        )
    current = sorted(tables, key=lambda table: (table.first, table.name))

    def propose(newest: Snapshot) -> Commit | None:
        nonlocal current
        if stop > newest.next_offset:
            raise UsageError(f"the log ends at offset {newest.next_offset}, before {stop}")
        if newest.notifications_end != first:
            return None
        named = [_named_for(store, table, newest.version + 1) for table in current]
        current = [table for table in named if table is not None]
        commit = Commit.after(newest, manifest.clock())._replace(notifications_end=stop, add=tuple(current))
        return commit if len(current) == len(named) else None

    if manifest.commit(propose) is not None:
        return True
    for table in current:
        store.delete(table.name)
    return False


def _named_for(store: Store, table: DataFile, version: int) -> DataFile | None:
    """The file renamed for the commit that adds it; None if a vacuum has deleted it."""
    name = new_name("notifications", table.first, version)
    return table._replace(name=name) if store.rename(table.name, name) else None


def _sorted(notifications: pa.RecordBatch | pa.Table) -> pa.Table:
    """Sorted by offset, otherwise in the given order, since readers slice files by offset."""
    table = pa.Table.from_batches([notifications]) if isinstance(notifications, pa.RecordBatch) else notifications
    table = table.cast(NOTIFICATIONS)
    return table.take(pa.array(table["offset"].to_numpy().argsort(kind="stable")))
