"""The live cloud in one process."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.lake import Lake
from motet.model.errors import ConflictError, DecodeError, SubscriptionError, UsageError
from motet.model.notifications import Notification
from motet.model.times import parse_datetime

CIRCLE = (
    "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    "SUBSCRIPTION two EVENT b : <urn:B> WHEN b CONSTRUCT { ?this a <urn:A> }"
)
HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
XSD = "http://www.w3.org/2001/XMLSchema#"


def reading(number: int, celsius: int, time: str = "2026-11-15T10:00:00Z") -> str:
    return builders.reading(number, celsius, time)


def events_of(found: list[Notification]) -> list[str]:
    return [event for notification in found for event in notification.events]


def test_a_listener_has_been_called_when_publish_returns(tmp_path: Path) -> None:
    """Events in, notifications out, in one thread."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        assert cloud.subscribe(HOT, found.append) == ("hot",)
        receipt = cloud.publish(reading(1, 35) + reading(2, 20))
        time = parse_datetime("2026-11-15T10:00:00Z")
        assert found == [Notification("hot", time, time, ("urn:e:1",), (("c", f'"35"^^<{XSD}integer>'),))]
    assert (receipt.accepted, receipt.repeated, receipt.late) == (2, 0, 0)


def test_a_subscription_sees_only_later_events(tmp_path: Path) -> None:
    """Events before the subscription's own offset do not count."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(1, 35))
        cloud.subscribe(HOT, found.append)
        cloud.publish(reading(2, 36))
    assert events_of(found) == ["urn:e:2"]


def test_since_backfills_then_continues_live(tmp_path: Path) -> None:
    """With SINCE, earlier events from that instant on are seen too, then the live ones."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(1, 35, "2026-11-15T09:00:00Z") + reading(2, 36, "2026-11-15T10:00:00Z"))
        cloud.subscribe(HOT.replace("hot", 'hot SINCE "2026-11-15T09:30:00Z"', 1), found.append)
        assert events_of(found) == ["urn:e:2"]
        cloud.publish(reading(3, 37, "2026-11-15T11:00:00Z"))
    assert events_of(found) == ["urn:e:2", "urn:e:3"]


def test_the_same_event_twice_is_accepted_once(tmp_path: Path) -> None:
    """The first accepted content counts."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, found.append)
        cloud.publish(reading(1, 20))
        with pytest.raises(ConflictError, match="<urn:e:1>"):
            cloud.publish(reading(1, 35))
        assert cloud.publish(reading(1, 20)).repeated == 1
    assert found == []


def test_a_late_event_is_stored_and_not_matched(tmp_path: Path) -> None:
    """An event that ends before the frontier is stored and counted, never matched."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, found.append)
        cloud.tick("2026-11-15T12:00:00Z")
        assert cloud.publish(reading(1, 35)).late == 1
    assert found == []
    assert Lake.open(tmp_path).statistics()["events"] == 1


def test_a_listener_that_subscribes_again_gets_missed_notifications(tmp_path: Path) -> None:
    """Delivery continues after the last notification that was delivered."""
    first: list[Notification] = []
    second: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, first.append)
        cloud.publish(reading(1, 35))
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(2, 36))
        cloud.subscribe(HOT, second.append)
        cloud.publish(reading(3, 37))
    assert events_of(first) == ["urn:e:1"]
    assert events_of(second) == ["urn:e:2", "urn:e:3"]


def test_events_of_other_processes_are_processed(tmp_path: Path) -> None:
    """publish processes all earlier records, also those of other processes; flush processes the rest."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        cloud.subscribe(HOT, found.append)
        other.publish(reading(1, 35))
        cloud.publish(reading(2, 36))
        assert events_of(found) == ["urn:e:1", "urn:e:2"]
        other.publish(reading(3, 37))
        cloud.publish(reading(3, 37))
        assert events_of(found) == ["urn:e:1", "urn:e:2", "urn:e:3"]
        other.publish(reading(4, 38))
        cloud.flush()
    assert events_of(found) == ["urn:e:1", "urn:e:2", "urn:e:3", "urn:e:4"]


def test_background_changes_of_other_processes_count(tmp_path: Path) -> None:
    """A triple that another process added is not added again."""
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        assert other.background.add([("<urn:a>", "<urn:p>", "<urn:b>")]) == 1
        assert cloud.background.add([("<urn:a>", "<urn:p>", "<urn:b>")]) == 0
        assert other.background.remove([("<urn:a>", "<urn:p>", "<urn:b>")]) == 1
        assert cloud.background.remove([("<urn:a>", "<urn:p>", "<urn:b>")]) == 0


def test_nothing_is_delivered_after_unsubscribe(tmp_path: Path) -> None:
    """Also no stored notification is delivered; the name can be used again."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, found.append)
        cloud.publish(reading(1, 35))
        cloud.unsubscribe("hot")
        cloud.publish(reading(2, 36))
        cloud.subscribe(HOT.replace("30", "10"), found.append)
        cloud.publish(reading(3, 15))
    assert events_of(found) == ["urn:e:1", "urn:e:3"]


