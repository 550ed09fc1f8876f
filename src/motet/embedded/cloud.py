"""The live cloud over a lake: publish events, subscribe, receive notifications.

Publishing and subscribing append records to the log; notifications are computed from them in log order and delivered
at once. The notification table and the cursors of the consumers are written later, for many notifications at a time:
after a crash the missing ones are computed again. A consumer that was away receives what it missed when its listener is
there again. Delivery is at least once; a notification that is delivered twice has the same id. A cloud with listeners
follows what other processes append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.events import Decoded
from motet.codec.options import Rest
from motet.codec.row_mapping import MappingInput, RowMapping
from motet.embedded.backend import InProcessBackend, PipelineBackend, ProcessAvailable
from motet.embedded.background import Background
from motet.embedded.delivery_loop import DeliveryLoop
from motet.embedded.dispatcher import Listener, NotificationStream, check_listener
from motet.embedded.publishing import (
    EventData,
    EventTime,
    GroupCommitter,
    PublishCounts,
    decode_call,
    decode_call_rows,
    with_counts,
)
from motet.embedded.registration import Registrations, SubscriptionState
from motet.jobs.upkeep import Heartbeat
from motet.lake import AppendRequest, EventInput, Lake, Receipt, Snapshot
from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.batches import TIME, Triple, notification_rows
from motet.model.errors import UsageError, check_type
from motet.model.notifications import Notification
from motet.model.records import Subscribe, Tick
from motet.model.times import Instant, to_datetime, to_micros

if TYPE_CHECKING:
    from motet.query.answers import QueryResult
    from motet.query.history import AsOf
    from motet.query.lake_query import LakeQueryEngine, Span

__all__ = ["Cloud", "Listener", "PendingNotifications", "ProcessAvailable", "SubscriptionState"]

L = TypeVar("L", bound=Listener)

MAX_BACKLOG = 100_000  # records


@dataclass(frozen=True)
class PendingNotifications:
    """The notifications that wait for the frontier, if no further event is published."""

    count: int
    until: datetime | None  # the frontier at which the last of them is final; None if there are none


class Cloud:
    """A live event cloud over a lake, made by `motet.open()`.

    Methods may be called from several threads; listeners are called one at a time, in log order. On the embedded
    engine they have been called when `publish` returns. With `threaded=True`, and on Spark, a worker thread computes
    and delivers notifications, in one step for all events published meanwhile; `publish` waits when the worker is more
    than `backlog` records behind, `flush()` until it has caught up. While there are listeners, another thread looks for
    records of other processes and delivers their notifications within a second. After `close()` every call is an error.
    """

    def __init__(
        self,
        lake: Lake,
        process_available: ProcessAvailable | None = None,
        *,
        threaded: bool = False,
        backlog: int = MAX_BACKLOG,
    ) -> None:
        if backlog < 1:
            raise UsageError(f"backlog must be at least 1, not {backlog}", advice="Use 1 or more.")
        self.lake = lake
        self.background = Background(self._background_triples, self._change_background)
        self._max_backlog = backlog
        new_backend = (
            partial(InProcessBackend, lake)
            if process_available is None
            else partial(PipelineBackend, lake, process_available)
        )
        heartbeat = Heartbeat(lake, spark=process_available is not None)
        self._loop = DeliveryLoop(lake, new_backend, heartbeat, threaded=threaded)
        self._registrations = Registrations(lake, self._loop.dispatcher)
        self._committer = GroupCommitter(lake, self._loop.recent_records)
        self._counts = PublishCounts()
        self._is_closed = False

    def publish(
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
        """Append the events of one request, all or none; on disk when this returns, unless the lake is not durable.

        The data is text or bytes, a dict or a list of dicts (JSON-LD, or CloudEvents), or a graph or dataset of rdflib
        or pyoxigraph. Without a `content_type` N-Quads, Turtle, TriG, JSON and XML are recognised by their beginning.

        With `id` the data is one event with that IRI. `time` is the time of an XML document: an instant, or start and
        end. `base` resolves relative IRIs; `rest` says what happens to triples that belong to no event: "refuse" the
        data, "drop" them, or "share" them among all events. Each call is an input of its own: publishing a reading
        without an IRI twice makes two events.

        A `DecodeError` says what is wrong with the first event that is rejected; then no event is appended.
        """
        self._check_open()
        settings = self.lake.cached_snapshot().settings
        events, decoded = decode_call(
            data, settings, content_type=content_type, id=id, base=base, rest=rest, headers=headers, time=time
        )
        return self._append(events, decoded)

    def publish_rows(self, rows: object, mapping: MappingInput) -> Receipt:
        """Append the events that a mapping makes of rows, all or none: each row is one event.

        `rows` are dicts, nested ones as JSON has them, a pandas DataFrame or an Arrow table. `mapping` is a dict, its
        YAML text, or the path of its file (docs/sources.md). A `DecodeError` says what is wrong with the first row
        that is rejected.
        """
        self._check_open()
        decoded = decode_call_rows(rows, RowMapping.of(mapping), self.lake.cached_snapshot().settings.time_properties)
        return self._append(decoded.events, decoded)

    def _append(self, events: EventInput, decoded: Decoded | None) -> Receipt:
        request = AppendRequest(events)
        self._loop.wait_for_room(self._max_backlog)
        receipt = self._committer.append(request)
        self._loop.process_new()
        if decoded is not None and decoded.has_counts:
            receipt = with_counts(receipt, decoded)
        self._counts.add(receipt)
        return receipt

    def subscribe(
        self,
        subscription: str | Subscription,
        listener: Listener | None = None,
        *,
        consumer: str | None = None,
        syntax: str = "motet",
    ) -> tuple[str, ...]:
        """Register the subscriptions of a text, or one made by `motet.subscription`; returns their names.

        The listener is called for each of their notifications; without one they are only registered, and their
        notifications are stored. It belongs to a consumer, by default one with the subscription's name: if an equal
        subscription is active already, delivery continues after the last notification that the consumer received. Every
        consumer receives everything. Several listeners of one consumer each receive what it receives from now on and
        what it missed; a consumer belongs to one process at a time.

        A listener that raises is called again with the same notification, up to five times within about three seconds,
        while the others go on; then the notification is a dead letter in `dead-letter/notifications.jsonl` of the lake.
        If the process ends before, it is delivered by the next one.
        """
        self._check_open()
        check_type("the subscription", subscription, str, Subscription)
        check_type("consumer", consumer, str, None)
        if listener is not None:
            check_listener(listener)
        elif consumer is not None:
            raise UsageError(f"consumer {consumer!r} has no listener", advice="Give a listener, or leave consumer out.")
        subscriptions = parse(subscription, syntax=syntax) if isinstance(subscription, str) else (subscription,)
        return self._subscribe(subscriptions, listener, consumer)

    def _subscribe(
        self,
        subscriptions: Sequence[Subscription],
        listener: Listener | NotificationStream | None,
        consumer: str | None,
    ) -> tuple[str, ...]:
        consumers = {requested.name: requested.name if consumer is None else consumer for requested in subscriptions}
        loop = self._loop
        with loop.lock:
            self._check_open()  # a thread may have closed it meanwhile
            loop.current_offset(self.lake.snapshot())
            loop.backend.check(subscriptions)  # before anything is written
            if listener is not None:
                self.lake.consumers.claim(consumers.values())
            try:
                while (starts := self._registrations.register(subscriptions, consumers)) is None:
                    pass  # another process has registered one of them meanwhile
            except BaseException:
                self.lake.consumers.release(loop.dispatcher.without_listeners(consumers.values()))
                raise
            processed_to = max(loop.current_offset(self.lake.snapshot()), loop.step_end)
            if listener is not None:
                for name, start in starts.items():
                    loop.dispatcher.add(name, consumers[name], listener, start, processed_to)
                loop.start_following()
        loop.process_new()
        return tuple(requested.name for requested in subscriptions)

    def on(
        self, subscription: str | Subscription, *, consumer: str | None = None, syntax: str = "motet"
    ) -> Callable[[L], L]:
        """Decorate a function to be the listener of subscriptions; otherwise as `subscribe`.

        >>> import motet, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, motet.open(folder) as cloud:
        ...     @cloud.on("SUBSCRIPTION all EVENT e WHEN e")
        ...     def show(found: motet.Notification) -> None:
        ...         print(found.subscription, found.events)
        ...     receipt = cloud.publish('<urn:s> <urn:p> "o" <urn:e:1> .')
        all ('urn:e:1',)
        """

        def subscribe(listener: L) -> L:
            self.subscribe(subscription, listener, consumer=consumer, syntax=syntax)
            return listener

        return subscribe

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered after this has returned."""
        self._check_open()
        check_type("the name", name, str)
        with self._loop.lock:
            if name not in self._registrations.active():
                raise _unknown_subscription(name, self._registrations.active())
            self._loop.remove_listeners(name)
            self.lake.unsubscribe(name)
        self._loop.process_new()

    def disconnect(self, name: str, *, consumer: str | None = None) -> None:
        """Remove the listeners of a consumer, by default of the one with the subscription's name.

        The subscription stays active. The consumer receives what it misses when it has a listener again, in this
        process or in another.
        """
        self._check_open()
        check_type("the name", name, str)
        check_type("consumer", consumer, str, None)
        with self._loop.lock:
            consumer_name = name if consumer is None else consumer
            if self._loop.dispatcher.start_of(consumer_name, name) is None:
                raise UsageError(
                    f"consumer {consumer_name!r} has no listener of subscription {name!r} here",
                    advice="Give the names that `subscribe` was called with.",
                )
            self._loop.persist()  # the cursor
            self._loop.remove_listeners(name, consumer_name)

    def _disconnect_stream(self, stream: NotificationStream, names: Iterable[str], consumer: str | None) -> None:
        """Remove a stream; what it has not acknowledged stays for its consumer."""
        with self._loop.lock:
            if not self._is_closed:
                self._loop.persist()  # the cursor
                for name in names:
                    self._loop.remove_listeners(name, consumer or name, listener=stream)

    def subscriptions(self) -> tuple[SubscriptionState, ...]:
        """The active subscriptions, also those of other processes, in the order in which they were registered."""
        self._check_open()
        self._loop.persist()  # the cursors
        return self._registrations.states()

    def notifications(
        self, subscription: str | Iterable[str] | None = None, *, since: Instant | int | None = None
    ) -> Iterator[Notification]:
        """The notifications of all subscriptions, or of some, in log order; first computes those that are due.

        ``since`` leaves out those that end before an instant or, if it is an integer, whose emission offset is lower.
        """
        self._check_open()
        check_type("the subscription", subscription, str, Iterable, None)
        names = None if subscription is None else {subscription} if isinstance(subscription, str) else {*subscription}
        is_offset = isinstance(since, int) and not isinstance(since, bool)
        first = since if isinstance(since, int) and is_offset else 0
        earliest = None if since is None or is_offset else to_micros(cast(Instant, since))
        self._loop.store_all()
        snapshot = self.lake.snapshot()
        registered = {record.name for record in snapshot.control_records(Subscribe) if isinstance(record, Subscribe)}
        for name in sorted((names or set()) - registered):
            raise _unknown_subscription(name, registered)
        return _stored_notifications(snapshot, names, first, earliest)

    def retract(self, id: str) -> None:  # noqa: A002  (the language page's name)
        """Hide an event from queries and from later subscriptions; the log still holds its IRI."""
        self._check_open()
        check_type("id", id, str)
        self.lake.retract(id)
        self._loop.process_new()

    def tick(self, instant: Instant | None = None, *, force: bool = False) -> None:
        """Advance the frontier to an instant: events that end before it are late from now on.

        The instant is a `datetime` with a zone, or an xsd:dateTime as text. Without one it is the greatest that an
        occurrence waits for: everything that is there is decided. An instant later than the clock and the setting
        `ahead` allow needs ``force``.
        """
        self._check_open()
        if instant is None:
            self._tick_pending()
        else:
            self.lake.tick(to_micros(instant), force=force)
        self._loop.process_new()

    def _tick_pending(self) -> None:
        """Append a tick at the greatest instant that an occurrence waits for, if there is one."""
        if self._loop.is_calling:
            raise UsageError(
                "a listener cannot tick without an instant: its records are still being processed",
                advice="Give an instant, or call tick() outside the listener.",
            )
        with self._loop.lock:
            while True:
                processed_to = self._process_all()
                instant = self._loop.backend.waiting(None)
                if instant is None:
                    return
                if self.lake.append_controls([Tick(instant)], at=processed_to, force=True) is not None:
                    return

    def pending(self) -> PendingNotifications:
        """The notifications that wait for the frontier: how many become final, if no further event is published."""
        self._check_open()
        if self._loop.is_calling:
            raise UsageError(
                "a listener cannot request what is pending: its records are still being processed",
                advice="Call pending() outside the listener.",
            )
        with self._loop.lock:
            self._process_all()
            count, until = self._loop.backend.pending()
        return PendingNotifications(count, None if until is None else to_datetime(until))

    def query(
        self,
        text: str,
        *,
        bindings: Mapping[str, object] | None = None,
        as_of: AsOf | None = None,
        span: Span | None = None,
        entailment: str | None = None,
        engine: LakeQueryEngine = "duckdb",
        timeout: float = 300,
        max_rows: int = 1_000_000,
    ) -> QueryResult:
        """Answer a SPARQL query over the events of the log: rows for SELECT, a graph for CONSTRUCT, a bool for ASK.

        ``bindings`` gives values for variables. ``as_of`` is an offset or an instant (a datetime or xsd:dateTime),
        ``span`` a pair of instants, of which one may be None. ``entailment`` is by default the lake's setting.
        The engine is DuckDB, or "memory", which is slow and needs no zones.
        """
        from motet.query.lake_query import QueryOptions, query_result
        from motet.query.limits import QueryLimits

        self._check_open()
        check_type("the query", text, str)
        check_type("bindings", bindings, Mapping, None)
        limits = QueryLimits(seconds=timeout, rows=max_rows)
        options = QueryOptions(bindings or {}, as_of, span, entailment, engine, limits)
        return query_result(self.lake, text, options, self._loop.store_all)

    def statistics(self) -> dict[str, object]:
        """Counts since the cloud was opened, the offsets it has reached, and its backlog in records."""
        self._check_open()
        loop = self._loop
        processed_to = loop.persisted_to if loop.processed_to is None else loop.processed_to
        backlog = max(self.lake.snapshot().next_offset - processed_to, 0)
        offsets = {"processed_to": processed_to, "stored_to": loop.persisted_to}
        return {**self._counts, **offsets, "backlog": backlog, **loop.dispatcher.statistics()}

    def flush(self) -> None:
        """Return when the notifications of all published events are delivered and stored.

        A listener that has failed is called again without waiting, until it succeeds or the notification is a dead
        letter.
        """
        self._check_open()
        self._loop.flush()

    def close(self) -> None:
        """Deliver and store the remaining notifications, then stop. Safe to call twice."""
        self._is_closed = True
        try:
            self._loop.close()
        finally:
            self.lake.consumers.release_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed and not self._loop.is_calling:  # listeners receive what is left while it is closed
            raise UsageError("the cloud is closed", advice="Open it again with motet.open().")

    def _process_all(self) -> int:
        """Process the records of all processes, and return the offset after them."""
        self.lake.snapshot()
        self._loop.advance()
        return self._loop.current_offset(self.lake.cached_snapshot())

    def _background_triples(self) -> frozenset[Triple]:
        self._check_open()
        with self._loop.lock:
            self._process_all()
            return self._loop.backend.background

    def _change_background(self, change: Callable[[frozenset[Triple]], frozenset[Triple]]) -> int:
        """Append the changes that a function makes to the background graph, and return their number."""
        with self._loop.lock:
            before = self._background_triples()
            after = change(before)
            if after != before:
                self.lake.background(added=sorted(after - before), removed=sorted(before - after))
        self._loop.process_new()
        return len(after ^ before)


def _unknown_subscription(name: str, known: Iterable[str]) -> UsageError:
    names = ", ".join(sorted(known)[:5])
    return UsageError(
        f"there is no active subscription {name!r}",
        advice=f"Give the name of one that is registered: {names}." if names else "Subscribe first.",
    )


def _stored_notifications(
    snapshot: Snapshot, names: set[str] | None, first: int, earliest: int | None
) -> Iterator[Notification]:
    """The notifications of a snapshot, of these subscriptions, from an emission offset and an end on."""
    for batch in snapshot.notifications(first):
        selected = batch
        if names is not None:
            selected = selected.filter(pc.is_in(selected.column("subscription"), pa.array(sorted(names), pa.string())))
        if earliest is not None:
            selected = selected.filter(pc.greater_equal(selected.column("end"), pa.scalar(earliest, TIME)))
        for notification, _ in notification_rows(selected):
            yield notification
