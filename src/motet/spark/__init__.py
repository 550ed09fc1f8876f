"""The Spark host: sessions, data sources and ingestion; batch jobs, the streaming pipeline, patterns over DataFrames.

Nothing here decides what matches: that is the engine. The public names are imported on first use, because loading
PySpark takes a second; ``__init__.pyi`` has their types.
"""

from __future__ import annotations

from importlib import import_module

from motet.model.errors import require_extra

__all__ = [
    "detect", "detect_end", "detect_pandas", "ingest", "ingest_batch", "notifications", "query", "stored_notifications",
]  # fmt: skip

_MODULES = {
    "detect": "frames.detect",
    "detect_end": "frames.detect",
    "detect_pandas": "frames.pandas_frames",
    "ingest": "ingestion",
    "ingest_batch": "ingestion",
    "notifications": "tables",
    "query": "query_engine",
    "stored_notifications": "tables",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra("spark", f"motet.spark.{name}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
