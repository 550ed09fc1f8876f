"""Checks a SPARQL fragment against the grammar and reports the exact position of the first error."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from lark import Lark, UnexpectedToken
from lark import Token as LarkToken

from motet.sparql.tokens import Document, Token

WORDS = frozenset(
    "UNION OPTIONAL MINUS FILTER BIND AS VALUES UNDEF NOT IN EXISTS DISTINCT".split()  # noqa: SIM905  (readable)
)
_SIGNS = {"*": "STAR", "+": "PLUS", "?": "QUESTION", "-": "MINUS_SIGN"}
_COMPARISONS = frozenset({"=", "!=", "<", ">", "<=", ">="})
_KIND_TEXTS = {
    "VAR": "a variable",
    "IRI": "an IRI",
    "BLANK": "a blank node",
    "STRING": "a string",
    "NUMBER": "a number",
    "SIGNED_NUMBER": "a number",
    "BOOLEAN": "true or false",
    "FUNCTION": "a function",
    "COMPARISON": "a comparison",
    "LANGTAG": "a language tag",
    "STAR": "'*'",
    "PLUS": "'+'",
    "QUESTION": "'?'",
    "MINUS_SIGN": "'-'",
    "$END": "the end",
}


def check_grammar(document: Document, tokens: Iterable[Token], start: str, end: int) -> None:
    """Raise a SubscriptionError at the first token that cannot stand where it stands.

    ``start`` is group, expression or template; ``end`` is the position at which the fragment ends.
    """
    parser: Any = _parser().parse_interactive(start=start)  # its methods have no types
    terminal_names = _terminal_names()
    for token in tokens:
        kind = _kind(token, terminal_names)
        try:
            parser.feed_token(LarkToken(kind, token.text))
        except UnexpectedToken:
            message = f"not valid SPARQL: '{token.text}' cannot stand here"
            raise document.refusal(message, token.position, _advice(parser)) from None
    try:
        parser.copy(deepcopy_values=False).feed_eof()  # a copy, so that this parser can still list what it accepts
    except UnexpectedToken:
        raise document.refusal("not valid SPARQL: something is missing here", end, _advice(parser)) from None


@cache
def _parser() -> Lark:
    starts = ["group", "expression", "template"]
    return Lark.open("sparql.lark", rel_to=__file__, parser="lalr", lexer="basic", start=starts)


@cache
def _terminal_names() -> dict[str, str]:
    """Lark's names of the words and signs that the grammar quotes."""
    return {str(terminal.pattern.value): terminal.name for terminal in _parser().terminals if terminal.pattern}


def _kind(token: Token, terminal_names: dict[str, str]) -> str:
    match token.kind:
        case "IRIREF" | "PNAME" | "PREFIX_NAME":
            return "IRI"
        case "INTEGER" | "DECIMAL" | "DOUBLE":
            return "SIGNED_NUMBER" if token.text[0] in "+-" else "NUMBER"
        case "WORD":
            return _word_kind(token.text, terminal_names)
        case "PUNCTUATION" if token.text in _COMPARISONS:
            return "COMPARISON"
        case "PUNCTUATION":
            return _SIGNS.get(token.text) or terminal_names.get(token.text, "OTHER")
        case kind:
            return kind


def _word_kind(word: str, terminal_names: dict[str, str]) -> str:
    if word == "a":
        return terminal_names["a"]
    if word.upper() in WORDS:
        return terminal_names[word.upper()]
    return "BOOLEAN" if word.lower() in ("true", "false") else "FUNCTION"


def _advice(parser: Any) -> str:
    quoted = {name: f"'{sign}'" if not sign.isalpha() else sign for sign, name in _terminal_names().items()}
    accepted = sorted({_KIND_TEXTS.get(kind) or quoted.get(kind, kind) for kind in parser.accepts()})
    return f"expected {', '.join(accepted)}"
