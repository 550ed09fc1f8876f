"""The log: order, lateness, finality and the life of a subscription (language page, section 11)."""

from __future__ import annotations

from typing import Any

import pytest

from motet.model.errors import UsageError
from motet.model.terms import RDF_TYPE, iri
from motet.model.times import END_OF_TIME
from motet.reference import BackgroundRecord, EventRecord, RetractRecord, evaluate, write_log


def test_stamping(story: Any) -> None:
    """The frontier is the greatest of earlier ticks and earlier events' end minus the lateness; late is below it."""
    records = write_log(story.log("a1@10", "a2@7", "a3@6", 20, "a4@30", "a5@20", "a6@19"), 3).records
    stamps = [(r.id, r.frontier, r.late) for r in records if isinstance(r, EventRecord)]
    assert stamps == [
        ("urn:a1", None, False),
        ("urn:a2", 7, False),
        ("urn:a3", 7, True),
        ("urn:a4", 20, False),
        ("urn:a5", 27, True),
        ("urn:a6", 27, True),
    ]


def test_unlimited_lateness(story: Any) -> None:
    """With unlimited lateness only ticks move the frontier."""
    records = write_log(story.log("a1@10", "a2@1", 5, "a3@5", "a4@4"), None).records
    assert [r.late for r in records if isinstance(r, EventRecord)] == [False, False, False, True]


def test_the_first_content_wins(story: Any) -> None:
    """Publishing the same IRI again is the same event and is accepted once: the first accepted content wins."""
    subscription = story.subscription("a", a="?a ex:k ?k", deliver="SELECT ?k")
    assert story.emitted(subscription, "a1@5 k=1", "a1@9 k=2", "a2@6 k=3") == [(2, "a1 k=1"), (4, "a2 k=3")]


def test_late_events_never_match(story: Any) -> None:
    """An event whose end is below the frontier is stored, never matched, not even with SINCE."""
    early, late = (story.subscription("a", name=name, since=0) for name in ("early", "late"))
    assert story.emitted(early, "b1@9", "a1@8", "a2@9", late) == [(4, "a2"), (5, "a2")]


EVERYWHERE = [
    ("a OR b", "unrestricted", "a1@1", -1, "a1"),
    ("a BEFORE b", "unrestricted", "a1@1; b1@4", -1, "a1 b1"),
    ("a AND b AND c", "unrestricted", "c1@9; a1@1; b1@4", -1, "a1 b1 c1"),
    ("a WITHIN 5 us", "chronicle", "a1@1-4", -1, "a1"),
    ("a BEFORE b", "recent", "a1@1; b1@4", 4, "a1 b1"),
    ("a BEFORE b", "chronicle", "a1@1; b1@4", 4, "a1 b1"),
    ("a BEFORE b", "continuous", "a1@1; b1@4", 4, "a1 b1"),
    ("a BEFORE b", "cumulative", "a1@1; b1@4", 4, "a1 b1"),
    ("a UNLESS c WITHIN 5 us", "unrestricted", "a1@1-3", 8, "a1"),
    ("(a BEFORE b) UNLESS c WITHIN 5 us", "chronicle", "a1@1; b1@4", 9, "a1 b1"),
    ("a XOR b WITHIN 5 us", "unrestricted", "a1@1-3", 6, "a1"),
    ("a XOR b WITHIN 5 us", "unrestricted", "a1@1-7", -1, "a1"),
    ("(a BEFORE b) WITHOUT c", "unrestricted", "a1@1; b1@4-6", 3, "a1 b1"),
    ("(a AND b) WITHOUT c", "unrestricted", "b1@1; a1@4-6", -1, "a1 b1"),
    ("NO a FOR 5 us", "unrestricted", "a1@3", 8, "[3,8]"),
    ("a{2}", "unrestricted", "a1@1; a2@4", 4, "a1 a2"),
    ("a{2}", "chronicle", "a1@1; a2@4", 4, "a1 a2"),
    ("a+ EVERY 3 us", "unrestricted", "a1@1; a2@4", 7, "a1 a2"),
    ("a+ EVERY 3 us WITHIN 4 us", "unrestricted", "a1@1; a2@4", 5, "a1 a2"),
    ("(a UNLESS c WITHIN 5 us) BEFORE b", "chronicle", "a1@1; b1@4", 9, "a1 b1"),
    ("(a UNLESS c WITHIN 5 us) AND b", "unrestricted", "a1@1; b1@9", 6, "a1 b1"),
    ("(a XOR c WITHIN 5 us) BEFORE b", "chronicle", "a1@1; b1@4", 9, "a1 b1"),
    ("(a+ EVERY 3 us) BEFORE b", "chronicle", "a1@1; b1@3", 6, "a1 b1"),
    ("(a+ EVERY 3 us WITHIN 2 us) BEFORE b", "chronicle", "a1@1; b1@3", 5, "a1 b1"),
    ("(NO a FOR 5 us) BEFORE b", "chronicle", "a1@1; b1@9", 9, "b1"),
    ("(a XOR c WITHIN 5 us){1}", "chronicle", "a1@1", 6, "a1"),
    ("NO (a UNLESS c WITHIN 5 us) FOR 2 us", "unrestricted", "a1@1", 8, "[1,3]"),
    ("(a BEFORE b) UNLESS (c UNLESS d WITHIN 2 us) WITHIN 5 us", "unrestricted", "a1@1; b1@4", 11, "a1 b1"),
]


