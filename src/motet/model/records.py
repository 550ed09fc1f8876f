"""The control records of a log as typed values, and how they are read from Arrow rows and written to them.

A log holds events and control records. Every kind of control record is one class here and one row of `CONTROL_KINDS`.
Events have no class of their own: in columns they are rows of RECORDS, as Python values `RecordRow`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self, TypeVar, overload

import pyarrow as pa
import pyarrow.compute as pc

from motet.model.batches import RecordRow, Triple, record_rows
from motet.model.errors import CorruptLakeError, UsageError
from motet.model.settings import Settings

EVENT = "event"  # the kind of a record that is an event
UNCOMMITTED = -1  # the offset of a record before its commit
_ADD, _REMOVE = "add", "remove"


class ControlRecord(ABC):
    """A record that is not an event."""

    __slots__ = ()
    kind: ClassVar[str]
    offset: int

    @classmethod
    @abstractmethod
    def from_row(cls, row: RecordRow) -> Self:
        """The record in a row of its kind."""

    @abstractmethod
    def to_row(self) -> RecordRow:
        """The inverse of `from_row`, without frontier."""


@dataclass(frozen=True, slots=True)
class Tick(ControlRecord):
    """Moves the frontier to an instant."""

    kind: ClassVar[str] = "tick"
    instant: int
    offset: int = UNCOMMITTED

    @classmethod
    def from_row(cls, row: RecordRow) -> Tick:
        assert row.end is not None, "a tick has an instant"
        return cls(row.end, row.offset)

    def to_row(self) -> RecordRow:
        return _row(self, end=self.instant)


@dataclass(frozen=True, slots=True)
class Subscribe(ControlRecord):
    """Registers a subscription."""

    kind: ClassVar[str] = "subscribe"
    name: str
    text: str
    offset: int = UNCOMMITTED

    @classmethod
    def from_row(cls, row: RecordRow) -> Subscribe:
        return cls(str(row.id), str(row.text), row.offset)

    def to_row(self) -> RecordRow:
        return _row(self, id_=self.name, text=self.text)


@dataclass(frozen=True, slots=True)
class Unsubscribe(ControlRecord):
    """Ends the active subscription of a name."""

    kind: ClassVar[str] = "unsubscribe"
    name: str
    offset: int = UNCOMMITTED

    @classmethod
    def from_row(cls, row: RecordRow) -> Unsubscribe:
        return cls(str(row.id), row.offset)

    def to_row(self) -> RecordRow:
        return _row(self, id_=self.name)


@dataclass(frozen=True, slots=True)
class BackgroundChange(ControlRecord):
    """Adds triples to the background graph, or removes them."""

    kind: ClassVar[str] = "background"
    triples: frozenset[Triple]
    is_removal: bool = False
    offset: int = UNCOMMITTED

    def after(self, background: frozenset[Triple]) -> frozenset[Triple]:
        """The background graph after this change."""
        return background - self.triples if self.is_removal else background | self.triples

    @classmethod
    def from_row(cls, row: RecordRow) -> BackgroundChange:
        return cls(frozenset(row.triples), row.text == _REMOVE, row.offset)

    def to_row(self) -> RecordRow:
        return _row(self, text=_REMOVE if self.is_removal else _ADD, triples=tuple(sorted(self.triples)))


@dataclass(frozen=True, slots=True)
class Retraction(ControlRecord):
    """Hides an event from queries and from subscriptions registered later."""

    kind: ClassVar[str] = "retract"
    event_id: str
    offset: int = UNCOMMITTED

    @classmethod
    def from_row(cls, row: RecordRow) -> Retraction:
        return cls(str(row.id), row.offset)

    def to_row(self) -> RecordRow:
        return _row(self, id_=self.event_id)


@dataclass(frozen=True, slots=True)
class SettingsChange(ControlRecord):
    """Sets all settings of the lake."""

    kind: ClassVar[str] = "settings"
    settings: Settings
    offset: int = UNCOMMITTED

    @classmethod
    def from_row(cls, row: RecordRow) -> SettingsChange:
        try:
            return cls(Settings.from_json(str(row.text)), row.offset)
        except (ValueError, TypeError, AttributeError, UsageError) as error:
            raise CorruptLakeError(
                f"the record at offset {row.offset} holds no settings: {error}",
                advice="Install a newer Motet if one has written this lake; otherwise restore it from a backup.",
            ) from error

    def to_row(self) -> RecordRow:
        return _row(self, text=self.settings.to_json())


CONTROL_KINDS: dict[str, type[ControlRecord]] = {
    record.kind: record for record in (Tick, Subscribe, Unsubscribe, BackgroundChange, Retraction, SettingsChange)
}


R = TypeVar("R", bound=ControlRecord)


@overload
def control_records(records: pa.RecordBatch | pa.Table) -> Iterator[ControlRecord]: ...


@overload
def control_records(records: pa.RecordBatch | pa.Table, *kinds: type[R]) -> Iterator[R]: ...


def control_records(records: pa.RecordBatch | pa.Table, *kinds: type[ControlRecord]) -> Iterator[ControlRecord]:
    """The control records of a RECORDS batch in log order: of these kinds, or of all if none is given.

    >>> from motet.model.batches import record_batch
    >>> batch = record_batch([Tick(5, offset=0).to_row(), Subscribe("s", "…", offset=1).to_row()])
    >>> list(control_records(batch, Tick))
    [Tick(instant=5, offset=0)]
    """
    requested = pa.array([kind.kind for kind in kinds])
    column = records.column("kind")
    for row in record_rows(records.filter(pc.is_in(column, requested) if kinds else pc.not_equal(column, EVENT))):
        if row.kind not in CONTROL_KINDS:
            raise CorruptLakeError(
                f"the record at offset {row.offset} is of the unknown kind {row.kind!r}",
                advice="Install a newer Motet: it may have written this lake.",
            )
        yield CONTROL_KINDS[row.kind].from_row(row)


def _row(
    record: ControlRecord,
    *,
    id_: str | None = None,
    end: int | None = None,
    text: str | None = None,
    triples: tuple[Triple, ...] = (),
) -> RecordRow:
    return RecordRow(record.offset, record.kind, id_, None, end, None, False, text, triples)
