"""The index of blocks: finds the elements of a document at which blocks may match, all blocks in one pass.

A block without its variables is a shape; equal shapes are one, and so are equal parts of shapes. An element is looked
up once, by its name; the patterns of one name are a trie over what they require (a text, an attribute, a nested
pattern), so that common beginnings are searched once and an element costs what it has in common with patterns, not how
many there are. Elements are visited from the last to the first: what matches inside one is known before it.
Requirements without any constant text are tested last, and only where an element has a child of that name; of many
comparisons of one number, those that hold are found by a sorted search. The result may have too many elements, never
too few: `motet.xmlql.evaluate` decides what depends on attributes of any text or on casts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from motet.engine.match.leaf import LeafQuery
from motet.xmlql.blocks import Block, ElementPattern, NestedPattern, NumberComparison, TypedVariable, trim
from motet.xmlql.evaluate import Evaluation, as_number, text_of

_ANY = ""  # the name of patterns with a tag variable


@dataclass(slots=True, eq=False)
class _TrieNode:
    """What patterns of one name require next, and the shapes that require nothing more."""

    facts: dict[int, _TrieNode] = field(default_factory=dict)
    number: _Thresholds | None = None  # of the element itself
    children: dict[str, list[_Edge]] = field(default_factory=dict)  # by name of the child
    others: list[_Edge] = field(default_factory=list)  # about descendants, and children of any name
    edges: dict[tuple[NestedPattern, bool], _Edge] = field(default_factory=dict)  # all of both
    shapes: list[_Shape] = field(default_factory=list)


@dataclass(slots=True)
class _Edge:
    """A nested pattern, and what is required beside it; with thresholds, those of the numbers of its elements."""

    nested: NestedPattern
    following: _TrieNode | _Thresholds


class _Thresholds:
    """Comparisons of one number, by operator: those that hold are a part of the sorted ones.

    >>> thresholds = _Thresholds()
    >>> nodes = [thresholds.node(NumberComparison(TypedVariable("v"), ">", limit)) for limit in ("3", "1", "2")]
    >>> [nodes.index(node) for node in thresholds.holding({2.5, -1.0})]
    [1, 2]
    """

    def __init__(self) -> None:
        self._nodes: dict[str, dict[float, _TrieNode]] = {}
        self._sorted: dict[str, tuple[list[float], list[_TrieNode]]] = {}  # made by the first search

    def node(self, comparison: NumberComparison) -> _TrieNode:
        """What is required beside a comparison."""
        self._sorted = {}
        return self._nodes.setdefault(comparison.operator, {}).setdefault(float(comparison.number), _TrieNode())

    def holding(self, numbers: Collection[float]) -> Iterator[_TrieNode]:
        """What is required beside each comparison that holds for one of some numbers."""
        if not numbers:
            return
        if not self._sorted:
            for operator, nodes in self._nodes.items():
                limits = sorted(nodes)
                self._sorted[operator] = limits, [nodes[limit] for limit in limits]
        low, high = min(numbers), max(numbers)
        for operator, (limits, sorted_nodes) in self._sorted.items():
            match operator:
                case ">":
                    yield from sorted_nodes[: bisect_left(limits, high)]
                case ">=":
                    yield from sorted_nodes[: bisect_right(limits, high)]
                case "<":
                    yield from sorted_nodes[bisect_right(limits, low) :]
                case "<=":
                    yield from sorted_nodes[bisect_left(limits, low) :]
                case "=":
                    nodes = self._nodes[operator]
                    yield from (nodes[number] for number in numbers if number in nodes)
                case "!=":
                    yield from (node for limit, node in self._nodes[operator].items() if limit != low or limit != high)


@dataclass(slots=True)
class _NameTable:
    """The patterns of elements with one name."""

    by_text: dict[str, list[_Shape]] = field(default_factory=dict)  # shapes that require nothing but a text
    texts: dict[str, int] = field(default_factory=dict)  # facts by the text of the element
    attributes: dict[tuple[str, str], int] = field(default_factory=dict)
    root: _TrieNode = field(default_factory=_TrieNode)
    is_found_by_facts: bool = True  # no pattern can match an element without any fact

    def matching(self, element: etree._Element, inner: set[int], evaluation: Evaluation) -> Sequence[_Shape]:
        """The shapes that match an element; ``inner`` are the facts about what is inside it."""
        facts, shapes = inner, _NO_SHAPES
        if self.by_text or self.texts:
            text = text_of(element) if len(element) else trim(element.text or "")
            shapes = self.by_text.get(text, _NO_SHAPES)
            if (fact := self.texts.get(text)) is not None:
                facts = {fact, *facts}
        if self.attributes and (attributes := element.items()):
            found = (self.attributes.get((str(name), trim(str(value)))) for name, value in attributes)
            facts = facts.union(fact for fact in found if fact is not None)
        if not facts and self.is_found_by_facts:
            return shapes
        return shapes + _search(self.root, facts, element, evaluation)


@dataclass(slots=True, eq=False)
class _Shape:
    """A shape, and the facts it makes of the parent and of all elements around an element that matches it."""

    id: int
    pattern: ElementPattern  # equal parts of shapes are the same object
    is_selective: bool  # it requires a constant text
    leaves: list[int] = field(default_factory=list)  # of its blocks
    decided: list[ElementPattern] = field(default_factory=list)  # of its blocks: they match where the shape does
    child_fact: int | None = None
    descendant_fact: int | None = None
    is_registered: bool = False


_FEW_NAMES = 8  # that lxml compares with the name of an element sooner than it makes an object of the element
_NO_FACTS: set[int] = set()
_NO_SHAPES: list[_Shape] = []


class BlockIndex:
    """The index of some blocks, by their positions in the sequence.

    >>> from motet.xmlql.parse import parse_block
    >>> index = BlockIndex([parse_block(f"<pay><pn>{i}</pn></pay>") for i in range(3)])
    >>> list(index.search(etree.XML("<pay><pn>1</pn></pay>"), Evaluation()))
    [1]
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = tuple(blocks)
        self._tables: dict[str, _NameTable] = {}
        self._by_pattern: dict[ElementPattern, _Shape] = {}
        self._fact_count = 0
        self._has_descendant_facts = False
        for index, block in enumerate(blocks):
            shape = self._shape(block.element)
            self._register(shape)
            shape.leaves.append(index)
            if all(map(_is_decided, block.element.walk())):
                shape.decided.append(block.element)
        self._by_pattern = {}
        self._any = self._tables.get(_ANY)
        has_few_names = self._any is None and not self._has_descendant_facts and len(self._tables) <= _FEW_NAMES
        self._names = tuple(self._tables) if has_few_names else ("*",)  # of the elements that are visited

    def search(self, root: etree._Element, evaluation: Evaluation) -> dict[int, list[etree._Element]]:
        """The blocks that may match a document, each with the elements at which it may, in document order."""
        table_of, any_table = self._tables.get, self._any
        inside: defaultdict[etree._Element | None, set[int]] = defaultdict(set)  # facts, until the element is visited
        below: defaultdict[etree._Element | None, set[int]] = defaultdict(set)  # those about descendants
        results: dict[_Shape, list[etree._Element]] = {}
        for element in reversed([*root.iter(*self._names)]):
            if element in below:
                _ascend(element, inside, below)
            table = table_of(element.tag, any_table)
            if table is None:
                continue
            facts = inside.get(element, _NO_FACTS)
            shapes = table.matching(element, facts, evaluation)
            if any_table is not None and table is not any_table:
                shapes = [*shapes, *any_table.matching(element, facts, evaluation)]
            for shape in shapes:
                if shape.leaves:
                    results.setdefault(shape, []).append(element)
                    evaluation.accept(shape.decided, element)
                if shape.child_fact is not None:
                    inside[element.getparent()].add(shape.child_fact)
                if shape.descendant_fact is not None:
                    below[element.getparent()].add(shape.descendant_fact)
        hits: dict[int, list[etree._Element]] = {}
        for shape, matched in results.items():
            for leaf in shape.leaves:
                if not self.blocks[leaf].is_anchored:
                    hits[leaf] = matched[::-1]
                elif matched[-1] is root:
                    hits[leaf] = [root]
        return hits

    def _shape(self, pattern: ElementPattern) -> _Shape:
        """The shape of a pattern, with those of all patterns inside it."""
        nested = tuple(
            sorted(
                {replace(each, element=self._shape(each.element).pattern) for each in pattern.nested},
                key=lambda each: (self._by_pattern[each.element].id, each.is_descendant),
            )
        )
        attributes = tuple(sorted((a for a in pattern.attributes if isinstance(a.value, str)), key=repr))
        value = pattern.value if isinstance(pattern.value, NumberComparison) else None
        if value is not None:
            value = replace(value, variable=TypedVariable(""))
        bare = ElementPattern(tuple(sorted(pattern.names)), None, attributes, pattern.text, value, nested)
        shape = self._by_pattern.get(bare)
        if shape is None:
            is_inside = any(self._by_pattern[each.element].is_selective for each in nested)
            is_selective = is_inside or bare.text is not None or bool(attributes)
            shape = self._by_pattern[bare] = _Shape(len(self._by_pattern), bare, is_selective)
        return shape

    def _register(self, shape: _Shape) -> None:
        """Add a shape to the tables of its names."""
        if shape.is_registered:
            return
        shape.is_registered = True
        selective: list[NestedPattern] = []
        others: list[NestedPattern] = []
        for nested in shape.pattern.nested:
            inner = self._by_pattern[nested.element]
            (selective if inner.is_selective else others).append(nested)
            if inner.is_selective:
                self._register(inner)
        for name in shape.pattern.names or (_ANY,):
            table = self._tables.setdefault(name, _NameTable())
            facts = [self._nested_fact(each) for each in selective]
            if shape.pattern.text is not None and not shape.pattern.attributes:
                table.by_text.setdefault(shape.pattern.text, []).append(shape)
                continue
            if shape.pattern.text is not None:
                facts.append(self._fact(table.texts, shape.pattern.text))
            for attribute in shape.pattern.attributes:
                assert isinstance(attribute.value, str), "the others are no part of a shape"
                facts.append(self._fact(table.attributes, (attribute.name, attribute.value)))
            table.is_found_by_facts &= bool(facts)
            node = table.root
            for fact in sorted(set(facts)):
                node = node.facts.setdefault(fact, _TrieNode())
            if isinstance(shape.pattern.value, NumberComparison):
                node.number = node.number or _Thresholds()
                node = node.number.node(shape.pattern.value)
            for each in sorted(others, key=lambda each: _comparison(each) is None):
                node = _following(node, each)
            node.shapes.append(shape)

    def _fact(self, table: dict[Any, int], key: object) -> int:
        if key not in table:
            self._fact_count += 1
            table[key] = self._fact_count
        return table[key]

    def _nested_fact(self, nested: NestedPattern) -> int:
        shape = self._by_pattern[nested.element]
        fact = shape.descendant_fact if nested.is_descendant else shape.child_fact
        if fact is None:
            self._fact_count += 1
            fact = self._fact_count
            if nested.is_descendant:
                shape.descendant_fact = fact
                self._has_descendant_facts = True
            else:
                shape.child_fact = fact
        return fact


