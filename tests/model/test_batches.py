"""Between Arrow batches and Python values; the digests of contents."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from motet.model.batches import (
    EVENTS,
    NOTIFICATIONS,
    EventRow,
    RecordRow,
    Records,
    Triple,
    content_digest,
    content_digests,
    event_batch,
    event_rows,
    notification_batch,
    notification_rows,
    stamp,
)
from motet.model.notifications import Notification
from motet.model.times import END_OF_TIME, START_OF_TIME

SOURCE = Path(__file__).parent.parent.parent / "src" / "motet"
TIMES = st.integers(START_OF_TIME, END_OF_TIME)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NOTIFICATION = st.builds(
    Notification,
    WORDS,
    TIMES,
    TIMES,
    st.lists(WORDS, max_size=3).map(tuple),
    st.lists(st.tuples(WORDS, WORDS), max_size=3).map(tuple),
    st.none() | st.lists(WORDS, max_size=2).map(tuple),
    st.none() | st.lists(WORDS, max_size=2).map(tuple),
)


@given(st.lists(st.tuples(NOTIFICATION, st.integers(0, 2**62)), max_size=4))
def test_notifications_survive_the_table(emitted: list[tuple[Notification, int]]) -> None:
    """A notification read from the table is the one that was written."""
    batch = notification_batch(emitted)
    assert batch.schema == NOTIFICATIONS
    assert list(notification_rows(batch)) == emitted


def test_event_rows_and_stamping() -> None:
    """An event without a time gets the time of arrival, others keep theirs."""
    triple = {"subject": "<urn:s>", "predicate": "<urn:p>", "object": '"o"'}
    rows = [
        {"id": "urn:e:1", "start": None, "end": None, "triples": [triple], "line": 1},
        {"id": "urn:e:2", "start": 3, "end": 4, "triples": [], "line": 2},
    ]
    events = pa.RecordBatch.from_pylist(rows, schema=EVENTS)
    assert list(event_rows(events)) == [
        EventRow("urn:e:1", None, None, (("<urn:s>", "<urn:p>", '"o"'),)),
        EventRow("urn:e:2", 3, 4, ()),
    ]
    assert [(row.start, row.end) for row in event_rows(stamp(events, 9))] == [(9, 9), (3, 4)]


def test_a_batch_is_converted_once() -> None:
    """The other form is made when it is first read, and is the same object afterwards."""
    rows = [RecordRow(7, "event", "urn:e", 1, 2, None, False, None, ())]
    batch = Records(rows=rows)
    assert batch.rows is rows and batch.columns is batch.columns
    assert Records(columns=batch.columns).rows == rows


def test_only_one_module_distinguishes_the_forms_of_a_batch() -> None:
    """The engine and its embedded host have no `isinstance` on batches."""
    forms = re.compile(r"isinstance\([^()]*(RecordBatch|pa\.Table|Records|NotificationBatch)")
    sources = (path for package in ("engine", "embedded") for path in (SOURCE / package).rglob("*.py"))
    found = [path.name for path in sources if forms.search(path.read_text())]
    assert found == []


TERMS = st.sampled_from(["<urn:a>", "<urn:b>", '"1"', '"é"'])
PREDICATES = st.sampled_from(["<urn:p>", "<urn:q>", "<urn:cloudevents:attribute:time>"])
GRAPHS = st.lists(st.tuples(TERMS, PREDICATES, TERMS), max_size=4, unique=True)


@given(st.lists(GRAPHS, max_size=6), st.integers(0, 6))
def test_columns_have_the_digests_of_rows(graphs: list[list[Triple]], first: int) -> None:
    """Batches, also slices of them, give the digest of each event."""
    rows = [EventRow(f"urn:{n}", None, None, tuple(graph)) for n, graph in enumerate(graphs)]
    batch = event_batch(rows).slice(first)
    assert content_digests(batch) == [content_digest(graph) for graph in graphs[first:]]


def test_the_digest_is_data() -> None:
    """Digests are stored: SHA-256 of the sorted triples, a line each, without CloudEvents attributes."""
    graph = [("<urn:s>", "<urn:p>", '"2"'), ("<urn:s>", "<urn:p>", '"1"')]
    attribute = ("<urn:s>", "<urn:cloudevents:attribute:time>", '"t"')
    expected = hashlib.sha256(b'<urn:s> <urn:p> "1"\n<urn:s> <urn:p> "2"').digest()
    assert content_digest(graph) == content_digest([attribute, *reversed(graph)]) == expected
