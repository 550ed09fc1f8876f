"""Reads the manifests of the W3C suites into cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyoxigraph as ox

MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
KINDS = {
    "QueryEvaluationTest": "evaluation",
    "CSVResultFormatTest": "evaluation",
    "PositiveSyntaxTest": "positive syntax",
    "PositiveSyntaxTest11": "positive syntax",
    "NegativeSyntaxTest": "negative syntax",
    "NegativeSyntaxTest11": "negative syntax",
}
# Other endpoints are not asked. Updates and protocols have other types.
LEFT_OUT = frozenset({"service", "syntax-fed"})
SD = "http://www.w3.org/ns/sparql-service-description#"


@dataclass(frozen=True, slots=True)
class Case:
    suite: str  # sparql10 or sparql11
    category: str
    name: str
    kind: str  # evaluation, entailment, positive syntax, negative syntax
    query: Path
    data: tuple[Path, ...] = ()
    graphs: tuple[Path, ...] = ()
    result: Path | None = None
    is_lax: bool = False  # duplicates do not count
    entailment: str = "none"

    @property
    def title(self) -> str:
        return f"{self.suite}/{self.category}/{self.name}"


def cases(root: Path) -> Iterator[Case]:
    """The query tests of both suites under a directory."""
    for manifest in sorted(root.rglob("manifest.ttl")):
        category = manifest.parent.name
        suite = manifest.parent.parent.name
        if suite in ("sparql10", "sparql11") and category not in LEFT_OUT:
            yield from _Manifest(manifest, suite, category).cases()


class _Manifest:
    def __init__(self, path: Path, suite: str, category: str) -> None:
        self.suite, self.category = suite, category
        self.store = ox.Store()
        self.store.extend(ox.parse(path.read_bytes(), ox.RdfFormat.TURTLE, base_iri=path.absolute().as_uri()))

    def cases(self) -> Iterator[Case]:
        for entry in self._list(self._one(None, MF + "entries")):
            kind = next((KINDS[name] for name in self._types(entry) if name in KINDS), None)
            action = self._one(entry, MF + "action")
            if kind is None or action is None:
                continue
            result = self._one(entry, MF + "result")
            yield Case(
                self.suite,
                self.category,
                str(entry.value).rpartition("#")[2],
                "entailment" if self.category == "entailment" else kind,
                _path(self._one(action, QT + "query") or action),
                tuple(_path(node) for node in self._all(action, QT + "data")),
                tuple(_path(node) for node in self._all(action, QT + "graphData")),
                None if result is None else _path(result),
                "LaxCardinality" in str(self._one(entry, MF + "resultCardinality")),
                self._entailment(action),
            )

    def _entailment(self, action: Any) -> str:
        """The weakest entailment of ours that a test asks for; RIF is none of them."""
        regime = self._one(action, SD + "entailmentRegime")
        members = list(self._list(regime)) if isinstance(regime, ox.BlankNode) else [regime] if regime else []
        names = {str(member.value).rpartition("/")[2] for member in members}
        if names & {"RDF", "RDFS", "D"}:
            return "rdfs"
        return "owl-rl" if names & {"OWL-Direct", "OWL-RDF-Based"} else "none"

    def _types(self, node: Any) -> list[str]:
        return [str(kind.value).removeprefix(MF) for kind in self._all(node, RDF + "type")]

    def _all(self, node: Any, predicate: str) -> list[Any]:
        """The objects of a property; of any node, if none is given."""
        return [quad.object for quad in self.store.quads_for_pattern(node, ox.NamedNode(predicate), None, None)]

    def _one(self, node: Any, predicate: str) -> Any:
        return next(iter(self._all(node, predicate)), None)

    def _list(self, node: Any) -> Iterator[Any]:
        while node is not None and node != ox.NamedNode(RDF + "nil"):
            yield self._one(node, RDF + "first")
            node = self._one(node, RDF + "rest")


def _path(node: Any) -> Path:
    return Path(unquote(urlparse(node.value).path))
