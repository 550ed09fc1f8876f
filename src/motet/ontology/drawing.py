"""Draws a class hierarchy as text or SVG, and makes short names of classes.

A class with several parents is drawn with its subclasses below the first one, and alone below the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from motet.model.terms import iri_value, is_iri, literal_parts
from motet.ontology.hierarchy import Hierarchy
from motet.ontology.owl_names import LABEL, Triple, is_literal

_ROW, _STEP, _MARGIN = 22, 24, 12


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: the node, whether it was drawn before, and for each level whether a sibling follows."""

    node: int
    is_repeated: bool
    follows: tuple[bool, ...]


def as_text(hierarchy: Hierarchy, labels: Mapping[str, str] | None = None) -> str:
    """The hierarchy as an indented tree.

    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> print(as_text(hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"], "Tom": ["Cat"]})))
    Pet
    ├── Cat
    │   └── Tom
    └── Dog
    """
    return "\n".join(_indent(row.follows) + _name(hierarchy, row, labels) for row in _rows(hierarchy))


def as_svg(hierarchy: Hierarchy, labels: Mapping[str, str] | None = None) -> str:
    """The hierarchy as an SVG document, one row per class."""
    rows = list(_rows(hierarchy))
    names = [_name(hierarchy, row, labels) for row in rows]
    width = max((_x(row) + 8 * len(name) for row, name in zip(rows, names, strict=True)), default=0) + 2 * _MARGIN
    height = _ROW * len(rows) + 2 * _MARGIN
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" font-family="sans-serif" font-size="13">',
        "<title>Class hierarchy</title>",
    ]
    last_row: dict[int, int] = {}
    for index, (row, name) in enumerate(zip(rows, names, strict=True)):
        level = len(row.follows)
        last_row[level] = index
        if level:
            elements.append(_connector(level, last_row[level - 1], index))
        elements.append(_label(hierarchy, row, name, index))
    return "\n".join([*elements, "</svg>", ""])


def _rows(hierarchy: Hierarchy) -> Iterator[_Row]:
    drawn: set[int] = set()
    stack = [_Row(root, False, ()) for root in reversed(hierarchy.roots)]
    while stack:
        row = stack.pop()
        is_repeated = row.node in drawn
        yield _Row(row.node, is_repeated, row.follows)
        drawn.add(row.node)
        children = () if is_repeated else hierarchy.children[row.node]
        for child in reversed(children):
            stack.append(_Row(child, False, (*row.follows, child != children[-1])))


def _name(hierarchy: Hierarchy, row: _Row, labels: Mapping[str, str] | None) -> str:
    group = hierarchy.groups[row.node]
    name = " = ".join((labels or {}).get(c) or short_name(c) for c in group)
    marks = [" (no member possible)"] if hierarchy.unsatisfiable.intersection(group) else []
    marks += [" …"] if row.is_repeated and hierarchy.children[row.node] else []
    return name + "".join(marks)


def short_name(term: str) -> str:
    """The last segment of an IRI.

    >>> short_name("<http://example.org/film#Action>")
    'Action'
    """
    if not is_iri(term):
        return term
    value = iri_value(term).rstrip("#/")
    return value[max(value.rfind(mark) for mark in "#/:") + 1 :] or value


def labels_of(triples: Iterable[Triple], language: str) -> dict[str, str]:
    """The rdfs:label of each name in a language, or else without a language.

    >>> labels_of([("<urn:a>", LABEL, '"Haus"@de'), ("<urn:a>", LABEL, '"house"@en')], "de")
    {'<urn:a>': 'Haus'}
    """
    labels: dict[str, str] = {}
    for s, p, o in sorted(triples):
        if p == LABEL and is_literal(o):
            text, _, tag = literal_parts(o)
            if tag == language.lower() or (tag is None and s not in labels):
                labels[s] = text
    return labels


def unique_names(terms: Iterable[str]) -> dict[str, str]:
    """The last segment of each IRI if it is unique, else the whole IRI.

    >>> unique_names(["<urn:a#Room>", "<urn:b#Room>", "<urn:b#Door>"])
    {'<urn:a#Room>': '<urn:a#Room>', '<urn:b#Room>': '<urn:b#Room>', '<urn:b#Door>': 'Door'}
    """
    short = {term: short_name(term) for term in terms}
    uses = Counter(short.values())
    return {term: name if uses[name] == 1 else term for term, name in short.items()}


def _indent(follows: tuple[bool, ...]) -> str:
    if not follows:
        return ""
    return "".join("│   " if sibling_follows else "    " for sibling_follows in follows[:-1]) + (
        "├── " if follows[-1] else "└── "
    )


def _x(row: _Row) -> int:
    return _MARGIN + _STEP * len(row.follows)


def _y(index: int) -> int:
    return _MARGIN + _ROW * index + _ROW // 2


def _connector(level: int, parent: int, index: int) -> str:
    x = _MARGIN + _STEP * (level - 1) + 4
    return f'<path d="M{x} {_y(parent) + 8}V{_y(index)}h{_STEP - 8}" fill="none" stroke="#888"/>'


def _label(hierarchy: Hierarchy, row: _Row, name: str, index: int) -> str:
    full = escape(" = ".join(hierarchy.groups[row.node]))
    colour = "#b00" if hierarchy.unsatisfiable.intersection(hierarchy.groups[row.node]) else "#222"
    text = f'<text x="{_x(row)}" y="{_y(index) + 4}" fill="{colour}">{escape(name)}'
    return f"{text}<title>{full}</title></text>"
