"""Columns of notifications give the same lines, in the same order, as notifications one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.model.batches import notification_batch
from motet.model.notification_lines import json_lines, sorted_lines
from motet.model.notifications import Notification
from motet.model.terms import XSD, iri, literal

IRIS = st.sampled_from(["urn:a", "urn:ab", "urn:a:1", 'urn:"', "urn:é", "urn:\U0001f525", "urn:z"])
TERMS = IRIS.map(iri) | st.builds(
    literal, st.text(max_size=4), datatype=st.sampled_from([None, XSD + "integer"])
)  # fmt: skip
NOTIFICATIONS = st.builds(
    Notification,
    st.sampled_from(["fire", "fire-spreads", "a"]),
    st.sampled_from([-62_135_596_800_000_000, -1, 0, 1_800_000_000_000_000, 253_402_300_799_999_999]),
    st.sampled_from([253_402_300_799_999_998, 253_402_300_799_999_999]),
    st.lists(IRIS, min_size=1, max_size=3).map(lambda ids: tuple(sorted(ids))),
    st.dictionaries(st.sampled_from("xyz"), TERMS).map(lambda bindings: tuple(sorted(bindings.items()))),
    st.none() | st.lists(st.text(max_size=3), max_size=2).map(tuple),
    st.none() | st.lists(st.text(max_size=3), max_size=2).map(tuple),
)


@given(st.lists(NOTIFICATIONS, max_size=8))
def test_the_lines_of_columns_are_those_of_notifications(notifications: list[Notification]) -> None:
    """With all kinds of terms and times, and also of a part of a batch."""
    batch = notification_batch((notification, 0) for notification in notifications)
    assert json_lines(batch).to_pylist() == [notification.to_line() for notification in notifications]
    assert json_lines(batch.slice(1)).to_pylist() == [notification.to_line() for notification in notifications[1:]]


@given(st.lists(NOTIFICATIONS, max_size=8))
def test_the_order_is_that_of_the_sort_key(notifications: list[Notification]) -> None:
    """Also over several batches."""
    batches = [notification_batch([(notification, 0)]) for notification in notifications]
    ordered = sorted(notifications, key=lambda notification: notification.sort_key)
    lines = [line for lines in sorted_lines(batches) for line in lines]
    assert lines == [notification.to_line() for notification in ordered]
