"""The lake: an append-only log in a directory, with its notification table, cursors and state snapshots."""

from motet.lake.accept import CommittedRecords, record_batches
from motet.lake.log import UNLIMITED, AppendRequest, CommitResult, EventInput, Lake, Receipt
from motet.lake.maintenance import CompactionResult
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store

__all__ = [
    "UNLIMITED",
    "AppendRequest",
    "CommitResult",
    "CommittedRecords",
    "CompactionResult",
    "DataFile",
    "EventInput",
    "Lake",
    "Receipt",
    "Snapshot",
    "Store",
    "record_batches",
]
