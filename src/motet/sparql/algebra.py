"""The SPARQL algebra of patterns and whole queries: an immutable tree, equal patterns are equal trees.

`parse` produces it from text; the engine evaluates it, and other back ends compile it. It does not know how anything
is evaluated. Leaf bodies use the patterns up to `Values`, whole queries all of them. Terms are canonical N-Triples
strings (`motet.model.terms`). A variable is its name, ``x``; only in a triple, where terms stand beside it, it is
written ``?x``. Blank nodes of a pattern, and the inner nodes of a sequence path, are *hidden* variables: their names
begin with a dot, which no SPARQL variable does.

A group is split into its elements and built from them. An element is written as algebra whose left operand is EMPTY:
``OPTIONAL { p }`` is ``LeftJoin(EMPTY, p)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


def variable_name(term: str) -> str | None:
    """The variable that stands in a place of a triple; None for a term.

    >>> variable_name("?room"), variable_name("<urn:room>")
    ('room', None)
    """
    return term[1:] if term.startswith("?") else None


def is_hidden(variable: str) -> bool:
    """
    >>> is_hidden(".0"), is_hidden("x")
    (True, False)
    """
    return variable.startswith(".")


# Property paths. ``iri`` is a term, ``<…>``.


@dataclass(frozen=True, slots=True)
class Link:
    iri: str


@dataclass(frozen=True, slots=True)
class Inverse:
    path: Path


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    parts: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class ZeroOrMore:
    path: Path


@dataclass(frozen=True, slots=True)
class OneOrMore:
    path: Path


@dataclass(frozen=True, slots=True)
class ZeroOrOne:
    path: Path


@dataclass(frozen=True, slots=True)
class NegatedSet:
    """``!(a|^b)``: any forward link not in ``forward``, any backward link not in ``backward``; None: not that way."""

    forward: tuple[str, ...] | None
    backward: tuple[str, ...] | None


Path = Link | Inverse | Sequence | Alternative | ZeroOrMore | OneOrMore | ZeroOrOne | NegatedSet


# Expressions.


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    term: str


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expr


@dataclass(frozen=True, slots=True)
class Compare:
    """``operator`` is one of ``= != < <= > >=``."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``operator`` is one of ``+ - * /``."""

    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Sign:
    """``operator`` is ``+`` or ``-``."""

    operator: str
    operand: Expr


@dataclass(frozen=True, slots=True)
class In:
    operand: Expr
    choices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class If:
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class Coalesce:
    parts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function by its upper-case SPARQL name, or a cast by the IRI of its datatype."""

    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """``EXISTS { … }``; NOT EXISTS is ``Not(Exists(…))``."""

    pattern: Algebra


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``name`` is COUNT, SUM, MIN, MAX, AVG, SAMPLE or GROUP_CONCAT; no argument: ``COUNT(*)``. It stands in a
    `Group` only, whose hidden variable for it stands in the expressions.
    """

    name: str
    argument: Expr | None
    distinct: bool = False
    separator: str = " "


Expr = Variable | Constant | And | Or | Not | Compare | Arithmetic | Sign | In | If | Coalesce | Bound | Call | Exists


# Patterns.


@dataclass(frozen=True, slots=True)
class Triple:
    subject: str
    predicate: str | Path
    object: str

    def variables(self) -> frozenset[str]:
        """The names of its variables, hidden ones included."""
        places = (self.subject, self.object, self.predicate if isinstance(self.predicate, str) else "")
        return frozenset(name for place in places if (name := variable_name(place)))


@dataclass(frozen=True, slots=True)
class Bgp:
    """Triples to be matched together; without any it has the one empty solution."""

    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Join:
    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class LeftJoin:
    """OPTIONAL. The condition sees both sides."""

    left: Algebra
    right: Algebra
    condition: Expr | None = None


@dataclass(frozen=True, slots=True)
class Union:
    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Minus:
    left: Algebra
    right: Algebra


@dataclass(frozen=True, slots=True)
class Filter:
    operand: Algebra
    condition: Expr


@dataclass(frozen=True, slots=True)
class Extend:
    """BIND. An error leaves the variable unbound."""

    operand: Algebra
    variable: str
    expression: Expr


@dataclass(frozen=True, slots=True)
class Values:
    """A row has one entry per variable; None is UNDEF."""

    variables: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


# Patterns of whole queries.


@dataclass(frozen=True, slots=True)
class NamedGraph:
    """``GRAPH name { … }``; the name is an IRI or, as in a triple, a variable."""

    name: str
    pattern: Algebra


@dataclass(frozen=True, slots=True)
class Group:
    """One solution for each combination of the keys; without keys one solution for everything.

    ``aggregates`` pairs hidden variables with what they are bound to.
    """

    operand: Algebra
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]


@dataclass(frozen=True, slots=True)
class OrderCondition:
    expression: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class OrderBy:
    operand: Algebra
    conditions: tuple[OrderCondition, ...]


@dataclass(frozen=True, slots=True)
class Project:
    operand: Algebra
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    operand: Algebra


@dataclass(frozen=True, slots=True)
class Reduced:
    """Duplicates may be dropped or kept."""

    operand: Algebra


@dataclass(frozen=True, slots=True)
class Slice:
    operand: Algebra
    offset: int = 0
    limit: int | None = None


