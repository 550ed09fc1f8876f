"""The live cloud for asyncio: the same calls as coroutines, listeners that may be coroutine functions, and streams.

The calls of a `Cloud` run in threads, so the event loop is never blocked. Notifications pass through a bounded buffer
(`NotificationStream`) to the event loop, where listeners are called and streams are read.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from motet.embedded.background import RdfData, TripleSet
from motet.embedded.cloud import Cloud, PendingNotifications, SubscriptionState
from motet.embedded.dispatcher import MAX_TRIES, RETRY_SECONDS, Listener, NotificationStream
from motet.embedded.publishing import EventTime
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.errors import LakeError, UsageError, check_type
from motet.model.notifications import Notification
from motet.model.times import Instant

if TYPE_CHECKING:
    from motet.codec.options import Rest
    from motet.codec.row_mapping import MappingInput
    from motet.embedded.publishing import EventData
    from motet.lake import Receipt
    from motet.query.answers import QueryResult
    from motet.query.history import AsOf
    from motet.query.lake_query import Span

P = ParamSpec("P")
R = TypeVar("R")
L = TypeVar("L", bound=Listener)

READ_ROWS = 1_000  # notifications read from the table at a time
_NAME = re.compile(r"[\w.-]+")

log = logging.getLogger("motet")


class AsyncCloud:
    """A live cloud for asyncio, made by `motet.open_async()` and used with ``async with``.

    Every call is that of `Cloud`, awaited. A call that is cancelled may have been done. Listeners are called in the
    event loop, one notification after another for each of them, and may be coroutine functions; `publish` does not wait
    for them, `flush` does.
    """

    def __init__(self, open_cloud: Callable[[], Cloud]) -> None:
        self._open_cloud = open_cloud
        self._cloud: Cloud | None = None
        self._listeners: dict[NotificationStream, asyncio.Task[None]] = {}
        self._streams: set[NotificationStream] = set()
        self._progress = asyncio.Condition()  # a listener has received a notification
        self._closing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        opening = asyncio.get_running_loop().run_in_executor(None, self._open_cloud)
        try:
            self._cloud = await asyncio.shield(opening)
        except asyncio.CancelledError:  # it is opened all the same: close it then
            opening.add_done_callback(_close_opened)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def background(self) -> AsyncBackground:
        """The background graph."""
        return AsyncBackground(self)

    async def publish(
        self,
        data: EventData,
        *,
        content_type: str | None = None,
        id: str | None = None,  # noqa: A002  (the language page's name)
        base: str | None = None,
        rest: Rest = "refuse",
        headers: Mapping[str, str] | None = None,
        time: EventTime | None = None,
    ) -> Receipt:
        """As `Cloud.publish`, without waiting for listeners."""
        return await self._run(
            self._opened.publish, data, content_type=content_type, id=id, base=base, rest=rest, headers=headers,
            time=time,
        )  # fmt: skip

    async def publish_rows(self, rows: object, mapping: MappingInput) -> Receipt:
        """As `Cloud.publish_rows`, without waiting for listeners."""
        return await self._run(self._opened.publish_rows, rows, mapping)

    async def subscribe(
        self,
        subscription: str | Subscription,
        listener: Listener | None = None,
        *,
        consumer: str | None = None,
        syntax: str = "motet",
    ) -> tuple[str, ...]:
        """As `Cloud.subscribe`; the listener is called in the event loop and may be a coroutine function."""
        if listener is None:
            return await self._run(self._opened.subscribe, subscription, consumer=consumer, syntax=syntax)
        stream = _ListenerStream(asyncio.get_running_loop())
        names = await self._connect_stream(
            stream, partial(self._connect, stream, subscription, listener, consumer, syntax), consumer
        )
        self._serve(stream, listener, names, consumer)
        return names

    def on(
        self, subscription: str | Subscription, *, consumer: str | None = None, syntax: str = "motet"
    ) -> Callable[[L], L]:
        """Decorate a function or coroutine function to be the listener of subscriptions.

        A decorator cannot be awaited: the subscriptions are registered before it returns.
        """
        loop = asyncio.get_running_loop()

        def decorate(listener: L) -> L:
            stream = _ListenerStream(loop)
            self._serve(stream, listener, self._connect(stream, subscription, listener, consumer, syntax), consumer)
            return listener

        return decorate

    async def stream(
        self, subscription: str | Subscription, *, consumer: str | None = None, syntax: str = "motet"
    ) -> AsyncGenerator[Notification, None]:
        """The notifications of a subscription, those that the consumer missed and then new ones, until `close`.

        The subscription is a text, one made by `motet.subscription`, or the name of an active one. It is registered
        when the iteration begins. A notification is acknowledged when the next one is requested; one that is not is
        delivered to the consumer again, when it listens again.
        """
        arrived = asyncio.Event()
        stream = NotificationStream(_signal(asyncio.get_running_loop(), arrived))
        check_type("consumer", consumer, str, None)
        subscriptions = await self._run(self._requested, subscription, syntax)
        connect = partial(self._opened._subscribe, subscriptions, stream, consumer)
        names = await self._connect_stream(stream, connect, consumer)
        self._streams.add(stream)
        try:
            while (notification := await self._next(stream, arrived)) is not None:
                yield notification
        finally:
            self._streams.discard(stream)
            if self._closing is None:
                await asyncio.shield(self._run(self._opened._disconnect_stream, stream, names, consumer))

    async def notifications(
        self, subscription: str | Iterable[str] | None = None, *, since: Instant | int | None = None
    ) -> AsyncGenerator[Notification, None]:
        """The stored notifications, as `Cloud.notifications`."""
        rows = await self._run(self._opened.notifications, subscription, since=since)
        while chunk := await self._run(_chunk, rows):
            for notification in chunk:
                yield notification

    async def unsubscribe(self, name: str) -> None:
        """As `Cloud.unsubscribe`."""
        await self._run(self._opened.unsubscribe, name)

    async def disconnect(self, name: str, *, consumer: str | None = None) -> None:
        """As `Cloud.disconnect`."""
        await self._run(self._opened.disconnect, name, consumer=consumer)

    async def subscriptions(self) -> tuple[SubscriptionState, ...]:
        """As `Cloud.subscriptions`."""
        return await self._run(self._opened.subscriptions)

    async def retract(self, id: str) -> None:  # noqa: A002  (the language page's name)
        """As `Cloud.retract`."""
        await self._run(self._opened.retract, id)

    async def tick(self, instant: Instant | None = None, *, force: bool = False) -> None:
        """As `Cloud.tick`."""
        await self._run(self._opened.tick, instant, force=force)

    async def pending(self) -> PendingNotifications:
        """As `Cloud.pending`."""
        return await self._run(self._opened.pending)

    async def query(
        self,
        text: str,
        *,
        bindings: Mapping[str, object] | None = None,
        as_of: AsOf | None = None,
        span: Span | None = None,
        entailment: str | None = None,
        timeout: float = 300,
        max_rows: int = 1_000_000,
    ) -> QueryResult:
        """As `Cloud.query`."""
        query = partial(self._opened.query, text, bindings=bindings, as_of=as_of, span=span, entailment=entailment)
        return await self._run(query, timeout=timeout, max_rows=max_rows)

    async def statistics(self) -> dict[str, object]:
        """As `Cloud.statistics`."""
        return await self._run(self._opened.statistics)

    async def flush(self) -> None:
        """Return when the notifications of all published events are stored and the listeners have received them.

        A listener that calls this does not wait for itself.
        """
        await self._flush(self._opened, asyncio.current_task())

    async def close(self) -> None:
        """Deliver the remaining notifications to the listeners, end the streams and close the cloud.

        Safe to call twice; if it is cancelled, the cloud is closed all the same.
        """
        if self._cloud is None:
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(self._cloud, asyncio.current_task()))
        await asyncio.shield(self._closing)

    async def _close(self, cloud: Cloud, caller: asyncio.Task[Any] | None) -> None:
        try:
            await self._flush(cloud, caller)
            for stream in [*self._listeners, *self._streams]:
                stream.end()
            tasks = [task for task in self._listeners.values() if task is not caller]
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await asyncio.to_thread(cloud.close)

    async def _flush(self, cloud: Cloud, caller: asyncio.Task[Any] | None) -> None:
        """Wait until all listeners but the caller's have received the notifications of all records."""
        streams = [stream for stream, task in self._listeners.items() if task is not caller]
        is_behind = True
        while is_behind:
            await self._run(cloud._loop.flush)
            async with self._progress:
                await self._progress.wait_for(lambda: all(map(self._is_idle, streams)))
            is_behind = await self._run(self._is_behind, cloud, streams)

    def _is_idle(self, stream: NotificationStream) -> bool:
        return stream.is_idle or stream not in self._listeners

    @staticmethod
    def _is_behind(cloud: Cloud, streams: list[NotificationStream]) -> bool:
        with cloud._loop.lock:
            return cloud._loop.dispatcher.is_stream_behind(streams)

    @property
    def _opened(self) -> Cloud:
        if self._cloud is None:
            raise UsageError(
                "the cloud is not open", advice="Use it inside `async with motet.open_async(…) as cloud:`."
            )
        return self._cloud

    async def _run(self, function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
        return await asyncio.to_thread(function, *arguments, **options)

    def _requested(self, subscription: str | Subscription, syntax: str) -> tuple[Subscription, ...]:
        """The subscriptions of a text, or the active one of a name."""
        check_type("the subscription", subscription, str, Subscription)
        if isinstance(subscription, Subscription):
            return (subscription,)
        if not _NAME.fullmatch(subscription):
            return parse(subscription, syntax=syntax)
        states = {state.name: state for state in self._opened.subscriptions()}
        if subscription not in states:
            raise UsageError(
                f"there is no active subscription {subscription!r}",
                advice="Give its text, or register it with `subscribe` first.",
            )
        return parse(states[subscription].text)

    def _connect(
        self,
        stream: NotificationStream,
        subscription: str | Subscription,
        listener: Listener,
        consumer: str | None,
        syntax: str,
    ) -> tuple[str, ...]:
        """Register subscriptions with the stream of a listener; returns their names."""
        check_type("consumer", consumer, str, None)
        if not callable(listener):
            raise UsageError(f"the listener is {listener!r}, which cannot be called", advice="Give a function.")
        return self._opened._subscribe(self._requested(subscription, syntax), stream, consumer)

    async def _connect_stream(
        self, stream: NotificationStream, connect: Callable[[], tuple[str, ...]], consumer: str | None
    ) -> tuple[str, ...]:
        """Register subscriptions with a stream; if that is cancelled, the stream is removed again."""
        connecting = asyncio.ensure_future(self._run(connect))
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            names = await connecting
            await self._run(self._opened._disconnect_stream, stream, names, consumer)
            raise

    def _serve(self, stream: _ListenerStream, listener: Listener, names: tuple[str, ...], consumer: str | None) -> None:
        """Start the task that calls a listener."""
        self._listeners[stream] = asyncio.create_task(
            self._call_listener(stream, listener, consumer), name=f"motet listener of {', '.join(names)}"
        )

    async def _call_listener(self, stream: _ListenerStream, listener: Listener, consumer: str | None) -> None:
        """Call a listener with each notification of a stream, until it ends."""
        try:
            while (notification := await self._next(stream, stream.arrived)) is not None:
                await self._deliver(listener, notification, consumer or notification.subscription)
        finally:
            del self._listeners[stream]
            async with self._progress:
                self._progress.notify_all()

    async def _deliver(self, listener: Listener, notification: Notification, consumer: str) -> None:
        """Call a listener until it does not raise; after the last try the notification is a dead letter."""
        dispatcher = self._opened._loop.dispatcher
        for tries in range(1, MAX_TRIES + 1):
            try:
                result = listener(notification)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:  # a listener is user code: its failure must not stop the cloud
                dispatcher.failures[notification.subscription] += 1
                what = f"the listener of {notification.subscription!r} failed on notification {notification.id}"
                if tries == MAX_TRIES:
                    log.exception("%s %d times; it is a dead letter now", what, tries)
                    await self._store_dead_letter(consumer, notification, error)
                else:
                    seconds = RETRY_SECONDS * 2 ** (tries - 1)
                    log.warning("%s; it is called again in %.1f s", what, seconds, exc_info=error)
                    await asyncio.sleep(seconds)
            else:
                dispatcher.delivered += 1
                return

    async def _store_dead_letter(self, consumer: str, notification: Notification, error: Exception) -> None:
        """Store a notification that a listener has refused at every try; until that succeeds, nothing follows it."""
        dispatcher = self._opened._loop.dispatcher
        while True:
            try:
                await self._run(dispatcher.store_dead_letter, consumer, notification, MAX_TRIES, error)
            except LakeError:
                log.exception("a dead letter could not be stored; it is tried again")
                await asyncio.sleep(RETRY_SECONDS * 2**MAX_TRIES)
            else:
                return

    async def _next(self, stream: NotificationStream, arrived: asyncio.Event) -> Notification | None:
        """Acknowledge the notification before, and wait for the next one; None when the stream has ended."""
        while True:
            arrived.clear()
            notification = stream.take()
            if stream.is_full and stream.has_room:
                self._opened._loop.process_new()  # what did not fit is in the table
            if notification is not None or stream.is_ended:
                return notification
            async with self._progress:
                self._progress.notify_all()
            await arrived.wait()


class AsyncBackground:
    """The background graph of an `AsyncCloud`: the calls of `Background`, awaited."""

    def __init__(self, cloud: AsyncCloud) -> None:
        self._cloud = cloud

    async def triples(self) -> TripleSet:
        """The triples of the graph, as canonical N-Triples terms."""
        return await self._cloud._run(self._cloud._opened.background.triples)

    async def add(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Add triples and return how many of them are new."""
        return await self._cloud._run(self._cloud._opened.background.add, data, content_type=content_type)

    async def remove(self, data: RdfData, *, content_type: str = "text/turtle") -> int:
        """Remove triples and return how many of them were there."""
        return await self._cloud._run(self._cloud._opened.background.remove, data, content_type=content_type)


class _ListenerStream(NotificationStream):
    """A stream that signals an event of the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.arrived = asyncio.Event()
        super().__init__(_signal(loop, self.arrived))


def _signal(loop: asyncio.AbstractEventLoop, arrived: asyncio.Event) -> Callable[[], object]:
    """A function that sets an event of an event loop from another thread; nothing after the loop has ended."""

    def signal() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(arrived.set)

    return signal


def _chunk(rows: Iterator[Notification]) -> list[Notification]:
    return list(islice(rows, READ_ROWS))


def _close_opened(opening: asyncio.Future[Cloud]) -> None:
    """Close a cloud that was opened after its opening was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)
