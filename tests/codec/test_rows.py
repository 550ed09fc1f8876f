"""Rows as events: formats, types, nesting, identity, and rejections with file, line and column."""

import gzip
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.codec.decode import Message, decode_file, decode_messages
from motet.codec.events import Decoded, join_batches
from motet.codec.formats import Format
from motet.codec.identity import content
from motet.codec.mapping_draft import draft_mapping
from motet.codec.options import DecodeOptions
from motet.codec.row_formats import BATCH_ROWS, decode_call, decode_row_chunks
from motet.codec.row_mapping import RowMapping
from motet.codec.row_values import instant
from motet.codec.rows import ArrowRows, ObjectRows
from motet.model.batches import event_rows
from motet.model.errors import UsageError

XSD = "http://www.w3.org/2001/XMLSchema#"
READINGS = RowMapping.of(
    {
        "prefixes": {"ex": "http://example.org/"},
        "event": {"class": "ex:Reading", "time": "time"},
        "properties": {"room": "ex:room", "celsius": {"property": "ex:celsius", "datatype": "double"}},
    }
)


def decode(text: str, syntax: Format, mapping: RowMapping = READINGS, **options: object) -> Decoded:
    batches = decode_row_chunks(iter([text.encode()]), syntax, DecodeOptions("in", mapping=mapping, **options))  # type: ignore[arg-type]
    return join_batches(list(batches))


def of_property(decoded: Decoded, name: str) -> list[list[str]]:
    """The objects of a property of example.org, or of any other IRI, for each event."""
    iri = name if ":" in name else f"http://example.org/{name}"
    return [[o for _, p, o in event.triples if p == f"<{iri}>"] for event in event_rows(decoded.events)]


def call(rows: object, mapping: Mapping[str, object] | RowMapping, input_id: str = "urn:call") -> Decoded:
    options = DecodeOptions("rows", input_id=input_id)
    return join_batches(list(decode_call(rows, RowMapping.of(mapping), options)))


def value(given: object, spec: object = "urn:p") -> list[str]:
    """The terms that one value becomes."""
    return of_property(call([{"a": given}], {"event": {"class": "urn:C"}, "properties": {"a": spec}}), "urn:p")[0]


def test_csv_rows_are_events() -> None:
    """Each row is an event with class, time and properties; an empty cell is no triple."""
    decoded = decode('time,room,celsius\n2026-11-15T10:00:00Z,hall,21.50\n2026-11-15 11:01,"a, b",\n', Format.CSV)
    assert decoded.rejected == []
    assert decoded.events["start"].to_pylist() == [
        datetime(2026, 11, 15, 10, tzinfo=UTC),
        datetime(2026, 11, 15, 11, 1, tzinfo=UTC),
    ]
    assert of_property(decoded, "celsius") == [[f'"21.5"^^<{XSD}double>'], []]
    assert of_property(decoded, "room") == [['"hall"'], ['"a, b"']]


def test_bad_rows_are_rejected_one_by_one() -> None:
    """The error has file, line and column; quoted line breaks and empty lines are counted, other rows are events."""
    text = (
        'time,room,celsius\n2026-11-15T10:00:00Z,"a\nb",1\n\n2026-11-15T10:00:00Z,hall,warm\n'
        'x,hall,1\n2026-11-15T10:00:00Z,hall\n,hall,1\n2026-11-15T10:00:00Z,"x"y,1\n2026-11-15T10:00:00Z,hall,2\n'
    )
    decoded = decode(text, Format.CSV)
    assert decoded.events.num_rows == 2
    assert {error.line: error.reason for error in decoded.rejected} == {
        5: "column 'celsius': 'warm' is not an xsd:double",
        6: "column 'time': 'x' is no time such as 2026-11-15T10:00:00Z; other forms need a format",
        7: "the row has 2 columns, and the header 3",
        8: "column 'time' is empty: an event needs its time",
        9: "not CSV: ',' expected after '\"'",
    }
    assert {error.source for error in decoded.rejected} == {"in"}
    assert '"celsius": "warm"' in str(decoded.rejected[0].content)


def test_rows_that_are_not_utf8_are_rejected() -> None:
    """Bytes in another encoding cost the other rows nothing."""
    chunks = iter([b"time,room,celsius\n2026-11-15T10:00:00Z,k\xfcche,1\n2026-11-15T10:00:00Z,hall,1\n"])
    decoded = join_batches(list(decode_row_chunks(chunks, Format.CSV, DecodeOptions("in", mapping=READINGS))))
    assert (decoded.events.num_rows, [error.line for error in decoded.rejected]) == (1, [2])


def test_a_missing_column_is_an_error_with_the_columns_there_are() -> None:
    """A table without a column of the mapping is refused as a whole."""
    with pytest.raises(UsageError, match=r"(?s)in: there is no column 'room'.*the columns are: time, celsius"):
        decode("time,celsius\n2026-11-15T10:00:00Z,1\n", Format.CSV)


def test_a_json_row_without_a_column_is_rejected_alone() -> None:
    """A column that some rows lack is an error of those rows, unless it is optional."""
    rows = '{"room": "hall", "level": 3}\n{"room": "hall"}\n'
    spec = {"property": "urn:level", "optional": "true"}
    strict = RowMapping.of({"properties": {"room": "urn:room", "level": "urn:level"}})
    lenient = RowMapping.of({"properties": {"room": "urn:room", "level": spec}})
    (rejected,) = decode(rows, Format.NDJSON, strict).rejected
    assert (rejected.line, rejected.reason) == (2, "there is no column 'level', which the mapping names")
    assert decode(rows, Format.NDJSON, lenient).events.num_rows == 2


def test_json_paths_and_arrays() -> None:
    """A dotted path reads nested objects, an array gives several triples, and an exact name wins."""
    mapping = RowMapping.of(
        {
            "event": {"id": "urn:e:{meta.id}"},
            "properties": {
                "meta.tags": {"property": "urn:tag", "iri": "urn:tag:{meta.tags}"},
                "readings.value": "urn:value",
                "a.b": "urn:ab",
            },
        }
    )
    text = '{"meta": {"id": 7, "tags": ["x y", "z"]}, "readings": [{"value": 1}, {"value": 2.5}], "a.b": true}'
    decoded = decode(text, Format.JSON, mapping)
    assert decoded.events["id"].to_pylist() == ["urn:e:7"]
    assert of_property(decoded, "urn:tag") == [["<urn:tag:x%20y>", "<urn:tag:z>"]]
    assert of_property(decoded, "urn:value") == [[f'"1"^^<{XSD}integer>', f'"2.5"^^<{XSD}double>']]
    assert of_property(decoded, "urn:ab") == [[f'"true"^^<{XSD}boolean>']]


def test_an_object_is_no_value() -> None:
    """The error lists the fields of an object that a mapping names as a value."""
    (rejected,) = decode('{"a": {"b": 1, "c": 2}}', Format.JSON, RowMapping.of({"properties": {"a": "urn:a"}})).rejected
    assert rejected.reason == "column 'a': dict is no simple value: name one of its fields: b, c"


@pytest.mark.parametrize("text", ['[{"a": 1},\n {"a": 2}]', '{"a": 1}\n{"a": 2}', '\ufeff{"a": 1} {"a": 2}'])
def test_json_is_objects_or_an_array(text: str) -> None:
    """An array of objects is several rows, and so are objects in succession."""
    decoded = decode(text, Format.JSON, RowMapping.of({"properties": {"a": "urn:a"}}))
    assert [objects[0][1] for objects in of_property(decoded, "urn:a")] == ["1", "2"]


def test_broken_json_costs_what_follows_it() -> None:
    """In a JSON array the rows before an error are events; in NDJSON all other lines are."""
    mapping = RowMapping.of({"properties": {"a": "urn:a"}})
    array = decode('[{"a": 1},\n{"a": },\n{"a": 3}]', Format.JSON, mapping)
    lines = decode('{"a": 1}\n{"a": }\n{"a": NaN}\n[1]\n{"a": 3}\n', Format.NDJSON, mapping)
    assert (array.events.num_rows, [error.line for error in array.rejected]) == (1, [2])
    assert (lines.events.num_rows, [error.line for error in lines.rejected]) == (2, [2, 3, 4])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[{"a": 1},\n{"a": 2}\n', "not JSON: the array is cut off"),
        ('[{"a": 1}\n{"a": 2}]', "not JSON: a comma is missing"),
        ('[{"a": 1}], {"a": 2}', "not JSON: Expecting value (column 11)"),
    ],
)
def test_json_that_is_cut_off_is_named(text: str, reason: str) -> None:
    """A file that is not complete is no success."""
    decoded = decode(text, Format.JSON, RowMapping.of({"properties": {"a": "urn:a"}}))
    assert decoded.events.num_rows
    assert [error.reason for error in decoded.rejected] == [reason]


