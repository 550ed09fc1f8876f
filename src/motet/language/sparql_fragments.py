"""Turns the SPARQL fragments of a subscription (bodies, conditions, templates) into syntax nodes.

Names are expanded, comments dropped, tokens joined by single spaces. An error in the result is reported at the position
of the offending token in the document. Nothing is evaluated here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from motet.language.syntax import Expression, GroupPattern, Template
from motet.language.syntax_advice import AGGREGATES, NO_AGGREGATES
from motet.model.errors import LimitError, SubscriptionError
from motet.sparql.parse_cache import parse_expression, parse_group, parse_template
from motet.sparql.prologue import Prologue, is_valid_iri
from motet.sparql.scope import in_scope
from motet.sparql.tokens import MAX_BRACKETS, MAX_SPARQL_TOKENS, Document, Token

_FORBIDDEN = {
    "GRAPH": ("GRAPH is not allowed: a body is matched against one event's graph", "write the triples without GRAPH"),
    "SERVICE": ("SERVICE is not allowed: nothing is fetched", "load the data as background instead"),
    "SELECT": ("a subquery is not allowed", "write its pattern directly in the body"),
    "LATERAL": ("LATERAL is not SPARQL 1.1", None),
}
_AGGREGATES = {word: (f"{word} is an aggregate and not allowed here", NO_AGGREGATES) for word in AGGREGATES}
# Keywords that a bracket does not follow closely in the normal form of a fragment.
_KEYWORDS = frozenset(
    "UNION OPTIONAL MINUS FILTER BIND AS VALUES UNDEF NOT IN EXISTS DISTINCT".split()  # noqa: SIM905  (readable)
)
_PATH_ENDS = ("IRIREF", "PNAME", "PREFIX_NAME")
_NO_EXISTS = ("a condition across events sees bindings, not graphs", "move the pattern into the body of an EVENT")


def read_body(prologue: Prologue, tokens: Sequence[Token], position: int, event: str | None = None) -> GroupPattern:
    """The body of an EVENT, without its braces; ``event`` is the name of the event, bound before the body."""
    fragment = _normalise(prologue, tokens, position)
    _refuse_words(prologue.document, tokens, _AGGREGATES)
    _refuse_words(prologue.document, tokens, _FORBIDDEN)
    _refuse_rebinding(prologue.document, tokens, event)
    with _located(fragment):
        algebra = parse_group(fragment.text)
    return GroupPattern(fragment.text, (in_scope(algebra) | {event or ""}) & _variables(tokens), position)


def read_condition(prologue: Prologue, tokens: Sequence[Token], position: int) -> Expression:
    """The condition of a FILTER over events, without its parentheses."""
    fragment = _normalise(prologue, tokens, position)
    _refuse_words(prologue.document, tokens, _FORBIDDEN | _AGGREGATES | {"EXISTS": _NO_EXISTS})
    with _located(fragment):
        parse_expression(fragment.text)
    return Expression(fragment.text, _variables(tokens), position)


def read_template(prologue: Prologue, tokens: Sequence[Token], position: int) -> Template:
    """The triples of a CONSTRUCT clause, without their braces."""
    fragment = _normalise(prologue, tokens, position)
    with _located(fragment):
        parse_template(fragment.text)
    return Template(fragment.text, _variables(tokens), position)


@dataclass(frozen=True, slots=True)
class SparqlFragment:
    """Normalised text with the position of each token in the document."""

    document: Document
    text: str
    offsets: tuple[int, ...]  # of the tokens in ``text``
    positions: tuple[int, ...]  # of the tokens in the document
    end: int  # the document position for anything after the last token

    def position(self, offset: int) -> int:
        if offset >= len(self.text) or not self.positions:
            return self.end
        return self.positions[max(0, bisect_right(self.offsets, offset) - 1)]


def _normalise(prologue: Prologue, tokens: Sequence[Token], position: int) -> SparqlFragment:
    _refuse_size(prologue.document, tokens, position)
    text, offsets, before = "", [], None
    for token in tokens:
        text += "" if before is None or _is_attached(before, token) else " "
        offsets.append(len(text))
        text += _token_text(prologue, token)
        before = token
    end = tokens[-1].end if tokens else position
    return SparqlFragment(prologue.document, text, tuple(offsets), tuple(token.position for token in tokens), end)


def _is_attached(before: Token, token: Token) -> bool:
    """Literals are written in one piece, path modifiers close to their path and brackets close to their function."""
    if token.kind == "LANGTAG" or "^^" in (token.text, before.text):
        return True
    if token.text == "(":
        return before.kind == "WORD" and before.text.upper() not in _KEYWORDS
    return token.text in ("*", "+", "?") and (before.kind in _PATH_ENDS or before.text in (")", "a"))


def _token_text(prologue: Prologue, token: Token) -> str:
    if token.kind in ("IRIREF", "PNAME", "PREFIX_NAME"):
        iri = prologue.expand(token)
        if not is_valid_iri(iri):
            raise prologue.document.refusal(f"<{iri}> is not a valid IRI", token.position)
        return f"<{iri}>"
    return "?" + token.text[1:] if token.kind == "VAR" else token.text


def _refuse_size(document: Document, tokens: Sequence[Token], position: int) -> None:
    if len(tokens) > MAX_SPARQL_TOKENS:
        raise document.refusal(f"more than {MAX_SPARQL_TOKENS} tokens of SPARQL in one fragment", position)
    depth = 0
    for token in tokens:
        depth += (token.text in "{([") - (token.text in "})]")
        if depth > MAX_BRACKETS:
            raise document.refusal(f"brackets nested more than {MAX_BRACKETS} deep", token.position)


def _refuse_words(document: Document, tokens: Iterable[Token], words: Mapping[str, tuple[str, str | None]]) -> None:
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
def _located(fragment: SparqlFragment) -> Iterator[None]:
    """Reports errors about the fragment at their position in the document."""
    try:
        yield
    except SubscriptionError as error:
        raise fragment.document.refusal(error.message, fragment.position(error.position), error.advice) from None
    except LimitError as error:
        raise fragment.document.refusal(error.message, fragment.position(0), error.advice) from None
