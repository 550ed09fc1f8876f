"""Laws every log obeys: the set of notifications does not depend on arrival, and what is final stays."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from motet.language.scope import visible_variables
from motet.language.syntax import (
    Alongside,
    And,
    Construct,
    Context,
    Delivery,
    Event,
    Expression,
    Filter,
    GroupPattern,
    Leaf,
    No,
    Or,
    Pattern,
    Run,
    Select,
    Signal,
    Subscription,
    Template,
    Timed,
    Times,
    Unless,
    Within,
    Without,
    Xor,
)
from motet.model.intervals import Relation
from motet.model.terms import RDF_TYPE, XSD, iri, literal
from motet.model.times import END_OF_TIME
from motet.reference import (
    EventRecord,
    Record,
    SubscribeRecord,
    TickRecord,
    UnsubscribeRecord,
    evaluate,
    evaluate_emissions,
    write_log,
)
from motet.reference.visibility import Visibility, event_names

EX = "http://example.org/"
KEY = iri(EX + "k")
DURATIONS = st.integers(1, 8)
PAIRINGS = [And, Alongside] + [
    lambda left, right, relation=relation: Timed(relation, left, right)
    for relation in (Relation.BEFORE, Relation.AFTER, Relation.OVERLAPS, Relation.DURING, Relation.EQUALS)
]
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def leaves(draw: st.DrawFn, events: list[Event]) -> Pattern:
    """A leaf under a name of its own, so that no name is on both sides of an operator."""
    name = f"e{len(events)}"
    body = draw(st.sampled_from([None, None, f"?{name} {KEY} ?k", f"OPTIONAL {{ ?{name} {KEY} ?k }}"]))
    group = GroupPattern(body, frozenset({name, "k"})) if body else None
    events.append(Event(name, EX + draw(st.sampled_from("AAABBC")), group))
    return Leaf(name)


@st.composite
def patterns(draw: st.DrawFn, events: list[Event], depth: int) -> Pattern:  # noqa: PLR0911  (a table)
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(leaves(events))

    def below() -> Pattern:
        return draw(patterns(events, depth - 1))

    def pair() -> Pattern:
        return draw(st.sampled_from(PAIRINGS))(below(), below())

    duration = draw(DURATIONS)
    match draw(st.integers(0, 11)):
        case 0 | 1 | 2:
            return pair()
        case 3:
            return Or(below(), below())
        case 4:
            return Xor(below(), below(), duration)
        case 5:
            return Within(draw(st.sampled_from([pair, below]))(), duration)
        case 6:
            return Unless(below(), below(), duration)
        case 7:
            return Without(pair(), below())
        case 8:
            return No(below(), duration)
        case 9:
            return Times(below(), draw(st.integers(1, 3)), draw(st.none() | DURATIONS))
        case 10:
            return Within(Run(below(), duration), draw(DURATIONS))
        case _:
            return Filter(draw(st.sampled_from([pair, below]))(), Expression("?k > 1", frozenset({"k"})))


@st.composite
def subscriptions(draw: st.DrawFn, name: str = "s", contexts: tuple[Context, ...] = tuple(Context)) -> Subscription:
    events: list[Event] = []
    pattern = draw(patterns(events, 2))
    deliveries: list[Delivery] = [Select(None), Select(("k",)), Signal()]
    delivery = draw(st.sampled_from(deliveries))
    since = draw(st.none() | st.integers(0, 6))
    return Subscription(name, tuple(events), pattern, draw(st.sampled_from(contexts)), True, delivery, since)


def waiting_pattern(choice: Random) -> Pattern:
    """An operator over one with a lag, where the lag of the lower one matters to the upper one."""
    a, b, c = Leaf("a"), Leaf("b"), Leaf("c")
    duration = choice.randint(1, 6)
    lower: list[Pattern] = [
        Xor(a, c, duration),
        Unless(a, c, duration),
        No(a, duration),
        Times(a, 2),
        Within(Run(a, duration), 8),
        Without(Timed(Relation.BEFORE, a, Leaf("a_2")), c),
    ]
    waiting = choice.choice(lower)
    upper: list[Pattern] = [
        waiting,
        And(waiting, b),
        Timed(Relation.BEFORE, waiting, b),
        Timed(Relation.AFTER, b, waiting),
        Xor(b, waiting, 4),
        Unless(b, waiting, 4),
        Without(Timed(Relation.BEFORE, Leaf("b_2"), b), waiting),
        No(waiting, 4),
        Times(waiting, 2),
        Run(waiting, 3),
    ]
    return choice.choice(upper)


def waiting_subscription(choice: Random, name: str, pattern: Pattern) -> Subscription:
    """The classes of the events are the first letters of their names."""
    declared = tuple(Event(used, EX + used[0].upper()) for used in sorted(event_names(pattern)))
    since = choice.choice([None, None, 2])
    return Subscription(name, declared, pattern, choice.choice(list(Context)), True, Signal(), since)


def waiting_log(choice: Random, subscribed: list[Subscription]) -> list[Record]:
    """Events nearly in the order of time, a tick now and then, and the subscriptions at or near the beginning."""
    in_time: list[tuple[float, Record]] = [(99, TickRecord(0, choice.randint(10, 40)))]
    for number in range(choice.randint(5, 9)):
        start = choice.randint(0, 12)
        end = start + choice.choice([0, 0, 0, 2])
        kind = (f"<urn:{number}>", RDF_TYPE, iri(EX + choice.choice("AAABBCD")))
        in_time.append((end + choice.random() * 3, EventRecord(0, f"urn:{number}", start, end, frozenset({kind}))))
        if choice.random() < 0.3:
            in_time.append((start + 1.5, TickRecord(0, start)))
    records = [record for _, record in sorted(in_time, key=lambda pair: pair[0])]
    for subscription in subscribed:
        records.insert(choice.choice([0, 0, 1, 3, 6]), SubscribeRecord(0, subscription))
        if choice.random() < 0.1:
            records.insert(len(records) - choice.randint(0, 2), UnsubscribeRecord(0, subscription.name))
    return numbered(records)


@st.composite
def events(draw: st.DrawFn, number: int) -> EventRecord:
    name = f"urn:{number}"
    start = draw(st.integers(0, 20))
    triples = {(iri(name), RDF_TYPE, iri(EX + c)) for c in draw(st.sets(st.sampled_from("ABC"), min_size=1))}
    keys = draw(st.sampled_from(["", "1", "2", "12"]))
    triples |= {(iri(name), KEY, literal(key, datatype=XSD + "integer")) for key in keys}
    return EventRecord(number, name, start, start + draw(st.sampled_from([0, 0, 1, 4])), frozenset(triples))


@st.composite
def event_lists(draw: st.DrawFn) -> list[EventRecord]:
    return [draw(events(number)) for number in range(1, draw(st.integers(4, 9)) + 1)]


def numbered(records: list[Record]) -> list[Record]:
    return [replace(record, offset=offset) for offset, record in enumerate(records, 1)]


@st.composite
def logs(draw: st.DrawFn, subscribed: list[Subscription]) -> list[Record]:
    """Events and ticks about in the order of time and, between them, the subscriptions, some of which end."""
    arriving = [(event.end + draw(st.integers(0, 4)), event) for event in draw(event_lists())]
    ticking = [(instant + 3, TickRecord(0, instant)) for instant in draw(st.lists(st.integers(0, 24), max_size=3))]
    in_time: list[tuple[int, Record]] = [*arriving, *ticking, (60, TickRecord(0, draw(st.integers(15, 60))))]
    records = [record for _, record in sorted(in_time, key=lambda pair: pair[0])]
    for subscription in subscribed:
        begin = draw(st.sampled_from([0, 0, 0, 1, 2, 4]))
        records.insert(begin, SubscribeRecord(0, subscription))
        if draw(st.integers(0, 7)) == 0:
            end = draw(st.integers(begin + 1, len(records)))
            records.insert(end, UnsubscribeRecord(0, subscription.name))
    return numbered(records)


def hold_finality(log: list[Record], lateness: int | None) -> None:
    """The emissions of a prefix of a log are exactly those of the whole log up to that offset."""
    whole = evaluate_emissions(log, lateness=lateness)
    for cut in range(len(log)):
        prefix = evaluate_emissions(log[: cut + 1], lateness=lateness)
        assert prefix == [(offset, found) for offset, found in whole if offset <= log[cut].offset]


@RELAXED
@given(data=st.data(), lateness=st.none() | st.integers(0, 6))
def test_what_is_final_stays(data: st.DataObject, lateness: int | None) -> None:
    """A notification emitted at a record is emitted there whatever follows, and none is added later."""
    hold_finality(data.draw(logs([data.draw(subscriptions())])), lateness)


@pytest.mark.parametrize("seed", range(4))
def test_final_occurrences_stay_over_an_operand_with_a_lag(seed: int) -> None:
    """An operator's lag includes the lags of its operands."""
    choice = Random(seed)
    for _ in range(300):
        subscription = waiting_subscription(choice, "s", waiting_pattern(choice))
        hold_finality(waiting_log(choice, [subscription]), choice.choice([None, 0, 1, 3]))


