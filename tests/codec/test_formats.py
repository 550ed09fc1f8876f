"""Formats of file names and content types, and guesses from the beginning of a text."""

from __future__ import annotations

import gzip

import pytest

from motet.codec.formats import Format, format_of_content_type, format_of_path, guess_format
from motet.model.errors import UsageError


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.nq", Format.N_QUADS),
        ("a.NQ.GZ", Format.N_QUADS),
        ("dir.ttl/a.trig.zst", Format.TRIG),
        ("a.ttl", Format.TURTLE),
        ("a.nt", Format.N_TRIPLES),
        ("a.jsonld", Format.JSON_LD),
        ("a.owl", Format.RDF_XML),
        ("a.ce.json", Format.CLOUDEVENT),
        ("a.csv.gz", Format.CSV),
        ("a.jsonl", Format.NDJSON),
        ("a.json", Format.JSON),
    ],
)
def test_suffix_selects_the_format(path: str, expected: Format) -> None:
    """The suffix of a file name, before a compression suffix, selects the format."""
    assert format_of_path(path) is expected


def test_unknown_suffix_lists_known_ones() -> None:
    """An unknown suffix is a usage error that lists the known ones."""
    with pytest.raises(UsageError, match=r"(?s)events\.doc.*\.nq.*\.trig.*\.ce\.json"):
        format_of_path("events.doc")


def test_unknown_content_type_lists_known_ones() -> None:
    """An unknown content type is a usage error that lists the known ones."""
    with pytest.raises(UsageError, match=r"(?s)text/plain.*application/n-quads.*application/cloudevents-batch"):
        format_of_content_type("text/plain")


def test_only_utf8() -> None:
    """A content type with a charset other than UTF-8 is refused."""
    assert format_of_content_type('Text/Turtle; charset="UTF-8"') is Format.TURTLE
    with pytest.raises(UsageError, match="not UTF-8"):
        format_of_content_type("text/turtle;charset=latin1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<urn:s> <urn:p> "o" <urn:e:1> .', Format.N_QUADS),
        ("# a comment\n\n<urn:s> <urn:p> <urn:o> .\n_:b <urn:p> <urn:o> <urn:g> .", Format.N_QUADS),
        ("<urn:s> <urn:p> <urn:o> .", Format.N_QUADS),
        ("<urn:s><urn:p><urn:o><urn:g>.", Format.N_QUADS),
        ('<urn:s> <urn:p> "a; b, [c]" <urn:g> . # comment', Format.N_QUADS),
        ("<urn:s> <urn:p> oops <urn:g> .", Format.N_QUADS),
        ("", Format.N_QUADS),
        ("@prefix ex: <urn:ex#> .\nex:a a ex:Alarm .", Format.TRIG),
        ("PREFIX ex: <urn:ex#>\nex:a a ex:Alarm .", Format.TRIG),
        ("\ufeff@base <urn:ex#> .", Format.TRIG),
        ("<> a <urn:Alarm> .", Format.TRIG),
        ("<> <urn:p> <urn:o> .", Format.TRIG),
        ("<urn:a> a <urn:Alarm> .", Format.TRIG),
        ("<urn:a> <urn:p> 5 .", Format.TRIG),
        ("<urn:a> <urn:p> true .", Format.TRIG),
        ("<urn:a> <urn:p> <urn:o> ;", Format.TRIG),
        ("<urn:a>\n  <urn:p> <urn:o> .", Format.TRIG),
        ("<urn:a> <urn:p> 'one' .", Format.TRIG),
        ("<urn:a> <urn:p> ex:b .", Format.TRIG),
        ("<urn:s> <urn:p> <urn:o> .\n<urn:s> a <urn:C> .", Format.TRIG),
        ("<urn:e:1> { <urn:e:1> a <urn:Alarm> }", Format.TRIG),
        ("GRAPH <urn:e:1> { <urn:e:1> a <urn:Alarm> }", Format.TRIG),
        ("{ <urn:e:1> a <urn:Alarm> }", Format.TRIG),
        ("[] a <urn:Alarm> .", Format.TRIG),
        ("[ a <urn:Alarm> ] .", Format.TRIG),
        (":a a <urn:Alarm> .", Format.TRIG),
        ('{"@id": "urn:e:1"}', Format.JSON_LD),
        ('\ufeff [\n {"@id": "urn:e:1"}]', Format.JSON_LD),
        ("[]", Format.JSON_LD),
        ("{}", Format.JSON_LD),
        ('{"specversion": "1.0", "id": "1"}', Format.CLOUDEVENT),
        ('{"specversion": "1.0", "id": "1"', Format.CLOUDEVENT),
        ('[{"specversion": "1.0", "id": "1"}]', Format.CLOUDEVENTS_BATCH),
        ('<?xml version="1.0"?><a/>', Format.XML),
        ("<order><pay>finished</pay></order>", Format.XML),
        ("<a:order/>", Format.XML),
        ("<a:order xmlns:a='urn:a'>", Format.XML),
        ("<!-- orders --><order/>", Format.XML),
        ("<order><id>1</id><note>" + "x" * (1 << 20) + "</note></order>", Format.XML),
        ("<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'/>", Format.RDF_XML),
        ("<?xml version='1.0'?>\n<!-- x --><!DOCTYPE r [<!ENTITY a 'b'>]>\n<RDF xmlns='urn:x'/>", Format.RDF_XML),
        ("<order> <urn:p> </room> .", Format.TRIG),
    ],
)
def test_the_beginning_shows_the_format(text: str, expected: Format) -> None:
    """TriG is guessed for Turtle, too: it is Turtle with graphs."""
    assert guess_format(text.encode()) is expected
    assert guess_format(gzip.compress(text.encode())) is expected


@pytest.mark.parametrize("text", ["hello", "5", "time,celsius\n1,2", "null"])
def test_what_does_not_show_its_format_needs_a_content_type(text: str) -> None:
    """The error quotes the beginning and has the content types."""
    with pytest.raises(UsageError, match="format of the data is not known") as refused:
        guess_format(text.encode())
    assert "application/rdf+xml" in str(refused.value.advice)


def test_many_plain_triples_are_read_as_n_quads() -> None:
    assert guess_format(b"<urn:s> <urn:p> <urn:o> .\n" * 2000) is Format.N_QUADS
