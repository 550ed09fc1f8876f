"""Loads ontologies: reads files into triples and resolves imports from the given files and a catalogue.

The suffix selects the format: Turtle, RDF/XML, JSON-LD (inline contexts), N-Triples; ``.owl`` is RDF/XML or Turtle by
its first bytes; ``.gz`` and ``.zst`` are decompressed. A catalogue is a JSON object from imported IRIs to paths
relative to its directory: ``{"http://www.w3.org/ns/sosa/": "vendor/sosa.ttl"}``. Nothing is fetched from the network:
an import that is neither given nor in the catalogue is named in a warning, or is an error with ``imports="strict"``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import logging
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, cast, get_args

from motet.codec.formats import Format
from motet.model.errors import DecodeError, LimitError, MotetError, UsageError
from motet.model.terms import iri
from motet.ontology import owl_names as v
from motet.ontology.axioms import Axioms, owl_axioms
from motet.ontology.owl_names import Triple
from motet.ontology.schema import Schema, close_schema

if TYPE_CHECKING:
    import pyoxigraph

log = logging.getLogger("motet")

#: What a missing import is: a logged warning, or an error.
Imports = Literal["warn", "strict"]

#: Maximum size of a file after decompression.
MAX_FILE_BYTES = 512 * 1024 * 1024

_FORMATS = {
    ".ttl": Format.TURTLE, ".turtle": Format.TURTLE, ".nt": Format.N_TRIPLES, ".ntriples": Format.N_TRIPLES,
    ".rdf": Format.RDF_XML, ".xml": Format.RDF_XML, ".rdfs": Format.RDF_XML, ".jsonld": Format.JSON_LD,
    ".json": Format.JSON_LD,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OntologyDocument:
    """The triples of one file. Blank nodes are named by the hash of the file and their order in it."""

    source: str
    triples: tuple[Triple, ...]
    prefixes: Mapping[str, str] = field(default_factory=dict)  # that the file declares

    @property
    def ontology_iris(self) -> frozenset[str]:
        """The ontology's IRI and version IRI, by which other files import it."""
        ontologies = {s for s, p, o in self.triples if p == v.TYPE and o == v.ONTOLOGY}
        return frozenset(ontologies | {o for s, p, o in self.triples if p == v.VERSION and s in ontologies})

    @property
    def imports(self) -> tuple[str, ...]:
        return tuple(sorted({o for _, p, o in self.triples if p == v.IMPORTS}))


def read_ontology_file(path: Path, *, max_file_bytes: int = MAX_FILE_BYTES) -> OntologyDocument:
    """The triples of an ontology file."""
    content = _content(path, max_file_bytes)
    return parse_ontology(content, _format(path, content), source=str(path))


def parse_ontology(content: bytes, syntax: Format = Format.TURTLE, *, source: str = "input") -> OntologyDocument:
    """The triples of an ontology document.

    >>> parse_ontology(b"<urn:a> <urn:p> [ <urn:q> 5 ] .").triples[1][:2]
    ('<urn:a>', '<urn:p>')
    """
    import pyoxigraph

    content = content.removeprefix(BOM_UTF8)
    _refuse_unsafe(content, syntax, source)
    try:
        quads = pyoxigraph.parse(content, pyoxigraph.RdfFormat.from_media_type(syntax.value))
        raw = [_terms(quad) for quad in quads]
    except SyntaxError as error:
        raise _syntax_error(error, source) from error
    digest = hashlib.sha256(content).hexdigest()[:16]
    return OntologyDocument(source, tuple(_name_blank_nodes(raw, digest)), quads.prefixes)


def _refuse_unsafe(content: bytes, syntax: Format, source: str) -> None:
    from motet.codec.input_guards import refuse_unsafe
    from motet.codec.options import Limits

    try:
        refuse_unsafe(content, syntax, Limits(max_document_bytes=MAX_FILE_BYTES))
    except MotetError as error:
        raise DecodeError(error.message, source=source, advice=error.advice) from error


def _terms(quad: pyoxigraph.Quad) -> Triple:
    return str(quad.subject), str(quad.predicate), str(quad.object)


