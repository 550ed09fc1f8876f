"""The face of the codecs: any bytes, any format."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.decode import decode_bytes, decode_file
from motet.codec.formats import Format
from motet.model.schemas import EVENTS

SAMPLES = {
    Format.N_QUADS: b'<urn:s> <urn:p> "1"@en <urn:e> .\n_:b <urn:p> <urn:o> <urn:f> .\n',
    Format.TRIG: b'@prefix x: <urn:x:> . x:e { x:s x:p [ x:q ("a" 1 true) ] } x:f { x:s a x:C }',
    Format.TURTLE: b'@prefix x: <urn:x:> . x:s x:p """long""", [ x:q 1.5 ] .',
    Format.N_TRIPLES: b'<urn:s> <urn:p> "1"^^<urn:d> .\n',
    Format.JSON_LD: b'{"@context": {"p": "urn:p"}, "@id": "urn:s", "p": [1, {"@value": "x", "@language": "en"}]}',
    Format.RDF_XML: b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:x="urn:x:">'
    b'<x:C rdf:about="urn:s"><x:p>1</x:p></x:C></rdf:RDF>',
    Format.CLOUDEVENT: b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "time": "2026-01-01T00:00:00Z",'
    b' "datacontenttype": "text/turtle", "data": "<> a <urn:C> ."}',
    Format.CLOUDEVENTS_BATCH: b'[{"specversion": "1.0", "id": "1", "source": "s", "type": "t"}]',
}


@pytest.mark.parametrize("syntax", Format)
def test_samples_are_valid(syntax: Format) -> None:
    """Each format's sample decodes without rejections (or the next test would prove little)."""
    batches = list(decode_bytes(SAMPLES[syntax], syntax.value))
    assert sum(decoded.events.num_rows for decoded in batches) >= 1
    assert [error for decoded in batches for error in decoded.rejected] == []


@pytest.mark.parametrize("syntax", Format)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_no_bytes_raise(syntax: Format, data: st.DataObject) -> None:
    """Damaged input of any format ends in events and rejections with reasons, never in an exception."""
    sample = SAMPLES[syntax]
    start = data.draw(st.integers(0, len(sample)))
    stop = data.draw(st.integers(start, min(len(sample), start + 10)))
    junk = data.draw(
        st.binary(max_size=4) | st.sampled_from([b"<", b'"', b"{", b"}", b"\\u0000", b"\xed\xa0\x80", b"_:", b"<<("])
    )
    for decoded in decode_bytes(sample[:start] + junk + sample[stop:], syntax.value):
        assert decoded.events.schema == EVENTS
        decoded.events.validate(full=True)
        assert all(error.reason and error.source == "input" and str(error) for error in decoded.rejected)


def test_time_properties_can_be_chosen() -> None:
    """The properties that carry an event's time are a parameter."""
    text = b'<urn:e> <urn:when> "2026-01-01T00:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> <urn:e> .'
    [decoded] = decode_bytes(text, "application/n-quads", time_properties=(("urn:when",),))
    assert decoded.events.column("start")[0].as_py().isoformat() == "2026-01-01T00:00:00+00:00"


def test_content_type_of_a_file(tmp_path: Path) -> None:
    """A content type stands in for a file name that does not tell the format."""
    (tmp_path / "events").write_bytes(SAMPLES[Format.N_QUADS])
    [decoded] = decode_file(str(tmp_path / "events"), content_type="application/n-quads")
    assert decoded.events.column("id").to_pylist() == ["urn:e", "urn:f"]
