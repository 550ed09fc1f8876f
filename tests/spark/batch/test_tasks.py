"""Runs on Spark with composite subscriptions, against the embedded engine."""

from __future__ import annotations

import io
from pathlib import Path

from pyspark.sql import SparkSession

from motet.demo import building
from motet.jobs.run import load_job, run_embedded
from motet.model.terms import XSD
from motet.ontology.load import load
from motet.spark.batch.run import run_spark

MORE = """
PREFIX bld: <http://example.org/building#>

# Known only from silence: no event of it ever comes.
SUBSCRIPTION quiet SINCE "2026-11-16T00:00:00Z" EVENT e : bld:Earthquake WHEN NO e FOR 1 d SIGNAL

# The key is not told, and a derived event shows all it was made of.
SUBSCRIPTION twice
  EVENT one : bld:Alarm { ?one bld:room ?room }
  EVENT other : bld:Alarm { ?other bld:room ?room }
  WHEN one BEFORE other WITHIN 10 min
  EVENTS
"""


def test_composite_subscriptions_give_the_same_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Groups with a key, with derivation edges and with NO equal the embedded engine; a repeated event is ignored."""
    paths = building.write_events(tmp_path / "events", events=600, files=3)
    again = tmp_path / "again.nq"
    again.write_text(paths[1].read_text().replace("SmokeAlarm", "HeatAlarm") + "".join(_extra()))
    (tmp_path / "more.motet").write_text(MORE)
    texts = [building.subscriptions_path(), building.composite_path(), tmp_path / "more.motet"]
    events = [*map(str, [*paths, again])]
    job = load_job([*map(str, texts)], events, ontology=load([building.ontology_path()]), arrival=0)
    here, there = io.BytesIO(), io.BytesIO()
    embedded, on_spark = run_embedded(job, here, lambda _: None), run_spark(job, there, lambda _: None)
    assert there.getvalue() == here.getvalue()
    assert on_spark.repeated == embedded.repeated > 100
    assert on_spark.notifications == embedded.notifications == here.getvalue().count(b"\n")
    for name in ("fire", "fire-spreads", "smoke-in-drill", "quiet", "twice"):
        assert f'"subscription": "{name}"'.encode() in here.getvalue()


def _extra() -> list[str]:
    """An alarm in two rooms at once after another: two ways to the same pair, in two buckets."""
    names = [("urn:alarm:1", "12:00:00"), ("urn:alarm:2", "12:01:00")]
    return [
        f"<{name}> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{building.BLD}HeatAlarm> <{name}> .\n"
        f"<{name}> <{building.BLD}room> <{building.ROOM}0-lobby> <{name}> .\n"
        f"<{name}> <{building.BLD}room> <{building.ROOM}1-south> <{name}> .\n"
        f'<{name}> {building.RESULT_TIME} "2026-11-16T{clock}Z"^^<{XSD}dateTime> <{name}> .\n'
        for name, clock in names
    ]
