"""Drawings of hierarchies."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from motet.ontology.drawing import as_svg, as_text
from motet.ontology.hierarchy import Hierarchy, hierarchy_from_parents

PETS = {
    "<urn:x#Cat>": ["<urn:x#Pet>"],
    "<urn:x#Dog>": ["<urn:x#Pet>", "<urn:x#Guard>"],
    "<urn:x#Rex>": ["<urn:x#Dog>"],
    "<urn:x#Hound>": ["<urn:x#Dog>"],
    "<urn:x#Felis>": ["<urn:x#Cat>"],
}


def test_a_tree_as_text() -> None:
    """Equivalent classes share a line, second parents have only the name, and unsatisfiable classes are marked."""
    hierarchy = hierarchy_from_parents({**PETS, "<urn:x#Cat>": ["<urn:x#Pet>", "<urn:x#Felis>"]})
    marked = Hierarchy(hierarchy.groups, hierarchy.parents, frozenset({"<urn:x#Rex>"}))
    assert as_text(marked, {"<urn:x#Hound>": "a hound"}).splitlines() == [
        "Guard",
        "└── Dog",
        "    ├── a hound",
        "    └── Rex (no member possible)",
        "Pet",
        "├── Cat = Felis",
        "└── Dog …",
    ]


names = st.sampled_from(["a", "a&b", "a<b>", "]]>", '"', "'", "<urn:x#a&amp;b>"])


@given(st.lists(st.tuples(names, names), max_size=20))
def test_an_svg_shows_every_line_of_the_text(pairs: list[tuple[str, str]]) -> None:
    """The SVG is well-formed whatever the names are, and has one label per line of the text."""
    hierarchy = hierarchy_from_parents({a: [d for c, d in pairs if c == a] for a, _ in pairs})
    root = ET.fromstring(as_svg(hierarchy))  # noqa: S314  (our own output)
    labels = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    lines = [line.lstrip("│├└─ ") for line in as_text(hierarchy).splitlines()]
    assert labels == lines
