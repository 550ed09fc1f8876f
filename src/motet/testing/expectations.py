"""Runs subscriptions over events in a lake of its own, and compares the notifications with those that are expected.

A difference is an AssertionError that lists what is missing and what is unexpected, and says by why-not what kept the
other events from contributing. `FakeClock` is the clock of tests that depend on time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from motet.embedded.cloud import Cloud
from motet.embedded.opening import load_background, open_lake
from motet.lake import Snapshot
from motet.language.syntax import Subscription
from motet.model.errors import UsageError, check_type
from motet.model.notifications import Notification
from motet.model.records import EVENT
from motet.model.settings import SettingArguments, parse_setting_duration
from motet.model.times import Instant, to_datetime, to_micros

if TYPE_CHECKING:
    from motet.embedded.opening import Files
    from motet.embedded.publishing import EventData


MAX_EXPLAINED = 5  # events whose why-not is in a difference
_QUADS = {"Quad", "Triple"}


@dataclass(frozen=True)
class ExpectedNotification:
    """Some fields of a notification; those that are None may have any value. Made by `expect`."""

    subscription: str | None = None
    events: tuple[str, ...] | None = None
    start: datetime | None = None
    end: datetime | None = None
    bindings: Mapping[str, object] = field(default_factory=dict)
    is_complete: bool = False  # all variables of the notification are in the bindings

    def matches(self, found: Notification) -> bool:
        """Whether a notification has these fields."""
        fields: list[tuple[object, object]] = [
            (self.subscription, found.subscription),
            (None if self.events is None else sorted(self.events), sorted(found.events)),
            (self.start, found.start),
            (self.end, found.end),
        ]
        if any(expected not in (None, actual) for expected, actual in fields):
            return False
        if self.is_complete and set(self.bindings) != set(found):
            return False
        return all(variable in found and found[variable] == value for variable, value in self.bindings.items())

    def __str__(self) -> str:
        times = {"start": self.start, "end": self.end}
        return _text(self.subscription, self.bindings, self.events, {n: t for n, t in times.items() if t is not None})


def expect(
    subscription: str | None = None,
    *,
    events: Iterable[str] | None = None,
    start: Instant | None = None,
    end: Instant | None = None,
    **bindings: object,
) -> ExpectedNotification:
    """A notification with these fields and values of variables; it may have others.

    >>> print(expect("hot", events=["urn:e:1"], room="urn:room:lab"))
    hot {'room': 'urn:room:lab'} of urn:e:1
    """
    check_type("the subscription", subscription, str, None)
    at = [None if instant is None else to_datetime(to_micros(instant)) for instant in (start, end)]
    return ExpectedNotification(subscription, None if events is None else tuple(events), at[0], at[1], bindings)


def notifications_of(
    events: EventData | Sequence[EventData],
    subscriptions: str | Subscription | Sequence[str | Subscription],
    *,
    ontology: Files = (),
    clock: Callable[[], datetime] | None = None,
    **settings: Unpack[SettingArguments],
) -> list[Notification]:
    """The notifications of subscriptions over events, in log order.

    The events are what `publish` takes, or a list of it, published one after another. By default no event is late or
    too far ahead, whatever its time; events without a time get that of a clock that advances by a second per call. At
    the end everything that is pending is decided.

    >>> found = notifications_of('<urn:s> <urn:p> "o" <urn:e:1> .', "SUBSCRIPTION all EVENT e WHEN e")
    >>> [notification.events for notification in found]
    [('urn:e:1',)]
    """
    with tempfile.TemporaryDirectory() as folder:
        return _run(Path(folder), events, subscriptions, ontology, clock, settings)[0]


def assert_notifications(
    events: EventData | Sequence[EventData],
    subscriptions: str | Subscription | Sequence[str | Subscription],
    expected: Sequence[Mapping[str, object] | ExpectedNotification],
    *,
    ontology: Files = (),
    clock: Callable[[], datetime] | None = None,
    **settings: Unpack[SettingArguments],
) -> list[Notification]:
    """Assert that subscriptions have exactly the expected notifications over events, in any order; returns them.

    An expected notification is a dictionary of the values of all its variables, or made by `expect`. The other
    arguments are those of `notifications_of`. The error of a difference says what kept events from contributing.

    >>> hot = "SUBSCRIPTION hot EVENT e { ?e <urn:celsius> ?c FILTER(?c > 30) } WHEN e SELECT ?c"
    >>> found = assert_notifications({"urn:celsius": 35}, hot, [{"c": 35}])
    """
    wanted = [_expectation(one) for one in expected]
    with tempfile.TemporaryDirectory() as folder:
        found, snapshot = _run(Path(folder), events, subscriptions, ontology, clock, settings)
        missing, unexpected = _differences(wanted, found)
        if missing or unexpected:
            raise AssertionError("\n".join(_difference_lines(missing, unexpected, found, snapshot)))
    return found


def _expectation(expected: object) -> ExpectedNotification:
    if isinstance(expected, ExpectedNotification):
        return expected
    if isinstance(expected, Mapping):
        return ExpectedNotification(bindings=expected, is_complete=True)
    raise UsageError(
        f"{expected!r} is no expected notification", advice="Give a dict of its variables, or motet.testing.expect(…)."
    )


def _run(
    folder: Path,
    events: Any,
    subscriptions: str | Subscription | Sequence[str | Subscription],
    ontology: Files,
    clock: Callable[[], datetime] | None,
    settings: SettingArguments,
) -> tuple[list[Notification], Snapshot]:
    """The notifications, and the snapshot of the lake they were computed in."""
    arguments: SettingArguments = {"lateness": None, "ahead": None, **settings}
    own_clock = FakeClock()
    background = load_background(ontology, None, "warn")
    lake = open_lake(folder / "lake", arguments, clock or own_clock, durable=False)
    texts = [subscriptions] if isinstance(subscriptions, str | Subscription) else list(subscriptions)
    found: list[Notification] = []
    with Cloud(lake) as cloud:
        if background:
            cloud.background.add(background)
        for text in texts:
            cloud.subscribe(text, found.append)
        for data in _requests(events):
            cloud.publish(data)
            own_clock.advance("1 s")
        cloud.tick()
    return found, lake.snapshot()


def _requests(events: Any) -> Sequence[Any]:
    """What is published, call by call."""
    is_list = isinstance(events, list | tuple)
    is_graph = is_list and len(events) > 0 and all(type(item).__name__ in _QUADS for item in events)  # of pyoxigraph
    return events if is_list and not is_graph else [events]


def _differences(
    expected: Sequence[ExpectedNotification], found: Sequence[Notification]
) -> tuple[list[ExpectedNotification], list[Notification]]:
    """The expected notifications that were not found, and the notifications that were not expected."""
    missing, unexpected = [], list(found)
    for wanted in sorted(expected, key=_specificity, reverse=True):
        match = next((one for one in unexpected if wanted.matches(one)), None)
        if match is None:
            missing.append(wanted)
        else:
            unexpected.remove(match)
    return missing, unexpected


def _specificity(wanted: ExpectedNotification) -> int:
    fields = (wanted.subscription, wanted.events, wanted.start, wanted.end)
    return sum(one is not None for one in fields) + len(wanted.bindings) + wanted.is_complete


def _difference_lines(
    missing: Sequence[ExpectedNotification],
    unexpected: Sequence[Notification],
    found: Sequence[Notification],
    snapshot: Snapshot,
) -> Iterator[str]:
    yield f"the notifications differ: {len(missing)} missing, {len(unexpected)} unexpected, of {len(found)} found"
    for wanted in missing:
        yield f"  - missing:    {wanted}"
    for one in unexpected:
        yield f"  + unexpected: {_found_text(one)}"
    if missing:
        yield from _explanations(missing, found, snapshot)


def _explanations(
    missing: Sequence[ExpectedNotification], found: Sequence[Notification], snapshot: Snapshot
) -> Iterator[str]:
    """The why-not of events that a missing notification names, or of those that contributed to none."""
    names = [wanted.subscription for wanted in missing if wanted.subscription]
    subscriptions = [name for name in snapshot.subscriptions() if not names or name in names]
    requested = [event for wanted in missing for event in wanted.events or ()]
    for name in subscriptions:
        contributing = {event for one in found if one.subscription == name for event in one.events}
        ids = list(dict.fromkeys(requested)) or [event for event in _event_ids(snapshot) if event not in contributing]
        if ids:
            yield f"why-not, for {name}:"
            yield from map(partial(_explanation, snapshot, name), ids[:MAX_EXPLAINED])
        else:
            yield f"every event contributes to a notification of {name}"
        if len(ids) > MAX_EXPLAINED:
            yield f"  and {len(ids) - MAX_EXPLAINED} further events"


def _explanation(snapshot: Snapshot, name: str, event: str) -> str:
    from motet.jobs.investigate import find_event, from_lake
    from motet.provenance.obstacle_text import obstacle_text
    from motet.provenance.why_not import why_not

    try:
        found = find_event(snapshot, event)
        log = from_lake(snapshot, name, found.interval, prefixes={}, required=found.required)
        answer = why_not(log.traced_log, name, event)
    except UsageError as error:  # the event is not there, or it contributes
        return f"  <{event}>: {error.message}"
    return f"  <{event}>: {obstacle_text(answer.nearest, event, log.style.for_day(answer.start))}"


def _event_ids(snapshot: Snapshot) -> Iterator[str]:
    for batch in snapshot.records(columns=["kind", "id"]):
        for kind, event in zip(batch.column("kind").to_pylist(), batch.column("id").to_pylist(), strict=True):
            if kind == EVENT:
                yield event


def _found_text(found: Notification) -> str:
    return _text(found.subscription, dict(found), found.events, {"start": found.start, "end": found.end})


def _text(
    subscription: str | None,
    bindings: Mapping[str, object],
    events: Sequence[str] | None,
    times: Mapping[str, datetime],
) -> str:
    parts = [subscription or "", str(dict(bindings)), f"of {', '.join(events)}" if events else ""]
    parts += [f"{name} {time.isoformat()}" for name, time in times.items()]
    return " ".join(part for part in parts if part)


# The clock


class FakeClock:
    """The ``clock`` of `motet.open` in a test.

    >>> clock = FakeClock("2026-11-15T10:00:00Z")
    >>> clock.advance("5 min")
    >>> clock().isoformat()
    '2026-11-15T10:05:00+00:00'
    """

    def __init__(self, now: Instant = "2000-01-01T00:00:00Z") -> None:
        self._micros = to_micros(now)

    def __call__(self) -> datetime:
        return to_datetime(self._micros)

    def set(self, now: Instant) -> None:
        """Set the clock to an instant, perhaps an earlier one."""
        self._micros = to_micros(now)

    def advance(self, duration: str | timedelta) -> None:
        """Move the clock by a duration: a text such as ``"10 s"``, or a `timedelta`."""
        if isinstance(duration, timedelta):
            self._micros += duration // timedelta(microseconds=1)
            return
        micros = parse_setting_duration(duration, "none") if isinstance(duration, str) else None
        if micros is None:
            raise UsageError(f"{duration!r} is not a duration", advice="Write '10 s', or give a timedelta.")
        self._micros += micros
