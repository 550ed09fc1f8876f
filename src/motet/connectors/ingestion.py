"""What every source does with its input: write dead letters for rejected events, append the others to the lake.

A source acknowledges its input only afterwards. After a crash it delivers the same input again, and the events that
are in the log already are dropped by their IRIs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from motet.codec.decode import decode_file
from motet.codec.events import Decoded, OnRejected
from motet.lake import Lake, Receipt
from motet.model.batches import EVENTS


@dataclass(frozen=True)
class IngestResult:
    """The outcome of one commit."""

    inputs: int  # files or messages that end with this commit
    receipt: Receipt
    rejected: int  # events


OnCommit = Callable[[IngestResult], object]


def ingest_decoded(lake: Lake, batches: Sequence[Decoded], on_rejected: OnRejected, *, inputs: int) -> IngestResult:
    """Append the decoded events of some inputs in one commit."""
    rejected = [error for batch in batches for error in batch.rejected]
    events = pa.Table.from_batches([batch.events for batch in batches], EVENTS)
    receipt = lake.append(events, partial=True)
    rejected += [rejection.to_error() for rejection in receipt.rejected]
    on_rejected(rejected)
    return IngestResult(inputs, receipt, len(rejected))


def ingest_files(
    lake: Lake, paths: Iterable[str], on_rejected: OnRejected, *, on_read: Callable[[int], object]
) -> Iterator[IngestResult]:
    """Append the events of files in order, a batch at a time; ``on_read`` gets the number of bytes just read."""
    for path in paths:
        for decoded in decode_file(path, on_read=on_read):
            yield ingest_decoded(lake, [decoded], on_rejected, inputs=0)
