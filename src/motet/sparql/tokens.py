"""Splits a document into SPARQL tokens with their positions, and reads them from left to right.

White space and comments are dropped. The pattern language uses the same tokens. The parsers of terms, expressions,
patterns and queries build on `TokenReader`, which collects what is allowed at each place: an error names the first
token that cannot stand where it stands, with its position and everything that could. The size of the tree is limited
here, because the text comes from anybody.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from motet.model.errors import LimitError, SubscriptionError

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f"
    "\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_FIRST = _BASE + "_"
_INNER = "\u00b7\u0300-\u036f\u203f-\u2040"
_CHARS = _FIRST + "0-9" + _INNER + r"\-"
_PLX = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_PREFIX = rf"[{_BASE}][{_CHARS}.]{{0,127}}+(?<!\.)"  # limited, or a text of many words takes quadratic time
_LOCAL = rf"(?:[{_FIRST}0-9:]|{_PLX})(?:(?:[{_CHARS}.:]|{_PLX})*(?:[{_CHARS}:]|{_PLX}))?"
_ESCAPE = r"\\(?:[tbnrf\"'\\]|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_UNICODE = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"

_KINDS = {
    "SKIP": r"(?:\s|#[^\n\r]*)+",
    "IRIREF": rf"<(?:[^<>\"{{}}|^`\\\x00-\x20]|{_UNICODE})*>",
    "STRING": "|".join(rf"{quote * 3}(?:{quote}{{0,2}}(?:[^{quote}\\]|{_ESCAPE}))*{quote * 3}" for quote in ('"', "'"))
    + "|"
    + "|".join(rf"{quote}(?:[^{quote}\\\n\r]|{_ESCAPE})*{quote}" for quote in ('"', "'")),
    "VAR": rf"[?$][{_FIRST}0-9][{_FIRST}0-9{_INNER}]*",
    "BLANK": rf"_:[{_FIRST}0-9](?:[{_CHARS}.]*[{_CHARS}])?",
    "PNAME": rf"(?:{_PREFIX})?:{_LOCAL}",
    "PREFIX_NAME": rf"(?:{_PREFIX})?:",
    "DOUBLE": r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+",
    "DECIMAL": r"[+-]?[0-9]*\.[0-9]+",
    "INTEGER": r"[+-]?[0-9]+",
    "LANGTAG": r"@[A-Za-z]+(?:-[A-Za-z0-9]+)*",
    "WORD": r"[A-Za-z_][A-Za-z0-9_]*",
    "PUNCTUATION": r"\^\^|&&|\|\||!=|<=|>=|[{}()\[\];,.=<>!+\-*/|^?]",
}
_CLOSING = {"{": "}", "(": ")", "[": "]"}


class Token(NamedTuple):
    kind: str
    text: str
    position: int

    @property
    def end(self) -> int:
        return self.position + len(self.text)


def tokenise(document: Document, fragment_end: Callable[[list[Token]], int | None] | None = None) -> list[Token]:
    """The tokens of a document; ``fragment_end`` says after a token where a fragment of another language ends, if one
    begins behind it. The fragment becomes one token.

    >>> [token.text for token in tokenise(Document("?a ex:p 'x y' # why"))]
    ['?a', 'ex:p', "'x y'"]
    """
    tokens, position, token_at = [], 0, _expression().match
    while position < len(document.text):
        match = token_at(document.text, position)
        if match is None:
            raise _unreadable(document, position)
        if match.lastgroup != "SKIP":
            tokens.append(Token(match.lastgroup or "", match[0], position))
        position = match.end()
        if fragment_end is not None and match.lastgroup != "SKIP" and (end := fragment_end(tokens)) is not None:
            fragment = document.text[position:end].lstrip()
            tokens.append(Token("FRAGMENT", fragment, end - len(fragment)))
            position = end
    return tokens


@cache  # compiled on first use: not every importer of this module reads text
def _expression() -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{expression})" for kind, expression in _KINDS.items()))


def closing(document: Document, tokens: list[Token], opening: int) -> int:
    """The index of the bracket that closes the one at ``opening``; brackets in between must match."""
    expected: list[str] = []
    for index in range(opening, len(tokens)):
        token = tokens[index]
        if token.kind != "PUNCTUATION":
            continue
        if token.text in _CLOSING:
            expected.append(_CLOSING[token.text])
        elif token.text in _CLOSING.values():
            if token.text != expected.pop():
                raise document.refusal(f"'{token.text}' closes nothing", token.position)
            if not expected:
                return index
    raise document.refusal(f"'{tokens[opening].text}' is never closed", tokens[opening].position)


def _unreadable(document: Document, position: int) -> Exception:
    character = document.text[position]
    if character in "\"'":
        return document.refusal("a string that does not end, or with a wrong escape", position)
    return document.refusal(f"{character!r} cannot stand here", position)


_NAMED = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPES = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")


def string_value(text: str) -> str:
    """What a STRING token says.

    >>> string_value("'''it\\\\'s'''")
    "it's"
    """
    width = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return _ESCAPES.sub(_unescaped, text[width:-width])


def has_surrogates(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which no RDF text can have."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _unescaped(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or "0", 16)
    return _NAMED.get(match[3], match[3]) if match[3] else chr(min(code, 0x10FFFF))


MAX_TEXT = 1 << 20  # characters of a document
MAX_DEPTH = 200  # levels of a pattern's tree
MAX_PATTERN_WORDS = 10_000  # words and signs of one pattern
MAX_EXPRESSION = 1 << 16  # characters of a document of a surface that has its own grammar
MAX_BRACKETS = 32  # levels of brackets inside one SPARQL fragment
MAX_SPARQL_TOKENS = 2_000  # tokens of one SPARQL fragment
MAX_COUNT = 1_000_000  # members of an iteration
MAX_DURATION = 36_525 * 86_400_000_000  # a hundred years, in microseconds


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a document and its origin."""

    text: str
    source: str | None = None

    def __post_init__(self) -> None:
        if len(self.text) > MAX_TEXT:
            message = f"a document may have {MAX_TEXT} characters, this one has {len(self.text)}"
            raise self.refusal(message, MAX_TEXT, "split it into several documents")

    def refusal(self, message: str, position: int, advice: str | None = None) -> SubscriptionError:
        """The error to raise for something wrong at a position of the text."""
        return SubscriptionError(message, text=self.text, position=position, source=self.source, advice=advice)


# Reading from left to right


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
