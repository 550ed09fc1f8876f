"""The `motet` surface: the text of language page, section 3, to syntax trees. What a tree must keep is in check.py."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer_NonRecursive, Tree, UnexpectedToken, v_args
from lark.exceptions import VisitError

from motet.language import syntax
from motet.language.motet_lexer import KEYWORDS, Terminal, terminals
from motet.language.sparql_fragments import read_body, read_condition, read_template
from motet.language.surface_shared import read_count, read_duration, read_instant, read_xsd_duration
from motet.language.syntax_advice import document_start, expected_text, foreign_sign, unreadable_sign
from motet.model.errors import SubscriptionError
from motet.model.intervals import Relation
from motet.model.terms import XSD
from motet.sparql.prologue import Prologue
from motet.sparql.tokens import Document
from motet.sparql.tokens import Token as SparqlToken
from motet.xmlql.parse import read_block
from motet.xmlql.parse import read_template as read_xml
from motet.xmlql.write import block_text, template_text


def parse_motet(document: Document) -> tuple[syntax.Subscription, ...]:
    """The subscriptions of a document, not yet checked."""
    return parse_terminals(document, terminals(document))


def parse_terminals(document: Document, terminals: Iterator[Terminal]) -> tuple[syntax.Subscription, ...]:
    """The subscriptions of a document, given as terminals of the grammar."""
    parser: Any = _parser().parse_interactive()  # its methods carry no types
    try:
        for terminal in terminals:
            parser.feed_token(Token(terminal.kind, terminal))
        tree: Tree[Token] = parser.feed_eof()
    except UnexpectedToken as error:
        raise _unexpected(document, error.token, parser.accepts()) from None
    except SubscriptionError as error:  # of the lexer: a sign that the language does not have
        raise (unreadable_sign(document, error, parser.accepts()) if error.advice is None else None) or error from None
    try:
        subscriptions: tuple[syntax.Subscription, ...] = _Builder(document).transform(tree)
    except VisitError as error:  # Lark wraps what a rule's method raises
        raise error.orig_exc from None
    return subscriptions


@cache
def _parser() -> Lark:
    return Lark.open("motet.lark", rel_to=__file__, parser="lalr", lexer="basic", start="document")


@v_args(inline=True)
class _Builder(Transformer_NonRecursive[Token, Any]):
    """One method per rule or alias of motet.lark. Tokens carry a Terminal; rules are visited in document order."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self._document = document
        self._prologue = Prologue(document)

    # The document.

    def document(self, _prologue: object, *subscriptions: syntax.Subscription) -> tuple[syntax.Subscription, ...]:
        return subscriptions

    def base(self, iri: Token) -> None:
        self._prologue.base = self._expand(iri)

    def prefix(self, name: Token, iri: Token) -> None:
        self._prologue.prefixes[name.value.text[:-1]] = self._expand(iri)

    def subscription(
        self,
        name: Token,
        since: int | None,
        events: tuple[syntax.Event, ...],
        pattern: syntax.Pattern,
        context: tuple[syntax.Context, bool] | None,
        delivery: syntax.Delivery | None,
    ) -> syntax.Subscription:
        chosen, unbounded = context or (syntax.Context.RECENT, False)
        terminal: Terminal = name.value
        return syntax.Subscription(
            terminal.text, events, pattern, chosen, unbounded, delivery or syntax.Select(), since, terminal.position
        )

    def since(self, string: Token, sign: Token | None, datatype: str | None) -> int:
        if sign is not None and datatype != XSD + "dateTime":
            raise self._document.refusal("SINCE takes an xsd:dateTime", sign.value.position)
        return read_instant(self._document, string.value.text, string.value.position)

    def declarations(self, *events: syntax.Event) -> tuple[syntax.Event, ...]:
        return events

    def event(
        self,
        name: Token,
        _colon: Token | None,
        class_iri: str | None,
        times: tuple[str, str] | None,
        body: Token | None,
    ) -> syntax.Event:
        event_name: Terminal = name.value
        group = block = None
        if body is not None and body.type == "XML_BLOCK":
            block = read_xml_block(self._prologue, body.value)
        elif body is not None:
            group = read_body(self._prologue, body.value.inner, body.value.position, event_name.text)
        return syntax.Event(event_name.text, class_iri, group, event_name.position, times, block)

    def times_variables(self, start: Token, end: Token) -> tuple[str, str]:
        return start.value.text[1:], end.value.text[1:]

    def context(self, name: Token, unbounded: Token | None) -> tuple[syntax.Context, bool]:
        try:
            return syntax.Context(name.value.text.lower()), unbounded is not None
        except ValueError:
            known = ", ".join(context.value for context in syntax.Context)
            message = f"'{name.value.text}' is not a context"
            raise self._document.refusal(message, name.value.position, f"use one of {known}") from None

    # What is delivered.

    def select(self, keyword: Token, *what: Token) -> syntax.Select:
        if what[0].type == "STAR":
            return syntax.Select()
        names = dict.fromkeys(variable.value.text[1:] for variable in what)
        return syntax.Select(tuple(names), keyword.value.position)

    def construct(self, *templates: Token) -> syntax.Construct:
        return syntax.Construct(tuple(map(self._template, templates)))

    def _template(self, token: Token) -> syntax.Template | syntax.XmlTemplate:
        if token.type == "XML_TEMPLATE":
            return read_xml_template(self._prologue, token.value)
        return read_template(self._prologue, token.value.inner, token.value.position)

    def signal(self) -> syntax.Signal:
        return syntax.Signal()

    def events(self) -> syntax.Events:
        return syntax.Events()

    # Patterns.

    def leaf(self, name: Token) -> syntax.Leaf:
        return syntax.Leaf(name.value.text, name.value.position)

    def within(self, operand: syntax.Pattern, sign: Token, bound: int) -> syntax.Within:
        return syntax.Within(operand, bound, sign.value.position)

    def unless(self, operand: syntax.Pattern, sign: Token, absent: syntax.Pattern, window: int) -> syntax.Unless:
        return syntax.Unless(operand, absent, window, sign.value.position)

    def without(self, operand: syntax.Pattern, sign: Token, absent: syntax.Pattern) -> syntax.Without:
        return syntax.Without(operand, absent, sign.value.position)

    def filter(self, operand: syntax.Pattern, sign: Token, fragment: Token) -> syntax.Filter:
        condition = read_condition(self._prologue, fragment.value.inner, fragment.value.position)
        return syntax.Filter(operand, condition, sign.value.position)

    def xor(self, left: syntax.Pattern, sign: Token, right: syntax.Pattern, window: int) -> syntax.Xor:
        return syntax.Xor(left, right, window, sign.value.position)

    def or_(self, left: syntax.Pattern, sign: Token, right: syntax.Pattern) -> syntax.Or:
        return syntax.Or(left, right, sign.value.position)

    def and_(self, left: syntax.Pattern, sign: Token, right: syntax.Pattern) -> syntax.And:
        return syntax.And(left, right, sign.value.position)

    def related(
        self, left: syntax.Pattern, relation: tuple[str, int], right: syntax.Pattern
    ) -> syntax.Timed | syntax.Alongside:
        word, position = relation
        if word == "ALONGSIDE":
            return syntax.Alongside(left, right, position)
        return syntax.Timed(Relation(word), left, right, position)

    def relation(self, *words: Token) -> tuple[str, int]:
        return " ".join(word.type for word in words), words[0].value.position

    def times(self, operand: syntax.Pattern, sign: Token, number: Token, gap: int | None) -> syntax.Times:
        count = read_count(self._document, number.value.text, number.value.position)
        return syntax.Times(operand, count, gap, sign.value.position)

    def run(self, operand: syntax.Pattern, sign: Token, gap: int) -> syntax.Run:
        return syntax.Run(operand, gap, sign.value.position)

    def no(self, sign: Token, operand: syntax.Pattern, duration: int) -> syntax.No:
        return syntax.No(operand, duration, sign.value.position)

    # Small things.

    def measured(self, number: Token, unit: Token) -> int:
        (_, digits, position, _), (_, name, unit_position, _) = number.value, unit.value
        return read_duration(self._document, digits, position, name, unit_position)

    def lexical(self, string: Token, sign: Token, datatype: str) -> int:
        if datatype != XSD + "dayTimeDuration":
            raise self._document.refusal("a duration is an xsd:dayTimeDuration", sign.value.position)
        return read_xsd_duration(self._document, string.value.text, string.value.position)

    def iri(self, name: Token) -> str:
        if name.value.text.startswith("xsd:") and "xsd" not in self._prologue.prefixes:
            return XSD + name.value.text[4:]  # the grammar itself writes xsd:dayTimeDuration
        return self._expand(name)

    def _expand(self, name: Token) -> str:
        kind = "PREFIX_NAME" if name.type == "COLON" else name.type
        return self._prologue.expand(SparqlToken(kind, name.value.text, name.value.position))


