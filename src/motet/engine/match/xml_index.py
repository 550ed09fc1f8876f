"""The index of blocks: finds the elements of a document at which blocks may match, all blocks in one pass.

A block without its variables is a shape; equal shapes are one, and so are equal parts of shapes. An element is looked
up once, by its name; the patterns of one name are a trie over what they require (a text, an attribute, a nested
pattern), so that common beginnings are searched once and an element costs what it has in common with patterns, not how
many there are. Elements are visited from the last to the first: what matches inside one is known before it.
Requirements without any constant text are tested last, and only where an element has a child of that name. The result
may have too many elements, never too few: `motet.xmlql.evaluate` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from motet.engine.match.leaf import LeafQuery
from motet.xmlql.blocks import Block, ElementPattern, NestedPattern, NumberComparison, TypedVariable, trim
from motet.xmlql.evaluate import Evaluation, text_of

_ANY = ""  # the name of patterns with a tag variable


@dataclass(slots=True)
class _TrieNode:
    """What patterns of one name require next, and the shapes that require nothing more."""

    facts: dict[int, _TrieNode] = field(default_factory=dict)
    children: dict[str, list[tuple[NestedPattern, _TrieNode]]] = field(default_factory=dict)  # by name of the child
    others: list[tuple[NestedPattern, _TrieNode]] = field(default_factory=list)  # descendants, children of any name
    nested: dict[NestedPattern, _TrieNode] = field(default_factory=dict)  # all of both
    shapes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _NameTable:
    """The patterns of elements with one name."""

    texts: dict[str, int] = field(default_factory=dict)  # facts by the text of the element
    attributes: dict[tuple[str, str], int] = field(default_factory=dict)
    root: _TrieNode = field(default_factory=_TrieNode)
    is_found_by_facts: bool = True  # no pattern can match an element without any fact


@dataclass(slots=True)
class _Shape:
    """A shape, and the facts it makes of the parent and of all elements around an element that matches it."""

    id: int
    pattern: ElementPattern  # equal parts of shapes are the same object
    is_selective: bool  # it requires a constant text
    leaves: list[tuple[int, bool]] = field(default_factory=list)  # of its blocks, and whether they are anchored
    child_fact: int | None = None
    descendant_fact: int | None = None
    is_registered: bool = False


class BlockIndex:
    """The index of some blocks, by their positions in the sequence.

    >>> from motet.xmlql.parse import parse_block
    >>> index = BlockIndex([parse_block(f"<pay><pn>{i}</pn></pay>") for i in range(3)])
    >>> list(index.search(etree.XML("<pay><pn>1</pn></pay>")))
    [1]
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._tables: dict[str, _NameTable] = {}
        self._shapes: list[_Shape] = []
        self._by_pattern: dict[ElementPattern, _Shape] = {}
        self._fact_count = 0
        for index, block in enumerate(blocks):
            shape = self._shape(block.element)
            self._register(shape)
            shape.leaves.append((index, block.is_anchored))
        self._by_pattern = {}
        self._any = self._tables.get(_ANY)

    def search(self, root: etree._Element) -> dict[int, list[etree._Element]]:
        """The blocks that may match a document, each with the elements at which it may, in document order."""
        elements = list(root.iter("*"))
        table_of, any_table = self._tables.get, self._any
        if any_table is None and not any(element.tag in self._tables for element in elements):
            return {}
        facts: dict[etree._Element, set[int]] = {}
        evaluation = Evaluation()
        results: dict[int, list[etree._Element]] = {}
        for element in reversed(elements):
            table = table_of(element.tag)
            inner = facts.pop(element, None) if facts else None
            if table is not None:
                self._visit(table, element, inner, facts, evaluation, results)
            if any_table is not None:
                self._visit(any_table, element, inner, facts, evaluation, results)
        hits: dict[int, list[etree._Element]] = {}
        for shape, matched in results.items():
            for leaf, is_anchored in self._shapes[shape].leaves:
                if not is_anchored:
                    hits[leaf] = matched[::-1]
                elif matched[-1] is root:
                    hits[leaf] = [root]
        return hits

    def _visit(
        self,
        table: _NameTable,
        element: etree._Element,
        inner: set[int] | None,
        facts: dict[etree._Element, set[int]],
        evaluation: Evaluation,
        results: dict[int, list[etree._Element]],
    ) -> None:
        """Find the shapes that match an element; ``inner`` are the facts about what is inside it."""
        own: list[int] = [*inner] if inner else []
        if table.texts:
            text = trim(element.text or "") if not len(element) else text_of(element)
            if (fact := table.texts.get(text)) is not None:
                own.append(fact)
        if table.attributes and element.attrib:
            for name, value in element.items():
                if (fact := table.attributes.get((str(name), trim(str(value))))) is not None:
                    own.append(fact)
        if not own and table.is_found_by_facts:
            return
        for id_ in _search(table.root, sorted(own), element, evaluation):
            shape = self._shapes[id_]
            if shape.leaves:
                results.setdefault(id_, []).append(element)
            if shape.child_fact is not None and (parent := element.getparent()) is not None:
                facts.setdefault(parent, set()).add(shape.child_fact)
            if shape.descendant_fact is not None:
                for ancestor in element.iterancestors():
                    facts.setdefault(ancestor, set()).add(shape.descendant_fact)

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
            shape = self._by_pattern[bare] = _Shape(len(self._shapes), bare, is_selective)
            self._shapes.append(shape)
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
            if shape.pattern.text is not None:
                facts.append(self._fact(table.texts, shape.pattern.text))
            for attribute in shape.pattern.attributes:
                assert isinstance(attribute.value, str), "the others are no part of a shape"
                facts.append(self._fact(table.attributes, (attribute.name, attribute.value)))
            table.is_found_by_facts &= bool(facts)
            node = table.root
            for fact in sorted(set(facts)):
                node = node.facts.setdefault(fact, _TrieNode())
            for each in others:
                node = _nested_node(node, each)
            node.shapes.append(shape.id)

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
            else:
                shape.child_fact = fact
        return fact


