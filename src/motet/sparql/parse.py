"""Parses SPARQL text: group graph patterns, expressions and templates of subscriptions, and whole queries.

One parser by recursive descent for all of them, so that a text means the same wherever it stands. Its size is limited:
characters, levels of brackets, operators; time is linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from motet.model.errors import LimitError
from motet.sparql import algebra
from motet.sparql.parse_patterns import PatternParser
from motet.sparql.parse_query import QueryParser
from motet.sparql.tokens import Document, Token, tokenise

Parsed = TypeVar("Parsed")

MAX_LENGTH = 20_000  # of a fragment of a subscription
MAX_QUERY = 1_000_000  # of a whole query, most of which can only be VALUES

_ESCAPED = re.compile(
    r"""\"{3}(?:"{0,2}(?:[^"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}"""
    r"""|"(?:[^"\\\n\r]|\\.)*"|'(?:[^'\\\n\r]|\\.)*'|<[^<>"{}|^`\x00-\x20]*>|\#[^\n\r]*"""
    r"""|\\u(?P<short>[0-9A-Fa-f]{4})|\\U(?P<long>[0-9A-Fa-f]{8})""",
    re.DOTALL,
)


def read_group(text: str) -> algebra.Algebra:
    """The algebra of a group graph pattern, given without its outer braces and with all IRIs written out.

    >>> read_group("?e <urn:level> ?l")
    Bgp(triples=(Triple(subject='?e', predicate='<urn:level>', object='?l'),))
    """
    return _whole(_fragment(text), PatternParser.group)


def read_expression(text: str) -> algebra.Expr:
    """The tree of an expression, given without its outer parentheses and with all IRIs written out.

    >>> read_expression("?l > 3")  # doctest: +ELLIPSIS
    Compare(operator='>', left=Variable(name='l'), right=Constant(term='"3"^^<...integer>'))
    """
    return _whole(_fragment(text), PatternParser.expression)


def read_query(text: str, base: str | None = None, source: str | None = None) -> algebra.Query:
    """A whole query. ``base`` is what relative IRIs are resolved against, ``source`` the name of the text's file.

    >>> read_query("ASK { ?e <urn:level> 5 }").pattern  # doctest: +ELLIPSIS
    Bgp(triples=(Triple(subject='?e', predicate='<urn:level>', object='"5"^^<...integer>'),))
    """
    if len(text) > MAX_QUERY:
        raise LimitError(f"a query of {len(text)} characters; at most {MAX_QUERY} are allowed")
    document = Document(_unescaped(text.removeprefix("\ufeff")), source)  # a byte order mark
    return QueryParser(document, tokenise(document), base).query()


def read_template(text: str) -> tuple[algebra.Triple, ...]:
    """The triples of a CONSTRUCT template, given without its braces and with all IRIs written out.

    >>> read_template("?this <urn:in> ?room")
    (Triple(subject='?this', predicate='<urn:in>', object='?room'),)
    """
    return tuple(_whole(_fragment(text), lambda parser: parser.triples_block(paths=False)))


def _fragment(text: str) -> PatternParser:
    if len(text) > MAX_LENGTH:
        raise LimitError(f"a pattern of {len(text)} characters; at most {MAX_LENGTH} are allowed")
    document = Document(text)
    return _Fragment(document, tokenise(document), _written_out(document), is_leaf=True)


class _Fragment(PatternParser):
    def subquery(self) -> algebra.Algebra:
        raise AssertionError("a fragment has no subqueries")


def _written_out(document: Document) -> Callable[[Token], str]:
    def expand(token: Token) -> str:
        if token.kind != "IRIREF":
            raise document.refusal(f"'{token.text}' is not written out as an IRI", token.position)
        return token.text[1:-1]

    return expand


def _whole(parser: PatternParser, parse: Callable[[PatternParser], Parsed]) -> Parsed:
    result = parse(parser)
    parser.need_end()
    return result


def _unescaped(text: str) -> str:
    """The text with code point escapes outside strings and IRIs replaced; those inside are part of their tokens."""
    if "\\u" not in text and "\\U" not in text:
        return text
    return _ESCAPED.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    code = found["short"] or found["long"]
    return chr(min(int(code, 16), 0x10FFFF)) if code else found[0]
