"""Times of events."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.decode import decode_bytes
from motet.codec.event_times import parse_times
from motet.model.times import parse_datetime

XSD = "http://www.w3.org/2001/XMLSchema#"
PROV = "http://www.w3.org/ns/prov#"
SOSA = "http://www.w3.org/ns/sosa/resultTime"


def literal(lexical: str, datatype: str = "dateTime") -> str:
    return f'"{lexical}"^^<{XSD}{datatype}>'


def times_of(*triples: tuple[str, str]) -> tuple[list[tuple[int | None, int | None]], list[str]]:
    """Times and rejections of one event <urn:e> with these properties."""
    lines = "".join(f"<urn:e> <{predicate}> {obj} <urn:e> .\n" for predicate, obj in triples)
    events, rejected = [], []
    for decoded in decode_bytes(lines.encode(), "application/n-quads"):
        columns = (decoded.events.column(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
        events += list(zip(*columns, strict=True))
        rejected += [str(error) for error in decoded.rejected]
    return events, rejected


def test_interval() -> None:
    """Start and end properties make an interval."""
    start, end = literal("1970-01-01T00:00:01Z"), literal("1970-01-01T00:00:02Z")
    assert times_of((PROV + "endedAtTime", end), (PROV + "startedAtTime", start)) == ([(1_000_000, 2_000_000)], [])


@pytest.mark.parametrize("name", ["startedAtTime", "endedAtTime"])
def test_half_an_interval_is_a_point(name: str) -> None:
    """With only one of start and end the event is a point."""
    assert times_of((PROV + name, literal("1970-01-01T00:00:01Z"))) == ([(1_000_000, 1_000_000)], [])


def test_first_group_decides() -> None:
    """A later property is ignored if an earlier one is present."""
    good, bad = literal("1970-01-01T00:00:01"), literal("whenever")
    assert times_of((PROV + "generatedAtTime", bad), (SOSA, good)) == ([(1_000_000, 1_000_000)], [])


def test_no_time() -> None:
    """An event in which nothing states a time has null times; `dcterms:created` of another subject is none."""
    created = "http://purl.org/dc/terms/created"
    lines = f"<urn:other> <{created}> {literal('1970-01-01T00:00:01Z')} <urn:e> .".encode()
    [decoded] = decode_bytes(lines, "application/n-quads")
    assert (decoded.events.column("start").to_pylist(), decoded.rejected) == ([None], [])


ATTRIBUTE = "urn:cloudevents:attribute:time"


@pytest.mark.parametrize(
    ("triples", "expected"),
    [
        ([(ATTRIBUTE, literal("1970-01-01T00:00:05Z"))], [(5_000_000, 5_000_000)]),
        ([(ATTRIBUTE, literal("1970-01-01T00:00:05Z")), (SOSA, literal("1970-01-01T00:00:01Z"))], [(1_000_000,) * 2]),
        ([(ATTRIBUTE, literal("never"))], [(None, None)]),
        ([(ATTRIBUTE, literal("1970-01-01T00:00:05Z")), (ATTRIBUTE, literal("1970-01-01T00:00:06Z"))], [(None, None)]),
    ],
)
def test_the_cloudevents_attribute(
    triples: list[tuple[str, str]], expected: list[tuple[int | None, int | None]]
) -> None:
    """An exported CloudEvent keeps its time: the attribute is the time of an event that states no other."""
    assert times_of(*triples) == (expected, [])


@pytest.mark.parametrize(
    ("triples", "words"),
    [
        ([(SOSA, literal("2026-02-30T00:00:00Z"))], ["<urn:e>", SOSA, "2026-02-30"]),
        ([(SOSA, '"2026-02-20T00:00:00Z"')], ["<urn:e>", SOSA, "not an xsd:dateTime"]),
        ([(SOSA, "<urn:noon>")], ["<urn:e>", SOSA, "<urn:noon>"]),
        ([(SOSA, literal("2026-02-20 00:00:00Z"))], ["<urn:e>", SOSA]),
        ([(SOSA, literal("2026-02-20T00:00Z"))], ["<urn:e>", SOSA]),
        ([(SOSA, literal("0000-02-20T00:00:00Z"))], ["<urn:e>", SOSA]),
        (
            [(SOSA, literal("2026-01-01T00:00:00Z")), (SOSA, literal("2026-01-02T00:00:00Z"))],
            ["<urn:e>", SOSA, "2 values", "2026-01-01", "2026-01-02"],
        ),
        (
            [
                (PROV + "startedAtTime", literal("2026-01-02T00:00:00Z")),
                (PROV + "endedAtTime", literal("2026-01-01T00:00:00Z")),
            ],
            ["<urn:e>", "ends before it starts", "startedAtTime", "2026-01-02", "2026-01-01"],
        ),
    ],
)
def test_wrong_times_reject_the_event(triples: list[tuple[str, str]], words: list[str]) -> None:
    """A wrong time rejects the event with an error that names the event, the property and the values."""
    events, [rejected] = times_of(*triples)
    assert events == []
    assert [word for word in words if word not in rejected] == []


lexicals = st.builds(
    "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}{}".format,
    st.integers(0, 9999),
    st.integers(0, 13),
    st.integers(0, 32),
    st.integers(0, 25),
    st.integers(0, 61),
    st.integers(0, 61),
    st.sampled_from(["", ".", ".5", ".123456", ".1234567", ".999999999999"]),
    st.sampled_from(["", "Z", "Z", "Z", "+00:00", "-05:30", "+14:00", "+14:01", "+15:00", "z"]),
)


@settings(deadline=None)
@given(st.lists(lexicals | st.datetimes().map(lambda moment: moment.isoformat() + "Z"), min_size=1, max_size=5))
def test_batches_parse_as_single_literals(values: list[str]) -> None:
    """Parsing a batch gives what parsing each literal alone gives, also for malformed ones."""

    def alone(lexical: str) -> int | None:
        try:
            return parse_datetime(lexical)
        except ValueError:
            return None

    micros, malformed = parse_times(pa.array([literal(value) for value in values]))
    batch = [None if i in malformed else int(micros[i]) for i in range(len(values))]
    assert batch == [alone(value) for value in values]
