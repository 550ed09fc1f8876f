"""Pictures are well-formed and show what they are made from; those of the documentation are up to date."""

import runpy
from pathlib import Path
from xml.etree.ElementTree import fromstring

from motet.overlay.sim.ring_drawing import draw_histogram, draw_page, draw_ring

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_a_ring_shows_its_nodes_and_the_route() -> None:
    """A circle for each node and one for the ring, an arrow for each hop."""
    ring = draw_ring([0, 1 << 125, 1 << 126, 1 << 127], node=0, leaves=[1 << 125], route=[1 << 127, 0])
    picture = fromstring(ring)  # noqa: S314  our own
    assert len(picture.findall(f"{SVG}circle")) == 5
    assert len(picture.findall(f"{SVG}path")) == 1


def test_a_histogram_has_a_bar_for_each_number_of_hops() -> None:
    """Bars of several networks stand beside each other."""
    picture = fromstring(draw_histogram({"100": {1: 3, 2: 5}, "200": {2: 1}}))  # noqa: S314  our own
    assert len(picture.findall(f"{SVG}rect")) == 3


def test_text_in_a_page_is_escaped() -> None:
    """A step cannot add markup to the page."""
    assert "<script>" not in draw_page("<script>", [("1 s", "<script>", {5: "active"})])


def test_the_pictures_of_the_documentation_are_up_to_date() -> None:
    """They are what `python docs/overlay.py` writes."""
    pictures = runpy.run_path(str(DOCS / "overlay.py"))["pictures"]()
    assert {name: (DOCS / name).read_text(encoding="utf-8") for name in pictures} == pictures
