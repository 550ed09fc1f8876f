"""What is written can be read again, whatever the names and texts are."""

from __future__ import annotations

from hypothesis import given, settings
from tests.xmlql import trees

from motet.xmlql.blocks import Block, TemplateElement
from motet.xmlql.parse import parse_block, parse_template
from motet.xmlql.write import block_text, template_text


@settings(max_examples=300, deadline=None)
@given(block=trees.blocks())
def test_blocks_round_trip(block: Block) -> None:
    """Reading the text of a block gives the block, in both forms."""
    assert parse_block(block_text(block)) == block
    assert parse_block(block_text(block, is_xml_ql=True)) == block


@settings(max_examples=300, deadline=None)
@given(template=trees.templates())
def test_templates_round_trip(template: TemplateElement) -> None:
    """Reading the text of a template gives the template."""
    assert parse_template(template_text(template)) == template


def test_default_namespace() -> None:
    """A template keeps the namespaces that it declares, where it declares them."""
    text = '<r xmlns="urn:r"><a xmlns=""><b></b></a></r>'
    assert template_text(parse_template(text)) == text