def test_half_characters_are_rejected() -> None:
    """An escaped surrogate of JSON is no character."""
    decoded = decode('{"a": "\\ud800"}\n{"a": 1}\n', Format.NDJSON, RowMapping.of({"properties": {"a": "urn:a"}}))
    assert (decoded.events.num_rows, [error.line for error in decoded.rejected]) == (1, [1])


def test_deep_json_is_rejected() -> None:
    """Nesting that overflows the parser is an error of its row."""
    decoded = decode(
        '{"a": ' + "[" * 200_000 + "\n" + '{"a": 1}\n', Format.NDJSON, RowMapping.of({"properties": {"a": "urn:a"}})
    )
    assert (decoded.events.num_rows, len(decoded.rejected)) == (1, 1)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("5", f'"5"^^<{XSD}integer>'),
        ("-5", f'"-5"^^<{XSD}integer>'),
        ("007", '"007"'),
        ("5.10", f'"5.1"^^<{XSD}double>'),
        ("1e3", f'"1000.0"^^<{XSD}double>'),
        ("TRUE", f'"true"^^<{XSD}boolean>'),
        ("2026-11-15", f'"2026-11-15"^^<{XSD}date>'),
        ("2026-11-31", '"2026-11-31"'),
        ("2026-11-15 10:00", f'"2026-11-15T10:00:00"^^<{XSD}dateTime>'),
        ("2026-11-15T10:00:00+02:00", f'"2026-11-15T08:00:00Z"^^<{XSD}dateTime>'),
        ("hall", '"hall"'),
        ('say ""hi""', '"say \\"hi\\""'),
    ],
)
def test_the_type_of_a_text_depends_on_the_text_alone(text: str, term: str) -> None:
    """Texts of CSV are numbers, booleans, dates, times or strings by their form."""
    decoded = decode(f'a,b\n"{text}",x\n', Format.CSV, RowMapping.of({"properties": {"a": "urn:a"}}))
    assert of_property(decoded, "urn:a") == [[term]]


@pytest.mark.parametrize(
    ("given", "term"),
    [
        ("5", '"5"'),
        (5, f'"5"^^<{XSD}integer>'),
        (2**70, f'"{2**70}"^^<{XSD}integer>'),
        (2.5, f'"2.5"^^<{XSD}double>'),
        (float("inf"), f'"INF"^^<{XSD}double>'),
        (True, f'"true"^^<{XSD}boolean>'),
        (Decimal("2.50"), f'"2.5"^^<{XSD}decimal>'),
        (date(2026, 11, 15), f'"2026-11-15"^^<{XSD}date>'),
        (datetime(2026, 11, 15, 10, tzinfo=UTC), f'"2026-11-15T10:00:00Z"^^<{XSD}dateTime>'),
        (datetime(2026, 11, 15, 10), f'"2026-11-15T10:00:00"^^<{XSD}dateTime>'),
        (None, None),
    ],
)
def test_typed_values_keep_their_types(given: object, term: str | None) -> None:
    """Values of JSON, Python and Arrow have their own types, also where an Arrow column has them."""
    expected = [] if term is None else [term]
    assert value(given) == expected
    if given != 2**70:
        table = pa.table({"a": pa.array([given])})
        mapping: dict[str, object] = {"event": {"class": "urn:C"}, "properties": {"a": "urn:p"}}
        assert of_property(call(table, mapping), "urn:p") == [expected]


