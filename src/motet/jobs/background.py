"""The background graph of a lake, read and changed without an engine."""

from __future__ import annotations

from collections.abc import Iterable

from motet.lake import Lake, Snapshot
from motet.model.batches import Triple
from motet.model.control import ControlState
from motet.model.records import BackgroundChange


def background_of(snapshot: Snapshot) -> frozenset[Triple]:
    """The background at the end of a log."""
    return ControlState().apply_all(snapshot.control_records(BackgroundChange)).background


def add_to_background(lake: Lake, triples: Iterable[Triple]) -> int:
    """Append the triples that the background lacks, and return their number."""
    added = sorted(frozenset(triples) - background_of(lake.snapshot()))
    if added:
        lake.background(added=added)
    return len(added)


def remove_from_background(lake: Lake, triples: Iterable[Triple]) -> int:
    """Remove the triples that the background has, and return their number."""
    removed = sorted(frozenset(triples) & background_of(lake.snapshot()))
    if removed:
        lake.background(removed=removed)
    return len(removed)
