"""The surfaces `exmlql` and `xml-ql`: blocks over XML documents to syntax trees, and back to XML-QL (language page, 8).

A text is brought into the order of the `motet` grammar, token by token, each at its own position; the parser of that
surface does the rest. In XML-QL's own form a block is named by its document, ``block IN "P.xml"``, and all blocks are
joined by AND.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn

from motet.language import syntax
from motet.language.check import operator_text
from motet.language.motet_lexer import Terminal, declare, is_event_name, subscription_name, terminals_of
from motet.language.motet_surface import parse_terminals
from motet.language.printer import ShortIris
from motet.model.errors import UsageError
from motet.sparql.prologue import Prologue
from motet.sparql.tokens import Document, Token, closing, string_value, tokenise
from motet.xmlql.parse import read_block, read_template
from motet.xmlql.write import block_text, template_text

_COMPARISONS = frozenset({"<", "<=", "=", "!=", ">=", ">"})
_BLOCK_START = re.compile(r"\s*(?=[</])")
_SINGLE = "write each block with a name: $o : <order>…</order>"
_FORMS = {
    False: "write WHERE $a : <order>…</order>, $b : <pay>…</pay>, $a BEFORE $b WITHIN 1 d CONSTRUCT <paid>…</paid>",
    True: 'write WHERE <order>…</> IN "O.xml" <payment>…</> IN "P.xml" CONSTRUCT <result>…</>',
}
_FOREIGN = {
    "ORDER-BY": "ORDER-BY of XML-QL is no part of EXML-QL: notifications are a set in the order of time",
    "ORDER": "ORDER-BY of XML-QL is no part of EXML-QL: notifications are a set in the order of time",
    "FUNCTION": "functions of XML-QL are no part of EXML-QL",
    "SELECT": "a subscription of EXML-QL delivers by CONSTRUCT",
    "WHEN": "this is a pattern of the motet syntax",
    "EVENT": "this is an EVENT of the motet syntax",
}


def parse_exmlql(document: Document, name: str, *, is_xml_ql: bool = False) -> tuple[syntax.Subscription, ...]:
    """The subscriptions of a document; one without a SUBSCRIPTION header is called ``name``."""
    return parse_terminals(document, iter(terminals_of_document(document, name, is_xml_ql=is_xml_ql)))


def terminals_of_document(document: Document, name: str, *, is_xml_ql: bool) -> list[Terminal]:
    """A document as terminals of the `motet` grammar."""
    return _Reader(document, name, is_xml_ql).terminals()


class _Reader:
    """Reads a document's tokens from left to right, and gives the terminals of the `motet` grammar."""

    def __init__(self, document: Document, name: str, is_xml_ql: bool) -> None:
        self._document = document
        self._name = name
        self._is_xml_ql = is_xml_ql
        self._tokens = self._tokenised()
        self._index = 0

    def terminals(self) -> list[Terminal]:
        start = next((i for i, each in enumerate(self._tokens) if each.text.upper() in ("SUBSCRIPTION", "WHERE")), None)
        if start is None:
            self._refuse("WHERE is missing")
        written = list(terminals_of(self._document, self._tokens[:start]))
        self._index = start
        while True:
            written += self._subscription()
            if self._index >= len(self._tokens):
                return written
            if self._word() != "SUBSCRIPTION":
                self._refuse(f"'{self._text()}' cannot stand here", f"after CONSTRUCT only {self._after()} may follow")

    @staticmethod
    def _after() -> str:
        return "another CONSTRUCT, or SUBSCRIPTION and a name,"

    def _tokenised(self) -> list[Token]:
        """The tokens, each block and template as one."""
        prologue = Prologue(self._document)

        def fragment_end(tokens: list[Token]) -> int | None:
            declare(prologue, tokens)
            last = tokens[-1]
            start = _BLOCK_START.match(self._document.text, last.end)
            if start is None:
                return None
            if last.text.upper() == "CONSTRUCT":
                return read_template(prologue, start.end()).end
            return read_block(prologue, start.end()).end if self._precedes_block(tokens) else None

        return tokenise(self._document, fragment_end)

    def _precedes_block(self, tokens: Sequence[Token]) -> bool:
        last, before = tokens[-1], tokens[-2].text.upper() if len(tokens) > 1 else ""
        if self._is_xml_ql:
            is_after_document = last.kind == "STRING" and before == "IN"
            return (
                is_after_document or last.text.upper() == "WHERE" or (last.text == "," and self._follows_block(tokens))
            )
        if last.text in (",",) or last.text.upper() == "WHERE":
            return True  # a block without a name, which is refused where it begins
        return last.text == ":" and len(tokens) > 1 and tokens[-2].kind == "VAR"

    def _follows_block(self, tokens: Sequence[Token]) -> bool:
        return len(tokens) > 2 and tokens[-2].kind == "STRING" and tokens[-3].text.upper() == "IN"

    # One subscription.

    def _subscription(self) -> Iterator[Terminal]:
        position = self._tokens[self._index].position
        yield Terminal("SUBSCRIPTION", "SUBSCRIPTION", position)
        if self._word() == "SUBSCRIPTION":
            yield from self._header()
        else:
            yield Terminal("SUBNAME", self._name, position)
        if self._word() != "WHERE":
            self._refuse("WHERE is missing")
        self._index += 1
        blocks, pattern, conditions = self._items()
        for name, block in blocks:
            yield Terminal("EVENT", "EVENT", name.position)
            yield name
            yield Terminal("XML_BLOCK", block.text, block.position)
        yield Terminal("WHEN", "WHEN", (pattern or [blocks[0][0]])[0].position)
        yield from self._pattern(pattern or _joined([name for name, _ in blocks]), conditions)
        if self._word() == "CONTEXT":
            stop = self._next("CONSTRUCT")
            yield from terminals_of(self._document, self._tokens[self._index : stop])
            self._index = stop
        if self._word() != "CONSTRUCT":
            self._refuse("CONSTRUCT is missing" if not self._word() else f"'{self._text()}' cannot stand here")
        while self._word() == "CONSTRUCT":
            yield Terminal("CONSTRUCT", "CONSTRUCT", self._tokens[self._index].position)
            self._index += 1
            if self._kind() != "FRAGMENT":
                self._refuse("an element is missing after CONSTRUCT", "write CONSTRUCT <result>…</result>")
            fragment = self._take()
            yield Terminal("XML_TEMPLATE", fragment.text, fragment.position)

    def _header(self) -> Iterator[Terminal]:
        name, self._index = subscription_name(self._document, self._tokens, self._index + 1)
        yield name
        stop = self._next("WHERE")
        yield from terminals_of(self._document, self._tokens[self._index : stop])
        self._index = stop

    def _next(self, word: str) -> int:
        later = range(self._index, len(self._tokens))
        return next((i for i in later if self._tokens[i].text.upper() == word), len(self._tokens))

    def _items(self) -> tuple[list[tuple[Terminal, Token]], list[Terminal], list[list[Token]]]:
        """The named blocks, the pattern if there is one, and the conditions."""
        blocks: list[tuple[Terminal, Token]] = []
        pattern: list[Terminal] = []
        conditions: list[list[Token]] = []
        while True:
            if self._kind() == "FRAGMENT":
                blocks.append(self._block_in_document())
            elif self._is_named_block():
                blocks.append(self._named_block())
            else:
                item = self._item()
                if self._is_condition(item):
                    conditions.append(item)
                elif self._is_xml_ql:
                    self._refuse("XML-QL has no operators", "use --syntax exmlql", at=item[0].position)
                elif pattern:
                    self._refuse("there is a second pattern", "join both into one", at=item[0].position)
                else:
                    pattern = self._named_pattern(item)
            if self._text() == ",":
                self._index += 1
            elif not (self._is_xml_ql and self._kind() == "FRAGMENT"):
                break
        if not blocks:
            self._refuse("there is no block", _FORMS[self._is_xml_ql])
        self._refuse_undeclared(pattern, blocks)
        return blocks, pattern, conditions

    def _block_in_document(self) -> tuple[Terminal, Token]:
        block = self._take()
        if not self._is_xml_ql:
            self._refuse("a block without a name", _SINGLE, at=block.position)
        if self._word() != "IN":
            self._refuse("IN is missing after the block", 'write IN "P.xml"')
        self._index += 1
        if self._kind() != "STRING":
            self._refuse("the document of a block is a text", 'write IN "P.xml"')
        document = self._take()
        name = re.sub(r"\W", "_", re.sub(r"\.xml$", "", string_value(document.text), flags=re.I), flags=re.ASCII)
        if not is_event_name(name):
            self._refuse(f"{document.text} cannot name a block", 'write for example IN "P.xml"', at=document.position)
        return Terminal("NAME", name, document.position), block

    def _is_named_block(self) -> bool:
        following = self._tokens[self._index + 1 : self._index + 3]
        return self._kind() == "VAR" and len(following) == 2 and following[0].text == ":"

    def _named_block(self) -> tuple[Terminal, Token]:
        name = self._take()
        if self._is_xml_ql:
            self._refuse("XML-QL has no names for blocks", "use --syntax exmlql", at=name.position)
        if not is_event_name(name.text[1:]):
            self._refuse(f"{name.text} cannot name a block: it is a keyword", "rename it", at=name.position)
        self._index += 1
        if self._kind() != "FRAGMENT":
            self._refuse("an element is missing after ':'", _SINGLE)
        return Terminal("NAME", name.text[1:], name.position), self._take()

    def _item(self) -> list[Token]:
        """The tokens up to the next comma outside brackets, or to the next clause."""
        first = self._index
        while self._index < len(self._tokens) and self._text() != "," and self._word() not in ("CONTEXT", "CONSTRUCT"):
            if self._word() in _FOREIGN:
                self._refuse(f"'{self._text()}' cannot stand here: {_FOREIGN[self._word()]}")
            self._index = (
                closing(self._document, self._tokens, self._index) if self._text() in "({[" else self._index
            ) + 1
        if first == self._index:
            self._refuse("a block, a pattern or a condition is missing", _FORMS[self._is_xml_ql])
        return self._tokens[first : self._index]

    def _is_condition(self, item: Sequence[Token]) -> bool:
        return len(item) > 1 and item[0].kind == "VAR" and item[1].text in _COMPARISONS

    def _named_pattern(self, item: list[Token]) -> list[Terminal]:
        """Block variables are the names of events; those in a FILTER stay variables."""
        return [
            Terminal("NAME", each.text[1:], each.position) if each.kind == "VAR" else each
            for each in terminals_of(self._document, item, is_pattern=True)
        ]

    def _pattern(self, pattern: list[Terminal], conditions: Sequence[Sequence[Token]]) -> Iterator[Terminal]:
        if not conditions:
            yield from pattern
            return
        yield Terminal("LPAR", "(", pattern[0].position)
        yield from pattern
        yield Terminal("RPAR", ")", pattern[-1].position)
        for condition in conditions:
            yield Terminal("FILTER", "FILTER", condition[0].position)
            yield Terminal("EXPRESSION", condition[0].text, condition[0].position, tuple(condition))

    def _refuse_undeclared(self, pattern: Sequence[Terminal], blocks: Sequence[tuple[Terminal, Token]]) -> None:
        names = [name.text for name, _ in blocks]
        for (name, _), text in zip(blocks, names, strict=True):
            if names.count(text) > 1:
                what = f'two blocks IN "{text}.xml"' if self._is_xml_ql else f"two blocks are called ${text}"
                self._refuse(what, "name them apart: each block is another document", at=name.position)
        for terminal in pattern:
            is_name = terminal.kind == "NAME" and self._document.text[terminal.position] in "$?"
            if is_name and terminal.text not in names:
                advice = f"declare it: ${terminal.text} : <element>…</element>"
                self._refuse(f"no block is called ${terminal.text}", advice, at=terminal.position)

    # The tokens.

    def _text(self) -> str:
        return self._tokens[self._index].text if self._index < len(self._tokens) else ""

    def _word(self) -> str:
        return self._text().upper() if self._kind() == "WORD" else ""

    def _kind(self) -> str:
        return self._tokens[self._index].kind if self._index < len(self._tokens) else ""

    def _take(self) -> Token:
        self._index += 1
        return self._tokens[self._index - 1]

    def _refuse(self, message: str, advice: str | None = None, *, at: int | None = None) -> NoReturn:
        index = getattr(self, "_index", 0)
        if at is None:
            at = self._tokens[index].position if index < len(self._tokens) else len(self._document.text.rstrip())
        raise self._document.refusal(message, at, advice or _FORMS[self._is_xml_ql])


