"""The solutions of blocks, by worked examples and against lxml's XPath."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.xmlql import trees

from motet.model.errors import LimitError
from motet.model.terms import RDF, XSD
from motet.xmlql.blocks import Block, ElementPattern, NumberComparison, split_name
from motet.xmlql.evaluate import Evaluation, canonical_content, solutions
from motet.xmlql.parse import parse_block


def of(block: str, document: str) -> list[dict[str, str]]:
    return solutions(parse_block(block), etree.fromstring(document))


@pytest.mark.parametrize(
    ("block", "document", "expected"),
    [
        ("<id>$i</id>", "<a><id>1</id><b><id> 2 </id></b></a>", [{"i": '"1"'}, {"i": '"2"'}]),
        ("/<id>$i</id>", "<a><id>1</id></a>", []),
        ("<a><id>$i</id></a>", "<a><b><id>1</id></b></a>", []),
        ("<a>//<id>$i</id></a>", "<a><b><id>1</id></b></a>", [{"i": '"1"'}]),
        ("<a><c>1</c><b>2</b></a>", "<a><b>2</b><c>1</c></a>", [{}]),
        ("<a></a>", "<a>anything <b/></a>", [{}]),
        ("<a>x y</a>", "<a> <b>x</b> y<!-- z --></a>", [{}]),
        ("<p> $v > 9 </p>", "<a><p>10</p><p>9</p><p>ten</p><p>1e1</p></a>", [{"v": '"10"'}, {"v": '"1e1"'}]),
        ("<p>$v != 9</p>", "<a><p>NaN</p><p>8</p></a>", [{"v": '"8"'}]),
        ("<p>$v^^xsd:integer</p>", "<a><p> 07 </p><p>x</p></a>", [{"v": f'"7"^^<{XSD}integer>'}]),
        ("<a k='v' l=$l/>", "<r><a k=' v ' l=' 1 '/><a k='v'/><a k='w' l='2'/></r>", [{"l": '"1"'}]),
        ("<a><$t>1</></a>", "<a><b>1</b><c>2</c><n:d xmlns:n='urn:n'>1</n:d></a>", [{"t": '"b"'}, {"t": '"{urn:n}d"'}]),
        ("<b|c>$v</>", "<a><b>1</b><c>2</c><d>3</d></a>", [{"v": '"1"'}, {"v": '"2"'}]),
        ("<a><b>$v</b><c>$v</c></a>", "<a><b>1</b><b>2</b><c>2</c></a>", [{"v": '"2"'}]),
        ("<b>$v</b>", "<a><b>1</b><b>1</b></a>", [{"v": '"1"'}]),
        ("<a><b>$v</b></a>", '<a xmlns="urn:n"><b>1</b></a>', []),
    ],
)
def test_examples(block: str, document: str, expected: list[dict[str, str]]) -> None:
    """Each line is a sentence of language page, section 8, worked by hand."""
    assert of(block, document) == expected


def test_elements_are_bound_as_canonical_xml() -> None:
    """ELEMENT_AS binds the element and CONTENT_AS its content, as Exclusive C14N without comments."""
    document = "<a xmlns:n='urn:n' xmlns:o='urn:o'><n:b l='2' k='1'>t<!--c--><?p q?><n:c/>&lt;</n:b> tail</a>"
    (solution,) = of('<n:b xmlns:n="urn:n"/> ELEMENT_AS $e CONTENT_AS $c', document)
    assert solution == {
        "e": f'"<n:b xmlns:n=\\"urn:n\\" k=\\"1\\" l=\\"2\\">t<?p q?><n:c></n:c>&lt;</n:b>"^^<{RDF}XMLLiteral>',
        "c": f'"t<?p q?><n:c xmlns:n=\\"urn:n\\"></n:c>&lt;"^^<{RDF}XMLLiteral>',
    }


def test_too_many_solutions() -> None:
    """A block that would multiply its matches without bound is stopped."""
    document = "<a>" + "".join(f"<b>{i}</b>" for i in range(101)) + "</a>"
    with pytest.raises(LimitError, match="more than 10000 solutions"):
        of("<a><b>$x</b><b>$y</b></a>", document)


def test_long_chains_of_descendants_take_little_time() -> None:
    """The work follows the elements and their depth, not the ways through them."""
    document = "<a>" * 200 + "</a>" * 200
    assert of("<a>//<a>//<a>//<a>//<a>//<a>//<z/></></></></></></>", document) == []


@settings(max_examples=200, deadline=None)
@given(root=trees.documents)
def test_content_is_what_the_canonical_element_contains(root: etree._Element) -> None:
    """Parsed again, the canonical content has the text and the elements of the element."""
    again = etree.fromstring(f"<x>{canonical_content(root)}</x>")
    assert ["".join(map(str, again.itertext())), [e.tag for e in again.iter("*")][1:]] == [
        "".join(map(str, root.itertext())),
        [e.tag for e in root.iter("*")][1:],
    ]


@settings(max_examples=400, deadline=None)
@given(block=trees.blocks(with_variables=False), root=trees.documents)
def test_xpath_agrees_on_structure(block: Block, root: etree._Element) -> None:
    """A block without variables, but for those that are compared, matches where the same XPath selects something."""
    variables: dict[str, str] = {}
    elements = [root] if block.is_anchored else root.iter("*")
    path = ("/" if block.is_anchored else "//") + "*" + _predicates(block.element, variables)
    found = [element for element in elements if Evaluation().is_match(block.element, element)]
    assert found == etree.XPath(path)(root, **variables)


def _predicates(pattern: ElementPattern, variables: dict[str, str]) -> str:
    def value(text: str) -> str:
        variables[f"v{len(variables)}"] = text
        return f"$v{len(variables) - 1}"

    def trimmed(path: str) -> str:  # XPath 1.0 only normalises; the texts of the vocabulary have no repeated spaces
        return f"normalize-space({path})"

    def named(name: str) -> str:
        namespace, local = split_name(name)
        return f"(local-name()={value(local)} and namespace-uri()={value(namespace)})"

    text = "[" + " or ".join(map(named, pattern.names)) + "]"
    for attribute in pattern.attributes:
        assert isinstance(attribute.value, str)
        text += f"[@*[{named(attribute.name)}][{trimmed('.')}={value(attribute.value)}]]"
    if pattern.text is not None:
        text += f"[{trimmed('.')}={value(pattern.text)}]"
    if isinstance(pattern.value, NumberComparison):
        text += f"[number() = number()][number() {pattern.value.operator} {pattern.value.number}]"
    for nested in pattern.nested:
        text += f"[{'.//*' if nested.is_descendant else '*'}{_predicates(nested.element, variables)}]"
    return text


@settings(max_examples=150, deadline=None)
@given(block=st.builds(Block, trees.patterns(1), st.booleans()), root=trees.documents)
def test_every_assignment_of_elements_is_a_solution(block: Block, root: etree._Element) -> None:
    """The solutions are those of all ways to assign elements to the patterns, joined by their variables."""
    starts = [root] if block.is_anchored else list(root.iter("*"))
    expected = {frozenset(row) for start in starts for row in _assignments(block.element, start)}
    try:
        assert {frozenset(solution.items()) for solution in solutions(block, root)} == expected
    except LimitError:
        assert len(expected) > 100


def _assignments(pattern: ElementPattern, element: etree._Element) -> list[tuple[tuple[str, str], ...]]:
    own = Block(ElementPattern(
        pattern.names, pattern.tag_variable, pattern.attributes, pattern.text, pattern.value, (),
        pattern.element_as, pattern.content_as,
    ), True)  # fmt: skip
    rows = [tuple(solution.items()) for solution in solutions(own, element)]
    for nested in pattern.nested:
        inner = element.iterdescendants("*") if nested.is_descendant else element.iterchildren("*")
        parts = [row for each in inner for row in _assignments(nested.element, each)]
        rows = [tuple({*one, *two}) for one, two in product(rows, parts)]
        rows = [row for row in rows if len({name for name, _ in row}) == len(row)]
    return rows
