"""The records of a log, and the frontier that the writer of each commit computes (language page, sections 11 and 14).

> The **frontier** […] never falls, and moves only between commits; the writer of a commit computes it by section 14,
> engines only read it. Every record stores the frontier in force before its commit; the frontier after a record is what
> the next one stores, and after the last what the manifest holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from motet.language.syntax import Subscription
from motet.model.times import END_OF_TIME, START_OF_TIME, UNITS
from motet.reference.sparql import Triple


@dataclass(frozen=True, kw_only=True)
class CommittedRecord:
    """What every record has of its commit."""

    frontier: int | None = None  # in force before the commit
    commit: int | None = None  # records in a row with one number are one commit; without a number each is its own
    clock: int | None = None  # of the commit's writer; None: `ahead` is unlimited for it


@dataclass(frozen=True)
class EventRecord(CommittedRecord):
    offset: int
    id: str
    start: int
    end: int
    triples: frozenset[Triple]
    late: bool | None = None  # None: not decided yet
    stamped: bool = False  # it states no time: its interval is the commit's clock, or the frontier if that is later
    payload: bytes | None = None  # the document of an XML event


@dataclass(frozen=True)
class TickRecord(CommittedRecord):
    offset: int
    instant: int


@dataclass(frozen=True)
class SubscribeRecord(CommittedRecord):
    offset: int
    subscription: Subscription


@dataclass(frozen=True)
class UnsubscribeRecord(CommittedRecord):
    offset: int
    name: str


@dataclass(frozen=True)
class BackgroundRecord(CommittedRecord):
    offset: int
    added: frozenset[Triple] = frozenset()
    removed: frozenset[Triple] = frozenset()


@dataclass(frozen=True)
class RetractRecord(CommittedRecord):
    offset: int
    event: str


@dataclass(frozen=True)
class SettingsRecord(CommittedRecord):
    """All settings after it that say what a log means."""

    offset: int
    lateness: int | None
    ahead: int | None = UNITS["d"]
    entailment: str | None = None
    mappings: tuple[str, ...] = ()  # of XML documents, as a lake stores them


Record = (
    EventRecord | TickRecord | SubscribeRecord | UnsubscribeRecord | BackgroundRecord | RetractRecord | SettingsRecord
)


@dataclass(frozen=True)
class WrittenLog:
    """The accepted records of a log, each with the frontier before its commit, and the frontier after the last."""

    records: tuple[Record, ...]
    frontier: int | None


def write_log(records: Iterable[Record], lateness: int | None) -> WrittenLog:
    """The log that a writer makes of records, commit by commit; ``lateness`` is that before the first settings record.

    “A writer uses those in force before its commit”

    >>> first, second = (EventRecord(i, f"urn:e:{i}", 9 - i, 9 - i, frozenset()) for i in (1, 2))
    >>> [(event.frontier, event.late) for event in write_log([first, second], 0).records]
    [(None, False), (8, True)]
    >>> together = (replace(event, commit=1) for event in (first, second))
    >>> [(event.frontier, event.late) for event in write_log(together, 0).records]
    [(None, False), (None, False)]
    """
    settings = SettingsRecord(-1, lateness)
    written: list[Record] = []
    frontier: int | None = None
    for commit in commits(sorted(records, key=lambda record: record.offset)):
        known = {record.id for record in written if isinstance(record, EventRecord)}
        accepted = [_with_frontier(record, frontier) for record in _accepted(commit, known, settings)]
        written += accepted
        frontier = frontier_after(frontier, accepted, settings)
        settings = next((record for record in reversed(accepted) if isinstance(record, SettingsRecord)), settings)
    return WrittenLog(tuple(written), frontier)


def commits(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records by commit."""
    numbered = ((record.commit, None) if record.commit is not None else (None, record.offset) for record in records)
    for _, group in groupby(zip(numbered, records, strict=True), key=lambda pair: pair[0]):
        yield [record for _, record in group]


def _accepted(commit: Iterable[Record], known: set[str], settings: SettingsRecord) -> Iterator[Record]:
    """“**Repetition**: the same IRI with the same content. It is accepted once”; “**Conflict**: the same IRI with other
    content. What is in the log stays […]; in one input, and in `motet run`, the first.”

    “An event whose end is more than `ahead` […] after its writer's clock is rejected”. “A **tick** may not be later
    than the writer's clock plus `ahead`.”
    """
    for record in commit:
        limit = _latest(record.clock, settings)
        match record:
            case EventRecord() if record.id in known or (not record.stamped and record.end > limit):
                continue
            case TickRecord() if record.instant > limit:
                continue
            case EventRecord():
                known.add(record.id)
        yield record


def _latest(clock: int | None, settings: SettingsRecord) -> int:
    """The latest instant that a writer accepts."""
    return END_OF_TIME if clock is None or settings.ahead is None else clock + settings.ahead


def _with_frontier(record: Record, frontier: int | None) -> Record:
    """“Otherwise it is *stamped* with its writer's clock at the commit, or the frontier if that is later”"""
    if not isinstance(record, EventRecord):
        return replace(record, frontier=frontier)
    if record.stamped:
        clock = record.end if record.clock is None else record.clock
        time = clock if frontier is None else max(clock, frontier)
        record = replace(record, start=time, end=time)
    return replace(record, frontier=frontier, late=is_late(record.end, frontier))


def is_late(end: int, frontier: int | None) -> bool:
    """“An event whose `end` is below the frontier in force before its commit is **late** (after a tick at the end of
    time, every event)”

    >>> is_late(4, None), is_late(4, 4), is_late(4, 5), is_late(END_OF_TIME, END_OF_TIME)
    (False, False, True, True)
    """
    return frontier is not None and (end < frontier or frontier >= END_OF_TIME)


def frontier_after(frontier: int | None, commit: Sequence[Record], settings: SettingsRecord) -> int | None:
    """“**The frontier** after a commit, computed by its writer, is the greatest of: the frontier before; the ticks of
    the commit; and `min(E, clock) − lateness`, where E is the greatest `end` of its events that are neither late nor
    stamped […]. With `ahead` unlimited it is `E − lateness`; with `lateness` unlimited only ticks move it”
    """
    instants = [frontier, *(record.instant for record in commit if isinstance(record, TickRecord))]
    ends = [
        record.end if record.clock is None or settings.ahead is None else min(record.end, record.clock)
        for record in commit
        if isinstance(record, EventRecord) and not record.late and not record.stamped
    ]
    if ends and settings.lateness is not None:
        instants.append(max(max(ends) - settings.lateness, START_OF_TIME))
    return max((instant for instant in instants if instant is not None), default=None)
