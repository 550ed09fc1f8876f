"""Counts how often random cases exercise each operator, by context and by points or intervals, and each kind of log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field

from motet import reference
from motet.fuzz.case import Case
from motet.fuzz.documents import MINTED
from motet.language.check import operator_text
from motet.language.scope import children, nodes
from motet.language.syntax import Context, No, Pattern, Run, Subscription, Times
from motet.model.intervals import Relation
from motet.model.times import END_OF_TIME

OPERATORS = (
    "LEAF", "AND", "ALONGSIDE", *(relation.value for relation in Relation), "OR", "XOR", "WITHIN", "FILTER", "UNLESS",
    "WITHOUT", "NO", "{n}", "{n} EVERY", "+ EVERY",
)  # fmt: skip
KINDS = ("points", "intervals")

LOG_KINDS = (
    "late event", "stamped event", "event without IRI", "XML event", "XML event without IRI", "repetition", "conflict",
    "event ahead", "tick",
    "tick before the clock", "frontier capped by the clock", "change of settings", "clocks of several writers",
    "commit of several events", "upgraded lake", "NO from SINCE", "NO from the frontier", "NO from the first event",
    "NO of an upgraded lake",
)  # fmt: skip

Cell = tuple[str, str, str]  # operator, context, points or intervals


@dataclass
class Coverage:
    """``exercised`` counts runs in which every operand of an operator has occurrences; ``with_notifications`` those of
    them that have notifications.
    """

    exercised: Counter[Cell] = field(default_factory=Counter)
    with_notifications: Counter[Cell] = field(default_factory=Counter)
    logs: Counter[str] = field(default_factory=Counter)  # by kind
    logs_with_notifications: Counter[str] = field(default_factory=Counter)

    def add_log(self, case: Case, *, has_notifications: bool) -> None:
        """Count the kinds of a log."""
        kinds = log_kinds(case)
        self.logs.update(kinds)
        self.logs_with_notifications.update(kinds if has_notifications else ())

    def add(
        self, case: Case, subscription: Subscription, active_patterns: Container[Pattern], *, has_notifications: bool
    ) -> None:
        """Count the operators of a subscription whose operands are all among ``active_patterns``."""
        kind = KINDS[any(event.start < event.end for event in case.events)]
        for operator in {name for name, node in operators(subscription.pattern) if _has_inputs(node, active_patterns)}:
            cell = (operator, subscription.context.value, kind)
            self.exercised[cell] += 1
            self.with_notifications[cell] += has_notifications

    def merge(self, other: Coverage) -> None:
        self.exercised += other.exercised
        self.with_notifications += other.with_notifications
        self.logs += other.logs
        self.logs_with_notifications += other.logs_with_notifications

    def log_rows(self) -> list[dict[str, object]]:
        """The number of logs of each kind, including zeros."""
        counts = ((kind, self.logs[kind], self.logs_with_notifications[kind]) for kind in LOG_KINDS)
        return [dict(zip(("kind", "logs", "notified"), row, strict=True)) for row in counts]

    @property
    def rarest(self) -> int:
        """The least count of the cells of all operators that were exercised."""
        exercised = {operator for operator, _, _ in self.exercised}
        counts = [row["cases"] for row in self.rows() if row["operator"] in exercised]
        return min((int(str(count)) for count in counts), default=0)

    def rows(self, contexts: tuple[Context, ...] = tuple(Context)) -> list[dict[str, object]]:
        """The counts of all cells, including zeros."""
        cells = [(operator, context.value, kind) for operator in OPERATORS for context in contexts for kind in KINDS]
        names = ("operator", "context", "kind", "cases", "notified")
        return [
            dict(zip(names, (*cell, self.exercised[cell], self.with_notifications[cell]), strict=True))
            for cell in cells
        ]


def operators(pattern: Pattern) -> Iterator[tuple[str, Pattern]]:
    """The operators of a pattern with their names in the report.

    >>> from motet.language.syntax import Leaf
    >>> [name for name, _ in operators(Times(Leaf("a"), 2))]
    ['{n}', 'LEAF']
    """
    for node, _ in nodes(pattern):
        match node:
            case Times(gap=gap):
                yield "{n}" if gap is None else "{n} EVERY", node
            case Run():
                yield "+ EVERY", node
            case _:
                yield operator_text(node), node


def _has_inputs(node: Pattern, active_patterns: Container[Pattern]) -> bool:
    return all(operand in active_patterns for operand in children(node))


def log_kinds(case: Case) -> set[str]:
    """The kinds of a log, of `LOG_KINDS`, by the reference engine's writer."""
    written = reference.write_log(case.records, case.lateness).records
    accepted = {record.offset: record for record in written}
    return {
        kind
        for record in case.records
        for kind in [
            *(_event_kinds(record, accepted) if isinstance(record, reference.EventRecord) else ()),
            *(_tick_kinds(record) if isinstance(record, reference.TickRecord) else ()),
            *(_absence_kinds(accepted[record.offset], case) if isinstance(record, reference.SubscribeRecord) else ()),
        ]
    } | set(_commit_kinds(case))


def _event_kinds(event: reference.EventRecord, accepted: Mapping[int, reference.Record]) -> Iterator[str]:
    stored = accepted.get(event.offset)
    if isinstance(stored, reference.EventRecord):
        yield from ("late event" for _ in [0] if stored.late)
        yield from ("stamped event" for _ in [0] if stored.stamped)
        kind = "event" if stored.payload is None else "XML event"
        yield from (f"{kind} without IRI" for _ in [0] if stored.id.startswith(MINTED))
        yield from ("XML event" for _ in [0] if stored.payload is not None)
        clock = END_OF_TIME if event.clock is None else event.clock
        yield from ("frontier capped by the clock" for _ in [0] if not stored.stamped and event.end > clock)
        return
    earlier = [each for each in accepted.values() if isinstance(each, reference.EventRecord) and each.id == event.id]
    if not earlier or earlier[0].offset > event.offset:
        yield "event ahead"
    else:
        is_equal = (earlier[0].triples, earlier[0].payload) == (event.triples, event.payload)
        yield "repetition" if is_equal else "conflict"


def _tick_kinds(tick: reference.TickRecord) -> Iterator[str]:
    yield "tick"
    if tick.clock is not None and tick.instant <= tick.clock:
        yield "tick before the clock"


def _absence_kinds(record: reference.Record, case: Case) -> Iterator[str]:
    """Where the absences of a subscription begin."""
    assert isinstance(record, reference.SubscribeRecord)
    settings = [each.offset for each in case.records if isinstance(each, reference.SettingsRecord)]
    if any(isinstance(node, No) for node, _ in nodes(record.subscription.pattern)):
        if record.subscription.since is not None:
            yield "NO from SINCE"
        elif settings and record.offset < settings[0]:
            yield "NO of an upgraded lake"
        else:
            yield "NO from the first event" if record.frontier is None else "NO from the frontier"


def _commit_kinds(case: Case) -> Iterator[str]:
    settings = [record.offset for record in case.records if isinstance(record, reference.SettingsRecord)]
    clocks = [record.clock for record in case.records if record.clock is not None]
    commits = Counter(event.commit for event in case.events if event.commit is not None)
    yield from ("change of settings" for _ in settings[1:2])
    yield from ("upgraded lake" for offset in settings[:1] if offset)
    yield from ("clocks of several writers" for _ in [0] if sorted(clocks) != clocks)
    yield from ("commit of several events" for _ in [0] if max(commits.values(), default=1) > 1)
