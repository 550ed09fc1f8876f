"""Pictures of Pastry: a ring with a leaf set and a route, histograms of hops, states of a node, steps of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from html import escape
from itertools import pairwise

from motet.overlay.protocol.identifiers import SPACE

INK = "#334155"
PALE = "#cbd5e1"
COLOURS = {"active": "#2563eb", "leaf": "#16a34a", "route": "#dc2626", "misplaced": "#f59e0b", "other": "#94a3b8"}
FONT = 'font-family="sans-serif"'


def draw_ring(
    identifiers: Iterable[int],
    *,
    node: int | None = None,
    leaves: Iterable[int] = (),
    route: Sequence[int] = (),
    key: int | None = None,
    size: int = 480,
) -> str:
    """A ring of nodes: one node's leaf set in green, a route in red, and the key at its end.

    >>> draw_ring([0, 1 << 126, 1 << 127], route=[0, 1 << 127]).count("<circle")
    4
    """
    centre, radius = size / 2, size / 2 - 40
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
        x, y = _point(key, centre, radius + 18)
        shapes.append(_text(x, y, "key", COLOURS["route"]))
    return _svg(size, size, [_head(), *shapes])


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


def draw_states(
    transitions: Mapping[tuple[Enum, Enum], tuple[str, Enum]], *, width: int = 760, height: int = 560
) -> str:
    """A state machine from its table: states on an ellipse, an arrow for each change, labelled with the input.

    >>> from motet.overlay.protocol.pastry_states import TRANSITIONS
    >>> draw_states(TRANSITIONS).count("<rect")
    8
    """
    states = list(
        dict.fromkeys(state for (source, _), (_, target) in transitions.items() for state in (source, target))
    )
    centre_x, centre_y = width / 2, height / 2
    points = {
        state: (
            centre_x + (width / 2 - 90) * math.sin(2 * math.pi * index / len(states)),
            centre_y - (height / 2 - 50) * math.cos(2 * math.pi * index / len(states)),
        )
        for index, state in enumerate(states)
    }
    labels: dict[tuple[Enum, Enum], list[str]] = {}
    for (source, change), (_, target) in transitions.items():
        labels.setdefault((source, target), []).append(str(change.value))
    shapes = []
    for (source, target), texts in labels.items():
        (x, y), (u, v) = points[source], points[target]
        if source is target:
            shapes.append(_text(x, y - 24, f"↻ {', '.join(texts)}", COLOURS["route"], size=11))
            continue
        bend_x, bend_y = (x + u) / 2 - (v - y) * 0.12, (y + v) / 2 + (u - x) * 0.12
        end_x, end_y = u + (bend_x - u) * 0.16, v + (bend_y - v) * 0.16
        shapes.append(
            f'<path d="M{x:.0f} {y:.0f} Q{bend_x:.0f} {bend_y:.0f} {end_x:.0f} {end_y:.0f}" fill="none" stroke="{PALE}"'
            ' stroke-width="1.5" marker-end="url(#head)"/>'
        )
        shapes.append(
            _text((x + 2 * bend_x + u) / 4, (y + 2 * bend_y + v) / 4, ", ".join(texts), COLOURS["route"], size=11)
        )
    for state, (x, y) in points.items():
        shapes.append(
            f'<rect x="{x - 52:.0f}" y="{y - 15:.0f}" width="104" height="30" rx="6" fill="white" stroke="{INK}"/>'
        )
        shapes.append(_text(x, y + 5, str(state.value), INK))
    return _svg(width, height, [_head(), *shapes])


def draw_page(title: str, frames: Iterable[tuple[str, str, Mapping[int, str]]]) -> str:
    """A page of the steps of a run: for each one a heading, what happened, and the ring with the state of its nodes.

    A state is one of active, misplaced (active, with wrong neighbours) and other (not active).
    """
    figures = []
    for heading, note, states in frames:
        centre, radius = 110, 80
        shapes = [f'<circle cx="{centre}" cy="{centre}" r="{radius}" fill="none" stroke="{PALE}"/>']
        for identifier, state in sorted(states.items()):
            x, y = _point(identifier, centre, radius)
            shapes.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[state]}"/>')
        figures.append(
            f"<figure>{_svg(220, 220, shapes)}"
            f"<figcaption><b>{escape(heading)}</b><br>{escape(note)}</figcaption></figure>"
        )
    style = (
        "body{font-family:sans-serif;color:#334155}main{display:flex;flex-wrap:wrap}"
        "figure{width:220px;margin:8px}figcaption{font-size:13px;overflow-wrap:anywhere}"
    )
    legend = "blue: active; orange: active with wrong neighbours; grey: joining, suspended or leaving"
    return (
        f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        f"<h1>{escape(title)}</h1><p>{legend}</p><main>{''.join(figures)}</main></html>\n"
    )


def _point(identifier: int, centre: float, radius: float) -> tuple[float, float]:
    angle = 2 * math.pi * identifier / SPACE
    return centre + radius * math.sin(angle), centre - radius * math.cos(angle)


def _text(x: float, y: float, text: str, colour: str, *, anchor: str = "middle", size: int = 13) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" {FONT} fill="{colour}">'
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
