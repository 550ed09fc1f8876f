"""The output of root nodes: the occurrences that each subscription may see, in its projected variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from motet.engine.detect.occurrences import Occurrences
from motet.engine.detect.operator import Deduplicator, OperatorEnv, are_distinct
from motet.engine.detect.table_kernels import EMISSION_OFFSET, END, FIRST_OFFSET
from motet.language.scope import delivered_names
from motet.language.syntax import Select
from motet.plan.graph import PlanNode, Root

_NO_START = np.iinfo(np.int64).min
_MAX_OFFSET = np.iinfo(np.int64).max


@dataclass
class RootOutput:
    """The output of a root node for one subscription; ``offset`` is that of its subscribe record."""

    root: Root
    offset: int
    projected: tuple[str, ...]  # the delivered variables, sorted
    variable_indexes: tuple[int, ...]  # of the projected variables among those of the node
    is_filtered: bool  # the node also serves subscriptions that started earlier
    deduplicator: Deduplicator | None

    def advance(self, table: Occurrences, env: OperatorEnv) -> Occurrences:
        """The occurrences to emit for the subscription, in its projected variables."""
        if not env.summary:
            env.summary.update(_summarise(table, env))
        if self.is_filtered:
            table = table.take(table.columns[FIRST_OFFSET] > self.root.start.offset)
        table = table.project(self.variable_indexes)
        if env.summary["emission offset"] < self.offset:
            offsets = np.maximum(table.columns[EMISSION_OFFSET], self.offset)
            table = table.with_column(EMISSION_OFFSET, offsets)
        if self.deduplicator is None or (env.summary["is distinct"] and not len(self.deduplicator.emitted_before)):
            return table
        return self.deduplicator.advance(table, env)


def _summarise(table: Occurrences, env: OperatorEnv) -> dict[str, int]:
    """The least emission offset and the least first offset; and whether no row can be repeated in any projection."""
    emitted = table.columns[EMISSION_OFFSET]
    is_over = env.frontier.has_passed(table.columns[END] + env.lag).all() and (emitted[1:] >= emitted[:-1]).all()
    return {
        "emission offset": int(emitted.min(initial=_MAX_OFFSET)),
        "first offset": int(table.columns[FIRST_OFFSET].min(initial=_MAX_OFFSET)),
        "is distinct": bool(is_over and are_distinct(table)),
    }


class OutputBatch(NamedTuple):
    """Occurrences that are emitted to several outputs, with the indexes of each output's variables in the table."""

    table: Occurrences
    outputs: Sequence[RootOutput]
    variable_indexes: Sequence[Sequence[int]]


def single_output(output: RootOutput, table: Occurrences) -> OutputBatch:
    """The occurrences of one output, in its projected variables."""
    return OutputBatch(table, (output,), (range(table.width),))


class SubscriberGroup:
    """The outputs of one root node. Mostly all of them get all its occurrences, without work for each."""

    def __init__(self, outputs: Sequence[RootOutput]) -> None:
        self._outputs = outputs
        self._variable_indexes = [output.variable_indexes for output in outputs]
        self._offset = max(output.offset for output in outputs)
        self._start = max((output.root.start.offset for output in outputs if output.is_filtered), default=_NO_START)
        self._deduplicators = [output.deduplicator for output in outputs if output.deduplicator is not None]

    def shared_output(self, table: Occurrences, env: OperatorEnv) -> OutputBatch | None:
        """All occurrences for all outputs; None if the outputs get different ones."""
        if not env.summary:
            env.summary.update(_summarise(table, env))
        if env.summary["first offset"] <= self._start or env.summary["emission offset"] < self._offset:
            return None
        if self._deduplicators and (
            not env.summary["is distinct"] or any(len(each.emitted_before) for each in self._deduplicators)
        ):
            return None
        return OutputBatch(table, self._outputs, self._variable_indexes)


def root_output(root: Root, node: PlanNode, offset: int) -> RootOutput:
    selects_all = root.subscription.delivery == Select()
    delivered = delivered_names(root.subscription)
    indexes = {
        name: node.variables.index(variable) for variable, name in root.renaming if selects_all or name in delivered
    }
    projected = tuple(sorted(indexes))
    deduplicator = None if selects_all else Deduplicator(len(projected), with_members=node.with_members)
    variable_indexes = tuple(map(indexes.__getitem__, projected))
    return RootOutput(root, offset, projected, variable_indexes, _serves_all(node), deduplicator)


def _serves_all(node: PlanNode) -> bool:
    """Whether a node serves all subscriptions with its pattern, whenever they started."""
    return node.start is None and node.owner is None
