"""Patterns over DataFrames have the matches of the reference engine, in batch and as a stream, on any session."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import motet
from motet.language.parse import parse
from motet.model.errors import UsageError
from motet.model.terms import XSD, iri, literal, literal_parts
from motet.model.times import END_OF_TIME
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate
from motet.spark import detect, detect_end
from motet.spark.frames.detect import (
    PROVIDER,
    SHUFFLE_PARTITIONS,
    STATE_PARTITIONS,
    STREAM_BUCKETS,
    batch_buckets,
    prepare_stream,
    spark_duration,
    stream_buckets,
)
from motet.spark.java import find_java
from motet.spark.session import ROCKSDB

SCHEMA = "n long, begin timestamp, finish timestamp, room string, next string, kind string, celsius double, level int"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SMOKE, HEAT = '{ ?a :room ?r ; :kind "smoke" }', '{ ?b :room ?r ; :kind "heat" }'
PATTERNS = f"""
SUBSCRIPTION pair EVENT a {SMOKE} EVENT b {{ ?b :room ?r ; :celsius ?c FILTER(?c > 40) }} WHEN a BEFORE b WITHIN 60 s
SUBSCRIPTION absence EVENT a {SMOKE} EVENT b {HEAT} WHEN a UNLESS b WITHIN 30 s SELECT ?r ?a
SUBSCRIPTION three EVENT a {SMOKE} WHEN a{{3}} WITHIN 5 min SELECT ?r
SUBSCRIPTION inside EVENT a {SMOKE} EVENT b {HEAT} WHEN a DURING b WITHIN 2 min CONTEXT unrestricted SELECT ?a ?b ?r
SUBSCRIPTION optional EVENT a {{ ?a :room ?r ; :kind "drill" OPTIONAL {{ ?a :level ?l }} }} EVENT b {HEAT}
  WHEN a AND b WITHIN 20 s CONTEXT chronicle
SUBSCRIPTION anywhere EVENT a {{ ?a :level 3 }} EVENT b {{ ?b :level 4 }} WHEN a BEFORE b WITHIN 20 s
SUBSCRIPTION onwards EVENT a {{ ?a :room ?x ; :next ?y }} EVENT b {{ ?b :room ?y ; :next ?z }}
  WHEN a OVERLAPS b WITHIN 60 s CONTEXT unrestricted SELECT ?x ?y ?z ?a ?b
