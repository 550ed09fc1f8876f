"""Compiles a whole query to one SQL query, whose columns are the variables of the answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from motet.sparql import algebra
from motet.sparql.sql import nodes
from motet.sparql.sql.dialects import DialectName, write_sql
from motet.sparql.sql.nodes import alias, column, derived
from motet.sparql.sql.paths import Closure
from motet.sparql.sql.patterns import PatternCompiler
from motet.sparql.sql.relation import PatternContext, SolutionRelation
from motet.sparql.sql.scan import SqlDataset


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """``variables`` names the variable of each column of the tree; ASK has none and at most one row."""

    tree: exp.Query
    variables: tuple[str, ...]
    _texts: dict[tuple[str, bool], str] = field(default_factory=dict, compare=False, repr=False)

    def sql(self, dialect: DialectName, *, pretty: bool = False) -> str:
        """The text, which is written once."""
        if (dialect, pretty) not in self._texts:
            self._texts[dialect, pretty] = write_sql(self.tree, dialect, pretty=pretty)
        return self._texts[dialect, pretty]

    def with_names(self) -> CompiledQuery:
        """The same query with columns that have the names of the variables; it must not be sorted."""
        tree = self.tree.copy()
        named = [
            exp.Alias(this=item.unalias(), alias=exp.Identifier(this=name, quoted=True))
            for item, name in zip(tree.expressions, self.variables, strict=True)
        ]
        tree.set("expressions", named)
        return CompiledQuery(tree, self.variables)


def compile_query(
    query: algebra.Query, dataset: SqlDataset, closure: Closure, *, now: str, joins_call_python: bool = True
) -> CompiledQuery:
    """The SQL of a query's solutions: of SELECT its rows, of CONSTRUCT and DESCRIBE those their triples come from."""
    chosen = dataset.selected(query.dataset)
    compiler = PatternCompiler(
        chosen, closure, now, compared_variables(query.pattern), joins_call_python=joins_call_python
    )
    if isinstance(query, algebra.AskQuery):
        relation = compiler.sliced(compiler.compile(query.pattern, PatternContext(is_set=False)), 0, 1)
    else:
        relation = compiler.compile(query.pattern, PatternContext())
    return _finished(compiler, relation, _answered(query))


def _answered(query: algebra.Query) -> tuple[str, ...]:
    """The variables an answer needs."""
    match query:
        case algebra.SelectQuery(variables=variables):
            return variables
        case algebra.AskQuery():
            return ()
        case algebra.ConstructQuery(template=template):
            names = [triple.variables() for triple in template]
            return tuple(sorted(name for name in frozenset().union(*names) if not algebra.is_hidden(name)))
        case algebra.DescribeQuery(targets=targets):
            return tuple(
                dict.fromkeys(name for target in targets if (name := algebra.variable_name(target)) is not None)
            )


def _finished(compiler: PatternCompiler, relation: SolutionRelation, variables: tuple[str, ...]) -> CompiledQuery:
    table = compiler.names.new("t")
    places = [
        column(table, compiler.names.column(name))
        if name in relation.variables
        else alias(nodes.null(), compiler.names.column(name))
        for name in variables
    ]
    tree = nodes.select(places, derived(relation.query, table))
    if relation.order:
        tree.set("order", exp.Order(expressions=compiler.sorting(relation, table)))
    if compiler.shared:
        tree.set("with_", exp.With(expressions=compiler.shared, recursive=_is_recursive(compiler)))
    return CompiledQuery(tree, variables)


def _is_recursive(compiler: PatternCompiler) -> bool:
    return any(isinstance(shared.this, exp.Union) and shared.this.args.get("distinct") for shared in compiler.shared)


def compared_variables(tree: object) -> frozenset[str]:  # noqa: PLR0911  (one return for each kind)
    """The variables that are compared, sorted, added up or searched somewhere: their values are read beside their
    terms.
    """
    match tree:
        case algebra.Compare(_, left, right):
            sides = (left, right)
            own = frozenset(side.name for side in sides if isinstance(side, algebra.Variable))
            return own.union(*map(compared_variables, sides))
        case algebra.In(operand, choices):
            own = frozenset({operand.name}) if isinstance(operand, algebra.Variable) else frozenset()
            return own.union(*map(compared_variables, choices))
        case algebra.Call("CONTAINS" | "STRSTARTS" | "STRENDS" | "REGEX" | "STR", (algebra.Variable(name), *others)):
            return frozenset({name}).union(*map(compared_variables, others))
        case algebra.OrderCondition(algebra.Variable(name), _):
            return frozenset({name})
        case algebra.Aggregate("SUM" | "AVG" | "MIN" | "MAX", algebra.Variable(name)):
            return frozenset({name})
        case tuple():
            return frozenset().union(*map(compared_variables, tree))
        case str() | int() | None:
            return frozenset()
    return frozenset().union(*(compared_variables(getattr(tree, name)) for name in getattr(tree, "__match_args__", ())))
