"""Where Spark's Python workers come from, on this machine: forked from a process that has everything loaded.

A worker that begins empty spends seconds on loading the engine and its compiled kernels, and a query uses several. On a
cluster the package may come with a job, after this process has begun: there workers load by themselves.
"""

from __future__ import annotations

from pyspark.daemon import manager

from motet.spark.garbage import settle

MODULE = "motet.spark.daemon"

_PATTERNS = {
    "a": "a",
    "a BEFORE b WITHIN 5 s": "ab",
    "a AND b WITHIN 5 s": "ab",
    "a UNLESS b WITHIN 5 s": "ab",
    "a{2} WITHIN 5 s": "a",
}
_EVENT = "EVENT {0} {{ ?{0} <urn:room> ?room ; <urn:level> ?v{0} FILTER(?v{0} > 1) }}"


def load() -> None:
    """Let the kernels do a little of everything, so that they are there."""
    import pandas  # noqa: F401, PLC0415  (Spark's frames)

    from motet.engine.buckets import Buckets  # noqa: PLC0415
    from motet.engine.kernel import Kernel  # noqa: PLC0415
    from motet.language.parse import parse  # noqa: PLC0415
    from motet.model.tables import EventRow, event_batch, event_records  # noqa: PLC0415
    from motet.spark.stream import detecting, matching  # noqa: F401, PLC0415

    text = " ".join(
        f"SUBSCRIPTION s{number} {' '.join(map(_EVENT.format, names))} WHEN {pattern} SELECT ?room"
        for number, (pattern, names) in enumerate(_PATTERNS.items())
    )
    level = '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'
    events = [
        EventRow(f"urn:{n}", n, n, ((f"<urn:{n}>", "<urn:room>", "<urn:r>"), (f"<urn:{n}>", "<urn:level>", level)))
        for n in range(40)
    ]
    records = event_records(event_batch(events), 0)
    kernel = Kernel(lateness=0)
    kernel.begin(parse(text))
    kernel.advance(records)
    Kernel.load(kernel.dump())
    router = Kernel(lateness=0, buckets=Buckets(2))
    router.begin(parse(text))
    router.spread(records)


if __name__ == "__main__":
    load()
    settle()
    manager()
