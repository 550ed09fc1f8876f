"""The live cloud for asyncio."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests import builders

import motet
from motet.embedded import async_cloud, dispatcher
from motet.embedded.dispatcher import MAX_TRIES
from motet.model.errors import UsageError
from motet.model.notifications import Notification

HOT = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
ALL = "SUBSCRIPTION all EVENT e WHEN e"


def reading(number: int, celsius: int = 35) -> str:
    return builders.reading(number, celsius)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await main()

    asyncio.run(limited())


def numbers(found: list[Notification]) -> list[int]:
    return [int(notification.events[0].rpartition(":")[2]) for notification in found]


async def take(
    cloud: motet.AsyncCloud, count: int, subscription: str = "hot", consumer: str | None = None
) -> list[int]:
    """The next notifications of a stream; all of them are acknowledged but the last."""
    found: list[Notification] = []
    async for notification in cloud.stream(subscription, consumer=consumer):
        found.append(notification)
        if len(found) == count:
            break
    return numbers(found)


def test_events_in_notifications_out(tmp_path: Path) -> None:
    """A stream begins with what its consumer missed; the cloud is closed at the end of the block."""

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:
            assert await cloud.subscribe(HOT) == ("hot",)
            receipt = await cloud.publish(reading(1) + reading(2, 10) + reading(3))
            assert receipt.accepted == 3
            assert await take(cloud, 2) == [1, 3]
            assert [found.events async for found in cloud.notifications("hot")] == [("urn:e:1",), ("urn:e:3",)]
            assert [state.name for state in await cloud.subscriptions()] == ["hot"]
            assert (await cloud.pending()).count == 0
            assert await cloud.background.add("<urn:a> <urn:b> <urn:c> .") == 1
            assert len(await cloud.background.triples()) == 1
            assert await cloud.background.remove("<urn:a> <urn:b> <urn:c> .") == 1
            await cloud.retract("urn:e:1")
            await cloud.tick("2026-11-15T11:00:00Z")
            assert (await cloud.statistics())["published"] == 3
        with pytest.raises(UsageError, match="the cloud is closed"):
            await cloud.publish(reading(4))
        await cloud.close()

    run(main)


def test_a_cloud_is_opened_by_async_with(tmp_path: Path) -> None:
    async def main() -> None:
        cloud = motet.open_async(tmp_path / "lake")
        with pytest.raises(UsageError, match="the cloud is not open"):
            await cloud.publish(reading(1))
        await cloud.close()

    run(main)
    assert not (tmp_path / "lake").exists()


def test_listeners_are_called_in_the_event_loop(tmp_path: Path) -> None:
    """Coroutine functions and functions, by `subscribe` and by `on`; `flush` waits for them."""
    found: list[Notification] = []
    plain: list[Notification] = []

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:
            loop = asyncio.get_running_loop()

            @cloud.on(HOT)
            async def listen(notification: Notification) -> None:
                await asyncio.sleep(0)
                assert asyncio.get_running_loop() is loop
                found.append(notification)

            await cloud.subscribe(ALL, plain.append)
            await cloud.publish(reading(1) + reading(2, 10))
            await cloud.flush()
            assert (numbers(found), sorted(numbers(plain))) == ([1], [1, 2])
            await cloud.publish(reading(3))
        assert numbers(found) == [1, 3]  # delivered before it was closed

    run(main)


def test_a_listener_may_call_the_cloud(tmp_path: Path) -> None:
    """Publish, subscribe, tick and flush, without a deadlock."""
    found: list[Notification] = []

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:

            async def react(notification: Notification) -> None:
                await cloud.publish(reading(100 + numbers([notification])[0], 10))
                await cloud.subscribe(ALL, found.append)
                await cloud.tick()
                await cloud.flush()

            await cloud.subscribe(HOT, react)
            await cloud.publish(reading(1))
            await cloud.flush()
            await cloud.publish(reading(2))
            await cloud.flush()
        assert {2, 102} <= set(numbers(found))

    run(main)


def test_a_failing_listener_is_called_again_then_its_notification_is_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in a cloud without an event loop."""
    monkeypatch.setattr(async_cloud, "RETRY_SECONDS", 0.001)
    failures = iter([True] * 2 + [False] + [True] * MAX_TRIES)
    found: list[Notification] = []

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:

            async def listen(notification: Notification) -> None:
                if next(failures, False):
                    raise ConnectionError("away")
                found.append(notification)

            await cloud.subscribe(HOT, listen)
            await cloud.publish(reading(1) + reading(2) + reading(3))
            await cloud.flush()
            statistics = await cloud.statistics()
        assert numbers(found) == [1, 3]
        assert (statistics["delivered"], statistics["dead_letters"]) == (2, 1)

    with caplog.at_level(logging.CRITICAL):
        run(main)
    (letter,) = (tmp_path / "dead-letter" / "notifications.jsonl").read_text().splitlines()
    assert json.loads(letter)["notification"]["events"] == ["urn:e:2"]


