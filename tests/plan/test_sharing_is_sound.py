"""What the plan merges has the same notifications: the rules of sharing, held against the reference engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.model.notifications import Notification
from motet.model.terms import RDF_TYPE
from motet.model.times import END_OF_TIME
from motet.plan.builder import build_plan
from motet.reference import EventRecord, Record, SubscribeRecord, TickRecord, evaluate

CONTEXTS = ("unrestricted", "recent", "chronicle", "continuous", "cumulative")
COMMUTING = ("AND", "ALONGSIDE", "OR", "EQUALS")
BODIES = (
    "",
    "?{e} <urn:x> ?{v}",
    "?{e} <urn:x> ?{v} ; <urn:y> ?{w}",
    "?{e} a <urn:A> OPTIONAL {{ ?{e} <urn:x> ?{v} }}",
)

Names = Mapping[str, str]
Case = tuple[object, dict[str, str], str]
Drawn = tuple[int, int, frozenset[str], frozenset[str], frozenset[str]]


@st.composite
def patterns(draw: st.DrawFn, leaves: tuple[str, ...], looking: bool) -> object:
    """A pattern as nested tuples: an operator and its operands; a leaf is its name.

    ``looking`` allows operators that look at other events than those of their results.
    """
    if len(leaves) == 1:
        shape: object = leaves[0]
    else:
        cut = draw(st.integers(1, len(leaves) - 1))
        operator = draw(st.sampled_from((*COMMUTING, "BEFORE", *(("XOR", "UNLESS") if looking else ()))))
        shape = (operator, draw(patterns(leaves[:cut], looking)), draw(patterns(leaves[cut:], looking)))
        if operator in ("AND", "BEFORE") and draw(st.integers(0, 3)) == 0:
            shape = ("FILTER", shape)
    wrapper = draw(st.sampled_from((None, None, None, None, *(("NO", "TIMES", "RUN") if looking else ()))))
    return shape if wrapper is None else (wrapper, shape)


def text(shape: object, names: Names, swap: bool) -> str:
    """The pattern as text, with other names, and with the operands of commutative operators swapped."""
    match shape:
        case str():
            return names[shape]
        case ("FILTER", inner):
            return f"({text(inner, names, swap)} FILTER(!BOUND(?{names['v']}) || STR(?{names['v']}) < '2'))"
        case ("NO", inner):
            return f"NO ({text(inner, names, swap)}) FOR 2 us"
        case ("TIMES", inner):
            return f"(({text(inner, names, swap)}){{2}})"
        case ("RUN", inner):
            return f"(({text(inner, names, swap)})+ EVERY 2 us)"
        case (operator, left, right):
            window = " WITHIN 3 us" if operator in ("XOR", "UNLESS") else ""
            sides = [text(left, names, swap), text(right, names, swap)]
            one, other = sides[::-1] if swap and operator in (*COMMUTING, "XOR") else sides
            return f"({one} {operator} {other}{window})"
    raise AssertionError(shape)


def subscription(
    name: str, shape: object, bodies: Mapping[str, str], names: Names, context: str, *, swap: bool = False
) -> Subscription:
    events = " ".join(
        f"EVENT {names[leaf]} {{ {body.format(e=names[leaf], v=names['v'], w=names['w'])} }}"
        for leaf, body in bodies.items()
    )
    known = " ".join(bodies.values())
    shown = " ".join(f"?{names[variable]}" for variable in "vw" if f"{{{variable}}}" in known)
    when = text(shape, names, swap)
    deliver = f"SELECT {shown}" if shown else "SIGNAL"
    return parse(f"SUBSCRIPTION {name} {events} WHEN {when} CONTEXT {context} UNBOUNDED {deliver}")[0]


events = st.tuples(
    st.integers(0, 6),
    st.integers(0, 2),
    st.frozensets(st.sampled_from("AB"), max_size=1),
    st.frozensets(st.sampled_from("123"), max_size=2),
    st.frozensets(st.sampled_from("12"), max_size=2),
)


def log(drawn: Iterable[Drawn], first: int) -> list[EventRecord]:
    records = []
    for number, (start, length, classes, xs, ys) in enumerate(drawn):
        name = f"urn:e{number}"
        triples = {(f"<{name}>", RDF_TYPE, f"<urn:{one}>") for one in classes}
        triples |= {(f"<{name}>", "<urn:x>", f'"{x}"') for x in xs} | {(f"<{name}>", "<urn:y>", f'"{y}"') for y in ys}
        records.append(EventRecord(first + number, name, start, start + length, frozenset(triples)))
    return records


def seen(notifications: Iterable[Notification], names: Names) -> set[tuple[object, ...]]:
    """The notifications of a subscription without its names."""
    own = {name: variable for variable, name in names.items()}
    return {
        (one.start, one.end, one.events, frozenset((own[name], term) for name, term in one.bindings))
        for one in notifications
    }


@st.composite
def cases(draw: st.DrawFn, *, looking: bool = True) -> Case:
    leaves = ("one", "two", "three", "four")[: draw(st.integers(2, 4))]
    bodies = {leaf: draw(st.sampled_from(BODIES)) for leaf in leaves}
    shape = draw(patterns(leaves, looking))
    assume("FILTER" not in repr(shape) or any("{v}" in body for body in bodies.values()))
    return shape, bodies, draw(st.sampled_from(CONTEXTS if looking else CONTEXTS[:1]))


RARE = [HealthCheck.filter_too_much]  # few random shapes are of the kind in question
PLAIN = {"one": "a", "two": "b", "three": "c", "four": "d", "v": "v", "w": "w"}
OTHER = {"one": "z", "two": "y", "three": "x", "four": "u", "v": "r", "w": "k"}


@settings(max_examples=120, suppress_health_check=RARE)
@given(cases(), st.booleans(), st.sampled_from((PLAIN, OTHER)), st.lists(events, min_size=3, max_size=6))
def test_one_node_has_one_set_of_notifications(case: Case, swap: bool, names: Names, drawn: list[Drawn]) -> None:
    """A pattern with renamed variables and swapped operands that shares a node has the same notifications."""
    shape, bodies, context = case
    first = subscription("first", shape, bodies, PLAIN, context)
    second = subscription("second", shape, bodies, names, context, swap=swap)
    one, other = build_plan([first, second]).roots
    assume(one.node == other.node)
    records: list[Record] = [
        SubscribeRecord(0, first),
        SubscribeRecord(1, second),
        *log(drawn, 2),
        TickRecord(99, END_OF_TIME),
    ]
    found = evaluate(records, lateness=None)
    of = {name: [one for one in found if one.subscription == name] for name in ("first", "second")}
    assert seen(of["first"], PLAIN) == seen(of["second"], names)


@settings(max_examples=40, suppress_health_check=RARE)
@given(cases(looking=False), st.lists(events, min_size=3, max_size=6), st.integers(1, 3))
def test_a_node_that_serves_every_start_can_be_filtered(case: Case, drawn: list[Drawn], late: int) -> None:
    """A later subscription gets the occurrences of the shared node whose events are after its offset."""
    shape, bodies, context = case
    first = subscription("first", shape, bodies, PLAIN, context)
    second = subscription("second", shape, bodies, PLAIN, context)
    one, other = build_plan([first, second], start_offsets={"second": late}).roots
    assert one.node == other.node
    before, after = log(drawn, 1)[:late], log(drawn, 2)[late:]
    records: list[Record] = [
        SubscribeRecord(0, first),
        *before,
        SubscribeRecord(late + 1, second),
        *after,
        TickRecord(99, END_OF_TIME),
    ]
    found = evaluate(records, lateness=None)
    unseen = {event.id for event in before}
    early = [one for one in found if one.subscription == "first" and not unseen.intersection(one.events)]
    assert seen(early, PLAIN) == seen((one for one in found if one.subscription == "second"), PLAIN)
