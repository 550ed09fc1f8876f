"""Section 14 of the language page, as far as the lake has to keep it: identity, time, frontier, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.builders import TEN, ManualClock

from motet.lake import AppendRequest, Lake
from motet.lake.manifest import commit_name
from motet.model.batches import EventRow, Triple, event_batch
from motet.model.errors import ConflictError, DecodeError, UsageError
from motet.model.records import SettingsChange, Subscribe, Tick
from motet.model.settings import Settings
from motet.model.times import END_OF_TIME, UNITS

SECOND, DAY = UNITS["s"], UNITS["d"]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(TEN)


@pytest.fixture
def lake(tmp_path: Path, clock: ManualClock) -> Lake:
    return Lake.open(tmp_path / "lake", clock=clock)


def event(name: str, at: int | None = TEN, value: str = "1", *more: Triple) -> EventRow:
    return EventRow(f"urn:{name}", at, at, (("<urn:s>", "<urn:p>", f'"{value}"'), *more))


def stored(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of the records after the first, which is that of the settings; times in microseconds."""
    table = pa.Table.from_batches(lake.snapshot().records(1))
    times = {name: table[name].cast(pa.int64()).to_pylist() for name in ("start", "end", "frontier")}
    return list(zip(*(times.get(name) or table[name].to_pylist() for name in columns), strict=True))


# Identity


def test_a_repetition_is_accepted_once(lake: Lake) -> None:
    """ "Repetition: the same IRI with the same content. It is accepted once and counted as repeated."."""
    attribute = ("<urn:a>", "<urn:cloudevents:attribute:id>", '"7"')
    assert lake.append([event("a")]).accepted == 1
    again = lake.append([event("a", TEN + 1, "1", attribute), event("b"), event("b")])
    assert (again.accepted, again.repeated, list(again.ids)) == (1, 2, ["urn:a", "urn:b", "urn:b"])
    assert stored(lake, "id", "end") == [("urn:a", TEN), ("urn:b", TEN)]


@pytest.mark.parametrize("fate", ["late", "retracted", "in the same request"])
def test_a_conflict_refuses_a_call_as_a_whole(lake: Lake, fate: str) -> None:
    """ "What is in the log stays, also when it is late or retracted"; "the other is rejected and names the IRI"."""
    lake.append([event("new")])
    if fate != "in the same request":
        assert lake.append([event("a", TEN - DAY)]).late == 1
    if fate == "retracted":
        lake.retract("urn:a")
    before = stored(lake, "id", "kind")
    request = [event("a", TEN, "1"), event("b"), event("a", TEN, "2")]
    with pytest.raises(ConflictError, match="event <urn:a>: it was accepted before with other content") as raised:
        lake.append(request)
    assert (raised.value.event, stored(lake, "id", "kind")) == ("urn:a", before)


def test_a_conflict_in_a_load_costs_only_its_event(lake: Lake) -> None:
    """ "In a load or a message only the event, as a dead letter"; "in one input … the first" stays."""
    lake.append([event("a")])
    receipt = lake.append([event("b"), event("a", TEN, "2"), event("b", TEN, "3"), event("c")], partial=True)
    assert (receipt.accepted, receipt.repeated) == (2, 0)
    assert [(rejection.row, rejection.event) for rejection in receipt.rejected] == [(1, "urn:a"), (2, "urn:b")]
    error = receipt.rejected[0].to_error()
    assert isinstance(error, ConflictError)
    assert error.to_json()["event"] == "urn:a"
    assert [id_ for (id_,) in stored(lake, "id")] == ["urn:a", "urn:b", "urn:c"]


def test_requests_of_one_commit_are_decided_one_by_one(lake: Lake) -> None:
    """A refused request does not refuse the others, and its events do not count for them."""
    requests = [
        AppendRequest([event("a", TEN, "1")]),
        AppendRequest([event("b"), event("a", TEN, "2")]),
        AppendRequest([event("b", TEN, "5"), event("a", TEN, "1")]),
    ]
    first, second, third = lake.append_group(requests).receipts
    assert isinstance(second, ConflictError)
    assert not isinstance(first, DecodeError) and not isinstance(third, DecodeError)
    assert (first.accepted, third.accepted, third.repeated, third.first) == (1, 1, 1, 2)
    assert stored(lake, "id") == [("urn:a",), ("urn:b",)]


def test_the_check_sees_what_other_writers_have_committed(tmp_path: Path, lake: Lake) -> None:
    """A conflict with a commit of another process is found, however it was overtaken."""
    other = Lake.open(tmp_path / "lake", clock=lake.clock)
    lake.append([event("x")])
    other.append([event("a", TEN, "other")])
    with pytest.raises(ConflictError, match="<urn:a>"):
        lake.append([event("a")])
    assert lake.holds(["urn:a", "urn:b"]) == [True, False]


# Time


