"""One Spark session for every test here: starting one costs seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from motet.spark.session import session

QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}  # nothing here runs long enough to be optimised


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session(master="local[2]", app_name="motet-tests", config=QUICK)
    yield running
    running.stop()
