"""Pictures of a CAN as SVG: its zones in two of the dimensions, coloured by load, with the way of a message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from motet.model.errors import UsageError
from motet.overlay.protocol.zones import Space, Zone

_SIDE = 600
_MARGIN = 30
_LIGHT, _DARK = (235, 243, 250), (8, 81, 156)  # colours of no load and of the highest


def draw_zones(
    space: Space,
    zones: Mapping[str, Sequence[Zone]],
    *,
    dimensions: tuple[int, int] = (0, 1),
    loads: Mapping[str, float] | None = None,
    path: Sequence[str] = (),
) -> str:
    """Zones as rectangles in two dimensions, the first one to the right, the second one upwards.

    In a space of more dimensions zones lie above each other; each is drawn with a share of its colour. Loads colour the
    zones, from the lightest for none to the darkest for the highest. A path is drawn from peer to peer.

    >>> space = Space(2)
    >>> print(draw_zones(space, {"a": [space.whole]})[:4])
    <svg
    """
    if len(set(dimensions)) != 2 or not all(0 <= dimension < space.dimensions for dimension in dimensions):
        raise UsageError(
            f"zones cannot be drawn in the dimensions {dimensions}",
            advice=f"Name two of the dimensions 0 to {space.dimensions - 1}.",
        )
    highest = max((loads or {}).values(), default=0)
    boxes = {address: [_box(space, zone, dimensions) for zone in held] for address, held in zones.items()}
    opacity = 1 if space.dimensions == 2 else 0.35
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIDE + 2 * _MARGIN} {_SIDE + 2 * _MARGIN}" '
        f'font-family="sans-serif" font-size="11">',
        f"<title>{sum(map(len, boxes.values()))} zones of {len(boxes)} peers</title>",
    ]
    for address, rectangles in boxes.items():
        load = (loads or {}).get(address)
        share = load / highest if load and highest else 0.0
        label = escape(address if load is None else f"{address}: {load:g}")
        for x, y, width, height in rectangles:
            lines.append(
                f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{_colour(share)}" '
                f'fill-opacity="{opacity}" stroke="#555" stroke-width="0.7"><title>{label}</title></rect>'
            )
            if space.dimensions == 2 and width > 50 and height > 16:
                text = "#fff" if share > 0.5 else "#222"
                lines.append(f'<text x="{x + 4:.2f}" y="{y + 13:.2f}" fill="{text}">{label}</text>')
    if path:
        points = " ".join(f"{x + width / 2:.2f},{y + height / 2:.2f}" for x, y, width, height in _first(boxes, path))
        lines.append(f'<polyline points="{points}" fill="none" stroke="#d62728" stroke-width="2"/>')
    right, top = (f"dimension {dimension + 1}" for dimension in dimensions)
    lines += [
        f'<text x="{_MARGIN + _SIDE / 2}" y="{_SIDE + 2 * _MARGIN - 8}" text-anchor="middle">{right} →</text>',
        f'<text x="12" y="{_MARGIN + _SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 12 {_MARGIN + _SIDE / 2})">{top} →</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(space: Space, zone: Zone, dimensions: tuple[int, int]) -> tuple[float, float, float, float]:
    """Left, top, width and height of a zone in the picture."""
    bounds = [
        (float(space.alphabet.value(zone.lower[dimension])), float(space.alphabet.value(zone.upper[dimension])))
        for dimension in dimensions
    ]
    (left, right), (bottom, top) = bounds
    return _MARGIN + _SIDE * left, _MARGIN + _SIDE * (1 - top), _SIDE * (right - left), _SIDE * (top - bottom)


def _first(
    boxes: Mapping[str, list[tuple[float, float, float, float]]], path: Sequence[str]
) -> list[tuple[float, float, float, float]]:
    for address in path:
        if not boxes.get(address):
            raise UsageError(f"{address} holds no zone", advice="Draw the path of a message between peers with zones.")
    return [boxes[address][0] for address in path]


def _colour(share: float) -> str:
    red, green, blue = (round(light + share * (dark - light)) for light, dark in zip(_LIGHT, _DARK, strict=True))
    return f"#{red:02x}{green:02x}{blue:02x}"
