"""Reading one ontology file into triples of canonical terms.

By suffix: Turtle, RDF/XML, JSON-LD (contexts inline), N-Triples; ``.owl`` is RDF/XML or Turtle, as its first bytes say;
``.gz`` and ``.zst`` are unpacked. Nothing is fetched. Which files belong together is decided in ``load``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from motet.codec.formats import Format
from motet.model.errors import DecodeError, LimitError, MotetError, UsageError
from motet.ontology import vocabulary as v
from motet.ontology.vocabulary import Triple

if TYPE_CHECKING:
    import pyoxigraph

#: Bytes of one file after unpacking.
SIZE_LIMIT = 512 * 1024 * 1024

_FORMATS = {
    ".ttl": Format.TURTLE, ".turtle": Format.TURTLE, ".nt": Format.N_TRIPLES, ".ntriples": Format.N_TRIPLES,
    ".rdf": Format.RDF_XML, ".xml": Format.RDF_XML, ".rdfs": Format.RDF_XML, ".jsonld": Format.JSON_LD,
    ".json": Format.JSON_LD,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """One file's triples. Blank nodes are named by the file's content and their order of appearance in it."""

    source: str
    triples: tuple[Triple, ...]

    @property
    def names(self) -> frozenset[str]:
        """The ontology's IRI and version IRI, by which other files import it."""
        ontologies = {s for s, p, o in self.triples if p == v.TYPE and o == v.ONTOLOGY}
        return frozenset(ontologies | {o for s, p, o in self.triples if p == v.VERSION and s in ontologies})

    @property
    def imports(self) -> tuple[str, ...]:
        return tuple(sorted({o for _, p, o in self.triples if p == v.IMPORTS}))


def read(path: Path, *, size_limit: int = SIZE_LIMIT) -> Document:
    """Read a file."""
    content = _content(path, size_limit)
    return parse(content, _format(path, content), source=str(path))


def parse(content: bytes, syntax: Format = Format.TURTLE, *, source: str = "input") -> Document:
    """
    >>> parse(b"<urn:a> <urn:p> [ <urn:q> 5 ] .").triples[1][:2]
    ('<urn:a>', '<urn:p>')
    """
    import pyoxigraph

    _refuse_hazards(content, syntax, source)
    try:
        quads = pyoxigraph.parse(content, pyoxigraph.RdfFormat.from_media_type(syntax.value))
        raw = [_terms(quad) for quad in quads]
    except SyntaxError as error:
        raise _explained(error, source) from error
    digest = hashlib.sha256(content).hexdigest()[:16]
    return Document(source, tuple(_named(raw, digest)))


def _refuse_hazards(content: bytes, syntax: Format, source: str) -> None:
    from motet.codec.input_guards import refuse_unsafe
    from motet.codec.options import Limits

    try:
        refuse_unsafe(content, syntax, Limits(max_document_bytes=SIZE_LIMIT))
    except MotetError as error:
        raise DecodeError(error.message, source=source, advice=error.advice) from error


def _terms(quad: pyoxigraph.Quad) -> Triple:
    return str(quad.subject), str(quad.predicate), str(quad.object)


def _named(triples: list[Triple], digest: str) -> Iterable[Triple]:
    """Name the blank nodes after the content, so that one text always says the same; individuals become IRIs."""
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
    found = {s for s, p, o in triples if p in v.STRUCTURAL_PREDICATES or (p == v.TYPE and o in v.STRUCTURAL_TYPES)}
    return found | {o for _, p, o in triples if p in v.STRUCTURAL_OBJECTS or p == v.TYPE}


def _format(path: Path, content: bytes) -> Format:
    suffix = _bare(path).suffix.lower()
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if suffix == ".owl":
        start = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
        return Format.RDF_XML if start.startswith((b"<?xml", b"<rdf:", b"<!")) else Format.TURTLE
    raise UsageError(
        f"{path}: {suffix or 'a file without suffix'} is not an ontology format Motet knows by its name",
        advice=f"rename it to end in one of {', '.join([*_FORMATS, '.owl'])}, with .gz or .zst after it if packed",
    )


def _bare(path: Path) -> Path:
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def _content(path: Path, size_limit: int) -> bytes:
    try:
        with path.open("rb") as file, _unpacked(path, file) as stream:
            content = stream.read(size_limit + 1)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file", advice="check the path of the ontology") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}", advice="check the file and its permissions") from error
    if len(content) > size_limit:
        raise LimitError(
            f"{path}: more than {size_limit} bytes unpacked", advice="split the ontology or raise the limit"
        )
    return content


def _unpacked(path: Path, file: IO[bytes]) -> IO[bytes]:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(file))
    if suffix == ".zst":
        import pyarrow as pa

        return io.BufferedReader(pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
    return file


def _explained(error: SyntaxError, source: str) -> DecodeError:
    reason = error.msg
    advice = None
    if "LoadDocumentCallback" in reason:
        reason = "the JSON-LD context is a web address, and Motet fetches nothing"
        advice = "write the context into the file in place of its address"
    elif "No scheme found" in reason:
        advice = "IRIs must be absolute: add @base (Turtle) or xml:base (RDF/XML) to the file"
    reason = reason.partition(": ")[2] if reason.startswith("Parser error at") else reason
    return DecodeError(reason, source=source, line=error.lineno, column=error.offset, advice=advice)