@pytest.mark.parametrize(
    ("given", "spec", "term"),
    [
        ("07", {"datatype": "integer"}, f'"7"^^<{XSD}integer>'),
        (5.0, {"datatype": "integer"}, f'"5"^^<{XSD}integer>'),
        (5, {"datatype": "string"}, '"5"'),
        (1e-7, {"datatype": "decimal"}, f'"0.0000001"^^<{XSD}decimal>'),
        ("21", {"datatype": "double"}, f'"21.0"^^<{XSD}double>'),
        (1, {"datatype": "boolean"}, f'"true"^^<{XSD}boolean>'),
        ("POINT (1 2)", {"datatype": "urn:wkt"}, '"POINT (1 2)"^^<urn:wkt>'),
        ("Halle", {"language": "DE"}, '"Halle"@de'),
        ("urn:x:1", {"iri": "{a}"}, "<urn:x:1>"),
        ("Küche 1/2", {"iri": "urn:room:{a}"}, "<urn:room:Küche%201%2F2>"),
    ],
)
def test_a_mapping_converts_values(given: object, spec: dict[str, str], term: str) -> None:
    """A datatype, a language or a template in the mapping decides."""
    assert value(given, {"property": "urn:p"} | spec) == [term]


def test_a_column_that_is_no_iri_is_rejected() -> None:
    """A template of one column alone needs absolute IRIs."""
    mapping = {"properties": {"a": {"property": "urn:p", "iri": "{a}"}}}
    (rejected,) = call([{"a": "no iri"}], mapping).rejected
    assert rejected.reason == "column 'a': 'no iri' is no IRI"


@pytest.mark.parametrize(
    ("text", "options", "lexical"),
    [
        ("1763200000", {"unit": "s"}, "2025-11-15T09:46:40Z"),
        ("1763200000.25", {"unit": "s"}, "2025-11-15T09:46:40.250000Z"),
        ("1763200000123", {"unit": "ms"}, "2025-11-15T09:46:40.123000Z"),
        ("15.11.2026 10:30", {"format_": "%d.%m.%Y %H:%M"}, "2026-11-15T10:30:00Z"),
        ("2026-11-15", {}, "2026-11-15T00:00:00Z"),
    ],
)
def test_times_as_numbers_and_in_other_forms(text: str, options: dict[str, str], lexical: str) -> None:
    """Numbers need a unit, other forms a format; no zone means UTC."""
    assert instant(text, "text", **options) == f'"{lexical}"^^<{XSD}dateTime>'


@pytest.mark.parametrize("text", ["1763200000", "yesterday", "9" * 40])
def test_a_number_is_no_time_without_a_unit(text: str) -> None:
    """The reason says what is needed."""
    with pytest.raises(ValueError, match=r"unit|format"):
        instant(text, "text")


def test_a_number_out_of_range_is_no_time() -> None:
    """A time is in the years 0001 to 9999."""
    with pytest.raises(ValueError, match="outside the years"):
        instant("9" * 40, "text", unit="s")


def test_an_end_may_be_empty() -> None:
    """Without an end an event is a point; an end before the start rejects the row."""
    mapping = RowMapping.of({"event": {"start": "a", "end": "b"}})
    decoded = decode(
        "a,b\n2026-11-15T10:00:00Z,\n2026-11-15T10:00:00Z,2026-11-15T11:00:00Z\n2026-11-15T10:00:00Z,2026-11-15T09:00:00Z\n",
        Format.CSV,
        mapping,
    )
    spans = [
        (b - a).total_seconds() for a, b in zip(*(decoded.events[n].to_pylist() for n in ("start", "end")), strict=True)
    ]
    assert spans == [0.0, 3600.0]
    assert [error.line for error in decoded.rejected] == [4]


def test_a_time_that_the_lake_does_not_read_is_refused() -> None:
    """A mapping whose time would be no time of the event is an error."""
    with pytest.raises(UsageError, match="no time property here"):
        decode("time,room,celsius\n", Format.CSV, time_properties=(("urn:at",),))


def test_events_without_an_id_are_named_by_their_content() -> None:
    """A file has no id: the IRI is that of section 14, equal rows are counted, and reading again gives the same."""
    text = "time,room,celsius\n" + 2 * "2026-11-15T10:00:00Z,hall,1\n"
    decoded = decode(text, Format.CSV)
    ids = decoded.events["id"].to_pylist()
    assert len(set(ids)) == 2
    assert ids == decode(text, Format.CSV).events["id"].to_pylist()
    turtle = "\n".join(content(f"<{ids[0]}>", next(event_rows(decoded.events)).triples)).replace(
        "<urn:motet:this>", "_:e"
    )
    (same,) = decode_messages([Message(turtle.encode(), Format.TURTLE.value, "t")]).events["id"].to_pylist()
    assert same == ids[0]


