"""Verification of a notification table, and its report."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import RESULT_TIME, datetime, event_nquads

import motet
from motet.cli.main import main
from motet.fuzz.case import expected_result
from motet.fuzz.cases import nth_case
from motet.fuzz.lakes import lake_offsets, write_lake
from motet.fuzz.subscriptions import EngineCapabilities
from motet.jobs.verify import (
    Comparison,
    StreamedTable,
    TableDifference,
    TableRow,
    compare,
    digest,
    first_difference,
    recompute,
    stored_rows,
    verify_embedded,
)
from motet.lake import Lake
from motet.model.batches import notification_batch
from motet.model.terms import RDF_TYPE, iri

PAIR = "SUBSCRIPTION pair EVENT a : <urn:A> EVENT b : <urn:B> WHEN a BEFORE b WITHIN 5 s SELECT ?a ?b"

Rows = list[dict[str, Any]]


def quads(number: int, class_: str) -> str:
    time = (RESULT_TIME, datetime(f"2026-11-15T10:00:{number:02}Z"))
    return event_nquads(f"urn:{number}", (RDF_TYPE, iri(f"urn:{class_}")), time)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Three pairs: the second is final with the record 6, the third with 7."""
    Lake.open(tmp_path / "lake", lateness=1_000_000)
    with motet.open(tmp_path / "lake") as cloud:
        cloud.subscribe(PAIR, lambda _: None)
        for number in range(1, 4):
            cloud.publish(quads(2 * number, "A") + quads(2 * number + 1, "B"))
        cloud.tick("2026-11-15T10:01:00Z")
    return tmp_path / "lake"


def rewrite(lake: Path, change: Callable[[Rows], Rows]) -> None:
    """Tamper with the rows of the notification table."""
    for path in Lake.open(lake).snapshot().notification_paths():
        table = pq.read_table(path)
        pq.write_table(pa.Table.from_pylist(change(table.to_pylist()), schema=table.schema), path)


def verified(lake: Path) -> Comparison:
    return verify_embedded(Lake.open(lake).snapshot())


def test_an_untouched_lake_agrees(lake: Path) -> None:
    """Both chains agree up to the end of the table, here in one link."""
    found = verified(lake)
    assert (found.links, found.agreed_to, found.difference) == (1, 9, None)


def test_the_chain_can_be_computed_with_other_tools(lake: Path) -> None:
    """By docs/operations.md: a line for each notification, a digest for each link, a hash of hashes."""
    lines = "".join(f"{offset} {text}\n" for offset, text in sorted(stored_rows(Lake.open(lake).snapshot())))
    assert lines.count("\n") == 3
    begin = hashlib.sha256(b"motet notifications 1\n").hexdigest()
    own = hashlib.sha256(lines.encode()).hexdigest()
    assert verified(lake).head == hashlib.sha256(f"{begin} 0 9 {own}\n".encode()).hexdigest()


def test_links_have_fixed_offsets() -> None:
    """Links have fixed offset ranges, with or without notifications in them."""
    rows: list[TableRow] = [(1, "one"), (4096, "two"), (20_000, "three")]
    assert list(StreamedTable(rows).digests(20_001)) == [
        digest(rows[:1]),
        digest(rows[1:2]),
        digest([]),
        digest([]),
        digest(rows[2:]),
    ]


def test_random_logs_have_the_chain_of_the_reference_engine(tmp_path: Path) -> None:
    """The embedded and the reference engine give the same rows, and so the same head."""
    for number in range(12):
        case = nth_case(21, number, EngineCapabilities())
        lake = write_lake(case, tmp_path / str(number))
        emissions = expected_result(case).emissions
        expected = sorted((offset, notification.to_line()) for offset, notification in emissions)
        lake.commit_notifications(notification_batch(()), 0, lake.snapshot().next_offset)
        offsets = lake_offsets(case)
        assert sorted((offsets[offset], line) for offset, line in recompute(lake.snapshot())) == expected


def changed_binding(rows: Rows) -> Rows:
    rows[1]["bindings"][0]["term"] = "<urn:other>"
    return rows


@pytest.mark.parametrize(
    ("change", "kind", "offset"),
    [
        (changed_binding, "different", 7),
        (lambda rows: [rows[0], rows[2]], "missing", 7),
        (lambda rows: [*rows, rows[2]], "extra", 8),
        (lambda rows: [rows[0], rows[1], rows[2] | {"offset": 7}], "different", 7),
        (lambda rows: [rows[0], rows[1], rows[2] | {"subscription": "other"}], "missing", 8),
    ],
)
def test_tampering_is_detected(
    change: Callable[[Rows], Rows], kind: str, offset: int, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first difference is named by offset, subscription and kind, and the exit status is 1."""
    rewrite(lake, change)
    found = verified(lake).difference
    assert found is not None
    assert (found.kind, found.offset, found.subscription) == (kind, offset, "pair")
    assert main(["verify", "--lake", str(lake), "--engine", "embedded"]) == 1
    assert f"at offset {offset}, subscription 'pair': a notification is {kind}" in capsys.readouterr().err
    assert main(["verify", "--lake", str(lake), "--engine", "embedded", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)["difference"]
    assert (shown["kind"], shown["offset"], shown["subscription"]) == (kind, offset, "pair")


def test_unprocessed_records_are_no_error(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The records after the end of the table are reported; the others are compared."""
    Lake.open(lake).tick(0)
    assert main(["verify", "--lake", str(lake), "--engine", "embedded"]) == 0
    printed = capsys.readouterr()
    assert "the last 1 records are not processed yet" in printed.err
    assert "the notification table agrees with the log" in printed.out


def test_an_empty_lake_and_no_lake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table agrees with an empty log; a directory that is not a lake is refused."""
    Lake.open(tmp_path / "lake")
    assert main(["verify", "--lake", str(tmp_path / "lake"), "--engine", "embedded"]) == 0
    assert "there are no notifications to compare" in capsys.readouterr().out
    assert main(["verify", "--lake", str(tmp_path / "none"), "--engine", "embedded"]) == 1
    assert "is not a lake" in capsys.readouterr().err


def test_kinds_of_differences() -> None:
    """A row with the same offset and subscription replaces the missing one; a row elsewhere does not."""
    mine, other = (7, '{"id": "1", "subscription": "s"}'), (7, '{"id": "2", "subscription": "s"}')
    assert first_difference([mine], [other]) == TableDifference(mine, other)
    assert first_difference([mine], []) == TableDifference(mine, None)
    assert first_difference([], [other]) == TableDifference(None, other)
    assert compare(StreamedTable([mine]), StreamedTable([mine]), 8).difference is None