def test_events_without_a_time_are_stamped(lake: Lake, clock: ManualClock) -> None:
    """ "Stamped with its writer's clock at the commit, or the frontier if that is later, and counted as stamped"."""
    assert lake.append([event("a", None)]).stamped == 1
    lake.tick(TEN + 9)
    clock.now = TEN + 5
    receipt = lake.append([event("c", None), event("b", TEN + 20)])
    assert (receipt.stamped, receipt.late) == (1, 0)
    assert stored(lake, "id", "end", "stamped") == [
        ("urn:a", TEN, True), (None, TEN + 9, False), ("urn:b", TEN + 20, False), ("urn:c", TEN + 9, True)
    ]  # fmt: skip


def test_after_the_end_of_time_every_event_is_late(lake: Lake) -> None:
    """ "After a tick at the end of time, every event" is late, stamped ones too."""
    lake.tick(END_OF_TIME, force=True)
    assert lake.append([event("a", None), event("b", TEN)]).late == 2


def test_an_event_too_far_ahead_is_rejected(lake: Lake, clock: ManualClock) -> None:
    """ "An event whose end is more than `ahead` … after its writer's clock is rejected"."""
    lake.append([event("edge", TEN + DAY)])
    with pytest.raises(DecodeError, match=r"event <urn:far>: it ends at .* more than 1 d after the clock"):
        lake.append([event("near"), event("far", TEN + DAY + 1)])
    receipt = lake.append([event("near"), event("far", TEN + DAY + 1)], partial=True)
    assert (receipt.accepted, [rejection.event for rejection in receipt.rejected]) == (1, ["urn:far"])
    clock.now += 1
    assert lake.append([event("far", TEN + DAY + 1)]).accepted == 1
    lake.change_settings(ahead=None)
    assert lake.append([event("announced", END_OF_TIME)]).accepted == 1


# The frontier


def test_no_announced_or_missing_time_makes_other_events_late(lake: Lake, clock: ManualClock) -> None:
    """ "min(E, clock) − lateness, where E is the greatest end of its events that are neither late nor stamped"."""
    lake.append([event("announced", TEN + DAY)])
    assert lake.snapshot().frontier == TEN - 5 * SECOND
    lake.tick(TEN)
    clock.now = TEN + DAY
    lake.append([event("stamped", None), event("late", TEN - 1)])
    assert lake.snapshot().frontier == TEN
    lake.append([event("history", TEN + 9 * SECOND)])
    assert lake.snapshot().frontier == TEN + 4 * SECOND


def test_a_tick_may_not_be_too_far_ahead(lake: Lake) -> None:
    """ "A tick may not be later than the writer's clock plus `ahead`"; the end of time needs force."""
    lake.tick(TEN + DAY)
    with pytest.raises(UsageError, match="more than 1 d ahead of the clock"):
        lake.tick(TEN + DAY + 1)
    with pytest.raises(UsageError, match="needs --force"):
        lake.tick(END_OF_TIME)
    lake.tick(END_OF_TIME, force=True)
    assert lake.snapshot().frontier == END_OF_TIME


def test_a_heartbeat_tick_is_valid_only_directly_after_its_commit(tmp_path: Path, lake: Lake) -> None:
    """ "A tick … valid only directly after the commit it was computed from"; commits without records do not count."""
    at = lake.append([event("a")]).last or 0
    lake.compact()
    assert lake.append_controls([Tick(TEN)], at=at + 1) == at + 1
    Lake.open(tmp_path / "lake", clock=lake.clock).append([event("b")])
    assert lake.append_controls([Tick(TEN + 1)], at=at + 2) is None
    assert lake.snapshot().frontier == TEN


def test_a_log_is_live_while_its_events_are_recent(lake: Lake, clock: ManualClock) -> None:
    """ "In the newest commit with an event that is not late, each such event ended at most `lateness` before"."""
    live = [lake.snapshot().is_live]
    steps: list[tuple[int, list[EventRow]]] = [
        (0, [event("a", TEN - 5 * SECOND)]),
        (0, [event("b", TEN), event("c", TEN - 5 * SECOND - 1)]),  # one is too old
        (1, [event("d", TEN - 4 * SECOND), event("e", TEN)]),
        (2, [event("f", TEN - 9 * SECOND)]),  # late only: nothing changes
        (9, [event("g", TEN), event("h", TEN + 9 * SECOND)]),
        (9, [event("i", None)]),
    ]
    for seconds, events in steps:
        clock.now = TEN + seconds * SECOND
        lake.append(events)
        live.append(lake.snapshot().is_live)
    assert live == [False, True, False, True, True, False, True]
    lake.compact()
    assert Lake.open(lake.store.root).snapshot().is_live
    lake.change_settings(lateness=None)
    assert not lake.snapshot().is_live


def test_a_commit_stores_its_writers_clock(lake: Lake, clock: ManualClock) -> None:
    """ "A commit stores its writer's clock.", one that appends no record too."""
    clocks = []
    for action in (lambda: lake.append([event("a")]), lake.compact, lambda: lake.retract("urn:a")):
        clock.now += 7
        action()
        clocks.append(Lake.open(lake.store.root).snapshot().clock)
    assert clocks == [TEN + 7, TEN + 14, TEN + 21]


# Settings


