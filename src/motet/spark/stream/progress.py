"""The figures of a batch of the pipeline from Spark's progress, and from sums over the rows of its stages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from motet.jobs.stream_progress import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery

MATCH_SUMS, DETECT_SUMS = "read", "made"  # names of the sums that Spark observes after each stage

_PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")  # of Spark, in their order


def observed_sums(names: Sequence[str]) -> list[Column]:
    """Sums of columns, which Spark observes while the rows pass."""
    from pyspark.sql.functions import coalesce, lit
    from pyspark.sql.functions import sum as sum_

    return [coalesce(sum_(name), lit(0)).alias(name) for name in names]


def ended_batches(
    query: StreamingQuery, after: int, starts: Mapping[str, int] | None = None
) -> Iterator[BatchProgress]:
    """The batches after a batch number that have ended; Spark holds the last hundred.

    ``starts`` has the first offset of the query by lake, if it is not 0.
    """
    for progress in query.recentProgress:
        fields = json.loads(progress.json)
        if fields["batchId"] > after and any(source["numInputRows"] for source in fields["sources"]):
            yield parse_progress(fields, starts)


def parse_progress(progress: Mapping[str, Any], starts: Mapping[str, int] | None = None) -> BatchProgress:
    """The figures of a batch, from the JSON of Spark's progress."""
    observed = progress.get("observedMetrics", {})
    matched, detected = (_observed_sums(observed.get(name, {})) for name in (MATCH_SUMS, DETECT_SUMS))
    durations = progress["durationMs"]
    return BatchProgress(
        number=progress["batchId"],
        at=progress["timestamp"],
        seconds=progress["batchDuration"] / 1e3,
        records=_records(progress["sources"], starts or {}),
        events=matched.get("read", 0),
        late=matched.get("late", 0),
        stamped=matched.get("stamped", 0),
        notifications=detected.get("count", 0),
        state_rows=detected.get("rows", 0),
        state_bytes=detected.get("bytes", 0),
        store_bytes=_store_bytes(progress["stateOperators"]),
        phases={name: durations[name] / 1e3 for name in _PHASES if name in durations},
        stages={"matching": matched.get("micros", 0) / 1e6, "detecting": detected.get("micros", 0) / 1e6},
    )


def _records(sources: Iterable[Mapping[str, Any]], starts: Mapping[str, int]) -> int:
    count = 0
    for source in sources:
        first, stop = _offsets(source["startOffset"]), _offsets(source["endOffset"])
        count += sum(end - first.get(lake, starts.get(lake, 0)) for lake, end in stop.items())
    return count


def _observed_sums(metrics: Mapping[str, Any]) -> Mapping[str, int]:
    """Sums by name; Spark Connect reports values and their schema instead."""
    if "schema" not in metrics:
        return metrics
    return dict(zip((field["name"] for field in metrics["schema"]["fields"]), metrics["values"], strict=True))


def _offsets(value: Mapping[str, int] | str | None) -> Mapping[str, int]:
    """Offsets by lake; Spark Connect reports them as text."""
    offsets = json.loads(value) if isinstance(value, str) else value
    return offsets or {}


def _store_bytes(operators: Iterable[Mapping[str, Any]]) -> int:
    return sum(operator.get("customMetrics", {}).get("rocksdbSstFileSize", 0) for operator in operators)
