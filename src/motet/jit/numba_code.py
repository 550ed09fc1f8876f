"""Compiles kernels by Numba and caches the code on disk; it is valid while no source in a kernel's imports changes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from hashlib import blake2b
from inspect import CO_VARARGS
from pathlib import Path
from pickle import UnpicklingError
from types import FunctionType
from typing import Any

import numba
from numba.extending import typeof_impl

log = logging.getLogger("motet")

_MAY_ALLOCATE = "motet_may_allocate"  # the attribute of functions that only kernels call; `compiled` sets it
_SOURCE = Path(__file__).parent.parent.parent  # the directory that holds the package motet
_IMPORT = re.compile(r"^from (motet[\w.]*) import (\([^)]*\)|[^\n#]+)|^import (motet[\w.]*)", re.MULTILINE)


def code_for(function: Callable[..., Any], arguments: tuple[Any, ...], *, announce: bool) -> Callable[..., Any]:
    """The code of a function for the types of some arguments, from the cache or compiled now."""
    dispatcher = _dispatcher(function)
    if not _is_cached(dispatcher):
        _announce(logging.WARNING if announce else logging.INFO)
    code = function.__code__
    if code.co_flags & CO_VARARGS:  # Numba passes the last arguments as one tuple
        arguments = (*arguments[: code.co_argcount], arguments[code.co_argcount :])
    dispatcher.compile(tuple(map(dispatcher.typeof_pyval, arguments)))
    return dispatcher


@cache
def _announce(level: int) -> None:
    log.log(level, "compiling the kernels, once on this machine: about half a minute")


@cache
def _dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's object for a function, with a cache on disk if a directory for it is writable."""
    try:
        dispatcher = numba.njit(cache=True, nogil=True)(function)
    except (RuntimeError, OSError):  # no cache directory is writable: compile in each process
        return numba.njit(nogil=True)(function)
    cache_file = dispatcher._cache._cache_file
    cache_file._source_stamp = source_stamp(Path(function.__code__.co_filename))
    cache_file._load_index = partial(_load_index, cache_file)
    return dispatcher


@cache
def _called_dispatcher(function: Callable[..., Any]) -> Any:
    """Numba's object for a function that only kernels call."""
    if vars(function)[_MAY_ALLOCATE]:
        return numba.njit(nogil=True, no_cpython_wrapper=True)(function)
    options = {"error_model": "numpy", "_nrt": False, "forceinline": True}
    return numba.njit(nogil=True, no_cpython_wrapper=True, **options)(function)


@typeof_impl.register(FunctionType)
def _type_of_function(function: Callable[..., Any], _: object) -> Any:
    """The type of a function that kernels call; none for other functions, which Numba then refuses."""
    return numba.types.Dispatcher(_called_dispatcher(function)) if _MAY_ALLOCATE in vars(function) else None


def _load_index(cache_file: Any) -> dict[Any, Any]:
    """The cached signatures of a function; empty if they name classes that no longer exist.

    Numba reads the signatures before it compares the stamp, and fails where a class in them has been renamed.
    """
    try:
        return type(cache_file)._load_index(cache_file)
    except (AttributeError, ImportError, EOFError, TypeError, ValueError, UnpicklingError):
        return {}


def _is_cached(dispatcher: Any) -> bool:
    """Whether code of a function is on disk; it need not be for these types of arguments."""
    return hasattr(dispatcher._cache, "_cache_file") and bool(dispatcher._cache._cache_file._load_index())


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
