"""Mappings of rows to events: what they may say, and how wrong ones are refused."""

import pickle

import pytest

from motet.codec.row_mapping import MAX_BYTES, PREFIXES, IriTemplate, PropertyColumn, RowMapping, TimeColumn
from motet.model.errors import LimitError, MotetError, UsageError

XSD = "http://www.w3.org/2001/XMLSchema#"
MAPPING = """
prefixes: {ex: http://example.org/}
event:
  id: "ex:reading/{n}"
  class: [ex:Reading, "ex:{kind}"]
  start: {column: from, unit: ms}
  end: to
properties:
  celsius: {property: ex:celsius, datatype: double, optional: true}
  no: ex:no
  room:
    - {property: ex:room, iri: "ex:room/{floor}/{room}"}
    - {property: rdfs:label, language: en}
missing: [NA, "-"]
csv: {delimiter: ";"}
"""


def test_a_mapping_is_read_from_yaml() -> None:
    """Prefixes are expanded, and names such as `no` stay text."""
    ex, prov = "http://example.org/", "http://www.w3.org/ns/prov#"
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    assert RowMapping.parse(MAPPING) == RowMapping(
        id=IriTemplate(f"{ex}reading/{{n}}"),
        classes=(IriTemplate(f"{ex}Reading"), IriTemplate(f"{ex}{{kind}}")),
        times=(TimeColumn("from", f"{prov}startedAtTime", unit="ms"), TimeColumn("to", f"{prov}endedAtTime")),
        properties=(
            PropertyColumn("celsius", f"{ex}celsius", datatype=f"{XSD}double", optional=True),
            PropertyColumn("no", f"{ex}no"),
            PropertyColumn("room", f"{ex}room", iri=IriTemplate(f"{ex}room/{{floor}}/{{room}}")),
            PropertyColumn("room", label, language="en"),
        ),
        missing=("NA", "-"),
        delimiter=";",
        prefixes=(*PREFIXES.items(), ("ex", ex)),
    )


def test_the_columns_of_a_mapping() -> None:
    """Columns are listed once, those of templates included; all but optional ones are required."""
    mapping = RowMapping.parse(MAPPING)
    assert mapping.columns == ("n", "kind", "from", "to", "celsius", "no", "room", "floor")
    assert mapping.required == set(mapping.columns) - {"celsius"}


def test_a_mapping_can_be_sent_to_tasks() -> None:
    """Spark pickles it."""
    mapping = RowMapping.parse(MAPPING)
    assert pickle.loads(pickle.dumps(mapping)) == mapping  # noqa: S301  (its own bytes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("properties: {a: ex:a}", "the prefix of 'ex:a' is not declared"),
        ("properties: {a: celsius}", "'celsius' is no IRI"),
        ("properties: {a: {datatype: double}}", "properties, a: the property is missing"),
        ("properties: {a: {property: urn:a, datatype: dubble}}", "'dubble' is no datatype"),
        ("properties: {a: {property: urn:a, datatype: double, language: en}}", "a datatype, a language or an IRI"),
        ("properties: {a: {property: urn:a, language: in English}}", "'in English' is no language"),
        ("properties: {a: {property: urn:a, iri: '{a} b'}}", "makes no IRI"),
        ("properties: {a: {property: urn:a, optional: maybe}}", "optional is 'maybe'"),
        ("propertys: {a: urn:a}", "the key 'propertys' is not known"),
        ("event: {time: a, start: b}\nproperties: {a: urn:a}", "a time, or a start and an end"),
        ("event: {end: b}", "an end needs a start"),
        ("event: {time: {column: a, unit: h}}", "'h' is no unit"),
        ("event: {class: urn:A}", "states nothing about a row"),
        ("prefixes: {ex: x}\nproperties: {a: ex:a}", "'x' is no IRI"),
        ("csv: {delimiter: ab}\nproperties: {a: urn:a}", "csv, delimiter: 'ab'"),
        ("properties: {a: urn:a, a: urn:b}", "line 1: the key 'a' is there twice"),
        ("properties: [a", "line 1, column 15: not YAML"),
        ("- a", "is not a list of `key: value` lines"),
        ("a: &x [b]\nb: *x", "no aliases"),
        ("{" * 20, "nested deeper"),
    ],
)
def test_a_wrong_mapping_is_refused(text: str, message: str) -> None:
    """The error names the source and the key."""
    with pytest.raises(MotetError) as refused:
        RowMapping.parse(text, "m.yaml")
    assert str(refused.value).startswith("m.yaml")
    assert message in str(refused.value)
    assert refused.value.advice


def test_a_mapping_is_small() -> None:
    """Untrusted text is limited."""
    with pytest.raises(LimitError, match="at most"):
        RowMapping.parse("#" * (MAX_BYTES + 1))


def test_a_missing_mapping_file_is_named() -> None:
    """A path that cannot be read is an error with advice."""
    with pytest.raises(UsageError, match=r"'nowhere\.yaml' cannot be read"):
        RowMapping.of("nowhere.yaml")


def test_a_mapping_is_no_number() -> None:
    """Another type is refused in a sentence."""
    with pytest.raises(UsageError, match="a mapping is no int"):
        RowMapping.of(3)  # type: ignore[arg-type]
