"""The OWL 2 RL rules for individuals, compiled from the axioms of an ontology.

Each rule of the profile's tables is a function, bound to its axiom with ``partial`` and indexed by the class or
property of the triples that trigger it. It takes the subject and object of such a triple and all known triples, and
returns the inferred ones. ``schema`` has closed hierarchies, domains and ranges.

Omitted, because no match depends on them: eq-ref (everything is the same as itself), the datatype rules that need
literals as subjects, and the rules that only detect inconsistencies (see ``inconsistencies``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from motet.model.terms import XSD, iri, literal_parts
from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms
from motet.ontology.layered_triples import LayeredTriples
from motet.ontology.owl_names import SAME, TYPE, Triple

#: (subject, object, known triples) → inferred triples
Rule = Callable[[str, str, LayeredTriples], Iterable[Triple]]

_XSD_PARENT = {
    "integer": "decimal", "long": "integer", "int": "long", "short": "int", "byte": "short",
    "nonNegativeInteger": "integer", "positiveInteger": "nonNegativeInteger", "unsignedLong": "nonNegativeInteger",
    "unsignedInt": "unsignedLong", "unsignedShort": "unsignedInt", "unsignedByte": "unsignedShort",
    "nonPositiveInteger": "integer", "negativeInteger": "nonPositiveInteger", "dateTimeStamp": "dateTime",
    "normalizedString": "string", "token": "normalizedString", "language": "token", "Name": "token", "NMTOKEN": "token",
    "NCName": "Name",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one ontology, by the class, property or value that triggers them."""

    by_class: dict[str, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    by_property: dict[str, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    #: (property, value) → the classes ``property value v``
    by_value: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def infer(self, triple: Triple, triples: LayeredTriples) -> Iterator[Triple]:
        """The triples that the rules infer from one triple together with the known ones."""
        s, p, o = triple
        if p == TYPE:
            for rule in self.by_class.get(o, ()):
                yield from rule(s, o, triples)
        for rule in self.by_property.get(p, ()):
            yield from rule(s, o, triples)
        for c in self.by_value.get((p, o), ()):
            yield s, TYPE, c
        if triples.has_same_as and SAME in self.by_property:
            yield from _replaced(triple, triples)

    def may_fire(self, triple: Triple) -> bool:
        """Whether the triple triggers any rule."""
        _, p, o = triple
        return p in self.by_property or (p == TYPE and o in self.by_class) or (p, o) in self.by_value

    def __bool__(self) -> bool:
        """Whether there is any rule besides owl:sameAs."""
        return bool(self.by_class or self.by_value or self.by_property.keys() - {SAME})


def compile_rules(axioms: Axioms) -> Rules:
    """The rules of the axioms, indexed by the classes and properties that trigger them."""
    rules = Rules()
    rules.by_property[SAME].append(_same)
    for a, b in axioms.inverses:
        rules.by_property[a].append(partial(_inverse, b))
        rules.by_property[b].append(partial(_inverse, a))
    for p in axioms.symmetric:
        rules.by_property[p].append(partial(_inverse, p))
    for p in axioms.transitive:
        rules.by_property[p].append(partial(_transitive, p))
    for p in axioms.functional:
        rules.by_property[p].append(partial(_functional, p))
    for p in axioms.inverse_functional:
        rules.by_property[p].append(partial(_inverse_functional, p))
    for p, links in axioms.chains:
        for index, link in enumerate(links):
            rules.by_property[link].append(partial(_chain, p, links[:index][::-1], links[index + 1 :]))
    for c, operands in axioms.intersections:
        for operand in set(operands):
            rules.by_class[operand].append(partial(_intersection, c, tuple(set(operands) - {operand})))
    _compile_restrictions(axioms, rules)
    _compile_keys(axioms, rules)
    return rules


def _compile_restrictions(axioms: Axioms, rules: Rules) -> None:
    for c, p, filler in axioms.some:
        if filler != v.THING:
            rules.by_property[p].append(partial(_some_by_value, c, filler))
            rules.by_class[filler].append(partial(_some_by_member, c, p))
    for c, p, filler in axioms.only:
        rules.by_property[p].append(partial(_only_by_value, c, filler))
        rules.by_class[c].append(partial(_only_by_member, p, filler))
    for c, p, value in axioms.value:
        rules.by_class[c].append(partial(_has_value, p, value))
        rules.by_value[p, value].append(c)
    for c, p, cardinality, filler in axioms.at_most:
        if cardinality == 1:
            rules.by_class[c].append(partial(_at_most_one_by_member, p, filler))
            rules.by_property[p].append(partial(_at_most_one_by_value, c, p, filler))
            if filler != v.THING:
                rules.by_class[filler].append(partial(_at_most_one_by_filler, c, p, filler))


def _compile_keys(axioms: Axioms, rules: Rules) -> None:
    for c, properties in axioms.keys:
        if properties:
            rule = partial(_key, c, properties)
            rules.by_class[c].append(rule)
            for p in set(properties):
                rules.by_property[p].append(rule)


def enumerated(axioms: Axioms) -> Iterator[Triple]:
    """Rule cls-oo: the individuals that ``oneOf`` lists are members of the class."""
    return ((member, TYPE, c) for c, members in axioms.enumerations for member in members)


def _inverse(inverse: str, s: str, o: str, triples: LayeredTriples) -> Iterable[Triple]:
    """prp-inv1, prp-inv2, prp-symp."""
    return ((o, inverse, s),)


def _transitive(p: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """prp-trp."""
    yield from ((s, p, end) for end in triples.objects(o, p))
    yield from ((start, p, o) for start in triples.subjects(p, s))


def _chain(
    p: str, before: Sequence[str], after: Sequence[str], s: str, o: str, triples: LayeredTriples
) -> Iterator[Triple]:
    """prp-spo2, from the new link to both ends of the chain."""
    starts, ends = {s}, {o}
    for link in before:
        starts = {subject for node in starts for subject in triples.subjects(link, node)}
    for link in after:
        ends = {value for node in ends for value in triples.objects(node, link)}
    return ((start, p, end) for start in starts for end in ends)


def _functional(p: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """prp-fp. Rule eq-sym adds the symmetric triple."""
    return ((o, SAME, value) for value in triples.objects(s, p) if _are_distinct_individuals(o, value))


def _inverse_functional(p: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """prp-ifp."""
    return ((s, SAME, subject) for subject in triples.subjects(p, o) if subject != s)


def _intersection(c: str, other_operands: tuple[str, ...], s: str, o: str, triples: LayeredTriples) -> Iterable[Triple]:
    """cls-int1."""
    return ((s, TYPE, c),) if all((s, TYPE, operand) in triples for operand in other_operands) else ()


def _some_by_value(c: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterable[Triple]:
    """cls-svf1, triggered by the value."""
    holds = has_datatype(o, filler) if v.is_literal(o) else (o, TYPE, filler) in triples
    return ((s, TYPE, c),) if holds else ()


def _some_by_member(c: str, p: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """cls-svf1, triggered by the class of the value."""
    return ((subject, TYPE, c) for subject in triples.subjects(p, s))


def _only_by_value(c: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterable[Triple]:
    """cls-avf, triggered by the value."""
    return ((o, TYPE, filler),) if (s, TYPE, c) in triples else ()


def _only_by_member(p: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """cls-avf, triggered by the membership."""
    return ((value, TYPE, filler) for value in triples.objects(s, p))


def _has_value(p: str, value: str, s: str, o: str, triples: LayeredTriples) -> Iterable[Triple]:
    """cls-hv1; cls-hv2 is the table ``by_value``."""
    return ((s, p, value),)


def _at_most_one_by_member(p: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """cls-maxc2, cls-maxqc3 and cls-maxqc4, triggered by the membership."""
    values = [value for value in triples.objects(s, p) if _counts(value, filler, triples)]
    return ((a, SAME, b) for a in values for b in values if _are_distinct_individuals(a, b))


def _at_most_one_by_value(c: str, p: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """cls-maxc2, cls-maxqc3 and cls-maxqc4, triggered by a value."""
    return _at_most_one_by_member(p, filler, s, o, triples) if (s, TYPE, c) in triples else iter(())


def _at_most_one_by_filler(c: str, p: str, filler: str, s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """cls-maxqc3, triggered by the class of a value."""
    for subject in triples.subjects(p, s):
        if (subject, TYPE, c) in triples:
            yield from _at_most_one_by_member(p, filler, subject, o, triples)


def _counts(value: str, filler: str, triples: LayeredTriples) -> bool:
    return filler == v.THING or (value, TYPE, filler) in triples


def _key(c: str, properties: tuple[str, ...], s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """prp-key: two members of the class that share a value of every key property."""
    if (s, TYPE, c) not in triples:
        return iter(())
    sharing = [
        {subject for value in triples.objects(s, p) for subject in triples.subjects(p, value)} for p in properties
    ]
    equal = set.intersection(*sharing) - {s}
    return ((s, SAME, individual) for individual in equal if (individual, TYPE, c) in triples)


def _same(s: str, o: str, triples: LayeredTriples) -> Iterator[Triple]:
    """eq-sym, and eq-rep for triples known before the owl:sameAs triple. eq-trans is eq-rep on owl:sameAs."""
    yield o, SAME, s
    for triple in triples.mentioning(s):
        for position in range(3):
            if triple[position] == s:
                yield _with_term(triple, position, o)


def _replaced(triple: Triple, triples: LayeredTriples) -> Iterator[Triple]:
    """eq-rep-s, eq-rep-p and eq-rep-o for a triple inferred after the owl:sameAs triple."""
    for position in range(3):
        for term in triples.objects(triple[position], SAME):
            yield _with_term(triple, position, term)


def _with_term(triple: Triple, position: int, term: str) -> Triple:
    terms = list(triple)
    terms[position] = term
    return terms[0], terms[1], terms[2]


def _are_distinct_individuals(a: str, b: str) -> bool:
    """Whether two terms differ and neither is a literal: owl:sameAs is inferred only between individuals."""
    return a != b and not v.is_literal(a) and not v.is_literal(b)


def has_datatype(literal: str, datatype: str) -> bool:
    """Whether the datatype of a literal is the given one or derived from it.

    >>> has_datatype('"5"^^<http://www.w3.org/2001/XMLSchema#int>', "<http://www.w3.org/2001/XMLSchema#decimal>")
    True
    """
    current: str | None = literal_parts(literal)[1]
    if datatype == v.ANY_LITERAL:
        return True
    while current is not None:
        if iri(current) == datatype:
            return True
        parent = _XSD_PARENT.get(current.removeprefix(XSD)) if current.startswith(XSD) else None
        current = XSD + parent if parent else None
    return False
