"""Parses group graph patterns into the algebra of SPARQL 1.1, section 18.2.2.

A leaf body refuses GRAPH, SERVICE and subqueries; a whole query refuses SERVICE only. Whatever is not understood is
refused, never dropped.
"""

from __future__ import annotations

from abc import abstractmethod

from motet.sparql import algebra
from motet.sparql.parse_expressions import ExpressionParser
from motet.sparql.rewrite import join
from motet.sparql.scope import in_scope

_LEAF_ADVICE = "the body of an event is matched against that event's own graph and the background"
_SERVICE_ADVICE = "a query reads only what it is given: load the other data as background, or query it on its own"


class PatternParser(ExpressionParser):
    @abstractmethod
    def subquery(self) -> algebra.Algebra:
        """A SELECT query inside a group, without the braces."""

    def braces(self) -> algebra.Algebra:
        """A group graph pattern with its braces."""
        pattern, filters = self._braces()
        return algebra.Filter(pattern, _conjunction(filters)) if filters else pattern

    def group(self) -> algebra.Algebra:
        """A group graph pattern without its braces, up to a token that is no part of it."""
        pattern, filters = self._group()
        return algebra.Filter(pattern, _conjunction(filters)) if filters else pattern

    def _braces(self) -> tuple[algebra.Algebra, list[algebra.Expr]]:
        self.need("{")
        self.new_basic_pattern()
        with self.nested():
            parts = self._subselect() if self._begins_subquery() else self._group()
        self.need("}")
        self.new_basic_pattern()
        return parts

    def _begins_subquery(self) -> bool:
        return self.token.kind == "WORD" and self.token.text.upper() == "SELECT"

    def _subselect(self) -> tuple[algebra.Algebra, list[algebra.Expr]]:
        if self.is_leaf:
            raise self.refuse("a subquery is not allowed here", advice=_LEAF_ADVICE)
        return self.subquery(), []

    def _group(self) -> tuple[algebra.Algebra, list[algebra.Expr]]:
        """The pattern of a group and, apart from it, its filters: OPTIONAL needs them separately."""
        pattern: algebra.Algebra = algebra.EMPTY
        filters: list[algebra.Expr] = []
        while True:
            triples = self.triples_block()
            if triples:
                pattern = join(pattern, algebra.Bgp(tuple(triples)))
            if self.accept_word("FILTER"):
                filters.append(self._filter())
            else:
                added = self._element(pattern)
                if added is None:
                    return pattern, filters
                pattern = added
            self.accept(".")

    def _filter(self) -> algebra.Expr:
        """The condition of a FILTER; the basic graph pattern goes on behind it, even when it has an EXISTS."""
        basic_pattern = self._basic_pattern
        condition = self.constraint()
        self._basic_pattern = basic_pattern
        return condition

    def _element(self, before: algebra.Algebra) -> algebra.Algebra | None:
        """The group so far with its next element; None at the end of the group."""
        begin = self.token
        if self.accept_word("BIND"):
            added = self._bind(before)
        elif self.accept_word("VALUES"):
            added = join(before, self.data_block())
        elif self.accept_word("OPTIONAL"):
            right, filters = self._braces()
            added = algebra.LeftJoin(before, right, _conjunction(filters) if filters else None)
        elif self.accept_word("MINUS"):
            added = algebra.Minus(before, self.braces())
        elif self.is_sign("{"):
            added = join(before, self._union())
        elif begin.kind == "WORD" and begin.text.upper() in ("GRAPH", "SERVICE"):
            added = join(before, self._named_graph())
        else:
            return None
        self.count_operator()
        self.new_basic_pattern()
        return added

    def _union(self) -> algebra.Algebra:
        united = self.braces()
        while self.accept_word("UNION"):
            self.count_operator()
            united = algebra.Union(united, self.braces())
        return united

    def _bind(self, before: algebra.Algebra) -> algebra.Algebra:
        self.need("(")
        with self.nested():
            expression = self.expression()
        self.need_word("AS")
        token = self.need_kind("VAR")
        if token.text[1:] in in_scope(before):
            message = f"not valid SPARQL: {token.text} already has a value here"
            raise self.refuse(message, token, "a BIND variable must be new in its group")
        self.need(")")
        return algebra.Extend(before, token.text[1:], expression)

    def _named_graph(self) -> algebra.Algebra:
        token = self.take()
        keyword = token.text.upper()
        if self.is_leaf:
            raise self.refuse(f"{keyword} is not allowed here", token, _LEAF_ADVICE)
        if keyword == "SERVICE":
            raise self.refuse("SERVICE is not supported: queries read no other endpoint", token, _SERVICE_ADVICE)
        name = "?" + self.variable() if self.is_kind("VAR") else self.iri()
        return algebra.NamedGraph(name, self.braces())

    def data_block(self) -> algebra.Values:
        """What follows VALUES."""
        if self.is_kind("VAR"):
            variables: tuple[str, ...] = (self.variable(),)
            self.need("{")
            rows = []
            while not self.accept("}"):
                rows.append((self._cell(),))
            return algebra.Values(variables, tuple(rows))
        self.need("(")
        names: list[str] = []
        while not self.accept(")"):
            names.append(self.variable())
        if len(set(names)) < len(names):
            raise self.refuse("not valid SPARQL: VALUES has a variable twice")
        self.need("{")
        table = []
        while not self.accept("}"):
            table.append(self._row(len(names)))
        return algebra.Values(tuple(names), tuple(table))

    def _row(self, width: int) -> tuple[str | None, ...]:
        begin = self.token
        self.need("(")
        cells: list[str | None] = []
        while not self.accept(")"):
            cells.append(self._cell())
        if len(cells) != width:
            message = f"not valid SPARQL: a VALUES row with {len(cells)} values for {width} variables"
            raise self.refuse(message, begin, "a VALUES row has every value; UNDEF stands for none")
        return tuple(cells)

    def _cell(self) -> str | None:
        if self.accept_word("UNDEF"):
            return None
        if self.is_kind("IRI"):
            return self.iri()
        if self.is_literal():
            return self.literal()
        raise self.unexpected()


def _conjunction(conditions: list[algebra.Expr]) -> algebra.Expr:
    return conditions[0] if len(conditions) == 1 else algebra.And(tuple(conditions))
