"""Cutting the log at its control records."""

from motet.language.parse import parse
from motet.language.syntax import Subscription
from motet.plan.registry import Registry
from motet.plan.timeline import Control, Stretch, Timeline

ALL = "SUBSCRIPTION all EVENT e WHEN e"
OLD = 'SUBSCRIPTION old SINCE "1970-01-01T00:00:01Z" EVENT e WHEN e'
FACT = ("<urn:s>", "<urn:p>", "<urn:o>")


def subscription(text: str) -> Subscription:
    return parse(text)[0]


def subscribe(offset: int, text: str) -> Control:
    return Control(offset, "subscribe", subscription(text).name, text, ())


def test_a_subscription_sees_the_events_after_its_own_offset() -> None:
    """Before it and after its end there is nothing to match."""
    controls = [subscribe(3, ALL), Control(7, "unsubscribe", "all", None, ())]
    assert list(Timeline().advance(controls, 10)) == [Stretch(Registry((subscription(ALL),)), 4, 7)]


def test_a_background_change_holds_for_events_after_it() -> None:
    """The stretch is cut where the background changes."""
    controls = [subscribe(0, ALL), Control(4, "background", None, "add", (FACT,))]
    before = Registry((subscription(ALL),))
    after = Registry((subscription(ALL),), frozenset({FACT}))
    assert list(Timeline().advance(controls, 8)) == [Stretch(before, 1, 4), Stretch(after, 5, 8)]


def test_background_triples_can_be_removed() -> None:
    """What was added and removed again is not in force."""
    timeline = Timeline()
    add, remove = (Control(i, "background", None, text, (FACT,)) for i, text in enumerate(("add", "remove")))
    assert list(timeline.advance([add, remove], 5)) == []
    assert timeline.registry == Registry()


def test_since_also_sees_the_past_as_it_was() -> None:
    """Earlier events are replayed, each with the background of its own time, without those retracted since."""
    controls = [
        Control(2, "background", None, "add", (FACT,)),
        Control(5, "retract", "urn:e:1", None, ()),
        subscribe(6, OLD),
    ]
    old, hidden = (subscription(OLD),), frozenset({"urn:e:1"})
    assert list(Timeline().advance(controls, 9)) == [
        Stretch(Registry(old), 0, 2, since=1_000_000, hidden=hidden, emitted_at=6),
        Stretch(Registry(old, frozenset({FACT})), 2, 6, since=1_000_000, hidden=hidden, emitted_at=6),
        Stretch(Registry(old, frozenset({FACT})), 7, 9),
    ]


def test_reading_in_pieces_gives_the_same_stretches() -> None:
    """It does not matter how far the log had got when it was read."""
    controls = [subscribe(1, ALL), subscribe(4, OLD)]
    whole = list(Timeline().advance(controls, 8))
    pieces = Timeline()
    first = list(pieces.advance(controls[:1], 3))
    second = list(pieces.advance(controls[1:], 8))
    assert first == [Stretch(Registry((subscription(ALL),)), 2, 3)]
    assert second[0] == Stretch(Registry((subscription(ALL),)), 3, 4)
    assert second[1:] == whole[1:]


def test_subscribing_again_under_one_name_replaces() -> None:
    """One name is one subscription."""
    timeline = Timeline()
    list(timeline.advance([subscribe(0, ALL), subscribe(1, ALL.replace("WHEN e", "WHEN e SIGNAL"))], 2))
    assert timeline.registry.subscriptions == (subscription(ALL.replace("WHEN e", "WHEN e SIGNAL")),)
