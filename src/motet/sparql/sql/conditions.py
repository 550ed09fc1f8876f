"""Compiles what expressions need: FILTER, BIND, EXISTS, relations of time, and calls that differ each time.

A truth value that other relations decide becomes a column, a *flag*, which stands in the expression as a variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from motet.model.intervals import Relation
from motet.model.terms import XSD
from motet.sparql import algebra
from motet.sparql.functions import CHANGING, RELATIONS
from motet.sparql.scope import operands, variables_in_order
from motet.sparql.sql import nodes
from motet.sparql.sql.expressions import ExpressionCompiler, TypedTerm, mapped, replaced
from motet.sparql.sql.nodes import Node, alias, column, derived
from motet.sparql.sql.relation import ColumnReader, Domain, PatternContext, RelationCompiler, SolutionRelation
from motet.sparql.sql.scan import SqlDataset


class ConditionCompiler(RelationCompiler, ABC):
    """``now`` is the xsd:dateTime of NOW()."""

    def __init__(self, dataset: SqlDataset, now: str) -> None:
        super().__init__()
        self.dataset = dataset
        self.now = now
        self.kinds: dict[str, frozenset[int]] = {}  # by variable with columns of its value: of all its scans

    @abstractmethod
    def compile(self, pattern: algebra.Algebra, context: PatternContext) -> SolutionRelation:
        """The solutions of a pattern."""

    def _given_keys(self, expression: algebra.Expr, context: PatternContext) -> set[str]:
        """The keys of the given bindings an expression may use, those inside EXISTS too."""
        return {context.given[name] for name in variables_in_order(expression) if name in context.given}

    def prepared(
        self, relation: SolutionRelation, expressions: list[algebra.Expr], context: PatternContext
    ) -> tuple[SolutionRelation, list[algebra.Expr]]:
        """The relation with everything some expressions need beside its variables: given bindings, a flag for each
        EXISTS, a column for each call that differs each time.
        """
        for expression in expressions:
            relation = self.expand(relation, self._given_keys(expression, context), context)
        changing: dict[str, Node] = {}
        expressions = [self._without_changing(expression, changing) for expression in expressions]
        if changing:
            relation = self._with_columns(relation, changing)
        found: dict[algebra.Expr, None] = {}
        for expression in expressions:
            _collect_flags(expression, found)
        flags: dict[algebra.Expr, algebra.Expr] = {}
        for node in found:
            if isinstance(node, algebra.Exists):
                relation, name = self._with_flag(relation, node.pattern, context)
            else:
                assert isinstance(node, algebra.Call)
                relation, name = self._with_time_relation(relation, replaced(node, flags), context)
            flags[node] = algebra.Variable(name)
        return relation, [replaced(expression, flags) for expression in expressions]

    def alone(self, condition: algebra.Expr) -> algebra.Expr | None:
        """The condition, if it needs only the columns of the variables in it; see `prepared`."""
        changing: dict[str, Node] = {}
        found: dict[algebra.Expr, None] = {}
        condition = self._without_changing(condition, changing)
        _collect_flags(condition, found)
        return None if changing or found else condition

    def _with_time_relation(
        self, relation: SolutionRelation, call: algebra.Call, context: PatternContext
    ) -> tuple[SolutionRelation, str]:
        """The relation with a truth value: whether a relation of time holds between two events; NULL if one of its
        arguments is no event.
        """
        flag = f".time{self.names.new('')}"
        table, first, second = self.names.new("t"), self.names.new("t"), self.names.new("t")
        scope = self.scope(relation, table, context)
        joins = [
            nodes.join(
                derived(self.dataset.intervals(), name),
                nodes.equals(scope.term(argument), column(name, "g")),
                side="LEFT",
            )
            for name, argument in zip((first, second), call.arguments, strict=True)
        ]
        holds = time_relation(RELATIONS[call.name], first, second)
        query = nodes.select(
            [nodes.star(table), alias(holds, self.names.column(flag))],
            derived(relation.query, table),
            joins,
        )
        return replace(relation, query=query, flags=relation.flags | {flag}, order=()), flag

    def scope(
        self, relation: SolutionRelation, table: str | ColumnReader, context: PatternContext
    ) -> ExpressionCompiler:
        """How expressions read the columns of a relation: from the table with a name, or through a function."""
        read = (lambda place: column(table, place)) if isinstance(table, str) else table

        def value(name: str) -> Node | None:
            own = read(self.names.column(name)) if name in relation.variables else None
            key = context.given.get(name)
            if key is None or key not in relation.keys:
                return own
            given = read(key)
            return given if own is None or name in context.certain else nodes.coalesce(given, own)

        def typed(name: str) -> TypedTerm | None:
            if name not in relation.typed or name in context.given:
                return None
            kind, number, instant = map(read, self.names.typed_columns(name))
            return TypedTerm(read(self.names.column(name)), kind, number, instant, self.kinds[name])

        def flag(name: str) -> Node | None:
            return read(self.names.column(name)) if name in relation.flags else None

        return ExpressionCompiler(value, typed, flag)

    def filter(self, relation: SolutionRelation, condition: algebra.Expr, context: PatternContext) -> SolutionRelation:
        relation, (condition,) = self.prepared(relation, [condition], context)
        query = self.project(
            relation, where=lambda table: self.scope(relation, table, context).truth(condition, positive=True)
        )
        return replace(relation, query=query, order=(), flags=frozenset())

    def _extend(self, pattern: algebra.Extend, context: PatternContext) -> SolutionRelation:
        """Successive BINDs, those that do not need each other in one step."""
        chain: list[tuple[str, algebra.Expr]] = []
        operand: algebra.Algebra = pattern
        while isinstance(operand, algebra.Extend):
            chain.insert(0, (operand.variable, operand.expression))
            operand = operand.operand
        relation = self.compile(operand, context)
        if any(_labels_blank_nodes(expression) for _, expression in chain):
            relation, chain = self._with_labels(relation, chain)
        step: dict[str, algebra.Expr] = {}
        for variable, expression in chain:
            if not step.keys().isdisjoint(variables_in_order(expression)):
                relation, step = self.flattened(self.extended(relation, step, context)), {}
            step[variable] = expression
        return self.extended(relation, step, context)

    def _with_labels(
        self, relation: SolutionRelation, chain: list[tuple[str, algebra.Expr]]
    ) -> tuple[SolutionRelation, list[tuple[str, algebra.Expr]]]:
        """BINDs of one group share the blank nodes of a solution: each solution gets a number, each node a variable."""
        row = f".row{self.names.new('')}"
        relation = self._with_columns(relation, {row: nodes.FreshId()})
        longer: list[tuple[str, algebra.Expr]] = []
        for variable, expression in chain:
            calls: dict[str, algebra.Expr] = {}
            whole = self._without_labels(_with_row(expression, row), calls)
            longer += [*calls.items(), (variable, whole)]
        return relation, longer

    def _without_labels(self, expression: algebra.Expr, calls: dict[str, algebra.Expr]) -> algebra.Expr:
        """The expression with a hidden variable for each labelled blank node."""
        if isinstance(expression, algebra.Call) and expression.name == "BNODE" and len(expression.arguments) == 2:
            name = f".node{self.names.new('')}"
            calls[name] = expression
            return algebra.Variable(name)
        return mapped(expression, lambda operand: self._without_labels(operand, calls))

    def extended(
        self, relation: SolutionRelation, values: dict[str, algebra.Expr], context: PatternContext
    ) -> SolutionRelation:
        """The relation with more variables. Where one is given, its value must be the given one."""
        relation, expressions = self.prepared(relation, list(values.values()), context)
        given = {name: context.given[name] for name in values if name in context.given}
        relation = self.expand(relation, given.values(), context)

        def columns(table: str) -> list[Node]:
            scope = self.scope(relation, table, context)
            pairs = zip(values, expressions, strict=True)
            return [alias(scope.term(expression), self.names.column(name)) for name, expression in pairs]

        query = self.project(relation, extra=columns)
        variables = relation.variables | values.keys()
        extended = replace(relation, query=query, variables=variables, order=(), flags=frozenset())
        if not given:
            return extended

        def is_given(table: str) -> Node:
            return nodes.both(
                self.compatible(
                    column(table, self.names.column(name)), column(table, key), False, name in context.certain
                )
                for name, key in given.items()
            )

        return replace(extended, query=self.project(extended, where=is_given))

    def _without_changing(self, expression: algebra.Expr, columns: dict[str, Node]) -> algebra.Expr:
        """The expression with a hidden variable for each call that differs each time; NOW is a constant."""
        if isinstance(expression, algebra.Call) and expression.name in CHANGING and len(expression.arguments) < 2:
            if expression.name == "NOW":
                return algebra.Constant(f'"{self.now}"^^<{XSD}dateTime>')
            name = f".new{self.names.new('')}"
            columns[name] = _CHANGING_COLUMNS[expression.name]()
            variable = algebra.Variable(name)
            if expression.arguments:  # BNODE outside of BIND: the argument must be a string
                datatype = algebra.Call("DATATYPE", expression.arguments)
                is_string = algebra.Compare("=", datatype, algebra.Constant(f"<{XSD}string>"))
                return algebra.If(is_string, variable, algebra.Variable(".error"))
            return algebra.Call(XSD + "double", (variable,)) if expression.name == "RAND" else variable
        return mapped(expression, lambda operand: self._without_changing(operand, columns))

    def _with_columns(self, relation: SolutionRelation, columns: dict[str, Node]) -> SolutionRelation:
        """The relation with hidden variables, computed once."""
        query = self.project(
            relation,
            extra=lambda _: [alias(node, self.names.column(name)) for name, node in columns.items()],
        )
        added = frozenset(columns)
        return self.reusable(
            replace(
                relation,
                query=query,
                variables=relation.variables | added,
                certain=relation.certain | added,
                order=(),
                flags=frozenset(),
            )
        )

    # EXISTS.

    def _with_flag(
        self, relation: SolutionRelation, pattern: algebra.Algebra, context: PatternContext
    ) -> tuple[SolutionRelation, str]:
        """The relation with a truth value: whether the pattern has a solution under the bindings of a row."""
        relation = self.reusable(relation)
        inside = variables_in_order(pattern)
        relevant = sorted(name for name in inside if name in relation.variables or name in context.given)
        given = {name: self.names.new("k") for name in relevant}
        domains = [domain for domain in context.domains if context.graph_key in domain.keys][:1]
        if relevant:
            name = self.share(self._bindings(relation, given, context))
            keys = frozenset(given.values()) | (relation.keys & {context.graph_key})
            domains.append(Domain(keys, lambda: nodes.select([exp.Star()], nodes.table(name))))
        certain = frozenset(relevant) & (relation.certain | context.certain)
        inner = replace(context, given=given, certain=certain, domains=tuple(domains), is_set=False, ranges={})
        solutions = self.compile(pattern, inner)
        if context.graph_key in solutions.keys:
            relation = self.expand(relation, {context.graph_key}, context)
        return self._flagged(relation, solutions, given, context)

    def _bindings(self, relation: SolutionRelation, given: dict[str, str], context: PatternContext) -> exp.Query:
        """The distinct bindings of some variables, under the names of their keys."""
        table = self.names.new("t")
        scope = self.scope(relation, table, context)
        items = [alias(scope.value(name) or nodes.null(), key) for name, key in given.items()]
        if context.graph_key in relation.keys:
            items.append(column(table, context.graph_key))
        return nodes.select(items, derived(relation.query.copy(), table), distinct=True)

    def _flagged(
        self, relation: SolutionRelation, solutions: SolutionRelation, given: dict[str, str], context: PatternContext
    ) -> tuple[SolutionRelation, str]:
        flag = f".exists{self.names.new('')}"
        place = self.names.column(flag)
        table, inner, found = self.names.new("t"), self.names.new("t"), self.names.new("t")
        keys = sorted(solutions.keys)
        distinct = nodes.select(
            [*(column(inner, key) for key in keys), alias(exp.true(), "found")],
            derived(solutions.query, inner),
            distinct=True,
        )
        scope = self.scope(relation, table, context)
        variables = {key: name for name, key in given.items()}
        on = []
        for key in keys:
            own = scope.value(variables[key]) if key in variables else column(table, key)
            assert own is not None
            on.append(nodes.SameOrNull(this=own, expression=column(found, key)))
        query = nodes.select(
            [nodes.star(table), alias(nodes.is_bound(column(found, "found")), place)],
            derived(relation.query.copy(), table),
            [nodes.join(derived(distinct, found), nodes.both(on), side="LEFT")],
        )
        return replace(relation, query=query, flags=relation.flags | {flag}, order=()), flag


_CHANGING_COLUMNS: dict[str, Callable[[], Node]] = {
    "UUID": lambda: nodes.concat(nodes.text("<urn:uuid:"), nodes.FreshId(), nodes.text(">")),
    "STRUUID": lambda: nodes.concat(nodes.text('"'), nodes.FreshId(), nodes.text('"')),
    "BNODE": lambda: nodes.concat(nodes.text("_:q"), nodes.FreshId()),
    "RAND": lambda: nodes.concat(nodes.text('"'), nodes.cast(nodes.FreshNumber(), "VARCHAR"), nodes.text('"')),
}


def _collect_flags(expression: algebra.Expr, found: dict[algebra.Expr, None]) -> None:
    """The parts of an expression that need other relations, inner ones first."""
    for operand in operands(expression):
        _collect_flags(operand, found)
    if isinstance(expression, algebra.Exists) or (
        isinstance(expression, algebra.Call) and expression.name in RELATIONS
    ):
        found[expression] = None


def _labels_blank_nodes(expression: algebra.Expr) -> bool:
    """Whether BNODE with an argument occurs: its nodes belong to a solution, not to a single BIND."""
    if isinstance(expression, algebra.Call) and expression.name == "BNODE" and expression.arguments:
        return True
    return any(map(_labels_blank_nodes, operands(expression)))


def _with_row(expression: algebra.Expr, row: str) -> algebra.Expr:
    """The expression with the solution's own number as a second argument of BNODE."""
    if isinstance(expression, algebra.Call) and expression.name == "BNODE" and expression.arguments:
        return algebra.Call("BNODE", (expression.arguments[0], algebra.Variable(row)))
    return mapped(expression, lambda operand: _with_row(operand, row))


