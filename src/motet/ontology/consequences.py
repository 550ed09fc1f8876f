"""An upper bound on what the rules can infer from one triple of an event, beyond the hierarchy.

A rule needs several triples; here it fires on one of them, whatever the event and the background contain. The bound
therefore includes everything ``entailment`` infers: an event need not be closed for leaves that refer to none of it.
The triple is ``x property y`` or ``x a Class``; an inference is about x, y, both, or other individuals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms
from motet.ontology.layered_triples import LayeredTriples
from motet.ontology.owl_names import SAME, TYPE
from motet.ontology.schema import Schema

X, Y, XY, YX, OTHER_NODE = "x", "y", "xy", "yx", "?"
_SUBJECT = {XY: X, YX: Y, OTHER_NODE: OTHER_NODE}
_OBJECT = {XY: Y, YX: X, OTHER_NODE: OTHER_NODE}
_INVERSE = {XY: YX, YX: XY, OTHER_NODE: OTHER_NODE}


PropertyValue = tuple[str, str]


class PossibleInference(NamedTuple):
    """A class of an individual, or a property between two individuals, that rules may infer."""

    is_class: bool
    name: str
    position: str
    premise: PropertyValue | None = None  # the property value from which the class was inferred


@dataclass(frozen=True, slots=True)
class Consequences:
    """Everything that may be inferred from one triple."""

    classes: frozenset[str] = frozenset()  # inferable by rules, without class expressions
    properties: frozenset[str] = frozenset()
    size: int = 1  # triples about x and y, including the triple itself and the hierarchy
    affects_others: bool = False  # whether triples about other individuals can be inferred
    may_merge: bool = False  # whether owl:sameAs can be inferred, and with it any triple


NO_CONSEQUENCES = Consequences()


@dataclass(frozen=True, slots=True)
class _Steps:
    """What rules may infer from one class or property."""

    intersections: list[tuple[str, frozenset[str]]] = field(
        default_factory=list
    )  # intersections, and what their operands imply
    values: list[PropertyValue] = field(default_factory=list)  # property values of the members of the class
    subject_by_value: list[PropertyValue] = field(
        default_factory=list
    )  # classes of the subject of the property, by value
    subject: list[str] = field(default_factory=list)  # classes of the subject of the property
    object: list[str] = field(default_factory=list)
    inverse: list[str] = field(default_factory=list)  # properties from object to subject
    on_other_nodes: list[PossibleInference] = field(default_factory=list)


_NO_STEPS = _Steps()


class ConsequenceBound:
    """Bounds the consequences of single triples under one ontology.

    >>> from motet.ontology.schema import close_schema
    >>> axioms = Axioms(inverses=(("<room>", "<holds>"),))
    >>> bound = ConsequenceBound(axioms, close_schema(axioms), LayeredTriples())
    >>> sorted(bound.of_property("<room>", literal=False).properties)
    ['<holds>']
    """

    def __init__(self, axioms: Axioms, schema: Schema, background: LayeredTriples) -> None:
        self._schema = schema
        self._classes: defaultdict[str, _Steps] = defaultdict(_Steps)
        self._properties: defaultdict[str, _Steps] = defaultdict(_Steps)
        self._merging: set[tuple[bool, str]] = {(False, SAME)}
        self._merging_individuals: set[str] = set()  # properties that merge individuals, but not literals
        self._between_individuals(axioms)
        self._of_classes(axioms)
        self._cache: dict[tuple[bool, str, bool], Consequences] = {}
        steps = (*self._classes.values(), *self._properties.values())
        starts = [inference for step in steps for inference in (*step.on_other_nodes, *_values_on_other_nodes(step))]
        inferences = {inference._replace(premise=None) for inference in self.close(starts)}
        self._on_other_nodes = _OtherNodeBound(inferences, axioms, background)

    def of_class(self, name: str) -> Consequences:
        """The possible consequences of ``x a name``."""
        return self._of(True, name, literal=False) if self._has(True, name) else NO_CONSEQUENCES

    def of_property(self, name: str, *, literal: bool) -> Consequences:
        """The possible consequences of ``x name y``; ``literal`` means that y is a literal."""
        return self._of(False, name, literal=literal) if self._has(False, name) else NO_CONSEQUENCES

    def max_on_other_nodes(self, triples: int) -> int:
        """The maximum number of triples about other individuals that an event of ``triples`` triples implies."""
        return self._on_other_nodes.max_triples(triples)

    def _has(self, is_class: bool, name: str) -> bool:
        """Whether the ontology has a name; only such names are cached, because events may contain any others."""
        if is_class:
            return name in self._classes or name in self._schema.superclasses or (True, name) in self._merging
        is_property = name in self._properties or name in self._schema.properties
        return is_property or (False, name) in self._merging or name in self._merging_individuals

    def _of(self, is_class: bool, name: str, *, literal: bool) -> Consequences:
        key = is_class, name, literal
        if key not in self._cache:
            self._cache[key] = self._compute(PossibleInference(is_class, name, X if is_class else XY), literal)
        return self._cache[key]

    def _compute(self, start: PossibleInference, literal: bool) -> Consequences:
        inferences = {inference._replace(premise=None) for inference in self.close([start], literal)}
        new = [inference for inference in inferences - {start, *self._above(start)} if not v.is_blank(inference.name)]
        return Consequences(
            frozenset(inference.name for inference in new if inference.is_class),
            frozenset(inference.name for inference in new if not inference.is_class),
            sum(inference.position != OTHER_NODE for inference in inferences),
            any(inference.position == OTHER_NODE for inference in inferences),
            any(self._merges(inference, literal) for inference in inferences),
        )

    def close(self, start: Iterable[PossibleInference], literal: bool = False) -> set[PossibleInference]:
        """The start inferences with all their consequences. A literal has no class and is never a subject."""
        closure: set[PossibleInference] = set()
        stack = [reached for inference in start for reached in (inference, *self._above(inference))]
        while stack:
            inference = stack.pop()
            if inference not in closure and not (literal and inference.position in (Y, YX)):
                closure.add(inference)
                stack.extend(self._of_class(inference) if inference.is_class else self._of_property(inference))
        return closure

    def _above(self, inference: PossibleInference) -> Iterator[PossibleInference]:
        """The inferences of the hierarchy, which is closed."""
        is_class, name, position, premise = inference
        if is_class:
            yield from (PossibleInference(True, c, position, premise) for c in self._schema.superclasses.get(name, ()))
        elif (entry := self._schema.properties.get(name)) is not None:
            above, domains, ranges = entry
            yield from (PossibleInference(False, p, position) for p in above)
            yield from (PossibleInference(True, c, _SUBJECT[position]) for c in domains)
            yield from (PossibleInference(True, c, _OBJECT[position]) for c in ranges)

    def _of_class(self, inference: PossibleInference) -> Iterator[PossibleInference]:
        """Inferences from a class, except for classes that the operands of an intersection imply."""
        _, name, position, premise = inference
        steps = self._classes.get(name, _NO_STEPS)
        for c, implied in steps.intersections:
            inferred = PossibleInference(True, c, position, premise)
            yield from (each for each in (inferred, *self._above(inferred)) if each.name not in implied)
        values = (PossibleInference(False, p, OTHER_NODE) for p, value in steps.values if (p, value) != premise)
        for inferred in (*steps.on_other_nodes, *values):
            yield from (inferred, *self._above(inferred))

    def _of_property(self, inference: PossibleInference) -> Iterator[PossibleInference]:
        _, name, position, _ = inference
        steps = self._properties.get(name, _NO_STEPS)
        inferences = [
            *steps.on_other_nodes,
            *(PossibleInference(True, c, _SUBJECT[position]) for c in steps.subject),
            *(PossibleInference(True, c, _SUBJECT[position], (name, value)) for c, value in steps.subject_by_value),
            *(PossibleInference(True, c, _OBJECT[position]) for c in steps.object),
            *(PossibleInference(False, p, _INVERSE[position]) for p in steps.inverse),
        ]
        for inferred in inferences:
            yield from (inferred, *self._above(inferred))

    def _merges(self, inference: PossibleInference, literal: bool) -> bool:
        if not inference.is_class and inference.name in self._merging_individuals:
            return not (literal and inference.position == XY)
        return (inference.is_class, inference.name) in self._merging

    def _between_individuals(self, axioms: Axioms) -> None:
        for a, b in axioms.inverses:
            self._properties[a].inverse.append(b)
            self._properties[b].inverse.append(a)
        for p in axioms.symmetric:
            self._properties[p].inverse.append(p)
        for p in axioms.transitive:
            self._properties[p].on_other_nodes.append(PossibleInference(False, p, OTHER_NODE))
        for p, links in axioms.chains:
            for link in links:
                self._properties[link].on_other_nodes.append(PossibleInference(False, p, OTHER_NODE))
        self._merging_individuals.update(axioms.functional)
        self._merging.update((False, p) for p in axioms.inverse_functional)
        for c, properties in axioms.keys:
            if properties:
                self._merging.update([(True, c), *((False, p) for p in properties)])

    def _of_classes(self, axioms: Axioms) -> None:
        for c, operands in axioms.intersections:
            implied = frozenset(operands).union(*(self._schema.superclasses.get(operand, ()) for operand in operands))
            for operand in operands:
                self._classes[operand].intersections.append((c, implied))
        for c, p, filler in axioms.some:
            if filler != v.THING:  # the schema has it as a domain
                self._properties[p].subject.append(c)
                self._classes[filler].on_other_nodes.append(PossibleInference(True, c, OTHER_NODE))
        for c, p, filler in axioms.only:
            self._properties[p].object.append(filler)
            self._classes[c].on_other_nodes.append(PossibleInference(True, filler, OTHER_NODE))
        for c, p, value in axioms.value:
            self._properties[p].subject_by_value.append((c, value))
            self._classes[c].values.append((p, value))
        for c, p, cardinality, filler in axioms.at_most:
            if cardinality == 1:
                self._merging.add((True, c))
                self._merging_individuals.add(p)
                if filler != v.THING:
                    self._merging.add((True, filler))


def _values_on_other_nodes(steps: _Steps) -> Iterator[PossibleInference]:
    return (PossibleInference(False, p, OTHER_NODE) for p, _ in steps.values)


class _OtherNodeBound:
    """Bounds the number of inferred triples about individuals that are not in the triggering triple.

    Rules go from one individual to the next along a property, so they reach only terms of the event, values in axioms,
    and individuals that the background connects by such properties.
    """

    def __init__(self, inferences: Collection[PossibleInference], axioms: Axioms, background: LayeredTriples) -> None:
        links = {p for _, properties in axioms.chains for p in properties}.union(axioms.transitive)
        traversed = links | {p for _, p, _ in axioms.some} | {p for _, p, _ in axioms.only}
        connected = {term for s, p, o in background.triples if p in traversed for term in (s, o)}
        self._values = len({value for _, _, value in axioms.value})
        self._individuals = self._values + len(connected)
        self._any_pair = bool(links)
        self._classes = sum(inference.is_class for inference in inferences)
        self._properties = len(inferences) - self._classes

    def max_triples(self, triples: int) -> int:
        individuals = 2 * triples + self._individuals
        pairs = individuals * (individuals if self._any_pair else 2 * self._values)
        return individuals * self._classes + pairs * self._properties


def uses_type_as_property(axioms: Axioms) -> bool:
    """Whether an axiom uses rdf:type as an ordinary property, so that any class can follow from any other."""
    return TYPE in {
        *(p for pair in axioms.inverses for p in pair),
        *(*axioms.symmetric, *axioms.transitive, *axioms.functional, *axioms.inverse_functional),
        *(p for head, links in axioms.chains for p in (head, *links)),
        *(p for _, properties in axioms.keys for p in properties),
        *(p for kind in (axioms.some, axioms.only, axioms.value) for _, p, _ in kind),
        *(p for _, p, _, _ in axioms.at_most),
    }