SUBSCRIPTION alone EVENT a {{ ?a :level ?l FILTER(?l > 3) }} WHEN a
SUBSCRIPTION quiet EVENT a {SMOKE} WHEN NO a FOR 10 s
SUBSCRIPTION never EVENT a {{ ?a :kind "flood" }} WHEN NO a FOR 10 s
"""

Row = dict[str, Any]
Match = tuple[str, datetime, datetime, frozenset[int], frozenset[tuple[str, object]]]


def day(count: int) -> list[Row]:
    """Rows that follow each other within seconds, some of them long, with nulls here and there."""
    chance = random.Random(3)
    rows = []
    for n in range(count):
        begin = NOON + timedelta(seconds=4 * n + chance.randint(-6, 6))
        finish = chance.choice([None, begin, begin + timedelta(seconds=chance.randint(1, 40))])
        kind = chance.choice(["smoke", "heat", "drill"])
        celsius = chance.choice([None, 35.5, 60.25])
        level = chance.choice([None, 3, 4])
        row = (
            n,
            begin,
            finish,
            chance.choice(["lab", "hall", None]),
            chance.choice(["lab", "hall"]),
            kind,
            celsius,
            level,
        )
        rows.append(dict(zip([one.split()[0] for one in SCHEMA.split(", ")], row, strict=True)))
    return rows


def frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def event(offset: int, row: Row) -> EventRecord:
    """A row as the event it stands for."""
    types = {"celsius": XSD + "double", "level": XSD + "integer"}
    subject = f"row:{row['n']}"
    triples = {
        (iri(subject), iri(f"column:{name}"), literal(str(row[name]), datatype=types.get(name)))
        for name in ("room", "next", "kind", "celsius", "level")
        if row[name] is not None
    }
    return EventRecord(offset, subject, micros(row["begin"]), micros(row["finish"] or row["begin"]), frozenset(triples))


def expected(rows: Sequence[Row], text: str) -> set[Match]:
    """By the definitions of the language page."""
    subscriptions = parse("PREFIX : <column:> " + text)
    first = len(subscriptions)
    records: list[Record] = [
        *(SubscribeRecord(offset, one) for offset, one in enumerate(subscriptions)),
        *(event(first + offset, row) for offset, row in enumerate(rows)),
        TickRecord(first + len(rows), END_OF_TIME),
    ]
    found = evaluate(records, ontology=frozenset(), entailment="none", lateness=None)
    return {
        (
            one.subscription,
            EPOCH + timedelta(microseconds=one.start_micros),
            EPOCH + timedelta(microseconds=one.end_micros),
            frozenset(int(id_.removeprefix("row:")) for id_ in one.events),
            frozenset((name, meant(term)) for name, term in one.bindings),
        )
        for one in found
    }


def meant(term: str) -> object:
    """A term as the value it came from."""
    if term.startswith("<row:"):
        return int(term[5:-1])
    text, datatype, _ = literal_parts(term)
    return {"double": float, "integer": int}.get(datatype.removeprefix(XSD), str)(text)


def matches(found: DataFrame) -> set[Match]:
    rows = [row.asDict() for row in found.collect()]
    result = {
        (
            row.get("subscription", "matches"),
            row["start"].replace(tzinfo=UTC),
            row["end"].replace(tzinfo=UTC),
            frozenset(row["events"]),
            frozenset(pair for pair in list(row.items())[4 if "subscription" in row else 3 :] if pair[1] is not None),
        )
        for row in rows
    }
    assert len(result) == len(rows), "each match once"
    return result


def test_subscriptions_over_columns_find_what_the_reference_finds(spark: SparkSession) -> None:
    """Pairs, absence, iterations, intervals, unbound variables; by one key, by two, and without one. “In `detect` [the
    beginning] is the least time of the rows”.
    """
    rows = day(70)
    wanted = expected(rows, PATTERNS)
    assert {name for name, *_ in wanted} == {one.name for one in parse("PREFIX : <column:> " + PATTERNS)}
    shuffled = random.Random(1).sample(rows, len(rows))
    found = detect(frame(spark, shuffled), PATTERNS, start="begin", end="finish", id="n", buckets=3)
    assert matches(found) == wanted


def test_a_pattern_over_conditions_of_spark(spark: SparkSession) -> None:
    """A pattern over conditions is the subscription that tests the same: nulls are unbound, as keys nothing."""
    rows = day(70)
    pattern = "(a BEFORE b WITHIN 60 s) FILTER(?a_celsius < ?b_celsius) SELECT ?a ?b ?b_level"
    text = """SUBSCRIPTION matches EVENT a { ?a :room ?r ; :kind "smoke" OPTIONAL { ?a :celsius ?x } }
      EVENT b { ?b :room ?r OPTIONAL { ?b :celsius ?y } OPTIONAL { ?b :level ?b_level }
        FILTER(?k != "smoke") ?b :kind ?k }
      WHEN (a BEFORE b WITHIN 60 s) FILTER(?x < ?y) SELECT ?r ?a ?b ?b_level"""
    found = detect(
        frame(spark, rows),
        pattern,
        events={"a": "kind = 'smoke'", "b": f.col("kind") != "smoke"},
        by="room",
        start="begin",
        end="finish",
        id="n",
    )
    wanted = expected(rows, text)
    assert any("b_level" not in dict(bound) for *_, bound in wanted)
    assert matches(found.withColumnRenamed("room", "r")) == wanted


def test_variables_have_the_types_of_their_columns(spark: SparkSession) -> None:
    """Every simple type keeps its values; equal numbers join across types of different precision."""
    schema = "id string, t timestamp, b boolean, i tinyint, x float, p decimal(10,2), q decimal(6,1), d date"
    schema += ", z timestamp_ntz"
    values = (True, -3, 1.5, Decimal("2.50"), Decimal("2.5"), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4, 5, 600))
    rows = [("a b/ü", NOON, *values), ('"c"\n', NOON + timedelta(seconds=1), *values), ("d", NOON, *[None] * 7)]
    select = "?a ?b ?v ?w ?x ?y ?s ?z ?from ?to ?p"
    text = f"""EVENT a DURING ?from ?to {{ ?a :b ?v ; :i ?w ; :x ?x ; :d ?y ; :t ?s ; :z ?z ; :p ?p }}
      EVENT b {{ ?b :q ?p }} WHEN a BEFORE b WITHIN 1 s SELECT {select}"""
    found = detect(spark.createDataFrame(rows, schema), text, start="t", id="id")
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types == {
        **{"start": "timestamp", "end": "timestamp", "events": "array<string>", "a": "string", "b": "string"},
        **{"v": "boolean", "w": "tinyint", "x": "float", "y": "date", "s": "timestamp", "z": "timestamp_ntz"},
        **{"from": "timestamp", "to": "timestamp", "p": "string"},
    }
    noon, (ok, small, real, _, _, day_, naive) = NOON.replace(tzinfo=None), values
    later = noon + timedelta(seconds=1)
    first, second = "a b/ü", '"c"\n'
    assert [tuple(row) for row in found.collect()] == [
        (noon, later, [second, first], first, second, ok, small, real, day_, noon, naive, noon, noon, "2.5")
    ]


def test_a_stream_finds_what_a_batch_finds(spark: SparkSession, tmp_path: Path) -> None:
    """File by file with a watermark, absence included; a batch without rows can end a match."""
    rows = day(60)
    last = {**rows[-1], "n": 999, "begin": NOON + timedelta(days=1), "finish": None, "kind": "nothing"}
    for number, part in enumerate([rows[:25], rows[25:50], [*rows[50:], last]]):
        path = tmp_path / "in" / f"{number}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(json.dumps(row, default=datetime.isoformat) for row in part))
        os.utime(path, (number, number))
    pattern = "(smoke BEFORE heat WITHIN 60 s) UNLESS drill WITHIN 10 s SELECT ?smoke ?heat ?heat_celsius"
    events = {kind: f"kind = '{kind}'" for kind in ("smoke", "heat", "drill")}
    asked: dict[str, Any] = {"events": events, "by": "room", "start": "begin", "end": "finish", "id": "n", "buckets": 2}
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    found = detect(stream, pattern, lateness="1 min", **asked)
    writing = found.writeStream.format("memory").queryName("found").option("checkpointLocation", str(tmp_path / "c"))
    writing.trigger(availableNow=True).start().awaitTermination()
    wanted = matches(detect(frame(spark, rows), pattern, **asked))
    assert wanted and matches(spark.table("found")) == wanted
    partitions = {path.name for path in (tmp_path / "c" / "state" / "0").iterdir()} - {"_metadata", "_stateSchema"}
    assert partitions == {"0", "1"}, "a stream has the requested buckets"


@pytest.mark.parametrize(
    ("lateness", "spark_text"),
    [("1 min", "60000 milliseconds"), (timedelta(seconds=2), "2000 milliseconds"), ("10 seconds", "10 seconds")],
)
def test_lateness_is_a_duration_of_motet_or_of_spark(lateness: str | timedelta, spark_text: str) -> None:
    """`1 min` is no duration of Spark, and is one here."""
    assert spark_duration(lateness) == spark_text


@pytest.mark.parametrize("lateness", ["soon", "1 fortnight", timedelta(seconds=-1)])
def test_what_is_no_lateness_is_refused(spark: SparkSession, lateness: str | timedelta) -> None:
    """The error names the argument and a duration."""
    stream = spark.readStream.format("rate").load()
    with pytest.raises(UsageError, match=r"(?s)lateness=.*write a duration such as '10 s'"):
        detect(stream, "EVENT a { ?a :value 1 } WHEN a", start="timestamp", lateness=lateness)


def test_the_end_of_a_stream_decides_the_last_absences(spark: SparkSession, tmp_path: Path) -> None:
    """An availableNow stream and its end have the matches of a batch, each once; nothing else is accepted as state."""
    (tmp_path / "in").mkdir()
    rows = day(40)
    text = "\n".join(json.dumps(row, default=datetime.isoformat) for row in rows)
    (tmp_path / "in" / "0.json").write_text(text)
    stream = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    pattern, checkpoint = "smoke UNLESS heat WITHIN 30 s", tmp_path / "c"
    events = {kind: f"kind = '{kind}'" for kind in ("smoke", "heat")}
    asked: dict[str, Any] = {"events": events, "by": "room", "start": "begin", "end": "finish", "id": "n", "buckets": 2}
    with pytest.raises(UsageError, match="there is no state in the checkpoint"):
        detect_end(stream, pattern, checkpoint=checkpoint, **asked)
    found = detect(stream, pattern, lateness="20 s", **asked)
    writing = found.writeStream.format("memory").queryName("early").option("checkpointLocation", str(checkpoint))
    writing.trigger(availableNow=True).start().awaitTermination()
    early, last = matches(spark.table("early")), matches(detect_end(stream, pattern, checkpoint=checkpoint, **asked))
    assert early and last and not early & last
    assert early | last == matches(detect(frame(spark, rows), pattern, **asked))
    instant = max(row["begin"] for row in rows)
    assert matches(detect_end(stream, pattern, checkpoint=checkpoint, until=instant, **asked)) < last
    with pytest.raises(UsageError, match="belongs to another pattern"):
        detect_end(stream, "smoke UNLESS heat WITHIN 31 s", checkpoint=checkpoint, **asked)
    with pytest.raises(UsageError, match="not a stream"):
        detect_end(frame(spark, rows), pattern, checkpoint=checkpoint, **asked)


def test_names_of_columns_resolve_as_in_spark(spark: SparkSession) -> None:
    """In any case, in backticks, nested, and with dots in the name itself; the columns of the result are Spark's."""
    rows = frame(spark, day(40))
    nested = rows.select(
        f.col("n").alias("No."),
        "begin",
        "kind",
        f.struct(f.col("room").alias("Name"), "celsius").alias("place"),
        f.col("room").alias("the room"),
    )
    events = {"a": "Kind = 'smoke'", "b": "KIND = 'heat'"}
    pattern = "a BEFORE b WITHIN 60 s"
    plain = detect(rows, pattern, events=events, by="room", start="begin", id="n")
    wanted = matches(plain)
    assert wanted
    for by in ("place.name", "PLACE.Name"):
        found = detect(nested, pattern, events=events, by=by, start="BEGIN", id="No.")
        assert found.columns == ["start", "end", "events", "Name" if by[0] == "P" else "name", "a", "b"]
        assert matches(found.withColumnRenamed("name", "room")) == wanted
    text = "EVENT a { ?a <column:%60the%20room%60> ?room ; :KIND 'smoke' } "
    text += "EVENT b { ?b <column:place.Name> ?room ; :kind 'heat' }"
    found = detect(nested, f"{text} WHEN {pattern} SELECT ?room ?a ?b", start="`begin`", id="`No.`")
    assert matches(found) == wanted
    with pytest.raises(UsageError, match=r"(?s)no column 'begn'.*it has No\., begin"):
        detect(nested, pattern, events=events, start="begn")
    twice = rows.withColumn("other", f.col("n")).toDF(
        *[name.replace("other", "N") for name in [*rows.columns, "other"]]
    )
    with pytest.raises(UsageError, match="several columns"):
        detect(twice, pattern, events={"a": "level = 3", "b": "level = 4"}, start="Begin", id="`n`")