def _name_blank_nodes(triples: list[Triple], digest: str) -> Iterable[Triple]:
    """Name blank nodes by the hash of the content, so that equal texts give equal triples; individuals become IRIs."""
    structural = _structural(triples)
    names: dict[str, str] = {}

    def name(term: str) -> str:
        if not v.is_blank(term):
            return term
        if term not in names:
            count = len(names)
            names[term] = f"_:x{digest}b{count}" if term in structural else f"<urn:motet:blank:{digest}:{count}>"
        return names[term]

    return [(name(s), p, name(o)) for s, p, o in triples]


def _structural(triples: list[Triple]) -> set[str]:
    """The blank nodes that are parts of axioms, not individuals."""
    subjects = {s for s, p, o in triples if p in v.STRUCTURAL_PREDICATES or (p == v.TYPE and o in v.STRUCTURAL_TYPES)}
    return subjects | {o for _, p, o in triples if p in v.STRUCTURAL_OBJECTS or p == v.TYPE}


def _format(path: Path, content: bytes) -> Format:
    suffix = _uncompressed_name(path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if suffix == ".owl":
        start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
        return Format.RDF_XML if start.startswith((b"<?xml", b"<rdf:", b"<!")) else Format.TURTLE
    raise UsageError(
        f"{path}: {suffix or 'a file without suffix'} is not the suffix of an ontology format",
        advice=f"rename it to end in one of {', '.join([*_FORMATS, '.owl'])}, with .gz or .zst after it if compressed",
    )


def _uncompressed_name(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def _content(path: Path, size_limit: int) -> bytes:
    try:
        with path.open("rb") as file, _open_stream(path, file) as stream:
            content = stream.read(size_limit + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file", advice="check the path of the ontology") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}", advice="check the file and its permissions") from error
    if len(content) > size_limit:
        raise LimitError(
            f"{path}: more than {size_limit} bytes after decompression", advice="split the ontology or raise the limit"
        )
    return content


def _open_stream(path: Path, file: IO[bytes]) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    if suffix == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
    return file


def _syntax_error(error: SyntaxError, source: str) -> DecodeError:
    reason = error.msg
    advice = None
    if "LoadDocumentCallback" in reason:
        reason = "the JSON-LD context is remote; contexts are not fetched"
        advice = "write the context into the file"
    elif "No scheme found" in reason:
        advice = "IRIs must be absolute: add @base (Turtle) or xml:base (RDF/XML) to the file"
    reason = reason.partition(": ")[2] if reason.startswith("Parser error at") else reason
    return DecodeError(reason, source=source, line=error.lineno, column=error.offset, advice=advice)


def read_catalogue(path: str | Path) -> dict[str, Path]:
    """The paths of a catalogue by IRI."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"the catalogue {path} cannot be read: {error.strerror}", advice="check its path") from error
    except ValueError as error:
        raise _malformed(path, str(error)) from error
    if not isinstance(content, dict):
        raise _malformed(path, f"it holds a {type(content).__name__}")
    invalid = next((name for name, target in content.items() if not isinstance(target, str)), None)
    if invalid is not None:
        raise _malformed(path, f"the path of {invalid!r} is not text")
    return {name: Path(path).parent / target for name, target in content.items()}


def _malformed(path: str | Path, reason: str) -> UsageError:
    return UsageError(
        f"the catalogue {path} is not a JSON object from IRIs to paths: {reason}",
        advice='write it like {"http://example.org/units": "units.ttl"}',
    )


_CLASS_TYPES = frozenset((v.OWL_CLASS, v.RDFS_CLASS))


@dataclass(frozen=True)
class Ontology:
    """The triples of an ontology with its individuals, sorted, each once.

    >>> pets = Ontology((("<urn:Dog>", v.SUBCLASS, "<urn:Animal>"),))
    >>> pets.classes(), pets.subclasses("<urn:Animal>")
    (('<urn:Animal>', '<urn:Dog>'), ('<urn:Dog>',))
    """

    triples: tuple[Triple, ...]
    sources: tuple[str, ...] = field(default=(), compare=False)
    #: imported IRI → the file that imports it, for imports that are missing
    missing: Mapping[str, str] = field(default_factory=dict, compare=False)

    def classes(self) -> tuple[str, ...]:
        """All named classes; owl:Thing and owl:Nothing only if the files mention them."""
        return tuple(sorted(c for c in self._classes if not v.is_blank(c)))

    def superclasses(self, name: str) -> tuple[str, ...]:
        """All named superclasses of a class, without the class itself."""
        return tuple(c for c in self._schema.superclasses.get(name, ()) if not v.is_blank(c))

    def subclasses(self, name: str) -> tuple[str, ...]:
        """All named subclasses of a class, without the class itself."""
        return tuple(c for c in self.classes() if c != name and name in self.superclasses(c))

    def properties(self) -> frozenset[str]:
        """All names that are used as properties: declared, in a triple, or in an axiom about properties."""
        names = {p for _, p, _ in self.triples}
        for s, p, o in self.triples:
            if p == v.TYPE and o.endswith("Property>"):
                names.add(s)
            elif p in (v.SUBPROPERTY, v.EQUIVALENT_PROPERTY, v.INVERSE):
                names |= {s, o}
            elif p in (v.DOMAIN, v.RANGE):
                names.add(s)
            elif p == v.ON_PROPERTY:
                names.add(o)
        return frozenset(names)

    def property_ranges(self) -> dict[str, tuple[str, ...]]:
        """The ranges of each property that has some, those of its superproperties included.

        >>> Ontology((("<urn:level>", v.RANGE, "<urn:Level>"),)).property_ranges()
        {'<urn:level>': ('<urn:Level>',)}
        """
        return {name: ranges for name, (_, _, ranges) in self._schema.properties.items() if ranges}

    @cached_property
    def _schema(self) -> Schema:
        return close_schema(self._axioms)

    @cached_property
    def _axioms(self) -> Axioms:
        return owl_axioms(self.triples)

    @cached_property
    def _classes(self) -> frozenset[str]:
        declared = {s for s, p, o in self.triples if p == v.TYPE and o in _CLASS_TYPES}
        related = {c for pair in self._axioms.subclasses for c in pair}
        return frozenset(declared | related | {c for _, c in self._axioms.domains})


def load(
    paths: Iterable[str | Path],
    *,
    catalogue: Mapping[str, str | Path] | None = None,
    imports: Imports = "warn",
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Ontology:
    """Read files and the files they import; ``catalogue`` maps imported IRIs to files.

    A missing import is logged as a warning, or refused with ``imports="strict"``.
    """
    if imports not in get_args(Imports):
        raise UsageError(f"imports={imports!r} is unknown", advice=f"use one of {', '.join(get_args(Imports))}")
    documents: list[OntologyDocument] = []
    for path in paths:
        documents.append(read_ontology_file(Path(path), max_file_bytes=max_file_bytes))
    catalogued = {iri(name): Path(path) for name, path in (catalogue or {}).items()}
    missing: dict[str, str] = {}
    for document in documents:  # imported documents are appended during the loop
        for imported in document.imports:
            if any(imported in loaded.ontology_iris for loaded in documents):
                continue
            if imported in catalogued:
                path = catalogued[imported]
                if str(path) not in {loaded.source for loaded in documents}:
                    documents.append(read_ontology_file(path, max_file_bytes=max_file_bytes))
            else:
                missing[imported] = document.source
    if missing:
        _report_missing(missing, imports)
    triples = {triple for document in documents for triple in document.triples}
    return Ontology(tuple(sorted(triples)), tuple(document.source for document in documents), missing)


def _report_missing(missing: Mapping[str, str], imports: Imports) -> None:
    by_source: dict[str, list[str]] = {}
    for name, source in sorted(missing.items()):
        by_source.setdefault(source, []).append(name)
    names = "; ".join(f"{source} imports {', '.join(imported)}" for source, imported in by_source.items())
    message = f"{names}, which is not among the given files" if len(missing) == 1 else f"{names}: not among the files"
    if imports == "strict":
        advice = "pass the file (nothing is fetched), add it to the catalogue, or let missing imports be warnings"
        raise UsageError(message, advice=advice)
    log.warning("%s, so its axioms do not count; pass the file or a catalogue (nothing is fetched)", message)
