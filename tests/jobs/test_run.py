"""Batch runs over event files."""

from __future__ import annotations

import io
from pathlib import Path

from motet.jobs.run import EventFiles, load_job, run_embedded
from motet.model.errors import ConflictError, DecodeError

SUBSCRIPTION = "SUBSCRIPTION s EVENT e { ?e <urn:value> ?v } WHEN e SELECT ?v"


def write(path: Path, *events: tuple[int, int]) -> str:
    path.write_text("".join(f'<urn:e:{e}> <urn:value> "{value}" <urn:e:{e}> .\n' for e, value in events))
    return str(path)


def test_repetitions_and_conflicts_between_files(tmp_path: Path) -> None:
    """Of several events with one IRI the first counts; equal ones are repeated, others are rejected with their line."""
    paths = [
        write(tmp_path / "one.nq", (1, 1), (2, 2)),
        write(tmp_path / "two.nq", (3, 3)),
        write(tmp_path / "three.nq", (4, 4), (1, 1), (2, 5), (3, 3)),
        write(tmp_path / "four.nq", (4, 5), (5, 5)),
    ]
    (tmp_path / "s.motet").write_text(SUBSCRIPTION)
    job = load_job([str(tmp_path / "s.motet")], paths, arrival=0)
    rejected: list[DecodeError] = []
    files = EventFiles(job, rejected.extend)
    assert [id_ for batch in files for id_ in batch.column("id").to_pylist()] == [f"urn:e:{n}" for n in range(1, 6)]
    assert [(Path(str(e.source)).name, e.line, e.event, type(e)) for e in rejected] == [
        ("three.nq", 3, "urn:e:2", ConflictError),
        ("four.nq", 1, "urn:e:4", ConflictError),
    ]
    summary = run_embedded(job, io.BytesIO(), lambda _: None)
    assert (summary.events, summary.repeated, summary.rejected, summary.notifications) == (5, 2, 2, 5)


def test_rest_and_base_reach_the_files(tmp_path: Path) -> None:
    """The arguments base and rest hold for all files, and what they leave out is counted."""
    (tmp_path / "e.ttl").write_text("<> <urn:value> <x> . <urn:lost> a <urn:Thing> .")
    (tmp_path / "s.motet").write_text(SUBSCRIPTION)
    sink = io.BytesIO()
    job = load_job([str(tmp_path / "s.motet")], [str(tmp_path / "e.ttl")], arrival=0, base="http://b/", rest="drop")
    summary = run_embedded(job, sink, lambda _: None)
    assert (summary.events, summary.dropped, b'"http://b/x"' in sink.getvalue()) == (1, 1, True)
