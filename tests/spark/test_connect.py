"""Everything that runs on Spark also runs through a Spark Connect server, whose driver is another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark import doors
from tests.spark.standalone import PATIENCE, connect

from motet.lake import Lake

SUBSCRIPTION = "SUBSCRIPTION two EVENT a EVENT b WHEN a BEFORE b WITHIN 3 s CONTEXT recent SELECT ?a ?b"
FRAME = """
from motet.spark import detect
from motet.spark.session import session

rows = [("a", 0), ("b", 1), ("a", 9)]
frame = session().createDataFrame(rows, "kind string, second long")
frame = frame.selectExpr("kind", "timestamp_seconds(second) AS at")
found = detect(frame, "one BEFORE two", events={"one": "kind = 'a'", "two": "kind = 'b'"}, start="at")
print(found.count())
"""


def test_a_connect_server_has_the_results_of_one_process(tmp_path: Path) -> None:
    """The pipeline, a replay, the verification, a run over files and patterns of a frame give what they give here."""
    lake = Lake.open(tmp_path / "lake", durable=False)
    doors.fill(lake)
    (tmp_path / "two.motet").write_text(SUBSCRIPTION)
    (tmp_path / "events.nq").write_text('<urn:e> <urn:p> "1" <urn:e> .\n<urn:f> <urn:p> "2" <urn:f> .\n')
    replay = ["motet", "replay", "--lake", "lake", "--subscriptions", "two.motet"]
    run = ["motet", "run", "--subscriptions", "two.motet", "--events", "events.nq", "--arrival", "2026-01-01T00:00:00Z"]
    with connect() as remote:
        stream = ["motet", "stream", "--lake", "lake", "--once", "--json", "--buckets", "4", "--max-records", "40"]
        sums = json.loads(_said(stream, tmp_path, remote).splitlines()[-1])
        assert doors.lines(lake.notifications()) == doors.expected(lake)
        assert (sums["records"], sums["notifications"]) == (doors.RECORDS, len(doors.expected(lake)))
        verified = json.loads(_said(["motet", "verify", "--lake", "lake", "--json"], tmp_path, remote))
        assert (verified["agreed_to"], verified["difference"]) == (doors.RECORDS, None)
        for command in (replay, run):
            here = _said([*command, "--engine", "embedded"], tmp_path)
            assert _said([*command, "--engine", "spark"], tmp_path, remote) == here
        assert _said(["-c", FRAME], tmp_path, remote) == "1\n"


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """The error names the server, without a stack trace."""
    Lake.open(tmp_path / "lake", durable=False)
    with pytest.raises(AssertionError, match=r"motet stream: .*sc://127\.0\.0\.1:9"):
        _said(["motet", "stream", "--lake", "lake", "--once"], tmp_path, "sc://127.0.0.1:9")


def _said(command: list[str], folder: Path, remote: str | None = None) -> str:
    """What a command prints, with relative paths, which mean something else to the server."""
    words = ["-m", "motet.cli.main", *command[1:]] if command[0] == "motet" else command
    env = os.environ | ({"SPARK_REMOTE": remote} if remote else {})
    call = [sys.executable, *words]
    done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout
