"""Loads and streams of bytes, appended to a lake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.codec.decode import Decoded
from motet.connectors import sorted_load
from motet.connectors.ingestion import IngestResult, ingest_chunks, ingest_files, ingest_load
from motet.lake import Lake
from motet.model.batches import EventRow, event_batch, micros
from motet.model.errors import DecodeError
from motet.model.times import format_datetime

SECOND = 1_000_000
NOW = 1_000 * SECOND
DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime"

Event = tuple[int, int | None, int]  # number of its IRI, end in seconds, number of its content


class Target:
    """A lake whose clock is at NOW, and what is rejected."""

    def __init__(self, path: Path) -> None:
        self.lake = Lake.open(path, clock=lambda: NOW, durable=False)
        self.rejected: list[DecodeError] = []

    def load(self, events: Sequence[Event]) -> IngestResult:
        """Append events as one load, each in a batch of its own."""
        batches = [("a file", Decoded(event_batch([row(event)], [line]), [])) for line, event in enumerate(events, 1)]
        return sum(ingest_load(self.lake, batches, self.rejected.extend), start=IngestResult())

    def events(self) -> list[tuple[str, int | None, str, bool]]:
        """The events of the log in its order: IRI, end, content, and whether it is late."""
        found = []
        for batch in self.lake.snapshot().records():
            rows = zip(batch.to_pylist(), micros(batch.column("end")), strict=True)
            found += [
                (record["id"], end, record["triples"][0]["object"], record["late"])
                for record, end in rows
                if record["kind"] == "event"
            ]
        return found


def row(event: Event) -> EventRow:
    number, end, content = event
    instant = None if end is None else end * SECOND
    return EventRow(f"urn:e:{number}", instant, instant, ((f"<urn:e:{number}>", "<urn:p>", f'"{content}"'),))


def quads(number: int, second: int | None = None, value: str = "x") -> str:
    event = f"<urn:e:{number}>"
    lines = [f'{event} <urn:p> "{value}" {event} .\n']
    if second is not None:
        time = f'"{format_datetime(second * SECOND)}"^^<{DATE_TIME}>'
        lines.append(f"{event} <http://www.w3.org/ns/sosa/resultTime> {time} {event} .\n")
    return "".join(lines)


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path / "lake")


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_load, "COMMIT_EVENTS", 3)
    monkeypatch.setattr(sorted_load, "BLOCKS_PER_COMMIT", 3)


def ignore(count: int) -> None:
    pass


def test_files_are_one_load(target: Target, tmp_path: Path) -> None:
    """ "`motet ingest FILE…` … is committed in the order of its events' ends, stamped ones last": over all files."""
    (tmp_path / "a.nq").write_text(quads(4, 400) + quads(1, 100) + quads(5))
    (tmp_path / "b.nq").write_text(quads(3, 300) + quads(2, 200) + "junk\n")
    paths = [str(tmp_path / "a.nq"), str(tmp_path / "b.nq")]
    read: list[int] = []
    totals: list[int] = []
    results = ingest_files(target.lake, paths, target.rejected.extend, on_read=read.append, on_sorted=totals.append)
    assert sum(results, start=IngestResult()) == IngestResult(inputs=2, accepted=5, stamped=1, rejected=1)
    assert [id_ for id_, *_ in target.events()] == [f"urn:e:{n}" for n in range(1, 6)]
    assert (sum(read), totals) == (sum(Path(path).stat().st_size for path in paths), [5])


def test_rejected_events_are_dead_letters(target: Target) -> None:
    """A conflict with the log and an event too far ahead cost no other event its place; the letter names them."""
    target.load([(1, 1, 0)])
    result = target.load([(1, 5, 1), (2, 200_000, 0), (3, 3, 0), (1, 1, 0)])
    assert result == IngestResult(accepted=1, repeated=1, rejected=2)
    letters = sorted(target.rejected, key=lambda letter: letter.event or "")
    assert [(letter.source, letter.line, letter.event, letter.content) for letter in letters] == [
        ("a file", 1, "urn:e:1", '<urn:e:1> <urn:p> "1" <urn:e:1> .\n'),
        ("a file", 2, "urn:e:2", '<urn:e:2> <urn:p> "0" <urn:e:2> .\n'),
    ]
    assert all(letter.advice for letter in letters)


@pytest.mark.parametrize("failing", [1, 2, 4, 7])
def test_a_load_that_fails_is_completed_by_loading_again(
    target: Target, failing: int, small_commits: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is committed stays; the next load adds the rest, none of it is late, and no scratch file is left."""
    events = [(n, (7 * n) % 20 if n else None, 0) for n in range(20)]
    append, count = Lake.append, 0

    def fail(lake: Lake, *args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count == failing:
            raise KeyboardInterrupt
        return append(lake, *args, **options)

    monkeypatch.setattr(Lake, "append", fail)
    with pytest.raises(KeyboardInterrupt):
        target.load(events)
    committed = len(target.events())
    assert list((target.lake.store.root / "tmp").glob("*")) == []
    result = target.load(events)
    assert (result.accepted, result.repeated, result.late) == (20 - committed, committed, 0)
    ends = [end for _, end, _, _ in target.events()]
    assert ends == sorted(end for end in ends if end is not None), "as if it had not failed"
    assert target.load(events) == IngestResult(repeated=20)


EVENTS = st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 9), st.integers(0, 1)), max_size=25)


