"""Event-time timers: the operator nodes that have to run without input once the frontier has passed an instant."""

from __future__ import annotations

from heapq import heappop, heappush

from motet.engine.detect.operator import NO_TIMER


class TimerQueue:
    """At most one valid entry for each node, with its earliest instant; later entries of the node are ignored.

    >>> timers = TimerQueue()
    >>> for node_id, instant in ((1, 30), (2, 10), (1, 20), (2, 40)):
    ...     timers.put(node_id, instant)
    >>> timers.pop_due(20), timers.pop_due(21), timers.pop_due(50)
    ([2], [1], [])
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []  # (instant, node), a heap
        self._earliest: dict[int, int] = {}  # by node: the instant of its valid entry

    def put(self, node_id: int, instant: int) -> None:
        """Set a node's timer, unless it has an earlier one."""
        if instant < self._earliest.get(node_id, NO_TIMER):
            self._earliest[node_id] = instant
            heappush(self._entries, (instant, node_id))

    @property
    def earliest(self) -> int:
        """An instant that no timer is before; NO_TIMER without any."""
        return self._entries[0][0] if self._entries else NO_TIMER

    def pop_due(self, frontier: int) -> list[int]:
        """Remove the timers that the frontier has passed and return their nodes."""
        due = []
        while self._entries and self._entries[0][0] < frontier:
            instant, node_id = heappop(self._entries)
            if self._earliest.get(node_id) == instant:
                del self._earliest[node_id]
                due.append(node_id)
        return due
