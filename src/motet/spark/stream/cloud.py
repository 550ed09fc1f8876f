"""The live cloud whose notifications the streaming pipeline computes.

The query runs while the cloud is open. Its state is in the checkpoint that `motet stream` uses.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.spark.session import session
from motet.spark.stream.checkpoint import default_checkpoint
from motet.spark.stream.job import PipelineJob


def open_on_spark(directory: str | Path, *, durable: bool = True) -> Cloud:
    """Open a cloud whose worker thread drives a streaming query."""
    return SparkCloud(Lake.open(directory, durable=durable), session())


class SparkCloud(Cloud):
    """A cloud with a streaming query as its backend."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        self._pipeline = PipelineJob(spark, [lake], default_checkpoint([lake.store.root]).absolute())
        super().__init__(lake, self._pipeline.process_available, threaded=True)

    def close(self) -> None:
        """Deliver the remaining notifications, then stop the query."""
        try:
            super().close()
        finally:
            self._pipeline.stop()
