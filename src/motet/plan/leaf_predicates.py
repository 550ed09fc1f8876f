"""An EVENT's class and body as predicates that can be indexed, and a residue that has to be verified.

The required triples of the body and the simple FILTERs over them become predicates; OPTIONAL, UNION, MINUS, BIND,
VALUES, property paths and all other FILTERs stay behind as the residue. Together they are exactly the leaf: `algebra`
puts them together again, and a residue of `EMPTY` means that the predicates alone decide.

Variables have canonical names: ``v0`` is the event itself, the others are numbered as they occur in the sorted
predicates, then in the residue. Leaves that differ in names, prefixes, the order of triples or of FILTERs are equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from motet.language.syntax import Event
from motet.model.terms import RDF_TYPE, is_iri
from motet.plan.leaf_tests import Choice, Prefix, Range, Test, filter_of, named, recognised
from motet.sparql.algebra import EMPTY, Algebra, Bgp, Join, Triple, is_hidden, variable_name
from motet.sparql.rewrite import elements, filtered, grouped, peeled, required
from motet.sparql.scope import certainly_bound, in_scope, renamed, variables_in_order
from motet.sparql.write import group_text

EVENT = "v0"


@dataclass(frozen=True, slots=True, order=True)
class Equality:
    """``?event predicate object``: the event has this property with this very term."""

    predicate: str
    object: str


@dataclass(frozen=True, slots=True, order=True)
class Read:
    """``?event predicate ?variable``: the event has the property, and the variable takes each of its values."""

    predicate: str
    variable: str


@dataclass(frozen=True, slots=True)
class LeafPredicates:
    """A leaf in canonical form. All terms are canonical N-Triples."""

    classes: tuple[str, ...] = ()
    equalities: tuple[Equality, ...] = ()
    reads: tuple[Read, ...] = ()
    joins: tuple[Triple, ...] = ()  # required triples about other subjects, or with a variable predicate
    ranges: tuple[Range, ...] = ()
    choices: tuple[Choice, ...] = ()
    prefixes: tuple[Prefix, ...] = ()
    during: tuple[str, str] | None = None  # the variables of the event's start and end
    residue: Algebra = EMPTY  # what follows the required triples in their group

    @property
    def residue_text(self) -> str:
        """The residue as SPARQL that may follow the required triples; empty when there is none."""
        return group_text(self.residue)

    def triples(self) -> tuple[Triple, ...]:
        """All required triples."""
        event = f"?{EVENT}"
        return (
            *(Triple(event, RDF_TYPE, name) for name in self.classes),
            *(Triple(event, one.predicate, one.object) for one in self.equalities),
            *(Triple(event, read.predicate, f"?{read.variable}") for read in self.reads),
            *self.joins,
        )

    def tests(self) -> tuple[Test, ...]:
        return (*self.ranges, *self.choices, *self.prefixes)

    def algebra(self) -> Algebra:
        """The whole leaf as one SPARQL pattern, without the interval."""
        tests = tuple(map(filter_of, self.tests()))
        conditions, rest = peeled(self.residue)
        return filtered(grouped([Join(EMPTY, Bgp(self.triples())), *elements(rest)]), (*tests, *conditions))

    def variables(self) -> frozenset[str]:
        """Everything the leaf may bind."""
        return frozenset(_shown(in_scope(self.algebra()))) | self.given()

    def certain(self) -> frozenset[str]:
        """What every solution binds."""
        return frozenset(_shown(certainly_bound(self.algebra()))) | self.given()

    def given(self) -> frozenset[str]:
        """What is the same in all solutions of one event: the event itself and its times."""
        return frozenset({EVENT, *(self.during or ())})


@lru_cache(maxsize=10_000)
def normalise(event: Event) -> tuple[LeafPredicates, dict[str, str]]:
    """The predicates of a leaf, and for each canonical variable the leaf's own name.

    >>> from motet.language.syntax import GroupPattern
    >>> body = GroupPattern("?a <urn:level> ?l . FILTER ( ?l = <urn:high> )", frozenset({"a", "l"}))
    >>> leaf, names = normalise(Event("a", "urn:C", body))
    >>> leaf.classes, leaf.reads, leaf.choices
    (('<urn:C>',), (Read(predicate='<urn:level>', variable='v1'),), (Choice(variable='v1', terms=('<urn:high>',)),))
    >>> names
    {'v0': 'a', 'v1': 'l'}
    """
    conditions, pattern = peeled(event.algebra)
    triples, rest = required(elements(pattern))
    triples = list(dict.fromkeys(triples))
    objects = {variable_name(triple.object) for triple in triples if is_iri(str(triple.predicate))}
    tests = [recognised(condition, objects) for condition in conditions]
    found = [test for test in tests if test is not None]
    residue = filtered(rest, tuple(c for c, test in zip(conditions, tests, strict=True) if test is None))
    order = _canonical_order(event, triples, found, residue)
    names = {own: f".{number}" if is_hidden(own) else f"v{number}" for number, own in enumerate(order)}
    leaf = _assembled(event, names, triples, found, residue)
    return leaf, {canonical: own for own, canonical in names.items() if not is_hidden(own)}


def _canonical_order(event: Event, triples: list[Triple], tests: list[Test], residue: Algebra) -> list[str]:
    """The leaf's variables in an order that does not depend on their names, the event first.

    Variables are told apart by what is said about them. Where that leaves a tie, the order of writing decides: then
    equal leaves may be taken for different ones, never different ones for equal.
    """
    order = {event.name: None}
    signatures = _signatures(event.name, triples, tests)
    for triple in sorted(triples, key=lambda triple: _blinded(triple, signatures)):
        order.update(dict.fromkeys(variables_in_order(triple)))
    return list(order | dict.fromkeys([*variables_in_order(residue), *(event.times or ())]))


def _signatures(event: str, triples: list[Triple], tests: list[Test]) -> dict[str, str]:
    """For each variable a text of everything that is said about it, in two rounds: by neighbours as well."""
    signatures = {event: "event"}
    for _ in range(2):
        said: dict[str, list[str]] = {}
        for triple in triples:
            for name in triple.variables():
                here = {**signatures, name: "this"} if name != event else signatures
                said.setdefault(name, []).append(_blinded(triple, here))
        for test in tests:
            said[test.variable].append(repr(filter_of(named(test, {test.variable: "this"}))))
        signatures = {name: " ".join(sorted(texts)) for name, texts in said.items()} | {event: "event"}
    return signatures


def _blinded(triple: Triple, signatures: Mapping[str, str]) -> str:
    return repr(renamed(triple, lambda name: signatures.get(name, "")))


def _assembled(
    event: Event, names: Mapping[str, str], triples: list[Triple], tests: list[Test], residue: Algebra
) -> LeafPredicates:
    canonical = [renamed(triple, names.__getitem__) for triple in triples]
    own = [triple for triple in canonical if triple.subject == f"?{EVENT}" and is_iri(str(triple.predicate))]
    constant = [triple for triple in own if variable_name(triple.object) is None]
    filters = sorted({named(test, names) for test in tests}, key=repr)
    return LeafPredicates(
        tuple(sorted(t.object for t in constant if t.predicate == RDF_TYPE)),
        tuple(sorted(Equality(str(t.predicate), t.object) for t in constant if t.predicate != RDF_TYPE)),
        tuple(sorted(Read(str(t.predicate), t.object[1:]) for t in own if t not in constant)),
        tuple(sorted((t for t in canonical if t not in own), key=repr)),
        tuple(test for test in filters if isinstance(test, Range)),
        tuple(test for test in filters if isinstance(test, Choice)),
        tuple(test for test in filters if isinstance(test, Prefix)),
        (names[event.times[0]], names[event.times[1]]) if event.times else None,
        renamed(residue, names.__getitem__),
    )


def _shown(names: Iterable[str]) -> Iterable[str]:
    return (name for name in names if not is_hidden(name))
