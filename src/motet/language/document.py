"""The text of a subscription document, its limits, and the one way to refuse something at a place in it."""

from __future__ import annotations

from dataclasses import dataclass

from motet.model.errors import SubscriptionError

MAX_TEXT = 1 << 20  # characters of a document
MAX_DEPTH = 200  # levels of a pattern's tree
MAX_PATTERN_WORDS = 10_000  # words and signs of one pattern
MAX_EXPRESSION = 1 << 16  # characters of a document of a surface that has its own grammar
MAX_BRACKETS = 32  # levels of brackets inside one stretch of SPARQL
MAX_SPARQL_TOKENS = 2_000  # tokens of one stretch of SPARQL
MAX_COUNT = 1_000_000  # members of an iteration
MAX_DURATION = 36_525 * 86_400_000_000  # a hundred years, in microseconds


@dataclass(frozen=True, slots=True)
class Document:
    """A document's text and where it came from."""

    text: str
    source: str | None = None

    def __post_init__(self) -> None:
        if len(self.text) > MAX_TEXT:
            message = f"a document may have {MAX_TEXT} characters, this one has {len(self.text)}"
            raise self.refusal(message, MAX_TEXT, "split it into several documents")

    def refusal(self, message: str, position: int, advice: str | None = None) -> SubscriptionError:
        """The error to raise for something wrong at a position of the text."""
        return SubscriptionError(message, text=self.text, position=position, source=self.source, advice=advice)
