"""The lake: an append-only log in a directory, with its notification table, cursors and state snapshots."""

from motet.lake.accept import AppendRequest, EventInput, PlacedRecords, Receipt, Rejection
from motet.lake.log import UNLIMITED, CommitResult, Lake, is_lake, system_clock
from motet.lake.maintenance import CompactionResult
from motet.lake.manifest import Clock
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store

__all__ = [
    "UNLIMITED",
    "AppendRequest",
    "Clock",
    "CommitResult",
    "CompactionResult",
    "DataFile",
    "EventInput",
    "Lake",
    "PlacedRecords",
    "Receipt",
    "Rejection",
    "Snapshot",
    "Store",
    "is_lake",
    "system_clock",
]
