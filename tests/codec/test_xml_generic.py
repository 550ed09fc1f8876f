"""The generic mapping: every document is lifted, and every event with names of XML comes back."""

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from motet.codec.xml_generic import lift_generic, render_generic
from motet.model.batches import Triple

XSD = "http://www.w3.org/2001/XMLSchema#"
DOCUMENT = b"""<a:order xmlns:a="http://a/" xmlns:b="urn:b" n="7" b:m="x">
  <pay>finished</pay><a:price>2.50</a:price><b:item sku="s">text<c/>tail</b:item>
</a:order>"""


def test_elements_are_nodes_and_properties() -> None:
    """Namespace and name make the property, an attribute has @ before its name, texts of mixed content are stated."""
    item = "<urn:e#genid-x1>"
    assert set(lift_generic(etree.fromstring(DOCUMENT), "urn:e")) == {
        ("<urn:e>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://a/order>"),
        ("<urn:e>", "<urn:xml:@n>", f'"7"^^<{XSD}integer>'),
        ("<urn:e>", "<urn:b#@m>", '"x"'),
        ("<urn:e>", "<urn:xml:pay>", '"finished"'),
        ("<urn:e>", "<http://a/price>", f'"2.5"^^<{XSD}double>'),
        ("<urn:e>", "<urn:b#item>", item),
        (item, "<urn:xml:@sku>", '"s"'),
        (item, "<urn:xml:text()>", '"text"'),
        (item, "<urn:xml:text()>", '"tail"'),
        (item, "<urn:xml:c>", '""'),
    }


NODES = ("<urn:e>", "<urn:n1>", "<urn:n2>", "<urn:e#genid-x1>")
OBJECTS = st.sampled_from(
    [*NODES, "<urn:other>", '"x"', '" x "', '""', '"007"', f'"7"^^<{XSD}integer>', f'"7.0"^^<{XSD}double>', '"a"@en',
     '"2026"^^<urn:t>', f'"2026-11-15"^^<{XSD}date>', f'"true"^^<{XSD}boolean>', '"a\\nb"', '"<&>"']
)  # fmt: skip
TRIPLES = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(["<urn:p>", "<http://x#q>"]), OBJECTS), max_size=12
)


def reachable(triples: list[Triple]) -> set[Triple]:
    """The triples of nodes that are reached from the event's node."""
    nodes, found = ["<urn:e>"], {"<urn:e>"}
    for node in nodes:
        new = {o for s, _, o in triples if s == node} - found
        nodes += sorted(new)
        found |= new
    return {triple for triple in triples if triple[0] in found}


@given(TRIPLES)
def test_every_event_with_names_of_xml_comes_back(triples: list[Triple]) -> None:
    """But for triples of nodes that are not reached, which are named; without a class the root is an event."""
    rendered = render_generic("urn:e", triples)
    lifted = lift_generic(etree.fromstring(rendered.document), "urn:e")
    expected = reachable(triples)
    assert set(lifted[1:]) == expected
    assert lifted[0] == ("<urn:e>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:xml:event>")
    assert set(rendered.left_out) == set(triples) - expected


def test_deep_documents_are_rendered_in_part() -> None:
    """Beyond a depth nodes are named and not nested, so that what is rendered can be parsed."""
    iri = "urn:motet:event:" + 64 * "0"
    document = b"<a b='1'>" * 150 + b"</a>" * 149 + b"<c d='2'/></a>"
    triples = lift_generic(etree.fromstring(document), iri)
    rendered = render_generic(iri, triples)
    again = lift_generic(etree.fromstring(rendered.document), iri)
    assert set(again) == set(triples) - set(rendered.left_out)
    assert 90 < len(rendered.left_out) < 110


def test_a_namespace_with_a_fragment_is_encoded() -> None:
    """An IRI has one #: with another one it would be no name, and nothing could be rendered."""
    triples = lift_generic(etree.fromstring('<o xmlns="http://a/#sn/b"/>'), "urn:e")
    assert triples == [
        ("<urn:e>", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<urn:xml:http%3A%2F%2Fa%2F%23sn%2Fb#o>")
    ]
    assert lift_generic(etree.fromstring(render_generic("urn:e", triples).document), "urn:e") == triples
    assert render_generic("urn:e", [("<urn:e>", "<urn:a#b#c>", '"x"')]).left_out == [("<urn:e>", "<urn:a#b#c>", '"x"')]
