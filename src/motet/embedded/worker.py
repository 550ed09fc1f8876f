"""One thread that does the work it is woken for, and hands its failure to whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """Calls `advance` after each `wake`, once for several that come together."""

    def __init__(self, advance: Callable[[], None]) -> None:
        self._advance = advance
        self._changed = threading.Condition()
        self._asked = 0
        self._done = 0
        self._closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="motet", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        with self._changed:
            self._asked += 1
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything asked for so far is done; from the work itself there is nothing to wait for."""
        if threading.current_thread() is self._thread:
            return
        with self._changed:
            target = self._asked
            self._changed.wait_for(lambda: self._done >= target or self._failure is not None)
            if self._failure is not None:
                raise self._failure

    def close(self) -> None:
        try:
            self.flush()
        finally:
            with self._changed:
                self._closed = True
                self._changed.notify_all()
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._done < self._asked)
                if self._closed:
                    return
                asked = self._asked
            try:
                self._advance()
            except BaseException as error:  # noqa: BLE001  (handed to the caller of flush or close)
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._done = asked
                self._changed.notify_all()
