"""What edited subscriptions gain and lose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.replays import expected_replay_lines, nth_replay

from motet.fuzz.lakes import write_lake
from motet.jobs.diff import edit_status, notification_changes, replay_changes
from motet.jobs.replay import load_replay, replay_embedded
from motet.language.parse import parse
from motet.model.notifications import Notification

ONE = "SUBSCRIPTION one EVENT a WHEN a SIGNAL "
TWO = "SUBSCRIPTION two EVENT a WHEN a SIGNAL "


def test_subscriptions_are_compared_by_name_and_meaning() -> None:
    """A difference in white space is not an edit."""
    old, new = parse(ONE + TWO), parse(ONE.replace(" ", "\n") + TWO.replace("SIGNAL", "EVENTS"))
    assert edit_status(old, new) == {"one": "unchanged", "two": "edited"}
    assert edit_status(old[:1], new[1:]) == {"one": "removed", "two": "added"}


def test_equal_notifications_are_no_change() -> None:
    """Notifications that differ only in their constructed graph are two changes: one lost, one gained."""
    plain = [Notification("s", at, at, (f"urn:{at}",), ()) for at in range(4)]
    other = Notification("s", 2, 2, ("urn:2",), (), construct=("x",))
    found = list(notification_changes(plain[:3], [plain[1], other, plain[3]]))
    assert [(change.gained, change.notification) for change in found] == [
        (False, plain[0]),
        (False, plain[2]),
        (True, other),
        (True, plain[3]),
    ]


def test_random_diffs_agree_with_the_reference_engine(tmp_path: Path) -> None:
    """The changes between two random files are those between the results of the reference engine."""
    for number in range(6):
        original, others = nth_replay(13, number), nth_replay(14, number).subscriptions
        edited = replace(
            original, subscriptions=tuple(replace(subscription, since=original.since) for subscription in others)
        )
        lake = str(tmp_path / str(number))
        write_lake(original.log, Path(lake))
        before, after = (
            load_replay(lake, one.subscriptions, since=one.since, until=one.until, late=one.late)
            for one in (original, edited)
        )
        found = [(one.gained, one.notification.to_line()) for one in replay_changes(before, after, replay_embedded)]
        old, new = set(expected_replay_lines(original)), set(expected_replay_lines(edited))
        assert sorted(found) == sorted([*((False, line) for line in old - new), *((True, line) for line in new - old)])
