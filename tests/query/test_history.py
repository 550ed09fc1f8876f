"""What a query over a lake sees: section 13 of the language page, on a small lake."""

from __future__ import annotations

import signal
import threading
import time
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.model.batches import EventRow, event_batch
from motet.model.errors import LimitError, UsageError
from motet.query.answers import QueryGraph, QueryRows
from motet.query.lake_query import QueryOptions, query_lake
from motet.query.limits import QueryLimits, time_limit
from motet.sparql import basic_patterns

PREFIXES = "PREFIX : <urn:x:> PREFIX motet: <urn:motet:ns#> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
ALARM = """
SUBSCRIPTION alarm
EVENT s : <urn:x:Smoke> { ?s <urn:x:in> ?room }
WHEN s
CONSTRUCT { ?this a <urn:x:Alarm> ; <urn:x:in> ?room }
"""


class StepClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0

    def utc(self) -> datetime:
        return datetime.fromtimestamp(self.now / 1_000_000, UTC)


def event(name: str, second: int, triples: str) -> str:
    """An event at a second of 1970, as TriG."""
    time = datetime.fromtimestamp(second, UTC).isoformat().replace("+00:00", "Z")
    stated = f'<http://purl.org/dc/terms/created> "{time}"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    return f"@prefix : <urn:x:> . <urn:e:{name}> {{ <urn:e:{name}> {stated} ; {triples} . }}"


@pytest.fixture
def clock() -> StepClock:
    return StepClock()


@pytest.fixture
def cloud(tmp_path: Path, clock: StepClock) -> Iterator[Cloud]:
    with motet.open(tmp_path / "lake", clock=clock.utc, ahead=None, durable=False) as cloud:
        yield cloud