def _is_decided(pattern: ElementPattern) -> bool:
    """Whether all that an element itself must have is a part of the shape: no attribute of any text, no cast."""
    variable = pattern.content_variable
    is_cast = variable is not None and variable.datatype is not None
    return not is_cast and all(isinstance(attribute.value, str) for attribute in pattern.attributes)


def _comparison(nested: NestedPattern) -> NumberComparison | None:
    """The comparison of a nested pattern that requires nothing else."""
    value = nested.element.value
    return value if isinstance(value, NumberComparison) and not nested.element.attributes else None


def _following(node: _TrieNode, nested: NestedPattern) -> _TrieNode:
    """What is required beside a nested pattern; an edge for all comparisons of the same elements."""
    comparison = _comparison(nested)
    if comparison is not None:
        nested = replace(nested, element=replace(nested.element, value=None))
    edge = node.edges.get((nested, comparison is not None))
    if edge is None:
        edge = _Edge(nested, _TrieNode() if comparison is None else _Thresholds())
        node.edges[nested, comparison is not None] = edge
        if nested.is_descendant or not nested.element.names:
            node.others.append(edge)
        for name in () if nested.is_descendant else nested.element.names:
            node.children.setdefault(name, []).append(edge)
    if isinstance(edge.following, _Thresholds):
        assert comparison is not None, "edges with thresholds are those of comparisons"
        return edge.following.node(comparison)
    return edge.following


