"""A live event cloud over a lake: publish, subscribe, be told.

The log is the truth: subscribing and publishing append records, notifications are derived from them in log order, kept
in the lake's notification table, and delivered from there. A listener that was away (or killed) gets what it missed
when it subscribes again; delivery is at least once, and a notification's id tells a repetition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from motet.codec.decode import decode_bytes
from motet.embedded.background import Background
from motet.embedded.worker import Worker
from motet.engine.derive import derive
from motet.engine.match.verify import leaf_of
from motet.lake import Appended, Lake, Snapshot
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription
from motet.model.errors import UsageError
from motet.model.notifications import Notification
from motet.model.schemas import NOTIFICATIONS
from motet.model.tables import Triple, notification_rows
from motet.plan.timeline import Control, Stretch, Timeline

Listener = Callable[[Notification], object]
Derive = Callable[[Lake, Snapshot, Sequence[Stretch], int, int], bool]

log = logging.getLogger("motet")


def derive_here(lake: Lake, snapshot: Snapshot, stretches: Sequence[Stretch], first: int, stop: int) -> bool:
    """Derive and commit the notifications of `[first, stop)` in this process; False when another process did."""
    found = [
        derive(stretch, records) for stretch in stretches for records in snapshot.records(stretch.first, stretch.stop)
    ]
    return lake.commit_notifications(pa.Table.from_batches(found, schema=NOTIFICATIONS), first, stop)


class Cloud:
    """Made by `motet.open()`. Methods may be called from several threads; listeners are called one at a time, in order.

    On the embedded engine a listener has been called by the time `publish` returns. With `threaded=True` (Spark) a
    worker thread derives and delivers; `flush()` waits for it.
    """

    def __init__(self, lake: Lake, derive: Derive = derive_here, *, threaded: bool = False) -> None:
        self.lake = lake
        self.background = Background(self._change_background)
        self._derive = derive
        self._timeline = Timeline()
        self._listeners: dict[str, Listener] = {}
        self._delivered: dict[str, int] = {}
        self._busy = threading.RLock()
        self._advancing = False
        self._worker = Worker(self._advance) if threaded else None

    def publish(
        self,
        data: str | bytes,
        *,
        content_type: str = "application/n-quads",
        event_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Appended:
        """Append the events of one request, all or none; on disk when this returns.

        A DecodeError names what is wrong with the first event that cannot be taken; then none was.
        """
        body = data.encode() if isinstance(data, str) else data
        decoded = list(decode_bytes(body, content_type, event_id=event_id, headers=headers))
        for part in decoded:
            if part.rejected:
                raise part.rejected[0]
        events = pa.Table.from_batches([part.events for part in decoded])
        appended = self.lake.append(events, now=time.time_ns() // 1000)
        self._proceed()
        return appended

    def subscribe(self, text: str, listener: Listener, *, syntax: str = "motet") -> tuple[str, ...]:
        """Register the subscriptions of a text and call the listener for each of their notifications.

        A subscription that is already in force, unchanged, is taken up again where its listener left off.
        """
        subscriptions = parse(text, syntax=syntax)
        for subscription in subscriptions:
            leaf_of(subscription)  # refuses what cannot be run, before anything is written
        with self._busy:
            known = self.lake.snapshot().subscriptions()
            for subscription in subscriptions:
                _refuse_change(subscription, known)
            for subscription in subscriptions:
                self._register(subscription, known)
                self._listeners[subscription.name] = listener
        self._proceed()
        return tuple(subscription.name for subscription in subscriptions)

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered once this has returned."""
        with self._busy:
            if name not in self.lake.snapshot().subscriptions():
                raise UsageError(f"no subscription {name!r} is in force", advice="`motet inspect` lists them.")
            self._listeners.pop(name, None)
            self.lake.unsubscribe(name)
        self._proceed()

    def tick(self, instant: int) -> None:
        """Promise that no event which ends before this instant (microseconds) will come any more."""
        self.lake.tick(instant)
        self._proceed()

    def flush(self) -> None:
        """Return when everything published so far has been derived and delivered."""
        if self._worker:
            self._worker.flush()
        else:
            self._advance()

    def close(self) -> None:
        """Deliver what is left and stop. Safe to call twice."""
        if self._worker:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _change_background(self, change: Callable[[frozenset[Triple]], frozenset[Triple]]) -> int:
        """Write what a change makes of the background graph, all or nothing; how many triples came or went."""
        with self._busy:
            self._advance()
            before = self._timeline.registry.background
            after = change(before)
            if after != before:
                self.lake.background(added=sorted(after - before), removed=sorted(before - after))
        self._proceed()
        return len(after ^ before)

    def _register(self, subscription: Subscription, known: Mapping[str, tuple[int, str]]) -> None:
        name = subscription.name
        offset = known[name][0] if name in known else self.lake.subscribe(name, to_text(subscription))
        self._delivered[name] = max(offset, self.lake.cursor(name))

    def _proceed(self) -> None:
        if self._worker:
            self._worker.wake()
        else:
            self._advance()

    def _advance(self) -> None:
        """Derive what the log holds beyond the notification table, then deliver what the table holds."""
        with self._busy:
            if self._advancing:  # a listener has published or subscribed: the loop around its call goes on
                return
            self._advancing = True
            try:
                while True:
                    snapshot = self._derived()
                    self._deliver(snapshot)
                    if self.lake.snapshot().next_offset == snapshot.next_offset:
                        return
            finally:
                self._advancing = False

    def _derived(self) -> Snapshot:
        """The newest version, with the notifications of its whole log."""
        while (snapshot := self._caught_up()).notified_to < snapshot.next_offset:
            first, stop = snapshot.notified_to, snapshot.next_offset
            self._derive(self.lake, snapshot, self._read_controls(snapshot, stop), first, stop)
        return snapshot

    def _caught_up(self) -> Snapshot:
        """The newest version, once the timeline knows what others have derived (or this process, before it began)."""
        snapshot = self.lake.snapshot()
        self._read_controls(snapshot, snapshot.notified_to)
        return snapshot

    def _read_controls(self, snapshot: Snapshot, stop: int) -> list[Stretch]:
        controls = _controls(snapshot, self._timeline.offset, stop)
        return list(self._timeline.advance(controls, stop))

    def _deliver(self, snapshot: Snapshot) -> None:
        """Call the listeners; what is written down is how far those have got who were told something."""
        reached = {name: offset for name, offset in self._delivered.items() if name in self._listeners}
        if not reached:
            return
        told = set()
        for batch in snapshot.notifications(min(reached.values())):
            for notification, offset in notification_rows(batch):
                if offset >= reached.get(notification.subscription, snapshot.notified_to):
                    self._call(notification)
                    told.add(notification.subscription)
        for name in reached:
            self._delivered[name] = snapshot.notified_to
            if name in told:
                self.lake.advance(name, snapshot.notified_to)

    def _call(self, notification: Notification) -> None:
        listener = self._listeners.get(notification.subscription)
        if listener is None:
            return
        try:
            listener(notification)
        except Exception:  # a listener is someone else's code: its failure is reported, not ours to die of
            log.exception("the listener of %r failed on notification %s", notification.subscription, notification.id)


def _refuse_change(subscription: Subscription, known: Mapping[str, tuple[int, str]]) -> None:
    if subscription.name in known and parse(known[subscription.name][1]) != (subscription,):
        raise UsageError(
            f"subscription {subscription.name!r} is in force with another text",
            advice="Unsubscribe it first, or give the new one another name.",
        )


def _controls(snapshot: Snapshot, first: int, stop: int) -> Iterable[Control]:
    for batch in snapshot.controls(first, stop):
        for row in batch.to_pylist():
            triples = tuple((t["subject"], t["predicate"], t["object"]) for t in row["triples"])
            yield Control(row["offset"], row["kind"], row["id"], row["text"], triples)