Algebra = (
    Bgp | Join | LeftJoin | Union | Minus | Filter | Extend | Values
    | NamedGraph | Group | OrderBy | Project | Distinct | Reduced | Slice
)  # fmt: skip

EMPTY = Bgp(())


# Queries.


@dataclass(frozen=True, slots=True)
class DatasetClause:
    """The IRIs after FROM and FROM NAMED, as terms."""

    default: tuple[str, ...]
    named: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SelectQuery:
    pattern: Algebra
    variables: tuple[str, ...]
    dataset: DatasetClause | None = None


@dataclass(frozen=True, slots=True)
class AskQuery:
    pattern: Algebra
    dataset: DatasetClause | None = None


@dataclass(frozen=True, slots=True)
class ConstructQuery:
    """A hidden variable of the template is a blank node of its own for each solution."""

    pattern: Algebra
    template: tuple[Triple, ...]
    dataset: DatasetClause | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuery:
    """``targets`` are IRIs and variables, written as in a triple."""

    pattern: Algebra
    targets: tuple[str, ...]
    dataset: DatasetClause | None = None


Query = SelectQuery | AskQuery | ConstructQuery | DescribeQuery


# The elements of a group


def elements(pattern: Algebra) -> list[Algebra]:
    """The elements of a group in order."""
    elements: list[Algebra] = []
    while True:
        match pattern:
            case Join(left, right):
                elements.append(Join(EMPTY, right))
            case LeftJoin(left, right, condition):
                elements.append(LeftJoin(EMPTY, right, condition))
            case Minus(left, right):
                elements.append(Minus(EMPTY, right))
            case Extend(left, variable, expression):
                elements.append(Extend(EMPTY, variable, expression))
            case _:
                return [*([] if pattern == EMPTY else [Join(EMPTY, pattern)]), *reversed(elements)]
        pattern = left


def join(left: Algebra, right: Algebra) -> Algebra:
    """Two adjacent basic patterns are one; the empty pattern is neutral, except before a group with a scope of its own.

    >>> from motet.sparql.algebra import Variable
    >>> nested = Filter(EMPTY, Variable("x"))
    >>> join(EMPTY, nested) == Join(EMPTY, nested)
    True
    """
    if isinstance(left, Bgp) and isinstance(right, Bgp):
        return Bgp(left.triples + right.triples)
    if right == EMPTY:
        return left
    if left == EMPTY and not _has_scope(right):
        return right
    return Join(left, right)


def _has_scope(group: Algebra) -> bool:
    """Whether bindings from before the group must not be visible in it: it has FILTER, BIND, OPTIONAL or MINUS."""
    while isinstance(group, Join):
        group = group.left
    return isinstance(group, Filter | Extend | LeftJoin | Minus)


def grouped(elements: Iterable[Algebra]) -> Algebra:
    """The group of some elements."""
    group: Algebra = EMPTY
    for element in elements:
        match element:
            case Join(_, right):
                group = join(group, right)
            case LeftJoin(_, right, condition):
                group = LeftJoin(group, right, condition)
            case Minus(_, right):
                group = Minus(group, right)
            case Extend(_, variable, expression):
                group = Extend(group, variable, expression)
    return group


def required(elements: list[Algebra]) -> tuple[list[Triple], Algebra]:
    """The triples every solution needs, and the rest. Only what is joined before anything else may be moved."""
    triples: list[Triple] = []
    rest: list[Algebra] = []
    for index, element in enumerate(elements):
        if not isinstance(element, Join):
            rest += elements[index:]
            break
        if not isinstance(element.right, Bgp):
            rest.append(element)
            continue
        simple = [triple for triple in element.right.triples if isinstance(triple.predicate, str)]
        paths = tuple(triple for triple in element.right.triples if not isinstance(triple.predicate, str))
        triples += simple
        rest += [Join(EMPTY, Bgp(paths))] if paths else []
    return triples, grouped(rest)


def peeled(pattern: Algebra) -> tuple[tuple[Expr, ...], Algebra]:
    """The conjuncts of a group's FILTERs, and the group without them."""
    if not isinstance(pattern, Filter):
        return (), pattern
    return tuple(_conjuncts(pattern.condition)), pattern.operand


def preceded(pattern: Algebra, element: Algebra) -> Algebra:
    """The group with an element before its first one.

    >>> from motet.sparql.algebra import Variable
    >>> preceded(Filter(EMPTY, Variable("x")), Join(EMPTY, Bgp((Triple("?e", "<urn:p>", "?x"),))))
    Filter(operand=Bgp(triples=(Triple(subject='?e', predicate='<urn:p>', object='?x'),)), condition=Variable(name='x'))
    """
    conditions, group = peeled(pattern)
    return filtered(grouped([element, *elements(group)]), conditions)


def _conjuncts(condition: Expr) -> list[Expr]:
    if isinstance(condition, And):
        return [conjunct for part in condition.parts for conjunct in _conjuncts(part)]
    return [condition]


def filtered(pattern: Algebra, conditions: tuple[Expr, ...]) -> Algebra:
    if not conditions:
        return pattern
    return Filter(pattern, conditions[0] if len(conditions) == 1 else And(conditions))
