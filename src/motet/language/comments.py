"""Reads the comments of a document with the clause each belongs to, and writes them into another document.

A comment on a line of its own belongs to the clause that follows it, or to the clause it stands in; one behind a clause
belongs to that clause. The text of a document in another syntax may lack the clause; then the comment stands before the
subscription.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from motet.language.motet_lexer import Terminal, terminals
from motet.language.syntax import Subscription
from motet.sparql.tokens import Document

_CLAUSES = frozenset({"SUBSCRIPTION", "EVENT", "WHEN", "CONTEXT", "SELECT", "CONSTRUCT", "SIGNAL", "EVENTS"})
_XML_SYNTAXES = frozenset({"motet", "exmlql", "xml-ql"})
_DELIVERY = frozenset({"SELECT", "CONSTRUCT", "SIGNAL", "EVENTS"})
_STRINGS = [rf"{quote * 3}(?:{quote}{{0,2}}(?:[^{quote}\\]|\\.))*{quote * 3}" for quote in ('"', "'")]
_STRINGS += [rf"{quote}(?:[^{quote}\\\n\r]|\\.)*{quote}" for quote in ('"', "'")]
_IRI = r"<[^<>\"{}|^`\x00-\x20]*>"
_COMMENT = re.compile("|".join([_IRI, *_STRINGS, r"\\.", r"(?P<comment>#[^\n\r]*)"]), re.DOTALL)
_HEADER = re.compile(r"\bSUBSCRIPTION\s+([A-Za-z_][A-Za-z0-9_-]*)", re.IGNORECASE)

Place = tuple[str, ...]  # the subscription's name and the clause; empty for what precedes the prologue


class Comment(NamedTuple):
    text: str  # with its sign
    place: Place
    is_behind: bool = False  # on the last line of its clause


class _Clause(NamedTuple):
    position: int
    place: Place


def read_comments(text: str, subscriptions: Sequence[Subscription], syntax: str = "motet") -> tuple[Comment, ...]:
    """The comments of a document of these subscriptions.

    >>> from motet.language.parse import parse
    >>> text = "# any event\\nSUBSCRIPTION any\\n  EVENT e  # no class\\n  WHEN e"
    >>> for comment in read_comments(text, parse(text)):
    ...     print(comment.place, comment.text)
    ('any', 'SUBSCRIPTION') # any event
    ('any', 'EVENT', 'e') # no class
    """
    clauses = _clauses(text, [subscription.name for subscription in subscriptions], syntax)
    return tuple(_located(text, match, clauses) for match in _matches(text, syntax))


def _matches(text: str, syntax: str) -> list[re.Match[str]]:
    """The comments outside XML, in which '#' is a sign like others."""
    spans = [(each.position, each.position + len(each.text)) for each in _xml_terminals(text, syntax)]
    pieces = pairwise([0, *(end for span in spans for end in span), len(text)])
    outside = [piece for index, piece in enumerate(pieces) if index % 2 == 0]
    matches = (match for piece in outside for match in _COMMENT.finditer(text, *piece))
    return [match for match in matches if match["comment"] is not None]


def _xml_terminals(text: str, syntax: str) -> list[Terminal]:
    if syntax not in _XML_SYNTAXES or "<" not in text:
        return []
    document = Document(text)
    if syntax == "motet":
        read = terminals(document)
    else:
        from motet.language.exmlql_surface import terminals_of_document

        read = iter(terminals_of_document(document, "query", is_xml_ql=syntax == "xml-ql"))
    return sorted((each for each in read if each.kind.startswith("XML_")), key=lambda each: each.position)


def _located(text: str, match: re.Match[str], clauses: Sequence[_Clause]) -> Comment:
    comment = match["comment"].rstrip()
    current = next((each for each in reversed(clauses) if each.position < match.start()), None)
    following = next((each for each in clauses if each.position > match.start()), None)
    if _code(text[text.rfind("\n", 0, match.start()) + 1 : match.start()]):
        return Comment(comment, current.place if current else (), is_behind=current is not None)
    between = _code(text[match.end() : following.position if following else len(text)])
    if between:
        return Comment(comment, current.place if current else ())
    if following is not None:
        return Comment(comment, following.place)
    return Comment(comment, (current.place[0], "end") if current else ())


def _code(text: str) -> str:
    """The text without comments and white space."""
    return _COMMENT.sub(lambda match: "" if match["comment"] is not None else match[0], text).strip()


def _clauses(text: str, names: Sequence[str], syntax: str) -> list[_Clause]:
    """Where the clauses of a document begin."""
    if syntax == "motet":
        return list(_motet_clauses(text))
    code = _COMMENT.sub(lambda match: " " * len(match[0]) if match["comment"] is not None else match[0], text)
    headers = [_Clause(match.start(), (match[1], "SUBSCRIPTION")) for match in _HEADER.finditer(code)]
    return headers or [_Clause(len(code) - len(code.lstrip()), (names[0], "SUBSCRIPTION"))]


def _motet_clauses(text: str) -> Iterator[_Clause]:
    name, constructs = "", 0
    for terminal, following in pairwise([*terminals(Document(text)), None]):
        if terminal is None or terminal.kind not in _CLAUSES:
            continue
        if terminal.kind == "SUBSCRIPTION" and following is not None:
            name, constructs = following.text, 0
        place: Place = (name, "delivery" if terminal.kind in _DELIVERY else terminal.kind)
        if terminal.kind == "EVENT" and following is not None:
            place = (*place, following.text)
        elif terminal.kind == "CONSTRUCT":
            place, constructs = (*place, str(constructs)), constructs + 1
        yield _Clause(terminal.position, place)


def write_comments(text: str, comments: Iterable[Comment], syntax: str = "motet") -> str:
    """A document of the same subscriptions with comments.

    >>> print(write_comments("SUBSCRIPTION s\\n  EVENT e\\n  WHEN e\\n", [Comment("# why", ("s", "WHEN"))]), end="")
    SUBSCRIPTION s
      EVENT e
      # why
      WHEN e
    """
    clauses = _clauses(text, [], syntax)
    places = {clause.place for clause in clauses}
    last = {clause.place[0]: clause.place for clause in clauses}
    by_place: dict[Place, list[Comment]] = {}
    for comment in comments:
        placed = _placed(comment, places, last)
        by_place.setdefault(placed.place, []).append(placed)
    head = [f"{comment.text}\n" for comment in by_place.pop((), ())]
    pieces = [*head, "\n" if head else "", text[: clauses[0].position]]
    for clause, stop in zip(clauses, [*(each.position for each in clauses[1:]), len(text)], strict=True):
        ends = by_place.get((clause.place[0], "end"), []) if clause.place == last[clause.place[0]] else []
        pieces.append(_with_comments(text, clause.position, stop, by_place.get(clause.place, []), ends))
    return "".join(pieces)


def _placed(comment: Comment, places: Container[Place], last: Container[str]) -> Comment:
    """The comment at its clause, or before its subscription where there is no such clause."""
    if comment.place in places or not comment.place or comment.place[1] == "end":
        return comment
    return Comment(comment.text, (comment.place[0], "SUBSCRIPTION") if comment.place[0] in last else ())


def _with_comments(text: str, start: int, stop: int, comments: Sequence[Comment], following: Sequence[Comment]) -> str:
    """The text of a clause with its comments; the last one that stood behind it stays there."""
    indentation = text[text.rfind("\n", 0, start) + 1 : start]
    behind = next((comment for comment in reversed(comments) if comment.is_behind), None)
    before = [f"{comment.text}\n{indentation}" for comment in comments if comment is not behind]
    clause = text[start:stop].rstrip()
    tail = text[start + len(clause) : stop]
    after = [f"\n{indentation}{comment.text}" for comment in following]
    return "".join([*before, clause, f"  {behind.text}" if behind else "", *after, tail])