def test_the_first_commit_has_a_settings_record(tmp_path: Path) -> None:
    """ "A lake's first commit has a settings record."."""
    lake = Lake.open(tmp_path, lateness=7, entailment="rdfs")
    [record] = lake.snapshot().control_records()
    assert record == SettingsChange(Settings(lateness=7, entailment="rdfs"), 0)
    assert (lake.snapshot().version, lake.snapshot().settings) == (1, Settings(lateness=7, entailment="rdfs"))


@pytest.mark.parametrize("died_after", ["nothing", "commit"])
def test_a_lake_whose_creation_was_killed_is_created_again(tmp_path: Path, died_after: str) -> None:
    """A directory is a lake once its file is there, which is written after the first commit."""
    (Lake.open(tmp_path, lateness=7).store.path("lake.json")).unlink()
    if died_after == "nothing":
        (tmp_path / "manifest" / f"{1:020}.json").unlink()
    with pytest.raises(Exception, match="is not a lake"):
        Lake.open(tmp_path, create=False)
    lake = Lake.open(tmp_path, lateness=7)
    assert (lake.snapshot().count("settings"), lake.check()) == (1, [])


def test_settings_are_changed_by_records(tmp_path: Path, lake: Lake) -> None:
    """ "Settings are control records and can be changed. A writer uses those in force before its commit"."""
    other = Lake.open(tmp_path / "lake", clock=lake.clock)
    other.change_settings(lateness=2 * SECOND)
    assert lake.change_settings(lateness=2 * SECOND) == Settings(lateness=2 * SECOND)
    assert lake.snapshot().count("settings") == 2, "a change that changes nothing is no record"
    lake.append([event("a")])
    assert lake.snapshot().frontier == TEN - 2 * SECOND
    lake.compact()
    assert Lake.open(tmp_path / "lake").snapshot().settings.lateness == 2 * SECOND


def test_the_manifest_has_the_settings_of_the_records(lake: Lake) -> None:
    """Settings are appended by `change_settings` only; a check compares both."""
    with pytest.raises(UsageError, match="change_settings"):
        lake.append_controls([SettingsChange(Settings(lateness=0))])
    lake.change_settings(lateness=0)
    path = lake.store.path(commit_name(2))
    path.write_bytes(path.read_bytes().replace(b'"lateness":0', b'"lateness":1', 1))
    found = Lake.open(lake.store.root).check()
    assert found == ["the manifest's settings are not those of the last settings record"]


def test_a_writer_sees_the_settings_of_other_processes(tmp_path: Path, lake: Lake) -> None:
    """An event is not rejected by settings that another process has changed meanwhile."""
    Lake.open(tmp_path / "lake", clock=lake.clock).change_settings(ahead=None)
    assert lake.append([event("far", TEN + 9 * DAY)]).accepted == 1


def test_entailment_is_set_before_the_first_subscription(lake: Lake) -> None:
    """ "`entailment` can be set only before the first subscription"."""
    lake.change_settings(entailment="owl-rl")
    lake.append_controls([Subscribe("s", "SUBSCRIPTION s EVENT e WHEN e")])
    lake.unsubscribe("s")
    with pytest.raises(UsageError, match=r"entailment .* cannot be changed"):
        lake.change_settings(entailment=None)
    assert lake.change_settings(entailment="owl-rl", lateness=0).lateness == 0


def test_opening_with_another_setting_is_an_error(tmp_path: Path) -> None:
    """ "`motet.open(...)` with a setting on a lake that has another one is an error that says how to change it."."""
    Lake.open(tmp_path)
    assert Lake.open(tmp_path, lateness=5 * SECOND, ahead=DAY).snapshot().settings == Settings()
    with pytest.raises(UsageError, match=r"has the lateness '5 s', not 'unlimited'\n.*motet settings .* --lateness"):
        Lake.open(tmp_path, lateness=None)
    with pytest.raises(UsageError, match=r"has the time properties .*\n.*--time-properties"):
        Lake.open(tmp_path, time_properties=(("urn:t",),))
    with pytest.raises(UsageError, match="-1 is no lateness"):
        Lake.open(tmp_path / "new", lateness=-1)
    assert not (tmp_path / "new").exists()


def test_a_lake_has_an_identity(tmp_path: Path) -> None:
    """The id of a lake stays the same; two lakes have two."""
    one, two = (Lake.open(tmp_path / name) for name in "ab")
    assert one.id == Lake.open(tmp_path / "a").id != two.id


def test_the_content_of_an_xml_event_is_its_canonical_document(lake: Lake) -> None:
    """White space in tags and lifted triples make no difference; another text is a conflict, and so are its triples."""
    document = EventRow("urn:e:1", 1, 1, (), b"<a b='1' c='2'>x</a>")
    lake.append([document])
    same = document._replace(payload=b'<?xml version="1.0"?><a  c="2" b="1">x<!-- note --></a>')
    lifted = document._replace(triples=(("<urn:e:1>", "<urn:b>", '"1"'),))
    for repetition in (same, lifted):
        for events in ([repetition], event_batch([repetition])):
            assert lake.append(events).repeated == 1
    for conflict in (document._replace(payload=b"<a b='1' c='2'>y</a>"), lifted._replace(payload=None)):
        with pytest.raises(ConflictError):
            lake.append([conflict])
