"""How events of several threads get into the log: those that arrive while a commit is under way make the next one.

One publisher alone commits at once; many share the wait for the disk. Every receipt is as if its events had come alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from motet.lake import Appended, Committed, Events, Lake, Offer

GROUP_EVENTS = 65_536  # of one commit


class _Ticket:
    """A request, and what became of it."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.receipt: Appended | None = None
        self.failure: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.receipt is not None or self.failure is not None


class Intake:
    """Appends to a lake; ``committed`` is told what was appended, in log order."""

    def __init__(self, lake: Lake, committed: Callable[[Committed], object]) -> None:
        self._lake = lake
        self._committed = committed
        self._waiting: list[_Ticket] = []
        self._queue = threading.Lock()
        self._committing = threading.RLock()

    def append(self, events: Events, now: int) -> Appended:
        """Append events, all or none; durable when it returns, if the lake is."""
        ticket = _Ticket(Offer(events, now))
        with self._queue:
            self._waiting.append(ticket)
        with self._committing:
            while not ticket.done:  # whoever came first has not taken it along
                self._commit(self._group())
        if ticket.failure is not None:
            raise ticket.failure
        assert ticket.receipt is not None, "a ticket that is done without a failure has a receipt"
        return ticket.receipt

    def _group(self) -> list[_Ticket]:
        """The requests that wait, in the order they came, up to the size of a commit."""
        with self._queue:
            count = events = 0
            while count < len(self._waiting) and (count == 0 or events < GROUP_EVENTS):
                events += len(self._waiting[count].offer.ids)
                count += 1
            group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    def _commit(self, group: list[_Ticket]) -> None:
        try:
            committed = self._lake.append_together([ticket.offer for ticket in group])
        except BaseException as failure:  # noqa: BLE001  (handed to each of those who wait)
            for ticket in group:
                ticket.failure = failure
            return
        for ticket, receipt in zip(group, committed.receipts, strict=True):
            ticket.receipt = receipt
        self._committed(committed)
