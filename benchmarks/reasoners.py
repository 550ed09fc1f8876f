"""The inferences and the speed of OWL 2 RL reasoners.

A probe of small ontologies: one for each construct that events can trigger, with the triples that must be inferred; a
few with consequences beyond that profile; and a few with triples that must not be inferred. Then the time to close a
generated hierarchy with its individuals, and the time to close one event. Motet's closure is compared with `owlrl`,
`reasonable` and HermiT (through `owlready2`), if they are installed:

    python -m venv .cache/reasoners && .cache/reasoners/bin/pip install owlrl reasonable owlready2
    PYTHONPATH=$(echo .cache/reasoners/lib/python3*/site-packages) .venv/bin/python benchmarks/reasoners.py
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import rdflib

from motet.ontology.entailment import Reasoner
from motet.ontology.load import parse_ontology
from motet.ontology.owl_names import Triple

SEED = 20261115
PREFIXES = """
@prefix : <urn:x:> . @prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:A a owl:Class . :B a owl:Class . :C a owl:Class . :D a owl:Class .
:p a owl:ObjectProperty . :q a owl:ObjectProperty . :r a owl:ObjectProperty .
:a a owl:NamedIndividual . :b a owl:NamedIndividual . :c a owl:NamedIndividual . :e a owl:NamedIndividual .
"""
P = "a owl:Restriction ; owl:onProperty :p ;"
ONE = '"1"^^xsd:nonNegativeInteger'
#: construct → stated triples, triples that must be inferred
PROBE = {
    "subclass": (":A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :e a :A .", ":e a :B, :C ."),
    "subproperty": (":p rdfs:subPropertyOf :q . :e :p :a .", ":e :q :a ."),
    "domain": (":p rdfs:domain :A . :e :p :a .", ":e a :A ."),
    "range": (":p rdfs:range :A . :e :p :a .", ":a a :A ."),
    "equivalent class": (":A owl:equivalentClass :B . :e a :B .", ":e a :A ."),
    "equivalent property": (":p owl:equivalentProperty :q . :e :q :a .", ":e :p :a ."),
    "inverse": (":p owl:inverseOf :q . :e :p :a . :b :q :c .", ":a :q :e . :c :p :b ."),
    "symmetric": (":p a owl:SymmetricProperty . :e :p :a .", ":a :p :e ."),
    "transitive": (":p a owl:TransitiveProperty . :e :p :a . :a :p :b .", ":e :p :b ."),
    "functional": (":p a owl:FunctionalProperty . :e :p :a, :b . :a a :A .", ":b a :A ."),
    "inverse functional": (":p a owl:InverseFunctionalProperty . :a :p :e . :b :p :e . :a a :A .", ":b a :A ."),
    "property chain": (":r owl:propertyChainAxiom ( :p :q ) . :e :p :a . :a :q :b .", ":e :r :b ."),
    "key": (":A owl:hasKey ( :p ) . :a a :A ; :p :e . :b a :A ; :p :e . :a a :B .", ":b a :B ."),
    "intersection": (
        ":A owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :B :C ) ] . :e a :B, :C .",
        ":e a :A .",
    ),
    "union": (":A owl:equivalentClass [ a owl:Class ; owl:unionOf ( :B :C ) ] . :e a :C .", ":e a :A ."),
    "some values": (
        f":A owl:equivalentClass [ {P} owl:someValuesFrom :B ] . :e :p :a . :a a :B .",
        ":e a :A .",
    ),
    "some values of any kind": (
        f":A owl:equivalentClass [ {P} owl:someValuesFrom owl:Thing ] . :e :p :a .",
        ":e a :A .",
    ),
    "all values": (
        f":A rdfs:subClassOf [ {P} owl:allValuesFrom :B ] . :e a :A ; :p :a .",
        ":a a :B .",
    ),
    "has value, to the class": (
        f":A owl:equivalentClass [ {P} owl:hasValue :a ] . :e :p :a .",
        ":e a :A .",
    ),
    "has value, from the class": (
        f":A rdfs:subClassOf [ {P} owl:hasValue :a ] . :e a :A .",
        ":e :p :a .",
    ),
    "one of": (":A owl:equivalentClass [ a owl:Class ; owl:oneOf ( :a :b ) ] .", ":a a :A . :b a :A ."),
    "at most one": (
        f""":A rdfs:subClassOf [ {P} owl:maxCardinality {ONE} ] .
        :e a :A ; :p :a, :b . :a a :B .""",
        ":b a :B .",
    ),
    "at most one of a class": (
        f""":A rdfs:subClassOf [ {P} owl:maxQualifiedCardinality {ONE} ; owl:onClass :B ] .
        :e a :A ; :p :a, :b . :a a :B, :C . :b a :B .""",
        ":b a :C .",
    ),
    "the same individual": (":a owl:sameAs :b . :a a :A . :e :p :a .", ":b a :A . :e :p :b ."),
    "a defined topic class": (
        f""":A owl:equivalentClass [ a owl:Class ; owl:intersectionOf
        ( :B [ {P} owl:someValuesFrom :C ] ) ] .
        :D rdfs:subClassOf :C . :e a :B ; :p :a . :a a :D .""",
        ":e a :A .",
    ),
    "restrictions below each other": (
        f""":A rdfs:subClassOf [ {P} owl:someValuesFrom :B ] . :B rdfs:subClassOf :C .
        :D owl:equivalentClass [ {P} owl:someValuesFrom :C ] . :e a :A .""",
        ":e a :D .",
    ),
}  # fmt: skip
#: Inferences of OWL 2 DL outside the rules of RL.
BEYOND = {
    "domain of an unnamed value": (
        f":A rdfs:subClassOf [ {P} owl:someValuesFrom :B ] . :p rdfs:domain :C . :e a :A .",
        ":e a :C .",
    ),
    "range of an unnamed value": (
        f""":A rdfs:subClassOf [ {P} owl:someValuesFrom owl:Thing ] . :p rdfs:range :B .
        :D owl:equivalentClass [ {P} owl:someValuesFrom :B ] . :e a :A .""",
        ":e a :D .",
    ),
    "some values and all values": (
        f""":A rdfs:subClassOf [ {P} owl:someValuesFrom :B ] , [ {P} owl:allValuesFrom :C ] . :e a :A .
        :D owl:equivalentClass [ {P} owl:someValuesFrom [ a owl:Class ; owl:intersectionOf ( :B :C ) ] ] .""",
        ":e a :D .",
    ),
    "either way": (
        """:A rdfs:subClassOf [ a owl:Class ; owl:unionOf ( :B :C ) ] . :e a :A .
        :B rdfs:subClassOf :D . :C rdfs:subClassOf :D .""",
        ":e a :D .",
    ),
    "complement": (
        """:A owl:equivalentClass [ a owl:Class ; owl:complementOf :B ] . :C rdfs:subClassOf :A . :e a :B .
        :D owl:equivalentClass [ a owl:Class ; owl:complementOf :C ] .""",
        ":e a :D .",
    ),
}
#: construct → stated triples, triples that must not be inferred
UNFOUNDED = {
    "a key with another value": (
        ":A owl:hasKey ( :p :q ) . :a a :A ; :p :e ; :q :c . :b a :A ; :p :e ; :q :e . :a a :B .",
        ":b a :B .",
    ),
    "intersection by halves": (
        ":A owl:equivalentClass [ a owl:Class ; owl:intersectionOf ( :B :C ) ] . :e a :B .",
        ":e a :A .",
    ),
    "some values of another class": (
        f":A owl:equivalentClass [ {P} owl:someValuesFrom :B ] . :e :p :a . :a a :C .",
        ":e a :A .",
    ),
    "all values without the class": (f":A rdfs:subClassOf [ {P} owl:allValuesFrom :B ] . :e :p :a .", ":a a :B ."),
    "a chain that is broken": (":r owl:propertyChainAxiom ( :p :q ) . :e :p :a . :b :q :c .", ":e :r :c ."),
}
Close = Callable[[Iterable[Triple]], set[Triple]]


def motet_closure(triples: Iterable[Triple]) -> set[Triple]:
    return set(Reasoner(triples).background)


def owlrl_closure(triples: Iterable[Triple]) -> set[Triple]:
    owlrl: Any = importlib.import_module("owlrl")

    graph = _rdflib_graph(triples)
    owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
    return {(s.n3(), p.n3(), o.n3()) for s, p, o in graph}


def reasonable_closure(triples: Iterable[Triple]) -> set[Triple]:
    reasonable: Any = importlib.import_module("reasonable")

    reasoner = reasonable.PyReasoner()
    reasoner.from_graph(_rdflib_graph(triples))
    return {(s.n3(), p.n3(), o.n3()) for s, p, o in reasoner.reason()}


def hermit_closure(triples: Iterable[Triple]) -> set[Triple]:
    """The closure by HermiT, which gives only the most specific classes and properties; the others are added here."""
    owlready2: Any = importlib.import_module("owlready2")

    world = owlready2.World()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "probe.nt")
        path.write_text(_n_triples(triples))
        world.get_ontology(path.as_uri()).load()
        owlready2.sync_reasoner_hermit(world, infer_property_values=True, debug=0)
    closure: set[Triple] = set()
    for individual in world.individuals():
        classes = {c for c in individual.INDIRECT_is_a if isinstance(c, owlready2.ThingClass)}
        equals = {equal for equal in individual.equivalent_to if hasattr(equal, "iri")} | {individual}
        for equal in equals:
            closure |= {_typed(equal.iri, c.iri) for c in classes}
            for p in world.object_properties():
                closure |= {
                    (f"<{equal.iri}>", f"<{p.iri}>", f"<{value.iri}>")
                    for q in p.descendants()
                    for value in q[individual]
                }
    return closure


def _typed(individual: str, name: str) -> Triple:
    return f"<{individual}>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<{name}>"


REASONERS: dict[str, tuple[str, Close]] = {
    "motet": ("motet", motet_closure),
    "owlrl": ("owlrl", owlrl_closure),
    "reasonable": ("reasonable", reasonable_closure),
    "HermiT": ("owlready2", hermit_closure),
}


def probe(close: Close, ontologies: Mapping[str, tuple[str, str]]) -> list[str]:
    """The constructs whose consequences are missing."""
    missing = []
    for name, (stated, expected) in ontologies.items():
        closure = close(parse_ontology((PREFIXES + stated).encode()).triples)
        if not closure.issuperset(parse_ontology((PREFIXES.partition(":A a")[0] + expected).encode()).triples):
            missing.append(name)
    return missing


def hierarchy(classes: int) -> list[Triple]:
    """A DAG of classes with one individual for every ten."""
    rng = random.Random(SEED)
    owl, rdfs = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2000/01/rdf-schema#"
    triples = [_typed(f"urn:x:c{number}", f"{owl}Class") for number in range(classes)]
    for number in range(1, classes):
        for parent in {number // 4, rng.randrange(number)} if rng.random() < 0.05 else {number // 4}:
            triples.append((f"<urn:x:c{number}>", f"<{rdfs}subClassOf>", f"<urn:x:c{parent}>"))
    for number in range(classes // 10):
        triples.append(_typed(f"urn:x:i{number}", f"urn:x:c{rng.randrange(classes)}"))
        triples.append(_typed(f"urn:x:i{number}", f"{owl}NamedIndividual"))
    return triples


def event_seconds() -> float:
    """Seconds to close one event after the ontology was closed, as in matching."""
    ontology, event = (PREFIXES + PROBE["a defined topic class"][0]).rsplit(":e a :B", 1)
    reasoner = Reasoner(parse_ontology(ontology.encode()).triples)
    event_triples = parse_ontology((PREFIXES.partition(":A a")[0] + ":e a :B" + event).encode()).triples
    return _seconds(lambda: [reasoner.close(event_triples) for _ in range(1000)]) / 1000


def _rdflib_graph(triples: Iterable[Triple]) -> Any:
    return rdflib.Graph().parse(data=_n_triples(triples), format="nt")


def _n_triples(triples: Iterable[Triple]) -> str:
    return "".join(f"{s} {p} {o} .\n" for s, p, o in triples)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@dataclass(frozen=True)
class Result:
    reasoner: str
    derived: int
    missing: list[str]
    beyond: int
    unfounded: list[str]
    hierarchy_seconds: float
    event_seconds: float


def measure(name: str, close: Close, generated: list[Triple]) -> Result:
    missing, beyond = probe(close, PROBE), len(BEYOND) - len(probe(close, BEYOND))
    not_inferred = probe(close, UNFOUNDED)
    unfounded = [name for name in UNFOUNDED if name not in not_inferred]
    seconds = _seconds(lambda: close(generated))
    small = parse_ontology((PREFIXES + PROBE["a defined topic class"][0]).encode()).triples
    event = event_seconds() if close is motet_closure else _seconds(lambda: close(small))
    return Result(name, len(PROBE) - len(missing), missing, beyond, unfounded, round(seconds, 3), round(event, 6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, default=1000, help="of the generated hierarchy")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    generated = hierarchy(options.classes)
    installed = {name: close for name, (module, close) in REASONERS.items() if importlib.util.find_spec(module)}
    results = [measure(name, close, generated) for name, close in installed.items()]
    if options.json:
        rows = [asdict(result) for result in results]
        sizes = {"probe": len(PROBE), "beyond": len(BEYOND), "classes": options.classes}
        print(json.dumps(sizes | {"reasoners": rows}, indent=2))
        return
    print("clock of classes: from triples in memory to the closure, conversion for the peer included; wall time")
    print("clock of one event: motet starts with a closed ontology, the others close ontology and event; wall time")
    print(f"{'reasoner':<12}{f'RL of {len(PROBE)}':>9}{f'DL of {len(BEYOND)}':>9}{'wrong':>7}", end="")
    print(f"{f'{options.classes:,} classes':>16}{'one event':>14}")
    for r in results:
        print(f"{r.reasoner:<12}{r.derived:>9}{r.beyond:>9}{len(r.unfounded):>7}", end="")
        print(f"{r.hierarchy_seconds:>14.3f} s{r.event_seconds * 1000:>11.3f} ms")
    for r in results:
        for title, names in (("does not infer", r.missing), ("infers wrongly", r.unfounded)):
            if names:
                print(f"{r.reasoner} {title}: {', '.join(names)}")


if __name__ == "__main__":
    main()