@pytest.mark.parametrize(
    ("pattern", "asked", "said"),
    [
        ("EVENT a { ?a :rom ?r } WHEN a", {}, "no column 'rom'"),
        ("EVENT a { ?a :room ?r } WHEN a", {"start": "when"}, "no column 'when'"),
        ("EVENT a { ?a :room ?r } WHEN a", {"start": "room"}, "'room' is string, not a timestamp"),
        ("EVENT a { ?a :list ?r } WHEN a", {}, "'list' is array<string>, not a simple value"),
        ("EVENT a { ?a :room ?r } WHENN a", {}, "line 1, column 25: 'WHENN' cannot stand here"),
        ("EVENT a { ?a <urn:room> ?r } WHEN a", {}, "tests <urn:room>, which is not a column"),
        ("EVENT a { ?a ?p ?r } WHEN a", {}, "does not name the column it tests"),
        ("EVENT a : :Alarm WHEN a", {}, "has a class, and rows have none"),
        ("EVENT a WHEN a CONSTRUCT { ?this :room 1 }", {}, "does not deliver variables"),
        ('SUBSCRIPTION s SINCE "2026-11-15T10:00:00Z" EVENT a WHEN a', {}, "has SINCE"),
        ("EVENT a { ?a :room ?end } WHEN a", {}, "\\?end cannot be a column of the result"),
        ("EVENT a WHEN a", {"by": "room"}, "`by` belongs to `events`"),
        ("a BEFOR b", {"events": {"a": "n = 1", "b": "n = 2"}}, "line 1, column 3: 'BEFOR' cannot stand here"),
        ("a", {"events": {"a": "n = 1", "b": "n = 2"}}, "'b'"),
        ("a", {"events": {}}, "`events` is empty"),
        ("a", {"events": {"a": "nn = 1"}}, "Spark refuses the condition of event 'a'"),
        ("a", {"events": {"a": "n"}}, "condition of event 'a' is bigint, not boolean"),
        ("a", {"events": {"a": "n = 1"}, "by": "a"}, "'a' cannot be a variable"),
        ("EVENT a WHEN a", {"lateness": "1 min"}, "a batch has no lateness"),
        ("EVENT a WHEN a", {"buckets": 0}, "buckets=0"),
        ("EVENT a WHEN a", {"since": "soon"}, "since: 'soon' is not an xsd:dateTime"),
    ],
)
def test_an_invalid_query_is_refused(spark: SparkSession, pattern: str, asked: dict[str, Any], said: str) -> None:
    """The error names what is wrong, before a job runs."""
    df = frame(spark, day(1)).withColumn("list", f.array("room")).withColumn("a", f.col("n"))
    with pytest.raises(UsageError, match=said):
        detect(df, pattern, **{"start": "begin", **asked})


