"""`motet stream --engine embedded`, and how its progress is displayed."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest
from rich.console import Console
from rich.live import Live

from motet.cli.main import main
from motet.cli.stream import LiveTable, progress_view
from motet.jobs.stream_progress import BatchProgress, LakeStatus
from motet.lake import Lake, Store
from motet.lake.store import hold_lock
from motet.model.errors import UsageError

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
ex:3 a ex:Cool ; ex:room 6 ; sosa:resultTime "2026-11-15T10:02:00Z"^^xsd:dateTime .
"""
LATE = """
@prefix ex: <urn:x:> . @prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
ex:4 a ex:Hot ; ex:room 5 ; sosa:resultTime "2026-11-15T09:00:00Z"^^xsd:dateTime .
"""
STREAM = ["stream", "--lake", "lake", "--engine", "embedded", "--once"]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.motet").write_text(SUBSCRIPTIONS)
    Path("e.ttl").write_text(EVENTS)
    Path("late.ttl").write_text(LATE)


def fill(*files: str) -> None:
    assert main(["subscribe", "--lake", "lake", "s.motet"]) == 0
    for file in files:
        assert main(["publish", "--lake", "lake", file]) == 0


def test_once_computes_what_is_due(capsys: pytest.CaptureFixture[str]) -> None:
    """The progress line and the totals count late, stamped and pending ones; late ones have a status."""
    Path("stamped.ttl").write_text("<urn:x:9> a <urn:x:Other> ; <urn:p> <> . <> <urn:q> 1 .")
    fill("e.ttl", "late.ttl")
    assert main(["publish", "--lake", "lake", "stamped.ttl", "--id", "urn:x:8"]) == 0
    capsys.readouterr()
    assert main([*STREAM, "--strict"]) == 3
    printed = capsys.readouterr()
    line = printed.out.splitlines()[0]
    assert line.startswith("batch 0: 8 records in ")
    assert line.endswith("2 notifications, 0 behind, 1 late, 1 stamped, 1 pending until 2026-11-15T10:10:00.000001Z")
    assert "1 notification pending: final when the frontier reaches 2026-11-15T10:10:00.000001Z" in printed.err
    assert main(["tick", "--lake", "lake", "2026-11-15T10:11:00Z"]) == 0
    capsys.readouterr()
    assert main([*STREAM, "--json"]) == 0
    batch, totals = map(json.loads, capsys.readouterr().out.splitlines())
    assert (batch["notifications"], batch["lakes"][0]["notifications"]) == (1, {"calm": 1})
    assert totals == {
        "batches": 1, "events": 0, "late": 0, "notifications": 1, "pending": 0, "records": 1, "stamped": 0
    }  # fmt: skip


def test_the_notifications_are_those_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has what `motet run` prints."""
    fill("e.ttl")
    assert main(["tick", "--lake", "lake", "end", "--force"]) == 0
    assert main(STREAM) == 0
    assert main(["run", "--subscriptions", "s.motet", "--events", "e.ttl", "--output", "run.jsonl"]) == 0
    assert main(["notifications", "--lake", "lake", "--json", "--output", "stored.jsonl"]) == 0
    stored, expected = (sorted(Path(name).read_text().splitlines()) for name in ("stored.jsonl", "run.jsonl"))
    assert stored == expected
    assert len(stored) == 3


def test_it_goes_on_and_serves_metrics(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Records that are appended meanwhile are processed, until a stop is requested; metrics are by subscription."""
    fill()
    pages: list[str] = []

    class Stop(threading.Event):
        looks = 0

        def wait(self, timeout: float | None = None) -> bool:
            Stop.looks += 1
            if Stop.looks == 1:
                assert main(["publish", "--lake", "lake", "e.ttl"]) == 0
            if Stop.looks == 3:
                address = next(word for word in capsys.readouterr().err.split() if word.startswith("http://127"))
                pages.append(urlopen(address).read().decode())  # noqa: S310  (of this process)
            return Stop.looks >= 3

    monkeypatch.setattr("motet.cli.shutdown.threading.Event", Stop)
    assert main(["stream", "--lake", "lake", "--engine", "embedded", "--metrics-port", "0"]) == 0
    assert 'motet_subscription_notifications_total{lake="lake",subscription="hot"} 2.0' in pages[0]
    assert "motet_pending_notifications" in pages[0]


