"""Mappings of XML documents: paths to triples, and which paths are refused."""

import pytest
from lxml import etree

from motet.codec import xml_mapping as module
from motet.codec.row_mapping import RowMapping
from motet.codec.xml_mapping import DocumentMapping
from motet.model.batches import Triple
from motet.model.errors import DecodeError, UsageError

DOCUMENT = b"""<o:order xmlns:o="urn:o#" xmlns:p="urn:p#" n="7">
  <o:item sku="a b" kind="part"><p:price>2.50</p:price> <o:tag>x</o:tag><o:tag>y</o:tag></o:item>
  <o:item sku="c" kind="whole"><p:price>3</p:price></o:item>
  <o:note>first <b>bold</b> last<!-- no text --></o:note>
  <o:empty/>
</o:order>"""


def compile_mapping(properties: str, event: str = "root: 'o:order'") -> DocumentMapping:
    text = f"prefixes: {{o: 'urn:o#', p: 'urn:p#'}}\nevent: {{{event}}}\nproperties: {properties}"
    return DocumentMapping(RowMapping.parse(text))


def lift(properties: str, event: str = "root: 'o:order'") -> list[Triple]:
    return compile_mapping(properties, event).lift(etree.fromstring(DOCUMENT), "urn:e").triples


def objects(path: str) -> list[str]:
    return [o for _, _, o in lift(f'{{"{path}": {{property: urn:x, datatype: string}}}}')]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("@n", ["7"]),
        ("o:item/@sku", ["a b", "c"]),
        ("o:item/p:price", ["2.50", "3"]),
        ("o:item[@kind='whole']/p:price", ["3"]),
        ("o:item[p:price='2.50']/@sku", ["a b"]),
        ("o:item[2]/@sku", ["c"]),
        ("*/p:price", ["2.50", "3"]),
        ("//o:tag", ["x", "y"]),
        ("o:item//@kind", ["part", "whole"]),
        ("//o:item/@sku", ["a b", "c"]),
        ("/o:order/@n", ["7"]),
        ("/*/o:item/@sku", ["a b", "c"]),
        ("o:note", ["first bold last"]),
        ("o:note/b/.", ["bold"]),
        ("o:empty", []),
    ],
)
def test_paths_select_as_xpath_does(path: str, expected: list[str]) -> None:
    """Texts are those of XPath's string(), trimmed; an empty one is no value."""
    assert objects(path) == [f'"{text}"' for text in expected]


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "//", "a/", "a//", "@a/b", "a[b]", "a[0]", "a[last()]", "count(a)", "a|b", "..", "a/../b", "a b",
        "ancestor::a", "a/text()", "a//b//c", "a[@b='c' or 1]", "//.", "document('x')", "/@a", "@*[1]", "a[b='c/d']",
        "/".join("a" * 17),
    ],
)  # fmt: skip
def test_other_paths_are_refused(path: str) -> None:
    """Functions, other axes, and what could be slow."""
    with pytest.raises(UsageError, match="is no path that a mapping may have"):
        compile_mapping(f'{{"{path}": urn:x}}')


def test_wrong_mappings_are_refused() -> None:
    """When they are read, not with the first document."""
    for properties, reason in [
        ("{'q:a': urn:x}", "the prefix of 'q:a' is not declared"),
        ("{a: 'urn:motet:x'}", "the property <urn:motet:x> is reserved"),
        ("{a: {property: urn:x, properties: {'//b': urn:y}}}", "'//b': // is for properties of the document"),
        (f"{{{', '.join(f'//a{n}: urn:x' for n in range(51))}}}", "it has more than 50 paths with //"),
        (f"{{{', '.join(f'a{n}: urn:x' for n in range(1001))}}}", "it has more than 1000 properties"),
    ]:
        with pytest.raises(UsageError) as refused:
            compile_mapping(properties)
        assert refused.value.message == f"mapping: {reason}" or refused.value.message.endswith(reason)


def test_a_nested_mapping_makes_nodes() -> None:
    """Each element is a node: with an IRI by a template, or numbered below the event's."""
    found = lift(
        "{'o:item': {property: urn:item, iri: 'urn:sku:{@sku}', class: 'urn:Item-{@kind}', properties:"
        " {'p:price': {property: urn:price, datatype: decimal},"
        " 'o:tag': {property: urn:tag, optional: true, properties: {'.': urn:text}}}}}"
    )
    decimal = "http://www.w3.org/2001/XMLSchema#decimal"
    assert found == [
        ("<urn:e>", "<urn:item>", "<urn:sku:a%20b>"),
        ("<urn:sku:a%20b>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:Item-part>"),
        ("<urn:sku:a%20b>", "<urn:price>", f'"2.5"^^<{decimal}>'),
        ("<urn:sku:a%20b>", "<urn:tag>", "<urn:e#genid-x2>"),
        ("<urn:e#genid-x2>", "<urn:text>", '"x"'),
        ("<urn:sku:a%20b>", "<urn:tag>", "<urn:e#genid-x3>"),
        ("<urn:e#genid-x3>", "<urn:text>", '"y"'),
        ("<urn:e>", "<urn:item>", "<urn:sku:c>"),
        ("<urn:sku:c>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:Item-whole>"),
        ("<urn:sku:c>", "<urn:price>", f'"3"^^<{decimal}>'),
    ]


@pytest.mark.parametrize(
    ("properties", "reason", "line"),
    [
        (
            "{'o:sum': urn:x}",
            "the path o:sum of the mapping selects nothing in <order>, which has @n, item, note, empty",
            1,
        ),
        (
            "{'o:item': {property: urn:x, properties: {'o:tag': urn:y}}}",
            "the path o:tag of the mapping selects nothing in <item>, which has @sku, @kind, price",
            3,
        ),
        ("{'o:item/@kind': {property: urn:x, datatype: integer}}", "o:item/@kind: 'part' is not an xsd:integer", None),
        ("{'@n': {property: urn:x, iri: '{@n}'}}", "@n: '7' is no IRI", None),
        (
            "{'@n': {property: urn:x, iri: 'urn:{o:item/@sku}'}}",
            "o:item/@sku selects several values, and an IRI needs one",
            None,
        ),
        ("{'@n': {property: urn:x, properties: {a: urn:y}}}", "@n selects no element", None),
    ],
)  # fmt: skip
def test_a_document_that_does_not_fit_is_rejected(properties: str, reason: str, line: int | None) -> None:
    """The reason names the path and what the element has."""
    with pytest.raises(DecodeError) as refused:
        lift(properties)
    assert (refused.value.reason, refused.value.line) == (reason, line)


def test_an_optional_path_may_select_nothing() -> None:
    """No triple is made of it."""
    assert lift("{'o:sum': {property: urn:x, optional: true}, '@n': urn:n}") == [
        ("<urn:e>", "<urn:n>", '"7"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ]


def test_the_nodes_that_paths_select_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that triples stay fewer than the document is large."""
    monkeypatch.setattr(module, "MAX_NODES", 3)
    with pytest.raises(DecodeError, match="select more than 3 nodes"):
        lift("{'o:item/@sku': urn:a, 'o:item/@kind': urn:b}")