def test_absence_without_any_row_of_its_kind(spark: SparkSession) -> None:
    """NO begins at the least time of all rows, also if none of them has a role; or at ``since``."""
    rows, pattern = day(10), "NO flood FOR 10 s"
    asked: dict[str, Any] = {"events": {"flood": "kind = 'flood'"}, "start": "begin", "end": "finish", "id": "n"}
    [row] = detect(frame(spark, rows), pattern, **asked).collect()
    least = min(row["finish"] or row["begin"] for row in rows)
    assert (row["start"].replace(tzinfo=UTC), row["events"]) == (least, [])
    [row] = detect(frame(spark, rows), pattern, since=NOON - timedelta(days=1), **asked).collect()
    assert row["end"].replace(tzinfo=UTC) == NOON - timedelta(days=1, seconds=-10)


def test_absence_on_a_stream_needs_a_beginning(spark: SparkSession, tmp_path: Path) -> None:
    """“on a stream NO is refused without `since`”; with it an absence is told before the first row of its kind."""
    (tmp_path / "in").mkdir()
    text = "\n".join(json.dumps(row, default=datetime.isoformat) for row in day(40))
    (tmp_path / "in" / "0.json").write_text(text)
    (tmp_path / "in" / "1.json").write_text(text)
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    asked: dict[str, Any] = {"events": {"flood": "kind = 'flood'"}, "start": "begin", "id": "n", "lateness": "1 second"}
    with pytest.raises(UsageError, match="NO on a stream has no beginning"):
        detect(stream, "NO flood FOR 10 s", **asked)
    found = detect(stream, "NO flood FOR 10 s", since="2026-11-15T12:00:05Z", **asked)
    writing = found.writeStream.format("memory").queryName("absent").option("checkpointLocation", str(tmp_path / "c"))
    writing.trigger(availableNow=True).start().awaitTermination()
    [row] = spark.table("absent").collect()
    assert row["start"].replace(tzinfo=UTC) == NOON + timedelta(seconds=5)