@pytest.mark.parametrize(
    "option", [["--buckets", "2"], ["--checkpoint", "c"], ["--conf", "a=b"], ["--master", "local"]]
)
def test_options_of_spark_are_refused(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """They would be ignored."""
    fill()
    assert main([*STREAM, *option]) == 2
    assert f"{option[0]} is an option of Spark" in capsys.readouterr().err


def test_a_lake_is_processed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """A second stream is refused with the name of the process that has the lake."""
    fill()
    with hold_lock(Lake.open("lake").store, "pipeline/embedded.lock", "it", advice=""):
        assert main(STREAM) == 2
    assert "the lake lake is in use by another pipeline of this process" in capsys.readouterr().err
    assert main(STREAM) == 0


def test_locks_of_ended_processes_are_free(tmp_path: Path) -> None:
    """A file that a process left behind without holding it is no lock; the holder's process and host are named."""
    store = Store(tmp_path, durable=False)
    (tmp_path / "a.lock").write_text('{"pid": 1, "host": "elsewhere", "since": "2026-11-15T10:00:00Z"}')
    with hold_lock(store, "a.lock", "the thing", advice="Wait."):
        (tmp_path / "a.lock").write_text('{"pid": 1, "host": "elsewhere", "since": "2026-11-15T10:00:00Z"}')
        with pytest.raises(UsageError, match="the thing is in use by process 1 on elsewhere, since 2026"):  # noqa: SIM117
            with hold_lock(store, "a.lock", "the thing", advice="Wait."):
                pass
    assert not (tmp_path / "a.lock").exists()


def test_an_ontology_is_added_first(capsys: pytest.CaptureFixture[str]) -> None:
    """--ontology is put into the background; a lake without subscriptions is named."""
    Path("o.ttl").write_text("<urn:A> <http://www.w3.org/2000/01/rdf-schema#subClassOf> <urn:B> .")
    assert main(["publish", "--lake", "lake", "e.ttl"]) == 0
    assert main([*STREAM, "--ontology", "o.ttl"]) == 0
    assert "lake has no active subscription, so there is nothing to notify of" in capsys.readouterr().err
    assert main(["background", "show", "--lake", "lake"]) == 0
    assert capsys.readouterr().out.startswith("<urn:A>")


@pytest.mark.parametrize(("options", "is_brief"), [(["--once"], True), ([], False)])
def test_a_short_run_on_spark_has_a_jvm_that_ends_sooner(
    options: list[str], is_brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--once` on a few records; settings that a user gives come first."""
    given: list[dict[str, str]] = []

    def refuse(master: str | None, buckets: int, config: dict[str, str]) -> None:
        given.append(config)
        raise UsageError("no session in this test", advice="")

    monkeypatch.setattr("motet.spark.stream.job.pipeline_session", refuse)
    fill("e.ttl")
    assert main(["stream", "--lake", "lake", *options]) == 2
    assert main(["stream", "--lake", "lake", *options, "--conf", "spark.driver.extraJavaOptions=-Xss2m"]) == 2
    assert ("spark.driver.extraJavaOptions" in given[0]) == is_brief
    assert given[1] == {"spark.driver.extraJavaOptions": "-Xss2m"}


BATCH = BatchProgress(
    number=3,
    at="2026-11-16T08:00:00.000Z",
    seconds=2.0,
    records=100,
    events=80,
    late=4,
    notifications=20,
    state_rows=7,
    state_bytes=900_000,
    store_bytes=2_000_000,
    phases={"queryPlanning": 0.25, "addBatch": 1.5},
    stages={"matching": 0.5, "detecting": 0.25},
)
LAKES = [LakeStatus("/a", 90, 60, 4, 1_500_000, 3_500_000), LakeStatus("/b", 0, 0, 0, None, None)]


def test_a_batch_is_a_line_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """The form for the log of a service."""
    with progress_view(as_json=False) as view:
        view.set_lake_status(LAKES)
        view.add_batch(BATCH, LAKES)
    assert capsys.readouterr().out == "batch 3: 100 records in 2.0 s (50/s), 20 notifications, 30 behind, 4 late\n"


def test_a_batch_is_an_object_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All figures of the batch and of the lakes, in one line."""
    with progress_view(as_json=True) as view:
        view.add_batch(BATCH, LAKES)
    printed = json.loads(capsys.readouterr().out)
    lakes = printed.pop("lakes")
    assert printed == json.loads(json.dumps(BATCH.to_json()))
    assert [(lake["lake"], lake["backlog"], lake["lag"]) for lake in lakes] == [("/a", 30, 2_000_000), ("/b", 0, None)]


def test_a_live_table_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The last batch, stage by stage, and the lakes."""
    console = Console(width=140, record=True, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        board = LiveTable(live)
        board.set_lake_status(LAKES)
        board.add_batch(BATCH, LAKES)
    rows = [" ".join(line.split()) for line in console.export_text().splitlines()]
    for row in (
        "batch 3, 2.0 s: queryPlanning 12%, addBatch 75%",
        "records 100 (50/s)",
        "events 80 (40/s), 4 late, 0 stamped",
        "notifications 20 (0.25 per event)",
        "processor matching 0.50 s, detecting 0.25 s",
        "state 7 rows, 0.9 MB, on disk 2.0 MB",
        "/b 0 0 none yet no",
    ):
        assert row in rows
    assert any(row.startswith("/a 90 30 1970-01-01T00:00:01.500000Z") for row in rows)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with progress_view(as_json=False) as view:
        assert isinstance(view, LiveTable)
    capsys.readouterr()
