"""Random blocks, templates and small documents over one vocabulary, as Hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st
from lxml import etree

from motet.model.terms import XSD
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

NAMES = ("a", "b", "c", "{urn:n}a", "{urn:m}d")
ATTRIBUTES = ("k", "l", "{urn:n}k")
TEXTS = ("1", "2", "10", "x", "x y", "<&>$", "a/b", "/")
VARIABLES = ("v", "w", "x")
INTEGER = XSD + "integer"

variables = st.sampled_from(VARIABLES)
typed_variables = st.builds(TypedVariable, variables, st.sampled_from((None, None, INTEGER)))
operators = st.sampled_from(("<", "<=", "=", "!=", ">=", ">"))
comparisons = st.builds(NumberComparison, typed_variables, operators, st.sampled_from(("1", "2.0", "-1e1")))
untyped_comparisons = st.builds(
    NumberComparison, st.builds(TypedVariable, variables), operators, st.sampled_from(("1", "2.0", "-10", "11.5"))
)


@st.composite
def patterns(draw: st.DrawFn, depth: int = 3, *, with_variables: bool = True) -> ElementPattern:
    """A pattern; without variables it has only those of comparisons."""
    names = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)))
    tag_variable = draw(variables) if with_variables and draw(st.integers(0, 5)) == 0 else None
    attributes = draw(st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(TEXTS), max_size=1))
    values = [
        AttributePattern(name, draw(typed_variables) if with_variables and draw(st.booleans()) else text)
        for name, text in attributes.items()
    ]
    content = draw(st.sampled_from(("text", "nested", "nested", "nothing", "value")))
    values_of_content = st.one_of(typed_variables, comparisons) if with_variables else untyped_comparisons
    nested = st.lists(
        st.builds(NestedPattern, patterns(depth - 1, with_variables=with_variables), st.booleans()), max_size=2
    )
    captures = st.lists(variables, max_size=1) if with_variables else st.just([])
    return ElementPattern(
        () if tag_variable else names,
        tag_variable,
        tuple(values),
        draw(st.sampled_from(TEXTS)) if content == "text" else None,
        draw(values_of_content) if content == "value" else None,
        tuple(draw(nested)) if content == "nested" and depth else (),
        tuple(draw(captures)),
        tuple(draw(captures)),
    )


def blocks(*, with_variables: bool = True) -> st.SearchStrategy[Block]:
    return st.builds(Block, patterns(with_variables=with_variables), st.booleans())


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> etree._Element:
    element = etree.Element(draw(st.sampled_from(NAMES)))
    for name, text in draw(st.dictionaries(st.sampled_from(ATTRIBUTES), st.sampled_from(TEXTS), max_size=2)).items():
        element.set(name, text)
    if draw(st.booleans()):
        element.text = draw(st.sampled_from((*TEXTS, " 1\n", "\t")))
    for child in draw(st.lists(elements(depth - 1), max_size=3)) if depth else []:
        element.append(child)
        if draw(st.integers(0, 4)) == 0:
            element.append(draw(st.sampled_from((etree.Comment("1"), etree.ProcessingInstruction("p", "2")))))
        if draw(st.integers(0, 4)) == 0:
            element[-1].tail = draw(st.sampled_from(TEXTS))
    return element


documents = elements().map(lambda root: etree.fromstring(etree.tostring(root)))


@st.composite
def templates(draw: st.DrawFn, depth: int = 2) -> TemplateElement:
    values = st.one_of(st.sampled_from(TEXTS), st.builds(TemplateVariable, variables))
    attributes = draw(st.dictionaries(st.sampled_from(ATTRIBUTES), values, max_size=2))
    content: list[str | TemplateVariable | TemplateElement] = []
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        item = draw(
            st.one_of(
                st.sampled_from((*TEXTS, " ", " x ", "x_")),
                st.builds(TemplateVariable, variables),
                templates(depth - 1),
            )
        )
        if not (isinstance(item, str) and content and isinstance(content[-1], str)):
            content.append(item)
    name = draw(st.one_of(st.sampled_from(NAMES), st.builds(TemplateVariable, variables)))
    namespaces = (("m", "urn:m"), ("n", "urn:n")) if depth == 2 else ()
    return TemplateElement(
        name, tuple(TemplateAttribute(*each) for each in attributes.items()), tuple(content), namespaces
    )
