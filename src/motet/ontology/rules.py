"""Which OWL 2 RL rules fire when a triple becomes known?

Each rule of the profile's tables is a function named after what it says, bound to its axiom with ``partial`` and filed
under the class or the property that sets it off. It is given the subject and object of the triple and everything known,
and returns what follows. Hierarchies, domains and ranges are not here: ``schema`` has closed them.

Left out, because nothing that matches depends on it: eq-ref (everything is the same as itself), the datatype rules that
would need literals as subjects, and the rules that only find contradictions (see ``clashes``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from motet.model.terms import XSD, iri, literal_parts
from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms
from motet.ontology.facts import Facts
from motet.ontology.vocabulary import SAME, TYPE, Triple

#: (subject, object, everything known) → what follows
Rule = Callable[[str, str, Facts], Iterable[Triple]]

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
    """The rules of one ontology, by what sets them off."""

    by_class: dict[str, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    by_property: dict[str, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    #: (property, value) → the classes ``property value v``
    by_value: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))

    def follow(self, triple: Triple, facts: Facts) -> Iterator[Triple]:
        """What the rules derive from a triple together with the facts."""
        s, p, o = triple
        if p == TYPE:
            for rule in self.by_class.get(o, ()):
                yield from rule(s, o, facts)
        for rule in self.by_property.get(p, ()):
            yield from rule(s, o, facts)
        for c in self.by_value.get((p, o), ()):
            yield s, TYPE, c
        if facts.has_same and SAME in self.by_property:
            yield from _replaced(triple, facts)

    def sets_off(self, triple: Triple) -> bool:
        """Whether any rule looks at the triple at all."""
        _, p, o = triple
        return p in self.by_property or (p == TYPE and o in self.by_class) or (p, o) in self.by_value

    def __bool__(self) -> bool:
        """Whether there is any rule besides owl:sameAs."""
        return bool(self.by_class or self.by_value or self.by_property.keys() - {SAME})


def compile_rules(axioms: Axioms) -> Rules:
    """File each axiom's rules under the classes and properties that set them off."""
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
        for place, link in enumerate(links):
            rules.by_property[link].append(partial(_chain, p, links[:place][::-1], links[place + 1 :]))
    for whole, parts in axioms.intersections:
        for part in set(parts):
            rules.by_class[part].append(partial(_intersection, whole, tuple(set(parts) - {part})))
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
    for c, p, number, filler in axioms.at_most:
        if number == 1:
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
    """Rule cls-oo: what ``oneOf`` lists belongs to the class, event or no event."""
    return ((member, TYPE, c) for c, members in axioms.enumerations for member in members)


def _inverse(other: str, s: str, o: str, facts: Facts) -> Iterable[Triple]:
    """prp-inv1, prp-inv2, prp-symp."""
    return ((o, other, s),)


