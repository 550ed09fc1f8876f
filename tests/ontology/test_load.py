"""Reading ontology files: formats, imports, blank nodes, and errors with positions."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from motet.model.errors import DecodeError, LimitError, UsageError
from motet.model.terms import OWL, RDF, RDFS
from motet.ontology import owl_names as v
from motet.ontology.load import Ontology, load

TURTLE = f"<urn:Dog> <{RDFS}subClassOf> <urn:Animal> .\n"
RDF_XML = f"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [ <!ENTITY u "urn:"> ]>
<rdf:RDF xmlns:rdf="{RDF}" xmlns:rdfs="{RDFS}">
  <rdf:Description rdf:about="&u;Dog"><rdfs:subClassOf rdf:resource="urn:Animal"/></rdf:Description>
</rdf:RDF>"""
JSON_LD = f'{{"@id": "urn:Dog", "{RDFS}subClassOf": {{"@id": "urn:Animal"}}}}'
DOG_IS_ANIMAL = (("<urn:Dog>", v.SUBCLASS, "<urn:Animal>"),)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ttl", TURTLE),
        ("a.nt", TURTLE),
        ("a.rdf", RDF_XML),
        ("a.owl", RDF_XML),
        ("b.owl", TURTLE),
        ("a.jsonld", JSON_LD),
    ],
)
def test_every_format_gives_the_same_triples(tmp_path: Path, name: str, text: str) -> None:
    """Turtle, N-Triples, RDF/XML and JSON-LD are selected by suffix and give the same triples."""
    assert load([write(tmp_path / name, text)]).triples == DOG_IS_ANIMAL


def test_compressed_files_are_read(tmp_path: Path) -> None:
    """Files with the additional suffix .gz or .zst are decompressed."""
    (tmp_path / "a.ttl.gz").write_bytes(gzip.compress(TURTLE.encode()))
    with pa.CompressedOutputStream(str(tmp_path / "a.ttl.zst"), "zstd") as packed:
        packed.write(TURTLE.encode())
    assert [load([tmp_path / f"a.ttl{end}"]).triples for end in (".gz", ".zst")] == [DOG_IS_ANIMAL] * 2


def test_a_syntax_error_names_file_line_and_column(tmp_path: Path) -> None:
    """A file that cannot be parsed is reported with file, line, column and reason."""
    path = write(tmp_path / "a.ttl", TURTLE + "<urn:Dog> a ex:Pet .\n")
    with pytest.raises(DecodeError) as caught:
        load([path])
    assert str(caught.value) == f"{path}, line 2, column 13: The prefix ex: has not been declared"


def test_a_remote_context_is_refused(tmp_path: Path) -> None:
    """A JSON-LD context that would have to be fetched is an error that says what to do."""
    path = write(tmp_path / "a.jsonld", '{"@context": "https://example.org/c.jsonld", "@id": "urn:a"}')
    with pytest.raises(DecodeError, match="contexts are not fetched\n  write the context into the file"):
        load([path])


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.rdf", '<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;">]><r/>', "an entity made of other entities"),
        ("a.rdf", '<!DOCTYPE r [<!ENTITY b SYSTEM "file:///etc/hostname">]><r/>', "external or parameter entities"),
        ("a.ttl", "<urn:a> <urn:p> " + "<< " * 1000, "RDF 1.2 triple terms are not supported"),
        ("a.jsonld", "[" * 100_000, "the JSON is nested deeper than"),
    ],
)
def test_unsafe_documents_are_refused(tmp_path: Path, name: str, text: str, reason: str) -> None:
    """Expanding entities, triple terms and deep nesting are refused before parsing, with the name of the file."""
    with pytest.raises(DecodeError, match=f"{name}: .*{reason}"):
        load([write(tmp_path / name, text)])


