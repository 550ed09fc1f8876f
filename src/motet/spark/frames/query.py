"""A query over a DataFrame: patterns whose EVENTs are rows, and the columns they need.

It has one of two forms: subscriptions whose EVENTs test columns, ``?e :room ?room``; or a pattern alone, over events
that Spark selects by conditions. Both become subscriptions in which every EVENT has a class of its own, its *role*:
Spark decides which roles a row has, and to which buckets it goes. This module does not use Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from urllib.parse import quote, unquote

from motet.language.parse import parse
from motet.language.scope import has_no, visible_variables
from motet.language.syntax import Construct, Event, Events, Select, Signal, Subscription
from motet.model.errors import SubscriptionError, UsageError
from motet.plan.graph import RouteKind
from motet.plan.leaves import normalise
from motet.plan.partitioning import leaf_routes
from motet.sparql.algebra import Extend, NegatedSet, Triple, Values, variable_name
from motet.sparql.prologue import read_prologue
from motet.sparql.tokens import Document

COLUMN, ROLE = "column:", "role:"  # schemes of the IRIs of columns and roles
ROW, TIME, COMPUTED = "row:", "time:", "computed:"  # origins of variables that are not columns

_NAME = "matches"  # of a pattern without a name
_FIRST_EVENT = re.compile(r"(?:\s|#[^\n\r]*)*(?=EVENT\b)", re.IGNORECASE)
_VARIABLE = re.compile(r"[?$]([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Role:
    """A role of rows: an EVENT of a subscription.

    ``key`` has the columns by whose values rows are routed; empty: all go to one bucket; None: by row.
    """

    subscription: str
    event: str
    key: tuple[str, ...] | None
    has_block: bool = False  # only rows with a document have it

    @property
    def class_iri(self) -> str:
        return f"{ROLE}{self.subscription}/{self.event}"


@dataclass(frozen=True)
class OutputVariable:
    """An output variable, and the origins of its values: IRIs of columns, ROW, TIME or COMPUTED."""

    name: str
    origins: frozenset[str]


@dataclass(frozen=True)
class FrameQuery:
    """Subscriptions over the rows of a DataFrame. Picklable."""

    subscriptions: tuple[Subscription, ...]
    roles: tuple[Role, ...]
    columns: tuple[str, ...]  # whose values are properties of rows
    output: tuple[OutputVariable, ...]
    non_null: frozenset[str] = frozenset()  # columns whose nulls become a value, so that every row has the property
    is_named: bool = False  # whether the user named the subscriptions

    @property
    def has_blocks(self) -> bool:
        """Whether an EVENT has a block of XML: it is matched with the document of a row."""
        return any(event.xml is not None for subscription in self.subscriptions for event in subscription.events)

    @property
    def has_no(self) -> bool:
        """Whether a pattern has a NO, whose first start point is the beginning of the query."""
        return any(has_no(subscription.pattern) for subscription in self.subscriptions)


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
    """The query of a text of subscriptions, or of one subscription without its name.

    >>> query = parse_subscriptions("EVENT a { ?a :celsius ?c FILTER(?c > 30) } WHEN a SELECT ?c")
    >>> query.columns, query.output
    (('celsius',), (OutputVariable(name='c', origins=frozenset({'column:celsius'})),))
    """
    head, name = f"PREFIX : <{COLUMN}> ", f"SUBSCRIPTION {_NAME} "
    start = _FIRST_EVENT.match(read_prologue(Document(text))[1])
    index = start.end() if start else len(text)
    full_text = f"{head}{text[:index]}{name}{text[index:]}" if start else head + text

    def user_position(position: int) -> int:
        return position - len(head) - (len(name) if position >= len(head) + index + len(name) else 0)

    return _query(_parse(full_text, text, user_position), is_named=start is None)


def parse_pattern(pattern: str, events: Collection[str], by: Mapping[str, str], columns: Container[str]) -> FrameQuery:
    """The query of a pattern over named events with equal values in the columns ``by``, which has their variables.

    Variables are those, the events, and the columns of each event: ``?a_celsius``.

    >>> query = parse_pattern("(a BEFORE b) FILTER(?a_n < ?b_n)", ["a", "b"], {"room": "room"}, ["room", "n"])
    >>> [variable.name for variable in query.output], [role.key for role in query.roles]
    (['room', 'a', 'b'], [('room',), ('room',)])
    """
    _check_names(events, by)
    referenced = [name for name in dict.fromkeys(_VARIABLE.findall(pattern)) if name not in {*by, *events}]
    event_columns = {
        event: [name for name in _suffixes(referenced, f"{event}_") if name in columns] for event in events
    }
    leaves = [_leaf(event, by, event_columns[event]) for event in events]
    head = "\n".join([f"SUBSCRIPTION {_NAME}", *leaves, "WHEN\n"])
    (subscription,) = _parse(head + pattern, pattern, lambda position: position - len(head))
    non_null = frozenset(name for names in event_columns.values() for name in names)
    projected = _projected(subscription, by, events)
    delivery = Select(projected) if projected else Signal()
    return _query((replace(subscription, delivery=delivery),), non_null=non_null - set(by.values()))


def _suffixes(names: Sequence[str], prefix: str) -> list[str]:
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix) and name != prefix]


def _leaf(event: str, by: Mapping[str, str], columns: Sequence[str]) -> str:
    variables = [*((name, variable) for variable, name in by.items()), *((name, f"{event}_{name}") for name in columns)]
    body = " ; ".join(f"<{column_iri(name)}> ?{variable}" for name, variable in variables)
    return f"EVENT {event} {{ ?{event} {body} }}" if body else f"EVENT {event}"


def _check_names(events: Collection[str], by: Collection[str]) -> None:
    if not events:
        raise UsageError("`events` is empty", advice="give events={name: condition}")
    for name in by:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in events:
            advice = "rename the column: letters, digits and '_', and not the name of an event"
            raise UsageError(f"the column {name!r} cannot be a variable", advice=advice)


def _projected(subscription: Subscription, by: Collection[str], events: Collection[str]) -> tuple[str, ...]:
    """The projected variables; always with the columns ``by``, which distinguish the matches of different values."""
    match subscription.delivery:
        case Select(tuple(names)):
            return tuple(dict.fromkeys([*by, *names]))
        case Select(None):
            visible = visible_variables(subscription).variables
            return (*by, *(name for name in events if name in visible))
    return tuple(by)


def _parse(full_text: str, text: str, user_position: Callable[[int], int]) -> tuple[Subscription, ...]:
    """Parse a text; errors show the user's part of it."""
    try:
        return parse(full_text)
    except SubscriptionError as error:
        position = user_position(error.position)
        if position < 0:
            raise UsageError(error.message, advice=error.advice) from None
        raise SubscriptionError(error.message, text=text, position=position, advice=error.advice) from None


