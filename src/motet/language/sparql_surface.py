"""The `sparql` surface: ``SELECT ?g … WHERE { GRAPH ?g { … } FILTER … }`` as a subscription to single events.

The graph variable is the event; FILTERs beside the GRAPH move into its body, where they mean the same.
"""

from __future__ import annotations

from motet.language.motet_lexer import is_event_name
from motet.language.sparql_fragments import read_body
from motet.language.syntax import Event, Leaf, Select, Subscription
from motet.language.syntax_advice import NO_AGGREGATES, foreign_sign
from motet.model.errors import SubscriptionError
from motet.sparql.prologue import Prologue
from motet.sparql.tokens import Document, Token, closing, tokenise

_FORM = "write SELECT ?g ?x WHERE { GRAPH ?g { … } FILTER(…) }"


def parse_sparql(document: Document, name: str) -> tuple[Subscription, ...]:
    """The one subscription of a SPARQL query; it is called ``name``."""
    return (_Reader(document).subscription(name),)


class _Reader:
    """Reads a query's tokens from left to right."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._tokens = tokenise(document)
        self._index = 0
        self._prologue = Prologue(document)

    def subscription(self, name: str) -> Subscription:
        self._read_prologue()
        if self._word() == "SUBSCRIPTION":
            raise self._refusal("this is a subscription of the motet syntax", "leave --syntax sparql out")
        select = self._projection()
        if self._word() == "WHERE":
            self._index += 1
        event = self._group()
        if self._index < len(self._tokens):
            raise self._modifier()
        return Subscription(name, (event,), Leaf(event.name, event.position), delivery=select)

    def _read_prologue(self) -> None:
        while self._word() in ("BASE", "PREFIX"):
            word, prefix = self._word(), None
            self._index += 1
            if word == "PREFIX":
                prefix = self._take("PREFIX_NAME").text[:-1]
            iri = self._prologue.expand(self._take("IRIREF"))
            if prefix is None:
                self._prologue.base = iri
            else:
                self._prologue.prefixes[prefix] = iri

    def _projection(self) -> Select:
        position = self._take("WORD", "SELECT").position
        if self._word() in ("DISTINCT", "REDUCED"):
            self._index += 1  # notifications are a set anyway
        if self._text() == "*":
            self._index += 1
            return Select()
        if self._text() == "(":
            raise self._refusal("only variables can be selected", f"{_FORM}; {NO_AGGREGATES}")
        variables = [self._take("VAR")]
        while self._index < len(self._tokens) and self._tokens[self._index].kind == "VAR":
            variables.append(self._take("VAR"))
        return Select(tuple(dict.fromkeys(variable.text[1:] for variable in variables)), position)

    def _group(self) -> Event:
        last = self._closing("{")
        self._index += 1
        graph: tuple[Token, list[Token], int] | None = None
        conditions: list[Token] = []
        while self._index < last:
            if self._word() == "GRAPH" and graph is None:
                graph = self._graph()
            elif self._word() == "FILTER":
                conditions += self._filter()
            elif self._text() == ".":
                self._index += 1
            else:
                raise self._refusal("beside one GRAPH ?g { … } there may only be FILTERs")
        if graph is None:
            raise self._refusal("there is no GRAPH ?g { … }")
        self._index = last + 1
        variable, body, position = graph
        group = read_body(self._prologue, [*body, *conditions], position, variable.text[1:])
        return Event(variable.text[1:], None, group, variable.position)

    def _graph(self) -> tuple[Token, list[Token], int]:
        self._index += 1
        variable = self._take("VAR")
        name = variable.text[1:]
        if not is_event_name(name):
            raise self._document.refusal(f"?{name} cannot name an event", variable.position, "rename the variable")
        opening, last = self._index, self._closing("{")
        self._index = last + 1
        return variable, self._tokens[opening + 1 : last], self._tokens[opening].position

    def _filter(self) -> list[Token]:
        first = self._index
        self._index += 1
        if self._word() in ("EXISTS", "NOT"):
            raise self._refusal("EXISTS beside GRAPH would look into other events")
        if self._text() != "(":
            self._index += 1  # the name of a function
        last = self._closing("(")
        inner = self._tokens[first:last]
        outside = next((token for token in inner if token.text.upper() == "EXISTS" and token.kind == "WORD"), None)
        if outside:
            raise self._document.refusal("EXISTS beside GRAPH would look into other events", outside.position)
        self._index = last + 1
        return self._tokens[first : last + 1]

    def _closing(self, bracket: str) -> int:
        if self._text() != bracket:
            raise self._refusal(f"'{bracket}' is missing")
        return closing(self._document, self._tokens, self._index)

    def _text(self) -> str:
        return self._tokens[self._index].text if self._index < len(self._tokens) else ""

    def _word(self) -> str:
        return self._text().upper()

    def _take(self, kind: str, word: str | None = None) -> Token:
        token = self._tokens[self._index] if self._index < len(self._tokens) else Token("END", "", 0)
        if token.kind != kind or (word and token.text.upper() != word):
            raise self._refusal(f"{word or {'VAR': 'a variable', 'IRIREF': 'an IRI'}.get(kind, 'a prefix')} is missing")
        self._index += 1
        return token

    def _modifier(self) -> SubscriptionError:
        position = self._tokens[self._index].position
        foreign = foreign_sign(self._document, position)
        advice = foreign.advice if foreign is not None and foreign.position == position else None
        return self._refusal("a subscription has no solution modifiers", advice)

    def _refusal(self, message: str, advice: str | None = None) -> SubscriptionError:
        at_end = self._index >= len(self._tokens)
        position = len(self._document.text.rstrip()) if at_end else self._tokens[self._index].position
        return self._document.refusal(message, position, advice or _FORM)
