"""Every error Motet raises.

    MotetError                    an error that Motet raises on purpose
    ├── UsageError                the request itself is wrong; nothing was done (exit status 2)
    │   ├── SubscriptionError     a subscription's text, with line, column and a caret
    │   └── MissingExtraError     an extra of the package is not installed (an ImportError, too)
    ├── DecodeError               one event or one part of the input that is rejected
    │   └── ConflictError         an event whose IRI was accepted before with other content
    ├── LakeError                 a lake that cannot be read or written
    │   └── CorruptLakeError      a lake whose files contradict each other
    ├── EngineError               processing failed
    │   └── JavaError             no Java runtime that Spark can use
    ├── OverlayError              a node of the overlay that cannot be reached, or breaks the protocol
    └── LimitError                input larger, deeper or slower than the limits allow

An error names the thing it concerns and says what to do. The command line turns ``UsageError`` into exit status 2 and
every other ``MotetError`` into 1.
"""

from __future__ import annotations


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
