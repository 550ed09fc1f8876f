"""Group commit: appends that arrive during a commit are committed together by the next one.

A single publisher commits at once; concurrent publishers share one write to disk. Each gets the receipt that its events
would have got in a commit of their own.
"""

from __future__ import annotations

import threading

from motet.embedded.delivery_loop import RecentRecords
from motet.lake import AppendRequest, Lake, Receipt

MAX_GROUP_EVENTS = 65_536  # of one commit


class QueuedAppend:
    """An append request and its result."""

    def __init__(self, request: AppendRequest) -> None:
        self.request = request
        self.result: Receipt | BaseException | None = None  # None: not done yet


class GroupCommitter:
    """Appends to a lake; the records of every commit stay in memory, in log order."""

    def __init__(self, lake: Lake, recent_records: RecentRecords) -> None:
        self._lake = lake
        self._recent_records = recent_records
        self._queue: list[QueuedAppend] = []
        self._queue_lock = threading.Lock()
        self._commit_lock = threading.RLock()

    def append(self, request: AppendRequest) -> Receipt:
        """Append the events of a request; durable when it returns, if the lake is."""
        append = QueuedAppend(request)
        with self._queue_lock:
            self._queue.append(append)
        with self._commit_lock:
            while append.result is None:  # the previous holder of the lock may have committed it
                self._commit(self._next_group())
        if isinstance(append.result, BaseException):
            raise append.result
        return append.result

    def _next_group(self) -> list[QueuedAppend]:
        """The oldest requests in the queue, up to the size of a commit."""
        with self._queue_lock:
            count = events = 0
            while count < len(self._queue) and (count == 0 or events < MAX_GROUP_EVENTS):
                events += len(self._queue[count].request.ids)
                count += 1
            group, self._queue = self._queue[:count], self._queue[count:]
        return group

    def _commit(self, group: list[QueuedAppend]) -> None:
        try:
            committed = self._lake.append_group([append.request for append in group])
        except BaseException as failure:  # noqa: BLE001  (raised again in every waiting publisher)
            for append in group:
                append.result = failure
            return
        for append, receipt in zip(group, committed.receipts, strict=True):
            append.result = receipt  # or the error that refuses this request alone
        if committed.placed is not None:
            self._recent_records.add(committed.placed)
