"""All leaves of a set of subscriptions, in a few segments: one can come or go without rebuilding the others.

An index never changes; a changed one shares what stays. New leaves make a segment of their own, which swallows the
segments that are not larger: there are at most as many as the number of leaves has binary digits. Leaves that go are
marked, and are left out when their segment is swallowed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.leaf import Entry, Form, LeafQuery, Shape, entry
from motet.engine.match.segment import Block, Segment, blocks_of, build
from motet.engine.match.texts import Texts, texts
from motet.model.terms import RDF_TYPE

ANY_LENGTH = np.iinfo(np.int64).max
VERIFIED = -1  # the form of a leaf that has none


@dataclass(frozen=True)
class Leaves:
    """The leaves of a segment, by number."""

    names: pa.Array
    forms: tuple[Form, ...]
    form: npt.NDArray[np.int32]
    longest: npt.NDArray[np.int64]
    leaf: Callable[[int], LeafQuery]  # called for the verified ones only

    def __len__(self) -> int:
        return len(self.names)

    def name(self, leaf: int) -> str:
        """One of the names; Arrow would take as long for it as the search for the leaf."""
        offsets, data = self._texts
        return data[offsets[leaf] : offsets[leaf + 1]].tobytes().decode()

    @cached_property
    def _texts(self) -> Texts:
        return texts(self.names)


@dataclass(frozen=True, slots=True)
class Group:
    """A segment with its leaves, some of which may be gone."""

    segment: Segment
    leaves: Leaves
    alive: npt.NDArray[np.bool_]
    is_plain: bool  # all leaves are alive, have a form and take events of any length


@dataclass(frozen=True)
class Index:
    """
    >>> from motet.language.syntax import Event
    >>> index = Index().plus([LeafQuery("s", Event("e", "urn:A"), ("e",))])
    >>> len(index), len(index.without({"s"}))
    (1, 0)
    """

    groups: tuple[Group, ...] = ()
    predicates: tuple[str, ...] = (RDF_TYPE,)  # numbered; numbers never change
    compared: frozenset[str] = frozenset()  # predicates whose values are compared

    def __len__(self) -> int:
        return sum(int(group.alive.sum()) for group in self.groups)

    def plus(self, leaves: Sequence[LeafQuery]) -> Index:
        """The index with more leaves."""
        if not leaves:
            return self
        entries = list(map(entry, leaves))
        return self.plus_table(blocks_of(entries), _leaves(leaves, entries))

    def plus_table(self, blocks: Sequence[Block], leaves: Leaves) -> Index:
        """The index with more leaves, given as tables of distinct shapes."""
        index = self._knowing(block.shape for block in blocks)
        swallowed, kept = [], list(index.groups)
        size = len(leaves)
        while kept and len(kept[-1].leaves) <= size:
            swallowed.append(kept.pop())
            size += len(swallowed[-1].leaves)
        for group in swallowed:
            blocks, leaves = _joined(group, blocks, leaves)
        segment = build(blocks, {name: number for number, name in enumerate(index.predicates)})
        return replace(index, groups=(*kept, _whole(segment, leaves)))

    def without(self, names: Collection[str]) -> Index:
        """The index without the leaves of these names."""
        groups = [_without(group, names) for group in self.groups]
        return replace(self, groups=tuple(group for group in groups if group.alive.any()))

    def _knowing(self, shapes: Iterable[Shape]) -> Index:
        """The index with the predicates of more shapes."""
        shapes = list(shapes)
        predicates = dict.fromkeys([*self.predicates, *(p for shape in shapes for p in shape.predicates())])
        compared = self.compared | {predicate for shape in shapes for predicate, _ in shape.ranges}
        return Index(self.groups, tuple(predicates), compared)


def _leaves(leaves: Sequence[LeafQuery], entries: Sequence[Entry]) -> Leaves:
    forms: dict[Form, int] = {}
    form = [VERIFIED if one.form is None else forms.setdefault(one.form, len(forms)) for one in entries]
    longest = [ANY_LENGTH if leaf.max_length is None else leaf.max_length for leaf in leaves]
    return Leaves(
        pa.array([leaf.name for leaf in leaves], pa.string()),
        tuple(forms),
        np.array(form, np.int32),
        np.array(longest, np.int64),
        tuple(leaves).__getitem__,
    )


def _whole(segment: Segment, leaves: Leaves) -> Group:
    is_plain = bool((leaves.form != VERIFIED).all() and (leaves.longest == ANY_LENGTH).all())
    return Group(segment, leaves, np.ones(len(leaves), np.bool_), is_plain)


def _without(group: Group, names: Collection[str]) -> Group:
    gone = np.asarray(pc.is_in(group.leaves.names, pa.array(sorted(names), pa.string())))
    return replace(group, alive=group.alive & ~gone, is_plain=False) if gone.any() else group


def _joined(group: Group, blocks: Sequence[Block], leaves: Leaves) -> tuple[list[Block], Leaves]:
    """The living leaves of a group, and behind them some more."""
    kept = np.flatnonzero(group.alive)
    number = np.cumsum(group.alive, dtype=np.int32) - 1
    by_shape = {block.shape: [_chosen(block, group.alive, number)] for block in group.segment.blocks()}
    for block in blocks:
        shifted = replace(block, leaf=block.leaf + np.int32(len(kept)))
        by_shape.setdefault(block.shape, []).append(shifted)
    tables = [_stacked(found) for found in by_shape.values()]
    return [table for table in tables if len(table.leaf)], _both(group.leaves, kept, leaves)


def _chosen(block: Block, alive: npt.NDArray[np.bool_], number: npt.NDArray[np.int32]) -> Block:
    rows = np.flatnonzero(alive[block.leaf])
    terms = tuple(column.take(pa.array(rows)) for column in block.terms)
    return Block(block.shape, terms, block.intervals[rows], number[block.leaf[rows]])


def _stacked(blocks: Sequence[Block]) -> Block:
    first = blocks[0]
    if len(blocks) == 1:
        return first
    terms = tuple(pa.concat_arrays([block.terms[part] for block in blocks]) for part in range(len(first.terms)))
    intervals = np.concatenate([block.intervals for block in blocks])
    return Block(first.shape, terms, intervals, np.concatenate([block.leaf for block in blocks]))


def _both(first: Leaves, kept: npt.NDArray[np.int64], second: Leaves) -> Leaves:
    forms = {form: number for number, form in enumerate(dict.fromkeys([*first.forms, *second.forms]))}
    renumbered = [
        np.array([*(forms[form] for form in leaves.forms), VERIFIED], np.int32)[leaves.form]
        for leaves in (first, second)
    ]
    count, of_first, of_second = len(kept), first.leaf, second.leaf

    def leaf_at(leaf: int) -> LeafQuery:
        return of_first(int(kept[leaf])) if leaf < count else of_second(leaf - count)

    return Leaves(
        pa.concat_arrays([first.names.take(pa.array(kept)), second.names]),
        tuple(forms),
        np.concatenate([renumbered[0][kept], renumbered[1]]),
        np.concatenate([first.longest[kept], second.longest]),
        leaf_at,
    )
