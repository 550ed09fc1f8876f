"""Acknowledged events survive: writers and a compactor killed with SIGKILL at random moments.

``MOTET_KILLS`` sets the number of kills, ``MOTET_KILLS_SEED`` the dice.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from motet.lake import Lake

STORM = Path(__file__).with_name("kill_storm.py")


@pytest.mark.parametrize("grace", [0, 10_000_000], ids=["with the courtesy lock", "without it"])
def test_acknowledged_events_survive_kills(tmp_path: Path, grace: int) -> None:
    """The log holds every acknowledged event once, offsets have no gap, and the lake is sound and writable."""
    kills = int(os.environ.get("MOTET_KILLS", "200")) // 2
    seed = os.environ.get("MOTET_KILLS_SEED", "0")
    lake_path, acknowledged = tmp_path / "lake", tmp_path / "acknowledged"
    run = [sys.executable, str(STORM), str(lake_path), str(acknowledged), str(kills), seed, str(grace)]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, ""), f"MOTET_KILLS_SEED={seed}"

    lake = Lake.open(lake_path)
    snapshot = lake.snapshot()
    records = pa.Table.from_batches(snapshot.records(columns=["offset", "kind", "id"])).to_pylist()
    held = Counter(record["id"] for record in records if record["kind"] == "event")
    promised = set(acknowledged.read_text().splitlines())
    assert len(promised) > kills // 10, "the writers hardly came to write"
    assert promised - held.keys() == set(), f"MOTET_KILLS_SEED={seed}"
    assert [iri for iri, times in held.items() if times != 1] == []
    assert [record["offset"] for record in records] == list(range(snapshot.next_offset))
    assert lake.check() == []

    lake.tick(0)  # with one more commit, whatever the dead left behind is certain to be an orphan
    lake.compact()
    lake.vacuum(0)
    assert [lake.store.path(name) for name in lake.store.names("segments")] == lake.snapshot().segment_paths()
    assert lake.check() == []
