"""Drawings of a plan: Graphviz DOT, and an SVG that needs no Graphviz.

Subscriptions are at the top, events at the bottom; boxes that several subscriptions use are shaded.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from motet.ontology.entailment import Reasoner
from motet.plan.explain import Explanation
from motet.plan.graph import Plan

_WIDTH, _LINE, _PAD, _GAP, _RISE, _MARGIN = 250, 15, 8, 24, 44, 16
_CHARACTERS = 38  # per line of a box
_LINES = 6


def as_dot(plan: Plan, reasoner: Reasoner | None = None) -> str:
    """The plan for Graphviz.

    >>> from motet.language.parse import parse
    >>> from motet.plan.builder import build_plan
    >>> print(as_dot(build_plan(parse("SUBSCRIPTION s EVENT e : <urn:C> WHEN e"))), end="")
    digraph plan {
      node [shape=box, fontname="sans-serif"];
      n0 [label="[0] EVENT e\\nindex: class C"];
      s0 [label="s", shape=plaintext];
      s0 -> n0;
    }
    """
    explanation = Explanation(plan, reasoner)
    shared = set(explanation.shared_nodes())
    lines = ["digraph plan {", '  node [shape=box, fontname="sans-serif"];']
    for node in plan.nodes:
        label = _quoted([explanation.title(node.id), *explanation.details(node.id)])
        filled = ', style=filled, fillcolor="#e8eefc"' if node.id in shared else ""
        lines.append(f"  n{node.id} [label={label}{filled}];")
        lines += [f"  n{node.id} -> n{edge.child};" for edge in node.children]
    for index, root in enumerate(plan.roots):
        name = _quoted([root.subscription.name])
        lines += [f"  s{index} [label={name}, shape=plaintext];", f"  s{index} -> n{root.node};"]
        fed_leaves = dict.fromkeys(
            edge.node for edge in explanation.derivation_edges if edge.producer == root.subscription.name
        )
        lines += [f"  n{node} -> s{index} [style=dashed];" for node in fed_leaves]
    return "\n".join([*lines, "}", ""])


def _quoted(lines: list[str]) -> str:
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return '"' + "\\n".join(escaped) + '"'


@dataclass
class _Box:
    """A rectangle: the name of a subscription, or a node."""

    lines: list[str]
    below: list[_Box]
    shaded: bool = False
    framed: bool = True
    layer: int = 0
    x: float = 0
    y: float = 0

    @property
    def height(self) -> int:
        return 2 * _PAD + _LINE * len(self.lines)

    @property
    def middle(self) -> float:
        return self.x + _WIDTH / 2


def as_svg(plan: Plan, reasoner: Reasoner | None = None) -> str:
    """The plan as an SVG document."""
    boxes = _boxes(Explanation(plan, reasoner))
    layers = _layers(boxes)
    _set_positions(layers)
    width = max((box.x + _WIDTH for box in boxes), default=0) + _MARGIN
    height = max((box.y + box.height for box in boxes), default=0) + _MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
            f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="sans-serif" font-size="11">',
            "<title>Plan</title>",
            f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
            *(line for box in boxes for line in _edge_svg(box)),
            *(line for box in boxes for line in _box_svg(box)),
            "</svg>",
            "",
        ]
    )


def _boxes(explanation: Explanation) -> list[_Box]:
    """Subscriptions first, then nodes, parents before children."""
    plan = explanation.plan
    shared = set(explanation.shared_nodes())
    nodes: list[_Box] = []
    for node in plan.nodes:
        lines = _wrapped([explanation.title(node.id), *explanation.details(node.id)])
        nodes.append(_Box(lines, [nodes[edge.child] for edge in node.children], node.id in shared))
    roots = [_Box(_wrapped([root.subscription.name]), [nodes[root.node]], framed=False) for root in plan.roots]
    return [*roots, *reversed(nodes)]


def _wrapped(texts: list[str]) -> list[str]:
    lines = [line for text in texts for line in textwrap.wrap(text, _CHARACTERS, subsequent_indent="  ")]
    return lines if len(lines) <= _LINES else [*lines[: _LINES - 1], "…"]


def _layers(boxes: list[_Box]) -> list[list[_Box]]:
    """The boxes by layer: each one below all its parents, in depth-first order."""
    for box in boxes:
        for child in box.below:
            child.layer = max(child.layer, box.layer + 1)
    layers: list[list[_Box]] = [[] for _ in range(max((box.layer for box in boxes), default=-1) + 1)]
    for box in _by_depth(boxes):
        layers[box.layer].append(box)
    return layers


def _by_depth(boxes: list[_Box]) -> Iterator[_Box]:
    """Every box once, depth first from the subscriptions, left operands first."""
    visited: set[int] = set()
    stack = [box for box in reversed(boxes) if not box.framed]
    while stack:
        box = stack.pop()
        if id(box) not in visited:
            visited.add(id(box))
            yield box
            stack.extend(reversed(box.below))


def _set_positions(layers: list[list[_Box]]) -> None:
    """Leaves from left to right, every other box centred above its operands, without overlaps."""
    y: float = _MARGIN
    for layer in layers:
        for box in layer:
            box.y = y
        y += max(box.height for box in layer) + _RISE
    for layer in reversed(layers):
        free: float = _MARGIN
        for box in layer:
            centred = sum(child.middle for child in box.below) / len(box.below) - _WIDTH / 2 if box.below else free
            box.x = max(free, centred)
            free = box.x + _WIDTH + _GAP


def _edge_svg(box: _Box) -> Iterator[str]:
    bottom = box.y + box.height
    for child in box.below:
        bend = (bottom + child.y) / 2
        yield (
            f'<path d="M{box.middle:g} {bottom:g}C{box.middle:g} {bend:g} {child.middle:g} {bend:g} '
            f'{child.middle:g} {child.y:g}" fill="none" stroke="#888"/>'
        )


def _box_svg(box: _Box) -> Iterator[str]:
    if box.framed:
        fill = "#e8eefc" if box.shaded else "#fff"
        yield (
            f'<rect x="{box.x:g}" y="{box.y:g}" width="{_WIDTH}" height="{box.height}" rx="4" '
            f'fill="{fill}" stroke="#556"/>'
        )
    for index, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if index == 0 else ""
        anchor = ' text-anchor="middle"' if not box.framed else ""
        x = box.x + _PAD if box.framed else box.middle
        y = box.y + _PAD + _LINE * index + 11
        indent = "\u2002" * (len(line) - len(line.lstrip()))
        yield f'<text x="{x:g}" y="{y:g}"{weight}{anchor}>{indent}{escape(line.strip())}</text>'
