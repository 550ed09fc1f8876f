"""Names blank nodes with RDFC-1.0 canonical labels, within a limit of work.

The labels are computed over the event's triples as a default graph, so that they do not depend on the event's IRI. A
blank node becomes the IRI ``<graph>#genid-c14n0``. The standard's algorithm is exponential on adversarial graphs;
therefore every step is counted, and a graph that needs too many is refused.

Terms are canonical N-Triples strings; a blank node is ``_:label``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import permutations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.event_times import Int64s
from motet.codec.rejections import Problem
from motet.model import terms
from motet.model.errors import LimitError

Triple = tuple[str, str, str]
_MAX_NESTING = 300  # of one labelling; each level is one Python frame


def name_blank_nodes(
    quads: pa.RecordBatch, starts: Int64s, *, max_work: int
) -> tuple[pa.RecordBatch, dict[int, list[Problem]]]:
    """The quads with IRIs for blank nodes, and the problems of events whose blank nodes could not be labelled."""
    mask = np.logical_or(*(_is_blank(quads.column(name)) for name in ("subject", "object")))
    if not mask.any():
        return quads, {}
    ends = np.append(starts[1:], quads.num_rows)
    problems: dict[int, list[Problem]] = {}
    renamed: dict[str, list[str]] = {"subject": [], "object": []}
    rows = np.zeros(quads.num_rows, np.bool_)
    for event in np.unique(np.searchsorted(starts, np.flatnonzero(mask), side="right") - 1):
        event_quads = quads.slice(starts[event], ends[event] - starts[event])
        try:
            subjects, objects = _with_iris(event_quads, max_work)
        except LimitError as error:
            problems[int(event)] = [Problem(error.message, advice=error.advice)]
            continue
        rows[starts[event] : ends[event]] = True
        renamed["subject"] += subjects
        renamed["object"] += objects
    return _replace(quads, rows, renamed), problems


def canonical_labels(triples: Iterable[Triple], *, max_work: int) -> dict[str, str]:
    """The canonical label of each blank node of a set of triples.

    >>> canonical_labels([("_:x", "<urn:p>", "_:y")], max_work=100)
    {'_:y': 'c14n0', '_:x': 'c14n1'}
    """
    return _Labelling(triples, max_work).run()


def _is_blank(column: pa.StringArray) -> np.ndarray:
    return pc.starts_with(column, "_:").to_numpy(zero_copy_only=False)


def _with_iris(event_quads: pa.RecordBatch, max_work: int) -> tuple[list[str], list[str]]:
    """The subjects and the objects of an event with IRIs in place of its blank nodes."""
    subjects, predicates, objects = (
        event_quads.column(name).to_pylist() for name in ("subject", "predicate", "object")
    )
    labels = canonical_labels(zip(subjects, predicates, objects, strict=True), max_work=max_work)
    graph = terms.iri_value(event_quads.column("graph")[0].as_py())
    stem = f"{graph}-genid-" if "#" in graph else f"{graph}#genid-"
    names = {node: terms.iri(stem + label) for node, label in labels.items()}
    return [names.get(s, s) for s in subjects], [names.get(o, o) for o in objects]


def _replace(quads: pa.RecordBatch, rows: np.ndarray, renamed: dict[str, list[str]]) -> pa.RecordBatch:
    columns = {name: quads.column(name) for name in quads.schema.names}
    for name, values in renamed.items():
        columns[name] = pc.replace_with_mask(columns[name], pa.array(rows), pa.array(values, pa.string()))
    return pa.RecordBatch.from_pydict(columns, schema=quads.schema)


class _Issuer:
    """The standard's identifier issuer: labels nodes in the order of their requests."""

    def __init__(self, prefix: str, issued: dict[str, str] | None = None) -> None:
        self.prefix = prefix
        self.issued = issued or {}

    def issue(self, node: str) -> str:
        return self.issued.setdefault(node, f"{self.prefix}{len(self.issued)}")

    def copy(self) -> _Issuer:
        return _Issuer(self.prefix, dict(self.issued))


