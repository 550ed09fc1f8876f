"""Parses group graph patterns and expressions into the algebra of SPARQL 1.1, section 18.2.2.

A leaf body refuses GRAPH, SERVICE and subqueries; a whole query refuses SERVICE only. Leaf bodies and conditions of
subscriptions have neither aggregates nor functions with a different value each time (``is_leaf``); whole queries have
both. An aggregate becomes a hidden variable, which the query's grouping binds. Whatever is not understood is refused,
never dropped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from motet.model.terms import XSD
from motet.sparql import algebra
from motet.sparql.algebra import join
from motet.sparql.functions import RELATIONS
from motet.sparql.parse_triples import TripleParser
from motet.sparql.scope import in_scope
from motet.sparql.tokens import NUMBER_KINDS, Document, Expand, Token, string_value

# Expressions


_ONE_ARGUMENT = (
    "ABS CEIL DATATYPE DAY ENCODE_FOR_URI FLOOR HOURS IRI ISBLANK ISIRI ISLITERAL ISNUMERIC LANG LCASE MD5 MINUTES "
    "MONTH ROUND SECONDS SHA1 SHA256 SHA384 SHA512 STR STRLEN TIMEZONE TZ UCASE YEAR"
)
_TWO_ARGUMENTS = "CONTAINS LANGMATCHES SAMETERM STRAFTER STRBEFORE STRDT STRENDS STRLANG STRSTARTS"
_CAST_NAMES = (
    "boolean date dateTime dayTimeDuration decimal double duration float gDay gMonth gMonthDay gYear gYearMonth "
    "integer string time yearMonthDuration"
)

# The least and greatest number of arguments of each function; no greatest means any number.
FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(_ONE_ARGUMENT.split(), (1, 1)),
    **dict.fromkeys(_TWO_ARGUMENTS.split(), (2, 2)),
    "REGEX": (2, 3),
    "SUBSTR": (2, 3),
    "REPLACE": (3, 4),
    "CONCAT": (0, None),
}
CHANGING: dict[str, tuple[int, int | None]] = {
    "NOW": (0, 0),
    "RAND": (0, 0),
    "UUID": (0, 0),
    "STRUUID": (0, 0),
    "BNODE": (0, 1),
}
AGGREGATES = frozenset({"COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"})
CASTS = frozenset(XSD + name for name in _CAST_NAMES.split())
_SYNONYMS = {"URI": "IRI", "ISURI": "ISIRI"}
_WORDS = (
    FUNCTIONS.keys() | CHANGING.keys() | AGGREGATES | _SYNONYMS.keys() | {"BOUND", "IF", "COALESCE", "EXISTS", "NOT"}
)
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


class ExpressionParser(TripleParser):
    def __init__(
        self, document: Document, tokens: Sequence[Token], expand: Expand, end: int | None = None, *, is_leaf: bool
    ) -> None:
        super().__init__(document, tokens, expand, end)
        self.is_leaf = is_leaf
        self.aggregates: dict[algebra.Aggregate, str] | None = None  # None where none may stand
        self._aggregate_count = 0

    @property
    def base(self) -> str | None:
        """What IRI resolves its argument against."""
        return None

    @abstractmethod
    def braces(self) -> algebra.Algebra:
        """The group graph pattern of an EXISTS, with its braces."""

    def expression(self) -> algebra.Expr:
        parts = [self._conjunction()]
        while self.accept("||"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else algebra.Or(tuple(parts))

    def constraint(self) -> algebra.Expr:
        """What follows FILTER or HAVING: an expression in parentheses, or a call."""
        if self.is_sign("("):
            return self.bracketed()
        return self.call()

    def bracketed(self) -> algebra.Expr:
        self.need("(")
        with self.nested():
            expression = self.expression()
        self.need(")")
        return expression

    def begins_call(self) -> bool:
        self.expect("FUNCTION")
        return self.is_kind("IRI") or (self.token.kind == "WORD" and self.token.text.upper() in _WORDS)

    def call(self) -> algebra.Expr:
        """A function, a cast, an aggregate or EXISTS."""
        if not self.begins_call():
            raise self._unknown_word()
        if self.token.kind != "WORD":
            return self._function_call(self.take())
        return self._builtin()

    def _unknown_word(self) -> Exception:
        token, following = self.token, self.following()
        if token.kind == "WORD" and following.text == "(":
            return self.refuse(f"not valid SPARQL: the function {token.text} is not known", token)
        return self.unexpected()

    # Operators, loosest first.

    def _conjunction(self) -> algebra.Expr:
        parts = [self._relation()]
        while self.accept("&&"):
            parts.append(self._relation())
        return parts[0] if len(parts) == 1 else algebra.And(tuple(parts))

    def _relation(self) -> algebra.Expr:
        left = self._sum()
        self.expect("COMPARISON")
        if self.token.kind == "PUNCTUATION" and self.token.text in _COMPARISONS:
            return algebra.Compare(self.take().text, left, self._sum())
        if self.accept_word("IN"):
            return algebra.In(left, self._list())
        if self.accept_word("NOT"):
            self.need_word("IN")
            return algebra.Not(algebra.In(left, self._list()))
        return left

    def _sum(self) -> algebra.Expr:
        left = self._product(self._unary())
        while True:
            token = self.token
            if self.is_sign("+", "-"):
                self.take()
                right = self._product(self._unary())
            elif token.kind in NUMBER_KINDS and token.text[0] in "+-":
                right = self._product(self._unsigned(self.take()))
            else:
                return left
            self.count_operator()
            left = algebra.Arithmetic(token.text[0], left, right)

    def _unsigned(self, token: Token) -> algebra.Expr:
        """The number of ``?x -1``, whose sign is the operator."""
        return algebra.Constant(f'"{token.text[1:]}"^^<{XSD}{NUMBER_KINDS[token.kind]}>')

    def _product(self, left: algebra.Expr) -> algebra.Expr:
        while self.is_sign("*", "/"):
            self.count_operator()
            left = algebra.Arithmetic(self.take().text, left, self._unary())
        return left

    def _unary(self) -> algebra.Expr:
        if self.accept("!"):
            return algebra.Not(self._primary_expression())
        if self.is_sign("+", "-"):
            return algebra.Sign(self.take().text, self._primary_expression())
        return self._primary_expression()

    def _primary_expression(self) -> algebra.Expr:
        if self.is_sign("("):
            return self.bracketed()
        if self.is_kind("VAR"):
            return algebra.Variable(self.variable())
        if self.is_literal():
            return self._literal_expression()
        if self.is_kind("IRI"):
            token = self.take()
            return self._function_call(token) if self.is_sign("(") else algebra.Constant(f"<{self.expand(token)}>")
        return self.call()

    def _literal_expression(self) -> algebra.Expr:
        """Leaf bodies have a sign and a number where queries have a signed number: stored plans depend on it."""
        token = self.token
        if self.is_leaf and token.kind in NUMBER_KINDS and token.text[0] in "+-":
            return algebra.Sign(token.text[0], self._unsigned(self.take()))
        return algebra.Constant(self.literal())

    # Calls.

    def _function_call(self, token: Token) -> algebra.Expr:
        name = self.expand(token)
        arguments = self._arguments(distinct=True)
        if name in CASTS and len(arguments) != 1:
            raise self.refuse(f"the cast <{name}> takes one argument", token)
        if self.is_leaf and name not in CASTS:
            raise self.refuse(f"the function <{name}> is not known", token, "casts to XSD datatypes are the only ones")
        if name in RELATIONS and len(arguments) != 2:
            raise self.refuse(f"the relation <{name}> takes two events, not {len(arguments)} arguments", token)
        return algebra.Call(name, arguments)

    def _builtin(self) -> algebra.Expr:  # noqa: PLR0911  (one return for each case)
        token = self.take()
        name = _SYNONYMS.get(token.text.upper(), token.text.upper())
        if name in AGGREGATES:
            return self._aggregate(token, name)
        match name:
            case "EXISTS":
                return algebra.Exists(self._exists_group())
            case "NOT":
                self.need_word("EXISTS")
                return algebra.Not(algebra.Exists(self._exists_group()))
            case "BOUND":
                self.need("(")
                variable = self.variable()
                self.need(")")
                return algebra.Bound(variable)
        if name in CHANGING and self.is_leaf:
            advice = "notifications must be a function of the log alone; use a value from the event instead"
            raise self.refuse(f"{name} has a different value each time and is not allowed", token, advice)
        arguments = self._arguments()
        match name:
            case "IF":
                self._check_count(token, arguments, 3, 3)
                return algebra.If(*arguments)
            case "COALESCE":
                return algebra.Coalesce(arguments)
        self._check_count(token, arguments, *(FUNCTIONS.get(name) or CHANGING[name]))
        if name == "IRI" and self.base is not None:
            arguments += (algebra.Constant(f"<{self.base}>"),)
        return algebra.Call(name, arguments)

    def _exists_group(self) -> algebra.Algebra:
        outer, self.aggregates = self.aggregates, None
        pattern = self.braces()
        self.aggregates = outer
        return pattern

    def _check_count(self, token: Token, arguments: tuple[algebra.Expr, ...], least: int, most: int | None) -> None:
        if len(arguments) < least or (most is not None and len(arguments) > most):
            wanted = str(least) if least == most else f"{least} to {most}"
            message = f"not valid SPARQL: {token.text} takes {wanted} arguments, not {len(arguments)}"
            raise self.refuse(message, token)

    def _arguments(self, distinct: bool = False) -> tuple[algebra.Expr, ...]:
        """Expressions in parentheses. DISTINCT is allowed for functions by IRI and has no meaning for those known."""
        self.need("(")
        if self.accept(")"):
            return ()
        with self.nested():
            if distinct and self.is_word("DISTINCT"):
                raise self.refuse("DISTINCT is for aggregates; this function is none")
            arguments = self._expressions()
        self.need(")")
        return arguments

    def _list(self) -> tuple[algebra.Expr, ...]:
        return self._arguments()

    def _expressions(self) -> tuple[algebra.Expr, ...]:
        expressions = [self.expression()]
        while self.accept(","):
            expressions.append(self.expression())
        return tuple(expressions)

    # Aggregates.

    def _aggregate(self, token: Token, name: str) -> algebra.Expr:
        if self.aggregates is None:
            advice = None if self.is_leaf else "it belongs to SELECT, HAVING or ORDER BY, and not inside another one"
            raise self.refuse(f"{name} is an aggregate and not allowed here", token, advice)
        outer, self.aggregates = self.aggregates, None  # none inside another
        self.need("(")
        with self.nested():
            distinct = self.accept_word("DISTINCT")
            argument = None if name == "COUNT" and self.accept("*") else self.expression()
            separator = self._separator() if name == "GROUP_CONCAT" and self.accept(";") else " "
        self.need(")")
        self.aggregates = outer
        return algebra.Variable(self.aggregate_variable(algebra.Aggregate(name, argument, distinct, separator)))

    def aggregate_variable(self, aggregate: algebra.Aggregate) -> str:
        """The hidden variable that stands for an aggregate; equal ones are computed once."""
        assert self.aggregates is not None
        if aggregate not in self.aggregates:
            self.aggregates[aggregate] = f".a{self._aggregate_count}"
            self._aggregate_count += 1
        return self.aggregates[aggregate]

    def _separator(self) -> str:
        self.need_word("SEPARATOR")
        self.need("=")
        return string_value(self.need_kind("STRING").text)


# Patterns


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
