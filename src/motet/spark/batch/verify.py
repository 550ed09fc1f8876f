"""`motet verify` on Spark: everything derived again from the log, compared with the table in the lake.

The work is spread by subscription: each task reads the whole log through a kernel of its own that knows some of them,
with all control records at their places, so that offsets are exact whatever came and went. Subscriptions that derive
events and those they feed stay together; one subscription is not cut further. Both tables are then shuffled by links of
the chain and hashed there; the driver gets one digest for each link, and the rows of a link only where two differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from motet.engine.lives import parsed
from motet.engine.match.closing import background_of
from motet.jobs.verify import LINK_OFFSETS, Compared, Row, compare, derived_again, digest, links, rows
from motet.lake import Lake, Snapshot
from motet.lake.segments import read_rows
from motet.language.syntax import Construct, Subscription
from motet.model.batches import Triple
from motet.model.control import ControlState, entailment_of
from motet.model.records import BackgroundChange, Subscribe
from motet.plan.builder import build
from motet.plan.derivation_edges import feeds
from motet.spark.batch.events import Batches
from motet.spark.batch.run import cached, plain_errors
from motet.spark.session import parallelism, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINKED_ROWS = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),  # of the link
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)
LINK_DIGESTS = pa.schema([LINKED_ROWS.field("number"), pa.field("digest", pa.string(), nullable=False)])
BATCH_ROWS = 4096
PACKS_PER_CORE = 2
NO_ROWS = digest(())


def verify_spark(lake: Lake, snapshot: Snapshot) -> Compared:
    """The records that notifications were derived from, against these notifications."""
    spark = session()
    work = pack_subscriptions(snapshot, PACKS_PER_CORE * parallelism(spark))
    derive, read = Recompute(snapshot, lake.lateness, work), ReadTable(snapshot)
    with (
        plain_errors("the verification", "`motet inspect --check` lists files that are damaged."),
        ExitStack() as opened,
    ):
        tables = (
            DistributedTable(spark, opened, derive, len(work)),
            DistributedTable(spark, opened, read, len(snapshot.tables)),
        )
        return compare(*tables, snapshot.notified_to)


@dataclass(frozen=True)
class SubscriptionPack:
    """Subscriptions that one task derives."""

    reported: frozenset[str]
    active: frozenset[str]  # also the first of the log: the background at its place decides who feeds whom


@dataclass(frozen=True)
class Recompute:
    """Numbers of packs to ROWS."""

    snapshot: Snapshot
    lateness: int | None
    packs: Sequence[SubscriptionPack]

    def __call__(self, batches: Batches) -> Batches:
        for number in _numbers(batches):
            pack = self.packs[number]
            found = derived_again(self.snapshot, self.lateness, pack.active)
            own = (
                found if pack.reported == pack.active else (row for row in found if _subscription(row) in pack.reported)
            )
            yield from _batches(own, self.snapshot.notified_to)


@dataclass(frozen=True)
class ReadTable:
    """Numbers of the table's files to ROWS."""

    snapshot: Snapshot

    def __call__(self, batches: Batches) -> Batches:
        for number in _numbers(batches):
            file = self.snapshot.tables[number]
            found = (row for batch in read_rows(self.snapshot.store, file.name, 0, file.stop) for row in rows(batch))
            yield from _batches(found, self.snapshot.notified_to)


class DistributedTable:
    """A table that tasks make, in ROWS; ``kept`` for the rows of a link that differs."""

    def __init__(self, spark: SparkSession, opened: ExitStack, make: Recompute | ReadTable, tasks: int) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        numbers = spark.range(0, tasks, 1, max(tasks, 1))
        self._frame: DataFrame = opened.enter_context(cached(numbers.mapInArrow(make, from_arrow_schema(LINKED_ROWS))))
        self._shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def digests(self, stop: int) -> Iterator[str]:
        from pyspark.sql.pandas.types import from_arrow_schema

        together = self._frame.repartition(self._shuffled, "number").sortWithinPartitions(*LINKED_ROWS.names)
        found = together.mapInArrow(_digested, from_arrow_schema(LINK_DIGESTS)).collect()
        known = {row.number: row.digest for row in found}
        return (known.get(number, NO_ROWS) for number in range(links(stop)))

    def rows(self, number: int) -> list[Row]:
        found = self._frame.where(self._frame.number == number).select("offset", "text").collect()
        return sorted((row.offset, row.text) for row in found)


def pack_subscriptions(snapshot: Snapshot, most: int) -> list[SubscriptionPack]:
    """The subscriptions of a log, spread over tasks."""
    lives, background = _lives(snapshot)
    if not lives:
        return []
    together = _together([one for _, one in lives], background)
    spread: list[set[str]] = [set() for _ in range(min(most, len(together)))]
    for group in sorted(together, key=len, reverse=True):
        min(spread, key=len).update(group)
    first = lives[0][0]
    return [SubscriptionPack(frozenset(names), frozenset({*names, first})) for names in spread]


def _lives(snapshot: Snapshot) -> tuple[list[tuple[str, Subscription]], frozenset[Triple]]:
    """All subscriptions the log ever had, and the background before the first."""
    records = list(snapshot.control_records(Subscribe, BackgroundChange, stop=snapshot.notified_to))
    lives = [
        (record.name, parsed(record.text, f"subscription {record.name!r} in the log")[0])
        for record in records
        if isinstance(record, Subscribe)
    ]
    return lives, ControlState().apply_all(records).fix_edge_background()


def _together(subscriptions: Sequence[Subscription], background: frozenset[Triple]) -> list[set[str]]:
    """Names that cannot be separated: all that derive events with all they feed; any other stands alone."""
    names = {one.name for one in subscriptions}
    deriving = [one for one in subscriptions if isinstance(one.delivery, Construct)]
    others = [one for one in subscriptions if not isinstance(one.delivery, Construct)]
    fed = {one.name for one in deriving}
    numbered = [replace(one, name=str(number)) for number, one in enumerate(others)]  # a name may have several lives
    reasoner = background_of(background, entailment_of(background)).reasoner
    for producer in deriving:
        found = feeds(build([replace(producer, name="producer"), *numbered]), reasoner)
        fed.update(others[int(feed.consumer)].name for feed in found)
    return [*([fed] if fed else []), *({name} for name in sorted(names - fed))]


def _digested(batches: Batches) -> Batches:
    """Sorted ROWS to DIGESTS."""
    sorted_ = (tuple(row.values()) for batch in batches for row in batch.to_pylist())
    for number, group in groupby(sorted_, key=lambda row: row[0]):
        own = digest((offset, text) for _, offset, text in group)
        yield pa.RecordBatch.from_pydict({"number": [number], "digest": [own]}, schema=LINK_DIGESTS)


def _batches(found: Iterator[Row], stop: int) -> Batches:
    last = links(stop) - 1
    while some := list(islice(found, BATCH_ROWS)):
        columns = [[min(offset // LINK_OFFSETS, last) for offset, _ in some], *map(list, zip(*some, strict=True))]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=LINKED_ROWS)


def _numbers(batches: Batches) -> Iterator[int]:
    return (number for batch in batches for number in batch.column(0).to_pylist())


def _subscription(row: Row) -> str:
    return str(json.loads(row[1])["subscription"])
