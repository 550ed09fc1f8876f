"""The text of derivation trees, line by line, for a small building."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from tests.builders import EX, MINUTE, TEN, minute_event

from motet.language.parse import parse
from motet.model.notifications import Notification
from motet.model.terms import RDFS, iri
from motet.model.times import END_OF_TIME
from motet.provenance.text import TextStyle, duration_text, why_json, why_lines
from motet.provenance.traced_log import TracedLog
from motet.provenance.why import why
from motet.reference import Record, RetractRecord, SubscribeRecord, TickRecord

STYLE = TextStyle({"ex": EX})
ONTOLOGY = [(iri(EX + "Optical"), iri(RDFS + "subClassOf"), iri(EX + "Smoke"))]
FIRE = f"""PREFIX ex: <{EX}>
SUBSCRIPTION fire
  EVENT smoke : ex:Smoke {{ ?smoke ex:room ?room ; ex:level ?level FILTER(?level > 3) }}
  EVENT heat : ex:Heat {{ ?heat ex:room ?room }}
  EVENT drill : ex:Drill {{ ?drill ex:room ?room }}
  WHEN (smoke BEFORE heat WITHIN 5 min) UNLESS drill WITHIN 10 min
  CONTEXT chronicle
  SELECT ?room"""


event = partial(minute_event, room="r1")


def notifications(log: TracedLog, name: str) -> list[Notification]:
    return [emission.notification for emission in log.emissions_by_name(name)]


def text(log: TracedLog, notification: Notification) -> list[str]:
    return [branch + line for branch, line, _ in why_lines(why(log, notification), STYLE)]


def test_the_tree_of_a_composite_notification() -> None:
    """Leaves with triples and reasoning, the relation, the bound, the key, the context's choice, the absence."""
    events = [event(1, "Optical", 0, level=5), event(2, "Smoke", 1, level=9), event(3, "Heat", 3)]
    log = TracedLog.from_events(parse(FIRE)[0], events, ontology=ONTOLOGY)
    [notification] = notifications(log, "fire")
    assert text(log, notification) == [
        f"fire {notification.id[:12]} on 2026-11-15, 10:00:00 to 10:03:00",
        "?room = ex:r1",
        "└─ UNLESS drill WITHIN 10 min  10:00:00 to 10:03:00",
        "   │  no drill with ?room = ex:r1 after 10:03:00 until 10:13:00",
        "   └─ BEFORE  10:00:00 to 10:03:00",
        "      │  10:00:00 is BEFORE 10:03:00, by 3 min",
        "      │  ?room is ex:r1 on both sides",
        "      │  3 min in all, at most 5 min allowed",
        "      │  chronicle: the oldest of 2 partners when the right side completed",
        "      ├─ smoke = urn:e:1  10:00:00  ?level = 5, ?room = ex:r1",
        "      │     a ex:Smoke (stated: ex:Optical), by ex:Optical rdfs:subClassOf ex:Smoke",
        "      │     ex:room ex:r1",
        "      │     ex:level 5",
        "      │     FILTER(?level > 3) is true, with ?level = 5",
        "      └─ heat = urn:e:3  10:03:00  ?room = ex:r1",
        "            a ex:Heat",
        "            ex:room ex:r1",
    ]


def test_members_gaps_and_absence() -> None:
    """An iteration has its members and gaps; a NO has its start point and no events."""
    run = f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a : ex:Heat WHEN a+ EVERY 2 min WITHIN 9 min SIGNAL"
    log = TracedLog.from_events(parse(run)[0], [event(1, "Heat", 0), event(2, "Heat", 2)])
    [notification] = notifications(log, "s")
    assert text(log, notification)[1:4] == [
        "└─ RUN, EVERY 2 min  10:00:00 to 10:02:00",
        "   │  2 members",
        "   │  2 min from 10:00:00 to the next, at most 2 min allowed",
    ]
    quiet = f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a : ex:Heat WHEN NO a FOR 2 min SIGNAL"
    log = TracedLog.from_events(parse(quiet)[0], [event(1, "Heat", 0)])
    [notification] = notifications(log, "s")
    assert text(log, notification)[1:] == [
        "└─ NO a FOR 2 min  10:00:00 to 10:02:00",
        "      counted from 10:00:00, the end of the previous occurrence",
        "      no a after 10:00:00 until 10:02:00",
    ]


