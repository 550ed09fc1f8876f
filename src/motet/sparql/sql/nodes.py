"""Nodes of SQL trees: own functions, which each dialect writes in its way, and short names for sqlglot's nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import ClassVar

from sqlglot import exp

Node = exp.Expression


class Text(exp.Expression, exp.Condition):
    """A string constant; dialects differ in what a backslash means."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}
    is_primitive = True


class EvaluateTerm(exp.Expression, exp.Func):
    """The term of a SPARQL expression, computed in Python from the terms of its variables; NULL for an error."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}
    is_var_len_args = True


class EvaluateTruth(EvaluateTerm):
    """The effective boolean value of a SPARQL expression, computed in Python; NULL for an error."""


class OrderKey(exp.Expression, exp.Func):
    """A text that sorts terms as ORDER BY does, the unbound one included."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class AggregateTerms(exp.Expression, exp.AggFunc):
    """An aggregate computed in Python from all terms of a group. ``description`` says which one."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "description": True}


class ListOf(exp.Expression, exp.Func):
    """Values as one: a list."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}
    is_var_len_args = True


class SameOrNull(exp.Expression, exp.Condition):
    """Equality under which two NULLs are the same."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class InstantTerm(exp.Expression, exp.Func):
    """The xsd:dateTime of microseconds since 1970, with six digits of a second, in UTC."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class LexicalText(exp.Expression, exp.Func):
    """What stands between the quotes of a literal."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class RegexMatch(exp.Expression, exp.Func):
    """Whether a simple regular expression occurs in a text; ``ignore_case`` is a bool."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "ignore_case": False}


class TextTest(exp.Expression, exp.Func):
    """Whether a text contains, starts with or ends with another; ``name`` is CONTAINS, STRSTARTS or STRENDS."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "name": True}


class RegexReplace(exp.Expression, exp.Func):
    """A text with the first match of a pattern, or every match, replaced; ``everywhere`` is a bool."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "pattern": True, "expression": True, "everywhere": False}


class WholePart(exp.Expression, exp.Func):
    """A double without its fraction, as an integer of 64 bits."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Fraction(exp.Expression, exp.Func):
    """A double without its whole part."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class WholeSum(exp.Expression, exp.AggFunc):
    """The sum of integers of 64 bits, as a text; NULL if there are none."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class LeastBy(exp.Expression, exp.AggFunc):
    """The value whose key is the least, or the greatest; both are NULL where a row does not count."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "greatest": False}


class TermsOf(exp.Expression, exp.AggFunc):
    """The terms of a group that are not NULL, as a list."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Total(exp.Expression, exp.Func):
    """SUM or AVG from sums of each kind of number; the expressions are the arguments of `evaluation.sparql_total`."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}
    is_var_len_args = True


class Extreme(exp.Expression, exp.Func):
    """The first or last of some terms in the order of ORDER BY; NULLs are left out. ``name`` is MIN or MAX."""

    arg_types: ClassVar[dict[str, bool]] = {"name": True, "expressions": True}
    is_var_len_args = True


class FreshId(exp.Expression, exp.Func):
    """The text of a random UUID, another one for each row."""

    arg_types: ClassVar[dict[str, bool]] = {}


class FreshNumber(exp.Expression, exp.Func):
    """A random number from 0 up to 1, another one for each row."""

    arg_types: ClassVar[dict[str, bool]] = {}


def text(value: str) -> Node:
    return Text(this=value)


def integer(value: int) -> Node:
    return exp.Literal.number(value)


def column(table: str, name: str) -> Node:
    return exp.Column(this=exp.Identifier(this=name), table=exp.Identifier(this=table))


def null() -> Node:
    """An unbound variable."""
    return cast(exp.Null(), "VARCHAR")


def cast(node: Node, kind: str) -> Node:
    return exp.Cast(this=node, to=_data_type(kind).copy())


@cache
def _data_type(kind: str) -> exp.DataType:
    return exp.DataType.build(kind)


def alias(node: Node, name: str) -> Node:
    return exp.Alias(this=node, alias=exp.Identifier(this=name))


def both(conditions: Iterable[Node]) -> Node:
    """All of them; TRUE without any."""
    return _chain(exp.And, list(conditions)) or exp.true()


def either(conditions: Iterable[Node]) -> Node:
    """One of them; FALSE without any."""
    return _chain(exp.Or, list(conditions)) or exp.false()