def _query(
    subscriptions: Sequence[Subscription], *, non_null: frozenset[str] = frozenset(), is_named: bool = False
) -> FrameQuery:
    origins: dict[str, set[str]] = {}
    for subscription in map(_checked, subscriptions):
        by_variable = _origins(subscription)
        for name in _delivered(subscription):
            origins.setdefault(name, set()).update(by_variable.get(name, {COMPUTED}))
    events = [event for subscription in subscriptions for event in subscription.events]
    return FrameQuery(
        tuple(map(_with_roles, subscriptions)),
        tuple(role for subscription in subscriptions for role in _roles(subscription)),
        tuple(dict.fromkeys(name for event in events for name in _columns(event))),
        tuple(OutputVariable(name, frozenset(of_name)) for name, of_name in origins.items()),
        non_null,
        is_named,
    )


def _checked(subscription: Subscription) -> Subscription:
    """Refuse what needs a log."""
    if isinstance(subscription.delivery, Construct | Events):
        advice = "use SELECT; derived events and whole events need a lake (motet.open)"
        raise UsageError(f"the pattern {subscription.name!r} does not deliver variables", advice=advice)
    if subscription.since is not None:
        advice = "give since='…' to detect, and filter the DataFrame by its time"
        raise UsageError(f"the pattern {subscription.name!r} has SINCE, which needs a log", advice=advice)
    for event in subscription.events:
        if event.class_iri is not None:
            advice = f"test a column instead: EVENT {event.name} {{ ?{event.name} :kind 'smoke' }}"
            raise UsageError(f"EVENT {event.name} has a class, and rows have none", advice=advice)
    return subscription


