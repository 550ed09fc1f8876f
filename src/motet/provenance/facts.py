"""The facts that hold at the nodes of a derivation tree, as plain data that can be checked independently.

Instants and durations are in microseconds, terms are N-Triples, patterns are text of the language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from motet.model.intervals import Interval
from motet.model.times import END_OF_TIME, format_datetime
from motet.reference.occurrences import SortedBindings
from motet.reference.sparql import Triple

INSTANTS = frozenset({"start", "end", "after", "until", "point", "previous", "following"})


@dataclass(frozen=True)
class Relates:
    """The relation of the left side to the right side; ALONGSIDE when they share an instant."""

    relation: str
    left: Interval
    right: Interval


@dataclass(frozen=True)
class Agrees:
    """Both sides bind a variable to the same term."""

    variable: str
    term: str


@dataclass(frozen=True)
class Fits:
    """The hull is within the bound."""

    start: int
    end: int
    bound: int


@dataclass(frozen=True)
class Satisfies:
    """A FILTER is true of these values."""

    condition: str
    values: SortedBindings


@dataclass(frozen=True)
class Absent:
    """No occurrence of ``pattern`` whose bindings agree with ``bindings`` lies in the window.

    ``window`` is ``after``: it starts after ``after`` and ends at or before ``until``; ``between``: it starts after
    ``after`` and ends before ``until``; ``hull``: together with [after, until] it spans at most ``length``.
    ``checked``: the log had all events that can matter.
    """

    pattern: str
    window: str
    after: int
    until: int
    bindings: SortedBindings
    checked: bool
    length: int | None = None


@dataclass(frozen=True)
class Passes:
    """WITHOUT has no effect: the left side does not end before the right side starts."""

    left: Interval
    right: Interval


@dataclass(frozen=True)
class Picked:
    """The context's choice: when the ``completed`` side completed, it paired with ``taken`` of ``candidates``."""

    context: str
    completed: str
    candidates: int
    taken: int


@dataclass(frozen=True)
class Counted:
    """The number of members of an iteration, all of one key."""

    members: int
    key: SortedBindings


@dataclass(frozen=True)
class Gap:
    """The gap from the end of one member to the end of the next."""

    previous: int
    following: int
    allowed: int


@dataclass(frozen=True)
class Begins:
    """The start point of a NO. ``origin`` is since; occurrence, if one of its operand ends there; frontier, if it is
    that of the subscribe record; first end, if it is the least end of the events the subscription sees.
    """

    point: int
    origin: str


@dataclass(frozen=True)
class Stated:
    """A triple the leaf requires. ``source`` is event, background, reasoning, or path for the ends of a property path.

    For reasoning, ``axioms`` are the axioms it follows from, and ``stated`` the classes of the subject in the event.
    """

    triple: Triple
    source: str
    axioms: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lacks:
    """MINUS or NOT EXISTS: the event has no match of this pattern."""

    pattern: str


@dataclass(frozen=True)
class Anything:
    """An EVENT without class and body matches every event."""


@dataclass(frozen=True)
class InDocument:
    """The block of an EVENT matches the event's document."""

    block: str


Fact = (
    Relates
    | Agrees
    | Fits
    | Satisfies
    | Absent
    | Passes
    | Picked
    | Counted
    | Gap
    | Begins
    | Stated
    | Lacks
    | Anything
    | InDocument
)


def to_json(fact: Fact) -> dict[str, object]:
    """The kind of a fact and its fields; the kind is the name of its class.

    >>> to_json(Begins(0, "since"))
    {'kind': 'begins', 'point': '1970-01-01T00:00:00.000000Z', 'origin': 'since'}
    """
    members: dict[str, object] = {"kind": type(fact).__name__.lower()}
    for field in fields(fact):
        members[field.name] = _value(field.name, getattr(fact, field.name))
    return members


def _value(name: str, value: object) -> object:
    if isinstance(value, Interval):
        return interval_json(value)
    if name in INSTANTS and isinstance(value, int):
        return format_datetime(min(value, END_OF_TIME))
    if name in ("values", "bindings", "key"):
        return bindings_json(value)  # type: ignore[arg-type]
    return list(value) if isinstance(value, tuple) else value


def interval_json(interval: Interval) -> dict[str, object]:
    return {name: format_datetime(min(instant, END_OF_TIME)) for name, instant in interval._asdict().items()}


def bindings_json(bindings: SortedBindings | Mapping[str, str]) -> dict[str, str]:
    return dict(bindings)
