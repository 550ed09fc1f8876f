"""Reads the tokens of one SPARQL text from left to right and collects what is allowed at each place.

The parsers of terms, expressions, patterns and queries build on it. An error names the first token that cannot stand
where it stands, with its position and everything that could. The size of the tree is limited here, because the text
comes from anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from motet.model.errors import LimitError, SubscriptionError
from motet.sparql.tokens import Document, Token

MAX_NESTING = 40  # brackets inside brackets
MAX_OPERATORS = 200  # operators and elements of groups that make the tree deeper

_KIND_TEXTS = {
    "VAR": "a variable",
    "IRI": "an IRI",
    "BLANK": "a blank node",
    "STRING": "a string",
    "NUMBER": "a number",
    "BOOLEAN": "true or false",
    "FUNCTION": "a function",
    "COMPARISON": "a comparison",
    "LANGTAG": "a language tag",
    "END": "the end",
}
IRI_KINDS = ("IRIREF", "PNAME", "PREFIX_NAME")
NUMBER_KINDS = {"INTEGER": "integer", "DECIMAL": "decimal", "DOUBLE": "double"}

Expand = Callable[[Token], str]


class TokenReader:
    """A position in a list of tokens; ``expand`` turns the token of a name into its IRI."""

    def __init__(self, document: Document, tokens: Sequence[Token], expand: Expand, end: int | None = None) -> None:
        self.document = document
        self.expand = expand
        self._tokens = [*tokens, Token("END", "", len(document.text) if end is None else end)]
        self._index = 0
        self._expected: set[str] = set()
        self._nesting = 0
        self._operators = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    def following(self) -> Token:
        """The token after the present one."""
        return self._tokens[min(self._index + 1, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self._tokens[self._index]
        self._index += token.kind != "END"
        self._expected.clear()
        return token

    def is_kind(self, *kinds: str) -> bool:
        """Whether the present token is of one of the kinds; IRI stands for the three ways to write one."""
        kind = self.token.kind
        self._expected.update(kinds)
        if kind in IRI_KINDS:
            return "IRI" in kinds
        return "NUMBER" in kinds if kind in NUMBER_KINDS else kind in kinds

    def is_sign(self, *signs: str) -> bool:
        self._expected.update(f"'{sign}'" for sign in signs)
        return self.token.kind == "PUNCTUATION" and self.token.text in signs

    def is_word(self, *words: str) -> bool:
        """Whether the present token is one of the keywords, in any case."""
        self._expected.update(words)
        return self.token.kind == "WORD" and self.token.text.upper() in words

    def accept(self, sign: str) -> bool:
        if not self.is_sign(sign):
            return False
        self.take()
        return True

    def accept_word(self, *words: str) -> bool:
        if not self.is_word(*words):
            return False
        self.take()
        return True

    def need(self, sign: str) -> None:
        if not self.accept(sign):
            raise self.unexpected()

    def need_word(self, word: str) -> None:
        if not self.accept_word(word):
            raise self.unexpected()

    def need_kind(self, kind: str) -> Token:
        if not self.is_kind(kind):
            raise self.unexpected()
        return self.take()

    def need_end(self) -> None:
        if not self.is_kind("END"):
            raise self.unexpected()

    def expect(self, *what: str) -> None:
        """Note something else that could stand at the present place."""
        self._expected.update(what)

    def unexpected(self) -> SubscriptionError:
        """The error for a token that cannot stand where it stands."""
        token = self.token
        missing = token.kind == "END"
        message = "something is missing here" if missing else f"'{token.text[:80]}' cannot stand here"
        accepted = sorted({_KIND_TEXTS.get(name, name) for name in self._expected})
        return self.document.refusal(f"not valid SPARQL: {message}", token.position, f"expected {', '.join(accepted)}")

    def refuse(self, message: str, token: Token | None = None, advice: str | None = None) -> SubscriptionError:
        """The error for a token that means something the language does not have."""
        return self.document.refusal(message, (token or self.token).position, advice)

    def count_operator(self) -> None:
        """Note that the tree becomes one level deeper."""
        self._operators += 1
        if self._operators > MAX_OPERATORS:
            raise LimitError(
                f"a pattern with more than {MAX_OPERATORS} groups and operators", advice="split it into several"
            )

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Counts the brackets around what is parsed inside."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise LimitError(
                f"a pattern is nested more than {MAX_NESTING} levels deep", advice="write it with fewer brackets"
            )
        yield
        self._nesting -= 1
