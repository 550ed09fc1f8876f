"""Detection behind the shuffle: each group of a component and a bucket has a kernel of its own.

Spark brings the events of a group together and sorts them by their places in the files or the log; a task reads one
group after the other and remembers only that of the moment. Groups without events need no kernel, except where silence
speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from motet.engine.kernel import Kernel
from motet.jobs.replay import Setting
from motet.model.schemas import EVENTS, RECORDS
from motet.model.tables import event_records
from motet.spark.components import Division, Spread
from motet.spark.events import Batches
from motet.spark.match import SORTABLE, sortable
from motet.spark.spread import Bucket
from motet.spark.triples import from_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPED = pa.schema(
    [
        pa.field("component", pa.int32(), nullable=False),
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        RECORDS.field("frontier"),
        *(EVENTS.field(name).with_nullable(True) for name in ("id", "start", "end")),  # null: no event, only the group
        pa.field("triples", pa.string()),  # as text
    ]
)
TOLD = pa.schema(list(SORTABLE))


@dataclass
class Detection:
    """The kernels of a division, begun when they are needed."""

    division: Division
    _begun: dict[int, Kernel] = field(default_factory=dict)

    def kernel(self, number: int, bucket: int) -> Kernel:
        """One that has read nothing."""
        component = self.division.components[number]
        if number not in self._begun:
            self._begun[number] = self.division.kernel.anew(component.subscriptions)
        first = self._begun[number]
        keep = Bucket(component, first.plan(), bucket) if component.spread is Spread.KEY else None
        return first.anew(component.subscriptions, keep)


@dataclass(frozen=True)
class Detect:
    """Sorted rows of GROUPED to rows of TOLD."""

    pickled: bytes  # the division
    setting: Setting

    def __call__(self, batches: Batches) -> Batches:
        detection = _detection(self.pickled)
        parts = (part for rows in batches for part in _parts(rows))
        for (component, bucket), group in groupby(parts, key=_group):
            kernel = detection.kernel(component, bucket)
            for records in self.setting.along(map(_events, group)):
                yield told(kernel.advance(records))


def told(notifications: pa.RecordBatch) -> pa.RecordBatch:
    """NOTIFICATIONS as rows that can be sorted and written."""
    return pa.RecordBatch.from_arrays(sortable(notifications).flatten(), schema=TOLD)


def detect(spark: SparkSession, accepted: DataFrame, division: Division, setting: Setting) -> DataFrame:
    """What the components of a division find in accepted events, in rows of TOLD.

    Accepted events have the columns of GROUPED behind the group, and their ``groups``; offsets only say the order.
    """
    from pyspark.cloudpickle import dumps
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import from_arrow_schema

    rows = accepted.where(f.size("groups") > 0).select("*", f.inline("groups")).select(*GROUPED.names)
    if silent := [number for number, one in enumerate(division.components) if one.may_start_alone]:
        alone = [(number, 0, -1, *[None] * (len(GROUPED) - 3)) for number in silent]
        rows = spark.createDataFrame(alone, rows.schema).union(rows)
    tasks = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    sorted_ = rows.repartition(tasks, "component", "bucket").sortWithinPartitions("component", "bucket", "offset")
    work = Detect(dumps(division), setting)  # type: ignore[no-untyped-call]  # a vendored module without types
    found = sorted_.mapInArrow(work, from_arrow_schema(TOLD))
    return found.dropDuplicates(["text"]) if any(one.may_repeat for one in division.components) else found


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Rows of one group at a time."""
    numbers = np.stack([np.asarray(rows.column(name)) for name in ("component", "bucket")])
    cuts = np.flatnonzero((np.diff(numbers) != 0).any(axis=0)) + 1
    for begin, end in pairwise([0, *cuts.tolist(), len(rows)]):
        if begin < end:
            yield rows.slice(begin, end - begin)


def _events(part: pa.RecordBatch) -> pa.RecordBatch:
    """The events of a group as RECORDS, as they were before the shuffle."""
    events = part.filter(part.column("id").is_valid())
    index = events.schema.get_field_index("triples")
    whole = events.set_column(index, EVENTS.field("triples"), from_text(events.column("triples")))
    return event_records(whole, whole.column("offset"), whole.column("frontier"))


def _group(part: pa.RecordBatch) -> tuple[int, int]:
    return part.column("component")[0].as_py(), part.column("bucket")[0].as_py()


@lru_cache(maxsize=4)
def _detection(pickled: bytes) -> Detection:
    """A worker process runs many tasks: what is compiled is kept from one to the next."""
    from pyspark.cloudpickle import loads

    return Detection(loads(pickled))
