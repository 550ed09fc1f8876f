"""Functions compiled by Numba and cached on disk; a cache is valid while no source file in a kernel's imports changes.

Importing this module loads Numba. Three decorators: `compiled` for functions that Python calls, `inlined` and
`allocating` for functions that only compiled functions call. Also the types of the arrays these functions take.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
UInts = npt.NDArray[np.uint32]
Hashes = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_SOURCE = Path(__file__).parent.parent.parent  # the directory that holds the package motet
_IMPORT = re.compile(r"^from (motet[\w.]*) import (\([^)]*\)|[^\n#]+)|^import (motet[\w.]*)", re.MULTILINE)
_CACHED: list[Any] = []  # the compiled functions with a cache on disk, in the order their modules are imported


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that is inlined into its callers and allocates nothing, so that no references are counted."""
    return numba.njit(nogil=True, no_cpython_wrapper=True, error_model="numpy", _nrt=False, forceinline=True)(function)


def allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that may allocate arrays and is called by compiled functions only."""
    return numba.njit(nogil=True, no_cpython_wrapper=True)(function)


def compiled(function: Callable[..., Any], signature: object = None) -> Callable[..., Any]:
    """Compile a function when it is first called, or at once for a given signature; the code is cached on disk."""
    arguments = () if signature is None else (signature,)
    try:
        dispatcher = numba.njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):  # no cache directory is writable: compile in each process
        return numba.njit(*arguments, nogil=True)(function)
    cache_file = dispatcher._cache._cache_file
    cache_file._source_stamp = source_stamp(Path(function.__code__.co_filename))
    cache_file._load_index = partial(_load_index, cache_file)
    if signature is not None:
        dispatcher.compile(signature)
        dispatcher.disable_compile()
    _CACHED.append(dispatcher)
    return dispatcher


def _load_index(cache_file: Any) -> dict[Any, Any]:
    """The cached signatures of a function; empty if they name classes that no longer exist.

    Numba reads the signatures before it compares the stamp, and fails where a class in them has been renamed.
    """
    try:
        return type(cache_file)._load_index(cache_file)
    except (AttributeError, ImportError, EOFError, TypeError, ValueError, UnpicklingError):
        return {}


def is_cached(package: str) -> bool:
    """Whether every compiled function of a package's imported modules has code, from this or an earlier process."""
    dispatchers = [dispatcher for dispatcher in _CACHED if dispatcher.py_func.__module__.startswith(package)]
    return all(dispatcher._cache._cache_file._load_index() for dispatcher in dispatchers)


def source_stamp(file: Path) -> tuple[tuple[str, str], ...]:
    """The name and digest of a source file and of every file of this project that it imports, directly or not.

    Numba compares this with the stamp of the cached code. On its own it would look at the first file only, and go on
    using code with an old constant of another module compiled in.
    """
    files, stack = {file}, [file]
    while stack:
        imported = _imported(stack.pop()) - files
        files |= imported
        stack += imported
    return tuple((path.name, _digest(path)) for path in sorted(files))


@cache
def _imported(file: Path) -> set[Path]:
    return set(_modules(file.read_text(encoding="utf-8")))


def _modules(text: str) -> Iterator[Path]:
    for package, names, module in _IMPORT.findall(text):
        for name in [*(f"{package}.{name}" for name in re.findall(r"\w+", names)), package or module]:
            path = _SOURCE.joinpath(*name.split("."))
            yield from (file for file in (path.with_suffix(".py"), path / "__init__.py") if file.exists())


@cache
def _digest(file: Path) -> str:
    return blake2b(file.read_bytes(), digest_size=16).hexdigest()
