"""Kernels: functions over arrays that are interpreted while they have little work, and compiled by Numba after that.

Loading Numba and compiled code takes longer than interpreting the kernels for a few events. Both give the same results:
``NUMBA_DISABLE_JIT=1 motet fuzz`` compares interpreted kernels with the reference engine. Three decorators: `compiled`
for functions that Python calls, `inlined` and `allocating` for functions that only these call. Also the types of the
arrays that these functions take. This module does not load Numba.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInts = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

KernelFunction = Callable[..., Any]

_MAX_ITEMS, _MAX_BYTES = 1_024, 16_384  # in the largest array of a call that is interpreted
_PATIENCE = 8  # times as large are arrays that are interpreted while a thread compiles
_BUDGET = 400_000_000  # nanoseconds of interpretation, about what loading Numba takes

_MAY_ALLOCATE = "motet_may_allocate"  # the attribute of functions that only kernels call; `numba_code` reads it

KERNELS: list[Kernel] = []  # in the order in which their modules are imported


def inlined(function: KernelFunction) -> KernelFunction:
    """A function that is compiled into its callers and allocates nothing, so that no references are counted."""
    vars(function)[_MAY_ALLOCATE] = False
    return function


def allocating(function: KernelFunction) -> KernelFunction:
    """A function that may allocate arrays and is called by compiled functions only."""
    vars(function)[_MAY_ALLOCATE] = True
    return function


def compiled(function: KernelFunction) -> Kernel:
    """A function that is compiled when it has enough work; the code is cached on disk."""
    return Kernel(function)


class Kernel:
    """A function that is interpreted until its compiled code is worth loading.

    A call with large arrays ends interpretation in this process: each kernel is loaded or compiled when it is called.
    Many small calls end it gradually: once they have taken 0.4 s in all, a thread loads or compiles the kernels that
    are called, and calls are interpreted until it is ready.
    """

    def __init__(self, function: KernelFunction) -> None:
        self.function = function
        self.code: KernelFunction | None = None  # for the types of the first call; those of other calls are the same
        KERNELS.append(self)

    def __repr__(self) -> str:
        return f"<kernel {self.function.__module__}.{self.function.__qualname__}>"

    def __call__(self, *arguments: Any) -> Any:
        if self.code is not None:
            return self.code(*arguments)
        if _TIER.is_always_interpreted or (_TIER.remaining >= 0 and _are_small(arguments)):
            return self._interpret(arguments)
        if _TIER.remaining >= 0:  # much work at once
            interpret_no_more()
            _TIER.is_announced = True
        if _TIER.is_interpreted_meanwhile and _are_small(arguments, _PATIENCE):
            _COMPILER.request(self, arguments)
            return self._interpret(arguments)
        return self.compile(arguments, announce=_TIER.is_announced)(*arguments)

    def compile(self, arguments: tuple[Any, ...], *, announce: bool = False) -> KernelFunction:
        """Load the code for the types of these arguments, or compile it; later calls use it."""
        from motet.jit.numba_code import code_for

        code = self.code = code_for(self.function, arguments, announce=announce)
        return code

    def _interpret(self, arguments: tuple[Any, ...]) -> Any:
        start = time.perf_counter_ns()
        with np.errstate(over="ignore", invalid="ignore"):  # integers wrap, as in compiled code
            result = self.function(*arguments)
        _TIER.remaining -= time.perf_counter_ns() - start
        if type(result) is not tuple:
            return result.item() if isinstance(result, np.generic) else result
        values = []  # with numbers of Python, as compiled code returns them
        for value in result:
            values.append(value.item() if isinstance(value, np.generic) else value)
        return tuple(values)


def _are_small(arguments: tuple[Any, ...], scale: int = 1) -> bool:
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            if argument.size > scale * (_MAX_BYTES if argument.itemsize == 1 else _MAX_ITEMS):
                return False
        elif isinstance(argument, tuple) and not _are_small(argument, scale):
            return False
    return True


class _Tier:
    """Whether the kernels of this process are interpreted, and for how many nanoseconds more."""

    def __init__(self) -> None:
        self.remaining = _BUDGET
        self.is_always_interpreted = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
        self.is_interpreted_meanwhile = True  # while a thread compiles
        self.is_announced = False  # that kernels are compiled now, which a user waits for


class _Compiler:
    """A thread that compiles one kernel after the other, and ends when there is none left or the program ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requested: deque[tuple[Kernel, tuple[Any, ...]]] = deque()
        self._thread: threading.Thread | None = None

    def request(self, kernel: Kernel, arguments: tuple[Any, ...]) -> None:
        with self._lock:
            if any(requested is kernel for requested, _ in self._requested):
                return
            self._requested.append((kernel, arguments))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="motet-compiler")
                self._thread.start()

    def _run(self) -> None:
        while threading.main_thread().is_alive():
            kernel, arguments = self._requested[0]
            if kernel.code is None:
                kernel.compile(arguments)
            with self._lock:
                self._requested.popleft()
                if not self._requested:
                    self._thread = None
                    return


_TIER = _Tier()
_COMPILER = _Compiler()


def interpret_no_more() -> None:
    """Load or compile each kernel when it is first called in this process: for processes that have much work."""
    _TIER.remaining = -1
    _TIER.is_interpreted_meanwhile = False
