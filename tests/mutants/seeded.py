"""Seeded mutants of the engine and of the lake's writer: mistakes of the kind one makes, which the exam must catch.

To add one, name a file below ``src/motet``, a text that occurs in it exactly once, what to write instead, and what that
breaks. A mutant whose text is gone fails the tests: take the text it has become, or another mutant in its place.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    file: str
    old: str
    new: str
    breaks: str

    def __str__(self) -> str:
        return f"{self.file}: {self.breaks}"

    def applied(self, text: str) -> str:
        assert text.count(self.old) == 1, f"{self}: the text to change occurs {text.count(self.old)} times"
        return text.replace(self.old, self.new)


_PAIRING_KERNELS = "engine/detect/pairing_kernels.py"
_PAIRING = "engine/detect/pairing.py"
_ABSENCE_KERNELS = "engine/detect/absence_kernels.py"
_ABSENCE = "engine/detect/absence.py"
_ITERATION_KERNELS = "engine/detect/iteration_kernels.py"
_ITERATION = "engine/detect/iteration.py"
_TABLE_KERNELS = "engine/detect/table_kernels.py"
_FRONTIER = "engine/detect/operator.py"
_DISTINCT = "engine/detect/operator.py"
_DETECTOR = "engine/detect/detector.py"
_SEARCH_KERNELS = "engine/match/search_kernels.py"
_DAG = "plan/builder.py"
_LAGS = "plan/finality.py"
_STARTS = "plan/graph.py"
_ACCEPT = "lake/accept.py"
_TIMELINE = "model/timeline.py"
_SNAPSHOT = "lake/snapshot.py"

MUTANTS = (
    # Relations between intervals
    Mutant(_PAIRING_KERNELS, "        return z < b\n", "        return z <= b\n", "BEFORE when they touch"),
    Mutant(_PAIRING_KERNELS, "max(a, b) <= min(z, y)", "max(a, b) < min(z, y)", "ALONGSIDE needs more than an instant"),
    Mutant(
        _PAIRING_KERNELS, "return z == b and a < b and z < y", "return z == b and z < y", "a point MEETS what it starts"
    ),
    Mutant(_PAIRING_KERNELS, "return a < b < z < y", "return a < b <= z < y", "OVERLAPS when they meet"),
    Mutant(_PAIRING_KERNELS, "return a > b and z < y", "return a >= b and z < y", "DURING when they start together"),
    # Partners by context
    Mutant(
        _PAIRING_KERNELS,
        "            if context != RECENT:\n",
        "            if context not in (RECENT, CHRONICLE):\n",
        "chronicle consumes nothing",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "            if context in (CHRONICLE, RECENT):\n",
        "            if context == RECENT:\n",
        "chronicle takes every candidate",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "y = before[list_] if context == RECENT else after[list_]",
        "y = after[list_]",
        "recent takes the oldest candidate, or none",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if context != RECENT and pairs == previous and opens[_side(rows, x)]:",
        "if context != RECENT and opens[_side(rows, x)]:",
        "a row with a partner opens, too",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if _are_equal(nullable, x, y):",
        "if _agree(nullable, x, y):",
        "in recent, an unbound value replaces every other",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "while stop < len(order) and same_events[stop]:",
        "while stop < 0 and same_events[stop]:",
        "recent pairs the solutions of one event one after the other",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if first != second and UNBOUND not in (first, second):",
        "if first != second:",
        "unbound agrees with nothing",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "return _agree(rows.nullable, x, y) and _disjoint(rows, x, y)",
        "return _agree(rows.nullable, x, y)",
        "pairs share events",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if (0 <= pair_test.bound < hull) or not",
        "if (0 <= pair_test.bound <= hull) or not",
        "the hull of a pair must be less than the bound",
    ),
    Mutant(
        _PAIRING,
        "columns[LEFT_END], columns[RIGHT_START] = columns[END], of_right[START]",
        "columns[LEFT_END], columns[RIGHT_START] = columns[END], of_right[END]",
        "WITHOUT looks into the right side",
    ),
    Mutant(
        _TABLE_KERNELS,
        "merged[column, group] = value if merged[column, group] == UNBOUND else _CONFLICT",
        "merged[column, group] = value",
        "cumulative takes the last of several values",
    ),
    Mutant(
        _PAIRING,
        "batch.completing(frontier - max(env.lags) if frontier < END_FRONTIER else END_FRONTIER)",
        "batch.completing(frontier)",
        "pairs ignore the lag of their sides",
    ),
    Mutant(
        _PAIRING,
        "return (start >= first_start) & (end >= first_end)",
        "return (start > first_start) & (end >= first_end)",
        "prunes an open occurrence an instant too early",
    ),
    Mutant(
        _PAIRING,
        "env.frontier.offsets_past(pairs.columns[END] + max(env.lags))",
        "env.frontier.offsets_past(pairs.columns[END])",
        "emits a pair at an offset where its sides are not final",
    ),
    # Pairing where one side opens
    Mutant(
        _PAIRING_KERNELS,
        "in_bound = (candidate < none) & (ends[index] - start[y] <= bound)",
        "in_bound = (candidate < none) & (ends[index] - start[y] < bound)",
        "a consumed row must be less than the bound away",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "is_short = other_end - other_start <= bound",
        "is_short = True",
        "a consuming row may itself exceed the bound",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if in_bound & (not (fits & relation_suffices)):",
        "if in_bound & (not (fits | relation_suffices)):",
        "only the next row of the key is tested",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "ends[np.uint32(x - 1)] >= end[y]:",
        "ends[np.uint32(x - 1)] > end[y]:",
        "a row that ends at the same instant consumes nothing",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "    return has_ties\n",
        "    return False\n",
        "the first row in the log consumes, not the first by IRI",
    ),
    # Absence
    Mutant(
        _ABSENCE,
        "return _Windows(end, end + self._window, all_rows)",
        "return _Windows(end - 1, end + self._window, all_rows)",
        "UNLESS is contradicted by what starts at its end",
    ),
    Mutant(
        _ABSENCE,
        "return _Windows(end - self._window - 1, start",
        "return _Windows(end - self._window, start",
        "XOR overlooks a hull of exactly the window",
    ),
    Mutant(
        _ABSENCE,
        "return _Windows(left, right - 1, left < right)",
        "return _Windows(left, right, left < right)",
        "WITHOUT is contradicted by what ends where the right side starts",
    ),
    Mutant(
        _ABSENCE,
        "return frontier - lag - self._window - 1",
        "return frontier - lag",
        "XOR prunes what may still contradict",
    ),
    Mutant(
        _ABSENCE,
        "if node.start is not None and node.start.beginning is not None:",
        "if node.start is None and node.start.beginning is not None:",
        "NO has no start point at SINCE or the frontier of its subscribe record",
    ),
    Mutant(
        _ABSENCE,
        "if not len(self._least_end) or end < self._least_end.columns[END][0]:",
        "if not len(self._least_end):",
        "NO begins at the end of the first event, not at the least end",
    ),
    Mutant(
        _ABSENCE_KERNELS,
        "negated[START, middle] <= instant",
        "negated[START, middle] < instant",
        "contradicted by what starts at the first instant",
    ),
    Mutant(
        _ABSENCE_KERNELS,
        "if negated[END, at] <= high[row] and",
        "if negated[END, at] < high[row] and",
        "not contradicted by what ends at the last instant",
    ),
    # Iterations
    Mutant(
        _ITERATION_KERNELS,
        "table[END, following] - table[END, previous] > gap",
        "table[END, following] - table[END, previous] >= gap",
        "EVERY is broken by a gap of exactly its length",
    ),
    Mutant(
        _ITERATION_KERNELS, "            first = row + 1\n", "            first = row\n", "a member is counted twice"
    ),
    Mutant(
        _ITERATION_KERNELS,
        "return table[END, last] - start <= bound",
        "return table[END, last] - start < bound",
        "a window must be less than the bound",
    ),
    Mutant(
        _ITERATION_KERNELS,
        "        if continues:\n            start = min(start, table[START, row])\n",
        "        if continues:\n            start = min(start, start)\n",
        "a run ignores that its latest member may start first",
    ),
    Mutant(
        _ITERATION,
        "_SLIDING = (Context.UNRESTRICTED, Context.RECENT)",
        "_SLIDING = (Context.UNRESTRICTED,)",
        "iterations tumble in recent",
    ),
    Mutant(
        _ITERATION,
        "return np.minimum(by_bound, by_gap)",
        "return by_gap",
        "a run waits for its gap although its bound is over",
    ),
    # Time, the log, the plan
    Mutant(
        _FRONTIER,
        "self.previous, self.first_offset, instants)",
        "self.previous, self.first_offset, instants - 1)",
        "an instant counts as passed when it is reached: the offset",
    ),
    Mutant(
        _FRONTIER,
        "np.bool_] = instants < self.current",
        "np.bool_] = instants <= self.current",
        "an instant counts as passed when it is reached",
    ),
    Mutant(_DISTINCT, "        is_new[: len(self.emitted_before)] = False\n", "", "emits repeated occurrences again"),
    Mutant(
        _DISTINCT,
        "~env.frontier.has_passed(table.columns[END] + env.lag)",
        "~env.frontier.has_passed(table.columns[END])",
        "prunes rows that may be repeated",
    ),
    Mutant(
        _DETECTOR,
        "visible = table if start is None else table.take(table.columns[FIRST_OFFSET] > start.offset)",
        "visible = table",
        "a subscription sees what began before it",
    ),
    Mutant(
        "model/timeline.py",
        "is_event & ~np.asarray(late) if late.true_count else is_event,",
        "is_event,",
        "late events are matched",
    ),
    Mutant(
        "engine/runtime/processor_state.py",
        "self.active.pop(name, None)\n        self.backfilled_upstreams",
        "self.active.get(name, None)\n        self.backfilled_upstreams",
        "an unsubscribe record changes nothing",
    ),
    Mutant(
        "model/control.py", "self.retractions[record.event_id] = record.offset", "pass", "a retraction changes nothing"
    ),
    Mutant(_LAGS, "return max(below) + window", "return max(below)", "XOR has no lag of its own"),
    Mutant(_LAGS, "max(below[0], below[1] + window)", "max(below)", "UNLESS has no lag of its own"),
    Mutant(
        _DAG,
        "start=None if filterable else self._node_start(operator.kind)",
        "start=None",
        "subscriptions share what began before them",
    ),
    Mutant(
        _SEARCH_KERNELS,
        "answer = _OPEN if kind & _INEXACT or flags & _INEXACT_LOW else _NO",
        "answer = _OPEN if kind & _INEXACT or flags & _INEXACT_LOW else _YES",
        "a value at a strict lower end matches",
    ),
    Mutant(
        _SEARCH_KERNELS,
        "or value - slack > high:",
        "or value - slack >= high:",
        "a value at an upper end never matches",
    ),
    # The writer of a lake: frontier, lateness, identity
    Mutant(
        _ACCEPT,
        "RecordRow(offset, EVENT, id_, start, end, before, is_late,",
        "RecordRow(offset, EVENT, id_, start, end, max(moving, default=before), is_late,",
        "the frontier moves inside a commit",
    ),
    Mutant(
        _ACCEPT,
        "        is_late = end < limit\n",
        "        is_late = end < max([limit, *moving])\n",
        "events of one commit make each other late",
    ),
    Mutant(_ACCEPT, "            if not is_stamped:\n", "            if True:\n", "stamped events move the frontier"),
    Mutant(
        _ACCEPT,
        "        elif known is not None:\n            rejected.append(_conflict(index, ids[index]))\n",
        "        elif known is not None and existing.get(index) is None:\n"
        "            rejected.append(_conflict(index, ids[index]))\n",
        "an event in conflict with the log is accepted",
    ),
    Mutant(
        _ACCEPT,
        "        if row.end is not None and row.end > latest:\n            return None\n",
        "        if row.end is not None and row.end > END_OF_TIME:\n            return None\n",
        "events too far ahead are accepted",
    ),
    Mutant(
        _TIMELINE,
        "capped = clock if newest_end > clock and settings.ahead is not None else newest_end",
        "capped = newest_end",
        "the clock does not cap the frontier",
    ),
    Mutant(
        _TIMELINE,
        "return clock if frontier is None else max(clock, frontier)",
        "return clock",
        "an event is stamped before the frontier",
    ),
    Mutant(
        _SNAPSHOT,
        "return self.delay is not None and lateness is not None and self.delay <= lateness",
        "return self.delay is not None and lateness is not None",
        "a heartbeat moves the frontier of a log that is not live",
    ),
    # The beginning of a subscription
    Mutant(
        _STARTS,
        "return self.frontier if self.since is None and not self.is_old else self.since",
        "return self.since",
        "NO does not begin at the frontier of the subscribe record",
    ),
    Mutant(
        _STARTS,
        "return self.since is None and self.frontier is None and not self.is_old",
        "return False",
        "NO does not begin at the first event",
    ),
    Mutant(
        _STARTS,
        "return self.since is None and self.frontier is None and not self.is_old",
        "return self.since is None and self.frontier is None",
        "NO of an upgraded lake begins at the first event",
    ),
)
