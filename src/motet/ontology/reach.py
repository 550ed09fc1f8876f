"""What can follow from one triple of an event that the hierarchy alone does not say, at most?

A rule needs several triples; here it fires as soon as one of them is there, whatever the event and the background say
besides. So what is found is never less than what ``entailment`` derives: whoever asks for none of it need not close the
event. The triple is ``x property y`` or ``x a Class``; what follows is said of x, of y, of both, or of anyone else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms
from motet.ontology.facts import Facts
from motet.ontology.schema import Schema
from motet.ontology.vocabulary import SAME, TYPE

X, Y, XY, YX, ELSEWHERE = "x", "y", "xy", "yx", "?"
_SUBJECT = {XY: X, YX: Y, ELSEWHERE: ELSEWHERE}
_OBJECT = {XY: Y, YX: X, ELSEWHERE: ELSEWHERE}
_FLIPPED = {XY: YX, YX: XY, ELSEWHERE: ELSEWHERE}


Value = tuple[str, str]


class Fact(NamedTuple):
    """A class of an individual, or a property between two."""

    is_class: bool
    name: str
    place: str
    given: Value | None = None  # a property and value that an individual had before it was found to be of this class


@dataclass(frozen=True, slots=True)
class Consequences:
    """What one triple can lead to."""

    classes: frozenset[str] = frozenset()  # that a rule can derive, class expressions left out
    properties: frozenset[str] = frozenset()
    size: int = 1  # triples about x and y, itself and what the hierarchy says included
    is_far: bool = False  # whether something can follow about other individuals
    merges: bool = False  # whether individuals can be found to be one, so that anything can follow


NOTHING = Consequences()


@dataclass(frozen=True, slots=True)
class _Steps:
    """What rules derive from a class or a property that is found."""

    whole: list[tuple[str, frozenset[str]]] = field(default_factory=list)  # intersections, and what their parts imply
    values: list[Value] = field(default_factory=list)  # that members of the class have
    valued: list[Value] = field(default_factory=list)  # classes of the property's subject, if this is the value
    subject: list[str] = field(default_factory=list)  # classes of the property's subject
    object: list[str] = field(default_factory=list)
    flipped: list[str] = field(default_factory=list)  # properties between the same two
    far: list[Fact] = field(default_factory=list)


_NO_STEPS = _Steps()


class Reach:
    """The consequences of single triples under one ontology.

    >>> from motet.ontology.schema import close_schema
    >>> axioms = Axioms(inverses=(("<room>", "<holds>"),))
    >>> reach = Reach(axioms, close_schema(axioms), Facts())
    >>> sorted(reach.of_property("<room>", literal=False).properties)
    ['<holds>']
    """

    def __init__(self, axioms: Axioms, schema: Schema, background: Facts) -> None:
        self._schema = schema
        self._classes: defaultdict[str, _Steps] = defaultdict(_Steps)
        self._properties: defaultdict[str, _Steps] = defaultdict(_Steps)
        self._merging: set[tuple[bool, str]] = {(False, SAME)}
        self._merging_things: set[str] = set()  # properties that merge values which are no literals
        self._between_individuals(axioms)
        self._of_classes(axioms)
        self._known: dict[tuple[bool, str, bool], Consequences] = {}
        steps = (*self._classes.values(), *self._properties.values())
        starts = [fact for step in steps for fact in (*step.far, *_valued(step))]
        self._far = _Far({fact._replace(given=None) for fact in self.closed(starts)}, axioms, background)

    def of_class(self, name: str) -> Consequences:
        """What ``x a name`` can lead to."""
        return self._of(True, name, literal=False) if self._has(True, name) else NOTHING

    def of_property(self, name: str, *, literal: bool) -> Consequences:
        """What ``x name y`` can lead to; ``literal`` says that y is one."""
        return self._of(False, name, literal=literal) if self._has(False, name) else NOTHING

    def most_elsewhere(self, triples: int) -> int:
        """How many triples about others can follow from an event of so many triples, at most."""
        return self._far.most(triples)

    def _has(self, is_class: bool, name: str) -> bool:
        """Only names of the ontology are remembered: events may bring any number of others."""
        if is_class:
            return name in self._classes or name in self._schema.superclasses or (True, name) in self._merging
        known = name in self._properties or name in self._schema.properties
        return known or (False, name) in self._merging or name in self._merging_things

    def _of(self, is_class: bool, name: str, *, literal: bool) -> Consequences:
        key = is_class, name, literal
        if key not in self._known:
            self._known[key] = self._found(Fact(is_class, name, X if is_class else XY), literal)
        return self._known[key]

    def _found(self, start: Fact, literal: bool) -> Consequences:
        found = {fact._replace(given=None) for fact in self.closed([start], literal)}
        new = [fact for fact in found - {start, *self._above(start)} if not v.is_blank(fact.name)]
        return Consequences(
            frozenset(fact.name for fact in new if fact.is_class),
            frozenset(fact.name for fact in new if not fact.is_class),
            sum(fact.place != ELSEWHERE for fact in found),
            any(fact.place == ELSEWHERE for fact in found),
            any(self._merges(fact, literal) for fact in found),
        )

    def closed(self, start: Iterable[Fact], literal: bool = False) -> set[Fact]:
        """All that some facts can lead to, themselves included. A literal has no class and is no subject."""
        found: set[Fact] = set()
        waiting = [one for fact in start for one in (fact, *self._above(fact))]
        while waiting:
            fact = waiting.pop()
            if fact not in found and not (literal and fact.place in (Y, YX)):
                found.add(fact)
                waiting.extend(self._of_class(fact) if fact.is_class else self._of_property(fact))
        return found

    def _above(self, fact: Fact) -> Iterator[Fact]:
        """What the hierarchy says, which is closed."""
        is_class, name, place, given = fact
        if is_class:
            yield from (Fact(True, c, place, given) for c in self._schema.superclasses.get(name, ()))
        elif (known := self._schema.properties.get(name)) is not None:
            above, domains, ranges = known
            yield from (Fact(False, p, place) for p in above)
            yield from (Fact(True, c, _SUBJECT[place]) for c in domains)
            yield from (Fact(True, c, _OBJECT[place]) for c in ranges)

    def _of_class(self, fact: Fact) -> Iterator[Fact]:
        """What rules derive. Nothing is derived again: members of an intersection were members of its parts before."""
        _, name, place, given = fact
        steps = self._classes.get(name, _NO_STEPS)
        for whole, before in steps.whole:
            derived = Fact(True, whole, place, given)
            yield from (one for one in (derived, *self._above(derived)) if one.name not in before)
        values = (Fact(False, p, ELSEWHERE) for p, value in steps.values if (p, value) != given)
        for derived in (*steps.far, *values):
            yield from (derived, *self._above(derived))

    def _of_property(self, fact: Fact) -> Iterator[Fact]:
        _, name, place, _ = fact
        steps = self._properties.get(name, _NO_STEPS)
        found = [
            *steps.far,
            *(Fact(True, c, _SUBJECT[place]) for c in steps.subject),
            *(Fact(True, c, _SUBJECT[place], (name, value)) for c, value in steps.valued),
            *(Fact(True, c, _OBJECT[place]) for c in steps.object),
            *(Fact(False, p, _FLIPPED[place]) for p in steps.flipped),
        ]
        for derived in found:
            yield from (derived, *self._above(derived))

    def _merges(self, fact: Fact, literal: bool) -> bool:
        if not fact.is_class and fact.name in self._merging_things:
            return not (literal and fact.place == XY)
        return (fact.is_class, fact.name) in self._merging

    def _between_individuals(self, axioms: Axioms) -> None:
        for a, b in axioms.inverses:
            self._properties[a].flipped.append(b)
            self._properties[b].flipped.append(a)
        for p in axioms.symmetric:
            self._properties[p].flipped.append(p)
        for p in axioms.transitive:
            self._properties[p].far.append(Fact(False, p, ELSEWHERE))
        for p, links in axioms.chains:
            for link in links:
                self._properties[link].far.append(Fact(False, p, ELSEWHERE))
        self._merging_things.update(axioms.functional)
        self._merging.update((False, p) for p in axioms.inverse_functional)
        for c, properties in axioms.keys:
            if properties:
                self._merging.update([(True, c), *((False, p) for p in properties)])

    def _of_classes(self, axioms: Axioms) -> None:
        for whole, parts in axioms.intersections:
            before = frozenset(parts).union(*(self._schema.superclasses.get(part, ()) for part in parts))
            for part in parts:
                self._classes[part].whole.append((whole, before))
        for c, p, filler in axioms.some:
            if filler != v.THING:  # that is a domain, which the schema has
                self._properties[p].subject.append(c)
                self._classes[filler].far.append(Fact(True, c, ELSEWHERE))
        for c, p, filler in axioms.only:
            self._properties[p].object.append(filler)
            self._classes[c].far.append(Fact(True, filler, ELSEWHERE))
        for c, p, value in axioms.value:
            self._properties[p].valued.append((c, value))
            self._classes[c].values.append((p, value))
        for c, p, number, filler in axioms.at_most:
            if number == 1:
                self._merging.add((True, c))
                self._merging_things.add(p)
                if filler != v.THING:
                    self._merging.add((True, filler))


def _valued(steps: _Steps) -> Iterator[Fact]:
    return (Fact(False, p, ELSEWHERE) for p, _ in steps.values)


class _Far:
    """How much can follow about individuals that a triple does not name.

    Rules pass from one individual to the next along a property, so they reach only the event's own terms, the values
    that axioms name, and what the background joins by such properties.
    """

    def __init__(self, found: Collection[Fact], axioms: Axioms, background: Facts) -> None:
        links = {p for _, properties in axioms.chains for p in properties}.union(axioms.transitive)
        along = links | {p for _, p, _ in axioms.some} | {p for _, p, _ in axioms.only}
        joined = {term for s, p, o in background.triples if p in along for term in (s, o)}
        self._values = len({value for _, _, value in axioms.value})
        self._individuals = self._values + len(joined)
        self._any_pair = bool(links)
        self._classes = sum(fact.is_class for fact in found)
        self._properties = len(found) - self._classes

    def most(self, triples: int) -> int:
        individuals = 2 * triples + self._individuals
        pairs = individuals * (individuals if self._any_pair else 2 * self._values)
        return individuals * self._classes + pairs * self._properties


def mentions_type(axioms: Axioms) -> bool:
    """Whether a rule takes rdf:type for a property like any other, so that any class can follow from any."""
    return TYPE in {
        *(p for pair in axioms.inverses for p in pair),
        *(*axioms.symmetric, *axioms.transitive, *axioms.functional, *axioms.inverse_functional),
        *(p for head, links in axioms.chains for p in (head, *links)),
        *(p for _, properties in axioms.keys for p in properties),
        *(p for kind in (axioms.some, axioms.only, axioms.value) for _, p, _ in kind),
        *(p for _, p, _, _ in axioms.at_most),
    }