def _nested_node(node: _TrieNode, nested: NestedPattern) -> _TrieNode:
    following = node.nested.get(nested)
    if following is None:
        following = node.nested[nested] = _TrieNode()
        if nested.is_descendant or not nested.element.names:
            node.others.append((nested, following))
        for name in () if nested.is_descendant else nested.element.names:
            node.children.setdefault(name, []).append((nested, following))
    return following


def _search(root: _TrieNode, facts: Sequence[int], element: etree._Element, evaluation: Evaluation) -> Iterator[int]:
    """The shapes of a trie that an element with some facts matches."""
    names: set[object] | None = None
    stack = [(root, 0)]
    visited: set[int] = set()
    while stack:
        node, first = stack.pop()
        yield from node.shapes
        if node.facts:
            for index in range(first, len(facts)):
                following = node.facts.get(facts[index])
                if following is not None:
                    stack.append((following, index + 1))
        if node.nested:
            if names is None:
                names = {child.tag for child in element.iterchildren("*")}
            edges = [*node.others]
            for name in names & node.children.keys():
                edges += node.children[name]  # type: ignore[index]
            for nested, following in edges:
                if id(following) not in visited and evaluation.has_inside(nested, element):
                    visited.add(id(following))
                    stack.append((following, len(facts)))


@dataclass(frozen=True, eq=False)
class XmlSegment:
    """Leaves with blocks that are indexed together, and which of them are still there."""

    leaves: tuple[LeafQuery, ...]
    index: BlockIndex
    removed: frozenset[int] = frozenset()

    def hits(self, root: etree._Element) -> dict[int, list[etree._Element]]:
        """The leaves that may match a document, with the elements at which they may."""
        hits = self.index.search(root)
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
