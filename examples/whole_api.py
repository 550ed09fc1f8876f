"""The whole Python API in one typed program: a cloud, a cloud for asyncio, subscriptions in Python, tests of them.

Run: python examples/whole_api.py
It passes `mypy --strict` outside the repository (tests/test_public_api.py).
"""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import motet
from motet.testing import FakeClock, assert_notifications, expect, notifications_of

EX = "http://example.org/"
TEN = datetime(2026, 11, 15, 10, tzinfo=UTC)
HOT = f"""
PREFIX ex: <{EX}>
SUBSCRIPTION hot EVENT e : ex:Reading {{ ?e ex:room ?room ; ex:celsius ?c FILTER(?c > 30) }} WHEN e SELECT ?room ?c
"""
RISING = motet.subscription(
    "rising",
    motet.event("low", "ex:Reading", "?low ex:room ?room ; ex:celsius ?a FILTER(?a < 30)")
    .before(motet.event("high", "ex:Reading", "?high ex:room ?room ; ex:celsius ?b FILTER(?b >= 30)"))
    .within("10 min"),
    select=["room"],
    prefixes={"ex": EX},
)
SILENT = motet.subscription("silent", motet.no(motet.event("e", "ex:Reading"), "1 h"), prefixes={"ex": EX})
ONTOLOGY = f"@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . <{EX}Alarm> rdfs:subClassOf <{EX}Reading> ."
CONTEXT = {"@vocab": EX, "time": "http://www.w3.org/ns/sosa/resultTime"}


def reading(number: int, room: str, celsius: object, time: datetime) -> dict[str, object]:
    """An event as JSON-LD; numbers, decimals and datetimes are Python's own."""
    id_ = f"urn:reading:{number}"
    return {"@context": CONTEXT, "@id": id_, "@type": "Reading", "room": room, "celsius": celsius, "time": time}


def show(found: motet.Notification) -> None:
    values = ", ".join(f"{name} {found[name]}" for name in found)
    print(f"{found.subscription}: {values} ({found.start:%H:%M} to {found.end:%H:%M})")


def listen(folder: Path) -> None:
    """Publish in every form, listen, read what is stored and what is pending."""
    clock = FakeClock(TEN)
    (folder / "ontology.ttl").write_text(ONTOLOGY)
    cloud: motet.Cloud = motet.open(
        folder / "lake",
        engine="embedded",
        ontology=folder / "ontology.ttl",
        catalogue={"http://example.org/units": folder / "units.ttl"},
        imports="warn",
        durable=False,
        threaded=False,
        clock=clock,
        lateness="10 s",
        ahead=timedelta(days=2),
        heartbeat=None,
        time_properties=["http://www.w3.org/ns/sosa/resultTime"],
        entailment="rdfs",
    )
    with cloud:
        listener: motet.Listener = show
        names: tuple[str, ...] = cloud.subscribe(RISING, listener, consumer="console")
        cloud.subscribe(SILENT)

        @cloud.on(HOT)
        def warn(found: motet.Notification) -> None:
            room, celsius = found["room"], found.get("c")
            assert isinstance(room, str) and isinstance(celsius, int | Decimal)
            print(f"hot: {room} has {celsius} degrees")

        events: list[motet.EventData] = [
            reading(1, "lab", 20, TEN),
            [reading(2, "lab", Decimal("35.5"), TEN + timedelta(minutes=1))],
            f"@prefix ex: <{EX}> . <> a ex:Alarm ; ex:room 'attic' ; ex:celsius 41 .",  # Turtle, stamped by the clock
            b'<urn:s> <urn:p> "N-Quads" <urn:e:3> .',
        ]
        for data in events:
            receipt: motet.Receipt = cloud.publish(data)
            assert receipt.accepted == 1 and receipt.first is not None
        print(cloud.publish(events[0]))  # it is in the log already
        rows = [{"room": "cellar", "celsius": 12}]
        columns = {"room": "ex:room", "celsius": "ex:celsius"}
        cloud.publish_rows(rows, {"prefixes": {"ex": EX}, "event": {"class": "ex:Reading"}, "properties": columns})
        cloud.background.add(ONTOLOGY)
        print(len(cloud.background.triples()), "triples of background;", cloud.background.remove(ONTOLOGY), "removed")

        pending: motet.PendingNotifications = cloud.pending()
        if pending.until is not None:
            print(f"{pending.count} notifications wait until {pending.until:%H:%M}")
        cloud.tick(TEN + timedelta(minutes=5))
        cloud.tick("2026-11-15T10:06:00Z")
        cloud.tick()
        cloud.flush()
        for found in cloud.notifications(["hot", "rising"], since=TEN):
            fields: dict[str, object] = found.to_dict()
            term: motet.IRI | motet.Literal = found.terms["room"]
            print(found.id[:8], fields["subscription"], term.n3)
        cloud.retract("urn:reading:1")
        states: tuple[motet.SubscriptionState, ...] = cloud.subscriptions()
        print([(state.name, dict(state.consumers)) for state in states])
        print(cloud.query(f"SELECT (COUNT(*) AS ?n) {{ GRAPH ?e {{ ?e <{EX}celsius> ?c }} }}"))
        cloud.disconnect(names[0], consumer="console")
        cloud.unsubscribe("silent")
        print(cloud.statistics()["published"], "events")


