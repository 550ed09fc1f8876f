"""What a cloud says of itself: subscriptions, stored and pending notifications, the background graph."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.builders import reading

import motet
from motet.model.errors import UsageError

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
ALL = 'SUBSCRIPTION all SINCE "2026-11-15T10:00:00Z" EVENT e { ?e <urn:celsius> ?c } WHEN e SELECT ?c'
QUIET = """
SUBSCRIPTION quiet
EVENT hot { ?hot <urn:celsius> ?c FILTER(?c > 30) }
EVENT cold { ?cold <urn:celsius> ?d FILTER(?d < 10) }
WHEN hot UNLESS cold WITHIN 10 min
SELECT ?c
"""
AT = "2026-11-15T10:{:02}:00Z"


def names(found: object) -> list[tuple[str, ...]]:
    assert isinstance(found, list)
    return [notification.events for notification in found]


def test_the_active_subscriptions_are_listed_in_order(tmp_path: Path) -> None:
    """With text, offset, SINCE, and consumers with their cursors; those that ended are not there."""
    with motet.open(tmp_path) as cloud:
        assert cloud.subscriptions() == ()
        cloud.subscribe(HOT, print, consumer="dashboard")
        cloud.subscribe(ALL, lambda _: None)
        cloud.subscribe(QUIET, print)
        cloud.unsubscribe("quiet")
        cloud.publish(reading(1, 20, AT.format(1)))
        hot, everything = cloud.subscriptions()
    assert (hot.name, hot.offset, hot.since) == ("hot", 1, None)
    assert motet.parse(hot.text) == motet.parse(HOT)
    assert (everything.name, everything.since) == ("all", datetime(2026, 11, 15, 10, tzinfo=UTC))
    assert dict(everything.consumers) == {"all": 6}
    with motet.open(tmp_path) as cloud:
        assert [state.name for state in cloud.subscriptions()] == ["hot", "all"]


def test_notifications_are_computed_first_then_read_in_log_order(tmp_path: Path) -> None:
    """Also those of records that no process has processed yet; by subscription, by emission offset, by time."""
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(f"{HOT}\n{ALL}", lambda _: None)
        cloud.publish(reading(1, 35, AT.format(1)))
        cloud.publish(reading(2, 20, AT.format(2)))
        offset = cloud.publish(reading(3, 36, AT.format(3))).first
        assert offset is not None
    other = motet.Lake.open(tmp_path)
    with motet.open(tmp_path) as cloud:
        everything = [(found.subscription, *found.events) for found in cloud.notifications()]
        by_name = list(cloud.notifications("hot"))
        assert list(cloud.notifications(["hot", "all"])) == list(cloud.notifications())
        assert names(list(cloud.notifications("all", since=offset))) == [("urn:e:3",)]
        assert names(list(cloud.notifications("all", since=AT.format(2)))) == [("urn:e:2",), ("urn:e:3",)]
    expected = {"urn:e:1": ["hot", "all"], "urn:e:2": ["all"], "urn:e:3": ["hot", "all"]}
    assert everything == [(name, event) for event, subscribed in expected.items() for name in subscribed]
    assert names(by_name) == [("urn:e:1",), ("urn:e:3",)]
    assert other.snapshot().notifications_end == other.snapshot().next_offset


def test_notifications_of_an_unknown_subscription_are_refused(tmp_path: Path) -> None:
    """The error names those that there are; one that has ended is known."""
    with motet.open(tmp_path) as cloud:
        cloud.subscribe(HOT, lambda _: None)
        cloud.publish(reading(1, 35))
        cloud.unsubscribe("hot")
        assert names(list(cloud.notifications("hot"))) == [("urn:e:1",)]
        with pytest.raises(UsageError, match="'hott'") as refused:
            cloud.notifications("hott")
    assert "hot" in str(refused.value.advice)


def test_pending_notifications_are_counted(tmp_path: Path) -> None:
    """The count is of notifications that come if nothing follows; a tick at `until` makes them final."""
    received: list[motet.Notification] = []
    with motet.open(tmp_path) as cloud:
        assert cloud.pending() == motet.PendingNotifications(0, None)
        cloud.subscribe(QUIET, received.append)
        cloud.publish(reading(1, 35, AT.format(1)) + reading(2, 36, AT.format(2)))
        pending = cloud.pending()
        assert (pending.count, received) == (2, [])
        assert pending.until == datetime(2026, 11, 15, 10, 12, 0, 1, tzinfo=UTC)
        cloud.tick(pending.until)
        assert (cloud.pending().count, len(received)) == (0, 2)


def test_a_retracted_event_is_hidden_from_later_subscriptions(tmp_path: Path) -> None:
    """The retraction needs an event that the log has."""
    received: list[motet.Notification] = []
    with motet.open(tmp_path) as cloud:
        cloud.publish(reading(1, 35, AT.format(1)) + reading(2, 35, AT.format(2)))
        cloud.retract("urn:e:1")
        cloud.subscribe(ALL, received.append)
        with pytest.raises(UsageError, match="urn:e:9"):
            cloud.retract("urn:e:9")
    assert names(received) == [("urn:e:2",)]


def test_the_background_graph_can_be_read(tmp_path: Path) -> None:
    """Its triples are those of all processes."""
    triple = ("<urn:a>", "<urn:b>", "<urn:c>")
    with motet.open(tmp_path) as cloud, motet.open(tmp_path) as other:
        assert cloud.background.triples() == frozenset()
        other.background.add([triple])
        assert cloud.background.triples() == {triple}
        cloud.background.remove([triple])
        assert other.background.triples() == frozenset()


@pytest.mark.parametrize(
    "call",
    [
        lambda cloud: cloud.publish(reading(1, 35)),
        lambda cloud: cloud.subscribe(HOT, print),
        lambda cloud: cloud.unsubscribe("hot"),
        lambda cloud: cloud.disconnect("hot"),
        lambda cloud: cloud.subscriptions(),
        lambda cloud: cloud.notifications(),
        lambda cloud: cloud.retract("urn:e:1"),
        lambda cloud: cloud.tick(),
        lambda cloud: cloud.pending(),
        lambda cloud: cloud.statistics(),
        lambda cloud: cloud.flush(),
        lambda cloud: cloud.background.triples(),
        lambda cloud: cloud.background.add([("<urn:a>", "<urn:b>", "<urn:c>")]),
    ],
)
def test_every_call_after_close_is_an_error(tmp_path: Path, call: object) -> None:
    cloud = motet.open(tmp_path)
    cloud.close()
    cloud.close()
    assert callable(call)
    with pytest.raises(UsageError, match="the cloud is closed"):
        call(cloud)