def test_an_ontology_given_at_opening_holds_for_later_events(tmp_path: Path) -> None:
    """Subclasses match, and opening again with the same ontology changes nothing."""
    ontology = tmp_path / "o.ttl"
    ontology.write_text("<urn:Smoke> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:Alarm> .")
    found: list[Notification] = []
    for number in (1, 2):
        with motet.open(tmp_path / "lake", ontology=[ontology]) as cloud:
            cloud.subscribe("SUBSCRIPTION alarm EVENT e : <urn:Alarm> WHEN e", found.append)
            cloud.publish("<> a <urn:Smoke> .", content_type="text/turtle", id=f"urn:e:{number}")
    assert events_of(found) == ["urn:e:1", "urn:e:2"]
    kinds = Lake.open(tmp_path / "lake").statistics()["kinds"]
    assert kinds == {"background": 1, "event": 2, "settings": 1, "subscribe": 1}


def test_a_failing_listener_does_not_stop_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged and the other listeners are called."""
    found: list[Notification] = []

    def fail(notification: Notification) -> None:
        raise RuntimeError("no")

    with motet.open(tmp_path) as cloud, caplog.at_level(logging.WARNING):
        cloud.subscribe(HOT, fail)
        cloud.subscribe(HOT.replace("hot", "hot2", 1), found.append)
        cloud.publish(reading(1, 35))
    assert events_of(found) == ["urn:e:1"]
    assert "the listener of 'hot' failed" in caplog.text


def test_a_listener_may_publish_and_subscribe(tmp_path: Path) -> None:
    """Records that a listener appends are processed after it returns, once, in order."""
    found: list[Notification] = []
    with motet.open(tmp_path) as cloud:

        def answer(notification: Notification) -> None:
            found.append(notification)
            if len(found) == 1:
                cloud.publish(reading(2, 40))
                cloud.subscribe(HOT.replace("hot", "hotter", 1).replace("30", "45"), found.append)
                cloud.publish(reading(3, 50))
                cloud.flush()

        cloud.subscribe(HOT, answer)
        cloud.publish(reading(1, 35))
    assert [(n.subscription, *n.events) for n in found] == [
        ("hot", "urn:e:1"),
        ("hot", "urn:e:2"),
        ("hot", "urn:e:3"),
        ("hotter", "urn:e:3"),
    ]


@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda c: c.publish(reading(1, 35) + "<urn:s> <urn:p> broken"), DecodeError),
        (lambda c: c.publish("x", content_type="text/plain"), UsageError),
        (lambda c: c.subscribe("SUBSCRIPTION x EVENT a : ex:A WHEN a", print), SubscriptionError),
        (lambda c: c.subscribe(HOT.replace("30", "31"), print), UsageError),
        (lambda c: c.subscribe(CIRCLE, print), UsageError),
        (lambda c: c.subscribe(f"SUBSCRIPTION new EVENT e WHEN e {HOT.replace('30', '31')}", print), UsageError),
        (lambda c: c.unsubscribe("nobody"), UsageError),
    ],
)
def test_bad_requests_change_nothing(tmp_path: Path, act: Callable[[object], object], error: type[Exception]) -> None:
    """A request is atomic."""
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, lambda _: None)
        before = cloud.lake.snapshot()
        with pytest.raises(error):
            act(cloud)
        assert cloud.lake.snapshot().next_offset == before.next_offset


def test_an_unknown_engine_is_refused(tmp_path: Path) -> None:
    """The error names the valid engines."""
    with pytest.raises(UsageError, match="embedded"):
        motet.open(tmp_path, engine="flink")  # type: ignore[arg-type]


def test_a_built_subscription_is_registered_once(tmp_path: Path) -> None:
    """`subscribe` takes a Subscription; its text in the log is equal to it, so that it can be subscribed again."""
    received: list[Notification] = []
    hot = motet.subscription("hot", motet.event("e", None, "?e <urn:celsius> ?c FILTER(?c > 30)"), select=["c"])
    for number in (1, 2):
        with motet.open(tmp_path) as cloud:
            assert cloud.subscribe(hot, received.append) == ("hot",)
            cloud.publish(reading(number, 35))
    assert [notification.events for notification in received] == [("urn:e:1",), ("urn:e:2",)]
    with motet.open(tmp_path) as cloud:
        assert motet.parse(cloud.lake.snapshot().subscriptions()["hot"].text) == (hot,)


def test_what_does_not_count_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind at most once in a while; all are in the receipts and the statistics."""
    monkeypatch.setattr("motet.embedded.publishing.WARNING_SECONDS", 3600.0)
    with motet.open(tmp_path) as cloud:
        for number, time in ((1, "10:00:10"), (2, "10:00:00"), (3, "10:00:01")):
            late = cloud.publish(reading(number, 20, f"2026-11-15T{time}Z")).late
            assert late == (number > 1)
        for number in (1, 2):
            time = "10:00:10" if number == 1 else "10:00:00"
            receipt = cloud.publish(reading(number, 20, f"2026-11-15T{time}Z"))
            assert receipt.not_counted == {"repeated": 1}
        statistics = cloud.statistics()
    assert [record.message for record in caplog.records] == [
        "1 event accepted at offset 2; 1 late: stored, never matched (events: <urn:e:2>). "
        "Publish sooner, or increase the lateness with `motet settings`.",
        "0 events accepted; 1 repeated: in the log already, with the same content (events: <urn:e:1>, and 1 further "
        "receipts). An event that is to count again needs another IRI, or none.",
    ]
    assert {name: statistics[name] for name in ("published", "late", "repeated", "stamped")} == {
        "published": 3, "late": 2, "repeated": 2, "stamped": 0
    }  # fmt: skip


