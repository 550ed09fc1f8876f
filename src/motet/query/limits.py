"""QueryLimits of one query on time, memory and rows."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from motet.model.errors import LimitError, UsageError


@dataclass(frozen=True)
class QueryLimits:
    """The most that a query may use; memory is that of an engine that compiles queries."""

    seconds: float = 300
    rows: int = 1_000_000
    memory: int = 2 << 30

    def __post_init__(self) -> None:
        for name, types in (("seconds", (int, float)), ("rows", (int,)), ("memory", (int,))):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, types) or not value > 0:
                kind = "whole number" if types == (int,) else "number"
                raise UsageError(
                    f"the limit {name} must be a positive {kind}, not {value!r}", advice=f"Give a {kind} above 0."
                )

    def check_rows(self, count: int) -> None:
        if count > self.rows:
            raise LimitError(
                f"the answer has more than {self.rows} rows",
                advice="add LIMIT to the query, or raise the limit (--max-rows, in Python max_rows=)",
            )


class _TimeIsUp(BaseException):
    """Raised inside a query whose time is up; `time_limit` makes a LimitError of it."""


_REPEAT = 0.1
"""Seconds until an engine is interrupted once more: the first time, its query may not have begun."""
_GRACE = 0.5
"""Seconds after which a block that interrupts do not end is Python code."""


@contextmanager
def time_limit(seconds: float, interrupt: Callable[[], object] | None = None) -> Iterator[None]:
    """Ends the block with a LimitError after some seconds.

    ``interrupt`` ends the query of an engine outside Python, which raises an exception then; a thread calls it and ends
    Python code a little later. Without it, a signal raises an exception in the main thread, else a timer does.
    """
    error = LimitError(
        f"no answer after {seconds:g} s",
        advice="make the query more selective, or give more time (--timeout, in Python timeout=)",
    )
    if interrupt is not None:
        guard: AbstractContextManager[object] = _interrupted(seconds, interrupt)
    elif threading.current_thread() is threading.main_thread():
        guard = _by_signal(seconds)
    else:
        guard = _by_timer(seconds)
    is_over = None
    try:
        with guard as is_over:
            yield
    except _TimeIsUp:
        raise error from None
    except Exception:
        if isinstance(is_over, threading.Event) and is_over.is_set():  # the engine was interrupted
            raise error from None
        raise


@contextmanager
def _interrupted(seconds: float, interrupt: Callable[[], object]) -> Iterator[threading.Event]:
    """Yields the event that the time is up; from then on the engine is interrupted until the block ends."""
    thread = threading.get_ident()
    is_over, is_done, lock = threading.Event(), threading.Event(), threading.Lock()

    def watch() -> None:
        wait, grace = seconds, _GRACE
        while not is_done.wait(wait):
            with lock:
                if not is_done.is_set():
                    is_over.set()
                    interrupt()
                    if grace <= 0:
                        _raise_in(thread)
                        return
            wait = _REPEAT
            grace -= wait

    _install_hook()
    _again[thread] = lambda: threading.Timer(0.01, _raise_in, [thread]).start()
    threading.Thread(target=watch, daemon=True, name="motet-query-time-limit").start()
    try:
        yield is_over
    finally:
        with lock:  # nothing that comes after the block is interrupted
            is_done.set()
        _again.pop(thread, None)


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_TimeIsUp))


_again: dict[int, Callable[[], object]] = {}
"""By thread: what ends its block once more."""


def _install_hook() -> None:
    """Ends a block once more when Python swallowed the exception: what a finalizer raises is only printed."""
    if getattr(sys.unraisablehook, "ends_blocks", False):
        return
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not _TimeIsUp:
            before(unraisable)
        elif (again := _again.get(threading.get_ident())) is not None:
            again()

    hook.ends_blocks = True  # type: ignore[attr-defined]
    sys.unraisablehook = hook


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def stop(_signal: int, _frame: object) -> None:
        raise _TimeIsUp

    thread = threading.get_ident()
    before = signal.signal(signal.SIGALRM, stop)
    _install_hook()
    _again[thread] = lambda: signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        _again.pop(thread, None)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_timer(seconds: float) -> Iterator[None]:
    thread = threading.get_ident()
    is_running = True
    lock = threading.Lock()

    def stop() -> None:
        with lock:
            if is_running:
                _raise_in(thread)

    def start(wait: float) -> threading.Timer:
        timer = threading.Timer(wait, stop)
        timer.daemon = True
        timer.start()
        return timer

    _install_hook()
    _again[thread] = lambda: start(0.01)
    timer = start(seconds)
    try:
        yield
    finally:
        with lock:
            is_running = False
        _again.pop(thread, None)
        timer.cancel()
