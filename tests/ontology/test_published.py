"""Class codes of published ontologies, read from the packages that `make ontologies` downloads.

They are large and under licences of their own, so none is part of this project: without the packages nothing is tested.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from motet.codec.formats import Format
from motet.ontology.codes import digit, interval, prime
from motet.ontology.entailment import Reasoner
from motet.ontology.hierarchy import classify
from motet.ontology.load import Ontology, parse_ontology
from motet.ontology.owl_names import TYPE

PACKAGES = Path(os.environ.get("MOTET_ONTOLOGIES", Path(__file__).parents[2] / ".cache" / "ontologies"))
VOCABULARIES = "package/ontologies/"
#: name → member of a package, classes, those that can have no member, the most intervals one class needs
PUBLISHED = {
    "Brick 1.4": ("brickschema/ontologies/1.4/Brick.ttl", 1798, 0, 7),
    "DBpedia": (f"{VOCABULARIES}dbo.nq", 1178, 3, 3),
    "schema.org": (f"{VOCABULARIES}schema.nq", 933, 0, 6),
    "EBUCore": (f"{VOCABULARIES}ebucore.nq", 241, 0, 2),
    "CIDOC CRM": (f"{VOCABULARIES}crm.nq", 76, 0, 2),
    "PROV-O": (f"{VOCABULARIES}prov.nq", 51, 0, 3),
    "FOAF": (f"{VOCABULARIES}foaf.nq", 18, 0, 2),
    "SOSA": (f"{VOCABULARIES}sosa.nq", 17, 0, 1),
}


def content(member: str) -> bytes:
    """The file of a package: a wheel for Brick, a tarball for the others."""
    if member.startswith(VOCABULARIES):
        with tarfile.open(next(PACKAGES.glob("zazuko-rdf-vocabularies-*.tgz"))) as tarball:
            file = tarball.extractfile(member)
            assert file is not None
            return file.read()
    with zipfile.ZipFile(next(PACKAGES.glob("brickschema-*.whl"))) as wheel:
        return wheel.read(member)


@pytest.mark.skipif(not PACKAGES.is_dir(), reason="`make ontologies` downloads them")
@pytest.mark.parametrize("name", PUBLISHED)
def test_codes_agree_with_the_reasoner_on_published_ontologies(name: str) -> None:
    """For every pair of classes, every code agrees with the reasoner on an individual of one of them."""
    member, classes, unsatisfiable, most = PUBLISHED[name]
    syntax = Format.TURTLE if member.endswith(".ttl") else Format.N_QUADS
    ontology = Ontology(tuple(sorted(set(parse_ontology(content(member), syntax).triples))))
    reasoner = Reasoner(ontology.triples)
    hierarchy = classify(ontology, reasoner=reasoner)
    names = sorted(hierarchy.node_of)
    place = {c: number for number, c in enumerate(names)}
    truth = np.eye(len(names), dtype=np.bool_)
    for c in names:
        above = [o for s, p, o in reasoner.close([("<urn:one>", TYPE, c)]) if s == "<urn:one>" and p == TYPE]
        truth[[place[d] for d in above], place[c]] = True
    nodes = np.array([hierarchy.node_of[c] for c in names])
    intervals = interval.encode(hierarchy)
    for codes in (intervals, prime.encode(hierarchy), digit.encode(hierarchy)):
        assert (codes.subsumes(nodes[:, None], nodes[None, :]) == truth).all()
    assert (len(names), len(hierarchy.unsatisfiable), intervals.cover.max_intervals) == (classes, unsatisfiable, most)