@pytest.fixture(params=["memory", "duckdb", "zones"], autouse=True)
def _engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds on each engine, with and without zones."""
    query = Cloud.query

    def on_engine(cloud: Cloud, text: str, **options: Any) -> Any:
        if request.param == "zones":
            cloud.lake.build_zones(least=2, most=4)
        return query(cloud, text, engine="memory" if request.param == "memory" else "duckdb", **options)

    monkeypatch.setattr(Cloud, "query", on_engine)


def publish(cloud: Cloud, name: str, second: int, triples: str) -> int:
    last = cloud.publish(event(name, second, triples), content_type="application/trig").last
    assert last is not None
    return last


def rows(cloud: Cloud, text: str, **options: Any) -> list[tuple[Any, ...]]:
    found = cloud.query(PREFIXES + text, **options)
    assert isinstance(found, QueryRows)
    return sorted(tuple(row.get(name) for name in found.variables) for row in found)


def graphs(cloud: Cloud, **options: Any) -> list[str]:
    return [str(name) for (name,) in rows(cloud, "SELECT ?g { GRAPH ?g {} }", **options)]


def test_named_graphs_are_the_events_and_the_default_graph_is_their_set_union(cloud: Cloud) -> None:
    """Two events that state the same triple have it once in the default graph."""
    publish(cloud, "1", 1, ":says :hello ; :of 1")
    publish(cloud, "2", 2, ":says :hello ; :of 2")
    cloud.background.add([("<urn:x:a>", "<urn:x:near>", "<urn:x:b>"), ("<urn:x:c>", "<urn:x:says>", "<urn:x:hello>")])
    assert graphs(cloud) == ["urn:e:1", "urn:e:2"]
    assert rows(cloud, "SELECT ?g { GRAPH ?g { ?e :says :hello } }") == [("urn:e:1",), ("urn:e:2",)]
    assert rows(cloud, "SELECT ?s { ?s :says :hello }") == [("urn:e:1",), ("urn:e:2",), ("urn:x:c",)]
    assert rows(cloud, "SELECT ?b { :a :near ?b }") == [("urn:x:b",)]
    assert rows(cloud, "SELECT ?g { GRAPH ?g { :a :near ?b } }") == []


def test_a_repeated_triple_is_one_of_the_default_graph(cloud: Cloud) -> None:
    for name in "12":
        cloud.publish(f"<urn:x:a> <urn:x:near> <urn:x:b> <urn:e:{name}> .")
    assert rows(cloud, "SELECT ?b { :a :near ?b }") == [("urn:x:b",)]
    assert len(rows(cloud, "SELECT ?g ?b { GRAPH ?g { :a :near ?b } }")) == 2


def test_late_events_are_seen(cloud: Cloud) -> None:
    publish(cloud, "1", 1_000, "a :Smoke")
    cloud.tick("1970-01-01T00:33:20Z", force=True)
    publish(cloud, "2", 5, "a :Smoke")
    assert graphs(cloud) == ["urn:e:1", "urn:e:2"]


def test_retracted_events_are_seen_only_as_of_an_offset_before_the_retraction(cloud: Cloud) -> None:
    publish(cloud, "1", 1, "a :Smoke")
    before = publish(cloud, "2", 2, "a :Smoke")
    retraction = cloud.lake.retract("urn:e:1")
    assert graphs(cloud) == ["urn:e:2"]
    assert graphs(cloud, as_of=before) == ["urn:e:1", "urn:e:2"]
    assert graphs(cloud, as_of=retraction) == ["urn:e:2"]
    assert rows(cloud, "SELECT ?e { ?e a :Smoke }") == [("urn:e:2",)]


def test_as_of_an_instant_is_the_last_commit_before_the_first_with_a_later_clock(
    cloud: Cloud, clock: StepClock
) -> None:
    clock.now = 10_000_000
    publish(cloud, "1", 1, "a :Smoke")
    clock.now = 20_000_000
    publish(cloud, "2", 2, "a :Smoke")
    clock.now = 15_000_000  # a writer whose clock is behind
    publish(cloud, "3", 3, "a :Smoke")
    assert graphs(cloud, as_of="1970-01-01T00:00:10Z") == ["urn:e:1"]
    assert graphs(cloud, as_of="1970-01-01T00:00:16Z") == ["urn:e:1"]
    assert graphs(cloud, as_of=datetime.fromtimestamp(20, UTC)) == ["urn:e:1", "urn:e:2", "urn:e:3"]
    with pytest.raises(UsageError, match="before the first clock"):
        cloud.query("ASK {}", as_of="1969-12-31T23:59:59Z")


@pytest.mark.parametrize("offset", [-1, 100])
def test_an_offset_outside_the_log_is_refused(cloud: Cloud, offset: int) -> None:
    with pytest.raises(UsageError, match=f"no offset {offset}"):
        cloud.query("ASK {}", as_of=offset)


def test_events_of_the_default_graph_have_their_interval(cloud: Cloud) -> None:
    """However they came there; named graphs have only their own triples."""
    publish(cloud, "1", 1, "a :Smoke")
    start = datetime.fromtimestamp(1, UTC)
    interval = "SELECT ?t ?u {} {{ ?e motet:start ?t ; motet:end ?u }}"
    assert rows(cloud, interval.format("")) == [(start, start)]
    assert rows(cloud, interval.format("FROM <urn:e:1>")) == [(start, start)]
    assert rows(cloud, interval.format("FROM <urn:motet:events>")) == [(start, start)]
    assert rows(cloud, "SELECT ?t { GRAPH ?g { ?e motet:start ?t } }") == []
    found = cloud.query(PREFIXES + "SELECT ?t { <urn:e:1> motet:start ?t }")
    assert isinstance(found, QueryRows)
    assert found[0].terms["t"] == '"1970-01-01T00:00:01.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'


def test_a_span_restricts_events_to_those_that_share_an_instant_with_it(cloud: Cloud) -> None:
    for second in (1, 2, 3):
        publish(cloud, str(second), second, "a :Smoke")
    assert graphs(cloud, span=("1970-01-01T00:00:02Z", None)) == ["urn:e:2", "urn:e:3"]
    assert graphs(cloud, span=(None, "1970-01-01T00:00:02Z")) == ["urn:e:1", "urn:e:2"]
    assert graphs(cloud, span=("1970-01-01T00:00:02Z", "1970-01-01T00:00:02Z")) == ["urn:e:2"]
    with pytest.raises(UsageError, match="after its end"):
        cloud.query("ASK {}", span=("1970-01-01T00:00:02Z", "1970-01-01T00:00:01Z"))


def test_from_and_from_named_choose_graphs(cloud: Cloud) -> None:
    cloud.background.add([("<urn:x:a>", "<urn:x:near>", "<urn:x:b>")])
    publish(cloud, "1", 1, ":of 1")
    publish(cloud, "2", 2, ":of 2")
    assert rows(cloud, "SELECT ?n FROM <urn:e:1> { ?e :of ?n }") == [(1,)]
    assert rows(cloud, "SELECT ?n FROM <urn:motet:events> { ?e :of ?n }") == [(1,), (2,)]
    assert rows(cloud, "SELECT ?b FROM <urn:motet:events> { :a :near ?b }") == []
    assert rows(cloud, "SELECT ?b FROM <urn:motet:background> { :a :near ?b }") == [("urn:x:b",)]
    assert rows(cloud, "SELECT ?g FROM NAMED <urn:motet:events> { GRAPH ?g {} }") == [("urn:e:1",), ("urn:e:2",)]
    assert rows(cloud, "SELECT ?n FROM NAMED <urn:motet:events> { ?e :of ?n }") == []
    named = "SELECT ?g FROM NAMED <urn:e:2> FROM NAMED <urn:motet:background> { GRAPH ?g { ?e :near|:of ?n } }"
    assert rows(cloud, named) == [("urn:e:2",), ("urn:motet:background",)]


def test_any_other_graph_is_empty_and_named_in_the_warnings(cloud: Cloud) -> None:
    publish(cloud, "1", 1, ":of 1")
    cloud.retract("urn:e:1")
    found = cloud.query("SELECT * FROM <urn:e:1> FROM NAMED <urn:none> { ?s ?p ?o }")
    assert isinstance(found, QueryRows)
    assert len(found) == 0
    assert [text.partition(":")[0] for text in found.warnings] == ["FROM <urn", "FROM <urn"]
    found = cloud.query("SELECT * { GRAPH <urn:motet:notifications> { ?s ?p ?o } }")
    assert isinstance(found, QueryRows)
    assert "only after FROM NAMED" in found.warnings[0]


def test_entailment_closes_each_event_with_the_background_at_the_offset(cloud: Cloud) -> None:
    """Triples of two events never combine, and what follows from the background alone is in no event."""
    sub = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
    first = publish(cloud, "1", 1, "a :Smoke")
    cloud.background.add([("<urn:x:Smoke>", sub, "<urn:x:Danger>"), ("<urn:x:Danger>", sub, "<urn:x:Thing>")])
    publish(cloud, "2", 2, "a :Danger")
    danger = "SELECT ?g { GRAPH ?g { ?e a :Danger } }"
    assert rows(cloud, danger) == [("urn:e:1",), ("urn:e:2",)]
    assert rows(cloud, danger, entailment="none") == [("urn:e:2",)]
    assert rows(cloud, danger, entailment="rdfs") == [("urn:e:1",), ("urn:e:2",)]
    assert rows(cloud, danger, as_of=first) == []
    assert rows(cloud, "SELECT ?g { GRAPH ?g { :Smoke rdfs:subClassOf :Thing } }") == []
    assert rows(cloud, "SELECT ?c { :Smoke rdfs:subClassOf ?c }") == [("urn:x:Danger",), ("urn:x:Thing",)]
    assert rows(cloud, "SELECT ?c { :Smoke rdfs:subClassOf ?c }", entailment="none") == [("urn:x:Danger",)]


def test_triples_of_two_events_never_combine(cloud: Cloud) -> None:
    owl = "http://www.w3.org/2002/07/owl#"
    type_ = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    cloud.background.add([("<urn:x:near>", type_, f"<{owl}TransitiveProperty>")])
    cloud.publish("<urn:x:a> <urn:x:near> <urn:x:b> <urn:e:1> .")
    cloud.publish("<urn:x:b> <urn:x:near> <urn:x:c> <urn:e:2> .")
    assert rows(cloud, "SELECT ?x { :a :near ?x }") == [("urn:x:b",)]


def test_derived_events_are_named_graphs(cloud: Cloud) -> None:
    cloud.subscribe(ALARM, lambda _: None)
    offset = publish(cloud, "1", 1, "a :Smoke ; :in :hall")
    publish(cloud, "2", 2, "a :Smoke ; :in :roof")
    derived = "SELECT ?room ?t { GRAPH ?g { ?a a :Alarm ; :in ?room } ?a motet:start ?t FILTER(?g = ?a) }"
    seconds = [datetime.fromtimestamp(second, UTC) for second in (1, 2)]
    assert rows(cloud, derived) == [("urn:x:hall", seconds[0]), ("urn:x:roof", seconds[1])]
    assert rows(cloud, derived, as_of=offset) == [("urn:x:hall", seconds[0])]
    assert rows(cloud, derived, span=(seconds[1], None)) == [("urn:x:roof", seconds[1])]


def test_derived_events_of_several_clauses_are_apart(cloud: Cloud) -> None:
    cloud.subscribe(
        ALARM + "CONSTRUCT { ?this a <urn:x:Report> . ?room <urn:x:has> [ a <urn:x:Mark> ] }", lambda _: None
    )
    publish(cloud, "1", 1, "a :Smoke ; :in :hall")
    counts = "SELECT ?c (COUNT(*) AS ?n) { GRAPH ?g { ?g a ?c . ?s ?p ?o } FILTER(?c != :Smoke) } GROUP BY ?c"
    assert rows(cloud, counts) == [("urn:x:Alarm", 2), ("urn:x:Report", 3)]


def test_derived_events_of_several_members_are_divided_by_their_clauses(cloud: Cloud) -> None:
    cloud.subscribe(
        "SUBSCRIPTION many EVENT s : <urn:x:Smoke> { ?s <urn:x:in> ?room } WHEN s{2} EVERY 1 h "
        "CONSTRUCT { ?this a <urn:x:Tour> . ?s <urn:x:of> ?this } CONSTRUCT { ?s a <urn:x:Seen> }",
        lambda _: None,
    )
    publish(cloud, "1", 1, "a :Smoke ; :in :hall")
    publish(cloud, "2", 2, "a :Smoke ; :in :hall")
    cloud.tick("1970-01-01T02:46:40Z", force=True)
    triples = rows(cloud, "SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g")
    assert sorted(n for g, n in triples if "derived" in str(g)) == [2, 3]


def test_notifications_are_seen_when_they_are_named(cloud: Cloud) -> None:
    cloud.subscribe(ALARM, lambda _: None)
    publish(cloud, "1", 1, "a :Smoke ; :in :hall")
    offset = publish(cloud, "2", 2, "a :Smoke ; :in :roof")
    cloud.retract("urn:e:1")
    assert rows(cloud, "SELECT ?n { ?n a motet:Notification }") == []
    names = "SELECT ?s ?o ?e ?v FROM <urn:motet:notifications> {{ {} ?n motet:subscription ?s ; motet:offset ?o ; "
    names += "motet:event ?e ; motet:binding [ motet:variable 'room' ; motet:value ?v ] }}"
    hall, roof = (
        ("alarm", o, e, v) for o, e, v in ((offset - 1, "urn:e:1", "urn:x:hall"), (offset, "urn:e:2", "urn:x:roof"))
    )
    assert rows(cloud, names.format("")) == [hall, roof]
    assert rows(cloud, names.format("?n motet:retracted ?e .")) == [hall]
    assert rows(cloud, names.format("?n motet:retracted ?e ."), as_of=offset) == []
    assert rows(cloud, names.format(""), span=("1970-01-01T00:00:02Z", None)) == [roof]
    joined = "SELECT ?room FROM <urn:motet:notifications> FROM <urn:motet:events> { ?n motet:derived/:in ?room }"
    assert rows(cloud, joined) == [("urn:x:hall",), ("urn:x:roof",)]


def test_missing_notifications_are_computed_first(tmp_path: Path) -> None:
    """A lake that nobody has processed gives the same answer."""
    lake = motet.Lake.open(tmp_path / "lake", ahead=None)
    lake.subscribe("alarm", motet.to_text(motet.parse(ALARM)[0]))
    with motet.open(tmp_path / "lake") as cloud:
        cloud.lake.append(_small_event())
        assert cloud.lake.snapshot().notifications_end == 0
        assert rows(cloud, "SELECT ?a { ?a a :Alarm }") != []


def _small_event() -> Any:
    from motet.model.batches import EventRow, event_batch

    triples = (
        ("<urn:e:1>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:x:Smoke>"),
        ("<urn:e:1>", "<urn:x:in>", "<urn:x:hall>"),
    )
    return event_batch([EventRow("urn:e:1", 1_000_000, 1_000_000, triples)])


def test_subscriptions_are_a_graph(cloud: Cloud) -> None:
    cloud.subscribe(ALARM, lambda _: None)
    named = "SELECT ?name FROM <urn:motet:subscriptions> { ?s a motet:Subscription ; motet:name ?name }"
    assert rows(cloud, named) == [("alarm",)]
    cloud.unsubscribe("alarm")
    assert rows(cloud, named) == []


def test_relations_of_time_are_functions_of_two_events(cloud: Cloud) -> None:
    publish(cloud, "1", 1, "a :Smoke")
    publish(cloud, "2", 2, "a :Smoke")
    pair = "SELECT ?a ?b {{ ?a a :Smoke . ?b a :Smoke FILTER({}) }}"
    assert rows(cloud, pair.format("motet:before(?a, ?b)")) == [("urn:e:1", "urn:e:2")]
    assert rows(cloud, pair.format("motet:after(?a, ?b)")) == [("urn:e:2", "urn:e:1")]
    assert len(rows(cloud, pair.format("motet:equals(?a, ?b)"))) == 2
    assert rows(cloud, pair.format("motet:metBy(?a, ?b)")) == []
    assert rows(cloud, pair.format("motet:before(?a, :other) || true"))  # an error that || absorbs
    assert rows(cloud, pair.format("!motet:before(?a, :other)")) == []
    assert rows(cloud, "SELECT ?a FROM <urn:e:1> { ?a a :Smoke FILTER(!motet:before(?a, <urn:e:2>)) }") == []
    with pytest.raises(UsageError, match="takes two events"):
        cloud.query(PREFIXES + "ASK { FILTER(motet:before(<urn:e:1>)) }")
    with pytest.raises(UsageError, match="not known"):
        cloud.query(PREFIXES + "ASK { FILTER(motet:beside(<urn:e:1>, <urn:e:2>)) }")
    with pytest.raises(UsageError, match="not known"):
        motet.parse("SUBSCRIPTION s EVENT e { ?e ?p ?o FILTER(<urn:motet:ns#before>(?e, ?o)) } WHEN e SIGNAL")


def test_bindings_are_constants_in_the_query(cloud: Cloud) -> None:
    publish(cloud, "1", 1, ":in :hall ; :level 5")
    publish(cloud, "2", 2, ":in :roof ; :level 7")
    select = "SELECT ?e ?room { ?e :in ?room ; :level ?l OPTIONAL { FILTER(?l > ?least) } FILTER(?l > ?least) }"
    assert rows(cloud, select, bindings={"room": "<urn:x:roof>", "?least": 6}) == [("urn:e:2", "urn:x:roof")]
    assert rows(cloud, select, bindings={"room": "<urn:x:hall>", "least": Decimal("6.5")}) == []
    count = "SELECT ?room (COUNT(*) AS ?n) { ?e :in ?room } GROUP BY ?room"
    assert rows(cloud, count, bindings={"room": "<urn:x:roof>"}) == [("urn:x:roof", 1)]
    with pytest.raises(UsageError, match="no variable \\?rom"):
        cloud.query(PREFIXES + select, bindings={"rom": 1})
    with pytest.raises(UsageError, match="is no RDF term"):
        cloud.query(PREFIXES + select, bindings={"room": "roof"})
    with pytest.raises(UsageError, match="is assigned"):
        cloud.query("SELECT ?x { BIND(1 AS ?x) }", bindings={"x": 1})


def test_answers_convert(cloud: Cloud) -> None:
    publish(cloud, "1", 1, ':level 5 ; :share 0.5 ; :label "hall"@en ; :on true')
    text = PREFIXES + "SELECT ?l ?s ?n ?t ?b ?none { ?e :level ?l ; :share ?s ; :label ?n ; :on ?b ; motet:start ?t }"
    found = cloud.query(text)
    assert isinstance(found, QueryRows)
    table = found.to_arrow()
    time = datetime.fromtimestamp(1, UTC)
    assert table.to_pylist() == [{"l": 5, "s": Decimal("0.5"), "n": "hall", "t": time, "b": True, "none": None}]
    assert found.to_arrow(terms=True)["n"].to_pylist() == ['"hall"@en']
    assert found.to_pandas()["l"].tolist() == [5]
    assert "<td>hall</td>" in found._repr_html_()
    assert "1 row" in repr(found)
    graph = cloud.query(PREFIXES + "CONSTRUCT { ?e :has ?l } { ?e :level ?l }")
    assert isinstance(graph, QueryGraph)
    assert len(graph) == len(graph.to_rdflib()) == len(graph.to_oxigraph()) == 1
    assert "urn:x:has" in graph._repr_html_()
    assert cloud.query("ASK { ?s ?p ?o }") is True


def test_limits_of_rows_and_time(cloud: Cloud) -> None:
    for second in range(1, 30):
        publish(cloud, str(second), second, ":of 1")
    with pytest.raises(LimitError, match="more than 5 rows"):
        cloud.query("SELECT * { ?s ?p ?o }", max_rows=5)
    product = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
    with pytest.raises(LimitError, match="no answer after"):
        cloud.query(product, timeout=0.1)
    found: list[BaseException] = []

    def in_thread() -> None:
        try:
            with time_limit(0.1):
                while True:
                    pass
        except LimitError as error:
            found.append(error)

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert len(found) == 1


def test_control_c_cancels_a_query(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the engine does not look for signals; the next query is answered."""
    monkeypatch.setattr(basic_patterns, "MAX_ROWS", 1 << 40)  # no other limit ends the query first
    for second in range(1, 30):
        publish(cloud, str(second), second, ":of 1")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    control_c = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    try:
        with pytest.raises(KeyboardInterrupt):
            control_c.start()
            cloud.query("SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l . ?m ?n0 ?o }", timeout=20)
    finally:
        control_c.join()
        signal.signal(signal.SIGINT, before)
    assert cloud.query("ASK { ?s ?p ?o }") is True


