"""Which terms a variable can be bound to: IRIs, or literals of certain datatypes.

A body states it by the place of a variable in a triple, by BIND and by VALUES; an ontology by the kinds and ranges of
properties. A statement becomes a condition, a *type test*, that is true of an unbound variable and of terms of these
types; `conditions` evaluates it beside the conditions of FILTERs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from motet.language.syntax import Event
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, iri, iri_value, is_iri, literal_parts
from motet.ontology import owl_names as v
from motet.ontology.drawing import short_name
from motet.ontology.load import Ontology
from motet.sparql import algebra
from motet.sparql.algebra import elements, peeled, required
from motet.sparql.operators import CASTS
from motet.sparql.values import decode

#: Elements: `IRI`, `LITERAL`, `ZONED`, or the IRI of a datatype.
TermTypes = frozenset[str]

IRI = "an IRI"
LITERAL = "a literal"  # of any datatype
ZONED = "a time with a zone"  # a well-formed xsd:dateTime; other literals of that datatype are XSD + "dateTime"

_TYPE_TEST = "motet:type"  # names of functions, not of SPARQL
_RANGE_TEST = "motet:range"  # a type test that the ontology states

_DATE_TIME = frozenset({XSD + "dateTime", ZONED})
_NUMBERS = frozenset(
    XSD + name
    for name in (
        "decimal", "integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger",
        "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte",
    )
)  # fmt: skip
_STRINGS = frozenset(XSD + name for name in ("string", "normalizedString", "token", "language", "Name", "NCName"))
_TEXT = frozenset({XSD + "string", RDF + "langString"})
_COMPUTED_NUMBERS = frozenset(XSD + name for name in ("integer", "decimal", "float", "double"))
_RESULTS: dict[str, TermTypes] = {
    **dict.fromkeys(("STR", "LANG", "ENCODE_FOR_URI", "TZ", "STRUUID"), frozenset({XSD + "string"})),
    **dict.fromkeys(("MD5", "SHA1", "SHA256", "SHA384", "SHA512"), frozenset({XSD + "string"})),
    **dict.fromkeys(("UCASE", "LCASE", "SUBSTR", "STRBEFORE", "STRAFTER", "REPLACE", "CONCAT"), _TEXT),
    **dict.fromkeys(("IRI", "URI", "DATATYPE", "UUID"), frozenset({IRI})),
    **dict.fromkeys(("STRLEN", "YEAR", "MONTH", "DAY", "HOURS", "MINUTES"), frozenset({XSD + "integer"})),
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "ROUND"), _COMPUTED_NUMBERS),
    **dict.fromkeys(("REGEX", "CONTAINS", "STRSTARTS", "STRENDS", "LANGMATCHES"), frozenset({XSD + "boolean"})),
    **dict.fromkeys(("SAMETERM", "ISIRI", "ISLITERAL", "ISNUMERIC", "ISBLANK"), frozenset({XSD + "boolean"})),
    **{datatype: frozenset({datatype}) for datatype in CASTS},
    XSD + "dateTime": _DATE_TIME,
}


class TypeStatement(NamedTuple):
    """The types of a variable, if it has a value, and why."""

    variable: str
    types: TermTypes
    reason: str
    by_ontology: bool = False

    def test(self) -> algebra.Expr:
        """The statement as a condition."""
        name = _RANGE_TEST if self.by_ontology else _TYPE_TEST
        return algebra.Call(name, (algebra.Variable(self.variable), *map(algebra.Constant, sorted(self.types))))


class TypeTest(NamedTuple):
    """A condition on the type of a variable's value."""

    variable: str
    types: TermTypes
    by_ontology: bool = False


def type_test(condition: algebra.Expr) -> TypeTest | None:
    """The type test that a condition is: one made by `TypeStatement`, or ``DATATYPE(?x) = xsd:integer``.

    >>> type_test(TypeStatement("x", frozenset({IRI}), "").test())
    TypeTest(variable='x', types=frozenset({'an IRI'}), by_ontology=False)
    """
    match condition:
        case algebra.Call(name, (algebra.Variable(variable), *types)) if name in (_TYPE_TEST, _RANGE_TEST):
            terms = frozenset(each.term for each in types if isinstance(each, algebra.Constant))
            return TypeTest(variable, terms, name == _RANGE_TEST)
        case algebra.Compare(
            "=", algebra.Call("DATATYPE", (algebra.Variable(variable),)), algebra.Constant(term)
        ) | algebra.Compare("=", algebra.Constant(term), algebra.Call("DATATYPE", (algebra.Variable(variable),))) if (
            is_iri(term)
        ):
            return TypeTest(variable, datatype_types(iri_value(term)))
    return None


