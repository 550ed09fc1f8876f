"""The Spark host: a session that starts by itself, events and lakes as data sources, and whole runs in batch.

Nothing here decides what matches; that is the engine's. Spark only brings events to it and notifications away. What
users call is imported when they ask for it: loading PySpark takes a second, and not every module here needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from motet.model.extras import require_extra

if TYPE_CHECKING:
    from motet.spark.frames.detect import detect
    from motet.spark.intake import ingest, ingest_batch
    from motet.spark.notification_source import notifications, stored_notifications

__all__ = ["detect", "ingest", "ingest_batch", "notifications", "stored_notifications"]

_HOMES = {
    "detect": "frames.detect",
    "ingest": "intake",
    "ingest_batch": "intake",
    "notifications": "notification_source",
    "stored_notifications": "notification_source",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("spark", f"motet.spark.{name}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
