"""Finds inconsistencies between triples and an ontology, by the OWL 2 RL rules whose conclusion is *false*.

These rules infer nothing and never stop matching. They are for reports: which individual, which axiom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from motet.ontology import owl_names as v
from motet.ontology.entailment import Reasoner
from motet.ontology.layered_triples import LayeredTriples
from motet.ontology.owl_names import DIFFERENT, SAME, TYPE, Triple, abbreviate


@dataclass(frozen=True, slots=True, order=True)
class Inconsistency:
    """One violated rule of the profile, with its subject and the reason."""

    rule: str
    subject: str
    reason: str

    def __str__(self) -> str:
        return f"{abbreviate(self.subject)} {self.reason} ({self.rule})"


class InconsistencyChecker:
    """Finds inconsistencies under the ontology of a reasoner.

    >>> reasoner = Reasoner([("<urn:Cat>", v.DISJOINT, "<urn:Dog>")])
    >>> event = [("<urn:x>", TYPE, "<urn:Cat>"), ("<urn:x>", TYPE, "<urn:Dog>")]
    >>> [str(inconsistency) for inconsistency in InconsistencyChecker(reasoner).check_event(event)]
    ['<urn:x> belongs to <urn:Cat> and to <urn:Dog>, which have no common member (cax-dw)']
    """

    def __init__(self, reasoner: Reasoner) -> None:
        axioms = reasoner.axioms
        self._reasoner = reasoner
        self._disjoint_classes = _symmetric(axioms.disjoint_classes)
        self._complements = _symmetric(axioms.complements)
        self._disjoint_properties = _symmetric(axioms.disjoint_properties)
        self._irreflexive, self._asymmetric = frozenset(axioms.irreflexive), frozenset(axioms.asymmetric)
        self._negative_assertions = frozenset(axioms.negative_assertions)
        self._different = {*axioms.different, *((b, a) for a, b in axioms.different)}
        self._max_zero_by_property: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        self._max_zero_by_class: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for c, p, cardinality, filler in axioms.at_most:
            if cardinality == 0:
                self._max_zero_by_property[p].append((c, filler))
                self._max_zero_by_class[c].append((p, filler))

    def check_background(self) -> tuple[Inconsistency, ...]:
        """Inconsistencies of the ontology with its individuals."""
        return self._among(self._reasoner.closed_background)

    def check_event(self, event: Iterable[Triple]) -> tuple[Inconsistency, ...]:
        """Inconsistencies that an event causes."""
        return self._among(self._reasoner.close_layered(event))

    def _among(self, layer: LayeredTriples) -> tuple[Inconsistency, ...]:
        return tuple(sorted({inconsistency for triple in layer.triples for inconsistency in self._of(triple, layer)}))

    def _of(self, triple: Triple, layer: LayeredTriples) -> Iterator[Inconsistency]:
        s, p, o = triple
        if p == TYPE:
            yield from self._of_member(s, o, layer)
        if p in (SAME, DIFFERENT):
            yield from self._of_identity(s, p, o, layer)
        if p in self._irreflexive and s == o:
            yield Inconsistency("prp-irp", s, f"has {abbreviate(p)} to itself")
        if p in self._asymmetric and (o, p, s) in layer:
            a, b = sorted((s, o))
            yield Inconsistency("prp-asyp", a, f"has {abbreviate(p)} to {abbreviate(b)}, which has it back")
        for q in self._disjoint_properties.get(p, ()):
            if (s, q, o) in layer:
                first, second = sorted((p, q))
                yield Inconsistency(
                    "prp-pdw", s, f"has both {abbreviate(first)} and {abbreviate(second)} to {abbreviate(o)}"
                )
        if triple in self._negative_assertions:
            yield Inconsistency("prp-npa", s, f"has {abbreviate(p)} {abbreviate(o)}, which is denied")
        for c, filler in self._max_zero_by_property.get(p, ()):
            if (s, TYPE, c) in layer and (filler == v.THING or (o, TYPE, filler) in layer):
                yield Inconsistency("cls-maxc1", s, f"has {abbreviate(p)} {abbreviate(o)}, but may have none")

    def _of_member(self, s: str, c: str, layer: LayeredTriples) -> Iterator[Inconsistency]:
        if c == v.NOTHING:
            yield Inconsistency("cls-nothing2", s, "belongs to owl:Nothing")
        for rule, table in (("cax-dw", self._disjoint_classes), ("cls-com", self._complements)):
            for disjoint in table.get(c, ()):
                if (s, TYPE, disjoint) in layer:
                    first, second = sorted((c, disjoint))
                    sides = f"belongs to {abbreviate(first)} and to {abbreviate(second)}"
                    yield Inconsistency(rule, s, f"{sides}, which have no common member")
        for p, filler in self._max_zero_by_class.get(c, ()):
            for value in layer.objects(s, p):
                if filler == v.THING or (value, TYPE, filler) in layer:
                    yield Inconsistency("cls-maxc1", s, f"has {abbreviate(p)} {abbreviate(value)}, but may have none")

    def _of_identity(self, s: str, p: str, o: str, layer: LayeredTriples) -> Iterator[Inconsistency]:
        first, second = sorted((s, o))
        if p == SAME:
            is_inconsistent = (s, o) in self._different or (s, DIFFERENT, o) in layer or (o, DIFFERENT, s) in layer
        else:
            is_inconsistent = s == o or (s, SAME, o) in layer or (o, SAME, s) in layer
        if is_inconsistent:
            yield Inconsistency("eq-diff", first, f"is both the same as and different from {abbreviate(second)}")


def _symmetric(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    table: defaultdict[str, set[str]] = defaultdict(set)
    for a, b in pairs:
        table[a].add(b)
        table[b].add(a)
    return {name: sorted(partners) for name, partners in table.items()}
