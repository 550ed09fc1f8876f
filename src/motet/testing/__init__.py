"""Tools for tests of subscriptions: the notifications of some events, assertions about them, and a clock."""

from motet.testing.expectations import ExpectedNotification, FakeClock, assert_notifications, expect, notifications_of

__all__ = ["ExpectedNotification", "FakeClock", "assert_notifications", "expect", "notifications_of"]
