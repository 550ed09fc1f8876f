"""Random queries over random lakes: compiled queries over zones and the tail of the log answer as section 13 says."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from motet.embedded.cloud import Cloud
from motet.fuzz.queries import LINKS, NODES, RandomQuery, random_triple
from motet.lake import Lake
from motet.model.batches import EventRow, event_batch
from motet.model.records import Tick
from motet.query import duckdb_engine, sql_engine
from motet.query.lake_query import QueryOptions, query_lake
from motet.sparql.algebra import Query
from motet.sparql.evaluate import SolutionSequence
from motet.sparql.sql import compile as compile_module
from motet.sparql.sql.compile import CompiledQuery

CASES = int(os.environ.get("MOTET_LAKE_QUERIES", "12"))
RDFS, OWL = "http://www.w3.org/2000/01/rdf-schema#", "http://www.w3.org/2002/07/owl#"
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
ONTOLOGY = [
    (LINKS[1], f"<{RDFS}subPropertyOf>", LINKS[0]),
    (LINKS[2], TYPE, f"<{OWL}TransitiveProperty>"),
    (LINKS[0], f"<{RDFS}domain>", NODES[0]),
    (NODES[0], LINKS[0], NODES[1]),
    (NODES[1], LINKS[2], NODES[2]),
]
SUBSCRIPTION = "SUBSCRIPTION d EVENT e { ?x <urn:p0> ?y } WHEN e CONSTRUCT { ?x <urn:p1> ?y . ?this <urn:p2> ?x }"
FROM = [
    "FROM <urn:motet:events>", "FROM <urn:motet:background>", "FROM <urn:g0>", "FROM <urn:g1>", "FROM <urn:none>",
    "FROM NAMED <urn:motet:events>", "FROM NAMED <urn:g0>", "FROM NAMED <urn:motet:background>",
    "FROM NAMED <urn:none>", "FROM <urn:motet:notifications>", "FROM NAMED <urn:motet:subscriptions>",
]  # fmt: skip


class RandomLake:
    """A lake of a few commits: events, retractions, changes of the background, a subscription, and zones."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random = random
        self.now = 0
        self.lake = Lake.open(folder, durable=False, clock=lambda: self.now, ahead=None)
        self.events: list[str] = []
        for _ in range(random.randint(1, 9)):
            self.now += random.randint(0, 3)
            self.step()

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.55 or not self.events:
            self._publish()
        elif chance < 0.7:
            self.lake.retract(self.random.choice(self.events))
        elif chance < 0.8:
            triples = self.random.sample(ONTOLOGY, self.random.randint(1, 3))
            self.lake.background(**{self.random.choice(["added", "added", "removed"]): triples})
        elif chance < 0.85:
            self.lake.append_controls([Tick(self.random.randint(0, 12))], force=True)
        elif chance < 0.92 and not self.lake.snapshot().count("subscribe"):
            self.lake.subscribe("d", SUBSCRIPTION)
        else:
            self.lake.build_zones(least=self.random.randint(1, 3), most=self.random.randint(3, 6))

    def _publish(self) -> None:
        rows = []
        for _ in range(self.random.randint(1, 3)):
            name, start = f"urn:g{len(self.events)}", self.random.randint(0, 9)
            self.events.append(name)
            triples = tuple(dict.fromkeys(random_triple(self.random) for _ in range(self.random.randint(1, 5))))
            rows.append(EventRow(name, start, start + self.random.randint(0, 2), triples))
        self.lake.append(event_batch(rows))

    def options(self) -> dict[str, Any]:
        """How a query reads it."""
        options: dict[str, Any] = {"entailment": self.random.choice([None, None, "none", "rdfs", "owl-rl"])}
        if self.random.random() < 0.4:
            options["as_of"] = self.random.randrange(self.lake.snapshot().next_offset)
        if self.random.random() < 0.4:
            first = self.random.randint(0, 9)
            last = first + self.random.randint(0, 5)
            options["span"] = tuple(f"1970-01-01T00:00:00.{at:06}Z" for at in (first, last))
        return options

    def query(self) -> str:
        text = RandomQuery(self.random, computes=False).text()
        if self.random.random() < 0.3:
            pair = "?a ?b ?c . ?d ?e ?f FILTER(<urn:motet:ns#{}>(?a, ?d))"
            text = (
                "SELECT ?a ?d { " + pair.format(self.random.choice(["before", "during", "equals", "overlaps"])) + " }"
            )
        if self.random.random() < 0.2:
            text = "SELECT ?a ?b { ?a <urn:motet:ns#start> ?b }"
        clauses = self.random.sample(FROM, self.random.choice([0, 0, 1, 2, 3]))
        return text.replace(" { ", f" {' '.join(clauses)} {{ ", 1)

    def answer(self, text: str, engine: Any, options: dict[str, Any]) -> tuple[Counter[Any], list[str]]:
        found = query_lake(self.lake, text, QueryOptions(**options, engine=engine), self.complete)
        assert isinstance(found.answer, SolutionSequence)
        return Counter(tuple(sorted(row.items())) for row in found.answer.rows), found.warnings

    def complete(self) -> None:
        with Cloud(self.lake) as cloud:
            cloud.flush()


