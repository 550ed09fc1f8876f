"""Ontologies on Spark: background individuals and classes defined by axioms."""

from __future__ import annotations

import io
from pathlib import Path

from pyspark.sql import SparkSession

from motet.jobs.run import BatchJob, load_job, run_embedded
from motet.ontology.load import load
from motet.spark.batch.run import run_spark

EXAMPLES = Path(__file__).parents[3] / "examples"


def job_of(example: str, subscriptions: str) -> BatchJob:
    home = EXAMPLES / example
    ontology = load([home / "ontology.ttl"])
    return load_job([str(home / subscriptions)], [str(home / "events.trig")], ontology=ontology, arrival=0)


def test_reasoning_gives_the_same_bytes_on_spark(spark: SparkSession) -> None:
    """Each example with an ontology gives the same bytes on Spark as on the embedded engine."""
    for example, subscriptions in (("video", "video.motet"), ("home-network", "home.motet")):
        job = job_of(example, subscriptions)
        here, there = io.BytesIO(), io.BytesIO()
        run_embedded(job, here, lambda _: None)
        assert run_spark(job, there, lambda _: None).notifications > 3
        assert there.getvalue() == here.getvalue()