# As in `motet.model.intervals`: each pair of ends, with the sign between them.
_CONDITIONS: dict[Relation, tuple[tuple[str, str, str], ...]] = {
    Relation.BEFORE: (("a end", "<", "b start"),),
    Relation.MEETS: (("a end", "=", "b start"), ("a start", "<", "b start"), ("a end", "<", "b end")),
    Relation.OVERLAPS: (("a start", "<", "b start"), ("b start", "<", "a end"), ("a end", "<", "b end")),
    Relation.STARTS: (("a start", "=", "b start"), ("a end", "<", "b end")),
    Relation.DURING: (("b start", "<", "a start"), ("a end", "<", "b end")),
    Relation.FINISHES: (("b start", "<", "a start"), ("a end", "=", "b end")),
    Relation.EQUALS: (("a start", "=", "b start"), ("a end", "=", "b end")),
}


def time_relation(relation: Relation, first: str, second: str) -> Node:
    """Whether a relation holds; NULL if one of the two tables has no interval."""
    if relation not in _CONDITIONS:
        relation, first, second = relation.inverse, second, first
    tables = {"a": first, "b": second}

    def end(place: str) -> Node:
        table, name = place.split()
        return column(tables[table], f"{name}_")

    conditions = [
        (exp.LT if sign == "<" else exp.EQ)(this=end(left), expression=end(right))
        for left, sign, right in _CONDITIONS[relation]
    ]
    known = nodes.both(nodes.is_bound(column(table, "start_")) for table in (first, second))
    return nodes.case((known, nodes.both(conditions)), default=nodes.cast(exp.Null(), "BOOLEAN"))
