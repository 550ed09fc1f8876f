"""Parses whole queries: SELECT, ASK, CONSTRUCT and DESCRIBE with their modifiers (SPARQL 1.1, section 18.2.4).

Updates are refused by name; so is what the grammar allows and the specification forbids: a projected variable that is
neither a key of the grouping nor an aggregate, a name given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from motet.sparql import algebra
from motet.sparql.algebra import join
from motet.sparql.parse_patterns import PatternParser
from motet.sparql.prologue import Prologue, is_valid_iri
from motet.sparql.scope import in_scope, operands, renamed, variables_in_order
from motet.sparql.tokens import IRI_KINDS, Document, Token

_UPDATES = frozenset(["INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH"])
_UPDATE_ADVICE = (
    "a query only reads: publish events to add data (motet publish, cloud.publish), retract an event to hide it "
    "(motet retract, cloud.retract), or change the background (motet background, cloud.background)"
)


@dataclass(slots=True)
class _Modifiers:
    """What follows the pattern of a query."""

    keys: list[tuple[str, algebra.Expr | None]] = field(default_factory=list)
    is_grouped: bool = False
    having: list[algebra.Expr] = field(default_factory=list)
    order: list[algebra.OrderCondition] = field(default_factory=list)
    offset: int = 0
    limit: int | None = None
    values: algebra.Values | None = None


@dataclass(slots=True)
class _Projection:
    """What stands between SELECT and the pattern; no columns: ``*``."""

    columns: list[tuple[Token, algebra.Expr | None]] | None
    modifier: str  # DISTINCT, REDUCED or nothing
    begin: Token


class QueryParser(PatternParser):
    def __init__(self, document: Document, tokens: Sequence[Token], base: str | None = None) -> None:
        self._prologue = Prologue(document, base)
        super().__init__(document, tokens, self._expanded, is_leaf=False)

    def _expanded(self, token: Token) -> str:
        iri = self._prologue.expand(token)
        if not is_valid_iri(iri):
            raise self.refuse(f"<{iri}> is not a valid IRI", token)
        return iri

    @property
    def base(self) -> str | None:
        return self._prologue.base

    def query(self) -> algebra.Query:
        self._declarations()
        form = self.token
        if self.accept_word("SELECT"):
            query: algebra.Query = self._select()
        elif self.accept_word("CONSTRUCT"):
            query = self._construct()
        elif self.accept_word("DESCRIBE"):
            query = self._describe()
        elif self.accept_word("ASK"):
            query = self._ask()
        elif form.kind == "WORD" and form.text.upper() in _UPDATES:
            raise self.refuse(f"{form.text.upper()} is an update, and updates are not supported", form, _UPDATE_ADVICE)
        else:
            raise self.unexpected()
        self.need_end()
        return query

    def _declarations(self) -> None:
        while True:
            if self.accept_word("BASE"):
                self._prologue.base = self._prologue.expand(self.need_kind_exactly("IRIREF"))
            elif self.accept_word("PREFIX"):
                prefix = self.need_kind_exactly("PREFIX_NAME").text[:-1]
                self._prologue.prefixes[prefix] = self._prologue.expand(self.need_kind_exactly("IRIREF"))
            else:
                return

    def need_kind_exactly(self, kind: str) -> Token:
        """An IRI written in one of the three ways only."""
        assert kind in IRI_KINDS
        self.expect("an IRI in <…>" if kind == "IRIREF" else "a prefix with its colon")
        if self.token.kind != kind:
            raise self.unexpected()
        return self.take()

    # The four forms.

    def _select(self) -> algebra.SelectQuery:
        outer = self._begin_grouping()
        projection = self._projection()
        dataset = self._dataset()
        pattern, variables = self._selected(projection)
        self.aggregates = outer
        return algebra.SelectQuery(pattern, variables, dataset)

    def subquery(self) -> algebra.Algebra:
        self.need_word("SELECT")
        outer = self._begin_grouping()
        pattern, _ = self._selected(self._projection())
        self.aggregates = outer
        return pattern

    def _ask(self) -> algebra.AskQuery:
        self._begin_grouping()
        dataset = self._dataset()
        return algebra.AskQuery(self._modified(self._where()), dataset)

    def _construct(self) -> algebra.ConstructQuery:
        self._begin_grouping()
        if not self.is_sign("{"):
            dataset = self._dataset()
            self.need_word("WHERE")
            template = self._template()
            return algebra.ConstructQuery(self._modified(algebra.Bgp(template)), _with_blanks(template), dataset)
        template = self._template()
        self._hidden.clear()  # a label of the template is no label of the pattern
        self._pattern_of_label.clear()
        dataset = self._dataset()
        return algebra.ConstructQuery(self._modified(self._where()), template, dataset)

    def _template(self) -> tuple[algebra.Triple, ...]:
        self.need("{")
        triples = self.triples_block(paths=False)
        self.need("}")
        return tuple(triples)

    def _describe(self) -> algebra.DescribeQuery:
        self._begin_grouping()
        targets: list[str] | None = None
        if not self.accept("*"):
            targets = [self._target()]
            while self.is_kind("VAR", "IRI"):
                targets.append(self._target())
        dataset = self._dataset()
        has_pattern = self.is_word("WHERE") or self.is_sign("{")
        where = self._where() if has_pattern else algebra.EMPTY
        if targets is None:
            targets = [f"?{name}" for name in _visible(where)]
        return algebra.DescribeQuery(self._modified(where), tuple(targets), dataset)

    def _target(self) -> str:
        return "?" + self.variable() if self.is_kind("VAR") else self.iri()

    def _dataset(self) -> algebra.DatasetClause | None:
        default: list[str] = []
        named: list[str] = []
        while self.accept_word("FROM"):
            (named if self.accept_word("NAMED") else default).append(self.iri())
        return algebra.DatasetClause(tuple(default), tuple(named)) if default or named else None

    def _where(self) -> algebra.Algebra:
        self.accept_word("WHERE")
        outer, self.aggregates = self.aggregates, None
        pattern = self.braces()
        self.aggregates = outer
        return pattern

    # Projection.

    def _begin_grouping(self) -> dict[algebra.Aggregate, str] | None:
        """Collect the aggregates of a query from here on; the result is what an enclosing query has collected."""
        outer, self.aggregates = self.aggregates, {}
        return outer

    def _projection(self) -> _Projection:
        begin = self.token
        modifier = self.take().text.upper() if self.is_word("DISTINCT", "REDUCED") else ""
        if self.accept("*"):
            return _Projection(None, modifier, begin)
        columns: list[tuple[Token, algebra.Expr | None]] = []
        while self.is_kind("VAR") or self.is_sign("("):
            columns.append(self._column())
        if not columns:
            raise self.unexpected()
        names = [token.text[1:] for token, _ in columns]
        for index, (token, expression) in enumerate(columns):
            if expression is not None and token.text[1:] in names[:index] + names[index + 1 :]:
                raise self.refuse(f"not valid SPARQL: {token.text} is projected twice", token)
        return _Projection(columns, modifier, begin)

    def _column(self) -> tuple[Token, algebra.Expr | None]:
        if self.is_kind("VAR"):
            return self.take(), None
        self.need("(")
        with self.nested():
            expression = self.expression()
        self.need_word("AS")
        variable = self.need_kind("VAR")
        self.need(")")
        return variable, expression

    def _selected(self, projection: _Projection) -> tuple[algebra.Algebra, tuple[str, ...]]:
        """The pattern of a SELECT with everything that belongs to it, and the projected variables."""
        where = self._where()
        modifiers = self._modifiers()
        columns = projection.columns
        if columns is None and modifiers.is_grouped:
            raise self.refuse("not valid SPARQL: SELECT * with GROUP BY", projection.begin, "name the variables")
        grouped = self._grouped(where, modifiers, columns or [])
        for token, expression in columns or []:
            if expression is not None:
                if token.text[1:] in in_scope(grouped):
                    raise self.refuse(f"not valid SPARQL: {token.text} already has a value", token, "take another name")
                self.count_operator()
                grouped = algebra.Extend(grouped, token.text[1:], expression)
        names = _visible(where) if columns is None else [token.text[1:] for token, _ in columns]
        if columns is None and modifiers.values:
            names += modifiers.values.variables
        variables = tuple(dict.fromkeys(names))
        pattern: algebra.Algebra = algebra.Project(_ordered(grouped, modifiers), variables)
        if projection.modifier:
            pattern = algebra.Distinct(pattern) if projection.modifier == "DISTINCT" else algebra.Reduced(pattern)
        return _sliced(pattern, modifiers), variables

    def _modified(self, where: algebra.Algebra) -> algebra.Algebra:
        """The pattern of a query that projects nothing, with its modifiers."""
        modifiers = self._modifiers()
        return _sliced(_ordered(self._grouped(where, modifiers, []), modifiers), modifiers)

    # Modifiers.

    def _modifiers(self) -> _Modifiers:
        modifiers = _Modifiers()
        if self.accept_word("GROUP"):
            self.need_word("BY")
            modifiers.is_grouped = True
            self._keys(modifiers)
        if self.accept_word("HAVING"):
            modifiers.having.append(self.constraint())
            while self.is_sign("(") or self.begins_call():
                modifiers.having.append(self.constraint())
        if self.accept_word("ORDER"):
            self.need_word("BY")
            self._order(modifiers)
        self._slice(modifiers)
        if self.accept_word("VALUES"):
            modifiers.values = self.data_block()
        return modifiers

    def _keys(self, modifiers: _Modifiers) -> None:
        collected, self.aggregates = self.aggregates, None
        modifiers.keys.append(self._key())
        while self.is_kind("VAR") or self.is_sign("(") or self.begins_call():
            modifiers.keys.append(self._key())
        self.aggregates = collected

    def _key(self) -> tuple[str, algebra.Expr | None]:
        if self.is_kind("VAR"):
            return self.variable(), None
        if not self.is_sign("("):
            return self._hidden_key(), self.call()
        self.need("(")
        with self.nested():
            expression = self.expression()
        name = self.variable() if self.accept_word("AS") else self._hidden_key()
        self.need(")")
        return name, expression

    def _hidden_key(self) -> str:
        self._aggregate_count += 1
        return f".k{self._aggregate_count - 1}"

    def _order(self, modifiers: _Modifiers) -> None:
        modifiers.order.append(self._order_condition())
        while self.is_word("ASC", "DESC") or self.is_kind("VAR") or self.is_sign("(") or self.begins_call():
            modifiers.order.append(self._order_condition())

    def _order_condition(self) -> algebra.OrderCondition:
        if self.is_word("ASC", "DESC"):
            descending = self.take().text.upper() == "DESC"
            return algebra.OrderCondition(self.bracketed(), descending)
        if self.is_kind("VAR"):
            return algebra.OrderCondition(algebra.Variable(self.variable()))
        return algebra.OrderCondition(self.constraint())

    def _slice(self, modifiers: _Modifiers) -> None:
        seen: set[str] = set()
        while self.is_word(*({"LIMIT", "OFFSET"} - seen)):
            word = self.take().text.upper()
            seen.add(word)
            count = self._count()
            if word == "LIMIT":
                modifiers.limit = count
            else:
                modifiers.offset = count

    def _count(self) -> int:
        token = self.need_kind("NUMBER")
        if token.kind != "INTEGER" or not token.text.isdigit() or len(token.text) > 18:
            raise self.refuse(f"not valid SPARQL: {token.text[:40]} is no number of solutions", token)
        return int(token.text)

    # Grouping.

    def _grouped(
        self,
        where: algebra.Algebra,
        modifiers: _Modifiers,
        columns: list[tuple[Token, algebra.Expr | None]],
    ) -> algebra.Algebra:
        """The pattern after GROUP BY, HAVING and VALUES."""
        assert self.aggregates is not None
        pattern = where
        if modifiers.is_grouped or self.aggregates:
            for name, expression in modifiers.keys:
                if expression is not None:
                    self.count_operator()
                    pattern = algebra.Extend(pattern, name, expression)
            keys = tuple(dict.fromkeys(name for name, _ in modifiers.keys))
            self._check_columns(columns, keys)
            self._sample_ungrouped(modifiers, columns, keys)
            aggregates = tuple((name, aggregate) for aggregate, name in self.aggregates.items())
            pattern = algebra.Group(pattern, keys, aggregates)
        for condition in modifiers.having:
            self.count_operator()
            pattern = algebra.Filter(pattern, condition)
        return pattern if modifiers.values is None else join(pattern, modifiers.values)

    def _check_columns(self, columns: list[tuple[Token, algebra.Expr | None]], keys: tuple[str, ...]) -> None:
        known = set(keys)
        for token, expression in columns:
            used = {token.text[1:]} if expression is None else _used(expression)
            for name in sorted(used - known):
                if not algebra.is_hidden(name):
                    advice = f"add ?{name} to GROUP BY, or take an aggregate of it, such as SAMPLE(?{name})"
                    raise self.refuse(f"not valid SPARQL: ?{name} is not a key of the grouping", token, advice)
            known.add(token.text[1:])

    def _sample_ungrouped(
        self, modifiers: _Modifiers, columns: list[tuple[Token, algebra.Expr | None]], keys: tuple[str, ...]
    ) -> None:
        """In HAVING and ORDER BY, a variable that is no key stands for a sample of its values."""
        computed = {token.text[1:] for token, expression in columns if expression is not None}
        for condition in modifiers.having:
            for name in sorted(_used(condition) & (computed - set(keys))):
                raise self.refuse(
                    f"HAVING comes before SELECT computes ?{name}", advice="write the expression itself after HAVING"
                )

        def sampled(name: str) -> str:
            if algebra.is_hidden(name) or name in computed or name in keys:
                return name
            return self.aggregate_variable(algebra.Aggregate("SAMPLE", algebra.Variable(name)))

        modifiers.having = [renamed(condition, sampled) for condition in modifiers.having]
        modifiers.order = [
            algebra.OrderCondition(renamed(condition.expression, sampled), condition.descending)
            for condition in modifiers.order
        ]


def _visible(pattern: algebra.Algebra) -> list[str]:
    """The variables of ``*``, as they occur."""
    scope = in_scope(pattern)
    return [name for name in variables_in_order(pattern) if name in scope and not algebra.is_hidden(name)]


def _used(expression: algebra.Expr) -> frozenset[str]:
    """The variables whose value an expression needs; those inside EXISTS may be its own."""
    if isinstance(expression, algebra.Exists):
        return frozenset()
    if isinstance(expression, algebra.Variable | algebra.Bound):
        return frozenset({expression.name})
    return frozenset().union(*map(_used, operands(expression)))


def _ordered(pattern: algebra.Algebra, modifiers: _Modifiers) -> algebra.Algebra:
    return algebra.OrderBy(pattern, tuple(modifiers.order)) if modifiers.order else pattern


def _sliced(pattern: algebra.Algebra, modifiers: _Modifiers) -> algebra.Algebra:
    if modifiers.offset or modifiers.limit is not None:
        return algebra.Slice(pattern, modifiers.offset, modifiers.limit)
    return pattern


def _with_blanks(template: Iterable[algebra.Triple]) -> tuple[algebra.Triple, ...]:
    """The template of ``CONSTRUCT WHERE``: its blank nodes are those of the template, not of the pattern."""

    def separate(name: str) -> str:
        return f".t{name[1:]}" if algebra.is_hidden(name) else name

    return tuple(renamed(triple, separate) for triple in template)
