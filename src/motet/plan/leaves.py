"""An EVENT's class and body as predicates and simple FILTERs that can be indexed, and a residue to be verified.

The required triples of the body and the simple FILTERs over them become predicates; OPTIONAL, UNION, MINUS, BIND,
VALUES, property paths and all other FILTERs remain in the residue. Together they are exactly the leaf: `algebra`
puts them together again, and a residue of `EMPTY` means that the predicates alone decide.

Variables have canonical names: ``v0`` is the event itself, the others are numbered as they occur in the sorted
predicates, then in the residue. Leaves that differ in names, prefixes, the order of triples or of FILTERs are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from motet.language.syntax import Event
from motet.model.terms import RDF_TYPE, XSD, iri, is_iri, literal, literal_parts
from motet.model.times import parse_datetime
from motet.sparql import algebra
from motet.sparql.algebra import elements, filtered, grouped, peeled, required
from motet.sparql.scope import certainly_bound, in_scope, renamed, variables_in_order
from motet.sparql.write import group_text
from motet.xmlql.blocks import Block, renamed_block
from motet.xmlql.parse import parse_block
from motet.xmlql.write import block_text

EVENT_VARIABLE = "v0"


@dataclass(frozen=True, slots=True, order=True)
class Equality:
    """``?event predicate object``: the event has this property with exactly this term."""

    predicate: str
    object: str


@dataclass(frozen=True, slots=True, order=True)
class PropertyRead:
    """``?event predicate ?variable``: the event has the property, and the variable is bound to each of its values."""

    predicate: str
    variable: str


@dataclass(frozen=True, slots=True)
class LeafPredicates:
    """A leaf in canonical form. All terms are canonical N-Triples."""

    classes: tuple[str, ...] = ()
    equalities: tuple[Equality, ...] = ()
    reads: tuple[PropertyRead, ...] = ()
    joins: tuple[algebra.Triple, ...] = ()  # required triples about other subjects, or with a variable predicate
    ranges: tuple[Range, ...] = ()
    choices: tuple[Choice, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    during: tuple[str, str] | None = None  # the variables of the event's start and end
    residue: algebra.Algebra = algebra.EMPTY  # the rest of the group

    @property
    def residue_text(self) -> str:
        """The residue as SPARQL that may follow the required triples; empty when there is none."""
        return group_text(self.residue)

    def triples(self) -> tuple[algebra.Triple, ...]:
        """All required triples."""
        event = f"?{EVENT_VARIABLE}"
        return (
            *(algebra.Triple(event, RDF_TYPE, name) for name in self.classes),
            *(algebra.Triple(event, equality.predicate, equality.object) for equality in self.equalities),
            *(algebra.Triple(event, read.predicate, f"?{read.variable}") for read in self.reads),
            *self.joins,
        )

    def tests(self) -> tuple[LeafTest, ...]:
        return (*self.ranges, *self.choices, *self.prefixes)

    def algebra(self) -> algebra.Algebra:
        """The whole leaf as one SPARQL pattern, without the interval."""
        tests = tuple(map(as_filter, self.tests()))
        conditions, rest = peeled(self.residue)
        return filtered(
            grouped([algebra.Join(algebra.EMPTY, algebra.Bgp(self.triples())), *elements(rest)]), (*tests, *conditions)
        )

    def variables(self) -> frozenset[str]:
        """The variables the leaf may bind."""
        return frozenset(_visible(in_scope(self.algebra()))) | self.event_variables()

    def certain_variables(self) -> frozenset[str]:
        """The variables every solution binds."""
        return frozenset(_visible(certainly_bound(self.algebra()))) | self.event_variables()

    def event_variables(self) -> frozenset[str]:
        """The variables with the same value in all solutions of one event: the event itself and its times."""
        return frozenset({EVENT_VARIABLE, *(self.during or ())})


@dataclass(frozen=True, slots=True)
class XmlLeafPredicates(LeafPredicates):
    """A leaf over XML documents: its class and times, and its block with canonical variables."""

    block: str = ""

    def variables(self) -> frozenset[str]:
        return self.event_variables() | parse_block(self.block).variables

    def certain_variables(self) -> frozenset[str]:
        return self.variables()


@lru_cache(maxsize=10_000)
def normalise(event: Event) -> tuple[LeafPredicates, dict[str, str]]:
    """The predicates of a leaf, and the leaf's name of each canonical variable.

    >>> from motet.language.syntax import GroupPattern
    >>> body = GroupPattern("?a <urn:level> ?l . FILTER ( ?l = <urn:high> )", frozenset({"a", "l"}))
    >>> leaf, names = normalise(Event("a", "urn:C", body))
    >>> leaf.classes, leaf.reads
    (('<urn:C>',), (PropertyRead(predicate='<urn:level>', variable='v1'),))
    >>> leaf.choices
    (Choice(variable='v1', terms=('<urn:high>',)),)
    >>> names
    {'v0': 'a', 'v1': 'l'}
    """
    if event.xml is not None:
        return _normalise_block(event, event.xml.tree)
    conditions, pattern = peeled(event.algebra)
    triples, rest = required(elements(pattern))
    triples = list(dict.fromkeys(triples))
    objects = {algebra.variable_name(triple.object) for triple in triples if is_iri(str(triple.predicate))}
    tests = [recognize_test(condition, objects) for condition in conditions]
    recognized = [test for test in tests if test is not None]
    residue = filtered(rest, tuple(c for c, test in zip(conditions, tests, strict=True) if test is None))
    order = _canonical_order(event, triples, recognized, residue)
    names = {name: f".{index}" if algebra.is_hidden(name) else f"v{index}" for index, name in enumerate(order)}
    leaf = _leaf_predicates(event, names, triples, recognized, residue)
    return leaf, {canonical: name for name, canonical in names.items() if not algebra.is_hidden(name)}


def _normalise_block(event: Event, block: Block) -> tuple[LeafPredicates, dict[str, str]]:
    """Variables are numbered as they occur in the block."""
    order = dict.fromkeys(
        [event.name, *(name for each in block.element.walk() for name in each.own_variables()), *(event.times or ())]
    )
    names = {name: f"v{index}" for index, name in enumerate(order)}
    times = (names[event.times[0]], names[event.times[1]]) if event.times else None
    classes = (iri(event.class_iri),) if event.class_iri is not None else ()
    text = block_text(renamed_block(block, names))
    return XmlLeafPredicates(classes, during=times, block=text), {canonical: name for name, canonical in names.items()}


def _canonical_order(
    event: Event, triples: list[algebra.Triple], tests: list[LeafTest], residue: algebra.Algebra
) -> list[str]:
    """The leaf's variables in an order that does not depend on their names, the event first.

    Variables are distinguished by the triples and tests they occur in. In a tie the written order decides: then equal
    leaves may be considered different, but never different leaves equal.
    """
    order = {event.name: None}
    signatures = _signatures(event.name, triples, tests)
    for triple in sorted(triples, key=lambda triple: _anonymous(triple, signatures)):
        order.update(dict.fromkeys(variables_in_order(triple)))
    return list(order | dict.fromkeys([*variables_in_order(residue), *(event.times or ())]))


def _signatures(event: str, triples: list[algebra.Triple], tests: list[LeafTest]) -> dict[str, str]:
    """By variable, a text of all triples and tests it occurs in; the second round includes its neighbours."""
    signatures = {event: "event"}
    for _ in range(2):
        texts: dict[str, list[str]] = {}
        for triple in triples:
            for name in triple.variables():
                names = {**signatures, name: "this"} if name != event else signatures
                texts.setdefault(name, []).append(_anonymous(triple, names))
        for test in tests:
            texts[test.variable].append(repr(as_filter(rename_variables(test, {test.variable: "this"}))))
        signatures = {name: " ".join(sorted(parts)) for name, parts in texts.items()} | {event: "event"}
    return signatures


def _anonymous(triple: algebra.Triple, signatures: Mapping[str, str]) -> str:
    return repr(renamed(triple, lambda name: signatures.get(name, "")))


def _leaf_predicates(
    event: Event,
    names: Mapping[str, str],
    triples: list[algebra.Triple],
    tests: list[LeafTest],
    residue: algebra.Algebra,
) -> LeafPredicates:
    canonical = [renamed(triple, names.__getitem__) for triple in triples]
    about_event = [
        triple for triple in canonical if triple.subject == f"?{EVENT_VARIABLE}" and is_iri(str(triple.predicate))
    ]
    constant = [triple for triple in about_event if algebra.variable_name(triple.object) is None]
    filters = sorted({rename_variables(test, names) for test in tests}, key=repr)
    return LeafPredicates(
        tuple(sorted(t.object for t in constant if t.predicate == RDF_TYPE)),
        tuple(sorted(Equality(str(t.predicate), t.object) for t in constant if t.predicate != RDF_TYPE)),
        tuple(sorted(PropertyRead(str(t.predicate), t.object[1:]) for t in about_event if t not in constant)),
        tuple(sorted((t for t in canonical if t not in about_event), key=repr)),
        tuple(test for test in filters if isinstance(test, Range)),
        tuple(test for test in filters if isinstance(test, Choice)),
        tuple(test for test in filters if isinstance(test, Prefix)),
        (names[event.times[0]], names[event.times[1]]) if event.times else None,
        renamed(residue, names.__getitem__),
    )


def _visible(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if not algebra.is_hidden(name))


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_NUMBERS = {
    XSD + "integer": re.compile(r"[+-]?[0-9]+"),
    XSD + "decimal": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"),
    XSD + "double": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"),
}
_ZONED = re.compile(r".*(?:Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Range:
    """``FILTER(?variable operator constant)`` on a number or an xsd:dateTime with a zone; compared as SPARQL does."""

    variable: str
    operator: str  # one of = < <= > >=
    constant: str  # a term


@dataclass(frozen=True, slots=True, order=True)
class Choice:
    """``FILTER(?variable IN (…))`` over IRIs and plain strings: the variable is exactly one of these terms."""

    variable: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Prefix:
    """``FILTER(STRSTARTS(STR(?variable), "text"))``, or without STR: then only strings match."""

    variable: str
    text: str  # a term
    through_str: bool


LeafTest = Range | Choice | Prefix


def recognize_test(condition: algebra.Expr, objects: set[str | None]) -> LeafTest | None:
    """A condition as a test, if it is one over a variable that a required triple binds."""
    match condition:
        case algebra.Compare(operator, algebra.Variable(name), constant) if name in objects and operator in _MIRRORED:
            return _comparison(name, operator, constant)
        case algebra.Compare(operator, constant, algebra.Variable(name)) if name in objects and operator in _MIRRORED:
            return _comparison(name, _MIRRORED[operator], constant)
        case algebra.In(algebra.Variable(name), choices) if name in objects and choices:
            return _choice(name, choices)
        case algebra.Call("STRSTARTS", (algebra.Call("STR", (algebra.Variable(name),)), algebra.Constant(text))) if (
            name in objects and _is_plain_string(text)
        ):
            return Prefix(name, text, through_str=True)
        case algebra.Call("STRSTARTS", (algebra.Variable(name), algebra.Constant(text))) if (
            name in objects and _is_plain_string(text)
        ):
            return Prefix(name, text, through_str=False)
    return None


def as_filter(test: LeafTest) -> algebra.Expr:
    """A test as a FILTER expression."""
    variable = algebra.Variable(test.variable)
    match test:
        case Range(_, operator, constant):
            return algebra.Compare(operator, variable, algebra.Constant(constant))
        case Choice(_, terms):
            return algebra.In(variable, tuple(map(algebra.Constant, terms)))
        case Prefix(_, text, through_str):
            return algebra.Call(
                "STRSTARTS", (algebra.Call("STR", (variable,)) if through_str else variable, algebra.Constant(text))
            )


def rename_variables(test: LeafTest, names: Mapping[str, str]) -> LeafTest:
    match test:
        case Range(variable, operator, constant):
            return Range(names[variable], operator, constant)
        case Choice(variable, terms):
            return Choice(names[variable], terms)
        case Prefix(variable, text, through_str):
            return Prefix(names[variable], text, through_str)


def _comparison(name: str, operator: str, constant: algebra.Expr) -> LeafTest | None:
    term = _signed(constant)
    if term is None:
        return None
    if _is_ordered(term):
        return Range(name, operator, term)
    return _choice(name, (constant,)) if operator == "=" else None


def _choice(name: str, choices: tuple[algebra.Expr, ...]) -> Choice | None:
    terms = tuple(sorted({choice.term for choice in choices if isinstance(choice, algebra.Constant)}))
    every = all(isinstance(choice, algebra.Constant) for choice in choices)
    return Choice(name, terms) if every and all(is_iri(term) or _is_plain_string(term) for term in terms) else None


def _signed(constant: algebra.Expr) -> str | None:
    """A constant, or a number with a separate sign, as one term."""
    match constant:
        case algebra.Constant(term):
            return term
        case algebra.Sign(sign, algebra.Constant(term)) if not is_iri(term):
            text, datatype, _ = literal_parts(term)
            return literal(sign + text, datatype=datatype) if datatype in _NUMBERS and text[0] not in "+-" else None
    return None


def _is_ordered(term: str) -> bool:
    """Whether the constant is a number, or an instant with a time zone."""
    if is_iri(term):
        return False
    text, datatype, _ = literal_parts(term)
    if datatype in _NUMBERS:
        return _NUMBERS[datatype].fullmatch(text) is not None
    if datatype != XSD + "dateTime" or not _ZONED.fullmatch(text):
        return False
    try:
        parse_datetime(text)
    except ValueError:
        return False
    return True


def _is_plain_string(term: str) -> bool:
    return term.startswith('"') and term.endswith('"')
