"""Splits a subscription into keywords, names and SPARQL fragments, each fragment as one token.

The brackets alone delimit a fragment, so the grammar has no rules for SPARQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from motet.sparql.tokens import MAX_PATTERN_WORDS, Document, Token, closing, tokenise

KEYWORDS = frozenset(
    """BASE PREFIX SUBSCRIPTION SINCE EVENT WHEN CONTEXT UNBOUNDED SELECT CONSTRUCT SIGNAL EVENTS UNLESS WITHOUT FILTER
    XOR OR AND NO FOR WITHIN EVERY BEFORE AFTER MEETS MET BY OVERLAPS OVERLAPPED STARTS STARTED DURING INCLUDES FINISHES
    FINISHED EQUALS ALONGSIDE""".split()  # noqa: SIM905  (readable)
)
_SUBNAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_SIGNS = {"{": "REPEAT", "}": "RBRACE", "(": "LPAR", ")": "RPAR", "+": "PLUS", "*": "STAR", "^^": "DATATYPE_SIGN"}


def is_event_name(name: str) -> bool:
    """
    >>> is_event_name("smoke"), is_event_name("real-fire"), is_event_name("when")
    (True, False, False)
    """
    return "-" not in name and is_subscription_name(name)


def is_subscription_name(name: str) -> bool:
    """
    >>> is_subscription_name("real-fire"), is_subscription_name("within")
    (True, False)
    """
    return _SUBNAME.fullmatch(name) is not None and name.upper() not in KEYWORDS


class Terminal(NamedTuple):
    """One token of the grammar; ``inner`` holds the SPARQL tokens of a fragment."""

    kind: str
    text: str
    position: int
    inner: tuple[Token, ...] = ()


def terminals(document: Document) -> Iterator[Terminal]:
    """
    >>> [terminal.kind for terminal in terminals(Document("EVENT a { ?a ?p ?o } WHEN a{3}"))]
    ['EVENT', 'NAME', 'BODY', 'WHEN', 'NAME', 'REPEAT', 'INTEGER', 'RBRACE']
    """
    tokens = tokenise(document)
    index, previous, in_pattern = 0, "", 0  # the number of terminals of the pattern so far
    while index < len(tokens):
        token = tokens[index]
        if previous == "SUBSCRIPTION" and (match := _SUBNAME.match(document.text, token.position)):
            terminal, index = _subscription_name(tokens, index, match)
        elif kind := _fragment_kind(token, previous, in_pattern):
            last = closing(document, tokens, index)
            inner = tuple(tokens[index + 1 : last])
            terminal, index = Terminal(kind, token.text, token.position, inner), last + 1
        else:
            terminal, index = Terminal(_kind(document, token), token.text, token.position), index + 1
        previous = terminal.kind
        in_pattern = _words_of_pattern(in_pattern, previous)
        if in_pattern > MAX_PATTERN_WORDS:
            raise document.refusal(f"a pattern of more than {MAX_PATTERN_WORDS} words", terminal.position)
        yield terminal


def _words_of_pattern(before: int, kind: str) -> int:
    if kind in ("SUBSCRIPTION", "EVENT"):
        return 0
    return before + 1 if before or kind == "WHEN" else 0


def _subscription_name(tokens: list[Token], index: int, match: re.Match[str]) -> tuple[Terminal, int]:
    kind = match[0].upper() if match[0].upper() in KEYWORDS else "SUBNAME"
    following = next((i for i in range(index, len(tokens)) if tokens[i].position >= match.end()), len(tokens))
    return Terminal(kind, match[0], match.start()), following


def _fragment_kind(token: Token, previous: str, in_pattern: int) -> str | None:
    if token.kind != "PUNCTUATION":
        return None
    if token.text == "(" and previous == "FILTER":
        return "EXPRESSION"
    if token.text == "{" and previous == "CONSTRUCT":
        return "TEMPLATE"
    return "BODY" if token.text == "{" and not in_pattern else None


def _kind(document: Document, token: Token) -> str:
    if token.kind == "WORD":
        return token.text.upper() if token.text.upper() in KEYWORDS else "NAME"
    if token.text == ":":
        return "COLON"
    if token.kind != "PUNCTUATION":
        return token.kind
    if token.text not in _SIGNS:
        raise document.refusal(f"'{token.text}' cannot stand here", token.position)
    return _SIGNS[token.text]
