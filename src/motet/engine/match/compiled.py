"""Functions compiled by Numba, kept on disk where that is possible. Importing this loads Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of compiled functions, never called from Python, that makes no arrays: so no references are counted."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, error_model="numpy", _nrt=False)(function)


def making(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of compiled functions that makes arrays."""
    return numba.njit(nogil=True, no_cpython_wrapper=True)(function)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays when it is first called."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):  # no directory to keep the code in can be written: compile in each process
        return numba.njit(nogil=True)(function)
