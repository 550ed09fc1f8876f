"""`motet publish`, `subscribe`, `unsubscribe`, `subscriptions`, `notifications` and `retract`."""

from __future__ import annotations

import csv
import io
import json
import threading
from pathlib import Path

import pytest

from motet.cli import replay
from motet.cli.main import main
from motet.lake import Lake

SUBSCRIPTIONS = """
PREFIX ex: <urn:x:>
SUBSCRIPTION hot EVENT e : ex:Hot { ?e ex:room ?room } WHEN e SELECT ?room
SUBSCRIPTION calm EVENT e : ex:Hot { ?e ex:room ?room } EVENT c : ex:Cool { ?c ex:room ?room }
  WHEN e UNLESS c WITHIN 10 min SELECT ?room
"""
EVENTS = """
@prefix ex: <urn:x:> . @prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:1 a ex:Hot ; ex:room 5 ; sosa:resultTime "2026-11-15T10:00:00Z"^^xsd:dateTime .
ex:2 a ex:Hot ; ex:room 6 ; sosa:resultTime "2026-11-15T10:01:00Z"^^xsd:dateTime .
"""


class Commands:
    """Runs commands on one lake and returns what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, command: str, *arguments: str, status: int = 0) -> tuple[str, str]:
        assert main([*command.split(), "--lake", "lake", *arguments]) == status
        return self.capsys.readouterr()

    def json(self, command: str, *arguments: str) -> object:
        return json.loads(self(command, *arguments, "--json")[0])

    def lines(self, *arguments: str) -> list[dict[str, object]]:
        printed, _ = self("notifications", "--format", "json", *arguments)
        return [json.loads(line) for line in printed.splitlines()]


@pytest.fixture
def motet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Commands:
    monkeypatch.chdir(tmp_path)
    Path("s.motet").write_text(SUBSCRIPTIONS)
    Path("e.ttl").write_text(EVENTS)
    return Commands(capsys)


def test_a_session(motet: Commands) -> None:
    """`subscribe` creates the lake; `notifications` computes what is due and says what is pending."""
    registered, warnings = motet("subscribe", "s.motet")
    assert registered == "hot: registered at offset 1\ncalm: registered at offset 2\n"
    assert warnings == ""
    assert motet("publish", "e.ttl")[0] == "e.ttl: 2 accepted\n  <urn:x:1>\n  <urn:x:2>\n"
    printed, said = motet("notifications")
    assert printed.splitlines() == [
        f"2026-11-15T10:0{minute}:00.000000Z  hot           room={room}  {id_[:12]}"
        for minute, room, id_ in zip((0, 1), (5, 6), [str(line["id"]) for line in motet.lines()], strict=True)
    ]
    assert said == (
        "2 notifications\n2 notifications pending: final when the frontier reaches 2026-11-15T10:11:00.000001Z.\n"
        "  Later events move it, or `motet tick --lake lake`, which decides everything that is there.\n"
    )
    motet("tick")
    assert [line["subscription"] for line in motet.lines()] == ["hot", "hot", "calm", "calm"]
    assert "pending" not in motet("notifications")[1]


def test_json_is_that_of_run(motet: Commands) -> None:
    """The lines are those of section 10: the same as `motet run` prints."""
    motet("subscribe", "s.motet")
    motet("publish", "e.ttl")
    motet("tick")
    stored = motet("notifications", "--json")[0]
    assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl", "--output", "out.jsonl"]) == 0
    assert sorted(stored.splitlines()) == sorted(Path("out.jsonl").read_text().splitlines())


def test_selections(motet: Commands) -> None:
    """--subscription and --since select; a name that was never registered is refused."""
    motet("subscribe", "s.motet")
    motet("publish", "e.ttl")
    motet("tick")
    assert {line["subscription"] for line in motet.lines("--subscription", "calm")} == {"calm"}
    later = motet.lines("--since", "2026-11-15T10:01:00Z")
    assert {str(line["end"])[14:16] for line in later} == {"01"}
    assert [line["subscription"] for line in motet.lines("--since", "5")] == ["calm", "calm"]
    assert "there is no subscription 'nope'" in motet("notifications", "--subscription", "nope", status=2)[1]
    motet("unsubscribe", "calm")
    assert len(motet.lines("--subscription", "calm")) == 2


def test_csv(motet: Commands) -> None:
    """CSV has a column for each variable, and marks events that were retracted."""
    motet("subscribe", "s.motet")
    motet("publish", "e.ttl")
    assert motet("retract", "urn:x:1")[0] == "<urn:x:1>: retracted at offset 5\n"
    rows = list(csv.DictReader(io.StringIO(motet("notifications", "--format", "csv")[0])))
    assert [(row["room"], row["events"], row["retracted"], row["others"]) for row in rows] == [
        ("5", "urn:x:1", "urn:x:1", ""),
        ("6", "urn:x:2", "", ""),
    ]
    assert "(retracted: urn:x:1)" in motet("notifications")[0]
    assert "no event <urn:x:9> is in lake; nothing was retracted" in motet("retract", "urn:x:9", status=2)[1]


def test_consumers_read_on(motet: Commands) -> None:
    """A consumer receives everything once; another one has a cursor of its own."""
    motet("subscribe", "s.motet")
    motet("publish", "e.ttl")
    assert len(motet.lines("--consumer", "report")) == 2
    assert motet.lines("--consumer", "report") == []
    assert "a consumer reads on" in motet("notifications", "--consumer", "a", "--since", "1", status=2)[1]
    motet("tick")
    assert [line["subscription"] for line in motet.lines("--consumer", "report")] == ["calm", "calm"]
    assert len(motet.lines("--consumer", "other", "--subscription", "calm")) == 2
    assert len(motet.lines("--consumer", "other")) == 2  # those of `hot`
    states = motet.json("subscriptions")
    assert isinstance(states, list)
    assert [sorted(state["consumers"]) for state in states] == [["other", "report"], ["other", "report"]]


def test_a_consumer_has_one_process(motet: Commands) -> None:
    """The cursor moves only after the output; a consumer that another process has is refused."""
    motet("subscribe", "s.motet")
    lake = Lake.open("lake")
    lake.consumers.claim(["report"])
    assert "consumer 'report' is in use" in motet("notifications", "--consumer", "report", status=2)[1]
    lake.consumers.release_all()
    assert motet.lines("--consumer", "report") == []


def test_follow(motet: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """--follow prints what other processes append, until it is stopped."""
    motet("subscribe", "s.motet")

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            if not self.is_set():
                Lake.open("lake").snapshot()
                assert main(["publish", "--lake", "lake", "e.ttl", "--json"]) == 0
                self.set()
                return False
            return True

    monkeypatch.setattr("motet.cli.shutdown.threading.Event", Stop)
    assert main(["notifications", "--lake", "lake", "--follow", "--json", "--output", "out.jsonl"]) == 0
    assert len(Path("out.jsonl").read_text().splitlines()) == 2
    assert "2 notifications pending" in motet.capsys.readouterr().err


def test_subscribing_again(motet: Commands) -> None:
    """An equal subscription is active already; one with the same name and another text is refused."""
    motet("subscribe", "s.motet")
    assert (
        motet("subscribe", "s.motet")[0] == "hot: is active already at offset 1\ncalm: is active already at offset 2\n"
    )
    Path("other.motet").write_text("SUBSCRIPTION hot EVENT e WHEN e")
    assert "subscription 'hot' is active with another text" in motet("subscribe", "other.motet", status=2)[1]
    assert motet("unsubscribe", "hot")[0] == "hot: ended at offset 3\n"
    assert motet("subscribe", "other.motet")[0] == "hot: registered at offset 4\n"
    assert (
        "no active subscription 'nope' in lake; nothing was ended" in motet("unsubscribe", "hot", "nope", status=2)[1]
    )
    assert motet("subscriptions", "--text")[0].count("SUBSCRIPTION") == 2


def test_a_subscription_after_the_events(motet: Commands) -> None:
    """It says that it does not see the events that are there, and names SINCE; unknown names are named."""
    motet("publish", "e.ttl")
    Path("late.motet").write_text("SUBSCRIPTION late EVENT e : <urn:x:Hott> WHEN e")
    said = motet("subscribe", "late.motet")[1]
    assert "subscription 'late' begins after the 2 events that are there, which are not matched" in said
    assert 'SINCE "2026-11-15T10:00:00.000000Z"' in said
    assert (
        "no event and no ontology has the class <urn:x:Hott>, which 'late' requires; did you mean <urn:x:Hot>?" in said
    )
    assert "begins after the 2 events" in motet("notifications")[1]
    Path("since.motet").write_text('SUBSCRIPTION earlier SINCE "2026-11-15T00:00:00Z" EVENT e : <urn:x:Hot> WHEN e')
    assert motet("subscribe", "since.motet")[1] == ""
    assert len(motet.lines("--subscription", "earlier")) == 2


def test_a_lake_without_subscriptions(motet: Commands) -> None:
    """It is said, and how to subscribe."""
    motet("publish", "e.ttl")
    for command in ("notifications", "subscriptions"):
        assert "has no active subscription" in motet(command)[1]


@pytest.mark.parametrize("command", ["notifications", "subscriptions", "unsubscribe a", "retract urn:e:1"])
def test_commands_that_need_a_lake(command: str, motet: Commands) -> None:
    """They create none."""
    assert "lake is not a lake" in motet(command, status=1)[1]
    assert not Path("lake").exists()


def test_refused_subscriptions_create_no_lake(motet: Commands) -> None:
    """A cycle of derived events is refused."""
    one = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> }"
    two = "SUBSCRIPTION two EVENT b : <urn:B> WHEN b CONSTRUCT { ?this a <urn:A> }"
    Path("cycle.motet").write_text(f"{one} {two}")
    assert "cycle" in motet("subscribe", "cycle.motet", status=2)[1]
    assert not Path("lake").exists()


def test_publish_is_a_call(motet: Commands) -> None:
    """Each document is all or none, also in a conflict; publishing a reading twice makes two events."""
    Path("r.ttl").write_text("<> <urn:x:value> 5 .")
    first, second = (motet.json("publish", "r.ttl") for _ in range(2))
    assert isinstance(first, list) and isinstance(second, list)
    assert first[0]["events"] != second[0]["events"]
    assert (first[0]["accepted"], first[0]["stamped"]) == (1, 1)
    motet("publish", "e.ttl")
    assert motet("publish", "e.ttl")[0].startswith("e.ttl: 0 accepted, 2 repeated\n")
    Path("other.ttl").write_text(EVENTS.replace("room 6", "room 7") + "ex:3 a ex:Hot .")
    assert "refused: other.ttl" in motet("publish", "other.ttl", status=1)[1]
    assert motet("publish", "other.ttl", "--strict", status=3)
    assert not Lake.open("lake").holds(["urn:x:3"])[0]


def test_publish_from_standard_input(motet: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is one document; with an id it is one event."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf<> <urn:p> 1 .")))
    printed = motet("publish", "-", "--content-type", "text/turtle", "--id", "urn:e:7")[0]
    assert printed == "standard input: 1 accepted, 1 stamped\n  <urn:e:7>\n"


def test_a_refused_document_creates_no_lake(motet: Commands) -> None:
    """Nothing is published, so there is no lake."""
    Path("bad.nq").write_text("no quad\n")
    assert "no lake lake was created" in motet("publish", "bad.nq", status=1)[1]
    assert not Path("lake").exists()


def test_inspect_counts_what_is_pending(motet: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without writing anything; a log that is too long for that is not processed."""
    motet("subscribe", "s.motet")
    motet("publish", "e.ttl")
    version = Lake.open("lake").snapshot().version
    fields = motet.json("inspect")
    assert isinstance(fields, dict)
    assert fields["pending"] == {"notifications": 2, "until": "2026-11-15T10:11:00.000001Z"}
    printed, said = motet("inspect")
    assert "pending             2\n" in printed
    assert "2 notifications pending: final when the frontier reaches 2026-11-15T10:11:00.000001Z" in said
    assert Lake.open("lake").snapshot().version == version
    monkeypatch.setattr("motet.cli.lake_advice.MAX_RECORDS", 1)
    assert "pending             not counted: `motet notifications` does\n" in motet("inspect")[0]


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_replay_counts_what_is_pending(engine: str, motet: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Spark a short log is processed again for that; an ontology counts for the replay alone."""
    replay_on = replay.replay_on
    monkeypatch.setattr(replay, "replay_on", lambda _, *arguments: replay_on("embedded", *arguments))
    Path("o.ttl").write_text("<urn:x:Hot> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:x:Warm> .")
    Path("warm.motet").write_text(SUBSCRIPTIONS.replace("e : ex:Hot", "e : ex:Warm"))
    motet("publish", "e.ttl")
    call = ("replay", "--subscriptions", "warm.motet", "--engine", engine, "--output", "out.jsonl")
    summary = json.loads(motet(*call, "--ontology", "o.ttl", "--json")[1].splitlines()[-1])
    assert summary["notifications"] == 2
    assert summary["pending"] == {"notifications": 2, "until": "2026-11-15T10:11:00.000001Z"}
    assert "2 notifications pending" in motet(*call, "--ontology", "o.ttl")[1]
    assert "EVENT e of 'hot' matched no event: no event of the class ex:Warm" in motet(*call)[1]
    assert motet("background show")[0] == ""


def test_a_replay_without_late_events(motet: Commands) -> None:
    """With --strict its status is 3 when late events were left out."""
    motet("publish", "e.ttl")
    Path("late.ttl").write_text(EVENTS.replace("ex:1", "ex:8").replace("ex:2", "ex:9"))
    motet("tick", "2026-11-15T11:00:00Z")
    motet("publish", "late.ttl", "--strict", status=3)
    call = ("replay", "--subscriptions", "s.motet", "--engine", "embedded", "--output", "out.jsonl", "--strict")
    motet(*call, status=3)
    motet(*call, "--late")