def test_what_is_not_acknowledged_is_delivered_again(tmp_path: Path) -> None:
    """A notification is acknowledged when the next one is requested; each consumer receives everything."""

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:
            await cloud.subscribe(HOT)
            await cloud.publish(reading(1))
            await cloud.publish(reading(2))
            await cloud.publish(reading(3))
            assert await take(cloud, 2) == [1, 2]
        async with motet.open_async(tmp_path) as cloud:
            assert await take(cloud, 2) == [2, 3]
            assert await take(cloud, 3, consumer="other") == [1, 2, 3]

    run(main)


def test_a_slow_consumer_receives_everything_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into the buffer is read from the table later."""
    monkeypatch.setattr(dispatcher, "CAPACITY", 4)
    monkeypatch.setattr(dispatcher.NotificationStream.__init__, "__defaults__", (4,))

    async def main() -> None:
        async with motet.open_async(tmp_path, durable=False) as cloud:
            await cloud.subscribe(HOT)
            for first in range(0, 40, 10):
                await cloud.publish("".join(reading(number) for number in range(first, first + 10)))
            assert await take(cloud, 40) == list(range(40))
            found: list[Notification] = []
            await cloud.subscribe(HOT, found.append, consumer="listener")
            await cloud.publish("".join(reading(number) for number in range(40, 60)))
            await cloud.flush()
            assert numbers(found) == list(range(60))

    run(main)


def test_streams_end_when_the_cloud_is_closed(tmp_path: Path) -> None:
    """A task that reads a stream ends by itself."""

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:
            await cloud.subscribe(HOT)
            first = asyncio.Event()

            async def read() -> list[Notification]:
                found = []
                async for notification in cloud.stream("hot"):
                    found.append(notification)
                    first.set()
                return found

            reader = asyncio.create_task(read())
            await cloud.publish(reading(1))
            await first.wait()
        assert numbers(await reader) == [1]

    run(main)


def test_a_cancelled_stream_leaves_its_consumer_free(tmp_path: Path) -> None:
    """Another process can take the consumer then; a subscription that ends, ends the stream."""

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud, motet.open_async(tmp_path) as other:
            await cloud.subscribe(HOT)
            await cloud.publish(reading(1))
            first = asyncio.Event()

            async def read() -> None:
                async for _ in cloud.stream("hot"):
                    first.set()

            reader = asyncio.create_task(read())
            await first.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            ended = asyncio.create_task(take(other, 5))
            await asyncio.sleep(0.05)
            await other.unsubscribe("hot")
            assert await ended in ([], [1])

    run(main)


def test_a_cancelled_subscribe_leaves_no_listener(tmp_path: Path) -> None:
    """The subscription may be registered; its consumer is free."""

    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud, motet.open_async(tmp_path) as other:
            subscribing = asyncio.create_task(cloud.subscribe(HOT, print))
            await asyncio.sleep(0)
            subscribing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await subscribing
            await other.subscribe(HOT, print)

    run(main)


def test_one_stream_of_two_subscriptions(tmp_path: Path) -> None:
    """What one of them missed comes after what the other received; nothing is acknowledged too early."""
    stream = dispatcher.NotificationStream(lambda: None)
    for offset in (100, 50):
        assert stream.offer(Notification("s", offset, offset, (), ()), offset)
    cursors = []
    for _ in range(3):
        stream.take()
        cursors.append(stream.unacknowledged)
    assert cursors == [50, 50, None]
    assert stream.is_idle


def test_closing_is_not_interrupted_by_cancellation(tmp_path: Path) -> None:
    """The lake is left in order, and can be opened again."""

    async def main() -> None:
        cloud = motet.open_async(tmp_path)

        async def use() -> None:
            async with cloud:
                await cloud.subscribe(HOT, print, consumer="one")
                await cloud.publish(reading(1, 10))
                await asyncio.sleep(3600)

        task = asyncio.create_task(use())
        while not (tmp_path / "consumers").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with motet.open_async(tmp_path) as again:
            await again.subscribe(HOT, print, consumer="one")

    run(main)


@pytest.mark.parametrize("subscription", ["unknown", 5, "SUBSCRIPTION"])
def test_what_cannot_be_streamed_is_refused(tmp_path: Path, subscription: str) -> None:
    async def main() -> None:
        async with motet.open_async(tmp_path) as cloud:
            with pytest.raises(UsageError):
                await take(cloud, 1, subscription)
            with pytest.raises(UsageError, match="cannot be called"):
                await cloud.subscribe(HOT, 5)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="has no listener"):
                await cloud.subscribe(HOT, consumer="c")

    run(main)
