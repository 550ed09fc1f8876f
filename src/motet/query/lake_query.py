"""Answers a query over a lake (language page, section 13), or explains it: its SQL, and the zones and bytes it reads.

Values that a program gives for variables are constants in the query, as SPARQL does for EXISTS.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, get_args

import pyarrow.parquet as pq

from motet.lake import Lake, Snapshot
from motet.lake.snapshot import DataFile
from motet.lake.store import Store
from motet.model.errors import EngineError, MotetError, UsageError
from motet.model.intervals import Interval
from motet.model.settings import ENTAILMENTS
from motet.model.terms import XSD, literal
from motet.model.times import END_OF_TIME, START_OF_TIME, Instant, format_datetime, to_micros
from motet.model.values import IRI
from motet.model.values import Literal as RdfLiteral
from motet.query.answers import QueryResult, to_result
from motet.query.duckdb_engine import lake_connection
from motet.query.history import AsOf, History, log_end, warnings_of, without_clause
from motet.query.limits import QueryLimits, time_limit
from motet.query.results import read_term
from motet.sparql import algebra
from motet.sparql.algebra import Query
from motet.sparql.evaluate import Answer, SolutionSequence, answer
from motet.sparql.parse import read_query
from motet.sparql.scope import variables_in_order
from motet.sparql.sql.scan import QuadScan

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


# Explanations


@dataclass(frozen=True)
class ExplainedScan:
    """What one scan reads of the zones; bytes are those of the needed columns of row groups that may have matches."""

    pattern: str
    zones: int
    row_groups: int
    rows: int
    bytes: int
    files: tuple[str, ...]


@dataclass(frozen=True)
class QueryExplanation:
    """The SQL of a query, its scans, and the size of what it could read."""

    sql: str
    scans: tuple[ExplainedScan, ...]
    zones: int  # that there are
    zone_bytes: int
    tail_rows: int  # triples of records in no zone, read from the log
    entailment: str

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    def to_text(self) -> str:
        """The explanation for people."""
        lines = [self.sql, ""]
        for scan in self.scans:
            share = f"{scan.bytes / self.zone_bytes:.1%} of the bytes" if self.zone_bytes else "no zones"
            lines.append(
                f"scan {scan.pattern}: {scan.zones} of {self.zones} zones, {scan.row_groups} row groups, "
                f"{scan.rows} rows, {scan.bytes} bytes ({share})"
            )
        lines.append(f"{self.tail_rows} triples are in no zone yet and are read from the log")
        lines.append(f"entailment: {self.entailment}")
        return "\n".join([*lines, ""])


def explain_query(lake: Lake, text: str, options: QueryOptions, complete: Complete) -> QueryExplanation:
    """Compile a query without running it, and look up what its scans read."""
    query = substituted(read_query(text), to_terms(options.bindings))
    history = open_history(lake, query, options, complete)
    with lake_connection(history, options.limits) as connection:
        sql = connection.sql(query, now=format_datetime(lake.clock()))
        report = connection.tables.report
        scans = [_explained(lake.store, scan, zones) for scan, zones in report.scans]
        zone_bytes = sum(zone.size for zone in connection.tables.zones)
        return QueryExplanation(
            sql, tuple(dict.fromkeys(scans)), len(connection.tables.zones), zone_bytes, report.tail_rows,
            history.entailment.value,
        )  # fmt: skip


def _explained(store: Store, scan: QuadScan, zones: Sequence[DataFile]) -> ExplainedScan:
    read = list(_row_groups(store, scan, zones))
    rows, size = sum(rows for rows, _ in read), sum(size for _, size in read)
    return ExplainedScan(_pattern(scan), len(zones), len(read), rows, size, tuple(zone.name for zone in zones))


def _row_groups(store: Store, scan: QuadScan, zones: Sequence[DataFile]) -> Iterator[tuple[int, int]]:
    """The row groups that a scan reads: their rows, and the bytes of their needed columns."""
    needed = {*scan.columns, "first", *(name for name, terms in _terms(scan) if terms is not None)}
    for zone in zones:
        metadata = pq.read_metadata(store.path(zone.name))
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            columns = {group.column(number).path_in_schema: group.column(number) for number in range(group.num_columns)}
            if _may_match(columns, scan):
                yield group.num_rows, sum(columns[name].total_compressed_size for name in needed)


def _may_match(columns: dict[str, Any], scan: QuadScan) -> bool:
    for name, terms in _terms(scan):
        statistics = columns[name].statistics
        if terms is None or statistics is None or not statistics.has_min_max:
            continue
        if not any(statistics.min <= term <= statistics.max for term in terms):
            return False
    for limits in scan.ranges:
        statistics = columns[limits.column].statistics
        if statistics is None or not statistics.has_min_max:
            continue
        if limits.upper is not None and statistics.min > limits.upper:
            return False
        if limits.lower is not None and statistics.max < limits.lower:
            return False
    return True


def _terms(scan: QuadScan) -> tuple[tuple[str, tuple[str, ...] | None], ...]:
    return (("s", scan.subjects), ("p", scan.predicates), ("o", scan.objects))


def _pattern(scan: QuadScan) -> str:
    """The triple pattern of a scan, with its place unless that is the default graph."""
    places = [
        f"?{name}" if terms is None else terms[0] if len(terms) == 1 else f"({' | '.join(terms)})"
        for name, terms in _terms(scan)
    ]
    limits = "".join(f" [{limit.column}: {limit.lower} … {limit.upper}]" for limit in scan.ranges)
    graph = "" if scan.place == "default" else "GRAPH ?g " if scan.place == "named" else f"GRAPH {scan.place} "
    return graph + " ".join(places) + limits


# Given terms


GivenTerms = Mapping[str, str]
TRUE = algebra.Constant('"true"^^<http://www.w3.org/2001/XMLSchema#boolean>')


def substituted(query: algebra.Query, bindings: GivenTerms) -> algebra.Query:
    """The query with terms instead of some variables; a projected one is bound to its term in every solution.

    In a subquery only variables that it projects are replaced.

    >>> from motet.sparql.parse import read_query
    >>> substituted(read_query("ASK { ?e <urn:in> ?room }"), {"room": "<urn:r>"}).pattern
    Bgp(triples=(Triple(subject='?e', predicate='<urn:in>', object='<urn:r>'),))
    """
    if not bindings:
        return query
    names = set(variables_in_order(query.pattern))
    unknown = sorted(bindings.keys() - names)
    if unknown:
        known = ", ".join(f"?{name}" for name in sorted(names) if not algebra.is_hidden(name)) or "none"
        raise UsageError(f"the query has no variable ?{unknown[0]}", advice=f"Its variables are: {known}.")
    walk = _Substitution(bindings, is_outermost=True)
    changed: algebra.Query = replace(query, pattern=walk.of(query.pattern))
    if isinstance(changed, algebra.ConstructQuery):
        return replace(changed, template=walk.of(changed.template))
    if isinstance(changed, algebra.DescribeQuery):
        return replace(changed, targets=tuple(map(walk.place, changed.targets)))
    return changed


class _Substitution:
    def __init__(self, bindings: GivenTerms, *, is_outermost: bool = False) -> None:
        self._bindings = bindings
        self._is_outermost = is_outermost

    def of(self, tree: Any) -> Any:  # noqa: PLR0911  (one return for each kind)
        match tree:
            case algebra.Triple(subject, predicate, obj):
                changed = predicate if not isinstance(predicate, str) else self.place(predicate)
                return algebra.Triple(self.place(subject), changed, self.place(obj))
            case algebra.Variable(name):
                return algebra.Constant(self._bindings[name]) if name in self._bindings else tree
            case algebra.Bound(name):
                return TRUE if name in self._bindings else tree
            case algebra.Extend(operand, name, expression):
                self._refuse_assigned(name)
                return algebra.Extend(self.of(operand), name, self.of(expression))
            case algebra.Values(names, _):
                for name in names:
                    self._refuse_assigned(name)
                return tree
            case algebra.NamedGraph(name, pattern):
                return algebra.NamedGraph(self.place(name), self.of(pattern))
            case algebra.Project(operand, names):
                return algebra.Project(self._projected(operand, names), names)
            case algebra.Group(operand, keys, aggregates):
                pairs = tuple((name, self.of(aggregate)) for name, aggregate in aggregates)
                return algebra.Group(self._bound(self.of(operand), keys), keys, pairs)
            case tuple():
                return tuple(map(self.of, tree))
            case str() | int() | None:
                return tree
        return type(tree)(*(self.of(getattr(tree, name)) for name in tree.__match_args__))

    def place(self, term: str) -> str:
        """A place of a triple."""
        name = algebra.variable_name(term)
        return term if name is None else self._bindings.get(name, term)

    def _projected(self, operand: algebra.Algebra, names: tuple[str, ...]) -> algebra.Algebra:
        visible = self._bindings
        if not self._is_outermost:
            visible = {name: term for name, term in visible.items() if name in names}
        self._is_outermost = False
        inner = _Substitution(visible)
        changed: algebra.Algebra = inner.of(operand)
        group = _modified(changed)
        bound_below = group.keys if isinstance(group, algebra.Group) else ()
        return inner._bound(changed, tuple(name for name in names if name not in bound_below))

    def _bound(self, pattern: algebra.Algebra, names: tuple[str, ...]) -> algebra.Algebra:
        for name in names:
            if name in self._bindings:
                pattern = algebra.Extend(pattern, name, algebra.Constant(self._bindings[name]))
        return pattern

    def _refuse_assigned(self, name: str) -> None:
        if name in self._bindings:
            raise UsageError(
                f"?{name} is assigned in the query, by BIND, AS or VALUES, and cannot be given",
                advice="Leave it out of the bindings, or rename it in the query.",
            )


def _modified(pattern: algebra.Algebra) -> algebra.Algebra:
    """What the modifiers and expressions of a query are applied to."""
    while isinstance(pattern, algebra.OrderBy | algebra.Extend | algebra.Filter):
        pattern = pattern.operand
    return pattern


def to_terms(bindings: Mapping[str, object]) -> dict[str, str]:
    """Values for variables as terms: RDF terms as text, and Python numbers, truth values, dates and datetimes.

    >>> to_terms({"?room": "<urn:r:1>", "label": '"hall"@en'})
    {'room': '<urn:r:1>', 'label': '"hall"@en'}
    """
    return {name.removeprefix("?"): _term(name, value) for name, value in bindings.items()}


def _term(name: str, value: object) -> str:
    if isinstance(value, IRI | RdfLiteral):
        return value.n3
    term = _read(value) if isinstance(value, str) else _written(value)
    if term is None:
        raise UsageError(
            f"the value {value!r} of ?{name.removeprefix('?')} is no RDF term",
            advice="Give an IRI as '<urn:room:1>' or IRI('urn:room:1'), text as '\"hall\"', a number or a datetime.",
        )
    return term


def _read(text: str) -> str | None:
    try:
        return read_term(text)
    except MotetError:
        return None


def _written(value: object) -> str | None:  # noqa: PLR0911  (one return for each kind of value)
    match value:
        case bool():
            return literal(str(value).lower(), datatype=XSD + "boolean")
        case int():
            return literal(str(value), datatype=XSD + "integer")
        case float():
            return literal(repr(value).replace("inf", "INF").replace("nan", "NaN"), datatype=XSD + "double")
        case Decimal() if value.is_finite():
            return literal(f"{value:f}", datatype=XSD + "decimal")
        case datetime():
            return literal(value.isoformat().replace("+00:00", "Z"), datatype=XSD + "dateTime")
        case date():
            return literal(value.isoformat(), datatype=XSD + "date")
    return None
