"""What ``motet why`` and ``motet why-not`` print, over files and over a lake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.builders import EX, MINUTE, TEN, minute_event

import motet
from motet.cli.main import main
from motet.codec.decode import decode_bytes
from motet.jobs import investigate
from motet.lake import Lake
from motet.language.parse import parse
from motet.model.batches import notification_batch
from motet.model.notifications import Notification
from motet.model.terms import iri
from motet.provenance.traced_log import TracedLog

PAIR = f"""PREFIX ex: <{EX}>
SUBSCRIPTION pair
  EVENT a : ex:A
  EVENT b : ex:B
  WHEN a BEFORE b WITHIN 5 min CONTEXT unrestricted SIGNAL"""
SINGLE = f"PREFIX ex: <{EX}> SUBSCRIPTION single EVENT a : ex:A WHEN a SIGNAL"


EVENTS = [
    minute_event(1, "A", 0, has_time=True),
    minute_event(2, "B", 3, has_time=True),
    minute_event(3, "B", 9, has_time=True),
]


def nquads() -> str:
    return "".join(f"{s} {p} {o} {iri(event.id)} .\n" for event in EVENTS for s, p, o in sorted(event.triples))


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "pair.motet").write_text(PAIR)
    (tmp_path / "e.nq").write_text(nquads())
    return ["--subscriptions", str(tmp_path / "pair.motet"), "--events", str(tmp_path / "e.nq")]


@pytest.fixture
def lake(tmp_path: Path) -> tuple[str, Notification]:
    """A lake with a subscription of single events and its one notification."""
    received: list[Notification] = []
    with motet.open(tmp_path / "lake") as cloud:
        cloud.subscribe(SINGLE, received.append)
        cloud.publish(nquads())
    [notification] = received
    return str(tmp_path / "lake"), notification


def pair_notification() -> Notification:
    [emission] = TracedLog.from_events(parse(PAIR)[0], EVENTS).emissions_by_name()
    return emission.notification


def test_why_over_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A prefix of an id is enough; IRIs are shortened by the prefixes of the file."""
    notification = pair_notification()
    assert main(["why", notification.id[:6], *files]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"pair {notification.id[:12]} on 2026-11-15, 10:00:00 to 10:03:00",
        "└─ BEFORE  10:00:00 to 10:03:00",
        "   │  10:00:00 is BEFORE 10:03:00, by 3 min",
        "   │  3 min in all, at most 5 min allowed",
        "   │  unrestricted: the only partner when the right side completed",
        "   ├─ a = urn:e:1  10:00:00",
        "   │     a ex:A",
        "   └─ b = urn:e:2  10:03:00",
        "         a ex:B",
    ]