def common_types(first: TermTypes, second: TermTypes) -> TermTypes:
    """The types of terms that are in both.

    >>> common_types(frozenset({IRI, XSD + "string"}), frozenset({LITERAL})) == {XSD + "string"}
    True
    """
    common = set(first & second)
    for one, other in ((first, second), (second, first)):
        common |= {each for each in one if each != IRI and LITERAL in other}
    return frozenset(common)


def datatype_types(datatype: str) -> TermTypes:
    """The types of the literals with a datatype."""
    return _DATE_TIME if datatype == XSD + "dateTime" else frozenset({datatype})


def term_types(term: str) -> TermTypes:
    """The types of one term.

    >>> term_types('"2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>') == {ZONED}
    True
    """
    if is_iri(term):
        return frozenset({IRI})
    _, datatype, language = literal_parts(term)
    if language is not None:
        return frozenset({RDF + "langString"})
    value = decode(term)
    return frozenset({ZONED if value.kind == "dateTime" and value.value.zone is not None else datatype})


@lru_cache(maxsize=4096)
def required_triples(event: Event) -> tuple[algebra.Triple, ...]:
    """The triples every match requires, the triple of the class first."""
    typed = (algebra.Triple(f"?{event.name}", RDF_TYPE, iri(event.class_iri)),) if event.class_iri else ()
    if event.body is None:
        return typed
    triples, rest = required(elements(peeled(event.body.algebra)[1]))
    paths = [element.right for element in elements(rest) if isinstance(element, algebra.Join)]
    return (*typed, *triples, *(triple for path in paths if isinstance(path, algebra.Bgp) for triple in path.triples))


def path_properties(predicate: str | algebra.Path) -> Iterator[str]:
    """The properties in a predicate or path."""
    match predicate:
        case str():
            yield from [predicate] if is_iri(predicate) and predicate != RDF_TYPE else []
        case algebra.Link(name):
            yield from path_properties(name)
        case algebra.Inverse(path) | algebra.ZeroOrMore(path) | algebra.OneOrMore(path) | algebra.ZeroOrOne(path):
            yield from path_properties(path)
        case algebra.Sequence(parts) | algebra.Alternative(parts):
            for part in parts:
                yield from path_properties(part)


def body_types(event: Event) -> tuple[TypeStatement, ...]:
    """What an EVENT states about its variables.

    >>> [statement.variable for statement in body_types(Event("e", times=("from", "to")))]
    ['e', 'from', 'to']
    """
    found = [TypeStatement(event.name, frozenset({IRI}), f"?{event.name} is the IRI of an event")]
    found += [
        TypeStatement(name, frozenset({ZONED}), f"?{name} is a time of '{event.name}', with a zone")
        for name in event.times or ()
    ]
    for triple in required_triples(event):
        if isinstance(triple.predicate, str):
            subject, predicate = algebra.variable_name(triple.subject), algebra.variable_name(triple.predicate)
            found += [
                TypeStatement(name, frozenset({IRI}), f"?{name} is an IRI, as every {place} of a triple")
                for name, place in ((subject, "subject"), (predicate, "predicate"))
                if name is not None
            ]
    if event.body is not None:
        for element in elements(peeled(event.body.algebra)[1]):
            found += _element_types(element)
    return _distinct(found)


def _distinct(statements: Iterable[TypeStatement]) -> tuple[TypeStatement, ...]:
    """One reason for each variable and type."""
    return tuple({(each.variable, each.types): each for each in reversed(tuple(statements))}.values())[::-1]


def _element_types(element: algebra.Algebra) -> Iterator[TypeStatement]:
    match element:
        case algebra.Join(_, algebra.Values((name,), rows)):
            terms = [row[0] for row in rows if row[0] is not None]
            if len(terms) == len(rows) and terms:
                types = frozenset().union(*map(term_types, terms))
                yield TypeStatement(name, types, f"?{name} is one of VALUES, {types_text(types)}")
        case algebra.Extend(_, name, expression):
            result = _result_types(expression)
            if result is not None:
                yield TypeStatement(name, result, f"?{name} is {types_text(result)}, by its BIND")


