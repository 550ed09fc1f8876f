"""A bounded buffer between the delivery of notifications and a consumer that takes them at its own pace.

What does not fit stays in the notification table and is offered again when there is room. A notification is
acknowledged when the next one is taken; the cursor of the consumer stays before those that are not.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from motet.model.notifications import Notification

CAPACITY = 1024


class NotificationStream:
    """The notifications that a consumer has not taken yet, with their emission offsets.

    ``on_offer`` is called, in the delivering thread, when there is something to take after there was nothing.
    """

    def __init__(self, on_offer: Callable[[], object], capacity: int = CAPACITY) -> None:
        self.is_full = False  # a notification was refused and has not been offered again
        self.is_ended = False
        self._on_offer = on_offer
        self._capacity = capacity
        self._buffer: deque[tuple[Notification, int]] = deque()
        self._taken: int | None = None  # the offset of the notification that is not acknowledged yet
        self._lock = threading.Lock()

    def offer(self, notification: Notification, offset: int) -> bool:
        """Add a notification; False if there is no room, or if the stream has ended."""
        with self._lock:
            if self.is_ended:
                return False
            self.is_full = len(self._buffer) >= self._capacity
            if self.is_full:
                return False
            self._buffer.append((notification, offset))
            is_first = len(self._buffer) == 1
        if is_first:
            self._on_offer()
        return True

    def take(self) -> Notification | None:
        """Acknowledge the notification taken before, and take the next one; None if there is none now."""
        with self._lock:
            self._taken = None
            if not self._buffer:
                return None
            notification, self._taken = self._buffer.popleft()
            return notification

    def end(self, *, discard: bool = False) -> None:
        """Accept nothing more; with ``discard`` what was not taken is dropped, too."""
        with self._lock:
            self.is_ended = True
            if discard:
                self._buffer.clear()
        self._on_offer()

    @property
    def has_room(self) -> bool:
        """Whether at least half of the buffer is free, and the stream has not ended."""
        return not self.is_ended and len(self._buffer) <= self._capacity // 2

    @property
    def is_idle(self) -> bool:
        """Whether everything that was offered is acknowledged."""
        with self._lock:
            return not self._buffer and self._taken is None and not self.is_full

    @property
    def unacknowledged(self) -> int | None:
        """The least offset of a notification that is not acknowledged; None if all are.

        Those of several subscriptions need not be in the order of their offsets.
        """
        with self._lock:
            offsets = [offset for _, offset in self._buffer]
            return min(offsets if self._taken is None else [*offsets, self._taken], default=None)
