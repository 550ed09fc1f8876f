"""Where do the facts contradict the ontology?

The OWL 2 RL rules whose conclusion is *false*. They derive nothing and never stop matching; they are for reports: which
event, which individuals, which axiom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from motet.ontology import vocabulary as v
from motet.ontology.entailment import Reasoner
from motet.ontology.explain import shortened
from motet.ontology.facts import Facts
from motet.ontology.vocabulary import DIFFERENT, SAME, TYPE, Triple


@dataclass(frozen=True, slots=True, order=True)
class Clash:
    """One contradiction: the rule of the profile it breaks, what it is about, and the two sides of it."""

    rule: str
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{shortened(self.subject)} {self.reason} ({self.rule})"


class Clashes:
    """Contradictions under one reasoner's ontology.

    >>> reasoner = Reasoner([("<urn:Cat>", v.DISJOINT, "<urn:Dog>")])
    >>> [str(c) for c in Clashes(reasoner).in_event([("<urn:x>", TYPE, "<urn:Cat>"), ("<urn:x>", TYPE, "<urn:Dog>")])]
    ['<urn:x> belongs to <urn:Cat> and to <urn:Dog>, which have no common member (cax-dw)']
    """

    def __init__(self, reasoner: Reasoner) -> None:
        axioms = reasoner.axioms
        self._reasoner = reasoner
        self._apart = _both_ways(axioms.disjoint_classes)
        self._opposite = _both_ways(axioms.complements)
        self._exclusive = _both_ways(axioms.disjoint_properties)
        self._irreflexive, self._asymmetric = frozenset(axioms.irreflexive), frozenset(axioms.asymmetric)
        self._denied = frozenset(axioms.denied)
        self._different = {*axioms.different, *((b, a) for a, b in axioms.different)}
        self._none_of: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self._none_by_class: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for c, p, number, filler in axioms.at_most:
            if number == 0:
                self._none_of[p].append((c, filler))
                self._none_by_class[c].append((p, filler))

    def in_background(self) -> tuple[Clash, ...]:
        """Contradictions of the ontology with its own individuals."""
        return self._among(self._reasoner.closed_background)

    def in_event(self, event: Iterable[Triple]) -> tuple[Clash, ...]:
        """Contradictions that the event brings about."""
        return self._among(self._reasoner.layer(event))

    def _among(self, facts: Facts) -> tuple[Clash, ...]:
        found = {clash for triple in facts.triples for clash in self._of(triple, facts)}
        return tuple(sorted(found))

    def _of(self, triple: Triple, facts: Facts) -> Iterator[Clash]:
        s, p, o = triple
        if p == TYPE:
            yield from self._of_member(s, o, facts)
        if p in (SAME, DIFFERENT):
            yield from self._of_identity(s, p, o, facts)
        if p in self._irreflexive and s == o:
            yield Clash("prp-irp", s, f"has {shortened(p)} to itself")
        if p in self._asymmetric and (o, p, s) in facts:
            a, b = sorted((s, o))
            yield Clash("prp-asyp", a, f"has {shortened(p)} to {shortened(b)}, which has it back")
        for q in self._exclusive.get(p, ()):
            if (s, q, o) in facts:
                first, second = sorted((p, q))
                yield Clash("prp-pdw", s, f"has both {shortened(first)} and {shortened(second)} to {shortened(o)}")
        if triple in self._denied:
            yield Clash("prp-npa", s, f"has {shortened(p)} {shortened(o)}, which is denied")
        for c, filler in self._none_of.get(p, ()):
            if (s, TYPE, c) in facts and (filler == v.THING or (o, TYPE, filler) in facts):
                yield Clash("cls-maxc1", s, f"has {shortened(p)} {shortened(o)}, but may have none")

    def _of_member(self, s: str, c: str, facts: Facts) -> Iterator[Clash]:
        if c == v.NOTHING:
            yield Clash("cls-nothing2", s, "belongs to owl:Nothing")
        for rule, table in (("cax-dw", self._apart), ("cls-com", self._opposite)):
            for other in table.get(c, ()):
                if (s, TYPE, other) in facts:
                    first, second = sorted((c, other))
                    sides = f"belongs to {shortened(first)} and to {shortened(second)}"
                    yield Clash(rule, s, f"{sides}, which have no common member")
        for p, filler in self._none_by_class.get(c, ()):
            for value in facts.objects(s, p):
                if filler == v.THING or (value, TYPE, filler) in facts:
                    yield Clash("cls-maxc1", s, f"has {shortened(p)} {shortened(value)}, but may have none")

    def _of_identity(self, s: str, p: str, o: str, facts: Facts) -> Iterator[Clash]:
        first, second = sorted((s, o))
        if p == SAME:
            apart = (s, o) in self._different or (s, DIFFERENT, o) in facts or (o, DIFFERENT, s) in facts
        else:
            apart = s == o or (s, SAME, o) in facts or (o, SAME, s) in facts
        if apart:
            yield Clash("eq-diff", first, f"is both the same as and different from {shortened(second)}")


def _both_ways(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    table: defaultdict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        table[a].add(b)
        table[b].add(a)
    return {name: sorted(others) for name, others in table.items()}
