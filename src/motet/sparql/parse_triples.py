"""Parses terms, property paths and blocks of triples.

Blank nodes become hidden variables. A label belongs to one basic graph pattern, which `new_basic_pattern` separates.
Links, inverses and sequences of a path become plain triples; the other paths stay paths.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.model.terms import RDF, RDF_TYPE, XSD, iri, literal
from motet.sparql import algebra
from motet.sparql.tokens import NUMBER_KINDS, Document, Expand, Token, TokenReader, has_surrogates, string_value

_FIRST, _REST, _NIL = f"<{RDF}first>", f"<{RDF}rest>", f"<{RDF}nil>"

Statement = tuple[str, "str | algebra.Path", str]  # blank nodes are still written ``_:``


class TripleParser(TokenReader):
    def __init__(self, document: Document, tokens: Sequence[Token], expand: Expand, end: int | None = None) -> None:
        super().__init__(document, tokens, expand, end)
        self._hidden: dict[str, str] = {}  # blank nodes to hidden variables
        self._hidden_count = 0
        self._anonymous = 0
        self._basic_pattern = self._basic_pattern_count = 0
        self._pattern_of_label: dict[str, int] = {}

    def new_basic_pattern(self) -> None:
        """Begin another basic graph pattern."""
        self._basic_pattern_count += 1
        self._basic_pattern = self._basic_pattern_count

    # Terms.

    def variable(self) -> str:
        """The name of a variable."""
        return self.need_kind("VAR").text[1:]

    def iri(self) -> str:
        return iri(self.expand(self.need_kind("IRI")))

    def is_literal(self) -> bool:
        self.expect("BOOLEAN")
        return self.is_kind("STRING", "NUMBER") or self.token.text.lower() in ("true", "false")

    def literal(self) -> str:
        token = self.take()
        if token.kind in NUMBER_KINDS:
            return literal(token.text, datatype=XSD + NUMBER_KINDS[token.kind])
        if token.kind == "WORD":
            return literal(token.text.lower(), datatype=XSD + "boolean")
        text = self._string(token)
        if self.is_kind("LANGTAG"):
            return literal(text, language=self._language(self.take()))
        datatype = self.expand(self.need_kind("IRI")) if self.accept("^^") else None
        return literal(text, datatype=datatype)

    def _string(self, token: Token) -> str:
        text = string_value(token.text)
        if not text.isascii() and has_surrogates(text):
            raise self.refuse("a string with half of a surrogate pair", token, "write the character itself")
        return text

    def _language(self, token: Token) -> str:
        if any(len(part) > 8 for part in token.text[1:].split("-")):
            raise self.refuse(f"{token.text} is not a language tag", token, "its parts have at most 8 characters")
        return token.text[1:]

    def is_term(self) -> bool:
        return self.is_kind("VAR", "IRI", "BLANK") or self.is_literal()

    def term(self) -> str:
        """A variable, IRI, literal or labelled blank node."""
        if self.is_kind("VAR"):
            return "?" + self.variable()
        if self.is_kind("IRI"):
            return self.iri()
        if self.is_literal():
            return self.literal()
        token = self.need_kind("BLANK")
        if self._pattern_of_label.setdefault(token.text, self._basic_pattern) != self._basic_pattern:
            raise self.refuse(
                f"the blank node {token.text} is in two groups", token, "a blank node belongs to one group of triples"
            )
        return token.text

    # Blocks of triples.

    def triples_block(self, paths: bool = True) -> list[algebra.Triple]:
        """Triples up to the first thing that is none; without ``paths`` they are a template."""
        statements: list[Statement] = []
        while self._begins_triples():
            self._same_subject(statements, paths)
            if not self.accept("."):
                break
        triples: list[algebra.Triple] = []
        for subject, verb, obj in statements:
            triples += self._triples(self._place(subject), verb, self._place(obj))
        return triples

    def _begins_triples(self) -> bool:
        return self.is_term() or self.is_sign("(", "[")

    def _same_subject(self, statements: list[Statement], paths: bool) -> None:
        if not self.is_sign("(", "["):
            self._properties(self.term(), statements, paths)
            return
        bare = self.following().text in ("]", ")")
        subject = self._node(statements, paths)
        if bare or self._begins_verb(paths):
            self._properties(subject, statements, paths)

    def _properties(self, subject: str, statements: list[Statement], paths: bool) -> None:
        if not self._begins_verb(paths):
            raise self.unexpected()
        while True:
            verb = self._verb(paths)
            self._object(subject, verb, statements, paths)
            while self.accept(","):
                self._object(subject, verb, statements, paths)
            if not self.is_sign(";"):
                return
            while self.accept(";"):
                pass
            if not self._begins_verb(paths):
                return

    def _object(self, subject: str, verb: str | algebra.Path, statements: list[Statement], paths: bool) -> None:
        inner: list[Statement] = []
        obj = self._node(inner, paths)
        statements += [(subject, verb, obj), *inner]

    def _node(self, statements: list[Statement], paths: bool) -> str:
        """A term, ``[ … ]`` or ``( … )``; the triples inside the brackets are added to the statements."""
        if self.is_sign("["):
            with self.nested():
                return self._property_list(statements, paths)
        if self.is_sign("("):
            with self.nested():
                return self._collection(statements, paths)
        return self.term()

    def _property_list(self, statements: list[Statement], paths: bool) -> str:
        self.need("[")
        node = self._fresh()
        if not self.accept("]"):
            self._properties(node, statements, paths)
            self.need("]")
        return node

    def _collection(self, statements: list[Statement], paths: bool) -> str:
        self.need("(")
        if self.accept(")"):
            return _NIL
        members: list[str] = []
        inner: list[Statement] = []
        while not self.accept(")"):
            members.append(self._node(inner, paths))
        cells = [self._fresh() for _ in members]
        for index, (cell, member) in enumerate(zip(cells, members, strict=True)):
            statements.append((cell, _FIRST, member))
            statements.append((cell, _REST, cells[index + 1] if index + 1 < len(cells) else _NIL))
        statements += inner
        return cells[0]

    def _fresh(self) -> str:
        self._anonymous += 1
        return f"_: {self._anonymous}"  # no label of the text has a space

    def _place(self, term: str) -> str:
        return self._hidden_variable(term) if term.startswith("_:") else term

    def _hidden_variable(self, node: str) -> str:
        if node not in self._hidden:
            self._hidden[node] = f"?.{self._hidden_count}"
            self._hidden_count += 1
        return self._hidden[node]

    def _triples(self, subject: str, verb: str | algebra.Path, obj: str) -> list[algebra.Triple]:
        match verb:
            case algebra.Link(name):
                return [algebra.Triple(subject, name, obj)]
            case algebra.Inverse(path):
                return self._triples(obj, path, subject)
            case algebra.Sequence((first, *rest)):
                if not rest:
                    return self._triples(subject, first, obj)
                between = self._hidden_variable(f"step {self._hidden_count}")
                return self._triples(subject, first, between) + self._triples(
                    between, algebra.Sequence(tuple(rest)), obj
                )
        return [algebra.Triple(subject, verb, obj)]

    # Verbs and paths.

    def _begins_verb(self, paths: bool) -> bool:
        self.expect("a")
        if self.is_kind("VAR", "IRI") or self.token.text == "a":
            return True
        return paths and self.is_sign("^", "!", "(")

    def _verb(self, paths: bool) -> str | algebra.Path:
        if self.is_kind("VAR"):
            return "?" + self.variable()
        path = self._alternative() if paths else algebra.Link(self._link())
        return path.iri if isinstance(path, algebra.Link) else path

    def _link(self) -> str:
        self.expect("a")
        if self.token.text == "a":
            self.take()
            return RDF_TYPE
        return self.iri()

    def _alternative(self) -> algebra.Path:
        parts = [self._sequence()]
        while self.accept("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else algebra.Alternative(tuple(parts))

    def _sequence(self) -> algebra.Path:
        parts = [self._step()]
        while self.accept("/"):
            self.count_operator()
            parts.append(self._step())
        return parts[0] if len(parts) == 1 else algebra.Sequence(tuple(parts))

    def _step(self) -> algebra.Path:
        if self.accept("^"):
            return algebra.Inverse(self._repeated())
        return self._repeated()

    def _repeated(self) -> algebra.Path:
        path = self._primary()
        if self.accept("*"):
            return algebra.ZeroOrMore(path)
        if self.accept("+"):
            return algebra.OneOrMore(path)
        return algebra.ZeroOrOne(path) if self.accept("?") else path

    def _primary(self) -> algebra.Path:
        if self.accept("!"):
            return self._negated_set()
        if self.accept("("):
            with self.nested():
                path = self._alternative()
            self.need(")")
            return path
        return algebra.Link(self._link())

    def _negated_set(self) -> algebra.NegatedSet:
        forward: list[str] = []
        backward: list[str] = []
        if not self.accept("("):
            self._member(forward, backward)
        elif not self.accept(")"):
            self._member(forward, backward)
            while self.accept("|"):
                self._member(forward, backward)
            self.need(")")
        return algebra.NegatedSet(tuple(forward) if forward or not backward else None, tuple(backward) or None)

    def _member(self, forward: list[str], backward: list[str]) -> None:
        (backward if self.accept("^") else forward).append(self._link())
