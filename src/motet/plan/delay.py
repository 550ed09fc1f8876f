"""How long after its last event a notification comes: the delay of its pattern and the lateness of the lake."""

from __future__ import annotations

from motet.language import syntax
from motet.language.syntax import Context, Pattern, Subscription
from motet.model.times import format_duration


def notified_after(subscription: Subscription, lateness: int | None) -> int | None:
    """The longest time, in microseconds, from the last event until the frontier makes an occurrence final.

    It is that of a log whose events come one after another and move the frontier. None: only a tick makes it final.

    >>> from motet.language.parse import parse
    >>> [s] = parse("SUBSCRIPTION s EVENT a : <urn:C> EVENT b : <urn:D> WHEN a UNLESS b WITHIN 5 s")
    >>> notified_after(s, 2_000_000)
    7000000
    """
    if is_immediate(subscription.pattern, subscription.context):
        return 0
    return None if lateness is None else delay(subscription.pattern) + lateness


def notified_text(subscription: Subscription, lateness: int | None) -> str:
    """The same as a sentence."""
    after = notified_after(subscription, lateness)
    if after == 0:
        return "notified at once, with its last event"
    own = delay(subscription.pattern)
    if after is None:
        return f"notified when a tick has passed its last event{f' by {format_duration(own)}' if own else ''}"
    parts = [f"{format_duration(own)} of the pattern"] if own else []
    parts += [f"{format_duration(lateness)} lateness"] if lateness else []
    return f"notified {format_duration(after)} after its last event: {' and '.join(parts)}"


def is_immediate(pattern: Pattern, context: Context) -> bool:
    """Whether occurrences are final at once (language page, section 11)."""
    match pattern:
        case syntax.Leaf():
            return True
        case syntax.Within(operand) | syntax.Filter(operand):
            return is_immediate(operand, context)
        case syntax.Or(left, right):
            return is_immediate(left, context) and is_immediate(right, context)
        case syntax.And(left, right) | syntax.Timed(left=left, right=right) | syntax.Alongside(left, right):
            is_free = context is Context.UNRESTRICTED
            return is_free and is_immediate(left, context) and is_immediate(right, context)
    return False


def delay(pattern: Pattern) -> int:  # noqa: PLR0911  (a table)
    """How far after its last event the frontier must have passed before an occurrence is final.

    It is the lag of the pattern, and for NO the time it takes as well: its last event is its start point.
    """
    match pattern:
        case syntax.Xor(left, right, window):
            return max(delay(left), delay(right)) + window
        case syntax.Unless(operand, absent, window):
            return max(delay(operand), delay(absent) + window)
        case syntax.No(operand, window):
            return delay(operand) + window
        case syntax.Run(operand, gap):
            return delay(operand) + gap
        case syntax.Without(operand, absent):
            return max(delay(operand), delay(absent))
        case syntax.Within(operand) | syntax.Filter(operand) | syntax.Times(operand):
            return delay(operand)
        case (
            syntax.And(left, right) | syntax.Or(left, right) | syntax.Alongside(left, right)
            | syntax.Timed(left=left, right=right)
        ):  # fmt: skip
            return max(delay(left), delay(right))
    return 0