def _search(root: _TrieNode, facts: set[int], element: etree._Element, evaluation: Evaluation) -> list[_Shape]:
    """The shapes of a trie that an element with some facts matches."""
    shapes: list[_Shape] = []
    reached = [root]  # grows while it is read
    visited: set[int] = set()  # edges with several names
    for node in reached:
        shapes += node.shapes
        if len(facts) < len(node.facts):
            reached += [node.facts[fact] for fact in facts if fact in node.facts]
        elif node.facts:
            reached += [following for fact, following in node.facts.items() if fact in facts]
        if node.number is not None:
            reached += node.number.holding(_numbers([element]))
        if node.edges:
            for edge in _edges(node, evaluation.children(element).keys()):
                if id(edge) in visited:
                    continue
                if len(edge.nested.element.names) > 1:
                    visited.add(id(edge))
                reached += _beside(edge, element, evaluation)
    return shapes


def _edges(node: _TrieNode, names: Set[str]) -> Iterator[_Edge]:
    """The edges of a node that an element whose children have some names may satisfy."""
    yield from node.others
    for name in node.children.keys() & names:
        yield from node.children[name]


def _beside(edge: _Edge, element: etree._Element, evaluation: Evaluation) -> Iterable[_TrieNode]:
    """What is required beside an edge, if the element satisfies it."""
    if isinstance(edge.following, _Thresholds):
        return edge.following.holding(_numbers(evaluation.inside(edge.nested, element)))
    return (edge.following,) if evaluation.has_inside(edge.nested, element) else ()


