"""Text functions on columns of terms, in SQL: what STR, LANG and DATATYPE compare with, and tests of texts.

They work on terms as they are written: the first and the last character of a term say what it is. The evaluator is only
left the order of texts that have an escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from motet.model.terms import RDF, XSD, literal, literal_parts
from motet.sparql import algebra
from motet.sparql.sql import nodes
from motet.sparql.sql.nodes import Node
from motet.sparql.term_columns import BLANK, IRI, LANGUAGE_STRING, STRING, term_columns

# Regular expressions that mean the same everywhere: characters and classes of them with a quantifier, alternatives,
# groups without groups in them, anchors at the ends.
_ATOM = r"(?:[A-Za-z0-9 ,:;_/#=@%&!\-]|\.|\[(?:a-z|A-Z|0-9|[A-Za-z0-9 _])+\])[*+?]?"
_SEQUENCE = rf"(?:{_ATOM}|\((?:{_ATOM})+(?:\|(?:{_ATOM})+)*\)\??)+"
_SIMPLE_PATTERN = re.compile(rf"\^?{_SEQUENCE}(?:\|{_SEQUENCE})*\$?")
_BEGINNING = re.compile(r"\^([A-Za-z0-9 ,:;_/#=@%&!-]+)(?![*?])(?=[^|]*$)")  # what a text must begin with
_LANGUAGE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_ANY = '[^"]'  # no pattern has a quotation mark
_NO_LINE_END = "[^\n]"
_RARE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f\ufffe\uffff]")  # characters whose escapes are numbers
_REPLACEMENT = "\uffff"
_LANG_STRING = RDF + "langString"
_TEXTS = frozenset({STRING, LANGUAGE_STRING})

Kinds = Callable[[str], frozenset[int]]  # those that the terms of a variable may have


def text_test(call: algebra.Call, column: Callable[[str], Node], kinds: Kinds) -> Node | None:
    """CONTAINS, STRSTARTS, STRENDS or REGEX of a variable's text and a constant; None if SQL cannot say it."""
    subject, *constants = call.arguments
    texts = [constant_text(constant) for constant in constants]
    if any(text is None or _RARE.search(text) for text in texts):
        return None
    if call.name == "REGEX":
        flags = texts[1] if len(texts) > 1 else ""
        pattern = texts[0] or ""
        if flags not in ("", "i") or _SIMPLE_PATTERN.fullmatch(pattern) is None:
            return None
        whole = _of_literal(pattern)

        def matched(text: Node) -> Node:
            is_literal = isinstance(text, nodes.LexicalText) and whole is not None
            where, searched = (text.this, whole) if is_literal else (text, _of_any_text(pattern))
            return nodes.RegexMatch(this=where, expression=nodes.text(searched or ""), ignore_case=flags == "i")

        test = _of_text(subject, column, kinds, matched)
        match subject, _BEGINNING.match(pattern):
            case algebra.Variable(name), re.Match() as beginning if not flags and test and kinds(name) <= _TEXTS:
                return nodes.both([_begins(column(name), f'"{beginning[1]}'), test])  # quicker than the pattern
        return test
    part = texts[0] or ""
    return _of_text(
        subject, column, kinds, lambda text: nodes.TextTest(this=text, expression=nodes.text(part), name=call.name)
    )


def _of_literal(pattern: str) -> str | None:
    """The simple pattern as one of whole literals without escapes, which spares cutting out their texts; None for
    alternatives with anchors, which belong to one of them.

    >>> _of_literal("^cold .*pump$"), _of_literal("fan|pump")
    ('^"(?:cold [^"]*pump)"', '^"[^"]*(?:fan|pump)')
    """
    body = pattern.removeprefix("^").removesuffix("$")
    if body != pattern and "|" in body:
        return None
    begin = '^"' if pattern.startswith("^") else '^"[^"]*'
    end = '"' if pattern.endswith("$") else ""
    return f"{begin}(?:{body.replace('.', _ANY)}){end}"


def _of_any_text(pattern: str) -> str:
    """The simple pattern, as every engine reads it; they differ in what ends a line.

    >>> _of_any_text("^cold .*pump$")
    '^cold [^\\n]*pump\\\\z'
    """
    body = pattern.removesuffix("$").replace(".", _NO_LINE_END)
    return body + "\\z" if pattern.endswith("$") else body


def constant_text(expression: algebra.Expr) -> str | None:
    """The text of a constant that is a plain string."""
    if isinstance(expression, algebra.Constant) and term_columns(expression.term).okind == STRING:
        return literal_parts(expression.term)[0]
    return None


def _of_text(
    subject: algebra.Expr, column: Callable[[str], Node], kinds: Kinds, test: Callable[[Node], Node]
) -> Node | None:
    """A test of the text of a variable, or of its STR."""
    match subject:
        case algebra.Variable(name):
            term = column(name)
            if kinds(name) <= _TEXTS:
                return _of_lexical(term, test, test(_unescaped(term)))
            is_plain = nodes.both([_begins(term, '"'), nodes.negation(_ends(term, ">")), _has_no_escape(term)])
            return nodes.case(
                (is_plain, test(nodes.LexicalText(this=term.copy()))),
                (nodes.either([nodes.is_null(term.copy()), _is_no_text(term)]), _error()),
                default=test(_unescaped(term)),
            )
        case algebra.Call("STR", (algebra.Variable(name),)):
            return _of_str(column(name), kinds(name), test, test(_unescaped(column(name))))
    return None


