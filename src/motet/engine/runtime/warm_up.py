"""Has every kernel compiled, or loaded from where it is kept, by reading a small log that needs each of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

from motet.engine.runtime.processor import Processor
from motet.engine.runtime.routing import BucketLayout
from motet.jit.compiled import is_cached
from motet.language.parse import parse
from motet.language.syntax import Context, Subscription
from motet.model.batches import EventRow, event_batch, event_records

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
    """Let the kernels do a little of everything."""
    records = event_records(event_batch(map(_event, range(40))), 0)
    subscriptions = list(_subscriptions())
    kernel = Processor(lateness=0)
    kernel.activate(subscriptions)
    kernel.advance(records)
    Processor.load(kernel.dump())
    router = Processor(lateness=0, layout=BucketLayout(2))
    router.activate(subscriptions)
    router.route(records)


def _event(second: int) -> EventRow:
    id_, instant = f"urn:{second}", second * _SECOND
    said = (("<urn:room>", "<urn:r>"), ("<urn:level>", _LEVEL))
    return EventRow(id_, instant, instant, tuple((f"<{id_}>", *one) for one in said))


def _subscriptions() -> Iterator[Subscription]:
    for number, (pattern, names) in enumerate(_PATTERNS.items()):
        (one,) = parse(f"SUBSCRIPTION s {' '.join(map(_EVENT.format, names))} WHEN {pattern} SELECT ?room")
        yield from (replace(one, name=f"{context.value}-{number}", context=context) for context in Context)


log = logging.getLogger("motet")


def ensure_compiled() -> None:
    """Compile the kernels, unless they are kept from an earlier process or there is nowhere to keep them."""
    if not is_cached("motet.engine"):
        log.warning("compiling the kernels, once on this machine: about half a minute")
        warm_up()
