"""The topics of a lake: the classes of its events, with the properties and datatypes that their events have had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from motet.lake import Snapshot
from motet.model.terms import RDF, RDF_TYPE, XSD, iri_value, is_iri
from motet.model.times import format_datetime
from motet.query.duckdb_engine import lake_connection
from motet.query.history import History
from motet.query.limits import QueryLimits
from motet.sparql.sql.dialects import write_sql
from motet.sparql.sql.scan import QuadScan

PRODUCERS = (  # properties whose values are shown as producers
    "http://www.w3.org/ns/sosa/madeBySensor",
    "http://www.w3.org/ns/prov#wasAttributedTo",
    "http://www.w3.org/ns/prov#wasAssociatedWith",
    "http://purl.org/dc/terms/creator",
    "http://purl.org/dc/terms/publisher",
)
MAX_PRODUCERS = 20  # of one class, those with the most events
_DATATYPE = f"""CASE WHEN okind = 1 THEN 'IRI' WHEN okind = 2 THEN 'blank node' WHEN okind = 4 THEN '{RDF}langString'
  WHEN ends_with(o, '"') THEN '{XSD}string' ELSE regexp_extract(o, '"\\^\\^<([^<>]*)>$', 1) END"""


@dataclass
class Topic:
    """A class of events: subjects of the class in an event make it one of the topic."""

    name: str
    events: int
    start: str  # of the earliest event
    end: str  # of the latest event
    properties: dict[str, dict[str, int]] = field(default_factory=dict)  # by datatype of their values: rows
    producers: dict[str, int] = field(default_factory=dict)  # with their numbers of events

    def to_json(self) -> dict[str, object]:
        fields = asdict(self)
        return {"class": fields.pop("name"), **fields}


def find_topics(snapshot: Snapshot, limits: QueryLimits | None = None) -> list[Topic]:
    """The topics of the visible events, the largest first. Inferred classes are left out."""
    history = History(snapshot, snapshot.next_offset, entailment="none")
    with lake_connection(history, limits or QueryLimits()) as lake:
        dataset = lake.tables.selected(None)
        columns = frozenset({"off", "s", "p", "o", "okind"})
        quads = write_sql(dataset.scan(QuadScan("named", columns)), "duckdb")  # type: ignore[arg-type]
        events = write_sql(dataset.events(), "duckdb")
        lake.connection.execute(f"CREATE TEMP TABLE q AS {quads}")
        lake.connection.execute(f"CREATE TEMP TABLE e AS {events}")
        lake.connection.execute(_TYPED)
        topics = {row[0]: Topic(_plain(row[0]), *_times(row)) for row in _rows(lake.connection, _CLASSES)}
        for name, predicate, datatype, count in _rows(lake.connection, _PROPERTIES):
            topics[name].properties.setdefault(_plain(predicate), {})[datatype] = count
        for name, producer, count in _rows(lake.connection, _PRODUCED):
            if len(topics[name].producers) < MAX_PRODUCERS:
                topics[name].producers[_plain(producer)] = count
    return list(topics.values())


def find_names(snapshot: Snapshot, limits: QueryLimits | None = None) -> list[str]:
    """The IRIs of the classes and properties of the visible events, sorted."""
    history = History(snapshot, snapshot.next_offset, entailment="none")
    scans = {"o": QuadScan("named", frozenset({"o"}), predicates=(RDF_TYPE,)), "p": QuadScan("named", frozenset({"p"}))}
    with lake_connection(history, limits or QueryLimits()) as lake:
        dataset = lake.tables.selected(None)
        terms = {
            term
            for column, scan in scans.items()
            for (term,) in _rows(
                lake.connection,
                f"SELECT DISTINCT {column} FROM ({write_sql(dataset.scan(scan), 'duckdb')})",  # noqa: S608
            )
        }
    return sorted(iri_value(term) for term in terms if is_iri(term))


_TYPED = f"CREATE TEMP TABLE t AS SELECT DISTINCT off, s, o AS class FROM q WHERE p = '{RDF_TYPE}'"  # noqa: S608
_CLASSES = """SELECT class, count(DISTINCT t.off), min(start_), max(end_) FROM t JOIN e ON t.off = e.off
  GROUP BY class ORDER BY 2 DESC, 1"""
_PROPERTIES = f"""SELECT class, p, {_DATATYPE} AS datatype, count(*) FROM t JOIN q ON t.off = q.off AND t.s = q.s
  WHERE p <> '{RDF_TYPE}' GROUP BY ALL ORDER BY 1, 2, 4 DESC, 3"""  # noqa: S608  (constants)
_PRODUCED = f"""SELECT class, o, count(DISTINCT t.off) FROM t JOIN q ON t.off = q.off
  WHERE p IN ({", ".join(f"'<{name}>'" for name in PRODUCERS)}) GROUP BY ALL ORDER BY 1, 3 DESC, 2"""  # noqa: S608


def _rows(connection: Any, sql: str) -> Iterator[tuple[Any, ...]]:
    yield from connection.execute(sql).fetchall()


def _times(row: tuple[Any, ...]) -> tuple[int, str, str]:
    return row[1], format_datetime(row[2]), format_datetime(row[3])


def _plain(term: str) -> str:
    return iri_value(term) if is_iri(term) else term