def test_a_no_from_the_beginning_says_where_that_is() -> None:
    """The beginning is SINCE, the frontier that the subscribe record stores, or the least end of what it sees."""
    quiet = parse(f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a : ex:Heat WHEN NO a FOR 2 min SIGNAL")[0]
    since = replace(quiet, since=minute_event(0, "Smoke", 1).end)
    smoke, tick = minute_event(2, "Smoke", 1), TickRecord(3, END_OF_TIME)
    before = TickRecord(0, smoke.end)
    logs: dict[str, list[Record]] = {
        "SINCE": [SubscribeRecord(1, since), smoke, tick],
        "the beginning of the subscription: the frontier when it was registered": [
            before,
            SubscribeRecord(1, quiet),
            smoke,
            tick,
        ],
        "the beginning of the subscription: the least end of the events it sees": [
            SubscribeRecord(1, quiet),
            smoke,
            tick,
        ],
    }
    for origin, records in logs.items():
        log = TracedLog.from_records(records)
        [notification] = notifications(log, "s")
        assert text(log, notification)[2].strip() == f"counted from 10:01:00, {origin}"


def test_a_derived_event_has_its_upstream_tree() -> None:
    """A leaf that matched a derived event has the tree of the notification that derived it."""
    texts = (
        f"PREFIX ex: <{EX}> SUBSCRIPTION make EVENT a : ex:Heat WHEN a CONSTRUCT {{ ?this a ex:Alarm }}",
        f"PREFIX ex: <{EX}> SUBSCRIPTION see EVENT b : ex:Alarm WHEN b SIGNAL",
    )
    begin = [SubscribeRecord(number, parse(one)[0]) for number, one in enumerate(texts, -2)]
    log = TracedLog.from_records([*begin, event(1, "Heat", 0), TickRecord(2, END_OF_TIME)])
    [notification], [behind] = notifications(log, "see"), notifications(log, "make")
    assert text(log, notification)[1:] == [
        f"└─ b = urn:motet:derived:{behind.id[:12]}…:1  10:00:00",
        "   │  a ex:Alarm",
        f"   └─ derived by make {behind.id[:12]} on 2026-11-15, 10:00:00",
        "      └─ a = urn:e:1  10:00:00",
        "            a ex:Heat",
    ]
    assert "because" in str(why_json(why(log, notification))["derivation"])


def test_several_derivations_and_retracted_events() -> None:
    """One derivation is displayed and the others are counted; events that were retracted later are listed."""
    both = f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a {{ ?a ex:room ?r }} EVENT b : ex:Heat WHEN a OR b SIGNAL"
    begin, end = SubscribeRecord(0, parse(both)[0]), TickRecord(3, END_OF_TIME)
    log = TracedLog.from_records([begin, event(1, "Heat", 0), RetractRecord(2, "urn:e:1"), end])
    [notification] = notifications(log, "s")
    assert text(log, notification)[-2:] == [
        "1 other derivation gives the same notification",
        "retracted since: urn:e:1",
    ]


def test_an_unknown_choice_of_partners() -> None:
    """When events that decided the context's choice are missing, the operands are displayed without it."""
    pairs = f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b WITHIN 9 min CONTEXT chronicle"
    [subscription] = parse(pairs)
    events = [event(number, "Heat", number) for number in (1, 2, 3, 4)]
    found = notifications(TracedLog.from_events(subscription, events), "s")
    [second] = [one for one in found if one.events == ("urn:e:2", "urn:e:3")]
    alone = why(TracedLog.from_events(subscription, events[1:3]), second, is_complete=False)
    assert (alone.is_choice_known, [leaf.occurrence.events for leaf in alone.root.leaves()]) == (
        True,
        [frozenset({"urn:e:2"}), frozenset({"urn:e:3"})],
    )
    [subscription] = parse(
        f"PREFIX ex: <{EX}> SUBSCRIPTION s EVENT a EVENT b EVENT c WHEN (a AND b) BEFORE c WITHIN 9 min"
    )
    own = ("urn:e:1", "urn:e:2", "urn:e:4")
    made = Notification("s", TEN + MINUTE, TEN + 4 * MINUTE, own, bound(2, 1, 4))
    tree = why(TracedLog.from_events(subscription, [event(number, "Heat", number) for number in (1, 2, 3, 4)]), made)
    assert not tree.is_choice_known
    assert [branch + line for branch, line, _ in why_lines(tree, STYLE)][-1] == (
        "the partners chosen by recent are unknown: they depend on events that were not examined"
    )


def bound(*numbers: int) -> tuple[tuple[str, str], ...]:
    return tuple((name, iri(f"urn:e:{number}")) for name, number in zip("abc", numbers, strict=True))


@pytest.mark.parametrize(
    ("micros", "expected"),
    [(5, "0.005 ms"), (90_000_000, "1 min 30 s"), (86_400_000_000, "1 d"), (3_723_000_000, "1 h 2.05 min")],
)
def test_duration_text(micros: int, expected: str) -> None:
    """A duration has one or two units."""
    assert duration_text(micros) == expected