def test_why_as_json(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The derivation tree as nested objects, and the number of examined events."""
    notification = pair_notification()
    assert main(["why", notification.id, *files, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["notification"], printed["examined"], printed["of_events"]) == (notification.id, 3, 3)
    assert [part["events"] for part in printed["derivation"]["parts"]] == [["urn:e:1"], ["urn:e:2"]]


def test_why_not_over_files(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest obstacle, and with --all those of every leaf."""
    call = ["why-not", "--subscription", "pair", "--event", "urn:e:3", *files]
    apart = "9 min in all where 5 min are allowed, with urn:e:1 at 10:00:00"
    far = f"as b it matches, but in a BEFORE b WITHIN 5 min: {apart}"
    assert main(call) == 0
    assert capsys.readouterr().out.splitlines() == ["pair and urn:e:3 on 2026-11-15", f"└─ {far}", "1 more with --all"]
    assert main([*call, "--all"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [f"├─ {far}", "└─ as a: class ex:A: the event is an ex:B"]
    assert main([*call, "--json"]) == 0
    reasons = json.loads(capsys.readouterr().out)["reasons"]
    assert [(one["leaf"], one["reason"]["kind"]) for one in reasons] == [("b", "too far"), ("a", "wrong class")]


def test_why_over_a_lake(lake: tuple[str, Notification], capsys: pytest.CaptureFixture[str]) -> None:
    """A stored notification is found by its id; only events that can matter are examined."""
    path, notification = lake
    assert main(["why", notification.id[:8], "--lake", path, "--prefix", f"ex={EX}"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1:] == ["└─ a = urn:e:1  10:00:00", "      a ex:A"]
    assert printed.err == "examined 1 of 3 events: those near enough in time\n"
    call = ["why-not", "--subscription", "single", "--lake", path, "--event"]
    assert main([*call, "<urn:e:2>", "--prefix", f"ex={EX}"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "└─ as a: class ex:A: the event is an ex:B"
    assert main([*call, "urn:e:1"]) == 0
    assert f"notified: {notification.id[:12]}" in capsys.readouterr().out


def test_a_composite_pattern_in_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The events near a notification are read from the lake, near misses included."""
    notification = pair_notification()
    lake = Lake.open(tmp_path / "lake")
    lake.subscribe("pair", PAIR)
    [decoded] = decode_bytes(nquads().encode(), "application/n-quads")
    last = lake.append(decoded.events).last
    assert last is not None
    lake.commit_notifications(notification_batch([(notification, last)]), 0, last + 1)
    assert main(["why", notification.id[:9], "--lake", str(tmp_path / "lake")]) == 0
    printed = capsys.readouterr()
    assert "   ├─ a = urn:e:1  10:00:00" in printed.out.splitlines()
    assert printed.err == ""
    call = ["why-not", "--lake", str(tmp_path / "lake"), "--subscription", "pair", "--event", "urn:e:2"]
    assert main(call) == 0
    assert "notified" in capsys.readouterr().out
    assert main([*call[:-1], "urn:e:3"]) == 0
    assert "9 min in all where 5 min are allowed" in capsys.readouterr().out


def test_reasoning_starts_with_the_background_in_a_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An event before the first background record is read without reasoning: it did not match, and why-not says so."""
    same, path = "http://www.w3.org/2002/07/owl#sameAs", str(tmp_path / "lake")
    received: list[Notification] = []
    with motet.open(path) as cloud:
        cloud.subscribe("SUBSCRIPTION s EVENT e { ?e <urn:p> ?o } WHEN e", received.append)
        for number in (1, 2):
            event = f"urn:e:{number}"
            cloud.publish(f'<{event}> <{same}> <urn:x> <{event}> .\n<urn:x> <urn:p> "1" <{event}> .')
            cloud.background.add("<urn:C> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:D> .")
    assert [notification.events for notification in received] == [("urn:e:2",)]
    call = ["why-not", "--subscription", "s", "--lake", path, "--event"]
    assert main([*call, "urn:e:1"]) == 0
    assert "notified" not in capsys.readouterr().out
    assert main([*call, "urn:e:2"]) == 0
    assert "notified: " in capsys.readouterr().out


def test_late_and_retracted_in_a_lake(lake: tuple[str, Notification], capsys: pytest.CaptureFixture[str]) -> None:
    """For a late event the frontier is shown; a retracted one is marked."""
    path, notification = lake
    opened = Lake.open(path)
    opened.tick(TEN + 60 * MINUTE)
    opened.retract("urn:e:1")
    with motet.open(path) as cloud:
        cloud.publish(nquads().replace("urn:e:1", "urn:e:9"))
    assert main(["why-not", "--subscription", "single", "--lake", path, "--event", "urn:e:9"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        "└─ late: it ends at 10:00:00, the frontier before its commit was at 11:00:00"
    )
    assert main(["why", notification.id, "--lake", path]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "retracted since: urn:e:1"


def test_why_not_of_a_derived_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its interval and its causes are those of the stored notification that its IRI names."""
    received: list[Notification] = []
    with motet.open(tmp_path / "lake") as cloud:
        cloud.subscribe(SINGLE.replace("SIGNAL", "CONSTRUCT { ?this a ex:D }"), received.append)
        cloud.subscribe(PAIR.replace("ex:A", "ex:D"))
        cloud.publish(nquads())
    derived = f"urn:motet:derived:{received[0].id}"
    call = ["why-not", "--subscription", "pair", "--lake", str(tmp_path / "lake"), "--event"]
    assert main([*call, f"{derived}:1"]) == 0
    assert "as a: notified" in capsys.readouterr().out
    assert main([*call, f"{derived}:2"]) == 2
    assert f"there is no event <{derived}:2>" in capsys.readouterr().err
    assert main([*call, "urn:motet:derived:ab:1"]) == 2
    assert "no stored notification of" in capsys.readouterr().err


def test_many_events_are_filtered_by_leaf(
    files: list[str],
    lake: tuple[str, Notification],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many events only those that match a leaf are examined, and the answer is the same."""
    monkeypatch.setattr(investigate, "UNFILTERED_EVENTS", 0)
    assert main(["why-not", "--subscription", "pair", "--event", "urn:e:3", *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reasons"][0]["reason"]["kind"] == "too far"
    path, _ = lake
    assert main(["why-not", "--subscription", "single", "--event", "urn:e:3", "--lake", path, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["reasons"][0]["reason"]["kind"], printed["examined"], printed["of_events"]) == ("wrong class", 1, 3)


def test_only_the_nearest_events_are_examined(
    lake: tuple[str, Notification], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past a limit the events nearest in time are examined, and the note says so."""
    monkeypatch.setattr(investigate, "MAX_EVENTS", 1)
    path, _ = lake
    assert main(["why-not", "--subscription", "single", "--event", "urn:e:1", "--lake", path]) == 0
    assert capsys.readouterr().err == "examined 1 of 3 events: those near enough in time\n"
    everything = PAIR.replace("WITHIN 5 min CONTEXT unrestricted", "").replace("pair", "unlimited")
    Lake.open(path).subscribe("unlimited", everything)
    assert main(["why-not", "--subscription", "unlimited", "--event", "urn:e:2", "--lake", path]) == 0
    assert capsys.readouterr().err == "examined 1 of 3 events: those near enough in time, the nearest 1\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["why", "zz", "{files}"], "begins with 'zz'"),
        (["why", "", "{files}", "--prefix", "ex"], "is not NAME=IRI"),
        (["why", "aa"], "a lake or files are required"),
        (["why", "aa", "{files}", "--lake", "x"], "a lake or files are required"),
        (["why-not", "--subscription", "other", "--event", "urn:e:1", "{files}"], "no subscription 'other'"),
        (["why-not", "--subscription", "pair", "--event", "urn:e:8", "{files}"], "no event <urn:e:8>"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong arguments are named, and the status is 2."""
    given = [word for argument in arguments for word in (files if argument == "{files}" else [argument])]
    assert main(given) == 2
    printed = capsys.readouterr()
    assert (printed.out, message in printed.err) == ("", True)


REPEATED = """
PREFIX ex: <urn:x:>
SUBSCRIPTION two EVENT f : ex:Fault { ?f ex:device ?d } WHEN f{2} WITHIN 15 min SELECT ?d
SUBSCRIPTION late SINCE "2026-11-15T10:10:00Z" EVENT f : ex:Fault { ?f ex:device ?d } WHEN f
SUBSCRIPTION number EVENT f : ex:Fault { ?f ex:t ?t FILTER(?t > "1000") } WHEN f
SUBSCRIPTION pair EVENT f : ex:Fault { ?f ex:t ?t } EVENT g : ex:Other { ?g ex:t ?t } WHEN f BEFORE g WITHIN 1 h
"""
FAULTS = """
@prefix ex: <urn:x:> . @prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:1 a ex:Fault ; ex:device ex:a ; ex:t 12000 ; sosa:resultTime "2026-11-15T10:00:00Z"^^xsd:dateTime .
ex:2 a ex:Fault ; ex:device ex:a ; sosa:resultTime "2026-11-15T10:20:00Z"^^xsd:dateTime .
ex:3 a ex:Fault ; ex:device ex:b ; sosa:resultTime "2026-11-15T10:21:00Z"^^xsd:dateTime .
ex:5 a ex:Other ; ex:t "12000" ; sosa:resultTime "2026-11-15T10:10:00Z"^^xsd:dateTime .
[] a ex:Fault ; ex:device ex:c ; sosa:resultTime "2026-11-15T10:22:00Z"^^xsd:dateTime .
"""
REASONS = [
    ("two", "urn:x:1", "as f it matches, but in f{2} WITHIN 15 min: 20 min in all where 15 min are allowed"),
    ("two", "urn:x:3", "as f it matches, but in f{2} WITHIN 15 min: 1 of 2 with ?d = ex:b"),
    ("number", "urn:x:1", 'as f: ?t > "1000": ?t is 12000; a number is never compared with a string'),
    ("pair", "urn:x:1", '?t is 12000 here and "12000" there: ex:5 at 10:10:00'),
]


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.motet").write_text(REPEATED)
    Path("f.ttl").write_text(FAULTS)
    assert main(["ingest", "--lake", "lake", "f.ttl"]) == 0


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("source", [["--events", "f.ttl"], ["--lake", "lake"]])
@pytest.mark.parametrize(("subscription", "event", "reason"), REASONS)
def test_true_reasons(
    subscription: str, event: str, reason: str, source: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of iterations and of values of different types, over files and for files of subscriptions over a lake."""
    call = ["why-not", "--subscriptions", "s.motet", *source, "--subscription", subscription, "--event", event]
    assert main(call) == 0
    assert reason in capsys.readouterr().out


@pytest.mark.usefixtures("faults")
def test_hidden_events_of_a_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """Late and retracted events, and those before SINCE, are not visible to a file of subscriptions over a lake."""
    Path("late.ttl").write_text(FAULTS.replace("ex:1 ", "ex:9 ").partition("ex:2")[0])
    assert main(["ingest", "--lake", "lake", "late.ttl"]) == 0
    assert main(["retract", "--lake", "lake", "urn:x:2"]) == 0
    call = ["why-not", "--subscriptions", "s.motet", "--lake", "lake", "--subscription"]
    for name, event, reason in (
        ("two", "urn:x:9", "late: it ends at 10:00:00, the frontier before its commit was at"),
        ("two", "urn:x:2", "retracted before the subscription began"),
        ("late", "urn:x:1", "it starts at 10:00:00, before SINCE 10:10:00"),
    ):
        assert main([*call, name, "--event", event]) == 0
        assert reason in capsys.readouterr().out
    assert main([*call, "none", "--event", "urn:x:1"]) == 2
    assert "there is no subscription 'none' in the files" in capsys.readouterr().err


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("source", [["--events", "f.ttl"], ["--lake", "lake"]])
def test_events_without_an_iri(source: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They have the IRI of section 14; a unique beginning is enough, and an error lists the events of the files."""
    assert main(["run", "--subscriptions", "s.motet", "--events", "f.ttl", "--output", "out.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    (iri,) = {event for line in lines for event in line["events"] if event.startswith("urn:motet:event:")}
    call = ["why-not", "--subscriptions", "s.motet", *source, "--subscription", "two", "--event"]
    capsys.readouterr()
    for text in (iri, iri[:20]):
        assert main([*call, text]) == 0
        assert capsys.readouterr().out.startswith(f"two and {iri} on 2026-11-15")
    other = "urn:motet:event:" + ("0" if iri[16] != "0" else "1")
    assert main([*call, other]) == 2
    error = capsys.readouterr().err
    assert f"there is no event <{other}> in" in error
    assert f"The events in the files are <{iri}>" in error or "lake" in error


@pytest.mark.usefixtures("faults")
@pytest.mark.parametrize("option", [["--base", "http://a/"], ["--ontology", "f.ttl"], ["--arrival", "now"]])
def test_options_of_files_do_not_apply_to_a_lake(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They would be ignored."""
    assert main(["why-not", "--lake", "lake", "--subscription", "two", "--event", "urn:x:1", *option]) == 2
    assert f"{option[0]} does not apply to the log of a lake" in capsys.readouterr().err