def refuse(folder: Path) -> None:
    """Every error is a MotetError that says what to do."""
    with motet.open(folder / "lake") as cloud:
        try:
            cloud.publish('<urn:s> <urn:p> "other" <urn:e:3> .')
        except motet.ConflictError as error:
            print(error.event, "has other content:", error.advice)
        try:
            cloud.subscribe("SUBSCRIPTION oops")
        except motet.SubscriptionError as error:
            print(f"line {error.line}, column {error.column}")
        try:
            cloud.tick(datetime(2026, 11, 15))
        except motet.UsageError as error:
            print(error.message)


async def stream(folder: Path) -> None:
    """The same cloud in an event loop."""
    received: list[str] = []
    async with motet.open_async(folder / "async", durable=False, ahead=None) as cloud:
        opened: motet.AsyncCloud = cloud

        @opened.on(RISING)
        async def remember(found: motet.Notification) -> None:
            await asyncio.sleep(0)
            received.append(str(found["room"]))

        await opened.subscribe(HOT)
        await opened.publish(reading(1, "lab", 20, TEN))
        await opened.publish(reading(2, "lab", 35, TEN + timedelta(minutes=1)))
        async for found in opened.stream("hot", consumer="reader"):
            show(found)
            break
        await opened.tick()
        await opened.flush()
        assert received == ["lab"]
        assert (await opened.pending()).count == 0
        assert [found.subscription async for found in opened.notifications("hot")] == ["hot"]
        await opened.publish_rows([{"c": 1}], {"prefixes": {"ex": EX}, "properties": {"c": "ex:celsius"}})
        await opened.background.add(ONTOLOGY)
        assert await opened.background.triples()
        await opened.background.remove(ONTOLOGY)
        await opened.retract("urn:reading:1")
        await opened.query("ASK { ?s ?p ?o }")
        print(len(await opened.subscriptions()), "subscriptions,", (await opened.statistics())["published"], "events")
        await opened.disconnect("rising")
        await opened.unsubscribe("hot")


def check() -> None:
    """Tests of subscriptions: what is expected, what is found, and why not."""
    events = [reading(1, "lab", 20, TEN), reading(2, "lab", 35, TEN + timedelta(minutes=1))]
    assert_notifications(events, [HOT, RISING], [{"room": "lab", "c": 35}, expect("rising", room="lab", start=TEN)])
    try:
        assert_notifications(events[:1], HOT, [{"room": "lab", "c": 20}])
    except AssertionError as difference:
        print(difference)
    assert notifications_of(events[:1], HOT) == []


def main() -> None:
    text: str = motet.to_text(motet.parse(HOT))
    pattern: motet.PatternText = motet.event("e").within("1 min")
    subscription: motet.Subscription = motet.parse(text)[0]
    print(subscription.name, pattern, motet.__version__)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        listen(folder)
        refuse(folder)
        asyncio.run(stream(folder))
        lake: motet.Lake = motet.Lake.open(folder / "lake", create=False)
        print(lake.snapshot().next_offset, "records")
    check()


if __name__ == "__main__":
    main()
