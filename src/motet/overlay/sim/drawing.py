"""Pictures of overlays as SVG: a ring with a route, zones with load, histograms of hops, states, steps of a run.

`write_picture` writes one to a file, as SVG or, with the extra `pictures`, as PNG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path

from motet.model.errors import UsageError, require_extra
from motet.overlay.protocol.identifiers import SPACE
from motet.overlay.protocol.zones import Space, Zone

INK = "#334155"
PALE = "#cbd5e1"
COLOURS = {"active": "#2563eb", "leaf": "#16a34a", "route": "#dc2626", "misplaced": "#f59e0b", "other": "#94a3b8"}
FONT = 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif"'
_BOX = 52, 15  # half the width and height of a state
_BEND = 0.16
_SIDE = 600
_MARGIN = 30
_LIGHT, _DARK = (235, 243, 250), (8, 81, 156)  # colours of no load and of the highest


def draw_ring(
    identifiers: Iterable[int],
    *,
    node: int | None = None,
    leaves: Iterable[int] = (),
    route: Sequence[int] = (),
    key: int | None = None,
    names: Mapping[int, str] | None = None,
    size: int = 480,
) -> str:
    """A ring of nodes: one node's leaf set in green, a route in red, and a mark at the key.

    >>> draw_ring([0, 1 << 126, 1 << 127], route=[0, 1 << 127]).count("<circle")
    4
    """
    centre, radius = size / 2, size / 2 - max(40, 25 + 6 * max(map(len, (names or {}).values()), default=0))
    shapes = [f'<circle cx="{centre}" cy="{centre}" r="{radius}" fill="none" stroke="{PALE}"/>']
    members, hops = set(leaves), set(route)
    for left, right in pairwise(route):
        (x, y), (u, v) = _point(left, centre, radius), _point(right, centre, radius)
        shapes.append(
            f'<path d="M{x:.1f} {y:.1f} Q{(x + u + centre) / 3:.1f} {(y + v + centre) / 3:.1f} {u:.1f} {v:.1f}"'
            f' fill="none" stroke="{COLOURS["route"]}" stroke-width="2" marker-end="url(#head)"/>'
        )
    for identifier in sorted(identifiers):
        x, y = _point(identifier, centre, radius)
        kind = "route" if identifier in hops else "leaf" if identifier in members or identifier == node else "active"
        width = 7 if identifier == node else 5 if kind != "active" else 3.5
        title = f"{identifier:032x}"
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width}" fill="{COLOURS[kind]}"><title>{title}</title></circle>'
        )
    if key is not None:
        (x, y), (u, v) = _point(key, centre, radius - 8), _point(key, centre, radius + 8)
        shapes.append(f'<path d="M{x:.1f} {y:.1f}L{u:.1f} {v:.1f}" stroke="{COLOURS["route"]}" stroke-width="2"/>')
    return _svg(size, size, [_head(), *shapes, *_ring_labels(names or {}, centre, radius, size=11, key=key)])


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
        f'{FONT} font-size="11">',
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
        lines += [
            _head(),
            f'<polyline points="{points}" fill="none" stroke="{COLOURS["route"]}" stroke-width="2" '
            'marker-end="url(#head)"/>',
        ]
    right, top = (f"dimension {dimension + 1}" for dimension in dimensions)
    lines += [
        f'<text x="{_MARGIN + _SIDE / 2}" y="{_SIDE + 2 * _MARGIN - 8}" text-anchor="middle">{right} →</text>',
        f'<text x="12" y="{_MARGIN + _SIDE / 2}" text-anchor="middle" '
        f'transform="rotate(-90 12 {_MARGIN + _SIDE / 2})">{top} →</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def draw_histogram(counts: Mapping[str, Mapping[int, int]], *, width: int = 560, height: int = 260) -> str:
    """Histograms of hops beside each other, one colour for each network.

    >>> "1 000" in draw_histogram({"1 000": {1: 3, 2: 5}})
    True
    """
    stop = 1 + max((hops for histogram in counts.values() for hops in histogram), default=0)
    shares = {
        name: {h: n / sum(histogram.values()) for h, n in histogram.items()} for name, histogram in counts.items()
    }
    top = max((share for histogram in shares.values() for share in histogram.values()), default=1)
    colours = [COLOURS["active"], COLOURS["leaf"], COLOURS["route"], COLOURS["misplaced"]]
    step = (width - 60) / max(1, stop)
    bar = step * 0.8 / max(1, len(shares))
    shapes = [f'<path d="M40 {height - 40}H{width - 10}" stroke="{INK}"/>']
    for index, (name, histogram) in enumerate(shares.items()):
        colour = colours[index % len(colours)]
        shapes.append(_text(width - 110, 24 + 18 * index, f"{name} nodes", colour, anchor="start"))
        for hops, share in sorted(histogram.items()):
            tall = (height - 70) * share / top
            x = 40 + hops * step + index * bar
            shapes.append(
                f'<rect x="{x:.1f}" y="{height - 40 - tall:.1f}" width="{bar:.1f}" height="{tall:.1f}" fill="{colour}">'
                f"<title>{hops} hops: {100 * share:.1f} %</title></rect>"
            )
    shapes += [_text(40 + (hops + 0.4) * step, height - 22, str(hops), INK) for hops in range(stop)]
    shapes.append(_text(width / 2, height - 4, "hops", INK))
    return _svg(width, height, shapes)


def draw_states(transitions: Mapping[tuple[str, str], str], *, width: int = 760, height: int = 560) -> str:
    """A state machine from its table: states on an ellipse, an arrow for each change, labelled with the input.

    >>> draw_states({("idle", "start"): "running", ("running", "stop"): "idle"}).count("<rect")
    2
    """
    states = list(dict.fromkeys(state for (source, _), target in transitions.items() for state in (source, target)))
    centre_x, centre_y = width / 2, height / 2
    points = {
        state: (
            centre_x + (width / 2 - 90) * math.sin(2 * math.pi * index / len(states)),
            centre_y - (height / 2 - 50) * math.cos(2 * math.pi * index / len(states)),
        )
        for index, state in enumerate(states)
    }
    labels: dict[tuple[str, str], list[str]] = {}
    for (source, change), target in transitions.items():
        labels.setdefault((source, target), []).append(change)
    shapes, captions = [], []  # captions stand above all arrows
    taken: list[tuple[float, float, float, float]] = []
    for (source, target), texts in labels.items():
        (x, y), (u, v) = points[source], points[target]
        if source == target:
            beside = y - 24 if y <= centre_y else y + 32
            captions.append(_text(x, beside, f"↻ {', '.join(texts)}", COLOURS["route"], size=11, has_halo=True))
            continue
        bend_x, bend_y = (x + u) / 2 - (v - y) * _BEND, (y + v) / 2 + (u - x) * _BEND
        end_x, end_y = _edge_of_box((u, v), (bend_x, bend_y))
        shapes.append(
            f'<path d="M{x:.0f} {y:.0f} Q{bend_x:.0f} {bend_y:.0f} {end_x:.0f} {end_y:.0f}" fill="none" stroke="{PALE}"'
            ' stroke-width="1.5" marker-end="url(#head)"/>'
        )
        is_steep = abs(v - y) > 2 * abs(u - x)  # the labels of both directions stand beside each other
        anchor = "middle" if not is_steep else "start" if v < y else "end"
        for share in (0.5, 0.4, 0.6, 0.3, 0.7):  # the first place on the arrow where no other caption stands
            middle_x, middle_y = (
                a * (1 - share) ** 2 + 2 * bend * share * (1 - share) + b * share**2
                for a, bend, b in ((x, bend_x, u), (y, bend_y, v))
            )
            wide, tall = 6 * max(map(len, texts)), 13 * len(texts)
            if all(abs(middle_x - p) > (wide + w) / 2 or abs(middle_y - q) > (tall + h) / 2 for p, q, w, h in taken):
                break
        taken.append((middle_x, middle_y, wide, tall))
        captions += [
            _text(middle_x, middle_y + 13 * line, text, COLOURS["route"], anchor=anchor, size=11, has_halo=True)
            for line, text in enumerate(texts)
        ]
    for state, (x, y) in points.items():
        shapes.append(
            f'<rect x="{x - _BOX[0]:.0f}" y="{y - _BOX[1]:.0f}" width="{2 * _BOX[0]}" height="{2 * _BOX[1]}" rx="6"'
            f' fill="white" stroke="{INK}"/>'
        )
        shapes.append(_text(x, y + 5, state, INK))
    return _svg(width, height, [_head(), *shapes, *captions])


def draw_ring_states(states: Mapping[int, tuple[str, str]]) -> str:
    """A small ring with the names and states of its nodes: active, misplaced (with wrong neighbours) or other."""
    centre, radius = 110, 80
    shapes = [f'<circle cx="{centre}" cy="{centre}" r="{radius}" fill="none" stroke="{PALE}"/>']
    for identifier, (name, state) in sorted(states.items()):
        x, y = _point(identifier, centre, radius)
        title = escape(f"{name}: {state}")
        shapes.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[state]}"><title>{title}</title></circle>'
        )
    names = {identifier: name for identifier, (name, _) in states.items()}
    return _svg(220, 220, [*shapes, *_ring_labels(names, centre, radius, size=8)])


def draw_page(title: str, legend: str, frames: Iterable[tuple[str, str, str]]) -> str:
    """A page of the steps of a run: for each one a heading, what happened, and a picture (SVG).

    >>> page = draw_page("Seed 1", "blue: active", [("5 s", "crash node=n3", draw_ring_states({0: ("n1", "active")}))])
    >>> page.count("<figure>"), "crash node=n3" in page
    (1, True)
    """
    figures = [
        f"<figure>{picture}<figcaption><b>{escape(heading)}</b><br>{escape(note)}</figcaption></figure>"
        for heading, note, picture in frames
    ]
    style = (
        "body{font-family:sans-serif;color:#334155}main{display:flex;flex-wrap:wrap}svg{width:100%}"
        "figure{width:220px;margin:8px}figcaption{font-size:13px;overflow-wrap:anywhere}"
    )
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        f"<h1>{escape(title)}</h1><p>{escape(legend)}</p><main>{''.join(figures)}</main></html>\n"
    )


def check_picture(path: Path) -> None:
    """Raise UsageError unless a picture can be written to a file with this name."""
    if path.suffix not in (".svg", ".png"):
        raise UsageError(f"{path} is no name of a picture", advice="End it with .svg or .png.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no directory", advice="Make it first.")
    if path.suffix == ".png":
        require_extra("pictures", "a PNG picture", alternative="name a file that ends with .svg")


def write_picture(path: Path, picture: str) -> None:
    """Write a picture to a file, whose name ends with .svg or .png."""
    check_picture(path)
    if path.suffix == ".svg":
        path.write_text(picture, encoding="utf-8")
    else:
        path.write_bytes(_rendered(picture))


def _rendered(picture: str) -> bytes:
    """A picture as PNG, two pixels for each unit."""
    from resvg_py import svg_to_bytes

    blank, text = _svg(20, 20, []), _svg(20, 20, [_text(10, 15, "M", INK)])
    if svg_to_bytes(svg_string=blank) == svg_to_bytes(svg_string=text):
        raise UsageError(
            "a PNG picture needs a font, and none of Helvetica, Arial and DejaVu Sans is installed",
            advice="Install one, such as fonts-dejavu-core, or name a file that ends with .svg.",
        )
    return svg_to_bytes(svg_string=picture, background="white", zoom=2)


def _point(identifier: int, centre: float, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * identifier / SPACE
    return centre + radius * math.sin(angle), centre - radius * math.cos(angle)


def _ring_labels(
    names: Mapping[int, str], centre: float, radius: float, *, size: int, key: int | None = None
) -> list[str]:
    """Names beside their nodes and a key, outside the ring and moved apart; if they are too many the key alone."""
    gap = int(SPACE * size * 1.1 / (2 * math.pi * radius))
    texts = [(identifier, name, INK) for identifier, name in names.items()] if (len(names) + 1) * gap < SPACE else []
    texts += [] if key is None else [(key, "key", COLOURS["route"])]
    texts.sort()
    if not texts:
        return []
    spaces = [(after[0] - before[0]) % SPACE for before, after in pairwise([texts[-1], *texts])]
    start = spaces.index(max(spaces))  # after the widest space
    first = texts[start][0]
    labels, at = [], first - gap
    for identifier, text, colour in texts[start:] + texts[:start]:
        at = max(at + gap, identifier + (SPACE if identifier < first else 0))
        x, y = _point(at, centre, radius + size)
        anchor = "middle" if abs(x - centre) < radius / 4 else "start" if x > centre else "end"
        labels.append(_text(x, y + size / 3, text, colour, anchor=anchor, size=size))
    return labels


def _edge_of_box(centre: tuple[float, float], point: tuple[float, float]) -> tuple[float, float]:
    """Where the line from a point to the centre of a state's box meets the edge of the box."""
    across, down = point[0] - centre[0], point[1] - centre[1]
    share = min(_BOX[0] / max(abs(across), 1e-9), _BOX[1] / max(abs(down), 1e-9), 1)
    return centre[0] + across * share, centre[1] + down * share


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "middle", size: int = 13, has_halo: bool = False
) -> str:
    halo = ' stroke="white" stroke-width="4" paint-order="stroke"' if has_halo else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {FONT} fill="{colour}"{halo}>'
        f"{escape(text)}</text>"
    )


def _head() -> str:
    return (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{COLOURS["route"]}"/></marker></defs>'
    )


def _svg(width: float, height: float, shapes: Iterable[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"{''.join(shapes)}</svg>\n"
    )


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