@pytest.mark.parametrize("seed", range(4))
def test_final_occurrences_stay_over_a_producer_with_a_lag(seed: int) -> None:
    """A subscription's lag includes the lags of those that feed it, whichever was registered first."""
    choice = Random(seed)
    template = Template(f"?this {RDF_TYPE} <{EX}A>", frozenset({"this"}))
    for _ in range(100):
        fed: list[Pattern] = [
            Timed(Relation.BEFORE, Leaf("a"), Leaf("b")),
            Unless(Leaf("b"), Leaf("a"), 3),
            Times(Leaf("a"), 2),
            No(Leaf("a"), 3),
        ]
        sink = waiting_subscription(choice, "sink", choice.choice(fed))
        source = waiting_subscription(choice, "source", Unless(Leaf("d"), Leaf("c"), choice.randint(1, 6)))
        source = replace(source, delivery=Construct((template,)))
        log = waiting_log(choice, choice.sample([source, sink], 2))
        hold_finality(log, choice.choice([None, 0, 1, 3]))


@RELAXED
@given(data=st.data(), lateness=st.none() | st.integers(0, 6))
def test_final_occurrences_stay_with_derived_events(data: st.DataObject, lateness: int | None) -> None:
    """The same holds when one subscription feeds another, whichever was registered first."""
    template = Template(f"?this {RDF_TYPE} <{EX}D> ; {KEY} ?k", frozenset({"this", "k"}))
    source = replace(data.draw(subscriptions("source")), delivery=Construct((template,)))
    sink = data.draw(subscriptions("sink"))
    fed = tuple(
        replace(event, class_iri=EX + "D") if number == 0 else event for number, event in enumerate(sink.events)
    )
    hold_finality(data.draw(logs([source, replace(sink, events=fed)])), lateness)


