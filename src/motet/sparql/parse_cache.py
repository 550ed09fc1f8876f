"""The entry for parsing SPARQL: text to algebra, parsed once for each shape of text.

Very many texts differ only in names and constants. These are replaced by placeholders; the resulting template is
parsed and cached, and its tree is filled with the names and constants of the text, which is quicker. A
signed number behind a comparison is one constant.
"""

from __future__ import annotations

from functools import lru_cache

from motet.model.errors import MotetError
from motet.model.terms import XSD, literal
from motet.sparql.algebra import Algebra, Expr, Triple, is_hidden
from motet.sparql.scope import renamed
from motet.sparql.tokens import Document, Token, has_surrogates, string_value, tokenise

_NUMBERS = {"INTEGER": "integer", "DECIMAL": "decimal", "DOUBLE": "double"}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "=", "!="})


@lru_cache(maxsize=4096)
def parse_group(text: str) -> Algebra:
    """The algebra of a group graph pattern, given without its outer braces and with all IRIs written out.

    >>> parse_group("?e <urn:level> 5")
    Bgp(triples=(Triple(subject='?e', predicate='<urn:level>', object='"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),))
    """
    shape = _Shape(text)
    try:
        template = _group(shape.text)
    except MotetError:
        return _group(text)  # its error has the position in the text
    return renamed(template, shape.name, shape.term)


@lru_cache(maxsize=4096)
def parse_expression(text: str) -> Expr:
    """The tree of an expression, given without its outer parentheses and with all IRIs written out.

    >>> parse_expression("?speed < ?limit")
    Compare(operator='<', left=Variable(name='speed'), right=Variable(name='limit'))
    """
    shape = _Shape(text)
    try:
        template = _expression(shape.text)
    except MotetError:
        return _expression(text)
    return renamed(template, shape.name, shape.term)


@lru_cache(maxsize=4096)
def parse_template(text: str) -> tuple[Triple, ...]:
    """The triples of a CONSTRUCT template, given without its braces and with all IRIs written out.

    >>> parse_template("?this <urn:in> ?room")
    (Triple(subject='?this', predicate='<urn:in>', object='?room'),)
    """
    from motet.sparql.parse import read_template

    return read_template(text)


@lru_cache(maxsize=10_000)
def _group(template: str) -> Algebra:
    from motet.sparql.parse import read_group

    return read_group(template)


@lru_cache(maxsize=10_000)
def _expression(template: str) -> Expr:
    from motet.sparql.parse import read_expression

    return read_expression(template)


class _Shape:
    """The template of a text, with the names and constants that fill it."""

    def __init__(self, text: str) -> None:
        self._placeholders: dict[str, str] = {}  # variables of the text to those of the template
        self._constants: list[str] = []
        self.text = self._template(tokenise(Document(text)))
        self._variables = {placeholder: name for name, placeholder in self._placeholders.items()}

    def name(self, placeholder: str) -> str:
        return placeholder if is_hidden(placeholder) else self._variables[placeholder]

    def term(self, term: str) -> str:
        return self._constants[int(term[7:-1])] if term.startswith("<motet:") else term

    def _template(self, tokens: list[Token]) -> str:
        """Joined by spaces only where the text has some: white space before a path modifier is significant."""
        pieces, end, index = [], 0, 0
        while index < len(tokens):
            token = tokens[index]
            if token.position > end:
                pieces.append(" ")
            text, used = self._replace(tokens, index)
            pieces.append(text)
            index += used
            end = tokens[index - 1].end
        return "".join(pieces)

    def _replace(self, tokens: list[Token], index: int) -> tuple[str, int]:
        """The template's text for the token, and how many tokens it replaces."""
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        match token.kind:
            case "VAR":
                return f"?{self._placeholders.setdefault(token.text[1:], f'n{len(self._placeholders)}')}", 1
            case "IRIREF" if (following is None or following.text != "(") and "\\" not in token.text:
                return self._placeholder(token.text), 1
            case "STRING":
                return self._string(token, tokens[index + 1 : index + 3])
            case "INTEGER" | "DECIMAL" | "DOUBLE" if token.text[0] not in "+-" or _follows_comparison(tokens, index):
                return self._placeholder(literal(token.text, datatype=XSD + _NUMBERS[token.kind])), 1
        return token.text, 1

    def _string(self, token: Token, following: list[Token]) -> tuple[str, int]:
        value = string_value(token.text)
        if not value.isascii() and has_surrogates(value):
            return token.text, 1  # the parser refuses it
        if following and following[0].kind == "LANGTAG":
            if any(len(part) > 8 for part in following[0].text[1:].split("-")):
                return token.text, 1
            return self._placeholder(literal(value, language=following[0].text[1:])), 2
        if len(following) == 2 and following[0].text == "^^":
            return self._placeholder(literal(value, datatype=following[1].text[1:-1])), 3
        return self._placeholder(literal(value)), 1

    def _placeholder(self, term: str) -> str:
        self._constants.append(term)
        return f"<motet:{len(self._constants) - 1}>"


def _follows_comparison(tokens: list[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].text in _COMPARISONS
