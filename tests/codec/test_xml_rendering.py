"""Rendering events as XML documents by mappings."""

from pathlib import Path

import pytest

from motet.codec.options import DecodeOptions
from motet.codec.xml import decode_xml, render, xml_mapping
from motet.codec.xml_rendering import Rendered
from motet.model.batches import EventRow, event_rows
from motet.model.errors import UsageError

EXAMPLES = Path(__file__).parents[2] / "examples" / "xml"


@pytest.mark.parametrize("name", ["cap", "observation", "siri", "notify"])
def test_real_documents_round_trip(name: str) -> None:
    """What is rendered from the lifted triples is lifted to the same event, also with the generic mapping."""
    [path] = EXAMPLES.glob(f"{name}*.xml")
    for mapping in (xml_mapping(EXAMPLES / f"{name}.yaml"), xml_mapping("generic")):
        options = DecodeOptions(path.name, xml_mappings=(mapping,))
        [event] = event_rows(decode_xml(path.read_bytes(), options).events)
        assert len(event.triples) > 5
        rendered = render(event._replace(payload=None), mapping)
        assert rendered.left_out == []
        [again] = event_rows(decode_xml(rendered.document, options).events)
        assert (again.id, set(again.triples)) == (event.id, set(event.triples))
        assert render(event, mapping) == Rendered(path.read_bytes(), [])


def test_rendering_names_what_has_no_place() -> None:
    """Triples that the mapping does not lift, and texts that XML cannot have."""
    mapping = xml_mapping(
        "event: {root: order, id: 'urn:order:{@n}'}\nproperties: {pay: {property: urn:pay, optional: true}}"
    )
    other = ("<urn:order:7>", "<urn:other>", '"x"')
    control = ("<urn:order:7>", "<urn:pay>", '"\\u0001"')
    event = EventRow("urn:order:7", 0, 0, (("<urn:order:7>", "<urn:pay>", '"yes"'), other, control))
    document = b"<?xml version='1.0' encoding='UTF-8'?>\n<order n=\"7\">\n  <pay>yes</pay>\n</order>\n"
    assert render(event, mapping) == Rendered(document, [control, other])


def test_paths_without_a_place_cannot_be_rendered() -> None:
    """A descendant may stand anywhere."""
    mapping = xml_mapping("event: {root: order}\nproperties: {//pay: urn:pay}")
    with pytest.raises(UsageError, match="the path //pay does not say where an element stands"):
        render(EventRow("urn:e", 0, 0, (("<urn:e>", "<urn:pay>", '"yes"'),)), mapping)
