"""Functions compiled by Numba, kept on disk where that is possible. Importing this loads Numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numba

_HERE = Path(__file__).parent
_KEPT: list[Any] = []  # the compiled functions that are kept on disk, as their modules are imported


def inner(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of compiled functions, never called from Python, that makes no arrays: so no references are counted."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, error_model="numpy", _nrt=False, forceinline=True)(function)


def making(function: Callable[..., Any]) -> Callable[..., Any]:
    """A part of compiled functions that makes arrays."""
    return numba.njit(nogil=True, no_cpython_wrapper=True)(function)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays when it is first called."""
    try:
        found = numba.njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):  # no directory to keep the code in can be written: compile in each process
        return numba.njit(nogil=True)(function)
    found._cache._cache_file._source_stamp = sources(Path(function.__code__.co_filename).parent)
    _KEPT.append(found)
    return found


def is_all_kept() -> bool:
    """Whether every function that can be kept has been compiled, now or in an earlier process."""
    return all(found._cache._cache_file._load_index() for found in _KEPT)


@lru_cache
def sources(folder: Path) -> tuple[tuple[str, str], ...]:
    """The state of everything that kernels in a folder are made of: what the files say, wherever and since when.

    Numba would only look at a function's own file, and go on using what it compiled from older parts in others.
    """
    kernels = {*folder.glob("*_kernels.py"), *_HERE.rglob("*_kernels.py")}
    files = {*kernels, _HERE / "match" / "texts.py", _HERE / "detect" / "occurrences.py", Path(__file__)}
    return tuple((file.name, blake2b(file.read_bytes(), digest_size=16).hexdigest()) for file in sorted(files))