def _with_roles(subscription: Subscription) -> Subscription:
    events = [
        replace(event, class_iri=Role(subscription.name, event.name, ()).class_iri) for event in subscription.events
    ]
    return replace(subscription, events=tuple(events))


def _roles(subscription: Subscription) -> Iterator[Role]:
    """Rows are routed by columns if every EVENT reads the whole key from columns; otherwise all go to one bucket."""
    by_event = leaf_routes(subscription)
    if all(route.kind is RouteKind.EVENT for route in by_event.values()):
        yield from (Role(subscription.name, event.name, None, event.xml is not None) for event in subscription.events)
        return
    keys = {}
    for event in subscription.events:
        leaf, _ = normalise(event)
        reads = {read.variable: column_name(read.predicate[1:-1]) for read in leaf.reads}
        route = by_event[event.name]
        if route.kind is RouteKind.KEY and all(name in reads for name in route.key):
            keys[event.name] = tuple(reads[name] for name in route.key)
    is_keyed = len(keys) == len(subscription.events)
    for event in subscription.events:
        key = keys[event.name] if is_keyed else ()
        yield Role(subscription.name, event.name, key, event.xml is not None)


def _delivered(subscription: Subscription) -> Sequence[str]:
    match subscription.delivery:
        case Select(tuple(names)):
            return names
        case Select(None):
            return sorted(visible_variables(subscription).variables)
    return ()


def _origins(subscription: Subscription) -> dict[str, set[str]]:
    """The origins of the values of each variable."""
    origins: dict[str, set[str]] = {}
    for event in subscription.events:
        origins.setdefault(event.name, set()).add(ROW)
        for name in event.times or ():
            origins.setdefault(name, set()).add(TIME)
        for node in _nodes(_algebra(event)):
            match node:
                case Triple(subject, str(predicate), object_) if variable := variable_name(object_):
                    is_column = subject == f"?{event.name}" and predicate.startswith(f"<{COLUMN}")
                    origins.setdefault(variable, set()).add(predicate[1:-1] if is_column else COMPUTED)
                case Extend(variable=variable):
                    origins.setdefault(variable, set()).add(COMPUTED)
                case Values(variables=variables):
                    for variable in variables:
                        origins.setdefault(variable, set()).add(COMPUTED)
    return origins


def _columns(event: Event) -> Iterator[str]:
    """The columns that an EVENT reads; properties that are not columns are refused."""
    for node in _nodes(_algebra(event)):
        if isinstance(node, NegatedSet) or (isinstance(node, Triple) and variable_name(str(node.predicate))):
            raise UsageError(
                f"EVENT {event.name} does not name the column it tests", advice="name the columns: ?e :room ?room"
            )
        if isinstance(node, Triple):
            for name in _nodes(node.predicate):
                if isinstance(name, str):
                    if not name.startswith(f"<{COLUMN}"):
                        advice = "columns are written :name or, in full, <column:name>"
                        raise UsageError(f"EVENT {event.name} tests {name}, which is not a column", advice=advice)
                    yield column_name(name[1:-1])


def _algebra(event: Event) -> object:
    return event.body.algebra if event.body else ()


def _nodes(tree: object) -> Iterator[object]:
    """All nodes of a tree of SPARQL algebra."""
    yield tree
    if is_dataclass(tree):
        for field in fields(tree):
            yield from _nodes(getattr(tree, field.name))
    elif isinstance(tree, tuple):
        for child in tree:
            yield from _nodes(child)
