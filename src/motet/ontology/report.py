"""Is an ontology whole, free of contradictions, and can every class have a member?

Each problem comes with the axioms it follows from.
"""

from __future__ import annotations

from dataclasses import dataclass

from motet.model.terms import iri_value
from motet.ontology.clashes import Clashes
from motet.ontology.entailment import Reasoner
from motet.ontology.explain import shortened
from motet.ontology.hierarchy import classify, explain_clash, explain_unsatisfiable
from motet.ontology.load import Ontology

#: Problems of a kind that get their axioms; each costs as much as loading the ontology some dozens of times.
EXPLAINED = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """What it is about, in words, and the smallest set of axioms it follows from (empty past the first few)."""

    about: str
    message: str
    axioms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    files: tuple[str, ...]
    triples: int
    classes: int
    missing_imports: tuple[Problem, ...]
    contradictions: tuple[Problem, ...]
    unsatisfiable: tuple[Problem, ...]

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self.missing_imports + self.contradictions + self.unsatisfiable


def examine(ontology: Ontology, *, explained: int = EXPLAINED) -> Report:
    """
    >>> from motet.ontology import vocabulary as v
    >>> cat, dog, imp = "<urn:Cat>", "<urn:Dog>", "<urn:Imp>"
    >>> odd = Ontology(((cat, v.DISJOINT, dog), (imp, v.SUBCLASS, cat), (imp, v.SUBCLASS, dog)))
    >>> [problem.message for problem in examine(odd).problems]
    ['<urn:Imp> can have no member']
    """
    reasoner = Reasoner(ontology.triples)
    hierarchy = classify(ontology, reasoner=reasoner)
    clashes = Clashes(reasoner).in_background()
    return Report(
        files=ontology.sources,
        triples=len(ontology.triples),
        classes=len(hierarchy.node_of),
        missing_imports=tuple(
            Problem(iri_value(name), f"{source} imports {name}, which is not at hand")
            for name, source in sorted(ontology.missing.items())
        ),
        contradictions=tuple(
            Problem(iri_value(clash.subject), str(clash), explain_clash(ontology, clash) if place < explained else ())
            for place, clash in enumerate(clashes)
        ),
        unsatisfiable=tuple(
            Problem(
                iri_value(name),
                f"{shortened(name)} can have no member",
                explain_unsatisfiable(ontology, name) if place < explained else (),
            )
            for place, name in enumerate(sorted(hierarchy.unsatisfiable))
        ),
    )
