"""The progress view of a pipeline."""

from __future__ import annotations

import json
import sys

import pytest
from rich.console import Console
from rich.live import Live

from motet.cli.progress_view import LiveTable, progress_view
from motet.jobs.stream_progress import BatchProgress, LakeStatus

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