class _Labelling:
    """One run of RDFC-1.0 (https://www.w3.org/TR/rdf-canon/); the methods cite its sections."""

    def __init__(self, triples: Iterable[Triple], max_work: int) -> None:
        self.triples_of: dict[str, list[Triple]] = defaultdict(list)
        for triple in dict.fromkeys(triples):
            for node in {term for term in (triple[0], triple[2]) if term.startswith("_:")}:
                self.triples_of[node].append(triple)
        self.canonical = _Issuer("c14n")
        self.work_left = max_work
        self.first_degree = {node: self._hash_first_degree(node) for node in self.triples_of}

    def run(self) -> dict[str, str]:
        by_hash: dict[str, list[str]] = defaultdict(list)
        for node, digest in self.first_degree.items():
            by_hash[digest].append(node)
        groups = [nodes for _, nodes in sorted(by_hash.items())]
        for nodes in groups:
            if len(nodes) == 1:
                self.canonical.issue(nodes[0])
        for nodes in groups:
            if len(nodes) > 1:
                self._label_ambiguous(nodes)
        return self.canonical.issued

    def _label_ambiguous(self, nodes: Sequence[str]) -> None:
        """Section 4.4.3, step 5: nodes with equal first-degree hashes."""
        paths = []
        for node in nodes:
            if node not in self.canonical.issued:
                issuer = _Issuer("b")
                issuer.issue(node)
                paths.append(self._hash_n_degree(node, issuer, 0))
        for _, issuer in sorted(paths, key=lambda path: path[0]):
            for node in issuer.issued:
                self.canonical.issue(node)

    def _hash_first_degree(self, node: str) -> str:
        """Section 4.6."""
        lines = sorted(f"{_masked(s, node)} {p} {_masked(o, node)} .\n" for s, p, o in self.triples_of[node])
        return sha256("".join(lines).encode()).hexdigest()

    def _hash_related(self, related: str, predicate: str, issuer: _Issuer, position: str) -> str:
        """Section 4.7."""
        self._count_step()
        label = self.canonical.issued.get(related) or issuer.issued.get(related)
        identifier = f"_:{label}" if label else self.first_degree[related]
        return sha256(f"{position}{predicate}{identifier}".encode()).hexdigest()

    def _hash_n_degree(self, node: str, issuer: _Issuer, nesting: int) -> tuple[str, _Issuer]:
        """Section 4.8."""
        if nesting > _MAX_NESTING:
            raise _work_exceeded()
        related_by_hash: dict[str, list[str]] = defaultdict(list)
        for s, p, o in self.triples_of[node]:
            for position, term in (("s", s), ("o", o)):
                if term.startswith("_:") and term != node:
                    related_by_hash[self._hash_related(term, p, issuer, position)].append(term)
        data = ""
        for digest, related in sorted(related_by_hash.items()):
            chosen = ""
            chosen_issuer = issuer
            for permutation in permutations(related):
                path, candidate = self._path(permutation, issuer.copy(), chosen, nesting)
                if path is not None and (not chosen or path < chosen):
                    chosen, chosen_issuer = path, candidate
            data += digest + chosen
            issuer = chosen_issuer
        return sha256(data.encode()).hexdigest(), issuer

    def _path(
        self, permutation: Sequence[str], issuer: _Issuer, chosen: str, nesting: int
    ) -> tuple[str | None, _Issuer]:
        """Section 4.8, step 5.4: the path of one permutation, or None as soon as it cannot become the least one."""
        path, unvisited = "", []
        for related in permutation:
            self._count_step()
            if related in self.canonical.issued:
                path += f"_:{self.canonical.issued[related]}"
                continue
            if related not in issuer.issued:
                unvisited.append(related)
            path += f"_:{issuer.issue(related)}"
            if _is_worse(path, chosen):
                return None, issuer
        for related in unvisited:
            digest, deeper = self._hash_n_degree(related, issuer, nesting + 1)
            path += f"_:{issuer.issue(related)}<{digest}>"
            issuer = deeper
            if _is_worse(path, chosen):
                return None, issuer
        return path, issuer

    def _count_step(self) -> None:
        self.work_left -= 1
        if self.work_left < 0:
            raise _work_exceeded()


def _masked(term: str, node: str) -> str:
    if not term.startswith("_:"):
        return term
    return "_:a" if term == node else "_:z"


def _is_worse(path: str, chosen: str) -> bool:
    return bool(chosen) and len(path) >= len(chosen) and path > chosen


def _work_exceeded() -> LimitError:
    return LimitError(
        "its blank nodes are too similar: labelling them exceeds the work limit",
        advice="give the blank nodes IRIs, or properties that distinguish them",
    )