def read_xml_block(prologue: Prologue, terminal: Terminal) -> syntax.XmlBlock:
    """The block of a terminal, whose text begins with the ``{`` before it or with the block itself."""
    tree = read_block(prologue, terminal.position + terminal.text.startswith("{")).tree
    return syntax.XmlBlock(block_text(tree), tree.variables, terminal.position)


def read_xml_template(prologue: Prologue, terminal: Terminal) -> syntax.XmlTemplate:
    """The template of a terminal, likewise."""
    tree = read_xml(prologue, terminal.position + terminal.text.startswith("{")).tree
    return syntax.XmlTemplate(template_text(tree), tree.variables, terminal.position)


def _unexpected(document: Document, token: Token, accepted: set[str]) -> SubscriptionError:
    at_end = token.type == "$END"
    position, text = (len(document.text.rstrip()), "") if at_end else (token.value.position, token.value.text)
    if {"PREFIX", "SUBSCRIPTION"} <= accepted:
        return document_start(document, text, position)
    if foreign := foreign_sign(document, position, accepted):
        return foreign
    advice = expected_text(accepted)
    if at_end:
        message = "the text ends too early"
    elif token.type in ("PNAME", "PREFIX_NAME") and accepted & {"COLON", "NAME"}:
        message, advice = "white space must surround the ':' of EVENT", "write EVENT name : class"
    elif token.type in KEYWORDS and accepted & {"NAME", "SUBNAME"}:
        message = f"'{text}' is a keyword and cannot be a name here"
    elif token.type == "NAME" and (close := get_close_matches(text.upper(), KEYWORDS & accepted, n=1, cutoff=0.8)):
        message, advice = f"'{text}' cannot stand here", f"did you mean {close[0]}?"
    elif token.type in ("NAME", "LPAR", "NO") and "AND" in accepted:
        message = f"an operator is missing before '{text}'"
    else:
        message = f"'{text}' cannot stand here"
    return document.refusal(message, position, advice)
