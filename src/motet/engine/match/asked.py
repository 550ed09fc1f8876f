"""Which classes and properties of an event do the leaves of an index look for?

Only what the index itself looks at: the verifier closes the events it is given, whatever they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.index import Group
from motet.engine.match.leaf import Shape
from motet.engine.match.prefixes import named_beginning
from motet.engine.match.segment import Block
from motet.model.terms import RDF_TYPE
from motet.ontology.consequences import Consequences


@dataclass(frozen=True)
class Asked:
    """What living leaves ask for.

    >>> from motet.engine.match.index import Index
    >>> from motet.language.parse import parse
    >>> asked = Asked(Index().plus(parse("SUBSCRIPTION s EVENT e : <urn:A> { ?e <urn:p> ?x } WHEN e")).groups)
    >>> sorted(asked.properties), sorted(asked.classes)
    (['<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>', '<urn:p>'], ['<urn:A>'])
    """

    groups: Sequence[Group] = ()

    def sees(self, found: Consequences) -> bool:
        """Whether a leaf might see the difference."""
        if not self.properties.isdisjoint(found.properties):
            return True
        return not self.classes.isdisjoint(found.classes) or (self.every_class and bool(found.classes))

    @property
    def properties(self) -> frozenset[str]:
        return self._found[0]

    @property
    def classes(self) -> frozenset[str]:
        """The classes that leaves name."""
        return self._found[1]

    @property
    def every_class(self) -> bool:
        """Whether a leaf takes any class for an answer."""
        return self._found[2]

    @cached_property
    def _found(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """Found when first asked for: under a plain hierarchy nobody asks."""
        properties: set[str] = set()
        classes: set[str] = set()
        every_class = False
        for block in (block for group in self.groups for block in _living(group)):
            properties.update(map(_property, block.shape.predicates()))
            every_class |= _reads_classes(block.shape)
            for column in _class_columns(block):
                classes.update(pc.unique(column).to_pylist())
        return frozenset(properties), frozenset(classes), every_class


def _living(group: Group) -> Iterator[Block]:
    for block in group.segment.blocks():
        alive = group.alive[block.leaf]
        if alive.all():
            yield block
        elif alive.any():
            rows = pa.array(np.flatnonzero(alive))
            yield Block(block.shape, tuple(column.take(rows) for column in block.terms), block.intervals, block.leaf)


def _class_columns(block: Block) -> Iterator[pa.Array]:
    return (terms for part, terms in zip(block.shape.parts, block.terms, strict=True) if part == RDF_TYPE)


def _reads_classes(shape: Shape) -> bool:
    tested = (*shape.reads, *(name for name, _ in shape.ranges), *(part for part in shape.parts if part != RDF_TYPE))
    return any(_property(name) == RDF_TYPE for name in tested)


def _property(name: str) -> str:
    begun = named_beginning(name)
    return name if begun is None else begun.predicate
