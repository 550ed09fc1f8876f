"""Values that a program gives for variables of a query: they are constants in it, as SPARQL does for EXISTS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from motet.model.errors import MotetError, UsageError
from motet.model.terms import XSD, literal
from motet.model.values import IRI, Literal
from motet.query.results import read_term
from motet.sparql import algebra
from motet.sparql.scope import variables_in_order

GivenTerms = Mapping[str, str]
TRUE = algebra.Constant('"true"^^<http://www.w3.org/2001/XMLSchema#boolean>')


def substituted(query: algebra.Query, bindings: GivenTerms) -> algebra.Query:
    """The query with terms instead of some variables; a projected one is bound to its term in every solution.

    In a subquery only variables that it projects are replaced.

    >>> from motet.sparql.parse import read_query
    >>> substituted(read_query("ASK { ?e <urn:in> ?room }"), {"room": "<urn:r>"}).pattern
    Bgp(triples=(Triple(subject='?e', predicate='<urn:in>', object='<urn:r>'),))
    """
    if not bindings:
        return query
    names = set(variables_in_order(query.pattern))
    unknown = sorted(bindings.keys() - names)
    if unknown:
        known = ", ".join(f"?{name}" for name in sorted(names) if not algebra.is_hidden(name)) or "none"
        raise UsageError(f"the query has no variable ?{unknown[0]}", advice=f"Its variables are: {known}.")
    walk = _Substitution(bindings, is_outermost=True)
    changed: algebra.Query = replace(query, pattern=walk.of(query.pattern))
    if isinstance(changed, algebra.ConstructQuery):
        return replace(changed, template=walk.of(changed.template))
    if isinstance(changed, algebra.DescribeQuery):
        return replace(changed, targets=tuple(map(walk.place, changed.targets)))
    return changed


class _Substitution:
    def __init__(self, bindings: GivenTerms, *, is_outermost: bool = False) -> None:
        self._bindings = bindings
        self._is_outermost = is_outermost

    def of(self, tree: Any) -> Any:  # noqa: PLR0911  (one return for each kind)
        match tree:
            case algebra.Triple(subject, predicate, obj):
                changed = predicate if not isinstance(predicate, str) else self.place(predicate)
                return algebra.Triple(self.place(subject), changed, self.place(obj))
            case algebra.Variable(name):
                return algebra.Constant(self._bindings[name]) if name in self._bindings else tree
            case algebra.Bound(name):
                return TRUE if name in self._bindings else tree
            case algebra.Extend(operand, name, expression):
                self._refuse_assigned(name)
                return algebra.Extend(self.of(operand), name, self.of(expression))
            case algebra.Values(names, _):
                for name in names:
                    self._refuse_assigned(name)
                return tree
            case algebra.NamedGraph(name, pattern):
                return algebra.NamedGraph(self.place(name), self.of(pattern))
            case algebra.Project(operand, names):
                return algebra.Project(self._projected(operand, names), names)
            case algebra.Group(operand, keys, aggregates):
                pairs = tuple((name, self.of(aggregate)) for name, aggregate in aggregates)
                return algebra.Group(self._bound(self.of(operand), keys), keys, pairs)
            case tuple():
                return tuple(map(self.of, tree))
            case str() | int() | None:
                return tree
        return type(tree)(*(self.of(getattr(tree, name)) for name in tree.__match_args__))

    def place(self, term: str) -> str:
        """A place of a triple."""
        name = algebra.variable_name(term)
        return term if name is None else self._bindings.get(name, term)

    def _projected(self, operand: algebra.Algebra, names: tuple[str, ...]) -> algebra.Algebra:
        visible = self._bindings
        if not self._is_outermost:
            visible = {name: term for name, term in visible.items() if name in names}
        self._is_outermost = False
        inner = _Substitution(visible)
        changed: algebra.Algebra = inner.of(operand)
        group = _modified(changed)
        bound_below = group.keys if isinstance(group, algebra.Group) else ()
        return inner._bound(changed, tuple(name for name in names if name not in bound_below))

    def _bound(self, pattern: algebra.Algebra, names: tuple[str, ...]) -> algebra.Algebra:
        for name in names:
            if name in self._bindings:
                pattern = algebra.Extend(pattern, name, algebra.Constant(self._bindings[name]))
        return pattern

    def _refuse_assigned(self, name: str) -> None:
        if name in self._bindings:
            raise UsageError(
                f"?{name} is assigned in the query, by BIND, AS or VALUES, and cannot be given",
                advice="Leave it out of the bindings, or rename it in the query.",
            )


def _modified(pattern: algebra.Algebra) -> algebra.Algebra:
    """What the modifiers and expressions of a query are applied to."""
    while isinstance(pattern, algebra.OrderBy | algebra.Extend | algebra.Filter):
        pattern = pattern.operand
    return pattern


def to_terms(bindings: Mapping[str, object]) -> dict[str, str]:
    """Values for variables as terms: RDF terms as text, and Python numbers, truth values, dates and datetimes.

    >>> to_terms({"?room": "<urn:r:1>", "label": '"hall"@en'})
    {'room': '<urn:r:1>', 'label': '"hall"@en'}
    """
    return {name.removeprefix("?"): _term(name, value) for name, value in bindings.items()}


def _term(name: str, value: object) -> str:
    if isinstance(value, IRI | Literal):
        return value.n3
    term = _read(value) if isinstance(value, str) else _written(value)
    if term is None:
        raise UsageError(
            f"the value {value!r} of ?{name.removeprefix('?')} is no RDF term",
            advice="Give an IRI as '<urn:room:1>' or IRI('urn:room:1'), text as '\"hall\"', a number or a datetime.",
        )
    return term


def _read(text: str) -> str | None:
    try:
        return read_term(text)
    except MotetError:
        return None


def _written(value: object) -> str | None:  # noqa: PLR0911  (one return for each kind of value)
    match value:
        case bool():
            return literal(str(value).lower(), datatype=XSD + "boolean")
        case int():
            return literal(str(value), datatype=XSD + "integer")
        case float():
            return literal(repr(value).replace("inf", "INF").replace("nan", "NaN"), datatype=XSD + "double")
        case Decimal() if value.is_finite():
            return literal(f"{value:f}", datatype=XSD + "decimal")
        case datetime():
            return literal(value.isoformat().replace("+00:00", "Z"), datatype=XSD + "dateTime")
        case date():
            return literal(value.isoformat(), datatype=XSD + "date")
    return None
