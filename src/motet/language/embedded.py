"""SPARQL inside a subscription: bodies, conditions and templates as text that stands on its own.

Names are expanded, comments dropped, tokens joined by single spaces. What is wrong with the result is said at the place
in the document the offending token came from. Nothing is evaluated here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from motet.language.syntax import Expression, GroupPattern, Template
from motet.model.errors import LimitError, SubscriptionError
from motet.sparql.grammar import WORDS, judge
from motet.sparql.parse import check_expression, check_group, check_template
from motet.sparql.parse_cache import parse_expression, parse_group, parse_template
from motet.sparql.prologue import Names
from motet.sparql.scope import in_scope
from motet.sparql.tokens import MAX_BRACKETS, MAX_SPARQL_TOKENS, Document, Token

_FORBIDDEN = {
    "GRAPH": ("GRAPH is not allowed: a body is matched against one event's graph", "write the triples without GRAPH"),
    "SERVICE": ("SERVICE is not allowed: nothing is fetched", "load the data as background instead"),
    "SELECT": ("a subquery is not allowed", "write its pattern directly in the body"),
    "LATERAL": ("LATERAL is not SPARQL 1.1", None),
}
_GROUP_ADVICE = (
    "a BIND variable must be new in its group, a blank node belongs to one group, a VALUES row has every value"
)
_PATH_ENDS = ("IRIREF", "PNAME", "PREFIX_NAME")
_NO_GRAPH_HERE = ("a condition across events sees bindings, not graphs", "move the pattern into the body of an EVENT")


def group_pattern(names: Names, tokens: Sequence[Token], position: int, event: str | None = None) -> GroupPattern:
    """The body of an EVENT, without its braces; ``event`` is the event's own name, bound before the body."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN)
    judge(names.document, tokens, "group", stretch.end)
    _refuse_rebinding(names.document, tokens, event)
    before = f"?{event} <urn:motet:is> <urn:motet:event> . " if event else ""
    with _located(stretch, before, _GROUP_ADVICE):
        algebra = parse_group(stretch.text)
        check_group(before + stretch.text)
    return GroupPattern(stretch.text, (in_scope(algebra) | {event or ""}) & _variables(tokens), position)


def expression(names: Names, tokens: Sequence[Token], position: int) -> Expression:
    """The condition of a FILTER over events, without its parentheses."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN | {"EXISTS": _NO_GRAPH_HERE})
    judge(names.document, tokens, "expression", stretch.end)
    with _located(stretch):
        parse_expression(stretch.text)
        check_expression(stretch.text)
    return Expression(stretch.text, _variables(tokens), position)


def template(names: Names, tokens: Sequence[Token], position: int) -> Template:
    """The triples of a CONSTRUCT clause, without their braces."""
    stretch = _normalised(names, tokens, position)
    judge(names.document, tokens, "template", stretch.end)
    with _located(stretch):
        check_template(stretch.text)
        parse_template(stretch.text)
    return Template(stretch.text, _variables(tokens), position)


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
    text, offsets, before = "", [], None
    for token in tokens:
        text += "" if before is None or _attached(before, token) else " "
        offsets.append(len(text))
        text += _written(names, token)
        before = token
    end = tokens[-1].end if tokens else position
    return _Stretch(names.document, text, tuple(offsets), tuple(token.position for token in tokens), end)


def _attached(before: Token, token: Token) -> bool:
    """Literals are written in one piece, path modifiers close to their path and brackets close to their function:
    rdflib wants the one, pyoxigraph the other.
    """
    if token.kind == "LANGTAG" or "^^" in (token.text, before.text):
        return True
    if token.text == "(":
        return before.kind == "WORD" and before.text.upper() not in WORDS
    return token.text in ("*", "+", "?") and (before.kind in _PATH_ENDS or before.text in (")", "a"))


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


def _refuse_rebinding(document: Document, tokens: Sequence[Token], event: str | None) -> None:
    for word, variable in pairwise(tokens):
        if word.text.upper() == "AS" and variable.text[1:] == event:
            message = f"?{event} is the event itself and cannot be bound again"
            raise document.refusal(message, variable.position, "take another variable")


def _variables(tokens: Iterable[Token]) -> frozenset[str]:
    return frozenset(token.text[1:] for token in tokens if token.kind == "VAR")


@contextmanager
def _located(stretch: _Stretch, before: str = "", advice: str | None = None) -> Iterator[None]:
    """Errors about the stretch, or about it with a text before it, become errors at their position in the document."""
    try:
        yield
    except SubscriptionError as error:
        start = 0 if error.text == stretch.text else len(before)
        place = stretch.place(max(0, error.position - start))
        raise stretch.document.refusal(error.message, place, error.advice or advice) from None
    except LimitError as error:
        raise stretch.document.refusal(error.message, stretch.place(0), error.advice) from None