def test_the_only_row_of_a_message_or_call_has_its_id() -> None:
    """Several rows, also bad ones, have IRIs made of the id and their content."""
    one, two = [{"a": 1}], [{"a": 1}, {"a": {}}]
    mapping = RowMapping.of({"properties": {"a": "urn:a"}})
    assert call(one, mapping).events["id"].to_pylist() == ["urn:call"]
    (minted,) = call(two, mapping).events["id"].to_pylist()
    assert minted.startswith("urn:motet:event:")
    messages = [Message(b'{"a": 1}\n', "application/x-ndjson", "m", 5, input_id="urn:m:1")]
    events = decode_messages(messages, mapping=mapping).events
    assert (events["id"].to_pylist(), events["start"].cast(pa.int64()).to_pylist()) == (["urn:m:1"], [5])


def test_the_same_rows_in_every_form_are_the_same_events() -> None:
    """CSV, TSV, NDJSON, JSON, dicts, Arrow and pandas give the same triples and IRIs by one mapping."""
    mapping = RowMapping.of(
        {
            "event": {"id": "urn:r:{n}", "class": "urn:{kind}", "time": "time"},
            "properties": {"n": "urn:n", "celsius": {"property": "urn:c", "datatype": "double"}, "kind": "urn:kind"},
            "missing": ["NA"],
        }
    )
    rows = [
        {"n": 1, "kind": "smoke", "time": "2026-11-15T10:00:00Z", "celsius": 21},
        {"n": 2, "kind": "heat", "time": "2026-11-15T10:00:01.5Z", "celsius": 21.5},
        {"n": 3, "kind": "heat", "time": "2026-11-15T10:00:02Z", "celsius": None},
    ]
    cells = [["NA" if cell is None else str(cell) for cell in row.values()] for row in rows]
    texts = {
        Format.CSV: "\n".join(map(",".join, [list(rows[0]), *cells])),
        Format.TSV: "\n".join(map("\t".join, [list(rows[0]), *cells])),
        Format.NDJSON: "\n".join(map(json.dumps, rows)),
        Format.JSON: json.dumps(rows),
    }
    expected = list(event_rows(call(rows, mapping).events))
    assert len(expected) == 3
    for syntax, text in texts.items():
        assert list(event_rows(decode(text, syntax, mapping).events)) == expected, syntax
    table = pa.Table.from_pylist(rows)
    assert list(event_rows(call(table, mapping).events)) == expected
    assert list(event_rows(call(table.to_pandas(), mapping).events)) == expected


def test_nested_arrow_columns() -> None:
    """Structs and lists of Arrow are read as those of JSON."""
    rows: list[dict[str, object]] = [
        {"m": {"v": [1, 2]}, "l": [{"x": "a"}, {"x": None}]},
        {"m": None, "l": []},
        {"m": {"v": None}, "l": None},
    ]
    mapping = {"event": {"class": "urn:C"}, "properties": {"m.v": "urn:v", "l.x": "urn:x"}}
    table = pa.Table.from_pylist(rows)
    assert list(event_rows(call(table, mapping).events)) == list(event_rows(call(rows, mapping).events))
    (batch,) = table.to_batches()
    assert ArrowRows(batch, np.arange(3)).names() == ["m.v", "l.x"]
    assert ObjectRows(rows[:1], np.arange(1)).names() == ["m.v", "l.x"]


def test_many_rows_in_batches(tmp_path: Path) -> None:
    """A compressed file of several batches keeps its lines."""
    path = tmp_path / "many.csv.gz"
    count = 2 * BATCH_ROWS + 5
    lines = [f"2026-11-15T10:00:00Z,room {n},{n if n != count - 2 else 'x'}" for n in range(count)]
    path.write_bytes(gzip.compress("\n".join(["time,room,celsius", *lines]).encode()))
    decoded = join_batches(list(decode_file(str(path), mapping=READINGS)))
    assert decoded.events.num_rows == count - 1
    assert decoded.events["line"].to_pylist()[-1] == count + 1
    assert [error.line for error in decoded.rejected] == [count]


