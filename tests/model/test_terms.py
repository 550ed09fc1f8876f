"""Terms as canonical N-Triples strings."""

import pyoxigraph
from hypothesis import given
from hypothesis import strategies as st

from motet.model.terms import XSD, iri, is_iri, literal, literal_parts, to_json, to_oxigraph

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS)
def test_a_literal_is_written_as_pyoxigraph_writes_it(text: str) -> None:
    """One term has one string, the one every codec produces."""
    assert literal(text) == str(pyoxigraph.Literal(text))
    assert literal(text, language="en") == str(pyoxigraph.Literal(text, language="en"))
    datatype = pyoxigraph.NamedNode("urn:d")
    assert literal(text, datatype="urn:d") == str(pyoxigraph.Literal(text, datatype=datatype))


@given(TEXTS)
def test_a_literal_gives_its_parts_back(text: str) -> None:
    """Text, datatype and language survive the string form."""
    assert literal_parts(literal(text))[0] == text
    assert literal_parts(literal(text, datatype="urn:d")) == (text, "urn:d", None)
    assert literal_parts(literal(text, language="FR-ca"))[2] == "fr-ca"


def test_xsd_string_is_the_plain_literal() -> None:
    """A datatype that RDF says is implied is left out, so that equal terms are equal strings."""
    assert literal("a", datatype=XSD + "string") == '"a"'


def test_json_form() -> None:
    """Terms appear in notifications in the W3C SPARQL 1.1 JSON results form."""
    assert to_json("<urn:a>") == {"type": "uri", "value": "urn:a"}
    assert to_json('"a"') == {"type": "literal", "value": "a"}
    assert to_json('"a"@en') == {"type": "literal", "value": "a", "xml:lang": "en"}
    assert to_json('"5"^^<urn:d>') == {"type": "literal", "value": "5", "datatype": "urn:d"}


def test_terms_cross_to_pyoxigraph() -> None:
    """The oracle sees the same term."""
    for term in ("<urn:a>", '"a\\nb"', '"a"@en', '"01"^^<http://www.w3.org/2001/XMLSchema#integer>'):
        assert str(to_oxigraph(term)) == term


def test_is_iri_separates_iris_from_literals() -> None:
    """Only an IRI starts with a bracket."""
    assert is_iri(iri("urn:a"))
    assert not is_iri('"<urn:a>"')
