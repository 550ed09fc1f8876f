"""The how-to guides do what they say: their files, commands and programs are executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.transcripts import run_page


@pytest.mark.parametrize("page", ["guide-python.md", "guide-ontology.md", "guide-shell.md"])
def test_a_guide_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command and each program prints what the page shows."""
    monkeypatch.chdir(tmp_path)
    assert run_page(page, tmp_path) > 5
