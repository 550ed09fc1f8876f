"""Blocks and templates are read as language page, section 8, has them; what cannot be read is refused at its place."""

from __future__ import annotations

import pytest

from motet.model.errors import SubscriptionError
from motet.model.terms import XSD
from motet.sparql.prologue import Prologue
from motet.sparql.tokens import Document
from motet.xmlql.blocks import (
    AttributePattern,
    Block,
    ElementPattern,
    NestedPattern,
    NumberComparison,
    TemplateAttribute,
    TemplateElement,
    TemplateVariable,
    TypedVariable,
)
from motet.xmlql.parse import parse_block, parse_template, read_block


def test_paper_blocks() -> None:
    """The blocks of figure 9: empty content, ELEMENT_AS, variables, text, and </> for any element."""
    block = parse_block("<person><name></> ELEMENT_AS $n <personnumber>$pn</></>")
    name = NestedPattern(ElementPattern(("name",), element_as=("n",)))
    number = NestedPattern(ElementPattern(("personnumber",), value=TypedVariable("pn")))
    assert block == Block(ElementPattern(("person",), nested=(name, number)))


def test_every_part() -> None:
    """Anchors, descendants, alternatives, tag variables, attributes, casts and comparisons."""
    text = "/<a|b k='v' l=$l^^xsd:integer>//<$t> $p^^xsd:decimal >= 1.5 </$t> CONTENT_AS $c</a|b> ELEMENT_AS $e"
    inner = ElementPattern(
        (), "t", value=NumberComparison(TypedVariable("p", XSD + "decimal"), ">=", "1.5"), content_as=("c",)
    )
    attributes = AttributePattern("k", "v"), AttributePattern("l", TypedVariable("l", XSD + "integer"))
    element = ElementPattern(("a", "b"), None, attributes, nested=(NestedPattern(inner, True),), element_as=("e",))
    assert parse_block(text) == Block(element, True)


def test_namespaces() -> None:
    """A prefix of the prologue or of xmlns; without a prefix an element is in no namespace, or in that of xmlns."""
    prologue = Prologue(
        Document('<p:a xmlns:q="urn:q"><q:b/><c/><d xmlns="urn:d"><e k="1"/></d></p:a>'), None, {"p": "urn:p"}
    )
    names = [element.names for element in read_block(prologue, 0).tree.element.walk()]
    assert names == [("{urn:p}a",), ("{urn:q}b",), ("c",), ("{urn:d}d",), ("{urn:d}e",)]


def test_templates() -> None:
    """White space between tags and variables separates; other text is kept, with its references replaced."""
    template = parse_template("<r at=$t> <pn>$pn</> $n <m> Order $pn is &lt; 5&#32;</m> </r>")
    message = TemplateElement("m", content=("Order ", TemplateVariable("pn"), " is < 5 "))
    number = TemplateElement("pn", content=(TemplateVariable("pn"),))
    attribute = TemplateAttribute("at", TemplateVariable("t"))
    assert template == TemplateElement("r", (attribute,), (number, TemplateVariable("n"), message))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("<a><b></a>", 9, "</a> does not close <b>"),
        ("<a><b></b>", 1, "<a> is never closed"),
        ("<a>$v<b></b></a>", 6, "is not alone"),
        ("<a>text $v</a>", 9, "is not alone"),
        ("<a><b/> text</a>", 9, "an element is not alone"),
        ("<a><b/> text <c/></a>", 9, "an element is not alone"),
        ("<a.*></a>", 4, "regular path expressions"),
        ("<a><*></*></a>", 5, "regular path expressions"),
        ("<a+></a>", 3, "regular path expressions"),
        ("<a><b|b/></a>", 4, "an alternative stands twice"),
        ("<a>WHERE <b>$x</b> IN $a CONSTRUCT <c/></a>", 4, "nested queries"),
        ("<x:a/>", 2, "'x' is not a declared prefix"),
        ("<a k=v/>", 6, "an attribute is compared"),
        ("<a k='1' k='2'/>", 10, "stands twice"),
        ("<a>$v > x</a>", 9, "needs a number"),
        ("<a>$v^^xsd:dateTime > 5</a>", 21, "not compared as a number"),
        ("<a>$v^^xsd:anyURI</a>", 8, "there is no cast"),
        ("<a>A & B</a>", 6, "'&' begins no reference"),
        ("<a>&#0;</a>", 4, "a character that XML does not allow"),
        ("<!-- c --><![CDATA[x]]>", 11, "processing instructions, CDATA"),
        ("<a>" * 33, 97, "nested more than 32 deep"),
        ("<a>" + "<b/>" * 200 + "</a>", 800, "more than 200 elements"),
        ("<a/> <b/>", 6, "cannot stand here"),
        ("///<a/>", 1, "'///' is no path"),
        ("<a>/<b/></a>", 4, "only before a block"),
    ],
)
def test_refusals(text: str, column: int, message: str) -> None:
    """Errors name what is wrong, at its line and column."""
    with pytest.raises(SubscriptionError) as caught:
        parse_block(text)
    assert (message in str(caught.value), caught.value.column) == (True, column), str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<a|b/>", "no alternatives"),
        ("<a/> ELEMENT_AS $x", "bind in blocks"),
        ("<a>$v^^xsd:integer</a>", "is for blocks"),
        ("<a>//<b/></a>", "'//' are for blocks"),
    ],
)
def test_template_refusals(text: str, message: str) -> None:
    """What only blocks have is refused in templates by name."""
    with pytest.raises(SubscriptionError, match=message):
        parse_template(text)
