"""Files of events as rows in Spark, and their splits."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Row, SparkSession
from tests.builders import RESULT_TIME, datetime, event_nquads

from motet.codec.decode import decode_file
from motet.codec.events import Decoded
from motet.codec.formats import Format
from motet.codec.options import Limits
from motet.model.batches import event_rows
from motet.model.terms import literal
from motet.spark.batch.events import (
    MAX_SPLIT_BYTES,
    MIN_SPLIT_BYTES,
    FileSplit,
    add_outcome,
    decode_split,
    read_events,
    split_file,
    split_files,
)

MANY_PARTS = Limits(max_document_bytes=1)


def event(number: int, content: str) -> str:
    """An event of two quads at second ``number``."""
    time = (RESULT_TIME, datetime(f"1970-01-01T00:00:{number:02}Z"))
    return event_nquads(f"urn:e:{number}", time, ("<urn:content>", literal(content)))


def broken(number: int) -> str:
    """One line of an event, with an object that is not N-Quads."""
    return f'<urn:e:{number}> <urn:p> "x"^^<not an IRI> <urn:e:{number}> .\n'


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files: event 7 is twice in the first and again in the second, event 2 is broken in the first at first."""
    folder = tmp_path_factory.mktemp("some files")
    many = "".join(event(n, "first") for n in range(3, 30))
    contents = {
        "first.nq": event(1, "first") + broken(2) + many + event(7, "back") + event(2, "back"),
        "second.nq": event(7, "second") + event(2, "second") + event(40, "second"),
    }
    for name, text in contents.items():
        (folder / name).write_text(text)
    return [folder / name for name in contents]


@pytest.fixture(scope="module")
def rows(spark: SparkSession, files: list[Path]) -> list[Row]:
    """The rows of the files in many splits, with their outcomes, in order."""
    return (
        add_outcome(read_events(spark, files, target_bytes=500, limits=MANY_PARTS))
        .orderBy("split", "position")
        .collect()
    )


def outcomes(rows: list[Row], number: int) -> list[tuple[str, list[str]]]:
    """The outcome of each row of an event, with its content."""
    event_rows_ = [row for row in rows if row.id == f"urn:e:{number}"]
    return [(row.outcome, [t.object for t in row.triples if t.predicate == "<urn:content>"]) for row in event_rows_]


def test_every_split_of_every_file_is_read_once(rows: list[Row], files: list[Path]) -> None:
    """The rows are the events of the files in order, with the lines they begin on in the file, from many splits."""
    lines = [
        (path, n) for path in files for n, text in enumerate(path.read_text().splitlines(), 1) if RESULT_TIME in text
    ]
    assert [(files[row.file], row.line) for row in rows if row.rejected is None] == lines
    assert len({row.split for row in rows}) > 4


def test_small_files_are_read_whole(spark: SparkSession, files: list[Path]) -> None:
    """Files below the limit are not split: the rows are exactly those of decoding the files one after the other."""
    table = read_events(spark, files, target_bytes=500).orderBy("split", "position").toArrow()
    decoded = [decoded for path in files for decoded in decode_file(str(path))]
    assert list(event_rows(table.filter(pc.field("rejected").is_null()))) == [
        row for part in decoded for row in event_rows(part.events)
    ]
    letters = [json.loads(letter) for letter in table["rejected"].drop_null().to_pylist()]
    assert letters == [error.to_json() for part in decoded for error in part.rejected]
    assert [letter["event"] for letter in letters] == ["urn:e:2"]


def test_the_first_of_equal_events_is_accepted(rows: list[Row]) -> None:
    """In a later split of the same file its quads belong to the first; in another file other content is a conflict."""
    assert outcomes(rows, 7) == [("accepted", ['"first"']), ("returned", ['"back"']), ("conflict", ['"second"'])]


def test_a_rejected_event_is_accepted_from_another_file(rows: list[Row]) -> None:
    """An event rejected in one split is not accepted from a later split of the file, but from another file."""
    assert outcomes(rows, 2) == [("rejected", []), ("returned", ['"back"']), ("accepted", ['"second"'])]


@pytest.mark.parametrize(
    ("megabytes", "cores", "size"), [(65, 2, 65 * 2**17), (65, 100, MIN_SPLIT_BYTES), (2**20, 2, MAX_SPLIT_BYTES)]
)
def test_splits_are_sized_to_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, megabytes: int, cores: int, size: int
) -> None:
    """Every core gets several splits, none too small for a task or too large to be retried."""
    asked = list[int]()

    def split(path: str, *, target_bytes: int, limits: Limits) -> list[FileSplit]:
        asked.append(target_bytes)
        return []

    monkeypatch.setattr("motet.spark.batch.events.split_file", split)
    path = tmp_path / "large.nq"
    with path.open("wb") as file:
        file.truncate(megabytes * 2**20)
    split_files([path], cores)
    assert asked == [size]


SMALL = Limits(max_document_bytes=1000)


def content(batches: list[Decoded]) -> tuple[list[object], list[object]]:
    events = pa.Table.from_batches([decoded.events for decoded in batches]).to_pylist()
    return events, [error.to_json() for decoded in batches for error in decoded.rejected]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("seed", range(4))
def test_splits_cover_the_file(tmp_path: Path, seed: int, end: str) -> None:
    """The splits give the events, lines and rejections of the whole file, in its order."""
    rng = random.Random(seed)
    lines = []
    for event in range(300):
        lines += [f'<urn:s> <urn:p> "{i}" <urn:e{event}> .' for i in range(rng.randint(1, 20))]
        lines += ["garbage"] if rng.random() < 0.02 else []
    path = tmp_path / "events.nq"
    path.write_bytes((end.join(lines) + end).encode())
    splits = split_file(str(path), target_bytes=5000, limits=SMALL)
    assert len(splits) > 10
    decoded = [batch for split in pickle.loads(pickle.dumps(splits)) for batch in decode_split(split, limits=SMALL)]  # noqa: S301  (just written)
    assert content(decoded) == content(list(decode_file(str(path), limits=SMALL)))


def test_an_event_is_never_split(tmp_path: Path) -> None:
    """A file that is one event is one split, however small the target."""
    path = tmp_path / "events.nq"
    path.write_text("".join(f'<urn:s> <urn:p> "{i}" <urn:e> .\n' for i in range(1000)))
    assert split_file(str(path), target_bytes=100, limits=SMALL) == [
        FileSplit(str(path), Format.N_QUADS, 0, path.stat().st_size, 1)
    ]


@pytest.mark.parametrize("name", ["small.nq", "events.trig"])
def test_other_files_are_one_split(tmp_path: Path, name: str) -> None:
    """A small file, or one in another format, is one split."""
    path = tmp_path / name
    path.write_text(
        "<urn:e> { <urn:s> <urn:p> <urn:o> }" if name.endswith("trig") else "<urn:s> <urn:p> <urn:o> <urn:e> ."
    )
    [split] = split_file(str(path), target_bytes=10)
    assert (split.start, split.stop) == (0, None)
    assert [decoded.events.column("id").to_pylist() for decoded in decode_split(split)] == [["urn:e"]]
