"""Renaming variables and replacing terms in SPARQL algebra trees, and listing variables in order of occurrence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from motet.language.algebra import (
    Algebra,
    Bound,
    Constant,
    Expr,
    Extend,
    Link,
    NegatedSet,
    Triple,
    Values,
    Variable,
    variable_name,
)

Tree = TypeVar("Tree", bound=Algebra | Expr | Triple)
Change = Callable[[str], str]


def renamed(tree: Tree, variable: Change, term: Change = str) -> Tree:
    """The tree with every variable's name (hidden ones too) and every term put through a function.

    >>> renamed(Triple("?x", "<urn:p>", "?y"), str.upper)
    Triple(subject='?X', predicate='<urn:p>', object='?Y')
    """
    return _Renaming(variable, term).of(tree)


def variables_in_order(*trees: Algebra | Expr | Triple) -> list[str]:
    """The names of the variables, hidden ones included, each once, as they occur.

    >>> variables_in_order(Triple("?y", "?p", "<urn:o>"), Variable("x"), Variable("y"))
    ['y', 'p', 'x']
    """
    seen: dict[str, None] = {}

    def remember(name: str) -> str:
        seen[name] = None
        return name

    for tree in trees:
        renamed(tree, remember)
    return list(seen)


class _Renaming:
    """One walk; every kind of node that holds a name or a term has its case, all others only hold nodes."""

    def __init__(self, variable: Change, term: Change) -> None:
        self.variable = variable
        self.term = term

    def of(self, tree: Any) -> Any:  # noqa: PLR0911  (one return for each kind)
        match tree:
            case Triple(subject, predicate, obj):
                return Triple(self.place(subject), self.place(predicate), self.place(obj))
            case Variable(name) | Bound(name):
                return type(tree)(self.variable(name))
            case Constant(term):
                return Constant(self.term(term))
            case Link(iri):
                return Link(self.term(iri))
            case NegatedSet(forward, backward):
                return NegatedSet(self._terms(forward), self._terms(backward))
            case Extend(operand, name, expression):
                return Extend(self.of(operand), self.variable(name), self.of(expression))
            case Values(names, rows):
                return Values(tuple(map(self.variable, names)), tuple(map(self._cells, rows)))
            case tuple():
                return tuple(map(self.of, tree))
            case str() | None:  # the name of an operator or function
                return tree
        return type(tree)(*(self.of(getattr(tree, name)) for name in tree.__match_args__))

    def place(self, place: Any) -> Any:
        if not isinstance(place, str):
            return self.of(place)
        name = variable_name(place)
        return self.term(place) if name is None else f"?{self.variable(name)}"

    def _terms(self, terms: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if terms is None else tuple(map(self.term, terms))

    def _cells(self, row: tuple[str | None, ...]) -> tuple[str | None, ...]:
        return tuple(None if cell is None else self.term(cell) for cell in row)