def _transitive(p: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """prp-trp."""
    yield from ((s, p, further) for further in facts.objects(o, p))
    yield from ((earlier, p, o) for earlier in facts.subjects(p, s))


def _chain(p: str, before: Sequence[str], after: Sequence[str], s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """prp-spo2, from the link that was just found outwards to both ends."""
    starts, ends = {s}, {o}
    for link in before:
        starts = {earlier for node in starts for earlier in facts.subjects(link, node)}
    for link in after:
        ends = {further for node in ends for further in facts.objects(node, link)}
    return ((start, p, end) for start in starts for end in ends)


def _functional(p: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """prp-fp. Symmetry follows from owl:sameAs itself."""
    return ((o, SAME, other) for other in facts.objects(s, p) if _two_things(o, other))


def _inverse_functional(p: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """prp-ifp."""
    return ((s, SAME, other) for other in facts.subjects(p, o) if other != s)


def _intersection(whole: str, others: tuple[str, ...], s: str, o: str, facts: Facts) -> Iterable[Triple]:
    """cls-int1."""
    return ((s, TYPE, whole),) if all((s, TYPE, other) in facts for other in others) else ()


def _some_by_value(c: str, filler: str, s: str, o: str, facts: Facts) -> Iterable[Triple]:
    """cls-svf1, when the value was just found."""
    holds = has_datatype(o, filler) if v.is_literal(o) else (o, TYPE, filler) in facts
    return ((s, TYPE, c),) if holds else ()


def _some_by_member(c: str, p: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """cls-svf1, when the value's class was just found."""
    return ((subject, TYPE, c) for subject in facts.subjects(p, s))


def _only_by_value(c: str, filler: str, s: str, o: str, facts: Facts) -> Iterable[Triple]:
    """cls-avf, when the value was just found."""
    return ((o, TYPE, filler),) if (s, TYPE, c) in facts else ()


def _only_by_member(p: str, filler: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """cls-avf, when the membership was just found."""
    return ((value, TYPE, filler) for value in facts.objects(s, p))


def _has_value(p: str, value: str, s: str, o: str, facts: Facts) -> Iterable[Triple]:
    """cls-hv1; cls-hv2 is the table ``by_value``."""
    return ((s, p, value),)


def _at_most_one_by_member(p: str, filler: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """cls-maxc2, cls-maxqc3 and cls-maxqc4, when the membership was just found."""
    values = [value for value in facts.objects(s, p) if _counts(value, filler, facts)]
    return ((a, SAME, b) for a in values for b in values if _two_things(a, b))


def _at_most_one_by_value(c: str, p: str, filler: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """The same three, when a value was just found."""
    return _at_most_one_by_member(p, filler, s, o, facts) if (s, TYPE, c) in facts else iter(())


def _at_most_one_by_filler(c: str, p: str, filler: str, s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """cls-maxqc3, when a value's class was just found."""
    for owner in facts.subjects(p, s):
        if (owner, TYPE, c) in facts:
            yield from _at_most_one_by_member(p, filler, owner, o, facts)


def _counts(value: str, filler: str, facts: Facts) -> bool:
    return filler == v.THING or (value, TYPE, filler) in facts


def _key(c: str, properties: tuple[str, ...], s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """prp-key: two members of the class that share a value of every key property."""
    if (s, TYPE, c) not in facts:
        return iter(())
    shares = [{other for value in facts.objects(s, p) for other in facts.subjects(p, value)} for p in properties]
    return ((s, SAME, other) for other in set.intersection(*shares) if other != s and (other, TYPE, c) in facts)


def _same(s: str, o: str, facts: Facts) -> Iterator[Triple]:
    """eq-sym, and eq-rep for what was known before the two were found to be one. eq-trans is eq-rep on owl:sameAs."""
    yield o, SAME, s
    for triple in facts.about(s):
        for place in range(3):
            if triple[place] == s:
                yield _with(triple, place, o)


def _replaced(triple: Triple, facts: Facts) -> Iterator[Triple]:
    """eq-rep-s, eq-rep-p, eq-rep-o for a triple found after the two were found to be one."""
    for place in range(3):
        for other in facts.objects(triple[place], SAME):
            yield _with(triple, place, other)


def _with(triple: Triple, place: int, term: str) -> Triple:
    parts = list(triple)
    parts[place] = term
    return parts[0], parts[1], parts[2]


def _two_things(a: str, b: str) -> bool:
    """owl:sameAs is found between individuals only: literals are what they are."""
    return a != b and not v.is_literal(a) and not v.is_literal(b)


def has_datatype(literal: str, datatype: str) -> bool:
    """
    >>> has_datatype('"5"^^<http://www.w3.org/2001/XMLSchema#int>', "<http://www.w3.org/2001/XMLSchema#decimal>")
    True
    """
    own: str | None = literal_parts(literal)[1]
    if datatype == v.ANY_LITERAL:
        return True
    while own is not None:
        if iri(own) == datatype:
            return True
        parent = _XSD_PARENT.get(own.removeprefix(XSD)) if own.startswith(XSD) else None
        own = XSD + parent if parent else None
    return False
