"""The kernel spread over buckets, without a host: what one process routes, others detect, state at every cut.

It is what the pipeline on Spark does, less Spark: thousands of cases in the time Spark needs for some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from motet.fuzz.case import Case
from motet.fuzz.kernel import log_of, pieces
from motet.fuzz.oracle import lines_of
from motet.language.parse import parse
from motet.model.batches import notification_rows

if TYPE_CHECKING:
    from motet.engine.reading import FilteredRecords


@dataclass(frozen=True)
class BucketsEngine:
    """As many buckets as the case's seed says, from one to five."""

    name: str = "buckets"
    takes_logs: bool = True
    at_once: int = 1
    tells_offsets: bool = True

    def run(self, cases: Sequence[Case]) -> list[list[str]]:
        return [self._lines(case) for case in cases]

    def _lines(self, case: Case) -> list[str]:
        from motet.engine.buckets import Buckets, feeding_each_other
        from motet.engine.kernel import Kernel
        from motet.engine.state.snapshot import StateSnapshot
        from motet.model.timeline import FrontierTimeline
        from motet.spark.stream.backfill import BucketBackfill

        random = Random(case.seed)  # noqa: S311  (seeded, not secret)
        records, places = log_of(case)
        buckets = Buckets(random.randint(1, 5), feeding_each_other(records))

        def past(bucket: int, offset: int) -> Iterator[pa.RecordBatch | FilteredRecords]:
            before = pieces(records.slice(0, offset), random)
            (subscription,) = parse(records.column("text")[offset].as_py())
            is_at_home = buckets.is_at_home(subscription)
            return (
                before
                if is_at_home
                else BucketBackfill(subscription, buckets, before, case.lateness).read_bucket(bucket)
            )

        router = Kernel(lateness=case.lateness, buckets=buckets)
        kernels = [
            Kernel(lateness=case.lateness, history=partial(past, number), buckets=buckets, bucket=number)
            for number in range(buckets.count)
        ]
        told: list[pa.RecordBatch] = []
        for piece in pieces(records, random):
            matched, routed = router.spread(piece)
            told.append(matched)
            timeline = FrontierTimeline.from_records(piece, case.lateness)
            for number, kernel in enumerate(kernels):
                mine = np.isin(timeline.offsets, routed[routed[:, 0] == number, 1]) | timeline.is_boundary
                told.append(kernel.advance(piece.filter(pa.array(mine)), timeline))
                saved = StateSnapshot.from_bytes(kernel.dump())
                history = partial(past, number)
                kernels[number] = Kernel.resumed(saved, history=history, buckets=buckets, bucket=number)
        found = [(places[offset], one) for batch in told for one, offset in notification_rows(batch)]
        return lines_of(found, offsets=True)
