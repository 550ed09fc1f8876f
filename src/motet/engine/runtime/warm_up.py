"""Compiles all kernels, or loads them from the cache, by processing a small log that needs each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from motet.codec.nquads_kernels import scan
from motet.engine.runtime.partitions import Router
from motet.engine.runtime.processor import Processor
from motet.jit.compiled import interpret_no_more
from motet.language.parse import parse
from motet.language.syntax import Context, Subscription
from motet.model.batches import EventRow, Records, event_batch, event_records
from motet.plan.partitioning import BucketLayout

_PATTERNS = {
    "a": "a",
    "a BEFORE b WITHIN 5 s": "ab",
    "a AND b WITHIN 5 s": "ab",
    "a UNLESS b WITHIN 5 s": "ab",
    "a{2} WITHIN 5 s": "a",
    "a+ EVERY 1 s WITHIN 5 s": "a",
}
_EVENT = "EVENT {0} {{ ?{0} <urn:room> ?room ; <urn:level> ?v{0} FILTER(?v{0} > 1) }}"
_SECOND = 1_000_000
_LEVEL = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'


def warm_up() -> None:
    """Process a small log with subscriptions that call every kernel; after it this process interprets none."""
    interpret_no_more()
    records = event_records(event_batch(map(_event, range(40))), 0)
    subscriptions = list(_subscriptions())
    processor = Processor()
    processor.activate(subscriptions)
    processor.advance(Records(columns=records), 40 * _SECOND)
    Processor.load(processor.dump())
    router = Router(BucketLayout(2))
    router.activate(subscriptions)
    router.route(records)
    scan(np.frombuffer(b"\n", np.uint8), first_line=1, max_line_bytes=1)


def _event(second: int) -> EventRow:
    id_, instant = f"urn:{second}", second * _SECOND
    properties = (("<urn:room>", "<urn:r>"), ("<urn:level>", _LEVEL))
    return EventRow(id_, instant, instant, tuple((f"<{id_}>", *pair) for pair in properties))


def _subscriptions() -> Iterator[Subscription]:
    for index, (pattern, names) in enumerate(_PATTERNS.items()):
        (subscription,) = parse(f"SUBSCRIPTION s {' '.join(map(_EVENT.format, names))} WHEN {pattern} SELECT ?room")
        yield from (replace(subscription, name=f"{context.value}-{index}", context=context) for context in Context)
