"""A live event cloud over a lake: publish, subscribe, be told.

The log is the truth: subscribing and publishing append records, notifications are derived from them in log order and
delivered at once. The notification table and the cursors of the listeners follow behind, many at a time: what a crash
keeps from being written is derived again. A listener that was away (or killed) gets what it missed when it subscribes
again; delivery is at least once, and a notification's id tells a repetition.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.decode import Decoded, decode_bytes, decode_small
from motet.embedded.background import Background
from motet.embedded.delivery import Delivery, Listener
from motet.embedded.derivation import Derivation, Derive, Elsewhere, Found, Here, Recent
from motet.embedded.intake import Intake
from motet.embedded.worker import Worker
from motet.lake import Appended, Events, Lake, Snapshot
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.language.syntax import Subscription
from motet.model.batches import EVENTS, NOTIFICATIONS, Triple, notification_batch
from motet.model.control import ControlState
from motet.model.errors import MotetError, UsageError
from motet.model.records import Subscribe, Unsubscribe

__all__ = ["Cloud", "Derive", "Listener"]

BACKLOG = 100_000  # records
STEP = 65_536  # records derived together at most
SETTLE_RECORDS = 10_000
SAVE_RECORDS = 100_000
SETTLE_SECONDS = 0.25

log = logging.getLogger("motet")


class Cloud:
    """Made by `motet.open()`. Methods may be called from several threads; listeners are called one at a time, in order.

    On the embedded engine a listener has been called by the time `publish` returns. With `threaded=True` (Spark) a
    worker thread derives and delivers, together what was published while it was busy; `publish` waits for it when it
    is more than `backlog` records behind, `flush()` until it has done everything.
    """

    def __init__(
        self, lake: Lake, derive: Derive | None = None, *, threaded: bool = False, backlog: int = BACKLOG
    ) -> None:
        if backlog < 1:
            raise UsageError(f"a backlog of {backlog} records would never let anything in", advice="Use 1 or more.")
        self.lake = lake
        self.background = Background(self._change_background)
        self._backlog = backlog
        self._derivations: Callable[[], Derivation] = (
            partial(Here, lake) if derive is None else partial(Elsewhere, lake, derive)
        )
        self._derivation: Derivation = self._derivations()
        self._delivery = Delivery()
        self._recent = Recent()
        self._intake = Intake(lake, self._recent.put)
        self._published = 0
        self._reached: int | None = None  # derived and delivered up to here; None before the first time
        self._unsettled: list[Found] = []  # notifications that are not in the table yet
        self._saved = 0  # the derivation's state is kept up to about here
        self._settled = 0  # the table and the cursors are written up to here
        self._controls = ControlState()  # the subscriptions in force, as far as read
        self._subscriptions_to = 0
        self._busy = threading.RLock()
        self._advancing = False
        self._dirty = False  # something is to be settled, and the settler knows
        self._worker = Worker(self._advance) if threaded else None
        self._settler = Worker(self._settle_quietly, delay=SETTLE_SECONDS)

    def publish(
        self,
        data: str | bytes,
        *,
        content_type: str = "application/n-quads",
        event_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Appended:
        """Append the events of one request, all or none; on disk when this returns, unless the lake is not durable.

        A DecodeError names what is wrong with the first event that cannot be taken; then none was.
        """
        body = data.encode() if isinstance(data, str) else data
        plain = event_id is None and not headers
        events: Events | None = decode_small(body, content_type) if plain else None
        if events is None:
            events = _decoded(decode_bytes(body, content_type, event_id=event_id, headers=headers))
        self._make_room()
        appended = self._intake.append(events, now=time.time_ns() // 1000)
        self._published += appended.accepted
        self._proceed()
        return appended

    def subscribe(
        self, subscription: str | Subscription, listener: Listener, *, syntax: str = "motet"
    ) -> tuple[str, ...]:
        """Register the subscriptions of a text, or one made by `motet.subscription`; returns their names.

        The listener is called for each of their notifications. If an equal subscription is active already, delivery
        continues after the last notification that its listener received.
        """
        subscriptions = parse(subscription, syntax=syntax) if isinstance(subscription, str) else (subscription,)
        with self._busy:
            self._resumed(self.lake.snapshot())
            self._derivation.check(subscriptions)  # refuses what cannot be run, before anything is written
            known = self._in_force()
            for requested in subscriptions:
                _refuse_change(requested, known)
            new = {one.name: to_text(one) for one in subscriptions if one.name not in known}
            cursors = self.lake.cursors(one.name for one in subscriptions if one.name in known)
            reached = self._resumed(self.lake.snapshot())
            first = self.lake.subscribe_all(new) if new else 0
            for name, cursor in cursors.items():
                self._delivery.listen(name, listener, max(known[name].offset, cursor), reached)
            for offset, name in enumerate(new, first):
                self._delivery.listen(name, listener, offset, reached)
        self._proceed()
        return tuple(requested.name for requested in subscriptions)

    def unsubscribe(self, name: str) -> None:
        """End a subscription; nothing is delivered once this has returned."""
        with self._busy:
            if name not in self._in_force():
                raise UsageError(f"no subscription {name!r} is in force", advice="`motet inspect` lists them.")
            self._delivery.leave(name)
            self.lake.unsubscribe(name)
        self._proceed()

    def tick(self, instant: int) -> None:
        """Promise that no event which ends before this instant (microseconds) will come any more."""
        self.lake.tick(instant)
        self._proceed()

    def statistics(self) -> dict[str, object]:
        """What this cloud has done since it was opened, and how many records it is behind."""
        reached = self._settled if self._reached is None else self._reached
        counts = {"published": self._published, "derived": reached, "settled": self._settled}
        return {**counts, "backlog": max(self.lake.snapshot().next_offset - reached, 0), **self._delivery.statistics()}

    def flush(self) -> None:
        """Return when everything published so far has been derived, delivered and written down."""
        self.lake.snapshot()
        if self._worker:
            self._worker.flush()
        else:
            self._advance()
        self._settle()

    def close(self) -> None:
        """Deliver what is left, write everything down and stop. Safe to call twice."""
        worker, self._worker = self._worker, None
        try:
            if worker:
                worker.close()
        finally:
            self._settler.stop()
            self._settle()
            self._save()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _change_background(self, change: Callable[[frozenset[Triple]], frozenset[Triple]]) -> int:
        """Write what a change makes of the background graph, all or nothing; how many triples came or went."""
        with self._busy:
            self.lake.snapshot()
            self._advance()
            before = self._derivation.background
            after = change(before)
            if after != before:
                self.lake.background(added=sorted(after - before), removed=sorted(before - after))
        self._proceed()
        return len(after ^ before)

    def _in_force(self) -> Mapping[str, Subscribe]:
        """The subscriptions in force, of this and of other processes, by name."""
        snapshot = self.lake.snapshot()
        self._controls.apply_all(snapshot.control_records(Subscribe, Unsubscribe, first=self._subscriptions_to))
        self._subscriptions_to = snapshot.next_offset
        return dict(self._controls.subscriptions)

    def _make_room(self) -> None:
        """Wait until the worker is less than a backlog behind."""
        if self._worker:
            self._worker.wait_for(lambda: self.lake.known().next_offset - (self._reached or 0) < self._backlog)

    def _proceed(self) -> None:
        if self._worker:
            self._worker.wake()
        else:
            self._advance()

    def _advance(self) -> None:
        """Derive and deliver what is known of the log: after a commit that is all; others first look for newer."""
        with self._busy:
            if self._advancing:  # a listener has published or subscribed: the loop around its call goes on
                return
            self._advancing = True
            try:
                while self._step(self.lake.known()):
                    pass
            finally:
                self._advancing = False

    def _step(self, snapshot: Snapshot) -> bool:
        """Derive and deliver a part of a version's log; False when there is nothing left of it."""
        first = self._resumed(snapshot)
        if self._delivery.is_behind:
            self._settle()
            self._delivery.catch_up(self.lake.snapshot(), first)
        stop = min(snapshot.next_offset, first + STEP)
        if stop <= first:
            return self._delivery.is_behind
        try:
            found = self._derivation.advance(self.lake, snapshot, stop, self._recent)
            self._unsettled += [] if self._derivation.commits else found
            self._delivery.tell(found)
        except BaseException:  # the derivation is somewhere between the two offsets: the next step begins anew
            self._start_over()
            raise
        self._recent.forget(stop)
        self._reached = stop
        self._follow_up()
        return True

    def _start_over(self) -> None:
        self._settle_quietly()
        self._derivation = self._derivations()
        self._reached, self._unsettled = None, []

    def _resumed(self, snapshot: Snapshot) -> int:
        """Where this cloud has got; at first, where the notification table ends."""
        if self._reached is None:
            self._derivation.resume(snapshot, snapshot.notified_to)
            self._reached = self._settled = self._saved = snapshot.notified_to
        return self._reached

    def _follow_up(self) -> None:
        """After a step: see to it that it gets written down."""
        if self._worker:
            self._worker.progressed()
        if (self._reached or 0) - self._settled >= SETTLE_RECORDS:
            self._settle_quietly()
        elif not self._dirty:
            self._dirty = True
            self._settler.wake()

    def _settle_quietly(self) -> None:
        try:
            self._settle()
        except MotetError:  # nothing is lost: it is tried again, and what is not written is derived again
            log.exception("the notifications could not be written down")

    def _settle(self) -> None:
        """Write down the notifications that have been delivered, and that they have been."""
        with self._busy:
            self._dirty = False
            reached = self._reached
            if reached is None or reached == self._settled:
                return
            while (first := self.lake.snapshot().notified_to) < reached:  # of several processes, one writes a range
                self.lake.commit_notifications(_table(self._unsettled, first, reached), first, reached)
            self._settled = reached
            if reached - self._saved >= SAVE_RECORDS:
                self._save()
            self._unsettled = [found for found in self._unsettled if _last_offset(found) >= reached]
            if told := self._delivery.told():
                self._remember(told, reached)

    def _save(self) -> None:
        """Keep what the derivation remembers: the next process need not read the log again."""
        self._derivation.save()
        self._saved = self._settled

    def _remember(self, told: set[str], reached: int) -> None:
        try:
            self.lake.advance_all(dict.fromkeys(told, reached))
        except MotetError:
            self._delivery.told_again(told)
            raise


def _decoded(parts: Iterable[Decoded]) -> pa.RecordBatch | pa.Table:
    """The events of a request none of which was rejected."""
    batches = []
    for part in parts:
        if part.rejected:
            raise part.rejected[0]
        batches.append(part.events)
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches, schema=EVENTS)


def _last_offset(found: Found) -> int:
    return found[-1][1] if isinstance(found, list) else int(found.column("offset")[-1].as_py())


def _table(unsettled: Sequence[Found], first: int, stop: int) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    for are_few, group in groupby(unsettled, lambda found: isinstance(found, list)):
        together = list(group)
        batches += [notification_batch(chain.from_iterable(together))] if are_few else together
    table = pa.Table.from_batches(batches, schema=NOTIFICATIONS)
    offsets = table["offset"]
    return table.filter(pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, stop)))


def _refuse_change(subscription: Subscription, known: Mapping[str, Subscribe]) -> None:
    if subscription.name in known and parse(known[subscription.name].text) != (subscription,):
        raise UsageError(
            f"subscription {subscription.name!r} is in force with another text",
            advice="Unsubscribe it first, or give the new one another name.",
        )