@given(before=EVENTS, events=EVENTS)
def test_the_number_of_commits_does_not_matter(
    before: list[Event], events: list[Event], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In one commit or in many: the same events, in the same order, the same counts and dead letters."""
    whole, divided = (Target(tmp_path_factory.mktemp("lake")) for _ in range(2))
    for target in (whole, divided):
        target.load(before)
        target.rejected.clear()
    expected = whole.load(events)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorted_load, "COMMIT_EVENTS", 2)
        patched.setattr(sorted_load, "BLOCKS_PER_COMMIT", 2)
        assert divided.load(events) == expected
    assert divided.events() == whole.events()
    assert sorted(error.line or 0 for error in divided.rejected) == sorted(error.line or 0 for error in whole.rejected)


@given(permutation=st.permutations(range(12)), commit=st.integers(1, 12))
def test_the_order_of_a_load_makes_no_event_late(
    permutation: list[int], commit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """ "So the order of events inside it makes none of them late": hours apart, with the lateness of 5 s."""
    target = Target(tmp_path_factory.mktemp("lake"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sorted_load, "COMMIT_EVENTS", commit)
        patched.setattr(sorted_load, "BLOCKS_PER_COMMIT", commit)
        result = target.load([(n, 80 * n if n else None, 0) for n in permutation])
    assert result == IngestResult(accepted=12, stamped=1)
    assert [id_ for id_, *_ in target.events()] == [f"urn:e:{n}" for n in (*range(1, 12), 0)]


def test_standard_input_is_committed_as_it_comes(target: Target) -> None:
    """ "Standard input and NATS are not finite": it is committed before it ends, and may make events late."""
    seen: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number, second in ((1, 100), (2, 900), (3, 500)):
            yield quads(number, second).encode()
            seen.append(len(target.events()))

    results = list(ingest_chunks(target.lake, chunks(), "application/n-quads", target.rejected.extend))
    assert seen == [0, 1, 2], "an event is complete when another one begins"
    assert sum(results, start=IngestResult()) == IngestResult(accepted=3, late=1)


def test_a_document_on_standard_input_is_one_commit(target: Target) -> None:
    """Of other formats than N-Quads the end of the input is the end of the document."""
    chunks = iter([b"<urn:e:1> <http://www.w3.org/ns/sosa/", b'resultTime> "1970-01-01T00:00:01Z"^^'])
    rest = iter([f"<{DATE_TIME}> .".encode()])
    text = b"".join([*chunks, *rest])
    results = ingest_chunks(target.lake, iter([text[:20], text[20:]]), "text/turtle", target.rejected.extend)
    assert sum(results, start=IngestResult()) == IngestResult(accepted=1)
    assert target.rejected == []


def test_a_load_reads_the_time_properties_of_the_lake(target: Target, tmp_path: Path) -> None:
    """A writer "reads an input with the time properties in force when it began to"."""
    target.lake.change_settings(time_properties=(("urn:when",),))
    time = f'"{format_datetime(7 * SECOND)}"^^<{DATE_TIME}>'
    (tmp_path / "a.nq").write_text(f"<urn:e:1> <urn:when> {time} <urn:e:1> .\n")
    path = str(tmp_path / "a.nq")
    list(ingest_files(target.lake, [path], target.rejected.extend, on_read=ignore, on_sorted=ignore))
    assert [end for _, end, _, _ in target.events()] == [7 * SECOND]
