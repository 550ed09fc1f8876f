"""What can keep an event from contributing to a notification, as plain data; ``obstacle_text`` has the sentences.

Instants and durations are in microseconds, terms are N-Triples, patterns are text of the language.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from motet.model.intervals import Interval
from motet.model.times import END_OF_TIME, format_datetime
from motet.provenance.facts import bindings_json, interval_json
from motet.reference.occurrences import SortedBindings

INSTANTS = frozenset({"end", "start", "since", "frontier", "needed"})


@dataclass(frozen=True)
class Partner:
    """An occurrence of the other side."""

    events: tuple[str, ...]
    span: Interval


# The event is not visible to the subscription.


@dataclass(frozen=True)
class Late:
    end: int
    frontier: int


@dataclass(frozen=True)
class TooEarly:
    """Published before the subscription began; ``since`` is the subscription's SINCE, if it has one."""

    start: int
    since: int | None


@dataclass(frozen=True)
class Retracted:
    """Retracted before the subscription began."""


@dataclass(frozen=True)
class Unsubscribed:
    """The subscription had ended: before the event, or before an occurrence with the event was final."""

    before_event: bool


@dataclass(frozen=True)
class NotFed:
    """A derived event that cannot match the leaf: its template lacks a triple the leaf requires."""


# The event does not match a leaf.


@dataclass(frozen=True)
class WrongClass:
    subject: str
    wanted: str
    stated: tuple[str, ...]


@dataclass(frozen=True)
class NoTriple:
    subject: str
    predicate: str


@dataclass(frozen=True)
class OtherValue:
    predicate: str
    wanted: str
    found: tuple[str, ...]


@dataclass(frozen=True)
class NoDocument:
    """The event is no XML document."""


@dataclass(frozen=True)
class NoElement:
    """The event's document has no element that a part of the block requires."""

    pattern: str  # the first part of the block that nothing in the document has
    inside: str  # the pattern around it that some element would have without it; empty for the outermost


@dataclass(frozen=True)
class NoMatch:
    """No match of a part of the body, such as a path, a UNION or a MINUS."""

    pattern: str


@dataclass(frozen=True)
class OnlyBackground:
    """The solution arises from the background graph alone."""


@dataclass(frozen=True)
class TooMuch:
    """The event entails more triples than the limits allow."""


@dataclass(frozen=True)
class FilterFalse:
    """A FILTER in a leaf or at an operator is not true; at an operator with the nearest partner."""

    condition: str
    values: SortedBindings
    partner: Partner | None = None


# An operator has no occurrence with the event.


@dataclass(frozen=True)
class NoPartner:
    pattern: str


@dataclass(frozen=True)
class SameEvent:
    partner: Partner


@dataclass(frozen=True)
class Differs:
    variable: str
    here: str
    there: str
    partner: Partner


@dataclass(frozen=True)
class Unrelated:
    """``actual`` is the relation of the left side to the right side."""

    wanted: str
    actual: str
    partner: Partner


@dataclass(frozen=True)
class TooFar:
    length: int
    bound: int
    partner: Partner


@dataclass(frozen=True)
class Taken:
    """The partner fits, but was consumed, replaced or passed over (``how``); ``by`` has the events of the cause."""

    partner: Partner
    how: str
    by: tuple[str, ...]


@dataclass(frozen=True)
class TooLong:
    length: int
    bound: int


@dataclass(frozen=True)
class Contradicted:
    pattern: str
    by: Partner


@dataclass(frozen=True)
class TooFew:
    """The number of successive members with the event's key is below the count."""

    members: int
    wanted: int
    key: SortedBindings


@dataclass(frozen=True)
class GapTooLong:
    length: int
    allowed: int
    partner: Partner


@dataclass(frozen=True)
class Prevents:
    """The leaf is on the absent side of ``pattern``: the event can only prevent occurrences, and prevented these."""

    pattern: str
    prevented: tuple[Partner, ...]


# The event is part of a whole occurrence.


@dataclass(frozen=True)
class Pending:
    frontier: int | None
    needed: int


@dataclass(frozen=True)
class Notified:
    notifications: tuple[str, ...]


Obstacle = (
    NoDocument | NoElement | Late | TooEarly | Retracted | Unsubscribed | NotFed | WrongClass | NoTriple
    | OtherValue | NoMatch | OnlyBackground | TooMuch | FilterFalse | NoPartner | SameEvent | Differs
    | Unrelated | TooFar | Taken | TooLong | Contradicted | TooFew | GapTooLong | Prevents | Pending | Notified
)  # fmt: skip


def to_json(part: Obstacle | Partner) -> dict[str, object]:
    """The kind of an obstacle, and the fields of an obstacle or partner.

    >>> to_json(TooFar(7, 5, Partner(("urn:e:1",), Interval(0, 0))))["kind"]
    'too far'
    """
    members: dict[str, object] = {} if isinstance(part, Partner) else {"kind": kind(part)}
    for field in fields(part):
        members[field.name] = _value(field.name, getattr(part, field.name))
    return members


def kind(obstacle: Obstacle) -> str:
    """The name of an obstacle in JSON, made from the name of its class.

    >>> kind(Retracted()), kind(Notified(()))
    ('retracted', 'notified')
    """
    name = type(obstacle).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _value(name: str, value: object) -> object:
    if isinstance(value, Interval):
        return interval_json(value)
    if isinstance(value, Partner):
        return to_json(value)
    if name in INSTANTS and isinstance(value, int):
        return format_datetime(min(value, END_OF_TIME))
    if name in ("values", "key"):
        return bindings_json(value)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [to_json(item) if isinstance(item, Partner) else item for item in value]
    return value
