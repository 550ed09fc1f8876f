"""Every error Motet raises, and the checks of arguments and of installed extras.

Each has a message that names the thing, and advice that says what to do. An error that users see is a `MotetError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal


class MotetError(Exception):
    """An error that Motet raises on purpose, with advice."""

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}\n  {self.advice}" if self.advice else self.message


class UsageError(MotetError):
    """The request itself is wrong; nothing was done."""


class SubscriptionError(UsageError):
    """A subscription's text is wrong at a position.

    >>> print(SubscriptionError("'ex' is not a declared prefix", text="EVENT a : ex:A", position=10))
    line 1, column 11: 'ex' is not a declared prefix
      EVENT a : ex:A
                ^
    """

    def __init__(
        self, message: str, *, text: str, position: int, source: str | None = None, advice: str | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.text = text
        self.position = min(max(position, 0), len(text))
        self.source = source

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    def __str__(self) -> str:
        excerpt, caret = _excerpt(self.text.split("\n")[self.line - 1], self.column)
        where = f"{self.source}: " if self.source else ""
        lines = [f"{where}line {self.line}, column {self.column}: {self.message}", f"  {excerpt}", f"  {caret}"]
        return "\n".join([*lines, f"  {self.advice}"] if self.advice else lines)


class MissingExtraError(UsageError, ImportError):
    """An extra of the package is needed and not installed."""

    def __init__(self, message: str, *, extra: str, advice: str | None = None) -> None:
        super().__init__(message, advice=advice)
        self.extra = extra


class DecodeError(MotetError):
    """One event, or one part of the input, that is rejected. Codecs return it as a value."""

    def __init__(
        self,
        reason: str,
        *,
        source: str | None = None,
        line: int | None = None,
        column: int | None = None,
        event: str | None = None,
        content: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(reason, advice=advice)
        self.reason = reason
        self.source = source
        self.line = line
        self.column = column
        self.event = event
        self.content = content

    def __str__(self) -> str:
        position = [self.source or "input"]
        position += [f"line {self.line}"] if self.line is not None else []
        position += [f"column {self.column}"] if self.column is not None else []
        subject = f"event <{self.event}>: " if self.event else ""
        text = f"{', '.join(position)}: {subject}{self.reason}"
        return f"{text}\n  {self.advice}" if self.advice else text

    def to_json(self) -> dict[str, object]:
        """The dead letter: what is needed to correct the event and publish it again."""
        fields = ("source", "line", "column", "event", "reason", "advice", "content")
        return {field: getattr(self, field) for field in fields}


class ConflictError(DecodeError):
    """An event whose IRI was accepted before with other content."""


class LakeError(MotetError):
    """A lake that cannot be read or written."""


class CorruptLakeError(LakeError):
    """A lake whose files contradict each other."""


class EngineError(MotetError):
    """Processing failed."""


class JavaError(EngineError):
    """No Java runtime that Spark can use."""


class OverlayError(MotetError):
    """A node of the overlay that cannot be reached, cannot prove who it is, or breaks the protocol."""


class LimitError(MotetError):
    """Input larger, deeper or slower than the limits allow."""


def _excerpt(line: str, column: int, width: int = 100) -> tuple[str, str]:
    """The part of a long line around the column, with the caret that belongs under it."""
    first = max(0, column - 1 - width // 2) if len(line) > width else 0
    excerpt = "".join(" " if character.isspace() else character for character in line[first : first + width])
    return excerpt.rstrip(), " " * (column - 1 - first) + "^"


# Types of arguments


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
    raise UsageError(f"{name} is {_short_repr(value)}, of type {type_name(value)}", advice=f"Give {expected}.")


def type_name(value: object) -> str:
    """The name of a type; of a list or tuple also those of its items.

    >>> type_name([5, "a"])
    'list of int, str'
    """
    items: Sequence[object] = value if isinstance(value, list | tuple) else ()
    kinds = ", ".join(sorted({type(item).__qualname__ for item in items}))
    return f"{type(value).__qualname__} of {kinds}" if kinds else type(value).__qualname__


def _short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"


# Extras of the package: what Spark, NATS, metrics, overlays and PNG pictures need


Extra = Literal["spark", "metrics", "connect", "nats", "overlay", "pictures"]

_MODULES: dict[Extra, tuple[str, ...]] = {
    "spark": ("pyspark", "pandas", "prometheus_client"),
    "metrics": ("prometheus_client",),
    "connect": ("grpc",),
    "nats": ("nats",),
    "overlay": ("msgspec", "cryptography"),
    "pictures": ("resvg_py",),
}


def require_extra(extra: Extra, feature: str, *, alternative: str = "") -> None:
    """Raise MissingExtraError, which says what to install, unless the modules of an extra are installed.

    ``alternative`` is what can be done without the extra, such as ``use --engine embedded``.
    """
    missing = [module for module in _MODULES[extra] if find_spec(module) is None]
    if missing:
        are = "is" if len(missing) == 1 else "are"
        install = f"Run: python -m pip install 'motet[{extra}]'"
        raise MissingExtraError(
            f"{feature} needs {', '.join(missing)}, which {are} not installed",
            extra=extra,
            advice=f"{install}, or {alternative}" if alternative else install,
        )
