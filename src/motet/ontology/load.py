"""Which files make up an ontology?

``load`` reads the files it is given and those that ``owl:imports`` names, if they are among the given files or in the
catalogue. Nothing is fetched from the network: an import that is not at hand is an error that names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from motet.model.errors import UsageError
from motet.model.terms import iri
from motet.ontology import vocabulary as v
from motet.ontology.axioms import Axioms, owl_axioms
from motet.ontology.read import SIZE_LIMIT, Document, read
from motet.ontology.schema import Schema, close_schema
from motet.ontology.vocabulary import Triple

_DECLARES_CLASS = frozenset((v.OWL_CLASS, v.RDFS_CLASS))


@dataclass(frozen=True)
class Ontology:
    """The triples of an ontology with its individuals, sorted, each once.

    >>> pets = Ontology((("<urn:Dog>", v.SUBCLASS, "<urn:Animal>"),))
    >>> pets.classes(), pets.subclasses("<urn:Animal>")
    (('<urn:Animal>', '<urn:Dog>'), ('<urn:Dog>',))
    """

    triples: tuple[Triple, ...]
    sources: tuple[str, ...] = field(default=(), compare=False)
    #: imported IRI → the file that imports it, for imports that were not at hand and were ignored
    missing: Mapping[str, str] = field(default_factory=dict, compare=False)

    def classes(self) -> tuple[str, ...]:
        """All named classes, owl:Thing and owl:Nothing only if the files say something of them."""
        return tuple(sorted(c for c in self._classes if not v.is_blank(c)))

    def superclasses(self, name: str) -> tuple[str, ...]:
        """All named classes above a class, itself not among them."""
        return tuple(c for c in self._schema.superclasses.get(name, ()) if not v.is_blank(c))

    def subclasses(self, name: str) -> tuple[str, ...]:
        """All named classes below a class, itself not among them."""
        return tuple(c for c in self.classes() if c != name and name in self.superclasses(c))

    def changed(self, add: Iterable[Triple] = (), remove: Iterable[Triple] = ()) -> Ontology:
        """The ontology after a change of its background."""
        return Ontology(tuple(sorted({*self.triples} - {*remove} | {*add})), self.sources, self.missing)

    @cached_property
    def _schema(self) -> Schema:
        return close_schema(self._axioms)

    @cached_property
    def _axioms(self) -> Axioms:
        return owl_axioms(self.triples)

    @cached_property
    def _classes(self) -> frozenset[str]:
        declared = {s for s, p, o in self.triples if p == v.TYPE and o in _DECLARES_CLASS}
        related = {c for pair in self._axioms.subclasses for c in pair}
        return frozenset(declared | related | {c for _, c in self._axioms.domains})


def load(
    paths: Iterable[str | Path],
    *,
    catalogue: Mapping[str, str | Path] | None = None,
    ignore_missing_imports: bool = False,
    size_limit: int = SIZE_LIMIT,
) -> Ontology:
    """Read files and the files they import. ``catalogue`` says which file an imported IRI stands for."""
    documents: list[Document] = []
    for path in paths:
        documents.append(read(Path(path), size_limit=size_limit))
    known = {iri(name): Path(path) for name, path in (catalogue or {}).items()}
    missing: dict[str, str] = {}
    for document in documents:  # grows while it is walked
        for wanted in document.imports:
            if any(wanted in other.names for other in documents):
                continue
            if wanted in known:
                path = known[wanted]
                if str(path) not in {other.source for other in documents}:
                    documents.append(read(path, size_limit=size_limit))
            else:
                missing[wanted] = document.source
    if missing and not ignore_missing_imports:
        raise _missing(missing)
    triples = {triple for document in documents for triple in document.triples}
    return Ontology(tuple(sorted(triples)), tuple(document.source for document in documents), missing)


def _missing(missing: Mapping[str, str]) -> UsageError:
    wanted = "; ".join(f"{source} imports {name}" for name, source in sorted(missing.items()))
    return UsageError(
        f"{wanted}, which is not among the given files",
        advice="pass the file too (Motet fetches nothing), name it in the catalogue, or ignore missing imports",
    )
