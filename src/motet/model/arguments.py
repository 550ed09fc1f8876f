"""Checks the types of arguments that users give, so that a wrong one is an error with a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from motet.model.errors import UsageError


def check_type(name: str, value: object, *types: type | None) -> None:
    """Raise UsageError unless an argument has one of these types; None stands for the value None.

    >>> check_type("id", 5, str, None)
    Traceback (most recent call last):
    ...
    motet.model.errors.UsageError: id is 5, of type int
      Give str or None.
    """
    if any(value is None if kind is None else isinstance(value, kind) for kind in types):
        return
    expected = " or ".join("None" if kind is None else kind.__name__ for kind in types)
    raise UsageError(f"{name} is {_shown(value)}, of type {type_name(value)}", advice=f"Give {expected}.")


def type_name(value: object) -> str:
    """The name of a type; of a list or tuple also those of its items.

    >>> type_name([5, "a"])
    'list of int, str'
    """
    items: Sequence[object] = value if isinstance(value, list | tuple) else ()
    kinds = ", ".join(sorted({type(item).__qualname__ for item in items}))
    return f"{type(value).__qualname__} of {kinds}" if kinds else type(value).__qualname__


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
