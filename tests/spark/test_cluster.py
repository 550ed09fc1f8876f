"""The pipeline on a real cluster: a master, two workers, and a driver beside them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.spark import doors
from tests.spark.standalone import LOOPBACK, PATIENCE, standalone

from motet.lake import Lake


def test_a_cluster_has_the_notifications_of_one_process(tmp_path: Path) -> None:
    """The package is shipped to the workers, and the table equals the embedded engine's, offset by offset."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    doors.fill(lake)
    settings = {**LOOPBACK, "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "2"}
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    with standalone(2, memory="700M") as cluster:
        call = [sys.executable, "-m", "motet.cli.main", "submit", "--master", cluster.master, *conf, "--", "stream"]
        call += ["--lake", str(lake.store.root), "--once", "--json", "--buckets", "4", "--max-records", "40"]
        done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert doors.lines(lake.notifications()) == doors.expected(lake)
    sums = json.loads(done.stdout.splitlines()[-1])
    assert (sums["batches"], sums["records"], sums["notifications"]) == (2, doors.RECORDS, len(doors.expected(lake)))