def _chain(kind: type[exp.Connector], conditions: list[Node]) -> Node | None:
    """A balanced tree: a long condition must not become a deep one."""
    if len(conditions) <= 1:
        return exp.Paren(this=conditions[0]) if conditions else None
    middle = len(conditions) // 2
    return exp.Paren(this=kind(this=_chain(kind, conditions[:middle]), expression=_chain(kind, conditions[middle:])))


def equals(left: Node, right: Node) -> Node:
    return exp.EQ(this=left, expression=right)


def is_null(node: Node) -> Node:
    return exp.Paren(this=exp.Is(this=node, expression=exp.Null()))


def is_bound(node: Node) -> Node:
    return exp.Paren(this=exp.Not(this=is_null(node)))


def negation(node: Node) -> Node:
    return exp.Paren(this=exp.Not(this=exp.Paren(this=node)))


def one_of(node: Node, values: Sequence[Node]) -> Node:
    if len(values) == 1:
        return equals(node, values[0])
    return exp.In(this=node, expressions=list(values))


def coalesce(*nodes: Node) -> Node:
    return exp.Coalesce(this=nodes[0], expressions=list(nodes[1:])) if len(nodes) > 1 else nodes[0]


def case(*branches: tuple[Node, Node], default: Node | None = None) -> Node:
    return exp.Case(ifs=[exp.If(this=condition, true=value) for condition, value in branches], default=default)


def concat(*nodes: Node) -> Node:
    result = nodes[0]
    for node in nodes[1:]:
        result = exp.DPipe(this=result, expression=node, safe=True)
    return result


def translate(node: Node, characters: str, others: str) -> Node:
    """A text with some characters replaced by others."""
    return exp.Anonymous(this="translate", expressions=[node, text(characters), text(others)])


def table(name: str, alias_name: str | None = None) -> Node:
    named = exp.TableAlias(this=exp.Identifier(this=alias_name)) if alias_name else None
    return exp.Table(this=exp.Identifier(this=name), alias=named)


def star(table: str, without: Sequence[str] = ()) -> Node:
    """All columns of a table but some."""
    excluded = [exp.Identifier(this=name) for name in without]
    return exp.Column(this=exp.Star(except_=excluded or None), table=exp.Identifier(this=table))


def rows(name: str, column_name: str, values: Sequence[Node]) -> Node:
    """A table of one column with some values."""
    named = exp.TableAlias(this=exp.Identifier(this=name), columns=[exp.Identifier(this=column_name)])
    return exp.Values(expressions=[exp.Tuple(expressions=[value]) for value in values], alias=named)


def derived(query: exp.Query, name: str) -> Node:
    """A query as a table."""
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.Identifier(this=name)))


def join(relation: Node, on: Node | None = None, *, side: str | None = None) -> exp.Join:
    """A join clause; without a condition every pair."""
    if on is None and side is None:
        return exp.Join(this=relation, kind="CROSS")
    return exp.Join(this=relation, on=on if on is not None else exp.true(), side=side)


def depth(relation: exp.Expr | None) -> int:
    """How many queries are inside each other."""
    deepest, pending = 0, [relation]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.Subquery):
            pending.append(part.this)
        elif isinstance(part, exp.Union):
            pending += [part.left, part.right]
        elif isinstance(part, exp.Select):
            deepest = max(deepest, part.meta.get("depth", 0))
    return deepest


def select(
    items: Sequence[Node],
    source: Node | None = None,
    joins: Sequence[exp.Join] = (),
    where: Node | None = None,
    group: Sequence[Node] = (),
    distinct: bool = False,
) -> exp.Select:
    query = exp.Select(expressions=list(items) or [alias(integer(1), "unit")])
    query.meta["depth"] = 1 + max(map(depth, (source, *(join.this for join in joins))), default=0)
    if distinct:
        query.set("distinct", exp.Distinct())
    if source is not None:
        query.set("from_", exp.From(this=source))
    if joins:
        query.set("joins", list(joins))
    if where is not None:
        query.set("where", exp.Where(this=where))
    if group:
        query.set("group", exp.Group(expressions=list(group)))
    return query


def union_all(queries: Sequence[exp.Query]) -> exp.Query:
    result = queries[0]
    for query in queries[1:]:
        result = exp.Union(this=result, expression=query, distinct=False)
    return result
