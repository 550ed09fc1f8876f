"""The surfaces exmlql and xml-ql: the texts of language page, section 8, and what they refuse."""

from __future__ import annotations

import pytest

from motet.language.comments import read_comments
from motet.language.exmlql_surface import to_xml_ql
from motet.language.parse import parse
from motet.language.printer import to_text
from motet.model.errors import SubscriptionError, UsageError

PAGE = """\
WHERE   $p : <person><name>$n</name><personnumber>$pn</personnumber></person>,
        $o : <orderpay><pay>finished</pay><deliver>ok</deliver><pn>$pn</pn></orderpay>,
        $p BEFORE $o WITHIN 1 d
CONSTRUCT <result><pn>$pn</pn><name>$n</name></result>
"""
AS_MOTET = """\
SUBSCRIPTION query
  EVENT p XML { <person><name>$n</name><personnumber>$pn</personnumber></person> }
  EVENT o XML { <orderpay><pay>finished</pay><deliver>ok</deliver><pn>$pn</pn></orderpay> }
  WHEN p BEFORE o WITHIN 1 d
  CONSTRUCT XML { <result><pn>$pn</pn><name>$n</name></result> }
"""
FIGURE_9 = """\
WHERE <person>
        <name></> ELEMENT_AS $n
        <personnumber>$pn</>
      </> IN "P.xml"
      <orderpay>
        <pay>finished</>
        <deliver>ok</>
        <pn>$pn</>
      </> IN "T.xml"
CONSTRUCT <result><pn>$pn</> $n</>
"""


def test_the_example_of_the_page() -> None:
    """It is the same subscription as its motet text."""
    assert parse(PAGE, syntax="exmlql") == parse(AS_MOTET)
    assert to_text(parse(PAGE, syntax="exmlql")) == AS_MOTET


def test_figure_9() -> None:
    """The paper's XML-QL form reads as blocks joined by AND, and is written as it stands there, up to layout."""
    subscriptions = parse(FIGURE_9, syntax="xml-ql")
    written = to_xml_ql(subscriptions, {})
    assert parse(written, syntax="xml-ql") == subscriptions
    assert "".join(written.split()) == "".join(FIGURE_9.split())


def test_every_clause() -> None:
    """Header, SINCE, operators with FILTERs, conditions, context and several CONSTRUCTs; several subscriptions."""
    text = """\
PREFIX ex: <urn:x#>  # of orders
SUBSCRIPTION a-b SINCE "2020-01-01T00:00:00Z"
WHERE $x : //<ex:a k=$v> &#36; </>, ($x{2} EVERY 5 s) FILTER($v > 3) WITHIN 1 h, $v != "a"
CONTEXT chronicle CONSTRUCT <r>$v</r> CONSTRUCT <s/>
SUBSCRIPTION c WHERE $x : <a>$v</a>, $y : <b/>, $v = 5 CONSTRUCT <r/>
"""
    expected = """\
SUBSCRIPTION a-b SINCE "2020-01-01T00:00:00.000000Z"
  EVENT x XML { <n0:a xmlns:n0="urn:x#" k=$v>&#36;</n0:a> }
  WHEN (x{2} EVERY 5 s FILTER(?v > 3) WITHIN 1 h) FILTER(?v != "a")
  CONTEXT chronicle
  CONSTRUCT XML { <r>$v</r> }
  CONSTRUCT XML { <s></s> }

SUBSCRIPTION c
  EVENT x XML { <a>$v</a> }
  EVENT y XML { <b></b> }
  WHEN (x AND y) FILTER(?v = 5)
  CONSTRUCT XML { <r></r> }
"""
    subscriptions = parse(text, syntax="exmlql")
    assert to_text(subscriptions).replace("(x AND y) FILTER", "x AND y FILTER") == expected.replace(
        "(x AND y) FILTER", "x AND y FILTER"
    )
    assert parse(to_text(subscriptions)) == subscriptions
    assert [comment.text for comment in read_comments(text, subscriptions, "exmlql")] == ["# of orders"]


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "message"),
    [
        ("$p BEFORE", "$q BEFORE", 3, 9, "no block is called $q"),
        ("WHERE ", "", 1, 3, "WHERE is missing"),
        ("CONSTRUCT", "SELECT", 4, 1, "delivers by CONSTRUCT"),
        ("$o :", "", 2, 10, "a block without a name"),
        ("1 d", "1 x", 3, 31, "'x' is not a unit of time"),
        ("$p BEFORE $o", "$p BEFOR $o", 3, 12, "did you mean BEFORE"),
        ("$o :", "$p :", 1, 9, "two blocks are called $p"),
        ("$p BEFORE $o WITHIN 1 d", "$p AND $o, $o AND $p", 3, 20, "there is a second pattern"),
        ("$p BEFORE $o WITHIN 1 d", "$z > 3", 3, 9, "?z in FILTER is in no EVENT"),
        ("$p BEFORE $o WITHIN 1 d", "ORDER-BY $n", 3, 9, "ORDER-BY of XML-QL"),
        ("<pn>$pn</pn><name>", "WHERE <a/><name>", 4, 19, "nested queries of XML-QL"),
        ("$o :", "$when :", 2, 9, "it is a keyword"),
        ("<name>$n</name><p", "<name>$n</nam><p", 1, 32, "</nam> does not close <name>"),
    ],
)
def test_refusals(old: str, new: str, line: int, column: int, message: str) -> None:
    """What cannot be read is refused at its line and column."""
    with pytest.raises(SubscriptionError) as caught:
        parse(PAGE.replace(old, new, 1), syntax="exmlql")
    assert (message in str(caught.value), caught.value.line, caught.value.column) == (True, line, column), caught.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (AS_MOTET, "has no WITHIN"),
        (AS_MOTET.replace("BEFORE o WITHIN 1 d", "BEFORE o"), "has no BEFORE"),
        (AS_MOTET.replace("p BEFORE o WITHIN 1 d", "o AND p"), "order of their declaration"),
        (
            AS_MOTET.replace("EVENT p", "EVENT p : <urn:C>").replace("BEFORE o WITHIN 1 d", "AND o"),
            "EVENT p is more than a block",
        ),
        (AS_MOTET.replace("  CONSTRUCT", "  CONTEXT chronicle UNBOUNDED\n  CONSTRUCT"), "always recent"),
        ("SUBSCRIPTION s EVENT e XML { <a/> } WHEN e", "delivers XML documents only"),
    ],
)
def test_xml_ql_refuses_what_it_cannot_express(text: str, message: str) -> None:
    """It has no operators of time, contexts or other deliveries."""
    with pytest.raises(UsageError, match=message):
        to_xml_ql(parse(text), {})


def test_in_needs_documents_of_different_names() -> None:
    """Each block of XML-QL's form is another document."""
    with pytest.raises(SubscriptionError, match="two blocks IN"):
        parse(FIGURE_9.replace("T.xml", "P.xml"), syntax="xml-ql")