def _joined(names: Sequence[Terminal]) -> list[Terminal]:
    """``a AND b AND c``."""
    pattern = [names[0]]
    for name in names[1:]:
        pattern += [Terminal("AND", "AND", name.position), name]
    return pattern


def to_xml_ql(subscriptions: Iterable[syntax.Subscription], prefixes: Mapping[str, str]) -> str:
    """The text of subscriptions in XML-QL's own form; a UsageError names what it cannot express.

    >>> from motet.language.parse import parse
    >>> text = "WHERE $p : <name></> ELEMENT_AS $n, $o : <pn>$pn</pn> CONSTRUCT <r><pn>$pn</> $n</r>"
    >>> print(to_xml_ql(parse(text, syntax="exmlql"), {}), end="")
    WHERE <name></> ELEMENT_AS $n IN "p.xml"
          <pn>$pn</> IN "o.xml"
    CONSTRUCT <r><pn>$pn</> $n</>
    """
    return ShortIris(prefixes).document([_xml_ql(subscription) for subscription in subscriptions])


def _xml_ql(subscription: syntax.Subscription) -> str:
    _refuse_clauses(subscription)
    pattern, conditions = subscription.pattern, []
    while isinstance(pattern, syntax.Filter):
        conditions.append(pattern.condition.text)
        pattern = pattern.operand
    if any(not re.match(r"\?\w+ (?:<|<=|=|!=|>=|>) ", condition) for condition in conditions):
        raise _refusal(subscription, "a condition there compares a variable with a variable or a literal")
    names = []
    while isinstance(pattern, syntax.And):
        names.append(_leaf_name(subscription, pattern.right))
        pattern = pattern.left
    names = [_leaf_name(subscription, pattern), *reversed(names)]
    if names != [event.name for event in subscription.events]:
        raise _refusal(subscription, "it joins its blocks in the order of their declaration")
    blocks = [f'{_block(subscription, event)} IN "{event.name}.xml"' for event in subscription.events]
    assert isinstance(subscription.delivery, syntax.Construct), "other deliveries have been refused"
    templates = [
        template.tree for template in subscription.delivery.templates if isinstance(template, syntax.XmlTemplate)
    ]
    items = "\n      ".join(blocks) + "".join(f",\n      {condition}" for condition in reversed(conditions))
    head = "" if subscription.name == "query" else f"SUBSCRIPTION {subscription.name}\n"
    return f"{head}WHERE {items}\n" + "".join(
        f"CONSTRUCT {template_text(each, is_xml_ql=True)}\n" for each in templates
    )


