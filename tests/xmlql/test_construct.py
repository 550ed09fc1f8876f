"""Templates make canonical documents from the bindings of members."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from lxml import etree
from tests.xmlql import trees

from motet.model.terms import RDF, literal
from motet.xmlql.blocks import TemplateElement
from motet.xmlql.construct import construct
from motet.xmlql.parse import parse_template

XML = RDF + "XMLLiteral"


def made(template: str, *members: dict[str, str]) -> str | None:
    return construct(parse_template(template), members)


@pytest.mark.parametrize(
    ("template", "bindings", "expected"),
    [
        ("<r>$v</r>", {"v": literal("<b>&")}, "<r>&lt;b&gt;&amp;</r>"),
        ("<r>$v</r>", {"v": literal("t<b>1</b>u", datatype=XML)}, "<r>t<b>1</b>u</r>"),
        ("<r>$v</r>", {"v": literal("<b>", datatype=XML)}, "<r>&lt;b&gt;</r>"),
        ("<r>$v</r>", {"v": literal('<!DOCTYPE x [<!ENTITY e "e">]><x>&e;</x>', datatype=XML)},
         '<r>&lt;!DOCTYPE x [&lt;!ENTITY e "e"&gt;]&gt;&lt;x&gt;&amp;e;&lt;/x&gt;</r>'),
        ("<r>$v</r>", {"v": "<urn:e:1>"}, "<r>urn:e:1</r>"),
        ("<r k=$v l='1'>$v</r>", {}, '<r l="1"></r>'),
        ("<r><$t>1</></r>", {"t": literal("{urn:n}x")}, '<r><ns0:x xmlns:ns0="urn:n">1</ns0:x></r>'),
        ("<r><$t>1</>2</r>", {"t": literal("no name")}, "<r>2</r>"),
        ("<$t/>", {}, None),
        ("<r>$v</r>", {"v": literal("a\x01b")}, "<r>a\ufffdb</r>"),
        ('<p:r xmlns:p="urn:p"><p:a k="1"/></p:r>', {}, '<p:r xmlns:p="urn:p"><p:a k="1"></p:a></p:r>'),
        ('<r xmlns="urn:r"><a xmlns=""/></r>', {}, '<r xmlns="urn:r"><a xmlns=""></a></r>'),
        ("<r>Order $v paid</r>", {"v": literal("7")}, "<r>Order 7 paid</r>"),
    ],
)  # fmt: skip
def test_one_member(template: str, bindings: dict[str, str], expected: str | None) -> None:
    """XML is inserted as XML, other terms as escaped text, and what is unbound inserts nothing."""
    assert made(template, bindings) == expected


def test_members_are_merged() -> None:
    """Of several members the root is made once, and the children whose variables differ once per member."""
    members = [{"k": literal("1"), "v": literal(text)} for text in "baa"]
    expected = '<r k="1"><id>1</id><v>b</v><v>a</v><v>a</v>!</r>'
    assert made("<r k=$k><id>$k</id><v>$v</v>!</r>", *members) == expected


@settings(max_examples=200, deadline=None)
@given(template=trees.templates())
def test_documents_are_well_formed(template: TemplateElement) -> None:
    """Whatever a template and its terms are, the document is canonical XML."""
    bindings = {"v": literal("<a>]]>\x00", datatype=XML), "w": literal("a"), "x": "<urn:x?a&b>"}
    document = construct(template, [bindings])
    if document is not None:
        assert etree.tostring(etree.fromstring(document), method="c14n", exclusive=True).decode() == document
