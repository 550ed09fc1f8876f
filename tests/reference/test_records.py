"""What the writer of a log computes: late events, stamped times, the frontier after a commit (sections 11 and 14)."""

from __future__ import annotations

from motet.model.times import END_OF_TIME
from motet.reference import EventRecord, Record, SettingsRecord, SubscribeRecord, TickRecord, WrittenLog, write_log
from motet.reference.records import commits


def event(offset: int, end: int, *, name: str = "", commit: int | None = None, clock: int | None = None) -> EventRecord:
    return EventRecord(offset, name or f"urn:{offset}", end, end, frozenset(), commit=commit, clock=clock)


def stamped(offset: int, clock: int) -> EventRecord:
    return EventRecord(offset, f"urn:{offset}", 0, 0, frozenset(), stamped=True, clock=clock)


def frontiers(written: WrittenLog) -> list[int | None]:
    """Before each record, and after the last."""
    return [*(record.frontier for record in written.records), written.frontier]


def late(written: WrittenLog) -> list[str]:
    return [record.id for record in written.records if isinstance(record, EventRecord) and record.late]


def test_the_frontier_moves_only_between_commits() -> None:
    """“Every record stores the frontier in force before its commit”: all records of a commit the same."""
    log: list[Record] = [event(0, 9, commit=1), event(1, 4, commit=1), TickRecord(2, 7, commit=1), event(3, 20)]
    assert frontiers(write_log(log, 2)) == [None, None, None, 7, 18]
    assert [len(commit) for commit in commits(log)] == [3, 1]


def test_events_of_one_commit_never_make_each_other_late() -> None:
    """“Events of one commit never make each other late.” In commits of their own the same events do."""
    ends = (9, 4, 6)
    together = write_log([event(offset, end, commit=1) for offset, end in enumerate(ends)], 0)
    apart = write_log([event(offset, end) for offset, end in enumerate(ends)], 0)
    assert (late(together), late(apart)) == ([], ["urn:1", "urn:2"])


def test_the_frontier_never_falls() -> None:
    """Neither an earlier tick nor an event that is not late moves it back."""
    assert frontiers(write_log([TickRecord(0, 9), TickRecord(1, 5), event(2, 9)], 3)) == [None, 9, 9, 9]


def test_after_the_end_of_time_every_event_is_late() -> None:
    """“(after a tick at the end of time, every event)”"""
    assert late(write_log([TickRecord(0, END_OF_TIME), event(1, END_OF_TIME)], None)) == ["urn:1"]


def test_the_clock_caps_the_frontier() -> None:
    """“min(E, clock) − lateness”; “With `ahead` unlimited it is `E − lateness`”."""
    announced = [event(1, 90, clock=50), event(2, 45, clock=51)]
    assert frontiers(write_log(announced, 10)) == [None, 40, 40]
    unlimited: list[Record] = [SettingsRecord(0, 10, ahead=None), *announced]
    assert (frontiers(write_log(unlimited, 10)), late(write_log(unlimited, 10))) == ([None, None, 80, 80], ["urn:2"])


def test_late_and_stamped_events_move_nothing() -> None:
    """“E the greatest `end` of its events that are neither late nor stamped”"""
    assert frontiers(write_log([TickRecord(0, 9), event(1, 8, clock=100), stamped(2, 100)], 0)) == [None, 9, 9, 9]


def test_stamped_events_have_the_clock_or_the_frontier_if_that_is_later() -> None:
    """So a stamped event is never late, except after the end of time."""
    written = write_log([stamped(0, 5), TickRecord(1, 20, clock=21), stamped(2, 10), stamped(3, 30)], 0)
    events = [record for record in written.records if isinstance(record, EventRecord)]
    assert [(record.start, record.end, record.late) for record in events] == [
        (5, 5, False),
        (20, 20, False),
        (30, 30, False),
    ]


def test_what_is_too_far_ahead_is_rejected() -> None:
    """“An event whose end is more than `ahead` […] after its writer's clock is rejected”; a tick likewise."""
    log: list[Record] = [
        SettingsRecord(0, 0, ahead=5),
        event(1, 16, clock=10),
        event(2, 15, clock=10),
        TickRecord(3, 16, clock=10),
    ]
    written = write_log(log, 0)
    assert [record.offset for record in written.records] == [0, 2]
    assert frontiers(written) == [None, None, 10]


def test_the_settings_before_a_commit_hold_for_it() -> None:
    """“A writer uses those in force before its commit”: a change in the same commit does not."""
    log: list[Record] = [
        SettingsRecord(0, None, commit=1),
        event(1, 9, commit=1),
        event(2, 10),
        SettingsRecord(3, 4),
        event(4, 20),
    ]
    assert frontiers(write_log(log, 0)) == [None, None, 9, 9, 9, 16]


def test_what_is_in_the_log_stays() -> None:
    """“What is in the log stays, also when it is late or retracted; in one input […] the first.”"""
    log: list[Record] = [
        TickRecord(0, 9),
        event(1, 5, name="urn:e"),
        event(2, 50, name="urn:e"),
        event(3, 50, name="urn:e", commit=3),
    ]
    written = write_log(log, 0)
    assert ([record.offset for record in written.records], late(written)) == ([0, 1], ["urn:e"])


def test_a_subscription_stores_the_frontier_of_its_commit(story: object) -> None:
    """The beginning of a subscription can be read from its record."""
    subscription = story.subscription("a")  # type: ignore[attr-defined]
    log: list[Record] = [
        TickRecord(0, 9, commit=1),
        SubscribeRecord(1, subscription, commit=1),
        SubscribeRecord(2, subscription),
    ]
    assert [record.frontier for record in write_log(log, 0).records] == [None, None, 9]