def _block(subscription: syntax.Subscription, event: syntax.Event) -> str:
    if event.xml is None or event.class_iri is not None or event.times is not None:
        raise _refusal(subscription, f"EVENT {event.name} is more than a block")
    return block_text(event.xml.tree, is_xml_ql=True)


def _leaf_name(subscription: syntax.Subscription, node: syntax.Pattern) -> str:
    if not isinstance(node, syntax.Leaf):
        raise _refusal(subscription, f"xml-ql has no {operator_text(node)}")
    return node.name


def _refuse_clauses(subscription: syntax.Subscription) -> None:
    delivery = subscription.delivery
    if subscription.context is not syntax.Context.RECENT or subscription.unbounded:
        raise _refusal(subscription, "its context is always recent")
    if subscription.since is not None:
        raise _refusal(subscription, "xml-ql has no SINCE")
    if not isinstance(delivery, syntax.Construct) or any(
        isinstance(each, syntax.Template) for each in delivery.templates
    ):
        raise _refusal(subscription, "it delivers XML documents only (CONSTRUCT XML)")


def _refusal(subscription: syntax.Subscription, reason: str) -> UsageError:
    message = f"subscription {subscription.name!r} cannot be written in xml-ql: {reason}"
    return UsageError(message, advice="Use motet or turtle.")
