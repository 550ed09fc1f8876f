"""`motet verify` on Spark: notifications recomputed from the log, compared with the notification table of the lake.

The work is divided by subscription: each task reads the whole log with a processor for some of the subscriptions, and
with all control records at their offsets, so that emission offsets are exact. Subscriptions that derive events stay
with those they feed; a single subscription is not divided. Both tables are shuffled by links of the hash chain and
hashed; the driver gets one digest for each link, and the rows of a link only where two digests differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING

import pyarrow as pa

from motet.engine.match.closure import closed_background
from motet.jobs.verify import LINK_OFFSETS, Comparison, TableRow, compare, digest, link_count, recompute, table_rows
from motet.lake import Snapshot
from motet.lake.segments import read_rows
from motet.language.parse import parse_registered
from motet.language.syntax import Construct, Subscription
from motet.model.batches import Triple
from motet.model.control import ControlState, registrations
from motet.model.records import BackgroundChange, SettingsChange, Subscribe
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges
from motet.spark.batch.run import cached, engine_errors
from motet.spark.encoding import Batches
from motet.spark.session import parallelism, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINKED_ROWS = pa.schema(
    [
        pa.field("link", pa.int64(), nullable=False),  # its index in the hash chain
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
    ]
)
LINK_DIGESTS = pa.schema([LINKED_ROWS.field("link"), pa.field("digest", pa.string(), nullable=False)])
BATCH_ROWS = 4096
PACKS_PER_CORE = 2
NO_ROWS = digest(())


def verify_spark(snapshot: Snapshot) -> Comparison:
    """Compare the notification table with the notifications recomputed from the same records."""
    spark = session()
    packs = pack_subscriptions(snapshot, PACKS_PER_CORE * parallelism(spark))
    recompute, read_table = Recompute(snapshot, packs), ReadTable(snapshot)
    advice = "`motet inspect --check` lists files that are damaged."
    with engine_errors("the verification", advice), ExitStack() as stack:
        tables = (
            DistributedTable(spark, stack, recompute, len(packs)),
            DistributedTable(spark, stack, read_table, len(snapshot.tables)),
        )
        return compare(*tables, snapshot.notifications_end)


@dataclass(frozen=True)
class SubscriptionPack:
    """The subscriptions of one task."""

    reported: frozenset[str]  # whose notifications the task returns
    active: frozenset[str]  # also the first of the log: the background at its offset decides the derivation edges


@dataclass(frozen=True)
class Recompute:
    """Indices of packs to LINKED_ROWS."""

    snapshot: Snapshot
    packs: Sequence[SubscriptionPack]

    def __call__(self, batches: Batches) -> Batches:
        for index in _indices(batches):
            pack = self.packs[index]
            computed = recompute(self.snapshot, pack.active)
            if pack.reported != pack.active:
                computed = (row for row in computed if _subscription(row) in pack.reported)
            yield from _linked_rows(computed, self.snapshot.notifications_end)


@dataclass(frozen=True)
class ReadTable:
    """Indices of the table's files to LINKED_ROWS."""

    snapshot: Snapshot

    def __call__(self, batches: Batches) -> Batches:
        for index in _indices(batches):
            file = self.snapshot.tables[index]
            stored = (
                row for batch in read_rows(self.snapshot.store, file.name, 0, file.stop) for row in table_rows(batch)
            )
            yield from _linked_rows(stored, self.snapshot.notifications_end)