def _of_str(term: Node, kinds: frozenset[int], test: Callable[[Node], Node], of_escaped: Node) -> Node:
    """A test of STR; ``of_escaped`` is that of a literal with an escape."""
    if kinds.isdisjoint((IRI, BLANK)):
        return _of_lexical(term, test, of_escaped)
    return nodes.case(
        (nodes.either([nodes.is_null(term.copy()), _begins(term, "_")]), _error()),
        (_begins(term, "<"), test(_iri_text(term))),
        (_has_no_escape(term), test(nodes.LexicalText(this=term.copy()))),
        default=of_escaped,
    )


def _of_lexical(literal: Node, test: Callable[[Node], Node], of_escaped: Node) -> Node:
    """A test of what stands between the quotes; NULL of NULL."""
    return nodes.case((_has_no_escape(literal), test(nodes.LexicalText(this=literal.copy()))), default=of_escaped)


def text_comparison(
    left: algebra.Expr,
    right: algebra.Expr,
    compare: Callable[..., Node],
    column: Callable[[str], Node],
    kinds: Kinds,
    otherwise: Node,
) -> Node | None:
    """STR of a variable compared with a constant text; None for other operands. ``otherwise`` is the same comparison by
    the evaluator.
    """
    text = constant_text(right)
    match left:
        case algebra.Call("STR", (algebra.Variable(name),)) if text is not None:
            of_escaped = otherwise
            if compare in (exp.EQ, exp.NEQ):
                own, other = nodes.LexicalText(this=column(name)), nodes.text(literal(text)[1:-1])
                of_escaped = compare(this=own, expression=other)

            def compared(own: Node) -> Node:
                return compare(this=own, expression=nodes.text(text))

            return _of_str(column(name), kinds(name), compared, of_escaped)
    return None


def annotation_equality(left: algebra.Expr, right: algebra.Expr, column: Callable[[str], Node]) -> Node | None:
    """LANG or DATATYPE of a variable equal to a constant; None for other operands."""
    match left, right:
        case algebra.Call("LANG", (algebra.Variable(name),)), _ if (tag := constant_text(right)) is not None:
            term = column(name)
            test = _ends(term, f'"@{tag}') if tag else nodes.negation(_has_language(term))
        case algebra.Call("DATATYPE", (algebra.Variable(name),)), algebra.Constant(datatype) if datatype[0] == "<":
            term = column(name)
            test = _has_datatype(term, datatype[1:-1])
        case _:
            return None
    return nodes.case((_begins(term, '"'), test), default=_error())


def language_match(call: algebra.Call, column: Callable[[str], Node]) -> Node | None:
    """``LANGMATCHES(LANG(?x), "en")``; None for other arguments."""
    match call.arguments:
        case (algebra.Call("LANG", (algebra.Variable(name),)), constant) if (
            tag := constant_text(constant)
        ) is not None:
            term = column(name)
            if tag == "*":
                return nodes.case((_begins(term, '"'), _has_language(term)), default=_error())
            if _LANGUAGE.fullmatch(tag.lower()) is None:
                return None
            pattern = nodes.text(f'"@{tag.lower()}(-[a-z0-9-]+)?$')
            return nodes.case(
                (_begins(term, '"'), nodes.RegexMatch(this=term.copy(), expression=pattern)), default=_error()
            )
    return None


def _error() -> Node:
    return nodes.cast(exp.Null(), "BOOLEAN")


def _begins(term: Node, character: str) -> Node:
    return nodes.TextTest(this=term.copy(), expression=nodes.text(character), name="STRSTARTS")


def _ends(term: Node, text: str) -> Node:
    return nodes.TextTest(this=term.copy(), expression=nodes.text(text), name="STRENDS")


def _is_no_text(term: Node) -> Node:
    return nodes.either([nodes.negation(_begins(term, '"')), _ends(term, ">")])


def _has_language(literal: Node) -> Node:
    return nodes.negation(nodes.either([_ends(literal, '"'), _ends(literal, ">")]))


def _has_datatype(literal: Node, datatype: str) -> Node:
    if datatype == XSD + "string":
        return _ends(literal, '"')
    return _has_language(literal) if datatype == _LANG_STRING else _ends(literal, f'"^^<{datatype}>')


def _has_no_escape(term: Node) -> Node:
    return nodes.negation(nodes.TextTest(this=term.copy(), expression=nodes.text("\\"), name="CONTAINS"))


def _unescaped(term: Node) -> Node:
    """The text of a literal, its escapes replaced by their characters, rare ones by one character.

    Two backslashes become a backslash and a slash first: every other backslash begins an escape then.
    """
    text = _replaced(nodes.LexicalText(this=term.copy()), r"\\", r"\/")
    for letter, character in zip('btnrf"', '\b\t\n\r\f"', strict=True):
        text = _replaced(text, f"\\{letter}", character)
    pattern, other = nodes.text(r"\\u[0-9A-F]{4}"), nodes.text(_REPLACEMENT)
    text = nodes.RegexReplace(this=text, pattern=pattern, expression=other, everywhere=True)
    return _replaced(text, r"\/", "\\")


def _replaced(text: Node, part: str, by: str) -> Node:
    return exp.Anonymous(this="replace", expressions=[text, nodes.text(part), nodes.text(by)])


def _iri_text(term: Node) -> Node:
    length = exp.Sub(this=exp.Length(this=term.copy()), expression=nodes.integer(2))
    return exp.Substring(this=term.copy(), start=nodes.integer(2), length=length)
