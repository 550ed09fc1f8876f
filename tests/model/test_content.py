"""Digests of events' contents."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from motet.model.batches import EventRow, Triple, event_batch
from motet.model.content import content_digest, content_digests

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