class DistributedTable:
    """A table of LINKED_ROWS that tasks make; cached, because rows of links that differ are read again."""

    def __init__(self, spark: SparkSession, stack: ExitStack, make_rows: Recompute | ReadTable, tasks: int) -> None:
        from pyspark.sql.pandas.types import from_arrow_schema

        frame = spark.range(0, tasks, 1, max(tasks, 1)).mapInArrow(make_rows, from_arrow_schema(LINKED_ROWS))
        self._frame: DataFrame = stack.enter_context(cached(frame))
        self._partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def digests(self, stop: int) -> Iterator[str]:
        from pyspark.sql.pandas.types import from_arrow_schema

        by_link = self._frame.repartition(self._partitions, "link").sortWithinPartitions(*LINKED_ROWS.names)
        rows_ = by_link.mapInArrow(_link_digests, from_arrow_schema(LINK_DIGESTS)).collect()
        digests = {row.link: row.digest for row in rows_}
        return (digests.get(link, NO_ROWS) for link in range(link_count(stop)))

    def rows(self, link: int) -> list[TableRow]:
        link_rows = self._frame.where(self._frame.link == link).select("offset", "text").collect()
        return sorted((row.offset, row.text) for row in link_rows)


def pack_subscriptions(snapshot: Snapshot, max_packs: int) -> list[SubscriptionPack]:
    """Divide the subscriptions of a log over tasks."""
    registered, background, entailment = _registered(snapshot)
    if not registered:
        return []
    inseparable = _inseparable([subscription for _, subscription in registered], background, entailment)
    packs: list[set[str]] = [set() for _ in range(min(max_packs, len(inseparable)))]
    for names in sorted(inseparable, key=len, reverse=True):
        min(packs, key=len).update(names)
    first = registered[0][0]
    return [SubscriptionPack(frozenset(names), frozenset({*names, first})) for names in packs]


def _registered(snapshot: Snapshot) -> tuple[list[tuple[str, Subscription]], frozenset[Triple], str]:
    """All subscriptions that were ever registered in the log, and the background and entailment before the first."""
    kinds = (Subscribe, BackgroundChange, SettingsChange)
    records = list(snapshot.control_records(*kinds, stop=snapshot.notifications_end))
    registered = [(each.subscribe.name, parse_registered(each)[0]) for each in registrations(records)]
    state = ControlState().apply_all(records)
    return registered, state.fix_edge_background(), state.edge_entailment


def _inseparable(
    subscriptions: Sequence[Subscription], background: frozenset[Triple], entailment: str
) -> list[set[str]]:
    """Sets of names that one task must process: all that derive events with all they feed, and each other alone."""
    names = {subscription.name for subscription in subscriptions}
    upstream = [subscription for subscription in subscriptions if isinstance(subscription.delivery, Construct)]
    rest = [subscription for subscription in subscriptions if not isinstance(subscription.delivery, Construct)]
    linked = {subscription.name for subscription in upstream}
    by_index = [replace(subscription, name=str(index)) for index, subscription in enumerate(rest)]  # names may repeat
    reasoner = closed_background(background, entailment).reasoner
    for producer in upstream:
        edges = derivation_edges(build_plan([replace(producer, name="producer"), *by_index]), reasoner)
        linked.update(rest[int(edge.consumer)].name for edge in edges)
    return [*([linked] if linked else []), *({name} for name in sorted(names - linked))]


def _link_digests(batches: Batches) -> Batches:
    """Sorted LINKED_ROWS to LINK_DIGESTS."""
    sorted_rows = (tuple(row.values()) for batch in batches for row in batch.to_pylist())
    for link, link_rows in groupby(sorted_rows, key=lambda row: row[0]):
        link_digest = digest((offset, text) for _, offset, text in link_rows)
        yield pa.RecordBatch.from_pydict({"link": [link], "digest": [link_digest]}, schema=LINK_DIGESTS)


def _linked_rows(rows_: Iterator[TableRow], stop: int) -> Batches:
    last = link_count(stop) - 1
    while chunk := list(islice(rows_, BATCH_ROWS)):
        columns = [[min(offset // LINK_OFFSETS, last) for offset, _ in chunk], *map(list, zip(*chunk, strict=True))]
        yield pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=LINKED_ROWS)


def _indices(batches: Batches) -> Iterator[int]:
    return (index for batch in batches for index in batch.column(0).to_pylist())


def _subscription(row: TableRow) -> str:
    return str(json.loads(row[1])["subscription"])
