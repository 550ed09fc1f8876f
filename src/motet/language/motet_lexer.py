"""Splits a subscription into keywords, names and SPARQL fragments, each fragment as one token.

The brackets alone delimit a fragment, so the grammar has no rules for SPARQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from motet.sparql.prologue import Prologue
from motet.sparql.tokens import MAX_PATTERN_WORDS, Document, Token, closing, tokenise
from motet.xmlql.parse import read_block, read_template

KEYWORDS = frozenset(
    """BASE PREFIX SUBSCRIPTION SINCE EVENT WHEN CONTEXT UNBOUNDED SELECT CONSTRUCT SIGNAL EVENTS UNLESS WITHOUT FILTER
    XOR OR AND NO FOR WITHIN EVERY BEFORE AFTER MEETS MET BY OVERLAPS OVERLAPPED STARTS STARTED DURING INCLUDES FINISHES
    FINISHED EQUALS ALONGSIDE""".split()  # noqa: SIM905  (readable)
)
_SUBNAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_XML_START = re.compile(r"\s*\{\s*(?![0-9])")
_XML_END = re.compile(r"(?:\s|<!--(?:(?!--).)*-->)*\}", re.DOTALL)
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
    yield from terminals_of(document, _tokens(document))


def terminals_of(document: Document, tokens: list[Token], *, is_pattern: bool = False) -> Iterator[Terminal]:
    """The terminals of some tokens of a document; ``is_pattern`` says that they stand behind WHEN."""
    index, previous = 0, ""
    in_pattern = int(is_pattern)  # the number of terminals of the pattern so far
    while index < len(tokens):
        token = tokens[index]
        if previous == "SUBSCRIPTION" and _SUBNAME.match(document.text, token.position):
            terminal, index = subscription_name(document, tokens, index)
        elif token.text.upper() == "XML" and index + 1 < len(tokens) and tokens[index + 1].kind == "FRAGMENT":
            index += 1
            continue
        elif token.kind == "FRAGMENT":
            kind = "XML_TEMPLATE" if previous == "CONSTRUCT" else "XML_BLOCK"
            terminal, index = Terminal(kind, token.text, token.position), index + 1
        elif fragment_kind := _fragment_kind(token, previous, in_pattern):
            last = closing(document, tokens, index)
            inner = tuple(tokens[index + 1 : last])
            terminal, index = Terminal(fragment_kind, token.text, token.position, inner), last + 1
        else:
            terminal, index = Terminal(_kind(document, token), token.text, token.position), index + 1
        previous = terminal.kind
        in_pattern = _words_of_pattern(in_pattern, previous)
        if in_pattern > MAX_PATTERN_WORDS:
            raise document.refusal(f"a pattern of more than {MAX_PATTERN_WORDS} words", terminal.position)
        yield terminal


def _tokens(document: Document) -> list[Token]:
    """The tokens of a document; each ``XML { … }`` with an element in it is one of them, from its ``{`` on."""
    prologue = Prologue(document)

    def fragment_end(tokens: list[Token]) -> int | None:
        declare(prologue, tokens)
        if tokens[-1].text.upper() != "XML" or len(tokens) < 2 or tokens[-2].text.upper() in ("EVENT", "SUBSCRIPTION"):
            return None
        start = _XML_START.match(document.text, tokens[-1].end)
        if start is None:
            return None
        is_template = tokens[-2].text.upper() == "CONSTRUCT"
        end = (read_template if is_template else read_block)(prologue, start.end()).end
        close = _XML_END.match(document.text, end)
        if close is None:
            raise document.refusal("the '}' of XML { … } is missing", end, "there is one element inside the braces")
        return close.end()

    return tokenise(document, fragment_end)


def declare(prologue: Prologue, tokens: list[Token]) -> None:
    """Declare the prefix or base whose IRI is the last token."""
    if tokens[-1].kind != "IRIREF" or len(tokens) < 2:
        return
    if tokens[-2].text.upper() == "BASE":
        prologue.base = prologue.expand(tokens[-1])
    elif len(tokens) > 2 and tokens[-3].text.upper() == "PREFIX" and tokens[-2].text.endswith(":"):
        prologue.prefixes[tokens[-2].text[:-1]] = prologue.expand(tokens[-1])


def _words_of_pattern(before: int, kind: str) -> int:
    if kind in ("SUBSCRIPTION", "EVENT"):
        return 0
    return before + 1 if before or kind == "WHEN" else 0


def subscription_name(document: Document, tokens: list[Token], index: int) -> tuple[Terminal, int]:
    """The name of a subscription that begins with a token, and the index of the token behind it."""
    match = _SUBNAME.match(document.text, tokens[index].position) if index < len(tokens) else None
    if match is None:
        position = tokens[index].position if index < len(tokens) else len(document.text.rstrip())
        raise document.refusal("the name of the subscription is missing", position, "use letters, digits, _ and -")
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
