"""The live cloud with its notifications derived by the streaming pipeline.

The query runs as long as the cloud is open, from the first record on that has to be derived. What it remembers is in
its checkpoint, the one that `motet stream` uses.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from motet.embedded.cloud import Cloud
from motet.lake import Lake
from motet.spark.session import session
from motet.spark.stream.checkpoint import default_of
from motet.spark.stream.errors import spoken
from motet.spark.stream.pipeline import start


def open_on_spark(directory: str | Path, *, durable: bool = True) -> Cloud:
    """A cloud whose worker thread waits for Spark."""
    return SparkCloud(Lake.open(directory, durable=durable), session())


class SparkCloud(Cloud):
    """A cloud and its query."""

    def __init__(self, lake: Lake, spark: SparkSession) -> None:
        super().__init__(lake, self._derived, threaded=True)
        self._spark = spark
        self._query: StreamingQuery | None = None

    def close(self) -> None:
        """Deliver what is left, and stop the query, too."""
        try:
            super().close()
        finally:
            query, self._query = self._query, None
            if query:
                query.stop()

    def _derived(self) -> None:
        """Have the query derive all there is; one that has ended by an error is started anew the next time."""
        root = self.lake.store.root
        checkpoint = default_of([root]).absolute()
        if self._query is None:
            self._query = start(self._spark, [root], checkpoint)
        try:
            self._query.processAllAvailable()
        except PySparkException as error:
            self._query = None
            raise spoken(error, checkpoint) from error
