"""Splits a SPARQL group into its elements and builds a group from elements.

An element is written as algebra whose left operand is EMPTY: ``OPTIONAL { p }`` is ``LeftJoin(EMPTY, p)``.
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.sparql.algebra import EMPTY, Algebra, And, Bgp, Expr, Extend, Filter, Join, LeftJoin, Minus, Triple


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
