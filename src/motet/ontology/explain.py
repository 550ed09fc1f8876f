"""Explains consequences of an ontology by minimal sets of axioms, and checks an ontology for problems.

An explanation is a minimal set of axioms with a consequence: without any one of them the consequence does not hold. It
is found by testing smaller and smaller subsets with the reasoner (QuickXplain), for any kind of consequence.
``check_ontology`` reports missing imports, inconsistencies and unsatisfiable classes, with their explanations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from motet.model.terms import RDFS, iri_value
from motet.ontology import owl_names as v
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import INSTANCE, classify
from motet.ontology.inconsistencies import Inconsistency, InconsistencyChecker
from motet.ontology.load import Ontology
from motet.ontology.owl_names import TYPE, Triple, abbreviate

#: One axiom: a triple with its class expressions and lists.
Axiom = frozenset[Triple]
Holds = Callable[[Iterable[Triple]], bool]

#: Maximum nesting of a formatted class expression.
_MAX_DEPTH = 20
_VOCABULARY = tuple(f"<{space}" for space in v.PREFIXES)
_ANNOTATIONS = frozenset(f"<{RDFS}{name}>" for name in ("label", "comment", "seeAlso", "isDefinedBy"))


def explain(triples: Iterable[Triple], holds: Holds, about: Iterable[str]) -> tuple[str, ...]:
    """A minimal set of axioms for which ``holds`` is true, as text; empty if it is false for the whole ontology.

    ``about`` are the names in the consequence: axioms near them are tried first.
    """
    stated = frozenset(triples)
    near = _nearest(group_axioms(_logical(stated)), frozenset(about), holds)
    minimal = _minimise([], near, holds) if near is not None else []
    return tuple(sorted(format_axiom(axiom) for axiom in minimal))


def _logical(stated: Iterable[Triple]) -> list[Triple]:
    """The triples that can have consequences: those whose predicate is OWL or RDFS vocabulary, or in another triple.

    Annotations, such as labels, are most of a published ontology, and would connect all its axioms.
    """
    triples = list(stated)
    mentioned = {term for s, _, o in triples for term in (s, o)}
    return [t for t in triples if t[1] in mentioned or (t[1].startswith(_VOCABULARY) and t[1] not in _ANNOTATIONS)]


def group_axioms(triples: Iterable[Triple]) -> list[Axiom]:
    """Group triples into axioms; the root of an axiom is a named node, or a blank node without references."""
    stated = sorted(set(triples))
    by_subject: defaultdict[str, list[Triple]] = defaultdict(list)
    objects = {o for _, _, o in stated}
    for triple in stated:
        by_subject[triple[0]].append(triple)
    named = [_with_expressions([t], by_subject) for t in stated if not v.is_blank(t[0])]
    roots = [s for s in sorted(by_subject) if v.is_blank(s) and s not in objects]
    return named + [_with_expressions(by_subject[root], by_subject) for root in roots]


def _with_expressions(roots: Iterable[Triple], by_subject: Mapping[str, Sequence[Triple]]) -> Axiom:
    axiom: set[Triple] = set()
    stack = list(roots)
    while stack:
        triple = stack.pop()
        if triple not in axiom:
            axiom.add(triple)
            stack.extend(by_subject.get(triple[2], ()) if v.is_blank(triple[2]) else ())
    return frozenset(axiom)


def _nearest(axioms: list[Axiom], names: frozenset[str], holds: Holds) -> list[Axiom] | None:
    """The axioms within the least distance of the names for which ``holds`` is true, nearest first."""
    near: list[Axiom] = []
    remaining = axioms
    while remaining:
        adjacent = [axiom for axiom in remaining if not names.isdisjoint(_names(axiom))]
        if not adjacent:
            near, remaining = near + remaining, []
        else:
            near, remaining = near + adjacent, [axiom for axiom in remaining if names.isdisjoint(_names(axiom))]
            names |= {name for axiom in adjacent for name in _names(axiom)}
        if holds(_triples(near)):
            return near
    return None


def _names(axiom: Axiom) -> set[str]:
    """The names that connect an axiom to others: all but those of RDF, RDFS, OWL and XSD."""
    terms = {term for triple in axiom for term in triple}
    return {term for term in terms if not term.startswith((*_VOCABULARY, '"'))}


def _minimise(fixed: list[Axiom], candidates: list[Axiom], holds: Holds) -> list[Axiom]:
    """QuickXplain: a minimal subset of ``candidates`` that suffices together with ``fixed``."""
    if holds(_triples(fixed)):
        return []
    if len(candidates) == 1:
        return candidates
    half = len(candidates) // 2
    left, right = candidates[:half], candidates[half:]
    minimal_right = _minimise(fixed + left, right, holds)
    minimal_left = _minimise(fixed + minimal_right, left, holds)
    return minimal_left + minimal_right


def _triples(axioms: Iterable[Axiom]) -> set[Triple]:
    return {triple for axiom in axioms for triple in axiom}


def format_axiom(axiom: Axiom) -> str:
    """An axiom as one line of Turtle.

    >>> format_axiom(frozenset({("<urn:A>", v.SUBCLASS, "_:b"), ("_:b", v.ON_PROPERTY, "<urn:p>")}))
    '<urn:A> rdfs:subClassOf [ owl:onProperty <urn:p> ]'
    """
    by_subject: defaultdict[str, list[Triple]] = defaultdict(list)
    for triple in sorted(axiom):
        by_subject[triple[0]].append(triple)
    objects = {o for _, _, o in axiom}
    root = next((s for s in sorted(by_subject) if s not in objects), min(by_subject))
    subject = "[]" if v.is_blank(root) else v.abbreviate(root)
    return f"{subject} {_predicates(by_subject[root], by_subject)}"


def _predicates(triples: Iterable[Triple], by_subject: Mapping[str, Sequence[Triple]], depth: int = 0) -> str:
    return " ; ".join(f"{v.abbreviate(p)} {_node(o, by_subject, depth + 1)}" for _, p, o in triples)


def _node(term: str, by_subject: Mapping[str, Sequence[Triple]], depth: int) -> str:
    if not v.is_blank(term) or term not in by_subject:
        return v.abbreviate(term)
    if depth > _MAX_DEPTH:
        return "…"
    if any(p == v.FIRST for _, p, _ in by_subject[term]):
        return f"( {' '.join(_items(term, by_subject, depth))} )"
    return f"[ {_predicates(by_subject[term], by_subject, depth)} ]"


def _items(head: str, by_subject: Mapping[str, Sequence[Triple]], depth: int) -> list[str]:
    items = []
    while head in by_subject:
        cell = {p: o for _, p, o in by_subject[head]}
        items.append(_node(cell[v.FIRST], by_subject, depth + 1))
        head = cell[v.REST]
    return items


#: Problems of one kind that are explained; each explanation takes as long as loading the ontology dozens of times.
MAX_EXPLAINED = 10


@dataclass(frozen=True, slots=True)
class OntologyProblem:
    """A problem with its subject, message and minimal axioms (empty after the first ``MAX_EXPLAINED`` problems)."""

    about: str
    message: str
    axioms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OntologyReport:
    files: tuple[str, ...]
    triples: int
    classes: int
    missing_imports: tuple[OntologyProblem, ...]
    contradictions: tuple[OntologyProblem, ...]
    unsatisfiable: tuple[OntologyProblem, ...]

    @property
    def problems(self) -> tuple[OntologyProblem, ...]:
        """What is wrong with the axioms; missing imports are not, they are only named."""
        return self.contradictions + self.unsatisfiable


def check_ontology(ontology: Ontology, *, max_explained: int = MAX_EXPLAINED) -> OntologyReport:
    """Check for missing imports, inconsistencies and unsatisfiable classes.

    >>> cat, dog, imp = "<urn:Cat>", "<urn:Dog>", "<urn:Imp>"
    >>> pets = Ontology(((cat, v.DISJOINT, dog), (imp, v.SUBCLASS, cat), (imp, v.SUBCLASS, dog)))
    >>> [problem.message for problem in check_ontology(pets).problems]
    ['<urn:Imp> can have no member']
    """
    reasoner = Reasoner(ontology.triples)
    hierarchy = classify(ontology, reasoner=reasoner)
    inconsistencies = InconsistencyChecker(reasoner).check_background()
    return OntologyReport(
        files=ontology.sources,
        triples=len(ontology.triples),
        classes=len(hierarchy.node_of),
        missing_imports=tuple(
            OntologyProblem(iri_value(name), f"{source} imports {name}, which is missing")
            for name, source in sorted(ontology.missing.items())
        ),
        contradictions=tuple(
            OntologyProblem(
                iri_value(inconsistency.subject),
                str(inconsistency),
                explain_inconsistency(ontology, inconsistency) if index < max_explained else (),
            )
            for index, inconsistency in enumerate(inconsistencies)
        ),
        unsatisfiable=tuple(
            OntologyProblem(
                iri_value(name),
                f"{abbreviate(name)} can have no member",
                explain_unsatisfiable(ontology, name) if index < max_explained else (),
            )
            for index, name in enumerate(sorted(hierarchy.unsatisfiable))
        ),
    )


def explain_unsatisfiable(ontology: Ontology, name: str) -> tuple[str, ...]:
    """The axioms that make a class unsatisfiable."""

    def is_unsatisfiable(triples: Iterable[Triple]) -> bool:
        return bool(InconsistencyChecker(Reasoner(triples)).check_event([(INSTANCE, TYPE, name)]))

    return explain(ontology.triples, is_unsatisfiable, [name])


def explain_inconsistency(ontology: Ontology, inconsistency: Inconsistency) -> tuple[str, ...]:
    """The axioms and triples behind one inconsistency of an ontology with its individuals."""

    def has_inconsistency(triples: Iterable[Triple]) -> bool:
        return inconsistency in InconsistencyChecker(Reasoner(triples)).check_background()

    return explain(ontology.triples, has_inconsistency, [inconsistency.subject])
