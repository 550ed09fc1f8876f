"""jtang and cecube are written so that they read back as the same tree; everything else is refused by name."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from motet.language.cecube_surface import to_cecube
from motet.language.check import check
from motet.language.jtang_surface import to_jtang
from motet.language.parse import parse
from motet.language.scope import leaves
from motet.language.surface_shared import is_unbounded
from motet.language.syntax import (
    Alongside,
    And,
    Context,
    Event,
    Leaf,
    No,
    Or,
    Pattern,
    Run,
    Subscription,
    Timed,
    Times,
    Unless,
    Within,
    Xor,
)
from motet.model.errors import SubscriptionError, UsageError
from motet.model.intervals import Relation

WRITERS = {"jtang": (to_jtang, Context.CHRONICLE), "cecube": (to_cecube, Context.RECENT)}
NAMES = [f"C{number}" for number in range(12)]

durations = st.sampled_from([1, 1_000_000, 300_000_000, 5_400_000_000])
counts = st.integers(1, 4)


def extended(inner: st.SearchStrategy[Pattern]) -> st.SearchStrategy[Pattern]:
    pairs = [st.builds(kind, inner, inner) for kind in (And, And, Or, Alongside)]
    return st.one_of(
        *pairs,
        st.builds(Timed, st.sampled_from(Relation), inner, inner),
        st.builds(Xor, inner, inner, durations),
        st.builds(Unless, inner, inner, durations),
        st.builds(Within, inner, durations),
        st.builds(No, inner, durations),
        st.builds(Times, inner, counts, st.none() | durations),
        st.builds(Run, inner, durations),
    )


patterns = st.recursive(st.just(Leaf("")), extended, max_leaves=5)


def named(pattern: Pattern, names: list[str]) -> Pattern:
    """The pattern with a name of its own for each leaf, from left to right."""
    match pattern:
        case Leaf():
            return Leaf(names.pop(0))
        case And() | Or() | Alongside() | Timed() | Xor():
            left = named(pattern.left, names)
            return replace(pattern, left=left, right=named(pattern.right, names))
        case Unless():
            operand = named(pattern.operand, names)
            return replace(pattern, operand=operand, absent=named(pattern.absent, names))
        case Within() | No() | Times() | Run():
            return replace(pattern, operand=named(pattern.operand, names))
    raise AssertionError(pattern)


def subscription_of(pattern: Pattern, context: Context) -> Subscription:
    pattern = named(pattern, list(NAMES))
    events = tuple(Event(leaf.name, f"urn:{leaf.name}") for leaf in leaves(pattern))
    return Subscription("s", events, pattern, context, is_unbounded(pattern))


@pytest.mark.parametrize("syntax", WRITERS)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(pattern=patterns)
def test_what_is_written_reads_back(syntax: str, pattern: Pattern) -> None:
    """parse(translate(x)) == x for every pattern that can be written; the others are refused by name."""
    write, context = WRITERS[syntax]
    subscription = subscription_of(pattern, context)
    try:
        check(subscription, "")
    except SubscriptionError:
        assume(False)
    try:
        text = write([subscription], {"u": "urn:"})
    except UsageError as error:
        assert f"subscription 's' cannot be written in {syntax}: " in str(error)
        return
    (back,) = parse(text, syntax=syntax)
    by_name = tuple(sorted(back.events, key=lambda event: NAMES.index(event.name)))
    assert replace(back, events=by_name) == subscription, text


@pytest.mark.parametrize(
    ("syntax", "pattern"),
    [
        ("jtang", Within(And(Leaf(""), Or(Leaf(""), Leaf(""))), 300_000_000)),
        ("jtang", Unless(Timed(Relation.BEFORE, Leaf(""), Leaf("")), Leaf(""), 1_000_000)),
        ("jtang", Times(Leaf(""), 3, 1_000_000)),
        ("jtang", Run(Leaf(""), 1_000_000)),
        ("jtang", No(Leaf(""), 1_000_000)),
        ("jtang", Alongside(Leaf(""), Leaf(""))),
        ("cecube", And(Leaf(""), Timed(Relation.DURING, Leaf(""), Leaf("")))),
        ("cecube", Xor(Leaf(""), Leaf(""), 1_000_000)),
        ("cecube", Unless(And(Leaf(""), Leaf("")), Leaf(""), 1_000_000)),
        ("cecube", Or(Leaf(""), No(Leaf(""), 1_000_000))),
    ],
)
def test_every_operator_of_a_surface_is_written(syntax: str, pattern: Pattern) -> None:
    """The operators of section 9 are not refused."""
    write, context = WRITERS[syntax]
    subscription = subscription_of(pattern, context)
    assert parse(write([subscription], {}), syntax=syntax)[0].pattern == subscription.pattern


@pytest.mark.parametrize(
    "text",
    [
        "[and(A/2026-01-01T00:00:00Z, B)]",
        "[and(A/2026-01-01T00:00:00Z..2026-01-02T00:00:00Z, B)]/5 min",
        "[before(A, [or(B, C)])]/2026-01-01T00:00:00Z..2026-01-02T00:00:00Z",
        "[and(A/T1, B/T1, C/T2, D/T2)]",
        "[and(A/T1, [or(B/T1, C/2026-01-01T00:00:00Z)], D/T1)]",
        "[and(A/T1, B/T1, [not(S)]/5 s)]/1 h",
        "[xor([before(A/T1, B/T1)], C/T1)]/5 s",
    ],
)
def test_cecube_times_are_written(text: str) -> None:
    """Instants, spans and named times of events, which are conditions in the tree, read back as the same tree."""
    (subscription,) = parse(f"PREFIX : <urn:x:> {text}", syntax="cecube")
    (back,) = parse(to_cecube([subscription], {"": "urn:x:"}), syntax="cecube")
    assert (back.pattern, back.delivery) == (subscription.pattern, subscription.delivery)
    assert set(back.events) == set(subscription.events)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[and(A/T1, B/T1)]/2026-01-01T00:00:00Z", "has no FILTER"),
        ("[before(A/5 s, B)]/2026-01-01T00:00:00Z", "has no two times of one event"),
    ],
)
def test_cecube_times_that_are_not_written(text: str, reason: str) -> None:
    """A named time, or a length, and a span of one event cannot both be written behind it."""
    with pytest.raises(UsageError, match=reason):
        to_cecube(parse(f"PREFIX : <urn:x:> {text}", syntax="cecube"), {})


def test_conditions_that_are_no_times_are_refused() -> None:
    """Only the conditions that the surface itself makes are written; other times and deliveries are refused."""
    pair = "SUBSCRIPTION s EVENT A : <urn:A> DURING ?A_start ?A_end EVENT B : <urn:B> WHEN "
    span = "(A FILTER(?A_start >= {0} && ?A_end <= {0})) AND B CONTEXT recent UNBOUNDED"
    instant = '"2026-01-01T00:00:00.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    good = f"{pair}{span.format(instant)} SELECT ?A ?B"
    assert to_cecube(parse(good), {}) == "SUBSCRIPTION s\n  [and(<urn:A>/2026-01-01T00:00:00.000000Z, <urn:B>)]\n"
    for text, reason in (
        (good.replace("SELECT ?A ?B", "SELECT ?A"), "it delivers the events"),
        (good.replace(">=", ">"), "has no FILTER other than the limits of a time"),
        (good.replace("?A_start", "?from"), "has no FILTER other than the limits of a time"),
        (good.replace(" EVENT B : <urn:B>", " EVENT B : <urn:B> DURING ?s ?e"), "EVENT B is more than a class"),
    ):
        with pytest.raises(UsageError, match=reason):
            to_cecube(parse(text), {})
