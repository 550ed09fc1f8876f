"""The index of blocks finds every element at which a block matches, whatever the blocks and documents are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from tests.xmlql import trees

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.xml_index import BlockIndex, XmlIndex
from motet.language.syntax import Event, XmlBlock
from motet.xmlql.blocks import Block
from motet.xmlql.evaluate import Evaluation, solutions
from motet.xmlql.parse import parse_block


@settings(max_examples=300, deadline=None)
@given(st.lists(trees.blocks(), max_size=12), trees.documents)
def test_the_index_finds_all_solutions(blocks: list[Block], root: etree._Element) -> None:
    """Evaluated at the elements that the index returns, every block has the solutions it has on the document."""
    evaluation = Evaluation()
    hits = BlockIndex(blocks).search(root, evaluation)
    found = [evaluation.solutions_at(block.element, hits.get(index, [])) for index, block in enumerate(blocks)]
    assert found == [solutions(block, root) for block in blocks]


def test_blocks_that_cannot_match_are_no_hits() -> None:
    """Texts, attributes, levels and names of children are looked up: other blocks cost nothing."""
    blocks = [f"<o><pn>{i}</pn></o>" for i in range(50)] + [f"<o><p k='{i}'/></o>" for i in range(50)]
    blocks += [f"<o><c{i}>$v</c{i}><pn>$w</pn></o>" for i in range(50)] + ["<o>//<pn>7</pn></o>", "/<pn>7</pn>"]
    index = BlockIndex([parse_block(block) for block in blocks])
    root = etree.fromstring("<o><pn>7</pn><p k='3'/><c5/></o>")
    assert sorted(index.search(root, Evaluation())) == [7, 53, 105, 150]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("<", range(21, 50)),
        ("<=", range(20, 50)),
        ("=", (20, 30)),
        ("!=", range(50)),
        (">=", range(31)),
        (">", range(30)),
    ],
)
def test_comparisons_that_do_not_hold_are_no_hits(operator: str, expected: Sequence[int]) -> None:
    """Of many comparisons of the same elements those are hits that hold, of children, descendants and elements."""
    document = "<o><i><p>x</p><p> 30 </p><p>20.0</p></i></o>"
    for form in ("<i><p>$v {} {}</p></i>", "<o>//<p>$v {} {}</p></o>", "<p>$v {} {}</p>"):
        index = BlockIndex([parse_block(form.format(operator, limit)) for limit in range(50)])
        assert sorted(index.search(etree.fromstring(document), Evaluation())) == [*expected]


def test_leaves_are_added_and_removed() -> None:
    """A changed index has the leaves that are left; segments are merged as they are outgrown."""
    leaves = [_leaf(str(number)) for number in range(20)]
    index = XmlIndex()
    for leaf in leaves:
        index = index.with_leaves([leaf])
    index = index.without({"3", "19"})
    root = etree.fromstring("<a>" + "".join(f"<b>{number}</b>" for number in range(20)) + "</a>")
    names = [segment.leaves[hit].name for segment in index.segments for hit in segment.hits(root, Evaluation())]
    assert sorted(names, key=int) == [str(number) for number in range(20) if number not in (3, 19)]
    assert len(index.segments) <= 5
    assert index.without({leaf.name for leaf in leaves}).segments == ()


def _leaf(name: str) -> LeafQuery:
    return LeafQuery(name, Event("e", xml=XmlBlock(f"<a><b>{name}</b></a>", frozenset())), ("e",))