def test_a_stream_needs_a_lateness_or_a_watermark(spark: SparkSession) -> None:
    """Exactly one of them: a lateness, or a watermark on its time."""
    stream = spark.readStream.format("rate").load()
    pattern = "EVENT a { ?a :value 1 } WHEN a"
    with pytest.raises(UsageError, match="neither a lateness nor a watermark"):
        detect(stream, pattern, start="timestamp")
    marked = stream.withWatermark("timestamp", "1 second")
    with pytest.raises(UsageError, match="watermark on 'timestamp' already"):
        detect(marked, pattern, start="timestamp", lateness="1 second")
    assert detect(marked, pattern, start="timestamp").isStreaming


def test_detect_is_exported_by_the_package() -> None:
    """``motet.spark.detect`` is the function, whatever else was imported."""
    import_module("motet.spark.batch.tasks")
    assert import_module("motet.spark").detect is detect


PROGRAM = Path(__file__).with_name("ordinary.py")
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"


@pytest.fixture
def ordinary(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with Spark's defaults for streaming and shuffles."""
    session = spark.newSession()
    session.conf.set(PROVIDER, HDFS)
    session.conf.set(SHUFFLE_PARTITIONS, "200")
    yield session
    for name in (PROVIDER, SHUFFLE_PARTITIONS, STATE_PARTITIONS):
        session.conf.unset(name)


def test_a_program_of_an_ordinary_session_runs(tmp_path: Path) -> None:
    """Its Python is started by path and finds Motet by `sys.path`; a stream has the matches of a batch but the last."""
    source = str(Path(motet.__file__).parent.parent)
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "JAVA_HOME": str(find_java().home)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), source],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "200 True set() 2 600"


