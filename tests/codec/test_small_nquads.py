"""The quick way for a few plain N-Quads says what the usual decoder says."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.codec.limits import Source
from motet.codec.nquads_stream import decode_nquads
from motet.codec.small_nquads import decode_small

XSD = "http://www.w3.org/2001/XMLSchema#"
SOURCE = Source("input")
IRIS = st.sampled_from(
    [
        "<urn:a>",
        "<urn:b>",
        "<http://h/p?q=1#f>",
        "<http://h:80>",
        "<http://h:x/>",
        "<x:%41>",
        "<x:%4>",
        "<a b:c>",
        "<r>",
    ]
)
TIMES = [
    f'"2026-11-15T10:00:0{n}{rest}"^^<{XSD}dateTime>'
    for n in range(3)
    for rest in ("Z", ".1234567Z", "+01:00", "", "x")
]
OBJECTS = st.one_of(
    IRIS,
    st.sampled_from(
        [*TIMES, f'"x"^^<{XSD}string>', '"x"@en', '"x"@EN', '"x"@en-GB', '"\\n"', '"ä"', "_:b", '"5"', '"']
    ),
    st.text("ab \\\"'.<>@^", max_size=4).map(lambda text: f'"{text}"'),
)
PREDICATES = st.sampled_from(
    ["<urn:p>", *(f"<http://www.w3.org/ns/prov#{n}>" for n in ("startedAtTime", "endedAtTime", "generatedAtTime"))]
)
LINES = st.builds(
    lambda s, p, o, g, blank, end: f"{s}{blank}{p} {o}{blank}{g}{end}",
    IRIS, PREDICATES, OBJECTS, st.sampled_from(["<urn:a>", "<urn:b>"]), st.sampled_from([" ", "\t", "  ", ""]),
    st.sampled_from([" .\n", ".\n", " . \n", " . # c\n", "\n", " .\r\n", " .\n\n"]),
)  # fmt: skip


def usual(data: bytes) -> tuple[pa.Table, list[str]]:
    decoded = list(decode_nquads(iter([data]), SOURCE))
    return pa.Table.from_batches([part.events for part in decoded]), [str(e) for part in decoded for e in part.rejected]


@given(st.lists(LINES, min_size=1, max_size=5), st.booleans())
def test_what_is_taken_is_what_the_usual_decoder_takes(lines: list[str], whole: bool) -> None:
    """Same events, same times, same order; and nothing is taken of which a part would be refused."""
    text = "".join(lines)
    data = (text if whole else text.rstrip("\n")).encode()
    found = decode_small(data, SOURCE)
    if found is not None:
        events, rejected = usual(data)
        assert rejected == []
        assert pa.Table.from_batches([found]).equals(events)


@pytest.mark.parametrize("value", ['"5"', "<urn:o>", '"x"@en', TIMES[0], TIMES[1], f'"1"^^<{XSD}integer>'])
def test_the_usual_is_taken(value: str) -> None:
    """Plain lines with IRIs, literals and times take the quick way."""
    property_ = "<http://www.w3.org/ns/prov#generatedAtTime>" if value in TIMES else "<urn:p>"
    data = f"<urn:e> {property_} {value} <urn:e> .\n<urn:e> <urn:q> <urn:r> <urn:e> .\n".encode()
    found = decode_small(data, SOURCE)
    assert found is not None
    assert pa.Table.from_batches([found]).equals(usual(data)[0])


def test_an_empty_text_goes_the_usual_way() -> None:
    """There is nothing to be quick about."""
    assert decode_small(b"", SOURCE) is None
