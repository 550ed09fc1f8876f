"""The lag of a pattern: how far behind the frontier its occurrences are final (language page, section 11).

> An occurrence is final when the frontier has passed everything its definition looks at.

An event is late when its end is below the frontier, so an event that ends *at* the frontier may still be appended: the
frontier has passed an instant when it is greater than it. After a tick at the end of time every event is late, so that
frontier has passed everything, windows that reach beyond the end of time included.

The **lag** of a pattern is the least L such that all its occurrences that end at or before t are decided once the
frontier has passed t + L. Operators whose definition depends on what follows an occurrence add to it:

| pattern | lag |
|---|---|
| leaf | 0, or the greatest lag of a subscription whose CONSTRUCT feeds it |
| AND, ALONGSIDE, Allen, OR, WITHOUT | the greater of both sides |
| XOR | the greater of both sides, and the window |
| UNLESS | the greater of the left side, and the right side's plus the window |
| NO, `A{n}`, WITHIN, FILTER | the operand's |
| `A+` | the operand's plus the gap or the bound, whichever is less |
"""

from __future__ import annotations

from collections.abc import Callable

from motet.language import syntax
from motet.model.times import END_OF_TIME


def has_passed(frontier: int | None, instant: int) -> bool:
    """Whether the frontier has passed an instant.

    >>> has_passed(5, 5), has_passed(6, 5), has_passed(END_OF_TIME, END_OF_TIME + 1)
    (False, True, True)
    """
    return frontier is not None and (frontier > instant or frontier >= END_OF_TIME)


def lag(pattern: syntax.Pattern, bound: int | None, leaf_lag: Callable[[str], int]) -> int:  # noqa: PLR0911  (a table)
    """The lag of a pattern below the nearest enclosing WITHIN ``bound``."""
    match pattern:
        case syntax.Leaf(name):
            return leaf_lag(name)
        case (
            syntax.And(left, right)
            | syntax.Alongside(left, right)
            | syntax.Or(left, right)
            | syntax.Timed(_, left, right)
            | syntax.Without(left, right)
        ):
            return max(lag(left, bound, leaf_lag), lag(right, bound, leaf_lag))
        case syntax.Xor(left, right, window):
            return max(lag(left, bound, leaf_lag), lag(right, bound, leaf_lag)) + window
        case syntax.Unless(operand, absent, window):
            return max(lag(operand, bound, leaf_lag), lag(absent, bound, leaf_lag) + window)
        case syntax.Within(operand, nearest):
            return lag(operand, nearest, leaf_lag)
        case syntax.No(operand) | syntax.Times(operand) | syntax.Filter(operand):
            return lag(operand, bound, leaf_lag)
        case syntax.Run(operand, gap):
            return lag(operand, bound, leaf_lag) + (gap if bound is None else min(gap, bound))
