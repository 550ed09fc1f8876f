"""SPARQL inside a subscription: bodies, conditions and templates as text that stands on its own.

Names are expanded, comments dropped, tokens joined by single spaces. Then pyoxigraph judges the syntax, since rdflib
accepts much that is not SPARQL, and rdflib must understand the result, since evaluation starts from its algebra. What
either has to say is said at the place in the document the offending token came from. Nothing is evaluated here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from motet.language.document import MAX_BRACKETS, MAX_SPARQL_TOKENS, Document
from motet.language.iris import Names
from motet.language.syntax import Expression, GroupPattern
from motet.language.tokens import Token

if TYPE_CHECKING:
    from rdflib.plugins.sparql.parserutils import CompValue

_FORBIDDEN = {
    "GRAPH": ("GRAPH is not allowed: a body is matched against one event's graph", "write the triples without GRAPH"),
    "SERVICE": ("SERVICE is not allowed: nothing is fetched", "load the data as background instead"),
    "SELECT": ("a subquery is not allowed", "write its pattern directly in the body"),
    "LATERAL": ("LATERAL is not SPARQL 1.1", None),
}
_NO_GRAPH_HERE = ("a condition across events sees bindings, not graphs", "move the pattern into the body of an EVENT")
_AT = re.compile(r"error at (\d+):(\d+): (.*)", re.DOTALL)


def group_pattern(names: Names, tokens: Sequence[Token], position: int, event: str | None = None) -> GroupPattern:
    """The body of an EVENT, without its braces; ``event`` is the event's own name, bound before the body."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN)
    before = "SELECT * WHERE { FILTER(false) " + (f"?{event} <urn:motet:is> <urn:motet:event> . " if event else "")
    algebra = _understood(stretch, before, " }")
    bound = {str(name) for name in _in_scope(algebra.p.p)}
    written = {token.text[1:] for token in tokens if token.kind == "VAR"}
    return GroupPattern(stretch.text, frozenset(bound & written), position)


def expression(names: Names, tokens: Sequence[Token], position: int) -> Expression:
    """The condition of a FILTER over events, without its parentheses."""
    stretch = _normalised(names, tokens, position)
    _refuse_words(names.document, tokens, _FORBIDDEN | {"EXISTS": _NO_GRAPH_HERE})
    _understood(stretch, "SELECT * WHERE { FILTER(false) FILTER( ", " ) }")
    return Expression(stretch.text, _variables(tokens), position)


def template(names: Names, tokens: Sequence[Token], position: int) -> GroupPattern:
    """The triples of a CONSTRUCT clause, without their braces."""
    stretch = _normalised(names, tokens, position)
    _understood(stretch, "CONSTRUCT { ", " } WHERE { FILTER(false) }")
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


def _understood(stretch: _Stretch, before: str, after: str) -> CompValue:
    """The algebra of a valid query around the stretch. FILTER(false) keeps pyoxigraph from planning a long query."""
    query = f"{before}{stretch.text}{after}"
    _judge_syntax(stretch, query, len(before))
    return _translate(stretch, query, len(before))


def _judge_syntax(stretch: _Stretch, query: str, shift: int) -> None:
    import pyoxigraph  # noqa: PLC0415  (heavy; only needed when a subscription has SPARQL in it)

    try:
        pyoxigraph.Store().query(query)
    except SyntaxError as error:
        found = _AT.match(str(error))
        line, column, reason = (int(found[1]), int(found[2]), found[3]) if found else (1, 1, str(error))
        offset = sum(len(part) + 1 for part in query.split("\n")[: line - 1]) + column - 1
        place = stretch.place(max(0, offset - shift))
        raise stretch.document.refusal(f"not valid SPARQL: {_reason(reason)}", place) from None
    except RuntimeError as error:
        raise stretch.document.refusal(f"not usable SPARQL: {error}", stretch.place(0)) from None


def _reason(reason: str) -> str:
    return "something is missing or out of place here" if "[_]" in reason or "unreported" in reason else reason


def _translate(stretch: _Stretch, query: str, shift: int) -> CompValue:
    from pyparsing import ParseException  # noqa: PLC0415  (comes with rdflib)
    from rdflib.plugins.sparql.algebra import translateQuery  # noqa: PLC0415  (heavy)
    from rdflib.plugins.sparql.parser import parseQuery  # noqa: PLC0415

    try:
        return translateQuery(parseQuery(query)).algebra
    except ParseException as error:
        raise stretch.document.refusal("this SPARQL is not supported", stretch.place(error.loc - shift)) from None
    except RecursionError:
        message = "too many triples or nested brackets in one stretch of SPARQL"
        raise stretch.document.refusal(message, stretch.place(0)) from None
    except Exception as error:  # rdflib raises a bare Exception for what it cannot translate
        raise stretch.document.refusal(f"this SPARQL is not supported: {error}", stretch.place(0)) from error


def _in_scope(node: CompValue) -> set[str]:
    """The variables an algebra node can bind (SPARQL 1.1, section 18.2.1); a FILTER binds none."""
    from rdflib import Variable  # noqa: PLC0415  (heavy)

    match node.name:
        case "BGP":
            return {term for triple in node.triples for term in triple if isinstance(term, Variable)}
        case "Join" | "LeftJoin" | "Union":
            return _in_scope(node.p1) | _in_scope(node.p2)
        case "Minus":
            return _in_scope(node.p1)
        case "Extend":
            return _in_scope(node.p) | {node.var}
        case "ToMultiSet" if node.p.name == "values":
            return {variable for row in node.p.res for variable in row}
        case _:
            return _in_scope(node.p)
