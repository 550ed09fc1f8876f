"""Finds the end of the part of a log that a query reads: an offset, or an instant by the clocks of the commits."""

from __future__ import annotations

from datetime import datetime

from motet.lake import Snapshot
from motet.lake.manifest import RECORD_FOLDERS, Commit, commit_name
from motet.model.errors import CorruptLakeError, UsageError
from motet.model.times import format_datetime, to_micros

AsOf = int | str | datetime  # an offset; or an instant, as an xsd:dateTime or a datetime


def log_end(snapshot: Snapshot, as_of: AsOf | None = None) -> int:
    """The offset before which the records are read: after the record of an offset, or the last commit by an instant.

    An instant is that of the last commit before the first whose clock is later. Without either it is the end of the
    log.
    """
    if as_of is None:
        return snapshot.next_offset
    if isinstance(as_of, int):
        return _after_offset(snapshot, as_of)
    return _at_instant(snapshot, to_micros(as_of))


def _after_offset(snapshot: Snapshot, offset: int) -> int:
    if not 0 <= offset < snapshot.next_offset:
        raise UsageError(
            f"the log of {snapshot.store.root} has no offset {offset}",
            advice=f"Its offsets are 0 to {snapshot.next_offset - 1}; without an offset the whole log is read.",
        )
    return offset + 1


def _at_instant(snapshot: Snapshot, instant: int) -> int:
    end = 0
    has_clock = False
    for version in range(1, snapshot.version + 1):
        data = snapshot.store.find(commit_name(version))
        if data is None:
            raise CorruptLakeError(
                f"{snapshot.store.path(commit_name(version))} is missing", advice="Restore it from a backup."
            )
        commit = Commit.from_bytes(data)
        if commit.clock is not None and commit.clock > instant:
            if not has_clock:
                raise UsageError(
                    f"{format_datetime(instant)} is before the first clock of the log, {format_datetime(commit.clock)}",
                    advice="Give a later instant, or an offset.",
                )
            return end
        has_clock = has_clock or commit.clock is not None
        if not commit.remove:
            end = max([end, *(file.stop for file in commit.add if file.name.startswith(RECORD_FOLDERS))])
    if not has_clock:
        raise UsageError("the log has no clocks: it is of format 1", advice="Give an offset instead of an instant.")
    return end
