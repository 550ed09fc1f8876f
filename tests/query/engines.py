"""The engines that answer whole queries, by name: tests of queries and the W3C suites run on each of them.

What an engine cannot do it refuses by a MotetError.
"""

from __future__ import annotations

from collections.abc import Callable

from motet.query.duckdb_engine import answer_with_duckdb
from motet.sparql.algebra import Query
from motet.sparql.dataset import Dataset
from motet.sparql.evaluate import Answer, answer

Engine = Callable[[Query, Dataset], Answer]
ENGINES: dict[str, Engine] = {"memory": answer, "duckdb": answer_with_duckdb}


def answer_with_spark(query: Query, dataset: Dataset) -> Answer:
    """On one session of this machine for the whole process."""
    from motet.spark import query_engine
    from motet.spark.session import session

    settings = {"spark.sql.shuffle.partitions": "1", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    return query_engine.answer_with_spark(session(master="local[2]", config=settings), query, dataset)


SLOW_ENGINES: dict[str, Engine] = {"spark": answer_with_spark}  # for the W3C suites
