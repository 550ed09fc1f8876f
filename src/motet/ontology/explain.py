"""Which axioms are to blame?

A consequence is explained by a smallest set of axioms that still has it: leave out any one and it is gone. Found by
asking the reasoner about ever smaller parts of the ontology (QuickXplain), so it works for every consequence alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from motet.model.terms import OWL, RDF, RDFS, XSD
from motet.ontology import vocabulary as v
from motet.ontology.vocabulary import Triple

#: One axiom: a triple with the class expressions and lists it is made of.
Axiom = frozenset[Triple]
Holds = Callable[[Iterable[Triple]], bool]

#: Levels of class expressions that are shown.
_DEEP = 20
_PREFIXES = {RDF: "rdf:", RDFS: "rdfs:", OWL: "owl:", XSD: "xsd:"}
_VOCABULARY = tuple(f"<{space}" for space in _PREFIXES)
_ANNOTATIONS = frozenset(f"<{RDFS}{name}>" for name in ("label", "comment", "seeAlso", "isDefinedBy"))


def explain(triples: Iterable[Triple], holds: Holds, about: Iterable[str]) -> tuple[str, ...]:
    """The axioms, as text, of one smallest part of the ontology for which ``holds`` is true; empty if it never is.

    ``about`` names what the consequence is about: axioms near those names are tried first.
    """
    stated = frozenset(triples)
    near = _near(axioms_of(_telling(stated)), frozenset(about), holds)
    blamed = _smallest([], near, holds) if near is not None else []
    return tuple(sorted(show(axiom) for axiom in blamed))


def _telling(stated: Iterable[Triple]) -> list[Triple]:
    """The triples from which something can follow: not those whose predicate is a mere name to all the others.

    Labels, sources and the like are most of a published ontology, and connect everything with everything.
    """
    triples = list(stated)
    mentioned = {term for s, _, o in triples for term in (s, o)}
    return [t for t in triples if t[1] in mentioned or (t[1].startswith(_VOCABULARY) and t[1] not in _ANNOTATIONS)]


def axioms_of(triples: Iterable[Triple]) -> list[Axiom]:
    """The triples gathered into axioms: each has one root that is named, or a blank node that nothing refers to."""
    stated = sorted(set(triples))
    parts: defaultdict[str, list[Triple]] = defaultdict(list)
    referred = {o for _, _, o in stated}
    for triple in stated:
        parts[triple[0]].append(triple)
    named = [_with_parts([t], parts) for t in stated if not v.is_blank(t[0])]
    roots = [s for s in sorted(parts) if v.is_blank(s) and s not in referred]
    return named + [_with_parts(parts[root], parts) for root in roots]


def _with_parts(roots: Iterable[Triple], parts: Mapping[str, Sequence[Triple]]) -> Axiom:
    found: set[Triple] = set()
    waiting = list(roots)
    while waiting:
        triple = waiting.pop()
        if triple not in found:
            found.add(triple)
            waiting.extend(parts.get(triple[2], ()) if v.is_blank(triple[2]) else ())
    return frozenset(found)


def _near(axioms: list[Axiom], names: frozenset[str], holds: Holds) -> list[Axiom] | None:
    """The axioms within the fewest steps of the names that suffice, nearest first."""
    near: list[Axiom] = []
    rest = axioms
    while rest:
        reached = [axiom for axiom in rest if not names.isdisjoint(_names(axiom))]
        if not reached:
            near, rest = near + rest, []
        else:
            near, rest = near + reached, [axiom for axiom in rest if names.isdisjoint(_names(axiom))]
            names |= {name for axiom in reached for name in _names(axiom)}
        if holds(_triples(near)):
            return near
    return None


def _names(axiom: Axiom) -> set[str]:
    """What connects an axiom to others. The vocabulary itself connects everything and counts for nothing."""
    terms = {term for triple in axiom for term in triple}
    return {term for term in terms if not term.startswith((*_VOCABULARY, '"'))}


def _smallest(fixed: list[Axiom], open_: list[Axiom], holds: Holds) -> list[Axiom]:
    """QuickXplain: the part of ``open_`` that is needed when ``fixed`` is given."""
    if holds(_triples(fixed)):
        return []
    if len(open_) == 1:
        return open_
    half = len(open_) // 2
    left, right = open_[:half], open_[half:]
    needed_right = _smallest(fixed + left, right, holds)
    needed_left = _smallest(fixed + needed_right, left, holds)
    return needed_left + needed_right


def _triples(axioms: Iterable[Axiom]) -> set[Triple]:
    return {triple for axiom in axioms for triple in axiom}


def show(axiom: Axiom) -> str:
    """An axiom in one line, in the manner of Turtle.

    >>> show(frozenset({("<urn:A>", v.SUBCLASS, "_:b"), ("_:b", v.ON_PROPERTY, "<urn:p>")}))
    '<urn:A> rdfs:subClassOf [ owl:onProperty <urn:p> ]'
    """
    parts: defaultdict[str, list[Triple]] = defaultdict(list)
    for triple in sorted(axiom):
        parts[triple[0]].append(triple)
    referred = {o for _, _, o in axiom}
    root = next((s for s in sorted(parts) if s not in referred), min(parts))
    subject = "[]" if v.is_blank(root) else shortened(root)
    return f"{subject} {_predicates(parts[root], parts)}"


def shortened(term: str) -> str:
    """A term with the prefixes everyone knows."""
    for space, prefix in _PREFIXES.items():
        if term.startswith(f"<{space}"):
            return prefix + term[len(space) + 1 : -1]
    return term


def _predicates(triples: Iterable[Triple], parts: Mapping[str, Sequence[Triple]], depth: int = 0) -> str:
    return " ; ".join(f"{shortened(p)} {_node(o, parts, depth + 1)}" for _, p, o in triples)


def _node(term: str, parts: Mapping[str, Sequence[Triple]], depth: int) -> str:
    if not v.is_blank(term) or term not in parts:
        return shortened(term)
    if depth > _DEEP:
        return "…"
    if any(p == v.FIRST for _, p, _ in parts[term]):
        return f"( {' '.join(_items(term, parts, depth))} )"
    return f"[ {_predicates(parts[term], parts, depth)} ]"


def _items(head: str, parts: Mapping[str, Sequence[Triple]], depth: int) -> list[str]:
    items = []
    while head in parts:
        cell = {p: o for _, p, o in parts[head]}
        items.append(_node(cell[v.FIRST], parts, depth + 1))
        head = cell[v.REST]
    return items
