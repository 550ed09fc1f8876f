"""Answers a query over a lake (language page, section 13)."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

from motet.lake import Lake, Snapshot
from motet.model.errors import EngineError, UsageError
from motet.model.intervals import Interval
from motet.model.settings import ENTAILMENTS
from motet.model.times import END_OF_TIME, START_OF_TIME, Instant, format_datetime, to_micros
from motet.query.answers import QueryResult, to_result
from motet.query.bindings import substituted, to_terms
from motet.query.history import AsOf, History, log_end, warnings_of, without_clause
from motet.query.limits import QueryLimits, time_limit
from motet.sparql.algebra import Query
from motet.sparql.parse import read_query
from motet.sparql.query import Answer, SolutionSequence, answer

Span = tuple[Instant | None, Instant | None]
LakeQueryEngine = Literal["duckdb", "memory"]
OnPercentage = Callable[[float], None]
Complete = Callable[[], None]  # computes and stores the notifications that the table of a lake lacks

MANY_TAIL_ROWS = 200_000  # triples in no zone

log = logging.getLogger("motet")
_last = threading.local()  # ``history``: that of the newest query of this thread


@dataclass(frozen=True)
class QueryOptions:
    """How a query over a lake is evaluated; None is what the lake and its newest commit say."""

    bindings: Mapping[str, object] = field(default_factory=dict)
    as_of: AsOf | None = None
    span: Span | None = None
    entailment: str | None = None
    engine: LakeQueryEngine = "duckdb"
    limits: QueryLimits = field(default_factory=QueryLimits)
    on_progress: OnPercentage | None = None  # gets the percentage that the engine has done, now and then

    def __post_init__(self) -> None:
        if not isinstance(self.bindings, Mapping):
            raise UsageError(
                f"bindings must map variables to values, not {self.bindings!r}",
                advice="Write {'room': '<urn:room:1>'}.",
            )
        if self.span is not None and not (isinstance(self.span, tuple | list) and len(self.span) == 2):
            raise UsageError(
                f"a span is a pair of instants, not {self.span!r}", advice="Write (start, end); one may be None."
            )
        if self.engine not in get_args(LakeQueryEngine):
            raise UsageError(f"{self.engine!r} is no engine of queries", advice="Use 'duckdb' or 'memory'.")
        if self.entailment is not None and self.entailment not in ENTAILMENTS:
            raise UsageError(f"{self.entailment!r} is no entailment", advice=f"Use one of {', '.join(ENTAILMENTS)}.")


class AnswerWithWarnings(NamedTuple):
    """An answer, and what the query names that its dataset lacks."""

    answer: Answer
    warnings: list[str]


def query_lake(
    lake: Lake, text: str, options: QueryOptions, complete: Complete, *, source: str | None = None
) -> AnswerWithWarnings:
    """Answer a query; ``complete`` is called if the query needs notifications that the lake has not stored yet."""
    if not isinstance(text, str):
        raise UsageError(f"a query is text, not {text!r}", advice="Write SELECT, ASK, CONSTRUCT or DESCRIBE.")
    query = substituted(read_query(text, source=source), to_terms(options.bindings))
    history = open_history(lake, query, options, complete)
    now = format_datetime(lake.clock())
    found = (
        _in_memory(history, query, now, options)
        if options.engine == "memory"
        else _on_duckdb(history, query, now, options)
    )
    options.limits.check_rows(answer_size(found.answer))
    return found


def _in_memory(history: History, query: Query, now: str, options: QueryOptions) -> AnswerWithWarnings:
    with time_limit(options.limits.seconds):
        dataset = history.dataset(query, now=now, random_bits=lambda: secrets.randbits(128))
        found = answer(without_clause(query), dataset)
    return AnswerWithWarnings(found, warnings_of(query, dataset.intervals.__contains__))


def _on_duckdb(history: History, query: Query, now: str, options: QueryOptions) -> AnswerWithWarnings:
    from motet.query.duckdb_engine import lake_connection

    is_reusable = query.dataset is None
    with lake_connection(history, options.limits, options.on_progress, is_reusable=is_reusable) as engine:
        found = engine.answer(query, options.limits, now=now)
        return AnswerWithWarnings(
            found, [*warnings_of(query, engine.tables.has_event), *_advice(engine.tables.report.tail_rows)]
        )


def _advice(tail_rows: int) -> list[str]:
    """What makes the next query quicker."""
    if tail_rows < MANY_TAIL_ROWS:
        return []
    return [f"{tail_rows} triples are in no zone yet and were read from the log: `motet compact` makes queries quicker"]


def query_result(lake: Lake, text: str, options: QueryOptions, complete: Complete) -> QueryResult:
    """As `query_lake`, for programs: rows, a graph or a bool; the warnings are logged and with the result."""
    found = query_lake(lake, text, options, complete)
    for warning in found.warnings:
        log.warning(warning)
    return to_result(found.answer, found.warnings)


def open_history(lake: Lake, query: Query, options: QueryOptions, complete: Complete) -> History:
    """What the query sees, with the notification table as far as the query needs it."""
    snapshot = lake.snapshot()
    stop = log_end(snapshot, options.as_of)
    span = _interval(options.span)
    history = _history(snapshot, stop, span, options.entailment)
    if snapshot.notifications_end >= stop or not history.needs_notifications(query):
        return history
    complete()
    return _history(_completed(lake, stop), stop, span, options.entailment)


def _history(snapshot: Snapshot, stop: int, span: Interval | None, entailment: str | None) -> History:
    """The history, perhaps that of this thread's last query, which has read its control records already."""
    last: History | None = getattr(_last, "history", None)
    if last is None or not last.is_same(snapshot, stop, span, entailment):
        last = _last.history = History(snapshot, stop, span=span, entailment=entailment)
    return last


def _completed(lake: Lake, stop: int) -> Snapshot:
    snapshot = lake.snapshot()
    if snapshot.notifications_end < stop:
        raise EngineError(
            f"the notifications of {lake.store.root} reach offset {snapshot.notifications_end}, not {stop}",
            advice="Wait until the pipeline has processed the log, or query as of an earlier offset.",
        )
    return snapshot


def _interval(span: Span | None) -> Interval | None:
    if span is None or span == (None, None):
        return None
    if not isinstance(span, tuple | list) or len(span) != 2:
        raise UsageError(f"the span is {span!r}", advice="Give a pair of instants, of which one may be None.")
    start, end = span
    interval = Interval(
        START_OF_TIME if start is None else to_micros(start), END_OF_TIME if end is None else to_micros(end)
    )
    if interval.start > interval.end:
        raise UsageError(
            f"the span begins at {format_datetime(interval.start)}, after its end {format_datetime(interval.end)}",
            advice="Give the earlier instant first (--from, then --to).",
        )
    return interval


def answer_size(found: Answer) -> int:
    """The number of rows or triples."""
    if isinstance(found, bool):
        return 1
    return len(found.rows) if isinstance(found, SolutionSequence) else len(found)
