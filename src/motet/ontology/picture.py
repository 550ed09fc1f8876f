"""A class hierarchy as a picture: lines of text, or SVG.

A class with several parents is drawn in full below the first and by name only below the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape

from motet.model.terms import iri_value, is_iri, literal_parts
from motet.ontology.hierarchy import Hierarchy
from motet.ontology.vocabulary import LABEL, Triple, is_literal

_ROW, _STEP, _MARGIN = 22, 24, 12


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: the node, whether it was drawn before, and for each level above whether more follows there."""

    node: int
    repeated: bool
    follows: tuple[bool, ...]


def as_text(hierarchy: Hierarchy, labels: Mapping[str, str] | None = None) -> str:
    """
    >>> from motet.ontology.hierarchy import hierarchy_from_parents
    >>> print(as_text(hierarchy_from_parents({"Cat": ["Pet"], "Dog": ["Pet"], "Tom": ["Cat"]})))
    Pet
    ├── Cat
    │   └── Tom
    └── Dog
    """
    return "\n".join(_indent(row.follows) + _name(hierarchy, row, labels) for row in _rows(hierarchy))


def as_svg(hierarchy: Hierarchy, labels: Mapping[str, str] | None = None) -> str:
    """The same tree as an SVG document, one row per class."""
    rows = list(_rows(hierarchy))
    names = [_name(hierarchy, row, labels) for row in rows]
    width = max((_x(row) + 8 * len(name) for row, name in zip(rows, names, strict=True)), default=0) + 2 * _MARGIN
    height = _ROW * len(rows) + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" font-family="sans-serif" font-size="13">',
        "<title>Class hierarchy</title>",
    ]
    last_at: dict[int, int] = {}
    for place, (row, name) in enumerate(zip(rows, names, strict=True)):
        level = len(row.follows)
        last_at[level] = place
        if level:
            parts.append(_elbow(level, last_at[level - 1], place))
        parts.append(_label(hierarchy, row, name, place))
    return "\n".join([*parts, "</svg>", ""])


def _rows(hierarchy: Hierarchy) -> Iterator[_Row]:
    drawn: set[int] = set()
    waiting = [_Row(root, False, ()) for root in reversed(hierarchy.roots)]
    while waiting:
        row = waiting.pop()
        repeated = row.node in drawn
        yield _Row(row.node, repeated, row.follows)
        drawn.add(row.node)
        children = () if repeated else hierarchy.children[row.node]
        for child in reversed(children):
            waiting.append(_Row(child, False, (*row.follows, child != children[-1])))


def _name(hierarchy: Hierarchy, row: _Row, labels: Mapping[str, str] | None) -> str:
    group = hierarchy.groups[row.node]
    name = " = ".join((labels or {}).get(c) or short_name(c) for c in group)
    marks = [" (no member possible)"] if hierarchy.unsatisfiable.intersection(group) else []
    marks += [" …"] if row.repeated and hierarchy.children[row.node] else []
    return name + "".join(marks)


def short_name(term: str) -> str:
    """The last part of an IRI.

    >>> short_name("<http://example.org/film#Action>")
    'Action'
    """
    if not is_iri(term):
        return term
    value = iri_value(term).rstrip("#/")
    return value[max(value.rfind(mark) for mark in "#/:") + 1 :] or value


def labels_of(triples: Iterable[Triple], language: str) -> dict[str, str]:
    """The rdfs:label of each name in a language, or one without a language.

    >>> labels_of([("<urn:a>", LABEL, '"Haus"@de'), ("<urn:a>", LABEL, '"house"@en')], "de")
    {'<urn:a>': 'Haus'}
    """
    found: dict[str, str] = {}
    for s, p, o in sorted(triples):
        if p == LABEL and is_literal(o):
            text, _, spoken = literal_parts(o)
            if spoken == language.lower() or (spoken is None and s not in found):
                found[s] = text
    return found


def unique_names(terms: Iterable[str]) -> dict[str, str]:
    """The last part of each IRI where that tells it from the others, else the whole IRI.

    >>> unique_names(["<urn:a#Room>", "<urn:b#Room>", "<urn:b#Door>"])
    {'<urn:a#Room>': '<urn:a#Room>', '<urn:b#Room>': '<urn:b#Room>', '<urn:b#Door>': 'Door'}
    """
    short = {term: short_name(term) for term in terms}
    uses = Counter(short.values())
    return {term: name if uses[name] == 1 else term for term, name in short.items()}


def _indent(follows: tuple[bool, ...]) -> str:
    if not follows:
        return ""
    return "".join("│   " if more else "    " for more in follows[:-1]) + ("├── " if follows[-1] else "└── ")


def _x(row: _Row) -> int:
    return _MARGIN + _STEP * len(row.follows)


def _y(place: int) -> int:
    return _MARGIN + _ROW * place + _ROW // 2


def _elbow(level: int, parent: int, place: int) -> str:
    x = _MARGIN + _STEP * (level - 1) + 4
    return f'<path d="M{x} {_y(parent) + 8}V{_y(place)}h{_STEP - 8}" fill="none" stroke="#888"/>'


def _label(hierarchy: Hierarchy, row: _Row, name: str, place: int) -> str:
    full = escape(" = ".join(hierarchy.groups[row.node]))
    colour = "#b00" if hierarchy.unsatisfiable.intersection(hierarchy.groups[row.node]) else "#222"
    text = f'<text x="{_x(row)}" y="{_y(place) + 4}" fill="{colour}">{escape(name)}'
    return f"{text}<title>{full}</title></text>"