_BOOLEAN = (algebra.And, algebra.Or, algebra.Not, algebra.Compare, algebra.In, algebra.Bound, algebra.Exists)


def _result_types(expression: algebra.Expr) -> TermTypes | None:
    """The types of an expression's values; None if they are not known."""
    if isinstance(expression, _BOOLEAN):
        return frozenset({XSD + "boolean"})
    match expression:
        case algebra.Constant(term):
            return term_types(term)
        case algebra.Call(name, _):
            return _RESULTS.get(name)
        case algebra.If(_, then, otherwise):
            return _union((then, otherwise))
        case algebra.Coalesce(parts):
            return _union(parts)
    return None


def _union(expressions: Iterable[algebra.Expr]) -> TermTypes | None:
    found = [_result_types(expression) for expression in expressions]
    known = [types for types in found if types is not None]
    return frozenset().union(*known) if len(known) == len(found) else None


def types_text(types: TermTypes) -> str:
    """
    >>> types_text(frozenset({XSD + "integer", XSD + "decimal"}))
    'an xsd:decimal or xsd:integer'
    """
    names = sorted("xsd:dateTime" if each == ZONED else _type_name(each) for each in types)
    text = " or ".join(dict.fromkeys(names))
    return text if text.startswith(("an ", "a ")) else f"{'an' if text[0] in 'aeiox' else 'a'} {text}"


def _type_name(element: str) -> str:
    return element.replace(XSD, "xsd:").replace(RDF, "rdf:").replace(RDFS, "rdfs:")


class RangeTypes:
    """The types that an ontology states for the values of properties."""

    def __init__(self, ontology: Ontology) -> None:
        self._ontology = ontology
        typed: dict[str, set[str]] = {}
        for subject, predicate, object_ in ontology.triples:
            if predicate == v.TYPE:
                typed.setdefault(subject, set()).add(object_)
        self._typed = typed
        self._ranges = ontology.property_ranges()

    def statements(self, event: Event) -> tuple[TypeStatement, ...]:
        """What the ontology states about the variables of an EVENT's triples."""
        return _distinct(self._statements(required_triples(event)))

    def _statements(self, triples: Iterable[algebra.Triple]) -> Iterator[TypeStatement]:
        for triple in triples:
            name = algebra.variable_name(triple.object)
            if name is None or not isinstance(triple.predicate, str) or not is_iri(triple.predicate):
                continue
            for types, why in self._of_property(triple.predicate):
                reason = f"?{name} is a value of {short_name(triple.predicate)}, {why}"
                yield TypeStatement(name, types, reason, by_ontology=True)

    def _of_property(self, name: str) -> Iterator[tuple[TermTypes, str]]:
        kinds = self._typed.get(name, set())
        if f"<{OWL}ObjectProperty>" in kinds and f"<{OWL}DatatypeProperty>" not in kinds:
            yield frozenset({IRI}), "an owl:ObjectProperty"
        elif f"<{OWL}DatatypeProperty>" in kinds and f"<{OWL}ObjectProperty>" not in kinds:
            yield frozenset({LITERAL}), "an owl:DatatypeProperty"
        for range_ in self._ranges.get(name, ()):
            types = self._range_types(range_)
            if types is not None:
                yield types, f"whose range is {_type_name(range_[1:-1]) if types != {IRI} else short_name(range_)}"

    def _range_types(self, range_: str) -> TermTypes | None:
        datatype = range_[1:-1]
        if datatype in _NUMBERS:
            return _NUMBERS  # 5.0 is a value of xsd:integer, too
        if datatype == XSD + "string":
            return _STRINGS
        if datatype in (XSD + "dateTime", XSD + "dateTimeStamp"):
            return _DATE_TIME | {XSD + "dateTimeStamp"}
        if datatype in (XSD + name for name in ("double", "float", "boolean", "date", "time", "anyURI")):
            return frozenset({datatype})
        is_class = v.OWL_CLASS in self._typed.get(range_, ()) and range_ != v.THING
        return frozenset({IRI}) if is_class else None
