"""Guessing the format of events."""

from __future__ import annotations

import gzip

import pytest

from motet.codec.format_guess import guess_format
from motet.codec.formats import Format
from motet.model.errors import UsageError


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
