"""The same events give the same notifications, whatever their order and whichever way they are published.

For events with IRIs of their own that are not ahead, subscribed before, after `motet tick`.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from motet.connectors import sorted_load
from motet.connectors.ingestion import ingest_files
from motet.embedded.cloud import Cloud
from motet.fuzz.case import BEGIN, SECOND, Case
from motet.fuzz.cases import nth_case
from motet.fuzz.files import nquads
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jobs.replay import load_replay, replay_embedded
from motet.jobs.run import BatchJob, run_embedded
from motet.lake import Lake
from motet.language.printer import to_text
from motet.model.batches import notification_rows
from motet.model.control import entailment_of
from motet.model.errors import DecodeError
from motet.model.times import END_OF_TIME
from motet.reference import SubscribeRecord

NOW = BEGIN + 3600 * SECOND
SEED = 24


def random_case(number: int) -> Case:
    """Subscriptions without SINCE, which selects events in a replay, and events of RDF, each with an IRI of its own."""
    cases = (nth_case(SEED, number + 100 * attempt, EngineCapabilities(logs=False)) for attempt in count())
    case = next(case for case in cases if all(event.payload is None for event in case.events))
    distinct = {event.id: event for event in reversed(case.events)}
    subscriptions = [replace(subscription, since=None) for subscription in case.subscriptions]
    return case.with_records([*(SubscribeRecord(0, one) for one in subscriptions), *distinct.values()])


def permuted(case: Case, number: int) -> list[str]:
    """The events as N-Quads in a random order, the same for the same number."""
    events = list(case.events)
    Random(f"{SEED} {number}").shuffle(events)
    return [nquads(event) for event in events]


def write_files(folder: Path, events: Sequence[str], files: int) -> list[str]:
    folder.mkdir()
    paths = [folder / f"{index}.nq" for index in range(files)]
    for index, path in enumerate(paths):
        path.write_text("".join(events[index::files]))
    return [str(path) for path in paths]


def refuse(rejected: Iterable[DecodeError]) -> None:
    for error in rejected:
        raise error


def run_lines(case: Case, paths: Sequence[str]) -> list[str]:
    """As by `motet run`."""
    entailment = entailment_of(case.ontology, None)
    job = BatchJob(case.subscriptions, tuple(paths), case.ontology, entailment, NOW)
    sink = io.BytesIO()
    run_embedded(job, sink, refuse)
    return sorted(sink.getvalue().decode().splitlines())


def new_lake(path: Path, case: Case) -> Lake:
    """A lake with the subscriptions of a case and no event yet."""
    lake = Lake.open(path, clock=lambda: NOW, durable=False)
    if case.ontology:
        lake.background(added=sorted(case.ontology))
    if case.subscriptions:
        lake.subscribe_all({subscription.name: to_text(subscription) for subscription in case.subscriptions})
    return lake


def ingest(lake: Lake, paths: Sequence[str]) -> None:
    """As `motet ingest FILE…`."""
    results = list(ingest_files(lake, paths, refuse))
    assert sum(result.late for result in results) == 0


def detected_lines(lake: Lake) -> list[str]:
    """The notifications that the embedded engine stores, after a tick as by `motet tick`."""
    with Cloud(lake) as cloud:
        cloud.tick()
        cloud.flush()
    return stored_lines(lake)


def stored_lines(lake: Lake) -> list[str]:
    found = (row for batch in lake.notifications() for row in notification_rows(batch))
    return sorted(notification.to_line() for notification, _ in found)


def replayed_lines(lake: Lake, case: Case) -> list[str]:
    """As by `motet replay` over the log."""
    sink = io.BytesIO()
    replay_embedded(load_replay(lake.snapshot(), case.subscriptions), sink)
    return sorted(sink.getvalue().decode().splitlines())


@pytest.mark.parametrize("number", range(12))
def test_every_way_gives_the_same_notifications(number: int, tmp_path: Path) -> None:
    """`motet run`, ingest and detection, one `publish` of the file, and `replay`, each in another order."""
    case = random_case(number)
    expected = run_lines(case, write_files(tmp_path / "in order", [nquads(event) for event in case.events], 1))
    assert run_lines(case, write_files(tmp_path / "permuted", permuted(case, 0), 2)) == expected

    ingested = new_lake(tmp_path / "ingested", case)
    paths = write_files(tmp_path / "files", permuted(case, 1), 3)
    ingest(ingested, paths)
    assert detected_lines(ingested) == expected
    assert replayed_lines(ingested, case) == expected

    published = new_lake(tmp_path / "published", case)
    with Cloud(published) as cloud:
        receipt = cloud.publish("".join(permuted(case, 2)))
        assert (receipt.accepted, receipt.late) == (len(case.events), 0)
    assert detected_lines(published) == expected
    assert replayed_lines(published, case) == expected


@pytest.mark.parametrize("number", range(3))
def test_an_interrupted_load_gives_the_same_notifications(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed stays, and loading again completes it, in several commits each."""
    monkeypatch.setattr(sorted_load, "COMMIT_EVENTS", 3)
    monkeypatch.setattr(sorted_load, "BLOCKS_PER_COMMIT", 3)
    case = random_case(number)
    lake = new_lake(tmp_path / "lake", case)
    paths = write_files(tmp_path / "files", permuted(case, 4), 5)
    commits = ingest_files(lake, paths, refuse)
    assert [next(commits).accepted for _ in range(2)] == [3, 3]
    assert isinstance(commits, Generator)
    commits.close()
    ingest(lake, paths)
    expected = run_lines(case, write_files(tmp_path / "run", [nquads(event) for event in case.events], 1))
    assert detected_lines(lake) == expected


def test_spark_gives_the_same_notifications(tmp_path: Path) -> None:
    """`motet ingest` and `motet stream`: several lakes in one query."""
    pytest.importorskip("pyspark")
    from motet.spark.session import session
    from motet.spark.stream.job import start_query

    cases = [random_case(number) for number in range(4)]
    lakes = [new_lake(tmp_path / f"lake {number}", case) for number, case in enumerate(cases)]
    for number, (lake, case) in enumerate(zip(lakes, cases, strict=True)):
        paths = write_files(tmp_path / f"files {number}", permuted(case, 3), 3)
        ingest(lake, paths)
        lake.tick(END_OF_TIME, force=True)
    query = start_query(session(), [lake.store.root for lake in lakes], tmp_path / "checkpoint", buckets=2, once=True)
    query.awaitTermination()
    for number, (lake, case) in enumerate(zip(lakes, cases, strict=True)):
        events = [nquads(event) for event in case.events]
        assert stored_lines(lake) == run_lines(case, write_files(tmp_path / f"run {number}", events, 1))
