"""Limits of one query on time, memory and rows."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

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
    Python code a little later, also on Ctrl-C, which Python itself sees only when the engine returns. Without it, a
    signal raises an exception in the main thread, else a timer does.
    """
    error = LimitError(
        f"no answer after {seconds:g} s",
        advice="make the query more selective, or give more time (--timeout, in Python timeout=)",
    )
    ending: _Ending | None = None
    try:
        if interrupt is not None:
            with _interrupted(seconds, interrupt) as ending:
                yield
        elif threading.current_thread() is threading.main_thread():
            with _by_signal(seconds):
                yield
        else:
            with _by_timer(seconds):
                yield
    except (_TimeIsUp, Exception) as raised:
        if ending is not None and ending.cause == "Ctrl-C":
            raise KeyboardInterrupt from None
        if isinstance(raised, _TimeIsUp) or (ending is not None and ending.cause == "time"):
            raise error from None
        raise
    if ending is not None and ending.cause == "Ctrl-C":
        raise KeyboardInterrupt


@dataclass
class _Ending:
    """Why an engine was interrupted."""

    cause: Literal["time", "Ctrl-C"] | None = None


@contextmanager
def _interrupted(seconds: float, interrupt: Callable[[], object]) -> Iterator[_Ending]:
    """Yields why the engine is interrupted: from the end of the time, or Ctrl-C, until the block ends."""
    thread = threading.get_ident()
    ending, is_done, lock = _Ending(), threading.Event(), threading.Lock()

    def watch(signals: int) -> None:
        if (cause := _first_cause(signals, seconds)) is None:
            return
        grace = _GRACE
        while not is_done.is_set():
            with lock:
                if not is_done.is_set():
                    ending.cause = cause
                    interrupt()
                    if grace <= 0:
                        _raise_in(thread)
                        return
            is_done.wait(_REPEAT)
            grace -= _REPEAT

    _install_hook()
    _again[thread] = lambda: threading.Timer(0.01, _raise_in, [thread]).start()
    with _signals() as (reader, writer):
        watching = threading.Thread(target=watch, args=[reader], daemon=True, name="motet-query-limits")
        watching.start()
        try:
            yield ending
        finally:
            with lock:  # nothing that comes after the block is interrupted
                is_done.set()
            _again.pop(thread, None)
            os.write(writer, _DONE)
            watching.join()


_DONE = b"\0"  # no signal has this number


def _first_cause(signals: int, seconds: float) -> Literal["time", "Ctrl-C"] | None:
    """What comes first: Ctrl-C among the signals of a file descriptor, the end of the time, or _DONE (None)."""
    end = time.monotonic() + seconds
    poll = select.poll()
    poll.register(signals, select.POLLIN)
    while poll.poll(1000 * max(end - time.monotonic(), 0)):
        number = os.read(signals, 1)
        if number == _DONE:
            return None
        if number[0] == signal.SIGINT:
            return "Ctrl-C"
    return "time"


@contextmanager
def _signals() -> Iterator[tuple[int, int]]:
    """A pipe that gets the number of each signal. Ctrl-C does nothing else meanwhile, unless a program handles it by
    itself, or in a thread other than the main one: then the pipe gets no signals.
    """
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    handles = _handles_control_c()
    if handles:
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield reader, writer
    finally:
        if handles:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.set_wakeup_fd(-1)
        os.close(reader)
        os.close(writer)


def _handles_control_c() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt in this thread, and no event loop reads signals."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    descriptor = signal.set_wakeup_fd(-1)
    if descriptor != -1:
        signal.set_wakeup_fd(descriptor)
    return descriptor == -1


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