def test_too_little_memory_is_a_limit(tmp_path: Path) -> None:
    """Named with the option that gives more."""
    lake = Lake.open(tmp_path, durable=False, ahead=None)
    triples = [tuple((f"<urn:s{n}>", "<urn:p>", f"<urn:o{n}{i}>") for i in range(20)) for n in range(2_000)]
    lake.append(event_batch([EventRow(f"urn:e{n}", n, n, rows) for n, rows in enumerate(triples)]))
    text = "SELECT (COUNT(DISTINCT ?o) AS ?n) { ?s ?p ?o . ?s ?q ?x }"
    with pytest.raises(LimitError, match="more than 4 MB of memory") as refused:
        query_lake(lake, text, QueryOptions(limits=QueryLimits(memory=4 << 20)), lambda: None)
    assert "--memory" in (refused.value.advice or "")


def test_time_limit_ends_python_code_beside_an_engine() -> None:
    """Where interrupting the engine does not help, the Python code around it is ended."""
    interrupts: list[None] = []
    with pytest.raises(LimitError, match="no answer after"), time_limit(0.02, lambda: interrupts.append(None)):
        while True:
            pass
    assert interrupts


def test_time_limit_ends_a_block_that_runs_callbacks_of_weak_references() -> None:
    """Python only prints what a callback of a weak reference raises: the limit ends the block after the callback."""

    class Item:
        pass

    def in_callback(_: object) -> None:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            pass

    def block() -> None:
        with pytest.raises(LimitError, match="no answer after"), time_limit(0.02):
            item = Item()
            weakref.finalize(item, in_callback, None)
            del item  # the callback runs here, the time is up meanwhile
            while True:
                pass

    block()
    thread = threading.Thread(target=block)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (5, {}),
        ("ASK {}", {"bindings": ["x"]}),
        ("ASK {}", {"span": "2026-01-01T00:00:00Z"}),
        ("ASK {}", {"span": (1, 2)}),
        ("ASK {}", {"as_of": 1.5}),
        ("ASK {}", {"entailment": "some"}),
        ("ASK {}", {"timeout": 0}),
        ("ASK {}", {"max_rows": "5"}),
    ],
)
def test_wrong_arguments_are_refused_by_a_sentence(cloud: Cloud, text: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        cloud.query(text, **options)


@pytest.mark.parametrize("text", ["INSERT DATA { <urn:a> <urn:b> 1 }", "CLEAR ALL", "LOAD <urn:a>"])
def test_updates_are_refused_with_advice(cloud: Cloud, text: str) -> None:
    with pytest.raises(UsageError, match="update") as refused:
        cloud.query(text)
    for word in ("publish", "retract", "background"):
        assert word in (refused.value.advice or "")


def test_a_live_cloud_builds_zones(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `motet compact`, when enough records are in none."""
    monkeypatch.setattr("motet.jobs.upkeep.ZONE_RECORDS", 3)
    for number in range(5):
        publish(cloud, str(number), number, "a :Smoke")
    cloud.flush()
    cloud.close()
    assert cloud.lake.snapshot().zones_end > 0
