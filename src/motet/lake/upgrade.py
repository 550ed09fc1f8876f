"""Upgrades a lake of format 1, in place.

Its records keep their offsets, frontiers and late flags, and so their meaning: a settings record is appended, and
writers follow the rules of format 2 after it. That commit is the upgrade; the lake's file is rewritten after it. Killed
before the commit, the lake is of format 1; killed after it, the next opening rewrites the file.
"""

from __future__ import annotations

from pathlib import Path

from motet.lake.log import FORMAT, LAKE_FILE, lake_fields, lake_file, settings_commit, system_clock
from motet.lake.manifest import Clock, Commit, Manifest
from motet.lake.snapshot import Snapshot
from motet.lake.store import Store
from motet.model.errors import CorruptLakeError, LakeError, UsageError
from motet.model.settings import Settings


def upgrade(path: str | Path, *, clock: Clock = system_clock) -> Settings | None:
    """Upgrade the lake in a directory and return its settings; None if it has the newest format already.

    The settings keep what a lake of format 1 does: its lateness, no limit for events ahead of the clock, no heartbeat.
    """
    store = Store(Path(path))
    data = store.find(LAKE_FILE)
    if data is None:
        raise LakeError(f"{store.root} is not a lake", advice="Check the path.")
    fields = lake_fields(store, data)
    if fields["format"] >= FORMAT:
        return None
    settings = _settings(store, fields)

    def propose(newest: Snapshot) -> Commit | None:
        return None if newest.has_settings else settings_commit(store, newest, settings, clock())

    manifest = Manifest(store, clock)
    manifest.commit(propose)
    store.put(LAKE_FILE, lake_file())
    return manifest.snapshot().settings


def _settings(store: Store, fields: dict[str, object]) -> Settings:
    """The settings of a lake of format 1."""
    lateness = fields.get("lateness")
    try:
        return Settings(lateness=None if lateness is None else int(str(lateness)), ahead=None, heartbeat=None)
    except (ValueError, UsageError) as error:
        path = store.path(LAKE_FILE)
        raise CorruptLakeError(f"{path} is damaged: {error}", advice="Restore it from a backup.") from error
