"""Documents that are refused before they are parsed."""

import json
import time

import pytest

from motet.codec.decode import decode_bytes
from motet.codec.input_guards import refuse_deep_json, refuse_deep_xml
from motet.model.errors import DecodeError, LimitError

RDF_XML = (
    '<!DOCTYPE r [{}]><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">'
    '<rdf:Description rdf:about="urn:s"><x:p>{}</x:p></rdf:Description></rdf:RDF>'
)


def reject(text: str, content_type: str) -> DecodeError:
    [decoded] = decode_bytes(text.encode(), content_type)
    assert decoded.events.num_rows == 0
    [error] = decoded.rejected
    return error


@pytest.mark.parametrize(
    "document",
    [
        {"@context": "https://schema.org/", "@id": "urn:s"},
        {"@context": ["https://schema.org/", {}], "@id": "urn:s"},
        {"@context": {"@version": 1.1, "@import": "https://schema.org/"}, "@id": "urn:s"},
        {"@context": {"p": {"@id": "urn:p", "@context": "https://schema.org/"}}, "p": {"q": 1}},
        {"@graph": [{"urn:p": {"@context": "https://schema.org/", "urn:q": 1}}]},
    ],
)
def test_remote_contexts_are_refused_by_name(document: object) -> None:
    """A remote context anywhere in a JSON-LD document is refused by name, with advice."""
    error = reject(json.dumps(document), "application/ld+json")
    assert "<https://schema.org/>" in error.reason
    assert "not fetched" in error.reason
    assert "into the document" in str(error.advice)


@pytest.mark.parametrize("content_type", ["application/ld+json", "application/cloudevents+json"])
@pytest.mark.parametrize("opening", ["[", '{"urn:p":'])
def test_deep_json_is_refused(content_type: str, opening: str) -> None:
    """JSON nested too deeply is rejected without an exception."""
    assert "nested deeper than 200" in reject(opening * 1_000_000, content_type).reason


def test_brackets_in_strings_do_not_nest() -> None:
    """Only brackets outside strings count, and the limit itself is allowed."""
    refuse_deep_json(json.dumps([["[[[", '\\"[[[']]).encode(), 2)
    with pytest.raises(LimitError):
        refuse_deep_json(b"[[[]]]", 2)


def test_plain_entities_are_read() -> None:
    """Entities with plain text, as OWL files use them, are read."""
    text = RDF_XML.format('<!ENTITY a "hello">', "&a; &a;").encode()
    [decoded] = decode_bytes(text, "application/rdf+xml", id="urn:e")
    assert [t["object"] for t in decoded.events.column("triples")[0].as_py()] == ['"hello hello"']


def test_entity_bombs_are_refused_at_once() -> None:
    """Entities that expand into each other, or often, or are external, are refused before parsing."""
    nested = '<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(20)
    )
    quadratic = '<!ENTITY a "{}">'.format("a" * 100_000)
    before = time.process_time()
    assert "made of other entities" in reject(RDF_XML.format(nested, "&u;"), "application/rdf+xml").reason
    assert "expand to" in reject(RDF_XML.format(quadratic, "&a;" * 100_000), "application/rdf+xml").reason
    for outside in ('<!ENTITY a SYSTEM "file:///etc/passwd">', '<!ENTITY % a "b">'):
        assert "external or parameter" in reject(RDF_XML.format(outside, "&a;"), "application/rdf+xml").reason
    assert time.process_time() - before < 5


def test_deep_xml_is_refused_before_parsing() -> None:
    """XML nested past the limit is refused at once; comments and siblings do not count."""
    with pytest.raises(LimitError, match="deeper than 200"):
        refuse_deep_xml(b"<a>" * 100_000, 200)
    refuse_deep_xml(b"<a>" + b"<b/>" * 1000 + b"<!-- <c><d> --></a>", 2)
