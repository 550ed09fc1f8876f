"""Pictures are well-formed and show what they are made from; those of the documentation are up to date."""

import math
import runpy
from itertools import pairwise
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from motet.model.errors import MissingExtraError, UsageError
from motet.overlay.protocol.can_membership import TRANSITIONS
from motet.overlay.protocol.zones import Space, Zone
from motet.overlay.sim.drawing import (
    check_picture,
    draw_histogram,
    draw_page,
    draw_ring,
    draw_ring_states,
    draw_states,
    draw_zones,
    write_picture,
)

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def test_a_ring_shows_its_nodes_and_the_route() -> None:
    """A circle for each node and one for the ring, an arrow for each hop."""
    ring = draw_ring([0, 1 << 125, 1 << 126, 1 << 127], node=0, leaves=[1 << 125], route=[1 << 127, 0])
    picture = fromstring(ring)  # noqa: S314  our own
    assert len(picture.findall(f"{SVG}circle")) == 5
    assert len(picture.findall(f"{SVG}path")) == 1


def test_names_of_nodes_are_moved_apart() -> None:
    """Each name is outside the ring; of nodes at nearly the same place no two names overlap; too many have none."""
    states = {identifier: (f"n{identifier}", "active") for identifier in range(5)}
    texts = fromstring(draw_ring_states(states)).findall(f"{SVG}text")  # noqa: S314  our own
    points = [(float(text.get("x", 0)), float(text.get("y", 0)) - 8 / 3) for text in texts]
    assert [text.text for text in texts] == ["n0", "n1", "n2", "n3", "n4"]
    assert all(math.dist(point, (110, 110)) > 84 for point in points)
    assert all(math.dist(left, right) > 8 for left, right in pairwise(points))
    many = draw_ring_states({index << 120: (f"n{index}", "active") for index in range(100)})
    assert "<text" not in many


def test_a_histogram_has_a_bar_for_each_number_of_hops() -> None:
    """Bars of several networks stand beside each other."""
    picture = fromstring(draw_histogram({"100": {1: 3, 2: 5}, "200": {2: 1}}))  # noqa: S314  our own
    assert len(picture.findall(f"{SVG}rect")) == 3


def halves(dimensions: int) -> dict[str, list[Zone]]:
    space = Space(dimensions)
    left, right = space.split(space.whole) or (space.whole, space.whole)
    return {"a<": [left], "b": [right]}


def test_zones_are_rectangles_coloured_by_load() -> None:
    """The lower half of the first dimension is to the left; the highest load is the darkest; names are escaped."""
    tree = fromstring(draw_zones(Space(2), halves(2), loads={"a<": 0, "b": 9}, path=["a<", "b"]))  # noqa: S314
    rectangles = [(r.get("x"), r.get("width"), r.get("fill"), r[0].text) for r in tree.iter(f"{SVG}rect")]
    assert rectangles == [("30.00", "300.00", "#ebf3fa", "a<: 0"), ("330.00", "300.00", "#08519c", "b: 9")]
    assert [line.get("points") for line in tree.iter(f"{SVG}polyline")] == ["180.00,330.00 480.00,330.00"]


def test_any_two_dimensions_can_be_drawn() -> None:
    """Seen along the dimension in which they are split, zones lie above each other."""
    tree = fromstring(draw_zones(Space(4), halves(4), dimensions=(3, 2)))  # noqa: S314
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


def test_states_are_boxes_with_an_arrow_for_each_change() -> None:
    """The diagram has what the table has: changes between the same two states share an arrow, and a loop has none."""
    picture = fromstring(draw_states(TRANSITIONS))  # noqa: S314  our own
    states = {state for (state, _), target in TRANSITIONS.items() for state in (state, target)}
    assert len(picture.findall(f"{SVG}rect")) == len(states)
    assert len(picture.findall(f"{SVG}path")) == len({(s, t) for (s, _), t in TRANSITIONS.items() if s != t})


def test_text_in_a_page_is_escaped() -> None:
    """A step cannot add markup to the page."""
    assert "<script>" not in draw_page(
        "<script>", "<script>", [("1 s", "<script>", draw_ring_states({5: ("<script>", "active")}))]
    )


def test_a_picture_is_written_as_svg_or_png(tmp_path: Path) -> None:
    """The name says which; a PNG has two pixels for each unit, and its text is drawn."""
    pytest.importorskip("resvg_py")
    ring = draw_ring_states({0: ("n1", "active")})
    write_picture(tmp_path / "ring.svg", ring)
    assert (tmp_path / "ring.svg").read_text() == ring
    write_picture(tmp_path / "ring.png", ring)
    data = (tmp_path / "ring.png").read_bytes()
    assert (data[:8], data[16:24]) == (b"\x89PNG\r\n\x1a\n", (440).to_bytes(4, "big") * 2)


def test_a_picture_without_a_font_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would have no text."""
    resvg_py = pytest.importorskip("resvg_py")
    render = resvg_py.svg_to_bytes
    monkeypatch.setattr(resvg_py, "svg_to_bytes", lambda **options: render(skip_system_fonts=True, **options))
    with pytest.raises(UsageError, match="needs a font"):
        write_picture(tmp_path / "ring.png", draw_ring_states({}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "message"), [("ring.gif", "is no name of a picture"), ("nowhere/ring.svg", "is no directory")]
)
def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """The error names the file or the directory."""
    with pytest.raises(UsageError, match=message):
        check_picture(tmp_path / name)


def test_a_png_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SVG needs nothing."""
    monkeypatch.setattr("motet.model.errors.find_spec", lambda module: None)
    check_picture(tmp_path / "ring.svg")
    with pytest.raises(MissingExtraError, match="a PNG picture needs resvg_py") as raised:
        check_picture(tmp_path / "ring.png")
    assert raised.value.advice == ("Run: python -m pip install 'motet[pictures]', or name a file that ends with .svg")


def test_the_pictures_of_the_documentation_are_up_to_date() -> None:
    """They are what `python docs/overlay.py` writes."""
    pictures = runpy.run_path(str(DOCS / "overlay.py"))["pictures"]()
    assert {name: (DOCS / name).read_text(encoding="utf-8") for name in pictures} == pictures