SAMPLES = {
    Format.CSV: b'time,room,celsius\n2026-11-15T10:00:00Z,"a ""b""",21\n2026-11-15T10:00:00Z,hall,22\n',
    Format.NDJSON: b'{"time": "2026-11-15T10:00:00Z", "room": ["a"], "celsius": 21}\n' * 2,
    Format.JSON: b'[{"time": "2026-11-15T10:00:00Z", "room": ["a"], "celsius": 21},\n {"time": 1, "room": {}}]',
}


@pytest.mark.parametrize("syntax", SAMPLES)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_damaged_rows_end_in_events_and_rejections(syntax: Format, data: st.DataObject) -> None:
    """Damaged messages of rows never raise."""
    sample = SAMPLES[syntax]
    start = data.draw(st.integers(0, len(sample)))
    stop = data.draw(st.integers(start, min(len(sample), start + 10)))
    junk = data.draw(st.binary(max_size=4) | st.sampled_from([b'"', b"{", b"}", b"[", b",", b"\n", b"\xed\xa0\x80"]))
    message = Message(sample[:start] + junk + sample[stop:], syntax.value, "input", input_id="urn:m")
    decoded = decode_messages([message], mapping=READINGS)
    decoded.events.validate(full=True)
    assert all(error.reason and error.source == "input" and str(error) for error in decoded.rejected)


@pytest.mark.parametrize("rows", ["text", 5, [1, 2]])
def test_what_is_no_row_is_refused(rows: object) -> None:
    """A wrong type gets a sentence with advice."""
    with pytest.raises(UsageError, match=r"no (str|int)"):
        call(rows, READINGS)


def test_rows_need_a_mapping_and_no_id(tmp_path: Path) -> None:
    """CSV without a mapping, or with an id for the whole file, is refused."""
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    with pytest.raises(UsageError, match="need a mapping"):
        list(decode_file(str(path)))
    with pytest.raises(UsageError, match="an id names one event"):
        list(decode_file(str(path), id="urn:e", mapping=READINGS))


def test_a_draft_of_a_mapping_reads_its_rows(tmp_path: Path) -> None:
    """A newcomer with only a CSV gets a mapping that works, with types, time, id and delimiter."""
    path = tmp_path / "room-readings.csv"
    path.write_text("id;time;room no.;celsius\n1;2026-11-15T10:00:00Z;hall;21\n2;2026-11-15T10:01:00Z;7;21.5\n")
    text = draft_mapping(str(path))
    assert text.splitlines()[2:] == [
        "prefixes:",
        "  ex: http://example.org/",
        "event:",
        '  id: "ex:RoomReading/{id}"',
        "  class: ex:RoomReading",
        "  time: time  # 2026-11-15T10:00:00Z",
        "properties:",
        "  id: {property: ex:id, datatype: integer}  # 1",
        '  "room no.": {property: ex:room_no, datatype: string}  # hall',
        "  celsius: {property: ex:celsius, datatype: double}  # 21",
        'csv: {delimiter: ";"}',
    ]
    decoded = join_batches(list(decode_file(str(path), mapping=RowMapping.parse(text))))
    assert decoded.events["id"].to_pylist() == [f"http://example.org/RoomReading/{n}" for n in (1, 2)]
    assert of_property(decoded, "celsius") == [[f'"21.0"^^<{XSD}double>'], [f'"21.5"^^<{XSD}double>']]


def test_a_draft_for_json(tmp_path: Path) -> None:
    """Paths, optional columns, intervals and numbers that are times are found."""
    path = tmp_path / "a.ndjson"
    path.write_text('{"ts": 1763200000123, "d": {"v": true}}\n{"ts": 1763200001123, "d": {"v": false, "w": 1}}\n')
    lines = draft_mapping(str(path)).splitlines()
    assert "  time: {column: ts, unit: ms}  # 1763200000123" in lines
    assert "  d.v: {property: ex:v, datatype: boolean}  # true" in lines
    assert "  d.w: {property: ex:w, datatype: integer, optional: true}  # 1" in lines
    path.write_text('{"start": "2026-11-15T10:00:00Z", "end": "2026-11-15T10:01:00Z", "x": 1}\n')
    lines = draft_mapping(str(path)).splitlines()
    assert {line.partition("  #")[0] for line in lines} >= {"  start: start", "  end: end"}
