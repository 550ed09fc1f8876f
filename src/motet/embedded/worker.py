"""A background thread that runs one task on request and passes its failure to the threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """Runs a task after each `wake`, once for all calls before it starts; with a delay, that many seconds later."""

    def __init__(self, task: Callable[[], None], *, delay: float = 0) -> None:
        self._task = task
        self._delay = delay
        self._changed = threading.Condition()
        self._requested = 0
        self._done = 0
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
        """Wait until a condition holds that the task fulfils; returns at once in the worker's own thread."""
        if self.is_current:
            return
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._failure is not None)
            if self._failure is not None:
                raise self._failure

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
            if self._thread is not None and not self.is_current:
                self._thread.join()

    def stop(self) -> None:
        """End the thread after the current run, without waiting for it: it may need a lock of the caller."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._done < self._requested)
                self._changed.wait_for(lambda: self._closed or self._skip_delay, self._delay)
                if self._closed:
                    return
                target, self._skip_delay = self._requested, False
            try:
                self._task()
            except BaseException as error:  # noqa: BLE001  (raised again by wait_for)
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._done = target
                self._changed.notify_all()
