"""What is asked of a DataFrame: patterns whose EVENTs are rows, and which columns they need.

It is written in one of two ways: as subscriptions whose EVENTs test columns, ``?e :room ?room``; or as a pattern alone,
over events that Spark picks by conditions. Both become subscriptions in which every EVENT asks for a class of its own,
its *role*: Spark decides which roles a row has, and where. Knows nothing of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from urllib.parse import quote, unquote

from motet.engine.runtime.routing import leaf_routes
from motet.language.parse import parse
from motet.language.syntax import Construct, Event, Events, Select, Subscription
from motet.language.visibility import visible_variables
from motet.model.errors import SubscriptionError, UsageError
from motet.plan.graph import RouteKind
from motet.plan.leaves import normalise
from motet.sparql.algebra import Extend, NegatedSet, Triple, Values, variable_name
from motet.sparql.prologue import read_prologue
from motet.sparql.tokens import Document

COLUMN, ROLE = "column:", "role:"  # what the IRIs of columns and roles begin with
ROW, TIME, OTHER = "row:", "time:", "other:"  # sources of variables that are no columns

_NAME = "matches"  # of a pattern that has none
_FIRST_EVENT = re.compile(r"(?:\s|#[^\n\r]*)*(?=EVENT\b)", re.IGNORECASE)
_VARIABLE = re.compile(r"[?$]([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Role:
    """What a row can be: an EVENT of a subscription.

    ``key`` are the columns whose values decide where such rows meet others. Without any, all meet in one place; None:
    they need not meet.
    """

    subscription: str
    event: str
    key: tuple[str, ...] | None

    @property
    def class_iri(self) -> str:
        return f"{ROLE}{self.subscription}/{self.event}"


@dataclass(frozen=True)
class OutputVariable:
    """A variable that matches show, and where its values come from: IRIs of columns, ROW, TIME or OTHER."""

    name: str
    sources: frozenset[str]


@dataclass(frozen=True)
class FrameQuery:
    """Subscriptions over rows. Picklable."""

    subscriptions: tuple[Subscription, ...]
    roles: tuple[Role, ...]
    columns: tuple[str, ...]  # that are properties of rows
    output: tuple[OutputVariable, ...]
    filled: frozenset[str] = frozenset()  # of the columns, those that every row has: null is a value of its own
    is_named: bool = False  # the subscriptions have names that the user gave them


def column_iri(name: str) -> str:
    """
    >>> column_iri("room"), column_iri("room no.")
    ('column:room', 'column:room%20no.')
    """
    return COLUMN + quote(name, safe="")


def column_name(iri: str) -> str:
    """The inverse of `column_iri`."""
    return unquote(iri.removeprefix(COLUMN))


def parse_subscriptions(text: str) -> FrameQuery:
    """The question of a text of subscriptions, or of what follows the name of one.

    >>> question = written("EVENT a { ?a :celsius ?c FILTER(?c > 30) } WHEN a SELECT ?c")
    >>> question.columns, question.shown
    (('celsius',), (Shown(name='c', sources=frozenset({'column:celsius'})),))
    """
    head, name = f"PREFIX : <{COLUMN}> ", f"SUBSCRIPTION {_NAME} "
    start = _FIRST_EVENT.match(read_prologue(Document(text))[1])
    place = start.end() if start else len(text)
    whole = f"{head}{text[:place]}{name}{text[place:]}" if start else head + text

    def position(found: int) -> int:
        return found - len(head) - (len(name) if found >= len(head) + place + len(name) else 0)

    return _question(_parsed(whole, text, position), is_named=start is None)


def parse_pattern(pattern: str, events: Collection[str], by: Sequence[str], columns: Collection[str]) -> FrameQuery:
    """The question of a pattern over named events that agree in the columns ``by``.

    Variables are those columns, the events, and the columns of each event: ``?a_celsius``.

    >>> question = combined("(a BEFORE b) FILTER(?a_n < ?b_n)", ["a", "b"], ["room"], ["room", "n"])
    >>> [one.name for one in question.shown], [role.key for role in question.roles]
    (['room', 'a', 'b'], [('room',), ('room',)])
    """
    _check_names(events, by)
    asked = set(_VARIABLE.findall(pattern)) - {*by, *events}
    own = {event: [name for name in columns if f"{event}_{name}" in asked] for event in events}
    leaves = [_leaf(event, by, own[event]) for event in events]
    head = "\n".join([f"SUBSCRIPTION {_NAME}", *leaves, "WHEN\n"])
    (subscription,) = _parsed(head + pattern, pattern, lambda found: found - len(head))
    filled = frozenset(name for names in own.values() for name in names)
    shown = _shown_by(subscription, by, events)
    return _question((replace(subscription, delivery=Select(shown)),), filled=filled - set(by))


def _leaf(event: str, by: Sequence[str], own: Sequence[str]) -> str:
    names = [*((name, name) for name in by), *((name, f"{event}_{name}") for name in own)]
    body = " ; ".join(f"<{column_iri(name)}> ?{variable}" for name, variable in names)
    return f"EVENT {event} {{ ?{event} {body} }}" if body else f"EVENT {event}"


def _check_names(events: Collection[str], by: Sequence[str]) -> None:
    if not events:
        raise UsageError("there are no events to combine", advice="give events={name: condition}")
    for name in by:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in events:
            advice = "rename the column: letters, digits and '_', and not the name of an event"
            raise UsageError(f"the column {name!r} cannot be a variable", advice=advice)


def _shown_by(subscription: Subscription, by: Sequence[str], events: Collection[str]) -> tuple[str, ...]:
    """The columns ``by`` in any case: they are what keeps the matches of one value from those of another."""
    match subscription.delivery:
        case Select(tuple(names)):
            return tuple(dict.fromkeys([*by, *names]))
        case Select(None):
            visible = visible_variables(subscription).variables
            return (*by, *(name for name in events if name in visible))
    return tuple(by)


def _parsed(whole: str, text: str, position: Callable[[int], int]) -> tuple[Subscription, ...]:
    """Errors show the text as the user wrote it."""
    try:
        return parse(whole)
    except SubscriptionError as error:
        place = position(error.position)
        if place < 0:
            raise UsageError(error.message, advice=error.advice) from None
        raise SubscriptionError(error.message, text=text, position=place, advice=error.advice) from None


def _question(
    subscriptions: Sequence[Subscription], *, filled: frozenset[str] = frozenset(), is_named: bool = False
) -> FrameQuery:
    sources: dict[str, set[str]] = {}
    for subscription in map(_checked, subscriptions):
        found = _sources(subscription)
        for name in _delivered(subscription):
            sources.setdefault(name, set()).update(found.get(name, {OTHER}))
    return FrameQuery(
        tuple(map(_with_roles, subscriptions)),
        tuple(role for subscription in subscriptions for role in _roles(subscription)),
        tuple(dict.fromkeys(name for one in subscriptions for event in one.events for name in _columns(event))),
        tuple(OutputVariable(name, frozenset(found)) for name, found in sources.items()),
        filled,
        is_named,
    )


def _checked(subscription: Subscription) -> Subscription:
    """What makes no sense without a log is refused."""
    if isinstance(subscription.delivery, Construct | Events):
        advice = "use SELECT; derived events and whole events need a lake (motet.open)"
        raise UsageError(f"the pattern {subscription.name!r} delivers something else than variables", advice=advice)
    if subscription.since is not None:
        advice = "leave it out and filter the DataFrame by its time"
        raise UsageError(f"the pattern {subscription.name!r} has SINCE, which a DataFrame does not know", advice=advice)
    for event in subscription.events:
        if event.class_iri is not None:
            advice = f"test a column instead: EVENT {event.name} {{ ?{event.name} :kind 'smoke' }}"
            raise UsageError(f"EVENT {event.name} asks for a class, and rows have none", advice=advice)
    return subscription


def _with_roles(subscription: Subscription) -> Subscription:
    events = [replace(one, class_iri=Role(subscription.name, one.name, ()).class_iri) for one in subscription.events]
    return replace(subscription, events=tuple(events))


def _roles(subscription: Subscription) -> Iterator[Role]:
    """Rows are spread by columns if every EVENT reads the whole key from columns; else all meet in one place."""
    found = leaf_routes(subscription)
    if all(route.kind is RouteKind.EVENT for route in found.values()):
        yield from (Role(subscription.name, event.name, None) for event in subscription.events)
        return
    keys = {}
    for event in subscription.events:
        leaf, _ = normalise(event)
        reads = {read.variable: column_name(read.predicate[1:-1]) for read in leaf.reads}
        route = found[event.name]
        if route.kind is RouteKind.KEY and all(name in reads for name in route.key):
            keys[event.name] = tuple(reads[name] for name in route.key)
    is_spread = len(keys) == len(subscription.events)
    yield from (Role(subscription.name, one.name, keys[one.name] if is_spread else ()) for one in subscription.events)


def _delivered(subscription: Subscription) -> Sequence[str]:
    match subscription.delivery:
        case Select(tuple(names)):
            return names
        case Select(None):
            return sorted(visible_variables(subscription).variables)
    return ()


def _sources(subscription: Subscription) -> dict[str, set[str]]:
    """Where the values of each variable come from."""
    found: dict[str, set[str]] = {}
    for event in subscription.events:
        found.setdefault(event.name, set()).add(ROW)
        for name in event.times or ():
            found.setdefault(name, set()).add(TIME)
        for part in _parts(_algebra(event)):
            match part:
                case Triple(subject, str(predicate), object_) if variable := variable_name(object_):
                    is_own = subject == f"?{event.name}" and predicate.startswith(f"<{COLUMN}")
                    found.setdefault(variable, set()).add(predicate[1:-1] if is_own else OTHER)
                case Extend(variable=variable):
                    found.setdefault(variable, set()).add(OTHER)
                case Values(variables=variables):
                    for variable in variables:
                        found.setdefault(variable, set()).add(OTHER)
    return found


def _columns(event: Event) -> Iterator[str]:
    """The columns an EVENT asks for; properties that are no columns are refused."""
    for part in _parts(_algebra(event)):
        if isinstance(part, NegatedSet) or (isinstance(part, Triple) and variable_name(str(part.predicate))):
            raise UsageError(
                f"EVENT {event.name} leaves open which column it means", advice="name the columns: ?e :room ?room"
            )
        if isinstance(part, Triple):
            for name in _parts(part.predicate):
                if isinstance(name, str):
                    if not name.startswith(f"<{COLUMN}"):
                        advice = "columns are written :name or, in full, <column:name>"
                        raise UsageError(f"EVENT {event.name} asks for {name}, which is no column", advice=advice)
                    yield column_name(name[1:-1])


def _algebra(event: Event) -> object:
    return event.body.algebra if event.body else ()


def _parts(tree: object) -> Iterator[object]:
    """A tree of SPARQL algebra and everything in it."""
    yield tree
    if is_dataclass(tree):
        for field in fields(tree):
            yield from _parts(getattr(tree, field.name))
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _parts(part)
