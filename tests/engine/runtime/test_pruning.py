"""State that can no longer contribute is pruned: its size follows the window, not the length of the stream."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from tests.builders import LogProcessor, committed

from motet.model.batches import RECORDS

WINDOW = 20  # events
SECOND = 1_000_000
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
PATTERNS = {
    **{f"BEFORE {context}": f"a BEFORE b WITHIN 20 s CONTEXT {context}"
       for context in ("unrestricted", "chronicle", "continuous", "cumulative")},
    "recent": "a BEFORE b WITHIN 20 s SELECT ?r",
    "AND": "a AND b WITHIN 20 s CONTEXT unrestricted SELECT ?r",
    "MEETS": "a MEETS b WITHIN 20 s CONTEXT chronicle",
    "ALONGSIDE and FILTER": "a ALONGSIDE b FILTER(?a != ?b) WITHIN 20 s CONTEXT continuous",
    "nested": "((a AND b WITHIN 9 s) BEFORE c WITHIN 20 s) CONTEXT chronicle SELECT ?r",
    "OR": "(a OR b) BEFORE c WITHIN 20 s CONTEXT unrestricted SELECT ?r",
    "UNLESS": "a UNLESS b WITHIN 20 s",
    "WITHOUT": "(a BEFORE c WITHIN 20 s) WITHOUT b CONTEXT unrestricted",
    "XOR": "a XOR b WITHIN 20 s",
    "NO": "NO a FOR 20 s",
    "counted": "a{5} WITHIN 20 s SELECT ?r",
    "counted in groups": "a{50} WITHIN 20 s CONTEXT chronicle SELECT ?r",
    "runs": "a+ EVERY 4 s WITHIN 20 s SELECT ?r",
    "derived": "a BEFORE b WITHIN 20 s CONTEXT cumulative CONSTRUCT { ?this <urn:room> ?r }",
    "graphs": "a BEFORE b WITHIN 20 s CONTEXT chronicle EVENTS",
}  # fmt: skip


def subscribe(pattern: str) -> pa.RecordBatch:
    used = sorted(set(re.findall(r"\b[abc]\b", pattern)))
    bodies = " ".join(f"EVENT {event} : <urn:{event.upper()}> {{ ?{event} <urn:room> ?r }}" for event in used)
    text = f"SUBSCRIPTION s {bodies} WHEN {pattern}"
    row = {"offset": 0, "kind": "subscribe", "id": "s", "late": False, "text": text, "triples": []}
    return pa.RecordBatch.from_pylist([row], RECORDS)


def stream(first: int, last: int) -> pa.RecordBatch:
    """One event a second, of three kinds in three rooms; the rooms are new ones in every tenth window."""
    rows = []
    for offset in range(first, last):
        event = f"<urn:e:{offset:08}>"
        room = f"<urn:room:{offset // (10 * WINDOW):06}-{offset % 7 % 3}>"
        triples = [(event, TYPE, f"<urn:{'ABC'[offset % 3]}>"), (event, "<urn:room>", room)]
        listed = [dict(zip(("subject", "predicate", "object"), triple, strict=True)) for triple in triples]
        instant = offset * SECOND
        row = {"offset": offset, "kind": "event", "id": event[1:-1], "start": instant, "end": instant}
        rows.append({**row, "late": False, "triples": listed})
    return pa.RecordBatch.from_pylist(rows, RECORDS)


STREAM = stream(1, 1000 * WINDOW)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_state_stays_as_large_as_its_window(pattern: str) -> None:
    """After a thousand windows the state is no larger than after ten."""
    processor = LogProcessor()
    processor.commit(subscribe(pattern))
    sizes = []
    for begin, end in ((0, 10), (10, 500), (500, 1000)):
        processor.commit(STREAM.slice(begin * WINDOW, (end - begin) * WINDOW))
        sizes.append(len(processor.dump()))
    assert max(sizes) <= 2 * sizes[0]


def contents(notifications: pa.RecordBatch) -> list[str]:
    """Everything but the subscription and the emission offset."""
    return sorted(map(str, notifications.select(["start", "end", "events", "bindings"]).to_pylist()))


def test_a_long_backfill_is_complete() -> None:
    """The results of a backfill survive that the dictionary is compacted while it runs."""
    pattern = "a BEFORE b WITHIN 9 s CONTEXT chronicle SELECT ?a ?r"
    at_once, later = LogProcessor(), LogProcessor(earlier_records=lambda _: [committed(STREAM)])
    at_once.commit(subscribe(pattern))
    expected = at_once.commit(STREAM)
    later.commit(subscribe(pattern))
    later.commit(STREAM)
    row = subscribe(pattern).to_pylist()[0]
    text = row["text"].replace("SUBSCRIPTION s", 'SUBSCRIPTION t SINCE "1970-01-01T00:00:00Z"')
    since = {**row, "offset": 1000 * WINDOW, "id": "t", "text": text}
    found = later.commit(pa.RecordBatch.from_pylist([since], RECORDS))
    assert len(found) > 1000
    assert contents(found) == contents(expected)
