"""Splits a document into SPARQL tokens with their positions; the pattern language uses the same tokens.

White space and comments are dropped. Nothing here knows what a sequence of tokens means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from motet.model.errors import SubscriptionError

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
