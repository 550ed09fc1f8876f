"""A textbook fixpoint of the OWL 2 RL rules: every rule over all triples, again and again, with no index.

The second opinion of the reasoner's tests. Axioms come from the ontology only, as in Motet; reflexive owl:sameAs and
the datatype rules are left out, as in Motet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from motet.ontology import owl_names as v
from motet.ontology.owl_names import SAME, SUBCLASS, SUBPROPERTY, TYPE, Triple


def owl_rl(ontology: Iterable[Triple], event: Iterable[Triple]) -> set[Triple]:
    """The OWL RL closure of ontology and event, without class expressions."""
    axioms = _schema_fixpoint(set(ontology))
    known = set(ontology) | set(event)
    known |= {(s, p, o) for s, p, o in axioms if p in (SUBCLASS, SUBPROPERTY) and s != o}
    while True:
        new = {t for t in _data_rules(axioms, known) if t[0][0] != '"' and t[1][0] != '"'} - known
        if not new:
            return {t for t in known if not any(term.startswith("_") for term in t)}
        known |= new


def rdfs(ontology: Iterable[Triple], event: Iterable[Triple]) -> set[Triple]:
    """The RDFS closure of ontology and event."""
    names = (SUBCLASS, SUBPROPERTY, v.DOMAIN, v.RANGE)
    stated = set(ontology)
    axioms = _transitive({t for t in stated if t[1] in names})
    known = stated | set(event) | {(s, p, o) for s, p, o in axioms if p in (SUBCLASS, SUBPROPERTY) and s != o}
    while True:
        new = {t for t in _hierarchy_rules(axioms, known) if t[0][0] != '"'} - known
        if not new:
            return {t for t in known if not any(term.startswith("_") for term in t)}
        known |= new


def items(graph: set[Triple], head: str) -> list[str]:
    if head == v.NIL:
        return []
    first = next(o for s, p, o in graph if s == head and p == v.FIRST)
    rest = next(o for s, p, o in graph if s == head and p == v.REST)
    return [first, *items(graph, rest)]


def _of(graph: set[Triple], predicate: str) -> list[tuple[str, str]]:
    return [(s, o) for s, p, o in graph if p == predicate]


def _typed(graph: set[Triple], kind: str) -> list[str]:
    return [s for s, p, o in graph if p == TYPE and o == kind]


def _restrictions(graph: set[Triple], kind: str) -> list[tuple[str, str, str]]:
    return [(c, p, y) for c, y in _of(graph, kind) for c2, p in _of(graph, v.ON_PROPERTY) if c == c2]


def _transitive(graph: set[Triple]) -> set[Triple]:
    graph = set(graph)
    while True:
        new = {
            (a, p, c) for a, p, b in graph if p in (SUBCLASS, SUBPROPERTY) for b2, p2, c in graph if b == b2 and p == p2
        } - graph
        if not new:
            return graph
        graph |= new


def _schema_fixpoint(graph: set[Triple]) -> set[Triple]:
    graph = _transitive(graph)
    while True:
        new = set(_schema_rules(graph)) - graph
        if not new:
            return graph
        graph = _transitive(graph | new)


def _schema_rules(g: set[Triple]) -> Iterator[Triple]:
    for a, b in _of(g, v.EQUIVALENT_CLASS):
        yield from ((a, SUBCLASS, b), (b, SUBCLASS, a))
    for a, b in _of(g, v.EQUIVALENT_PROPERTY):
        yield from ((a, SUBPROPERTY, b), (b, SUBPROPERTY, a))
    yield from ((c, SUBCLASS, v.THING) for c in _typed(g, v.OWL_CLASS))
    yield from ((c, SUBCLASS, part) for c, head in _of(g, v.INTERSECTION) for part in items(g, head))
    yield from ((part, SUBCLASS, c) for c, head in _of(g, v.UNION) for part in items(g, head))
    below = set(_of(g, SUBCLASS))
    under = set(_of(g, SUBPROPERTY))
    for kind in (v.SOME, v.ONLY, v.VALUE):
        found = _restrictions(g, kind)
        for c1, p1, y1 in found:
            for c2, p2, y2 in found:
                if kind != v.VALUE and p1 == p2 and (y1 == y2 or (y1, y2) in below):
                    yield c1, SUBCLASS, c2
                if y1 == y2 and (p1 == p2 or (p1, p2) in under):
                    yield (c2, SUBCLASS, c1) if kind == v.ONLY else (c1, SUBCLASS, c2)


def _hierarchy_rules(g: set[Triple], known: set[Triple]) -> Iterator[Triple]:
    for s, p, o in known:
        yield from ((s, TYPE, d) for c, d in _of(g, SUBCLASS) if p == TYPE and o == c)
        yield from ((s, q2, o) for q, q2 in _of(g, SUBPROPERTY) if p == q)
        yield from ((s, TYPE, c) for q, c in _of(g, v.DOMAIN) if p == q)
        yield from ((o, TYPE, c) for q, c in _of(g, v.RANGE) if p == q)


def _data_rules(g: set[Triple], known: set[Triple]) -> Iterator[Triple]:
    yield from _hierarchy_rules(g, known)
    yield from _property_rules(g, known)
    yield from _class_rules(g, known)
    for x, same, y in known:
        if same == SAME:
            yield y, SAME, x
            for s, p, o in known:
                yield from ((y, p, o),) if s == x else ()
                yield from ((s, y, o),) if p == x else ()
                yield from ((s, p, y),) if o == x else ()


def _property_rules(g: set[Triple], known: set[Triple]) -> Iterator[Triple]:
    inverses = _of(g, v.INVERSE) + [(p, p) for p in _typed(g, v.SYMMETRIC)]
    for s, p, o in known:
        yield from ((o, b, s) for a, b in inverses if a == p)
        yield from ((o, a, s) for a, b in inverses if b == p)
        for s2, p2, o2 in known:
            if p == p2 and o == s2 and p in _typed(g, v.TRANSITIVE):
                yield s, p, o2
            if p == p2 and s == s2 and p in _typed(g, v.FUNCTIONAL):
                yield from _same(o, o2)
            if p == p2 and o == o2 and p in _typed(g, v.INVERSE_FUNCTIONAL):
                yield from _same(s, s2)
    for p, head in _of(g, v.CHAIN):
        pairs = None
        for link in items(g, head):
            step = _of(known, link)
            pairs = step if pairs is None else [(a, c) for a, b in pairs for b2, c in step if b == b2]
        yield from ((a, p, b) for a, b in pairs or [])
    for c, head in _of(g, v.KEY):
        for x in _typed(known, c):
            for y in _typed(known, c):
                if all(any((y, p, z) in known for x2, z in _of(known, p) if x2 == x) for p in items(g, head)):
                    yield from _same(x, y)


def _class_rules(g: set[Triple], known: set[Triple]) -> Iterator[Triple]:
    for c, head in _of(g, v.INTERSECTION):
        yield from ((s, TYPE, c) for s, _, _ in known if all((s, TYPE, m) in known for m in items(g, head)))
    yield from ((member, TYPE, c) for c, head in _of(g, v.ONE_OF) for member in items(g, head))
    for c, p, y in _restrictions(g, v.SOME):
        yield from ((s, TYPE, c) for s, o in _of(known, p) if y == v.THING or (o, TYPE, y) in known)
    for c, p, y in _restrictions(g, v.ONLY):
        yield from ((o, TYPE, y) for s, o in _of(known, p) if (s, TYPE, c) in known)
    for c, p, y in _restrictions(g, v.VALUE):
        yield from ((s, p, y) for s in _typed(known, c))
        yield from ((s, TYPE, c) for s, o in _of(known, p) if o == y)
    for kind in (v.MAX, v.MAX_QUALIFIED):
        for c, p, n in _restrictions(g, kind):
            filler = next((o for s, o in _of(g, v.ON_CLASS) if s == c), v.THING)
            for s, o in _of(known, p) if n.startswith('"1"') else []:
                for s2, o2 in _of(known, p):
                    counts = filler == v.THING or ((o, TYPE, filler) in known and (o2, TYPE, filler) in known)
                    if s == s2 and (s, TYPE, c) in known and counts:
                        yield from _same(o, o2)


def _same(a: str, b: str) -> Iterator[Triple]:
    if a != b and a[0] != '"' and b[0] != '"':
        yield a, SAME, b
