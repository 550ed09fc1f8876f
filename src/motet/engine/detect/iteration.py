"""A{n} and A+ over the successive members of each key (language page, section 5).

Members wait until the frontier has passed their end, so that they can be counted in completion order. A run waits until
nothing can prolong it any more; an open run is kept as one occurrence, however long it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from motet.engine.detect.columns import EMISSION_OFFSET, END, START, VALUES, Ints
from motet.engine.detect.distinct import Deduplicator
from motet.engine.detect.iteration_kernels import hopeful, runs, sliding, tumbling
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table, member_array
from motet.engine.detect.operator import NO_TIMER, OperatorEnv, StateTables
from motet.engine.detect.order import completion_order
from motet.engine.detect.table_kernels import first_equal, merge_groups
from motet.language.syntax import Context
from motet.plan.nodes import Node

_SLIDING = (Context.UNRESTRICTED, Context.RECENT)


class _Members:
    """The members of an iteration: each once, in completion order, when the frontier has passed them."""

    def __init__(self, node: Node) -> None:
        self._width = len(node.variables)
        self._bound = node.bound
        self.distinct = Deduplicator(self._width, with_members=node.with_members)
        self.waiting = empty_table(self._width, with_members=node.with_members)

    def advance(self, new: Occurrences, now: OperatorEnv) -> Occurrences:
        fresh = self.distinct.advance(new, replace(now, lag=now.lags[0]))
        if self._bound is not None:
            fresh = fresh.take(fresh.columns[END] - fresh.columns[START] <= self._bound)
        waiting = concatenate([self.waiting, fresh])
        ready = now.frontier.has_passed(waiting.columns[END] + now.lags[0])
        self.waiting = waiting.take(~ready)
        complete = waiting.take(ready)
        return complete.take(completion_order(complete, now.dictionary))

    def due(self, now: OperatorEnv) -> int:
        return int(self.waiting.columns[END].min()) + now.lags[0] if len(self.waiting) else NO_TIMER

    def by_key(self, counted: Occurrences, complete: Occurrences) -> tuple[Occurrences, Ints, Ints]:
        """What is counted already and what is new, key by key; the keys; and which are new."""
        table = concatenate([counted, complete])
        columns = np.arange(VALUES, VALUES + self._width)
        keys = first_equal(table.columns, columns, np.zeros(len(table) + 1, np.int64), np.empty(0, np.int64))
        order = np.argsort(keys, kind="stable")
        is_new = (order >= len(counted)).astype(np.int64)
        return table.take(order), keys[order], is_new


class TimesOperator:
    """A{n} and A{n} EVERY d: windows that slide, or groups that tumble."""

    def __init__(self, node: Node) -> None:
        self._count = node.operator.count or 1
        self._gap = -1 if node.operator.gap is None else node.operator.gap
        self._bound = -1 if node.bound is None else node.bound
        self._slides = node.context in _SLIDING
        self._members = _Members(node)
        self._counted = self._members.waiting

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        table, keys, is_new = self._members.by_key(self._counted, self._members.advance(inputs[0], now))
        if self._slides:
            ends, stays = sliding(table.columns, keys, is_new, self._count, self._gap, self._bound)
        else:
            ends, stays = tumbling(table.columns, keys, self._count, self._gap, self._bound)
        self._counted = table.take(np.flatnonzero(stays))
        self._forget(now)
        groups = np.arange(0, self._count * len(ends) + 1, self._count)
        places = (ends[:, None] + np.arange(1 - self._count, 1)).ravel()
        found = whole(table, groups, places)
        known = now.frontier.passing_offsets(found.columns[END] + now.lags[0])
        return found.with_column(EMISSION_OFFSET, np.maximum(found.columns[EMISSION_OFFSET], known))

    def due(self, now: OperatorEnv) -> int:
        return self._members.due(now)

    def tables(self) -> StateTables:
        members = self._members
        return {"waiting": members.waiting, "counted": self._counted, "seen": members.distinct.emitted_before}

    def load(self, tables: StateTables) -> None:
        self._members.waiting, self._counted = tables["waiting"], tables["counted"]
        self._members.distinct.emitted_before = tables["seen"]

    def _forget(self, now: OperatorEnv) -> None:
        """What cannot be counted with the next member, which ends no earlier than the frontier less its lag."""
        following = now.frontier.current - now.lags[0]
        hopes = hopeful(self._counted.columns, following, self._gap, self._bound, self._slides)
        if not hopes.all():
            self._counted = self._counted.take(hopes)


class RunOperator:
    """A+ EVERY d: maximal runs."""

    def __init__(self, node: Node) -> None:
        self._gap = -1 if node.operator.gap is None else node.operator.gap
        self._bound = -1 if node.bound is None else node.bound
        self._members = _Members(node)
        self._open = self._members.waiting  # one for each key
        self._closed = self._members.waiting  # another member came, but might have belonged to it

    def advance(self, inputs: Sequence[Occurrences], now: OperatorEnv) -> Occurrences:
        table, keys, _ = self._members.by_key(self._open, self._members.advance(inputs[0], now))
        begins, is_open = runs(table.columns, keys, self._gap, self._bound)
        found = whole(table, np.append(begins, len(table)), np.arange(len(table)))
        found = concatenate([self._closed, found])
        goes_on = np.append(np.zeros(len(self._closed), np.bool_), is_open.astype(np.bool_))
        last_chance = self._last_chance(found) + now.lags[0]
        final = now.frontier.has_passed(last_chance)
        self._open, self._closed = found.take(goes_on & ~final), found.take(~goes_on & ~final)
        known = now.frontier.passing_offsets(last_chance[final])
        ready = found.take(final)
        return ready.with_column(EMISSION_OFFSET, np.maximum(ready.columns[EMISSION_OFFSET], known))

    def due(self, now: OperatorEnv) -> int:
        ends = [self._last_chance(table) for table in (self._open, self._closed) if len(table)]
        first = min((int(end.min()) + now.lags[0] for end in ends), default=NO_TIMER)
        return min(first, self._members.due(now))

    def tables(self) -> StateTables:
        members = self._members
        return {
            "waiting": members.waiting,
            "open": self._open,
            "closed": self._closed,
            "seen": members.distinct.emitted_before,
        }

    def load(self, tables: StateTables) -> None:
        self._members.waiting, self._members.distinct.emitted_before = tables["waiting"], tables["seen"]
        self._open, self._closed = tables["open"], tables["closed"]

    def _last_chance(self, table: Occurrences) -> Ints:
        """The last instant at which a member that prolongs the run can end."""
        by_bound = table.columns[START] + self._bound if self._bound >= 0 else np.full(len(table), NO_TIMER)
        by_gap = table.columns[END] + self._gap if self._gap >= 0 else np.full(len(table), NO_TIMER)
        return np.minimum(by_bound, by_gap)


def whole(table: Occurrences, groups: Ints, places: Ints) -> Occurrences:
    """One occurrence of each group of members: all events, the hull, the key's bindings."""
    found = Occurrences(*merge_groups(table.columns, table.starts, table.events, groups, places))
    if table.members is None:
        return found
    sets = [
        frozenset[tuple[tuple[str, int], ...]]().union(*table.members[places[begin:end]])
        for begin, end in zip(groups[:-1].tolist(), groups[1:].tolist(), strict=True)
    ]
    return replace(found, members=member_array(sets))
