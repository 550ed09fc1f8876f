"""Derived documents that a mapping of the lake lifts, in a live cloud: RDF leaves, a restart, history, replay."""

from collections.abc import Callable
from pathlib import Path

import motet
from motet.jobs.replay import load_replay, replay_notifications
from motet.language.parse import parse
from motet.model.notifications import Notification
from motet.query.answers import QueryRows

MAPPING = {"event": {"root": "result", "class": "urn:Result"}, "properties": {"pn": "urn:pn"}}
PAID = """
SUBSCRIPTION paid
  EVENT p XML { <person><number>$pn</number></person> }
  EVENT o XML { <order><pn>$pn</pn></order> }
  WHEN p BEFORE o WITHIN 1 h
  CONSTRUCT XML { <result><pn>$pn</pn></result> }
  CONSTRUCT XML { <receipt/> }
"""
RESULTS = """
SUBSCRIPTION result EVENT r : <urn:Result> { ?r <urn:pn> ?n } WHEN r SELECT ?n
SUBSCRIPTION pair EVENT r : <urn:Result> { ?r <urn:pn> ?n } EVENT o { ?o <urn:wants> ?n } WHEN r ALONGSIDE o SELECT ?n
"""
TABLE = "SELECT ?n ?root { GRAPH ?g { ?r <urn:pn> ?n OPTIONAL { ?r a ?root } } }"


def person(number: int) -> str:
    return f"<person><number>{number}</number></person>"


def order(number: int) -> str:
    return f"<order><pn>{number}</pn></order>"


def subscribe(cloud: motet.Cloud, listener: Callable[[Notification], object]) -> None:
    cloud.subscribe(RESULTS, listener)
    cloud.subscribe(PAID, listener)


def publish(cloud: motet.Cloud, number: int, minute: int) -> None:
    """A person and an order with one number, a request for it in RDF, and the time after them."""
    cloud.publish(person(number), time=f"2026-11-15T10:{minute}:00Z")
    cloud.publish(order(number), time=f"2026-11-15T10:{minute + 1}:00Z")
    time = f'<urn:w:{number}> <http://www.w3.org/ns/sosa/resultTime> "2026-11-15T10:{minute + 1}:00Z"^^'
    graph = f"<urn:w:{number}>"
    cloud.publish(
        f"<urn:w:{number}> <urn:wants> {number} {graph} .\n"
        f"{time}<http://www.w3.org/2001/XMLSchema#dateTime> {graph} .\n".replace(
            f" {number} <", f' "{number}"^^<http://www.w3.org/2001/XMLSchema#integer> <'
        )
    )
    cloud.tick(f"2026-11-15T10:{minute + 2}:00Z")


def bindings(notifications: list[Notification]) -> list[tuple[str, str]]:
    return [(each.subscription, value.split('"')[1]) for each in notifications for _, value in each.bindings]


def test_lifted_documents_feed_leaves_over_rdf_also_after_a_restart(tmp_path: Path) -> None:
    """A derived document has the triples of the mapping that was in force when its subscription was registered."""
    found: list[Notification] = []
    with motet.open(tmp_path, mappings=[MAPPING], ahead=None, lateness=None) as cloud:
        subscribe(cloud, found.append)
        publish(cloud, 1, 10)
        cloud.lake.change_settings(mappings=())
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(RESULTS, found.append)
        publish(cloud, 2, 20)
        rows = cloud.query(TABLE)
        assert isinstance(rows, QueryRows)
        assert sorted((row["n"], row["root"]) for row in rows) == [(1, "urn:Result"), (2, "urn:Result")]
        cloud.unsubscribe("paid")
        cloud.subscribe(PAID)
        publish(cloud, 3, 30)
        rows = cloud.query(TABLE)
        assert isinstance(rows, QueryRows) and sorted(row["n"] for row in rows) == [1, 2]
    assert sorted(bindings(found)) == [
        ("paid", "1"),
        ("pair", "1"),
        ("pair", "2"),
        ("result", "1"),
        ("result", "2"),
    ]


def test_a_replay_lifts_by_the_mappings_in_force_now(tmp_path: Path) -> None:
    """Other subscriptions over the same log, which had no mapping when its events came."""
    with motet.open(tmp_path, ahead=None, lateness=None) as cloud:
        subscribe(cloud, lambda notification: None)
        publish(cloud, 1, 10)
        cloud.lake.change_settings(mappings=("event: {root: result, class: urn:Result}\nproperties: {pn: urn:pn}",))
    replay = load_replay(str(tmp_path), parse(PAID + RESULTS))
    [group] = replay.groups
    found = list(replay_notifications(replay.snapshot, group))
    assert sorted(bindings(found)) == [("paid", "1"), ("pair", "1"), ("result", "1")]
