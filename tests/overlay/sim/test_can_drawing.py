"""Pictures of CANs."""

import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

from motet.model.errors import UsageError
from motet.overlay.protocol.zones import Space, Zone
from motet.overlay.sim.can_drawing import draw_zones

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def halves(dimensions: int) -> dict[str, list[Zone]]:
    space = Space(dimensions)
    left, right = space.split(space.whole) or (space.whole, space.whole)
    return {"a<": [left], "b": [right]}


def test_zones_are_rectangles_coloured_by_load() -> None:
    """The lower half of the first dimension is to the left; the highest load is the darkest; names are escaped."""
    tree = ElementTree.fromstring(draw_zones(Space(2), halves(2), loads={"a<": 0, "b": 9}, path=["a<", "b"]))  # noqa: S314
    rectangles = [(r.get("x"), r.get("width"), r.get("fill"), r[0].text) for r in tree.iter(f"{SVG}rect")]
    assert rectangles == [("30.00", "300.00", "#ebf3fa", "a<: 0"), ("330.00", "300.00", "#08519c", "b: 9")]
    assert [line.get("points") for line in tree.iter(f"{SVG}polyline")] == ["180.00,330.00 480.00,330.00"]


def test_any_two_dimensions_can_be_drawn() -> None:
    """Seen along the dimension in which they are split, zones lie above each other."""
    tree = ElementTree.fromstring(draw_zones(Space(4), halves(4), dimensions=(3, 2)))  # noqa: S314
    assert {(r.get("x"), r.get("width"), r.get("height")) for r in tree.iter(f"{SVG}rect")} == {
        ("30.00", "600.00", "600.00")
    }


@pytest.mark.parametrize("dimensions", [(0, 0), (0, 2), (-1, 0)])
def test_two_dimensions_of_the_space_are_needed(dimensions: tuple[int, int]) -> None:
    """Anything else is refused."""
    with pytest.raises(UsageError, match="cannot be drawn"):
        draw_zones(Space(2), halves(2), dimensions=dimensions)


def test_a_path_goes_between_peers_with_zones() -> None:
    """An unknown peer is named."""
    with pytest.raises(UsageError, match="c holds no zone"):
        draw_zones(Space(2), halves(2), path=["c"])


def test_the_picture_of_the_documentation_is_up_to_date() -> None:
    """docs/can.svg is what `python docs/can.py` writes."""
    assert (DOCS / "can.svg").read_text() == runpy.run_path(str(DOCS / "can.py"))["picture"]()