@pytest.mark.parametrize(("when", "context", "events", "instant", "shown"), EVERYWHERE)
def test_final_when_the_frontier_has_passed_what_is_looked_at(
    story: Any, when: str, context: str, events: str, instant: int, shown: str
) -> None:
    """An occurrence is final when the frontier has passed everything it depends on; -1: at once."""
    subscription = story.subscription(when, context=f"{context} UNBOUNDED")
    given = [event.strip() for event in events.split(";")]
    last = len(given) + 1
    expected = last if instant < 0 else last + 2
    found = story.emitted(subscription, *given, *([0, 0] if instant < 0 else [instant, instant + 1]), lateness=None)
    assert [(offset, text) for offset, text in found if text == shown] == [(expected, shown)]


def test_an_event_may_make_another_final(story: Any) -> None:
    """The frontier is moved by events too, for the records after them: the event that moves it is the one."""
    subscription = story.subscription("a BEFORE b", context="chronicle UNBOUNDED")
    assert story.emitted(subscription, "a1@1", "b1@4", "c1@6", "c2@7", lateness=2) == [(5, "a1 b1")]


def test_pending_notifications_are_not_notifications(story: Any) -> None:
    """An occurrence is not final before the frontier has passed it."""
    assert story.emitted(story.subscription("a UNLESS b WITHIN 5 us"), "a1@1", 6) == []


def test_a_subscription_sees_the_events_after_its_own_offset(story: Any) -> None:
    """A subscription sees the events after its own offset; with `SINCE t` also the earlier ones with `start >= t`."""
    plain = story.subscription("a", name="plain")
    since = story.subscription("a", name="replay", since=3)
    steps = ("a1@2-9", "a2@3-9", plain, since, "a3@1-9")
    found = evaluate(story.log(*steps), lateness=5)
    assert [(n.subscription, n.events[0]) for n in found] == [
        ("plain", "urn:a3"),
        ("replay", "urn:a3"),
        ("replay", "urn:a2"),
    ]


def test_since_pairs_as_if_registered_before(story: Any) -> None:
    """SINCE sees the earlier events in log order, exactly as if it had been registered before them."""
    subscription = story.subscription("a BEFORE b", context="chronicle UNBOUNDED", since=0)
    assert story.emitted("a1@1", "b1@2", "a2@3", subscription, "b2@4", 9) == [(4, "a1 b1"), (6, "a2 b2")]


def test_unsubscribe_keeps_what_was_final(story: Any) -> None:
    """Notifications whose last contributing record has a smaller offset remain, pending ones are dropped."""
    subscription = story.subscription("a UNLESS b WITHIN 5 us")
    assert story.emitted(subscription, "a1@1", "a2@2", 7, "-s", 99, lateness=None) == [(4, "a1")]


