"""Which nodes are due: those for whom the frontier has passed an instant. Nobody asks the others."""

from __future__ import annotations

from heapq import heappop, heappush

from motet.engine.detect.operator import NO_TIMER


class TimerQueue:
    """An entry stands for the node until its instant has passed; by then the node itself may want a later one.

    >>> timers = TimerQueue()
    >>> for id_, due in ((1, 30), (2, 10), (1, 20), (2, 40)):
    ...     timers.put(id_, due)
    >>> timers.pop_due(20), timers.pop_due(21), timers.pop_due(50)
    ([2], [1], [])
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # instants and nodes, a heap
        self._first: dict[int, int] = {}  # by node: the instant of its entry; others are left behind

    def put(self, id_: int, due: int) -> None:
        """Remind of a node when the frontier has passed an instant, at the latest."""
        if due < self._first.get(id_, NO_TIMER):
            self._first[id_] = due
            heappush(self._entries, (due, id_))

    def pop_due(self, now: int) -> list[int]:
        """The nodes the frontier reminds of; they have to be put again."""
        found = []
        while self._entries and self._entries[0][0] < now:
            due, id_ = heappop(self._entries)
            if self._first.get(id_) == due:
                del self._first[id_]
                found.append(id_)
        return found
