"""SPARQL inside a subscription: bodies, conditions and templates as text that stands on its own.

Names are expanded, comments dropped, tokens joined by single spaces. What is wrong with the result is said at the place
in the document the offending token came from. Nothing is evaluated here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from motet.language.document import MAX_BRACKETS, MAX_SPARQL_TOKENS, Document
from motet.language.iris import Names
from motet.language.sparql_validity import Fault, variables_in_scope
from motet.language.syntax import Expression, GroupPattern
from motet.language.tokens import Token

_FORBIDDEN = {
    "GRAPH": ("GRAPH is not allowed: a body is matched against one event's graph", "write the triples without GRAPH"),
    "SERVICE": ("SERVICE is not allowed: nothing is fetched", "load the data as background instead"),
    "SELECT": ("a subquery is not allowed", "write its pattern directly in the body"),
    "LATERAL": ("LATERAL is not SPARQL 1.1", None),
}
_NO_GRAPH_HERE = ("a condition across events sees bindings, not graphs", "move the pattern into the body of an EVENT")


def group_pattern(names: Names, tokens: Sequence[Token], position: int, event: str | None = None) -> GroupPattern:
    """The body of an EVENT, without its braces; ``event`` is the event's own name, bound before the body."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN)
    before = "SELECT * WHERE { FILTER(false) " + (f"?{event} <urn:motet:is> <urn:motet:event> . " if event else "")
    return GroupPattern(stretch.text, _judged(stretch, before, " }") & _variables(tokens), position)


def expression(names: Names, tokens: Sequence[Token], position: int) -> Expression:
    """The condition of a FILTER over events, without its parentheses."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN | {"EXISTS": _NO_GRAPH_HERE})
    _judged(stretch, "SELECT * WHERE { FILTER(false) FILTER( ", " ) }")
    return Expression(stretch.text, _variables(tokens), position)


def template(names: Names, tokens: Sequence[Token], position: int) -> GroupPattern:
    """The triples of a CONSTRUCT clause, without their braces."""
    stretch = _normalised(names, tokens, position)
    _judged(stretch, "CONSTRUCT { ", " } WHERE { FILTER(false) }")
    return GroupPattern(stretch.text, _variables(tokens), position)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Normalised text that remembers where in the document each token stood."""

    document: Document
    text: str
    offsets: tuple[int, ...]  # where each token begins in ``text``
    positions: tuple[int, ...]  # where it begins in the document
    end: int  # the document position for anything after the last token

    def place(self, offset: int) -> int:
        if offset >= len(self.text) or not self.positions:
            return self.end
        return self.positions[max(0, bisect_right(self.offsets, offset) - 1)]


def _normalised(names: Names, tokens: Sequence[Token], position: int) -> _Stretch:
    _refuse_size(names.document, tokens, position)
    text, offsets = "", []
    for token in tokens:
        text += " " if text and not _attached(text, token) else ""
        offsets.append(len(text))
        text += _written(names, token)
    end = tokens[-1].end if tokens else position
    return _Stretch(names.document, text, tuple(offsets), tuple(token.position for token in tokens), end)


def _attached(before: str, token: Token) -> bool:
    """Literals are written in one piece, and path modifiers close to their path, since rdflib wants them there."""
    if token.kind == "LANGTAG" or token.text == "^^" or before.endswith("^^"):
        return True
    return token.text in ("*", "+", "?") and before.endswith((">", ")", " a"))


def _written(names: Names, token: Token) -> str:
    if token.kind in ("IRIREF", "PNAME", "PREFIX_NAME"):
        return f"<{names.expand(token)}>"
    return "?" + token.text[1:] if token.kind == "VAR" else token.text


def _refuse_size(document: Document, tokens: Sequence[Token], position: int) -> None:
    if len(tokens) > MAX_SPARQL_TOKENS:
        raise document.refusal(f"more than {MAX_SPARQL_TOKENS} tokens of SPARQL in one place", position)
    depth = 0
    for token in tokens:
        depth += (token.text in "{([") - (token.text in "})]")
        if depth > MAX_BRACKETS:
            raise document.refusal(f"brackets nested more than {MAX_BRACKETS} deep", token.position)


def _refuse_words(document: Document, tokens: Iterable[Token], words: dict[str, tuple[str, str | None]]) -> None:
    for token in tokens:
        if token.kind == "WORD" and token.text.upper() in words:
            message, advice = words[token.text.upper()]
            raise document.refusal(message, token.position, advice)


def _variables(tokens: Iterable[Token]) -> frozenset[str]:
    return frozenset(token.text[1:] for token in tokens if token.kind == "VAR")


def _judged(stretch: _Stretch, before: str, after: str) -> frozenset[str]:
    """The variables in scope in a valid query around the stretch."""
    try:
        return variables_in_scope(f"{before}{stretch.text}{after}")
    except Fault as fault:
        place = stretch.place(max(0, fault.offset - len(before)))
        raise stretch.document.refusal(fault.reason, place, fault.advice) from None