def test_a_stream_gets_its_state_store_and_partitions(ordinary: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """Settings with Spark's defaults are set, once, and reported as lines that can be pasted."""
    for _ in range(2):
        prepare_stream(ordinary, 3)
    assert (ordinary.conf.get(PROVIDER), ordinary.conf.get(STATE_PARTITIONS)) == (ROCKSDB, "3")
    for name, record in zip((PROVIDER, STATE_PARTITIONS), caplog.records, strict=True):
        assert f'spark.conf.set("{name}"' in record.message


def test_another_state_store_is_left_alone(ordinary: SparkSession) -> None:
    """A platform may have one of its own."""
    ordinary.conf.set(PROVIDER, "com.example.Provider")
    ordinary.conf.set(SHUFFLE_PARTITIONS, "3")
    prepare_stream(ordinary, 3)
    assert ordinary.conf.get(PROVIDER) == "com.example.Provider"
    assert ordinary.conf.get(STATE_PARTITIONS, None) is None


def test_a_session_that_protects_its_settings_is_refused() -> None:
    """The error has the line to paste."""

    class Protected:
        def get(self, name: str, default: str | None = None) -> str:
            return {PROVIDER: HDFS, SHUFFLE_PARTITIONS: "200"}.get(name, default or "")

        def set(self, name: str, value: str) -> None:
            raise ValueError("not here")

    class Session:
        conf = Protected()

    with pytest.raises(UsageError, match=r"(?s)not here.*spark\.conf\.set\(.*RocksDBStateStoreProvider"):
        prepare_stream(Session(), 4)  # type: ignore[arg-type]


def test_buckets_follow_the_data(ordinary: SparkSession) -> None:
    """A few rows have one bucket instead of 200; many rows two per core; a stream a fixed number."""
    rows = ordinary.range(600)
    assert batch_buckets(rows) == 1
    assert batch_buckets(ordinary.range(10_000_000)) == 4
    assert stream_buckets(rows) == STREAM_BUCKETS
    ordinary.conf.set(SHUFFLE_PARTITIONS, "3")
    assert (batch_buckets(ordinary.range(10_000_000)), stream_buckets(rows)) == (3, 3)
