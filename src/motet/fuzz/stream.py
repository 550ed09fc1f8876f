"""The pipeline on Spark's streaming: many cases in one query, each a lake of its own.

Where batches are cut, how many buckets there are and over how many partitions they are spread is drawn for each query.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from motet.fuzz.case import Case
from motet.fuzz.kernel import log_of
from motet.fuzz.oracle import lines_of
from motet.model.batches import notification_rows

if TYPE_CHECKING:
    from motet.lake import Lake


@dataclass(frozen=True)
class StreamEngine:
    name: str = "spark-stream"
    takes_logs: bool = True
    at_once: int = 60
    tells_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        from motet.fuzz.replays import lake_of
        from motet.spark.session import session
        from motet.spark.stream.job import start_query

        random = Random(cases[0].seed)  # noqa: S311  (seeded, not secret)
        spark = session()
        with tempfile.TemporaryDirectory(prefix="motet-fuzz-") as folder:
            lakes = [lake_of(case, Path(folder) / str(number)) for number, case in enumerate(cases)]
            spark.conf.set("spark.sql.shuffle.partitions", random.randint(1, 4))
            query = start_query(
                spark,
                [lake.store.root for lake in lakes],
                Path(folder) / "checkpoint",
                buckets=random.randint(1, 4),
                max_records=random.choice((5, 9, 14, 30, 1000)),
                once=True,
            )
            query.awaitTermination()
            return [_lines(case, lake) for case, lake in zip(cases, lakes, strict=True)]


def _lines(case: Case, lake: Lake) -> list[str]:
    _, places = log_of(case)
    told = (row for batch in lake.notifications() for row in notification_rows(batch))
    return lines_of([(places[offset], notification) for notification, offset in told], offsets=True)