def test_an_event_without_an_iri_is_new_each_time(tmp_path: Path) -> None:
    """Publishing the same reading twice is two events, also when a program is run again; the receipt names them."""
    found: list[Notification] = []
    ids: list[str] = []
    for _ in range(2):
        with motet.open(tmp_path) as cloud:
            cloud.subscribe(HOT, found.append)
            ids += cloud.publish("<> <urn:celsius> 35 .", content_type="text/turtle").ids
    assert [notification.events for notification in found] == [(id_,) for id_ in ids]
    assert len(set(ids)) == 2
    assert all(id_.startswith("urn:uuid:") for id_ in ids)


def test_a_conflict_or_an_event_ahead_refuses_the_whole_call(tmp_path: Path) -> None:
    """Nothing of the call is appended."""
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(1, 20))
        before = cloud.lake.snapshot().next_offset
        with pytest.raises(ConflictError, match="<urn:e:1>"):
            cloud.publish(reading(2, 20) + reading(1, 35))
        with pytest.raises(DecodeError, match="<urn:e:3>"):
            cloud.publish(reading(2, 20) + reading(3, 20, "2999-01-01T00:00:00Z"))
        assert cloud.lake.snapshot().next_offset == before


SILENCE = "SUBSCRIPTION silence EVENT beat : <urn:Beat> WHEN NO beat FOR 10 s SIGNAL"


@pytest.mark.parametrize(
    ("text", "is_empty", "is_said"),
    [
        (SILENCE, True, True),
        (SILENCE, False, False),
        (SILENCE.replace("silence", 'silence SINCE "2026-11-15T10:00:00Z"', 1), True, False),
        (HOT, True, False),
    ],
)
def test_nothing_is_absent_yet(
    tmp_path: Path, text: str, is_empty: bool, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """On a log without event or tick nothing is absent yet, and `subscribe` says so."""
    with motet.open(tmp_path) as cloud:
        if not is_empty:
            cloud.tick("2026-11-15T10:00:00Z")
        cloud.subscribe(text, print)
        cloud.subscribe(text, repr)
    assert caplog.text.count("so nothing is absent yet") == is_said
