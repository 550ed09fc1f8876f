"""The append-only log: segments, manifest, uniqueness of event IRIs, compaction, notification tables, cursors."""

from motet.lake.compaction import Compacted
from motet.lake.few import Records, batches_of
from motet.lake.files import DataFile
from motet.lake.log import UNLIMITED, Appended, Committed, Events, Lake, Offer
from motet.lake.snapshot import Snapshot
from motet.lake.store import Store

__all__ = [
    "UNLIMITED",
    "Appended",
    "Committed",
    "Compacted",
    "DataFile",
    "Events",
    "Lake",
    "Offer",
    "Records",
    "Snapshot",
    "Store",
    "batches_of",
]
