"""The background threads of a cloud: one runs a task on request, one runs a task again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

IDLE_SECONDS = 5.0  # a worker without requests for so long has no thread
RETRY_SECONDS = 0.2  # before a failed task is run again; doubled after each failure
MAX_POLL_SECONDS = 30.0  # after failures

log = logging.getLogger("motet")


class Worker:
    """Runs a task after each `wake`, once for all calls before it starts; with a delay, that many seconds later.

    A failure is logged and raised, once, in the threads that wait for the task. The task is run again after a while, at
    the next `wake`, or when a thread waits for it.
    """

    def __init__(self, task: Callable[[], None], *, delay: float = 0) -> None:
        self._task = task
        self._delay = delay
        self._changed = threading.Condition()  # re-entrant
        self._requested = 0
        self._done = 0
        self._failed_at = 0
        self._retry_seconds = RETRY_SECONDS
        self._closed = False
        self._skip_delay = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        with self._changed:
            self._requested += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="motet", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in the worker's thread."""
        return threading.current_thread() is self._thread

    def notify_progress(self) -> None:
        """Make waiting threads check their conditions again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that the task fulfils; returns at once in the worker's own thread.

        Raises the failure of the task, once; when called again, the task is tried again.
        """
        if self.is_current:
            return
        with self._changed:
            if self._failure is None and self._done < self._requested == self._failed_at:
                self.wake()
            self._changed.wait_for(lambda: condition() or self._failure is not None)
            if self._failure is not None and not condition():
                failure, self._failure = self._failure, None
                raise failure

    def flush(self) -> None:
        """Wait until all requests so far are done, without the delay."""
        target = self._requested
        self._skip_delay = True
        self.notify_progress()
        self.wait_for(lambda: self._done >= target)

    def close(self) -> None:
        """Finish all requests, then end the thread."""
        try:
            self.flush()
        finally:
            self.stop()
            thread = self._thread
            if thread is not None and not self.is_current:
                thread.join()

    def stop(self) -> None:
        """End the thread after the current run, without waiting for it: it may need a lock of the caller."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (target := self._next_request()) is not None:
            try:
                self._task()
            except BaseException as error:
                with self._changed:
                    log.exception(
                        "a background task of the cloud failed; it is run again in %.1f s", self._retry_seconds
                    )
                    self._failed_at, self._failure = target, error
                    self._changed.notify_all()
            else:
                with self._changed:
                    self._done, self._retry_seconds = target, RETRY_SECONDS
                    self._changed.notify_all()

    def _next_request(self) -> int | None:
        """The number of the latest request, when its delay has passed; None when the thread should end."""
        with self._changed:
            if self._done < self._requested == self._failed_at:
                self._changed.wait_for(lambda: self._closed or self._is_pending, self._retry_seconds)
                self._retry_seconds = min(2 * self._retry_seconds, MAX_POLL_SECONDS)
                self._failed_at = self._done  # run it again
            self._changed.wait_for(lambda: self._closed or self._is_pending, IDLE_SECONDS)
            if self._is_pending:
                self._changed.wait_for(lambda: self._closed or self._skip_delay, self._delay)
            if self._closed or not self._is_pending:
                self._thread = None  # a later wake starts another one
                return None
            self._skip_delay = False
            self._failure = None  # the run that starts now says whether it lasts
            return self._requested

    @property
    def _is_pending(self) -> bool:
        return self._requested > max(self._done, self._failed_at)


class Poller:
    """Runs a task every so many seconds, in a thread, between `start` and `stop`."""

    def __init__(self, task: Callable[[], None], seconds: float) -> None:
        self._task = task
        self._seconds = seconds
        self._lock = threading.Lock()
        self._stop_requested = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, unless it runs."""
        with self._lock:
            if self._thread is None:
                self._stop_requested = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._stop_requested,), name="motet-follow", daemon=True
                )
                self._thread.start()

    def stop(self, *, wait: bool) -> None:
        """End the thread; ``wait`` for the task in progress, unless that is the caller."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop_requested.set()
        if wait and thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self, stop_requested: threading.Event) -> None:
        seconds = self._seconds
        while not stop_requested.wait(seconds):
            try:
                self._task()
            except Exception:
                seconds = min(2 * seconds, MAX_POLL_SECONDS)
                log.exception("a background task of the cloud failed; it is tried again in %.1f s", seconds)
            else:
                seconds = self._seconds