def _numbers(elements: Iterable[etree._Element]) -> set[float]:
    found = (as_number(text_of(element)) for element in elements)
    return {number for number in found if number is not None}


def _ascend(
    element: etree._Element,
    inside: dict[etree._Element | None, set[int]],
    below: dict[etree._Element | None, set[int]],
) -> None:
    """Add the facts about descendants of an element to those about what is inside it, and to those of its parent."""
    facts = below.pop(element)
    inside[element] = facts | inside.get(element, _NO_FACTS)
    parent = element.getparent()
    small, large = sorted((below.get(parent, _NO_FACTS), facts), key=len)
    large |= small
    below[parent] = large


@dataclass(frozen=True, eq=False)
class XmlSegment:
    """Leaves with blocks that are indexed together, and which of them are still there."""

    leaves: tuple[LeafQuery, ...]
    index: BlockIndex
    removed: frozenset[int] = frozenset()

    def hits(self, root: etree._Element, evaluation: Evaluation) -> dict[int, list[etree._Element]]:
        """The leaves that may match a document, with the elements at which they may."""
        hits = self.index.search(root, evaluation)
        return {leaf: elements for leaf, elements in hits.items() if leaf not in self.removed}

    def live(self) -> Iterator[LeafQuery]:
        return (leaf for index, leaf in enumerate(self.leaves) if index not in self.removed)

    def without(self, names: Collection[str]) -> XmlSegment:
        removed = {index for index, leaf in enumerate(self.leaves) if leaf.name in names}
        return replace(self, removed=self.removed | removed) if removed - self.removed else self


@dataclass(frozen=True)
class XmlIndex:
    """The leaves with blocks, in segments that are merged when one is not larger than what is added."""

    segments: tuple[XmlSegment, ...] = ()

    def with_leaves(self, leaves: Iterable[LeafQuery]) -> XmlIndex:
        added = tuple(leaves)
        if not added:
            return self
        retained = list(self.segments)
        while retained and len(retained[-1].leaves) <= len(added):
            added = (*retained.pop().live(), *added)
        trees = [leaf.event.xml.tree for leaf in added if leaf.event.xml is not None]
        return XmlIndex((*retained, XmlSegment(added, BlockIndex(trees))))

    def without(self, names: Collection[str]) -> XmlIndex:
        segments = (segment.without(names) for segment in self.segments)
        return XmlIndex(tuple(segment for segment in segments if len(segment.removed) < len(segment.leaves)))


def is_block_leaf(leaf: LeafQuery) -> bool:
    """Whether the index of blocks finds the candidates of a leaf; one with a class has those of the class."""
    return leaf.event.xml is not None and leaf.event.class_iri is None
