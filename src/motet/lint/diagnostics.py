"""What a lint rule reports: a diagnostic with rule, severity, position, message and advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from motet.model.errors import SubscriptionError


class Severity(Enum):
    """An error can never match. A warning is probably not meant. A hint may be just right."""

    ERROR = "error"
    WARNING = "warning"
    HINT = "hint"


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule says about one subscription; ``position`` is a place in the subscription's text."""

    rule: str
    severity: Severity
    position: int
    message: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A found thing with the text it is about, so that it can be shown with a caret."""

    subscription: str
    found: Found
    text: str
    source: str | None = None

    @property
    def rule(self) -> str:
        return self.found.rule

    @property
    def severity(self) -> Severity:
        return self.found.severity

    @property
    def line(self) -> int:
        return self._shown().line

    @property
    def column(self) -> int:
        return self._shown().column

    def __str__(self) -> str:
        """As an error is shown: place, message, the line with a caret, advice."""
        return str(self._shown())

    def to_json(self) -> dict[str, object]:
        return {
            "subscription": self.subscription,
            "rule": self.rule,
            "severity": self.severity.value,
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "message": self.found.message,
            "advice": self.found.advice,
        }

    def _shown(self) -> SubscriptionError:
        label = f"{self.severity.value}[{self.rule}] {self.subscription}: {self.found.message}"
        return SubscriptionError(
            label, text=self.text, position=self.found.position, source=self.source, advice=self.found.advice
        )