@RELAXED
@given(data=st.data(), subscription=subscriptions(), given_events=event_lists())
def test_arrival_order_does_not_matter(
    data: st.DataObject, subscription: Subscription, given_events: list[EventRecord]
) -> None:
    """The set of notifications is a function of the event set alone."""
    results = []
    for order in (given_events, data.draw(st.permutations(given_events))):
        log = numbered([SubscribeRecord(0, subscription), *order, TickRecord(0, END_OF_TIME)])
        results.append(evaluate(log, lateness=None))
    assert results[0] == results[1]


@RELAXED
@given(data=st.data(), subscription=subscriptions(), given_events=event_lists(), lateness=st.integers(0, 20))
def test_lateness_and_ticks_do_not_matter_unless_an_event_is_late(
    data: st.DataObject, subscription: Subscription, given_events: list[EventRecord], lateness: int
) -> None:
    """Without the late events, a log with a moving frontier has the notifications of one with a single final tick."""
    mixed: list[Record] = [*given_events, TickRecord(0, 4), TickRecord(0, 9)]
    mixed = data.draw(st.permutations(mixed))
    log = numbered([SubscribeRecord(0, subscription), *mixed, TickRecord(0, END_OF_TIME)])
    written = write_log(log, lateness).records
    late = {record.id for record in written if isinstance(record, EventRecord) and record.late}
    kept = [record for record in log if not (isinstance(record, EventRecord) and record.id in late)]
    still = [record for record in kept if not (isinstance(record, TickRecord) and record.instant < END_OF_TIME)]
    assert evaluate(log, lateness=lateness) == evaluate(still, lateness=None)


@RELAXED
@given(subscription=subscriptions(), given_events=event_lists())
def test_since_is_as_if_registered_before(subscription: Subscription, given_events: list[EventRecord]) -> None:
    """A subscription with an early SINCE has the same notifications at any offset of the log."""
    early = replace(subscription, since=0)
    begin, end = SubscribeRecord(0, early), TickRecord(0, END_OF_TIME)
    orders: list[list[Record]] = [[begin, *given_events, end], [*given_events, begin, end]]
    found = [evaluate(numbered(log), lateness=None) for log in orders]
    assert found[0] == found[1]


@pytest.mark.parametrize("context", [Context.RECENT, Context.CHRONICLE, Context.CONTINUOUS])
@RELAXED
@given(data=st.data(), given_events=event_lists())
def test_a_context_only_chooses(context: Context, data: st.DataObject, given_events: list[EventRecord]) -> None:
    """Every pair of another context is one of the unrestricted context."""
    declared: list[Event] = []
    left, right = data.draw(leaves(declared)), data.draw(leaves(declared))
    pattern = data.draw(st.sampled_from(PAIRINGS))(left, right)
    found = {}
    for chosen in (context, Context.UNRESTRICTED):
        subscription = Subscription("s", tuple(declared), pattern, chosen, True)
        log = numbered([SubscribeRecord(0, subscription), *given_events, TickRecord(0, END_OF_TIME)])
        found[chosen] = set(evaluate(log, lateness=None))
    assert found[context] <= found[Context.UNRESTRICTED]


@RELAXED
@given(subscription=subscriptions())
def test_visibility_agrees_with_the_language(subscription: Subscription) -> None:
    """The visibility of the reference engine and that of the language package agree on the whole pattern."""
    visibility = Visibility(subscription)
    found = visibility.visible(subscription.pattern, visibility.delivery_variables(), inside_iteration=False)
    assert found == visible_variables(subscription).variables