@pytest.mark.parametrize("seed", range(CASES))
def test_duckdb_answers_as_the_plain_evaluation(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        lake = RandomLake(random, Path(folder) / "lake")
        for _ in range(4):
            text, options = lake.query(), lake.options()
            expected = lake.answer(text, "memory", options)
            assert lake.answer(text, "duckdb", options) == expected, (text, options)


def test_queries_of_one_version_share_a_connection_and_see_later_changes(tmp_path: Path) -> None:
    """The tables of a query are kept for the next one, until there is a commit, other options, or zones are deleted."""
    lake = Lake.open(tmp_path, durable=False, ahead=None)

    def count(**options: Any) -> int:
        found = query_lake(lake, "SELECT * { ?s <urn:p> ?o }", QueryOptions(**options), lambda: None).answer
        assert isinstance(found, SolutionSequence)
        return len(found.rows)

    for number in range(1, 4):
        lake.append(
            event_batch([EventRow(f"urn:g{number}", number, number, (("<urn:s>", "<urn:p>", f"<urn:{number}>"),))])
        )
        assert [count(), count()] == [number, number]
    connection = getattr(duckdb_engine._idle, "connection")  # noqa: B009
    assert count() == 3
    assert duckdb_engine._idle.connection is connection
    assert [count(as_of=2), count(span=("1970-01-01T00:00:00.000003Z", None)), count()] == [2, 1, 3]
    lake.build_zones(least=1)
    assert count() == 3
    for path in (tmp_path / "zones").iterdir():
        path.unlink()
    assert count() == 3
    lake.retract("urn:g1")
    assert count() == 2


def test_a_query_is_compiled_once_for_a_version_unless_it_has_the_current_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOW() is the instant of each query; other queries of the same tables are the same SQL."""
    times = iter(range(1_000_000, 9_000_000, 1_000_000))
    lake = Lake.open(tmp_path, durable=False, ahead=None, clock=lambda: next(times))
    lake.append(event_batch([EventRow("urn:g", 1, 1, (("<urn:s>", "<urn:p>", "<urn:o>"),))]))
    compiled: list[Query] = []

    def compile_query(query: Query, *arguments: Any, **options: Any) -> CompiledQuery:
        compiled.append(query)
        return sql_engine_compile(query, *arguments, **options)

    sql_engine_compile = compile_module.compile_query
    monkeypatch.setattr(sql_engine, "compile_query", compile_query)

    def rows(text: str) -> list[dict[str, str]]:
        found = query_lake(lake, text, QueryOptions(), lambda: None).answer
        assert isinstance(found, SolutionSequence)
        return [dict(row) for row in found.rows]

    assert rows("SELECT ?s { ?s <urn:p> ?o }") == rows("SELECT ?s { ?s <urn:p> ?o }") == [{"s": "<urn:s>"}]
    assert len(compiled) == 1
    first, second = rows("SELECT (NOW() AS ?t) { }"), rows("SELECT (NOW() AS ?t) { }")
    assert (len(compiled), first != second) == (3, True)


def test_missing_zone_files_are_ignored(tmp_path: Path) -> None:
    """The log is read instead."""
    lake = RandomLake(Random(1), tmp_path / "it's [a] *lake?")  # names are no patterns
    lake.lake.build_zones(least=1, most=2)
    query, options = "SELECT * { ?s ?p ?o }", {"entailment": "none"}
    expected = lake.answer(query, "memory", options)
    assert lake.answer(query, "duckdb", options) == expected
    for name in lake.lake.store.names("zones")[:1]:
        lake.lake.store.delete(name)
    assert lake.answer(query, "duckdb", options) == expected


def test_inferred_triples_are_stored_for_each_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second query reads them, also as of an earlier offset; a vacuum deletes those of an earlier background."""
    monkeypatch.setattr("motet.query.lake_tables.STORED_EVENTS", 1)
    random = RandomLake(Random(3), tmp_path / "lake")
    lake = random.lake
    lake.background(added=ONTOLOGY)
    query = "SELECT * { GRAPH ?g { ?s ?p ?o } }"
    files: list[str] = []
    for _ in range(3):
        random._publish()
        lake.retract(random.events[0])
        last = lake.snapshot().next_offset - 1
        for options in ({"entailment": "owl-rl"}, {"entailment": "owl-rl", "as_of": last}, {"entailment": "owl-rl"}):
            assert random.answer(query, "duckdb", options) == random.answer(query, "memory", options)
        assert len(lake.store.names("inferred")) > len(files)
        files = lake.store.names("inferred")
    lake.background(removed=ONTOLOGY[:1])
    random.now += 10**17
    assert set(files) <= set(lake.vacuum(older_than=0))
    assert random.answer(query, "duckdb", {}) == random.answer(query, "memory", {})
