"""What a lint rule reports: a diagnostic with rule, severity, position, message and advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from motet.model.errors import SubscriptionError


class Severity(Enum):
    """An error can never match. A warning is probably a mistake. A hint may be intended."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A diagnostic of one subscription; ``position`` is an index into the subscription's text."""

    rule: str
    severity: Severity
    position: int
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class LocatedDiagnostic:
    """A diagnostic with the text it is about, so that it can be displayed with a caret."""

    subscription: str
    diagnostic: Diagnostic
    text: str
    source: str | None = None

    @property
    def rule(self) -> str:
        return self.diagnostic.rule

    @property
    def severity(self) -> Severity:
        return self.diagnostic.severity

    @property
    def line(self) -> int:
        return self._as_error().line

    @property
    def column(self) -> int:
        return self._as_error().column

    def __str__(self) -> str:
        """The diagnostic as an error is displayed: position, message, the line with a caret, advice."""
        return str(self._as_error())

    def to_json(self) -> dict[str, object]:
        return {
            "subscription": self.subscription,
            "rule": self.rule,
            "severity": self.severity.value,
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "message": self.diagnostic.message,
            "advice": self.diagnostic.advice,
        }

    def _as_error(self) -> SubscriptionError:
        label = f"{self.severity.value}[{self.rule}] {self.subscription}: {self.diagnostic.message}"
        return SubscriptionError(
            label, text=self.text, position=self.diagnostic.position, source=self.source, advice=self.diagnostic.advice
        )
