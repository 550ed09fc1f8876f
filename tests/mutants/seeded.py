"""Seeded mutants of the kernel: small mistakes of the kind one makes, each of which the exam must catch.

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
_FRONTIER = "engine/detect/frontier.py"
_DISTINCT = "engine/detect/distinct.py"
_DETECTOR = "engine/detect/detector.py"
_KERNEL = "engine/kernel.py"
_SEARCH_KERNELS = "engine/match/search_kernels.py"
_DAG = "plan/dag.py"
_LAGS = "plan/lags.py"

MUTANTS = (
    # Which intervals are related
    Mutant(_PAIRING_KERNELS, "        return z < b\n", "        return z <= b\n", "BEFORE when they touch"),
    Mutant(_PAIRING_KERNELS, "max(a, b) <= min(z, y)", "max(a, b) < min(z, y)", "ALONGSIDE needs more than an instant"),
    Mutant(
        _PAIRING_KERNELS, "return z == b and a < b and z < y", "return z == b and z < y", "a point MEETS what it starts"
    ),
    Mutant(_PAIRING_KERNELS, "return a < b < z < y", "return a < b <= z < y", "OVERLAPS when they meet"),
    Mutant(_PAIRING_KERNELS, "return a > b and z < y", "return a >= b and z < y", "DURING when they start together"),
    # Which partners a context takes
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
        "y = before[other] if context == RECENT else after[other]",
        "y = after[other]",
        "recent takes the oldest candidate, or none",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if context != RECENT and found == had and opens[_side(rows, x)]:",
        "if context != RECENT and opens[_side(rows, x)]:",
        "who has found a partner opens too",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if _same_slot(loose, x, y):",
        "if _agree(loose, x, y):",
        "in recent, an unbound value replaces every other",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "while stop < len(order) and together[stop]:",
        "while stop < 0 and together[stop]:",
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
        "return _agree(rows.loose, x, y) and _disjoint(rows, x, y)",
        "return _agree(rows.loose, x, y)",
        "pairs share events",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if (0 <= asked.bound < span) or not",
        "if (0 <= asked.bound <= span) or not",
        "the hull of a pair must be less than the bound",
    ),
    Mutant(
        _PAIRING,
        "found[LEFT_END], found[RIGHT_START] = found[END], other[START]",
        "found[LEFT_END], found[RIGHT_START] = found[END], other[END]",
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
        "batch.completing(frontier - max(now.lags) if frontier < END_FRONTIER else END_FRONTIER)",
        "batch.completing(frontier)",
        "pairs do not wait for sides that lag behind",
    ),
    Mutant(
        _PAIRING,
        "return (start >= first_start) & (end >= first_end)",
        "return (start > first_start) & (end >= first_end)",
        "forgets an open occurrence an instant too early",
    ),
    Mutant(
        _PAIRING,
        "now.frontier.passing_offsets(found.columns[END] + max(now.lags))",
        "now.frontier.passing_offsets(found.columns[END])",
        "says a pair was final before its sides were known",
    ),
    # Who is taken by the next one
    Mutant(
        _PAIRING_KERNELS,
        "in_reach = (found < nobody) & (ends[near] - start[y] <= reach)",
        "in_reach = (found < nobody) & (ends[near] - start[y] < reach)",
        "who is taken by the next one must be less than the bound away",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "is_short = other_end - other_start <= reach",
        "is_short = True",
        "who takes the one before may itself exceed the bound",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "if in_reach & (not (fits & is_plain)):",
        "if in_reach & (not (fits | is_plain)):",
        "only the very next one is asked",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "ends[np.uint32(x - 1)] >= end[y]:",
        "ends[np.uint32(x - 1)] > end[y]:",
        "who ends at the same instant takes nothing",
    ),
    Mutant(
        _PAIRING_KERNELS,
        "    return are_tied\n",
        "    return False\n",
        "the first in the log takes, not the first by id",
    ),
    # Absence
    Mutant(
        _ABSENCE,
        "return Window(end, end + self._span, everyone)",
        "return Window(end - 1, end + self._span, everyone)",
        "UNLESS is contradicted by what starts at its end",
    ),
    Mutant(
        _ABSENCE,
        "return Window(end - self._span - 1, start",
        "return Window(end - self._span, start",
        "XOR overlooks a hull of exactly the window",
    ),
    Mutant(
        _ABSENCE,
        "return Window(left, right - 1, left < right)",
        "return Window(left, right, left < right)",
        "WITHOUT is contradicted by what ends where the right side starts",
    ),
    Mutant(
        _ABSENCE,
        "return frontier - lag - self._span - 1",
        "return frontier - lag",
        "XOR forgets what may still contradict",
    ),
    Mutant(
        _ABSENCE,
        "if node.start is not None and node.start.since is not None:",
        "if node.start is None and node.start.since is not None:",
        "NO forgets that SINCE is a start point",
    ),
    Mutant(
        _ABSENCE_KERNELS,
        "others[START, middle] <= instant",
        "others[START, middle] < instant",
        "contradicted by what starts at the first instant",
    ),
    Mutant(
        _ABSENCE_KERNELS,
        "if others[END, at] <= high[row] and",
        "if others[END, at] < high[row] and",
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
        "        if longer:\n            start = min(start, table[START, row])\n",
        "        if longer:\n            start = min(start, start)\n",
        "a run forgets that its latest member may start first",
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
    Mutant(_DISTINCT, "        fresh[: len(self.emitted_before)] = False\n", "", "finds again what it has seen"),
    Mutant(
        _DISTINCT,
        "~now.frontier.has_passed(table.columns[END] + now.lag)",
        "~now.frontier.has_passed(table.columns[END])",
        "forgets although it may come again",
    ),
    Mutant(
        _DETECTOR,
        "seen = table if start is None else table.take(table.columns[FIRST_OFFSET] > start.offset)",
        "seen = table",
        "a subscription sees what began before it",
    ),
    Mutant(
        "engine/reading.py",
        "is_event & ~np.asarray(late) if late.true_count else is_event,",
        "is_event,",
        "late events are matched",
    ),
    Mutant(
        _KERNEL,
        "self._memory.lives.pop(str(name), None)",
        "self._memory.lives.get(str(name), None)",
        "an unsubscribe record changes nothing",
    ),
    Mutant(_KERNEL, "self._memory.retracted[str(name)] = offset", "pass", "a retraction changes nothing"),
    Mutant(_LAGS, "return max(below) + window", "return max(below)", "XOR has no lag of its own"),
    Mutant(_LAGS, "max(below[0], below[1] + window)", "max(below)", "UNLESS has no lag of its own"),
    Mutant(
        _DAG, "start=None if filterable else self.start", "start=None", "subscriptions share what began before them"
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
)