def test_a_file_over_the_limit_is_refused(tmp_path: Path) -> None:
    """The size limit counts bytes after decompression."""
    (tmp_path / "a.ttl.gz").write_bytes(gzip.compress(b"#" * 10_000))
    with pytest.raises(LimitError, match="more than 1000 bytes after decompression"):
        load([tmp_path / "a.ttl.gz"], max_file_bytes=1000)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [("a.pdf", b"", r"\.pdf is not the suffix of an ontology format"), ("b.ttl.gz", b"junk", "cannot be read")],
)
def test_other_files_are_usage_errors(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """An unknown suffix and a damaged archive are usage errors."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        load([tmp_path / name])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A path that does not exist is named in the error."""
    with pytest.raises(UsageError, match=r"none\.ttl: no such file"):
        load([tmp_path / "none.ttl"])


def test_imports_are_taken_from_the_given_files(tmp_path: Path) -> None:
    """An import is satisfied by a given file that declares the ontology, under its IRI or its version."""
    main = write(tmp_path / "main.ttl", f"<urn:main> a <{OWL}Ontology> ; <{OWL}imports> <urn:pets/2> .")
    pets = write(
        tmp_path / "pets.ttl",
        f"<urn:pets> a <{OWL}Ontology> ; <{OWL}versionIRI> <urn:pets/2> . <urn:Dog> a <urn:Pet> .",
    )
    assert ("<urn:Dog>", v.TYPE, "<urn:Pet>") in load([main, pets]).triples


def test_imports_are_taken_from_the_catalogue(tmp_path: Path) -> None:
    """An import is satisfied by the catalogue's file, whose imports are resolved too."""
    main = write(tmp_path / "main.ttl", f"<urn:main> a <{OWL}Ontology> ; <{OWL}imports> <urn:a> .")
    a = write(tmp_path / "a.ttl", f"<urn:a> a <{OWL}Ontology> ; <{OWL}imports> <urn:b>, <urn:a> .")
    b = write(tmp_path / "b.ttl", f"<urn:b> a <{OWL}Ontology> ; <{OWL}imports> <urn:a> .")
    assert load([main], catalogue={"urn:a": a, "urn:b": b}).sources == (str(main), str(a), str(b))


def test_a_missing_import_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A missing import is named with its importer: in a warning, or in an error when imports are strict."""
    main = write(tmp_path / "main.ttl", f"<urn:main> a <{OWL}Ontology> ; <{OWL}imports> <urn:pets> .")
    with pytest.raises(UsageError) as caught:
        load([main], imports="strict")
    assert f"{main} imports <urn:pets>, which is not among the given files\n  pass the file" in str(caught.value)
    assert caplog.messages == []
    loaded = load([main])
    assert (loaded.sources, loaded.missing) == ((str(main),), {"<urn:pets>": str(main)})
    (warning,) = caplog.messages
    assert f"{main} imports <urn:pets>" in warning
    with pytest.raises(UsageError, match="'never' is unknown"):
        load([main], imports="never")  # type: ignore[arg-type]


def test_blank_nodes_of_two_files_differ(tmp_path: Path) -> None:
    """The same label in two files is two class expressions; the same file twice gives each triple once."""
    a, b = (write(tmp_path / f"{name}.ttl", f"_:x <{OWL}onProperty> <urn:{name}> .") for name in "ab")
    assert len({s for s, _, _ in load([a, b]).triples}) == 2
    assert load([b, a, b]) == load([a, b])


def test_blank_individuals_become_iris(tmp_path: Path) -> None:
    """A blank node that is an individual becomes an IRI that depends on the content of the file, not on its path."""
    text = f"<urn:a> <urn:knows> [ a <urn:Person> ] . <urn:A> <{RDFS}subClassOf> [ <{OWL}onProperty> <urn:p> ] ."
    first, second = (load([write(tmp_path / name, text)]) for name in ("a.ttl", "b.ttl"))
    person = next(s for s, _, o in first.triples if o == "<urn:Person>")
    assert person.startswith("<urn:motet:blank:")
    assert first == second


def test_classes_and_subclasses(tmp_path: Path) -> None:
    """Declared, related and equivalent classes are classes; subclasses are found through class expressions too."""
    text = f"""<urn:A> <{OWL}equivalentClass> [ <{OWL}intersectionOf> ( <urn:B> <urn:C> ) ] .
        <urn:B> a <{OWL}Class> . <urn:D> <{RDFS}subClassOf> <urn:A> ."""
    ontology = load([write(tmp_path / "a.ttl", text)])
    assert ontology.classes() == ("<urn:A>", "<urn:B>", "<urn:C>", "<urn:D>")
    assert ontology.subclasses("<urn:B>") == ("<urn:A>", "<urn:D>")
    assert ontology.superclasses("<urn:D>") == (v.THING, "<urn:A>", "<urn:B>", "<urn:C>")


def test_an_ontology_can_be_pickled() -> None:
    """An ontology can be pickled, as workers need."""
    ontology = Ontology(DOG_IS_ANIMAL)
    assert pickle.loads(pickle.dumps(ontology)) == ontology  # noqa: S301  (our own bytes)