def test_a_name_may_be_subscribed_again(story: Any) -> None:
    """After an unsubscribe record the name is free; the new subscription starts without state."""
    subscription = story.subscription("a BEFORE b")
    steps = (subscription, "a1@1", "b1@2", "-s", "a2@3", subscription, "a3@4", "b2@5")
    assert story.emitted(*steps) == [(3, "a1 b1"), (8, "a3 b2")]


def test_a_living_name_is_refused(story: Any) -> None:
    """A second subscription under a name that is registered is refused."""
    with pytest.raises(UsageError, match="'s' at offset 2 is already registered"):
        story.emitted(story.subscription("a"), story.subscription("b"))


def test_a_background_change_holds_for_events_after_it(story: Any) -> None:
    """A change of the background graph holds for events after it."""
    hall = (iri(story.ex + "hall"), RDF_TYPE, iri(story.ex + "Room"))
    subscription = story.subscription("a", a="?a ex:room ?r . ?r a ex:Room")
    steps = (
        subscription,
        "a1@1 room=hall",
        BackgroundRecord(0, added=frozenset({hall})),
        "a2@2 room=hall",
        BackgroundRecord(0, removed=frozenset({hall})),
        "a3@3 room=hall",
    )
    assert story.emitted(*steps) == [(4, "a2")]


def test_since_sees_each_event_with_its_own_background(story: Any) -> None:
    """Earlier events are matched with the background at their offset."""
    hall = (iri(story.ex + "hall"), RDF_TYPE, iri(story.ex + "Room"))
    subscription = story.subscription("a", a="?a ex:room ?r . ?r a ex:Room", since=0)
    steps = ("a1@1 room=hall", BackgroundRecord(0, added=frozenset({hall})), "a2@2 room=hall", subscription)
    assert story.emitted(*steps) == [(4, "a2")]


def test_a_retraction_hides_an_event_from_later_subscriptions(story: Any) -> None:
    """A retraction hides an event from subscriptions that start after it; others keep it."""
    old = story.subscription("a BEFORE b", name="old")
    mid, new = (story.subscription("a BEFORE b", name=name, since=0) for name in ("mid", "new"))
    log = story.log(old, "a1@1", "a2@2", mid, RetractRecord(0, "urn:a1"), new, "b1@3")
    assert [(n.subscription, story.show(n)) for n in evaluate(log, lateness=0)] == [
        ("mid", "a1 b1"),
        ("old", "a1 b1"),
        ("mid", "a2 b1"),
        ("new", "a2 b1"),
        ("old", "a2 b1"),
    ]


def test_notifications_are_in_the_order_of_motet_run(story: Any) -> None:
    """`motet run` orders notifications by `(end, start, subscription, events, bindings)`."""
    names = ("y", "x")
    subscriptions = [story.subscription("a", name=name, a="?a ex:k ?k", deliver="SELECT ?k") for name in names]
    found = story.run(subscriptions, "a2@3 k=1; a1@3 k=2|1; a3@1-3 k=1; a4@2 k=1")
    assert [f"{n.subscription} {story.show(n)}" for n in found] == [
        "x a4 k=1",
        "y a4 k=1",
        "x a3 k=1",
        "y a3 k=1",
        "x a1 k=1",
        "x a1 k=2",
        "x a2 k=1",
        "y a1 k=1",
        "y a1 k=2",
        "y a2 k=1",
    ]


def test_events_add_their_graphs(story: Any) -> None:
    """EVENTS has no bindings and adds the events' graphs as sorted N-Quads lines."""
    (found,) = story.run([story.subscription("a AND b", deliver="EVENTS")], "b1@1; a1@2")
    assert (found.bindings, found.graphs) == (
        (),
        tuple(f"<urn:{n}1> {RDF_TYPE} {iri(story.ex + n.upper())} <urn:{n}1> ." for n in "ab"),
    )


def test_nothing_comes_after_the_end_of_time(story: Any) -> None:
    """After a tick at the end of time an event is late, whatever its end."""
    assert story.emitted(story.subscription("a"), END_OF_TIME, f"a1@{END_OF_TIME}", lateness=None) == []
