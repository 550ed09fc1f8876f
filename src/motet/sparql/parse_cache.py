"""Parsing very many SPARQL texts that differ only in names and constants: each shape is parsed once.

A text's variables and constants are replaced by numbers, the resulting template is parsed (milliseconds) and kept, and
the tree is filled with the text's own names and constants (microseconds). The trees are those of
`motet.sparql.parse`, except that a signed number behind a comparison is one constant.
"""

from __future__ import annotations

from functools import lru_cache

from motet.model.errors import MotetError
from motet.model.terms import XSD, literal
from motet.sparql.algebra import Algebra, Expr, is_hidden
from motet.sparql.scope import renamed
from motet.sparql.tokens import Document, Token, string_value, tokenise

_NUMBERS = {"INTEGER": "integer", "DECIMAL": "decimal", "DOUBLE": "double"}
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "=", "!="})


def group_of(text: str) -> Algebra:
    """The algebra of a normalised group graph pattern.

    >>> group_of("?e <urn:level> 5")
    Bgp(triples=(Triple(subject='?e', predicate='<urn:level>', object='"5"^^<http://www.w3.org/2001/XMLSchema#integer>'),))
    """
    shape = _Shape(text)
    return renamed(_group(shape.text), shape.name, shape.term)


def expression_of(text: str) -> Expr:
    """The tree of a normalised expression.

    >>> expression_of("?speed < ?limit")
    Compare(operator='<', left=Variable(name='speed'), right=Variable(name='limit'))
    """
    shape = _Shape(text)
    return renamed(_expression(shape.text), shape.name, shape.term)


def checked_group(text: str) -> Algebra:
    """The algebra of a group graph pattern that nobody has checked; a refusal says where it is wrong."""
    from motet.sparql.parse import check_group, parse_group

    try:
        found = group_of(text)
        check_group(text)
    except MotetError:
        return parse_group(text)  # which knows the place in the text itself
    return found


def checked_expression(text: str) -> Expr:
    """The same for an expression."""
    from motet.sparql.parse import check_expression, parse_expression

    try:
        found = expression_of(text)
        check_expression(text)
    except MotetError:
        return parse_expression(text)
    return found


@lru_cache(maxsize=10_000)
def _group(template: str) -> Algebra:
    from motet.sparql.parse import parse_group

    return parse_group(template)


@lru_cache(maxsize=10_000)
def _expression(template: str) -> Expr:
    from motet.sparql.parse import parse_expression

    return parse_expression(template)


class _Shape:
    """A text without its names and constants, and these."""

    def __init__(self, text: str) -> None:
        self._names: dict[str, str] = {}  # the text's to the template's
        self._constants: list[str] = []
        self.text = self._template(tokenise(Document(text)))
        self._own = {number: name for name, number in self._names.items()}

    def name(self, number: str) -> str:
        return number if is_hidden(number) else self._own[number]

    def term(self, term: str) -> str:
        return self._constants[int(term[7:-1])] if term.startswith("<motet:") else term

    def _template(self, tokens: list[Token]) -> str:
        """Joined by spaces only where the text had some: white space before a path modifier has a meaning."""
        written, end, index = [], 0, 0
        while index < len(tokens):
            token = tokens[index]
            if token.position > end:
                written.append(" ")
            text, used = self._replaced(tokens, index)
            written.append(text)
            index += used
            end = tokens[index - 1].end
        return "".join(written)

    def _replaced(self, tokens: list[Token], index: int) -> tuple[str, int]:
        """What stands in the template for the token, and how many tokens that covers."""
        token = tokens[index]
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        match token.kind:
            case "VAR":
                return f"?{self._names.setdefault(token.text[1:], f'n{len(self._names)}')}", 1
            case "IRIREF" if (following is None or following.text != "(") and "\\" not in token.text:
                return self._placeholder(token.text), 1
            case "STRING":
                return self._string(token, tokens[index + 1 : index + 3])
            case "INTEGER" | "DECIMAL" | "DOUBLE" if token.text[0] not in "+-" or _follows_comparison(tokens, index):
                return self._placeholder(literal(token.text, datatype=XSD + _NUMBERS[token.kind])), 1
        return token.text, 1

    def _string(self, token: Token, behind: list[Token]) -> tuple[str, int]:
        value = string_value(token.text)
        if behind and behind[0].kind == "LANGTAG":
            return self._placeholder(literal(value, language=behind[0].text[1:])), 2
        if len(behind) == 2 and behind[0].text == "^^":
            return self._placeholder(literal(value, datatype=behind[1].text[1:-1])), 3
        return self._placeholder(literal(value)), 1

    def _placeholder(self, term: str) -> str:
        self._constants.append(term)
        return f"<motet:{len(self._constants) - 1}>"


def _follows_comparison(tokens: list[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].text in _COMPARISONS
