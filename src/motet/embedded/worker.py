"""One thread that does the work it is woken for, and hands its failure to whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """Calls its work after each `wake`, once for several that come together; with a delay, so many seconds later."""

    def __init__(self, work: Callable[[], None], *, delay: float = 0) -> None:
        self._work = work
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
        """Whether the caller is the work itself."""
        return threading.current_thread() is self._thread

    def notify_progress(self) -> None:
        """Have those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds that the work brings about; the work itself cannot wait for itself."""
        if self.is_current:
            return
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._failure is not None)
            if self._failure is not None:
                raise self._failure

    def flush(self) -> None:
        """Wait until everything asked for so far is done."""
        target = self._requested
        self._skip_delay = True
        self.notify_progress()
        self.wait_for(lambda: self._done >= target)

    def close(self) -> None:
        """Do what is left, then end."""
        try:
            self.flush()
        finally:
            self.stop()
            if self._thread is not None and not self.is_current:
                self._thread.join()

    def stop(self) -> None:
        """End after the work that is under way, and do not wait for that: it may need what the caller holds."""
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
                asked, self._skip_delay = self._requested, False
            try:
                self._work()
            except BaseException as error:  # noqa: BLE001  (handed to the caller of flush or close)
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._done = asked
                self._changed.notify_all()
