"""Reads BASE and PREFIX at the head of a document for the surfaces that have no prologue of their own."""

from __future__ import annotations

import re

from motet.language.document import Document
from motet.language.iris import Names
from motet.language.tokens import Token

_BLANK = re.compile(r"(?:\s|#[^\n\r]*)*")
_DECLARATION = re.compile(
    r"(?:BASE|PREFIX(?:\s|#[^\n\r]*)+(?P<prefix>[^\s:<>()]*):)(?:\s|#[^\n\r]*)*(?P<iri><[^<>\"{}|^`\x00-\x20]*>)",
    re.IGNORECASE,
)


def read_prologue(document: Document) -> tuple[Names, str]:
    """The declared names, and the text with the prologue blanked, so that positions stay.

    >>> names, rest = read_prologue(Document("PREFIX ex: <urn:> a"))
    >>> names.prefixes, rest.strip()
    ({'ex': 'urn:'}, 'a')
    """
    names, position = Names(document), 0
    while match := _DECLARATION.match(document.text, _skipped(document.text, position)):
        iri = names.expand(Token("IRIREF", match["iri"], match.start("iri")))
        if match["prefix"] is None:
            names.base = iri
        else:
            names.prefixes[match["prefix"]] = iri
        position = match.end()
    return names, re.sub(r"[^\n]", " ", document.text[:position]) + document.text[position:]


def _skipped(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position
