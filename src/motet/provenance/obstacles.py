"""What can keep an event from contributing to a notification, as plain data; ``obstacle_text`` has the sentences.

Instants and durations are in microseconds, terms are N-Triples, patterns are text of the language.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from motet.model.times import END_OF_TIME, format_datetime
from motet.provenance.facts import Span, bindings_json
from motet.reference.occurrences import Bindings

INSTANTS = frozenset({"end", "start", "since", "frontier", "needed"})


@dataclass(frozen=True)
class Partner:
    """An occurrence of the other side."""

    events: tuple[str, ...]
    span: Span


# The event is not seen at all.


@dataclass(frozen=True)
class Late:
    end: int
    frontier: int


@dataclass(frozen=True)
class TooEarly:
    """It was published before the subscription began; ``since`` is the subscription's SINCE, if it has one."""

    start: int
    since: int | None


@dataclass(frozen=True)
class Retracted:
    """Before the subscription began."""


@dataclass(frozen=True)
class Unsubscribed:
    """The subscription had ended: before the event, or before what the event led to was final."""

    before_event: bool


@dataclass(frozen=True)
class NotFed:
    """A derived event that cannot match the leaf: its template lacks something the leaf needs."""


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
class NoMatch:
    """A part of the body, such as a path, a UNION or a MINUS."""

    pattern: str


@dataclass(frozen=True)
class OnlyBackground:
    """The solution arises from the background graph alone."""


@dataclass(frozen=True)
class TooMuch:
    """The event entails more than the limits allow."""


@dataclass(frozen=True)
class FilterFalse:
    """In a leaf or at an operator; then with the partner that came nearest."""

    condition: str
    values: Bindings
    partner: Partner | None = None


# An operator stops it.


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
    """``actual`` is the relation of the left side to the right one."""

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
    """The partner fits, but another was first: ``how`` is consumed, replaced or passed over, ``by`` its events."""

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
    """Members of an iteration with the event's key, in a row that could be counted together."""

    members: int
    wanted: int
    key: Bindings


@dataclass(frozen=True)
class GapTooLong:
    length: int
    allowed: int
    partner: Partner


@dataclass(frozen=True)
class Prevents:
    """The leaf stands on the absent side of ``pattern``: the event can only prevent; ``prevented`` is what it did."""

    pattern: str
    prevented: tuple[Partner, ...]


# It led to something.


@dataclass(frozen=True)
class Pending:
    frontier: int | None
    needed: int


@dataclass(frozen=True)
class Told:
    notifications: tuple[str, ...]


Hindrance = (
    Late | TooEarly | Retracted | Unsubscribed | NotFed | WrongClass | NoTriple | OtherValue | NoMatch | OnlyBackground
    | TooMuch | FilterFalse | NoPartner | SameEvent | Differs | Unrelated | TooFar | Taken | TooLong | Contradicted
    | TooFew | GapTooLong | Prevents | Pending | Told
)  # fmt: skip


def to_json(one: Hindrance | Partner | Span) -> dict[str, object]:
    """
    >>> to_json(TooFar(7, 5, Partner(("urn:e:1",), Span(0, 0))))["kind"]
    'too far'
    """
    shown: dict[str, object] = {} if isinstance(one, Partner | Span) else {"kind": kind(one)}
    for field in fields(one):
        shown[field.name] = _value(field.name, getattr(one, field.name))
    return shown


def kind(hindrance: Hindrance) -> str:
    """
    >>> kind(Retracted())
    'retracted'
    """
    name = type(hindrance).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _value(name: str, value: object) -> object:
    if isinstance(value, Partner | Span):
        return to_json(value)
    if name in INSTANTS and isinstance(value, int):
        return format_datetime(min(value, END_OF_TIME))
    if name in ("values", "key"):
        return bindings_json(value)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [to_json(item) if isinstance(item, Partner) else item for item in value]
    return value
