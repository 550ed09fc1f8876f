"""The append-only log: segments, manifest, uniqueness of event IRIs, compaction, notification tables, cursors."""

from motet.lake.compaction import Compacted
from motet.lake.log import UNLIMITED, Appended, Lake
from motet.lake.snapshot import DataFile, Snapshot
from motet.lake.store import Store

__all__ = ["UNLIMITED", "Appended", "Compacted", "DataFile", "Lake", "Snapshot", "Store"]
