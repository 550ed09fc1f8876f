"""Formats of file names and content types."""

import pytest

from motet.codec.formats import Format, format_of_content_type, format_of_path
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
