"""A{n} and A+ over the successive members of each key (language page, section 5).

Members are pending until the frontier has passed their end, and then counted in completion order. A run is final when
no member can extend it any more; an open run is stored as one occurrence, however long it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from motet.engine.detect.iteration_kernels import extendable, maximal_runs, sliding_windows, tumbling_groups
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, Deduplicator, IncrementalOperator, OperatorEnv, StateTables
from motet.engine.detect.order import completion_order
from motet.engine.detect.table_kernels import EMISSION_OFFSET, END, START, VALUES, first_equal, merge_groups
from motet.jit.compiled import Ints
from motet.language.syntax import Context
from motet.plan.graph import PlanNode

_SLIDING = (Context.UNRESTRICTED, Context.RECENT)


class _Members:
    """The members of an iteration: each once, in completion order, when the frontier has passed them."""

    def __init__(self, node: PlanNode) -> None:
        self._width = len(node.variables)
        self._bound = node.bound
        self.deduplicator = Deduplicator(self._width, with_members=node.with_members)
        self.pending = empty_table(self._width, with_members=node.with_members)

    def advance(self, new: Occurrences, env: OperatorEnv) -> Occurrences:
        distinct = self.deduplicator.advance(new, replace(env, lag=env.lags[0]))
        if self._bound is not None:
            distinct = distinct.take(distinct.columns[END] - distinct.columns[START] <= self._bound)
        pending = concatenate([self.pending, distinct])
        is_complete = env.frontier.has_passed(pending.columns[END] + env.lags[0])
        self.pending = pending.take(~is_complete)
        complete = pending.take(is_complete)
        return complete.take(completion_order(complete, env.dictionary))

    def prune(self, env: OperatorEnv) -> None:
        self.deduplicator.prune(replace(env, lag=env.lags[0]))

    def next_timer(self, env: OperatorEnv) -> int:
        return int(self.pending.columns[END].min()) + env.lags[0] if len(self.pending) else NO_TIMER

    def by_key(self, counted: Occurrences, complete: Occurrences) -> tuple[Occurrences, Ints, Ints]:
        """The counted and the newly complete members, sorted by key; the key of each; and which are new."""
        table = concatenate([counted, complete])
        columns = np.arange(VALUES, VALUES + self._width)
        keys = first_equal(table.columns, columns, np.zeros(len(table) + 1, np.int64), np.empty(0, np.int64))
        order = np.argsort(keys, kind="stable")
        is_new = (order >= len(counted)).astype(np.int64)
        return table.take(order), keys[order], is_new


class TimesOperator(IncrementalOperator):
    """A{n} and A{n} EVERY d: sliding windows, or tumbling groups."""

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        self._count = node.operator.count or 1
        self._gap = -1 if node.operator.gap is None else node.operator.gap
        self._bound = -1 if node.bound is None else node.bound
        self._slides = node.context in _SLIDING
        self._members = _Members(node)
        self._counted = self._members.pending

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        table, keys, is_new = self._members.by_key(self._counted, self._members.advance(inputs[0], env))
        if self._slides:
            last_rows, counted = sliding_windows(table.columns, keys, is_new, self._count, self._gap, self._bound)
        else:
            last_rows, counted = tumbling_groups(table.columns, keys, self._count, self._gap, self._bound)
        self._counted = table.take(np.flatnonzero(counted))
        self._drop_counted(env)
        groups = np.arange(0, self._count * len(last_rows) + 1, self._count)
        rows = (last_rows[:, None] + np.arange(1 - self._count, 1)).ravel()
        merged = _merge_members(table, groups, rows)
        final = env.frontier.offsets_past(merged.columns[END] + env.lags[0])
        return merged.with_column(EMISSION_OFFSET, np.maximum(merged.columns[EMISSION_OFFSET], final))

    def prune(self, env: OperatorEnv) -> None:
        self._members.prune(env)
        self._drop_counted(env)

    def next_timer(self, env: OperatorEnv) -> int:
        return self._members.next_timer(env)

    def snapshot(self) -> StateTables:
        members = self._members
        return {"waiting": members.pending, "counted": self._counted, "seen": members.deduplicator.emitted_before}

    def restore(self, tables: StateTables) -> None:
        self._members.pending, self._counted = tables["waiting"], tables["counted"]
        self._members.deduplicator.emitted_before = tables["seen"]

    def _drop_counted(self, env: OperatorEnv) -> None:
        """Drop members that no future one can follow; those end no earlier than the frontier less their lag."""
        following = env.frontier.current - env.lags[0]
        is_useful = extendable(self._counted.columns, following, self._gap, self._bound, self._slides)
        if not is_useful.all():
            self._counted = self._counted.take(is_useful)


class RunOperator(IncrementalOperator):
    """A+ EVERY d: maximal runs."""

    def __init__(self, node: PlanNode) -> None:
        super().__init__(node)
        self._gap = -1 if node.operator.gap is None else node.operator.gap
        self._bound = -1 if node.bound is None else node.bound
        self._members = _Members(node)
        self._open = self._members.pending  # the last run of each key, which may continue
        self._closed = self._members.pending  # runs behind which another one has begun, but which are not final yet

    def advance(self, inputs: Sequence[Occurrences], env: OperatorEnv) -> Occurrences:
        table, keys, _ = self._members.by_key(self._open, self._members.advance(inputs[0], env))
        first_rows, is_last = maximal_runs(table.columns, keys, self._gap, self._bound)
        runs = _merge_members(table, np.append(first_rows, len(table)), np.arange(len(table)))
        runs = concatenate([self._closed, runs])
        is_open = np.append(np.zeros(len(self._closed), np.bool_), is_last.astype(np.bool_))
        deadline = self._deadlines(runs) + env.lags[0]
        is_final = env.frontier.has_passed(deadline)
        self._open, self._closed = runs.take(is_open & ~is_final), runs.take(~is_open & ~is_final)
        final = env.frontier.offsets_past(deadline[is_final])
        result = runs.take(is_final)
        return result.with_column(EMISSION_OFFSET, np.maximum(result.columns[EMISSION_OFFSET], final))

    def prune(self, env: OperatorEnv) -> None:
        self._members.prune(env)

    def next_timer(self, env: OperatorEnv) -> int:
        deadlines = [self._deadlines(table) for table in (self._open, self._closed) if len(table)]
        first = min((int(deadline.min()) + env.lags[0] for deadline in deadlines), default=NO_TIMER)
        return min(first, self._members.next_timer(env))

    def snapshot(self) -> StateTables:
        return {
            "waiting": self._members.pending,
            "open": self._open,
            "closed": self._closed,
            "seen": self._members.deduplicator.emitted_before,
        }

    def restore(self, tables: StateTables) -> None:
        self._members.pending, self._members.deduplicator.emitted_before = tables["waiting"], tables["seen"]
        self._open, self._closed = tables["open"], tables["closed"]

    def _deadlines(self, table: Occurrences) -> Ints:
        """The last instant at which a member that extends the run can end."""
        by_bound = table.columns[START] + self._bound if self._bound >= 0 else np.full(len(table), NO_TIMER)
        by_gap = table.columns[END] + self._gap if self._gap >= 0 else np.full(len(table), NO_TIMER)
        return np.minimum(by_bound, by_gap)


def _merge_members(table: Occurrences, groups: Ints, rows: Ints) -> Occurrences:
    """One occurrence for each group of members: all events, the hull, the key's bindings."""
    merged = Occurrences(*merge_groups(table.columns, table.starts, table.events, groups, rows))
    if table.members is None:
        return merged
    sets = [
        frozenset[tuple[tuple[str, int], ...]]().union(*table.members[rows[begin:end]])
        for begin, end in zip(groups[:-1].tolist(), groups[1:].tolist(), strict=True)
    ]
    return replace(merged, members=member_array(sets))
