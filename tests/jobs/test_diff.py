"""What edited subscriptions gain and lose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from motet.fuzz.replays import expected_replay_lines, nth_replay, write_lake
from motet.jobs.diff import edit_status, notification_changes, replay_changes
from motet.jobs.replay import load_replay, replay_embedded
from motet.language.parse import parse
from motet.model.notifications import Notification

ONE = "SUBSCRIPTION one EVENT a WHEN a SIGNAL "
TWO = "SUBSCRIPTION two EVENT a WHEN a SIGNAL "


def test_subscriptions_are_compared_by_name_and_meaning() -> None:
    """White space is no edit."""
    old, new = parse(ONE + TWO), parse(ONE.replace(" ", "\n") + TWO.replace("SIGNAL", "EVENTS"))
    assert edit_status(old, new) == {"one": "unchanged", "two": "edited"}
    assert edit_status(old[:1], new[1:]) == {"one": "removed", "two": "added"}


def test_what_both_have_is_no_change() -> None:
    """Equal but for what they construct is two changes: one lost, one gained."""
    plain = [Notification("s", at, at, (f"urn:{at}",), ()) for at in range(4)]
    other = Notification("s", 2, 2, ("urn:2",), (), construct=("x",))
    found = list(notification_changes(plain[:3], [plain[1], other, plain[3]]))
    assert [(change.gained, change.notification) for change in found] == [
        (False, plain[0]),
        (False, plain[2]),
        (True, other),
        (True, plain[3]),
    ]


def test_random_subscriptions_against_others(tmp_path: Path) -> None:
    """Replaying two random files gives exactly what the reference engine says one has and the other has not."""
    for number in range(6):
        asked, others = nth_replay(13, number), nth_replay(14, number).subscriptions
        edited = replace(asked, subscriptions=tuple(replace(one, since=asked.since) for one in others))
        lake = str(tmp_path / str(number))
        write_lake(asked.log, Path(lake))
        before, after = (
            load_replay(lake, one.subscriptions, since=one.since, until=one.until) for one in (asked, edited)
        )
        found = [(one.gained, one.notification.to_line()) for one in replay_changes(before, after, replay_embedded)]
        old, new = set(expected_replay_lines(asked)), set(expected_replay_lines(edited))
        assert sorted(found) == sorted([*((False, line) for line in old - new), *((True, line) for line in new - old)])
