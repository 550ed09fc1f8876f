"""The lake: an append-only log in a directory, with its notification table, cursors and state snapshots."""

from motet.lake.accept import AppendRequest, CommittedRecords, EventInput, Rejection, record_batches
from motet.lake.log import UNLIMITED, CommitResult, Lake, Receipt, is_lake
from motet.lake.maintenance import CompactionResult
from motet.lake.manifest import Clock, system_clock
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store

__all__ = [
    "UNLIMITED",
    "AppendRequest",
    "Clock",
    "CommitResult",
    "CommittedRecords",
    "CompactionResult",
    "DataFile",
    "EventInput",
    "Lake",
    "Receipt",
    "Rejection",
    "Snapshot",
    "Store",
    "is_lake",
    "record_batches",
    "system_clock",
]
